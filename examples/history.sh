#!/bin/sh
# Reading a log by offset, by time, from its end, by content, and while it grows.
set -eu
# shellcheck source=examples/common
. "$(dirname "$0")/common"

log=$work/trades
sc-log create "$log"
seq 1 100 | sed 's/.*/{"n":&,"price":0.10}/' | sc-log append --quiet "$log"
between=$(date -u +%Y-%m-%dT%H:%M:%S.%NZ | sed 's/\(\.......\)[0-9]*Z/\1Z/')
seq 101 200 | sed 's/.*/{"n":&,"price":1e2}/' | sc-log append --quiet "$log"

# expect WHAT COUNT FIRST LAST: of the lines in $work/out
expect() {
	first=$(sed -n '1s/^\[\([0-9]*\),.*/\1/p' "$work/out")
	last=$(sed -n '$s/^\[\([0-9]*\),.*/\1/p' "$work/out")
	echo "$1: $(wc -l <"$work/out") rows, $first to $last"
	[ "$(wc -l <"$work/out") $first $last" = "$2 $3 $4" ] || give_up "$1: not $2 rows, $3 to $4"
}

sc-log read "$log" --from 20 --to 29 >"$work/out"
expect "from 20 to 29" 10 20 29

sc-log read "$log" --last 5 >"$work/out"
expect "the last 5" 5 196 200

sc-log read "$log" --since "$between" >"$work/out"
expect "since $between" 100 101 200

sc-log read "$log" --until "$between" >"$work/out"
expect "before it" 100 1 100

sc-log read "$log" --since 10m --where '.n % 50 == 0' >"$work/out"
expect "of the last ten minutes, every fiftieth" 4 50 200
cat "$work/out" # in their own bytes: 0.10 and 1e2

sc-log read "$log" --from 199 --follow --count 4 >"$work/out" &
reader=$!
started "$reader"
await "the reader" holds "$work/out" 2
printf '{"n":201}\n{"n":202}\n' | sc-log append --quiet "$log"
wait "$reader"
expect "following from 199" 4 199 202

# An exact copy, offsets and all, from any point on.
sc-log create "$work/copy"
sc-log read "$log" --from 100 | sc-log append --quiet --mirror "$work/copy"
[ "$(sc-log verify "$log" --from 100 | cut -d ' ' -f 1)" = "$(sc-log verify "$work/copy" | cut -d ' ' -f 1)" ] ||
	give_up "the copy has another hash"
echo "the copy has the same hash"
