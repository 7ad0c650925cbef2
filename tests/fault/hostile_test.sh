#!/bin/sh
# Peers that mean harm, or are merely broken, against a server with one good subscriber (hostile.py). SC_HOSTILE=full for full counts.
# run: limit 600
exec python3 "$(dirname "$0")/hostile.py" "$@"
