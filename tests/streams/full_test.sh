#!/bin/sh
# The disk under sc-streams is full to its last page (full.py), in a mount namespace of our own where that is allowed.
# run: limit 300
here=$(dirname "$0")
exec "$here/../lib/own-mounts.sh" python3 -B "$here/full.py" "$@"
