#!/bin/sh
# Fan-out: one endpoint a node, and each gets a copy of its own. A subscription belongs to the endpoint: a node that was away finds
# what came meanwhile.
set -eu
# shellcheck source=examples/common
. "$(dirname "$0")/common"

broker --no-state

node a sub prices 'EUR*' --endpoint a --format data
node b sub prices 'EUR*' --endpoint b --format data
b=$node
printf '%s\n' '["prices","EURUSD",1.0712]' '["prices","JPYUSD",0.0065]' | sc-node pub
await "the first price" holds "$work/a.out" 1
await "the first price" holds "$work/b.out" 1

# b leaves, and misses nothing.
kill "$b"
wait "$b" || :
cp "$work/b.out" "$work/before"
sc-node pub prices EURUSD 1.0715
sc-node pub prices EURGBP 0.8402
await "the others" holds "$work/a.out" 3
node b sub prices 'EUR*' --endpoint b --format data
await "what came meanwhile" holds "$work/b.out" 2

cat "$work/before" "$work/b.out" | cmp - "$work/a.out" || give_up "a and b did not get the same"
cat "$work/a.out"

# No more of it for a.
sc-node ctl unsubscribe a 'pri*'
sc-node pub prices EURUSD 1.0719
await "the last one" holds "$work/b.out" 3
[ "$(wc -l <"$work/a.out")" -eq 3 ] || give_up "a still gets prices"
