#!/bin/sh
# The machine that had a log is lost: what it shipped to an archive every 200 ms is a log again, which goes on.
set -eu
# shellcheck source=examples/common
. "$(dirname "$0")/common"

log=$work/trades
mkdir "$work/bucket"
archive=file://$work/bucket
sc-log create "$log"
sc-seal --watch --ship 200ms --archive "$archive" "$log" &
sealer=$!
started "$sealer"
seq 1 500 | sed 's/.*/{"n":&,"price":0.10}/' | sc-log append --quiet "$log"

# in_archive N: its last row has offset N
in_archive() {
	sc-catchup "$archive/trades" 2>/dev/null | tail -n 1 | grep -q "^\[$1,"
}
await "the archive" in_archive 500
hash=$(sc-log verify "$log" | cut -d ' ' -f 1)

kill -KILL "$sealer"
wait "$sealer" || :
mv "$log" "$work/lost" # it burns

sc-log restore "$log" --archive "$archive"
[ "$(sc-log verify "$log" | cut -d ' ' -f 1)" = "$hash" ] || give_up "the restored log has another hash"
echo "the restored log has the same hash"
printf '{"n":501,"price":0.10}\n' | sc-log append "$log"
sc-seal "$log" --archive "$archive" --ship
in_archive 1049077 || give_up "the archive does not go on with the new log"

# and the lost one, should it wake up, is refused
mkdir "$work/old"
mv "$work/lost" "$work/old/trades"
if sc-seal "$work/old/trades" --archive "$archive"; then
	give_up "two logs write to one archive"
fi
