#!/bin/sh
# A feed whose messages change shape, are cut, or are no JSON at all: --map makes rows of those that fit, --raw keeps the
# others as text, so that the capture holds every message and a better program can be run over it later.
set -eu
# shellcheck source=examples/common
. "$(dirname "$0")/common"

# The frames that a bad day brings; sc-serve without a log plays the feed.
cat >"$work/frames" <<'F'
{"event":"trade","data":{"id":1,"price":0.10,"amount":5}}
{"event":"heartbeat"}
pong
{"event":"trade","data":{"id":2,"price":
{"event":"trade","data":{"id":9007199254740993,"price":8.394607e4,"amount":1e-8}}
{"event":"trade","data":{"id":3,"price":null,"amount":1}}
{"event":"trade","data":{"id":4,"price":"12.5","amount":1}}
F
cat >"$work/schema.json" <<'S'
{
  "type": "object",
  "properties": {
    "at": {"type": "integer"},
    "id": {"type": ["integer", "null"]},
    "price": {"type": ["number", "null"]},
    "amount": {"type": ["number", "null"]},
    "raw": {"type": ["string", "null"]}
  },
  "required": ["at"]
}
S
sc-log create "$work/trades" --schema "$work/schema.json"

mkfifo "$work/lines"
sc-serve --listen 127.0.0.1:0 --ready-fd 3 feed=- <"$work/lines" 3>"$work/ready" 2>"$work/serve.err" &
server=$!
started "$server"
exec 4>"$work/lines"
await "the server" test -s "$work/ready"
url=ws://127.0.0.1:$(jq .port "$work/ready")

# [null,FRAME] is how this feed sends its frames; the greeting is the first one. select(...) drops nothing here: what is not a
# trade gives no row, and goes to "raw".
sc-capture "$url/feed" --count 8 --stamp at --raw raw --map '
	if type == "array" then .[1] | select(.event == "trade") | .data
		| if .price | type == "string" then .price |= tonumber else . end
		| {id, price, amount}
	else empty end' 2>"$work/capture.err" 4>&- | sc-log append --quiet "$work/trades" 4>&- &
capture=$!
started "$capture"
subscribed() { [ "$(curl -s "http${url#ws}/stats" | jq '.streams[0].subscribers')" -eq 1 ]; }
await "the capture" subscribed
cat "$work/frames" >&4
wait "$capture"

sc-log read "$work/trades" --payload | sed 's/"at":[0-9]*,//' | tee "$work/rows"
[ "$(wc -l <"$work/rows")" -eq 8 ] || give_up "a message is missing"
[ "$(grep -c '"raw":null' "$work/rows")" -eq 4 ] || give_up "not four rows of trades"
grep -q '^{"id":9007199254740993,"price":8.394607e4,"amount":1e-8,' "$work/rows" || give_up "a number was spelled anew"
grep -q 'pong' "$work/rows" || give_up "the text was not kept"

# Later: the greeting and the rest, as they came.
sc-log read "$work/trades" --where '.raw != null' --payload | jq -r .raw >"$work/kept"
[ "$(wc -l <"$work/kept")" -eq 4 ] || give_up "not four messages as text"
