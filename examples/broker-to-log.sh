#!/bin/sh
# From a broker's channel into a log. A broker delivers at most once, so the bridge can lose a message and never doubles one: the
# broker lets go of a message when it hands it over, and the bridge acknowledges it when it is on disk. Killed (kill -9) in
# between, it loses the one that it holds; what waits at its endpoint is there when it comes back.
set -eu
# shellcheck source=examples/common
. "$(dirname "$0")/common"

broker --no-state
export LOG="$work/orders"
sc-log create "$LOG"

# --exec: one commit a message, acknowledged after it. Where speed matters more than the last messages before a crash:
#     sc-node sub orders --endpoint archive --format data | sc-log append --quiet "$LOG"
# commits what is there at once, and acknowledges what is in the pipe.
bridge() {
	# shellcheck disable=SC2016 # for the shell that runs it
	node bridge sub orders --endpoint archive --format data --exec 'sc-log append --quiet "$LOG"'
}

messages=60
rows() { sc-log read "$LOG" --payload | wc -l; }
beyond() { [ "$(rows)" -gt "$1" ]; }
drained() { [ "$(sc-node ctl stats | jq '.per_endpoint.archive | .queued + .waiting_ack')" = 0 ]; }

bridge
seq $messages | jq -c '["orders","submitted",{order: .}]' | sc-node pub
for kill in 1 2; do
	await "the bridge to move" beyond "$(rows)"
	kill -9 "$node"
	wait "$node" 2>/dev/null || :
	echo "kill $kill: $(rows) in the log"
	bridge
done
await "the queue to be empty" drained

sc-log read "$LOG" --payload | jq .order >"$work/got"
sort -n "$work/got" | uniq -d | cmp - /dev/null || give_up "an order is in the log twice"
got=$(wc -l <"$work/got")
[ "$got" -ge $((messages - 2)) ] || give_up "more than one message was lost for each kill: $got of $messages are there"
echo "$got of $messages in the log, none twice"
