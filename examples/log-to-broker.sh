#!/bin/sh
# From a log into a broker's channel. The cursor moves when the broker holds the rows, so none is left out; a bridge that is killed
# (kill -9) between the two sends its last rows again. Each message has its row's offset, by which a receiver knows a row that it
# had; from the broker on delivery is at most once.
set -eu
# shellcheck source=examples/common
. "$(dirname "$0")/common"

broker --no-state
rows=300
sc-log create "$work/orders"
seq $rows | sed 's/.*/{"order":&}/' | sc-log append --quiet "$work/orders"
serve "$work/orders"

node receiver sub orders --endpoint receiver --format data

# [offset,row] is a message with both in its data.
bridge() {
	sc-sub "$url/orders" --cursor "$work/cursor" --offset earliest --exec-rows 20 \
		--exec 'jq -c "[\"orders\", \"row\", {offset: .[0], row: .[1]}]" | sc-node pub' 2>>"$work/bridge.err" &
	bridge=$!
	started "$bridge"
}
at() { cat "$work/cursor" 2>/dev/null || echo 0; }
beyond() { [ "$(at)" -gt "$1" ]; }

for kill in 1 2 3; do
	before=$(at)
	bridge
	await "the bridge to move" beyond "$before"
	kill -9 "$bridge"
	wait "$bridge" 2>/dev/null || :
	echo "kill $kill: the cursor is at $(at)"
done
bridge
await "the end of the log" beyond $((rows - 1))

# The receiver: a row whose offset is not above the last one came again.
has_all() { [ "$(jq -r .offset "$work/receiver.out" | sort -nu | wc -l)" -eq $rows ]; }
await "the receiver" has_all
jq -nc 'foreach inputs as $m ({last: 0}; if $m.offset > .last then {last: $m.offset, row: $m.row} else {last} end; .row // empty)' \
	"$work/receiver.out" >"$work/got"
echo "$(wc -l <"$work/receiver.out") messages for $rows rows"
sc-log read "$work/orders" --payload | cmp - "$work/got" || give_up "the receiver does not have the log"
