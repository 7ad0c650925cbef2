#!/bin/sh
# Rows that a log has no longer: from its archive, with a server and without one.
set -eu
# shellcheck source=examples/common
. "$(dirname "$0")/common"

log=$work/trades
mkdir "$work/backup"
sc-log create "$log" --journal-size 64K
seq 1 30000 | sed 's/.*/{"n":&,"price":0.10}/' | sc-log append --quiet --batch-rows 500 "$log"
sc-log read "$log" >"$work/all"

# Everything goes to the archive; here only the newest rows stay.
sc-seal "$log" --force --target 64K --archive "file://$work/backup" --keep-rows 5000
first=$(sc-log info "$log" --json | jq .first)
[ "$first" -gt 20000 ] || give_up "the log still holds offset $first"
echo "the log holds offsets $first to 30000, the archive all of them"

# A subscriber that was away for long is refused, and catches up.
serve "$log"
echo 12345 >"$work/cursor"
if sc-sub "$url/trades" --cursor "$work/cursor" --until-end >"$work/out" 2>"$work/refused"; then
	give_up "offset 12346 was not refused"
fi
cat "$work/refused"
sc-sub "$url/trades" --cursor "$work/cursor" --until-end --catch-up --archive "file://$work/backup" >"$work/out"
tail -n +12346 "$work/all" | cmp - "$work/out" || give_up "the rows are not those that were missing"
echo "caught up: $(wc -l <"$work/out") rows, the cursor is at $(cat "$work/cursor")"

# Without a server: the log and its archive are one sequence, by offset and by time.
sc-catchup "$log" >"$work/out"
cmp "$work/all" "$work/out" || give_up "the log and its archive are not all rows"
sc-log read "$log" --archive "file://$work/backup" --last 20000 --payload | head -n 1
hash=$(sc-catchup "$log" --verify | cut -d ' ' -f 1)
[ "$hash" = "$(sc-catchup "file://$work/backup/trades" --verify | cut -d ' ' -f 1)" ] || give_up "another hash"
echo "proved: $hash"
