#!/bin/sh
# The main job in a minute, on a local feed: capture, log, fan out, resume, replay. `make demo` runs it.
# The programs are taken from PATH, else from the build.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
command -v sc-log >/dev/null || PATH=$here/../build/bin:$PATH
command -v sc-log >/dev/null || {
	echo "demo: sc-log is not in PATH and not in build/bin: make builds it" >&2
	exit 1
}
work=$(mktemp -d "${TMPDIR:-/tmp}/sc-demo.XXXXXX")
pids=

cleanup() {
	trap - EXIT INT TERM
	for pid in $pids; do
		kill "$pid" 2>/dev/null || :
	done
	for pid in $pids; do
		wait "$pid" 2>/dev/null || :
	done
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }
show() { printf '  $ %s\n' "$*"; }

# until the file holds something, for ten seconds at most
await() {
	n=0
	until [ -s "$1" ]; do
		n=$((n + 1))
		if [ "$n" -gt 200 ]; then
			echo "demo: gave up waiting for $1" >&2
			cat "$work"/*.err >&2 2>/dev/null || :
			exit 1
		fi
		sleep 0.05
	done
}

say "A local feed in the shape of an exchange's, 20 trades a second"
python3 "$here/feed.py" 0 20 >"$work/feed.url" 2>"$work/feed.err" &
pids="$pids $!"
await "$work/feed.url"
feed=$(cat "$work/feed.url")
echo "  $feed"

say "1. A log with a schema, and a capture that fills it"
show "sc-log create trades --schema trades.schema.json"
sc-log create "$work/trades" --schema "$here/trades.schema.json"
show "sc-capture $feed --send '{\"event\":\"bts:subscribe\",…}' --map 'select(.event==\"trade\") | .data | {…}' | sc-log append --quiet trades"
mkfifo "$work/rows"
sc-capture "$feed" --send '{"event":"bts:subscribe","data":{"channel":"live_trades_btcusd"}}' \
	--map 'select(.event=="trade") | .data | {event_ts:(.microtimestamp|tonumber),price,amount,side:.type}' \
	>"$work/rows" 2>"$work/capture.err" &
pids="$pids $!"
sc-log append --quiet "$work/trades" <"$work/rows" 2>"$work/append.err" &
pids="$pids $!"

say "2. A server that follows the log"
show "sc-serve trades"
sc-serve --listen 127.0.0.1:0 --ready-fd 3 "$work/trades" 3>"$work/ready" 2>"$work/serve.err" &
server=$!
pids="$pids $server"
await "$work/ready"
port=$(sed 's/.*"port":\([0-9]*\).*/\1/' "$work/ready")
url=ws://127.0.0.1:$port/trades
echo "  $url"

say "3. A subscriber from the first row on, with a cursor: rows arrive as they are traded"
show "sc-sub $url --offset earliest --cursor c --count 5"
sc-sub "$url" --offset earliest --cursor "$work/c" --count 5 | sed 's/^/  /'

say "4. The same subscriber comes back: it goes on where it stopped (cursor: $(cat "$work/c"))"
show "sc-sub $url --cursor c --count 5"
sc-sub "$url" --cursor "$work/c" --count 5 | sed 's/^/  /'

say "5. Kill the server (kill -9) while a subscriber listens, start it again: no row is missing"
sc-sub "$url" --offset earliest --count 40 >"$work/live" 2>"$work/sub.err" &
sub=$!
pids="$pids $sub"
await "$work/live"
kill -9 "$server"
wait "$server" 2>/dev/null || :
sc-serve --listen "127.0.0.1:$port" --ready-fd 3 "$work/trades" 3>"$work/ready2" 2>>"$work/serve.err" &
pids="$pids $!"
await "$work/ready2"
wait "$sub"
echo "  $(wc -l <"$work/live") rows, offsets $(sed -n '1s/^\[\([0-9]*\),.*/\1/p' "$work/live") to $(sed -n '$s/^\[\([0-9]*\),.*/\1/p' "$work/live")"

say "6. Replay: what the subscriber got is what the log holds, byte for byte"
show "sc-log read trades --to 40"
sc-log read "$work/trades" --to 40 >"$work/read"
cmp "$work/live" "$work/read"
tail -n 3 "$work/read" | sed 's/^/  /'
echo "  identical"

say "7. The log proves itself"
show "sc-log verify trades"
sc-log verify "$work/trades" | sed 's/^/  /'

say "Done. All of it was in $work, which is gone now; README.md goes on from here."
