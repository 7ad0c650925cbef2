#!/bin/sh
# Streams over HTTP: made, appended to, followed, forked, and read on from where one stopped; a lost server loses nothing.
set -eu
# shellcheck source=examples/common
. "$(dirname "$0")/common"

# streams: the server, on the port of before if there was one; sets server and url
streams() {
	rm -f "$work/ready"
	sc-streams --listen "127.0.0.1:${port:-0}" --ready-fd 3 "$work/streams" 3>"$work/ready" 2>>"$work/streams.err" &
	server=$!
	started "$server"
	await "the server" test -s "$work/ready"
	port=$(jq .port "$work/ready")
	url=http://127.0.0.1:$port/v1/stream
}
ask() { curl -sS -f -m 20 "$@"; }
# next: the offset to go on from, of the answer whose head is in the file head
next() { tr -d '\r' <"$work/head" | sed -n 's/^Stream-Next-Offset: //p'; }
json='Content-Type: application/json'

streams
ask -X PUT -H "$json" "$url/chat/1"
ask -H "$json" --data '[{"m":1},{"m":0.10}]' "$url/chat/1"

# What is there; the answer's head says where it ends.
ask -D "$work/head" "$url/chat/1?offset=-1"
echo
offset=$(next)

# A reader follows, by server-sent events.
curl -sN -m 60 "$url/chat/1?offset=-1&live=sse" >"$work/events" &
reader=$!
started "$reader"
await "the reader" grep -q '"upToDate":true' "$work/events"
ask -H "$json" --data '{"m":3}' "$url/chat/1"
await "the third message" grep -qF 'data:[{"m":3}]' "$work/events"
sed -n 's/^data:\[/followed: [/p' "$work/events"

# A fork has what is in front of the offset, without a copy, and goes its own way.
ask -X PUT -H "$json" -H "Stream-Forked-From: /v1/stream/chat/1" -H "Stream-Fork-Offset: $offset" "$url/chat/other"
ask -H "$json" --data '{"m":"another way"}' "$url/chat/other"
ask "$url/chat/other?offset=-1"
echo

# The server is killed, and a writer that got no answer sends again: with a producer's numbers it is stored once.
append() { ask -o /dev/null -w '%{http_code}\n' -H "$json" -H "Producer-Id: me" -H "Producer-Epoch: 0" -H "Producer-Seq: 0" --data '{"m":4}' "$url/chat/1"; }
append
kill -9 "$server"
wait "$server" 2>/dev/null || :
streams
append

# Reading on from the offset that was kept: the rest, once.
rest=$(ask "$url/chat/1?offset=$offset")
echo "$rest"
[ "$rest" = '[{"m":3},{"m":4}]' ] || give_up "reading on gave $rest"

# Closed, so that readers know that nothing will follow.
ask -X POST -H 'Stream-Closed: true' "$url/chat/1"
ask -D "$work/head" -o /dev/null "$url/chat/1?offset=-1"
grep -qi '^stream-closed: true' "$work/head" || give_up "the stream is not closed"
sc-streams ls "$work/streams"
sc-streams verify "$work/streams"
