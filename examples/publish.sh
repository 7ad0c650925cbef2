#!/bin/sh
# Publishing over the wire, exactly once: a stream of one server is copied to another by sc-sub | sc-pub, which is killed
# (kill -9) again and again. The server that it publishes to knows how far the copy is.
set -eu
# shellcheck source=examples/common
. "$(dirname "$0")/common"

rows=20000
sc-log create "$work/A"
sc-log create "$work/B"
serve --publish "$work/A" "$work/B"
export url

# A grows for some seconds.
for start in $(seq 1 500 $rows); do
	seq "$start" $((start + 499)) | sed 's/.*/{"n":&}/'
	sleep 0.1
done | sc-log append --quiet "$work/A" &
started $!

# shellcheck disable=SC2016 # for the shell that runs it
chain='sc-sub --after "$(sc-pub --last --producer copy "$url/B")" "$url/A" |
	sc-pub --quiet --producer copy --batch 20 "$url/B"'

at() { sc-pub --last --producer copy "$url/B"; }
beyond() { [ "$(at)" -gt "$1" ]; }

for round in 1 2 3 4 5 6; do
	before=$(at)
	setsid sh -c "$chain" 2>>"$work/chain.err" & # a process group of its own
	link=$!
	started "$link"
	if [ "$round" -lt 6 ]; then
		await "the copy to move" beyond "$before"
		kill -9 "-$link" || : # both programs at once, wherever they are
	else
		await "the copy to be whole" beyond $((rows - 1))
		kill -TERM "-$link" || :
	fi
	wait "$link" 2>/dev/null || :
	echo "round $round: from $before to $(at)"
done

# Every row is in B once, in order.
sc-log read "$work/A" --payload >"$work/wanted"
sc-log read "$work/B" --payload >"$work/got"
cmp "$work/got" "$work/wanted" || give_up "B does not hold A exactly"
echo "B holds $rows rows, each once"
