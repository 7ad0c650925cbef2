#!/bin/sh
# The disk fills up (full.py), in a mount namespace of its own where that is allowed.
# run: limit 300
here=$(dirname "$0")
exec "$here/../lib/own-mounts.sh" python3 -B "$here/full.py" "$@"
