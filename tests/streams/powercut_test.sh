#!/bin/sh
# What a power cut may leave of a folder of streams, at any moment, opened by sc-streams (powercut.py). SC_STATES=50 for more of them.
# run: limit 600
exec python3 -B "$(dirname "$0")/powercut.py" "$@"
