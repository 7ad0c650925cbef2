#!/bin/sh
# A chain of logs, exactly once: log A -> server -> sc-sub -> jq -> log B, killed (kill -9) again and again.
# B keeps, in the same commit as the rows, how far it is in A (--source A); the chain goes on from there.
set -eu
# shellcheck source=examples/common
. "$(dirname "$0")/common"

rows=20000
export A="$work/A" B="$work/B"
sc-log create "$A"
sc-log create "$B"
serve "$A"
export url

# The chain as it would stand in a script that a service manager restarts: the even numbers, twice. Lines keep their
# offset in front, so that B knows it.
# shellcheck disable=SC2016 # for the shell that runs it
chain='sc-sub --after "$(sc-log source "$B" A)" "$url/A" |
	jq --unbuffered -c "select(.[1].n % 2 == 0) | [.[0], {n: .[1].n, twice: (.[1].n * 2)}]" |
	sc-log append --quiet --source A "$B"'

# A grows for some seconds.
for start in $(seq 1 500 $rows); do
	seq "$start" $((start + 499)) | sed 's/.*/{"n":&}/'
	sleep 0.1
done | sc-log append --quiet "$A" &
started $!

at() { sc-log source "$B" A; }
beyond() { [ "$(at)" -gt "$1" ]; }

for round in 1 2 3 4 5 6; do
	before=$(at)
	setsid sh -c "$chain" 2>>"$work/chain.err" & # a process group of its own
	link=$!
	started "$link"
	if [ "$round" -lt 6 ]; then
		await "the chain to move" beyond "$before"
		kill -9 "-$link" || : # all of its programs at once, wherever they are
	else
		await "B to have all of A" beyond $((rows - 1))
		kill -TERM "-$link" || :
	fi
	wait "$link" 2>/dev/null || :
	echo "round $round: from $before to $(at)"
done

# Every even number is in B once, in order.
sc-log read "$B" --payload | jq .n >"$work/got"
seq 2 2 $rows >"$work/wanted"
cmp "$work/got" "$work/wanted" || give_up "B does not hold A exactly"
sc-log verify "$B" >/dev/null
echo "B holds $((rows / 2)) rows, each once"
