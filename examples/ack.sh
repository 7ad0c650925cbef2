#!/bin/sh
# --ack-fd: the consumer says which rows it has finished, here every fifth one. It dies in between; what was not
# acknowledged comes again, nothing else does.
set -eu
# shellcheck source=examples/common
. "$(dirname "$0")/common"

sc-log create "$work/rows"
seq 1 23 | sc-log append --quiet "$work/rows"
serve "$work/rows"
mkfifo "$work/acks"

# consume FILE DIES_AFTER: collects rows in groups of five and writes back the offset of each group's last row
consume() {
	n=0
	while IFS= read -r line; do
		n=$((n + 1))
		[ "$n" -le "$2" ] || exit 0 # as if it had crashed
		echo "$line" >>"$1"
		offset=${line#\[}
		offset=${offset%%,*}
		if [ $((n % 5)) -eq 0 ] || [ "$offset" -eq 23 ]; then
			echo "$offset" >"$work/acks"
		fi
	done
}

# Descriptor 3 is open both ways, so that neither side waits for the other to open the fifo.
sc-sub "$url/rows" --cursor "$work/cursor" --offset earliest --until-end --ack-fd 3 3<>"$work/acks" |
	consume "$work/first" 12
echo "first run: rows 1 to $(wc -l <"$work/first"), acknowledged up to $(cat "$work/cursor")"
[ "$(cat "$work/cursor")" -eq 10 ] || give_up "the cursor is not at the last acknowledged row"

sc-sub "$url/rows" --cursor "$work/cursor" --until-end --ack-fd 3 3<>"$work/acks" |
	consume "$work/second" 100
echo "second run: rows 11 to 23, acknowledged up to $(cat "$work/cursor")"
sc-log read "$work/rows" --from 11 | cmp - "$work/second" || give_up "the rows after the last acknowledged one did not come"
[ "$(cat "$work/cursor")" -eq 23 ] || give_up "the cursor is not at the end"
