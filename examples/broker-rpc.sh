#!/bin/sh
# Requests and replies: by reference, which sc-node does by itself; and on a channel that both know, told apart by subject.
set -eu
# shellcheck source=examples/common
. "$(dirname "$0")/common"

broker --no-state

# By reference. Nobody serves, somebody does, somebody fails.
status=0
sc-node request rpc order.get.request 42 2>"$work/nobody.words" || status=$?
[ "$status" -eq 81 ] || give_up "a request that nobody serves gave status $status"
cat "$work/nobody.words"

cat >"$work/serve.sh" <<'W'
read -r id
[ "$id" -gt 0 ] || { echo "no such order: $id" >&2; exit 3; }
echo "{\"id\":$id,\"state\":\"paid\",\"asked\":\"$SC_SUBJECT\"}"
W
node server reply rpc 'order.*.request' --endpoint api -- sh "$work/serve.sh"
sc-node ctl channel priority rpc 99
sc-node ctl endpoint size api 10

sc-node request rpc order.get.request 42 --timeout 20s | tee "$work/reply"
[ "$(jq -r .state "$work/reply")" = paid ] || give_up "the reply is another one"
status=0
sc-node request rpc order.get.request 0 --timeout 20s 2>"$work/exception" || status=$?
[ "$status" -eq 1 ] || give_up "a request that failed gave status $status"
jq -e '.exit == 3' "$work/exception" >/dev/null || give_up "the exception is another one"
cat "$work/exception"

# On a known channel: the reference says which order a message is about, the subject how it went.
cat >"$work/work.sh" <<'W'
jq -c --arg uid "$SC_UID" 'if .id > 0 then ["order", "created", $uid, 4711] else ["order", "exception", $uid, "no id"] end' |
	sc-node pub
W
node caller sub order created --also 'order exception' --count 2
caller=$node
node worker sub order submitted --format data --exec "sh '$work/work.sh'"
printf '%s\n' '["order","submitted",{"id":42}]' '["order","submitted",{"id":0}]' | sc-node pub
wait "$caller"
jq -c '[.subject, .data]' "$work/caller.out"
