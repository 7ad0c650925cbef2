#!/bin/sh
# The disk under sc-streams is full to its last page (full.py), in a mount namespace of our own where that is allowed.
# run: limit 300
program=$(dirname "$0")/full.py
if unshare --mount true 2>/dev/null; then
	exec unshare --mount python3 -B "$program" "$@"
elif unshare --user --map-root-user --mount true 2>/dev/null; then
	exec unshare --user --map-root-user --mount python3 -B "$program" "$@"
fi
exec python3 -B "$program" "$@"
