#!/bin/sh
# A log that runs for years: its rows are sealed while it is written and read, and the oldest ones go.
set -eu
# shellcheck source=examples/common
. "$(dirname "$0")/common"

log=$work/trades
sc-log create "$log" --journal-size 64K

# Somebody reads all of it, and goes on reading whatever is sealed meanwhile.
sc-log read "$log" --from 1 --follow --count 50000 >"$work/read" &
reader=$!
started "$reader"

# Somebody appends; between, what cron would do.
from=1
while [ "$from" -le 50000 ]; do
	seq "$from" $((from + 4999)) | sed 's/.*/{"n":&,"price":0.10}/' | sc-log append --quiet "$log"
	sc-seal "$log" --target 256K --age 1ms
	from=$((from + 5000))
done
await "the reader" holds "$work/read" 50000
wait "$reader"

echo "sealed: $(find "$log/sealed" -name '*.zst' | wc -l) segments," \
	"$(cat "$log"/sealed/*.zst | wc -c) bytes for $(wc -c <"$work/read") bytes of lines"

# Any zstd reads them.
zstdcat "$log"/sealed/*.zst >"$work/zstd"
cmp "$work/read" "$work/zstd" || give_up "zstdcat reads something else"
tail -n 1 "$work/zstd"

# What would go, and then it does: the newest 20000 rows stay.
sc-seal "$log" --target 256K --keep-rows 20000 --dry-run
sc-seal "$log" --target 256K --keep-rows 20000 --json | jq -c '{removed: [.removed[] | [.first, .last, .why]], kept: .kept.rows}'
first=$(sc-log info "$log" --json | jq .first)
sc-log read "$log" --from "$first" >"$work/kept"
tail -n +"$first" "$work/read" | cmp - "$work/kept" || give_up "what is kept has changed"
[ "$first" -gt 1 ] || give_up "nothing was removed"
[ "$(wc -l <"$work/kept")" -ge 20000 ] || give_up "the newest 20000 rows are not what is kept"
echo "the rows from $first on are there, byte for byte"
