#!/bin/sh
# Direct delivery: a channel for each node by its name, one for all of them. A message reaches an endpoint once, however many of its
# subscriptions it fits.
set -eu
# shellcheck source=examples/common
. "$(dirname "$0")/common"

broker --no-state

node n7 sub node.n7 --also nodes --also 'node.*' --endpoint n7 --format array # everything that is sent to one node, too
node n8 sub node.n8 --also nodes --endpoint n8 --format array

sc-node pub node.n7 hello '"to n7"'
sc-node pub node.n8 hello '"to n8"'
sc-node pub nodes reload

await "n7" holds "$work/n7.out" 3
await "n8" holds "$work/n8.out" 2
echo "n7 got:"
cat "$work/n7.out"
echo "n8 got:"
cat "$work/n8.out"
printf '%s\n' '["node.n7","hello","to n7"]' '["node.n8","hello","to n8"]' '["nodes","reload",null]' | cmp - "$work/n7.out"
printf '%s\n' '["node.n8","hello","to n8"]' '["nodes","reload",null]' | cmp - "$work/n8.out"
