#!/bin/sh
# The disk fills up (full.py), in a mount namespace of its own where that is allowed: what it mounts ends with it.
# run: limit 300
program=$(dirname "$0")/full.py
if unshare --mount true 2>/dev/null; then
	exec unshare --mount python3 -B "$program" "$@"
elif unshare --user --map-root-user --mount true 2>/dev/null; then
	exec unshare --user --map-root-user --mount python3 -B "$program" "$@"
fi
exec python3 -B "$program" "$@"
