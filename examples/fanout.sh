#!/bin/sh
# A stream without a log: lines of standard input to several subscribers. Nothing is kept; who is there gets it.
set -eu
# shellcheck source=examples/common
. "$(dirname "$0")/common"

mkfifo "$work/lines"
sc-serve --listen 127.0.0.1:0 --ready-fd 3 news=- <"$work/lines" 3>"$work/ready" 2>"$work/serve.err" &
server=$!
started "$server"
exec 4>"$work/lines" # open until we close it
await "the server" test -s "$work/ready"
url=ws://127.0.0.1:$(jq .port "$work/ready")

for who in 1 2 3; do
	sc-sub "$url/news" >"$work/got.$who" 2>"$work/sub.$who.err" 4>&- &
	started $!
done
three() { [ "$(curl -s "http${url#ws}/stats" | jq '.streams[0].subscribers')" -eq 3 ]; }
await "three subscribers" three

echo '{"headline":"one"}' >&4
echo 'a line that is not JSON' >&4
echo '[7,{"headline":"from another stream"}]' >&4

for who in 1 2 3; do
	await "subscriber $who" holds "$work/got.$who" 3
	cmp "$work/got.$who" - <<'W' || give_up "subscriber $who did not get what was sent"
[null,{"headline":"one"}]
[null,{"$text":"a line that is not JSON"}]
[null,{"headline":"from another stream"}]
W
done
cat "$work/got.1"

# Offsets mean nothing here, and are refused.
status=0
sc-sub "$url/news" --offset 1 2>"$work/refused" || status=$?
[ "$status" -eq 79 ] || give_up "an offset gave status $status"
tail -n 1 "$work/refused"

# The end of the input ends the stream, and the server.
exec 4>&-
wait "$server" || give_up "the server ended with status $?"
echo "the stream has ended"
