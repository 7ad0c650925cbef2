#!/bin/sh
# HTTP as it should not be, and more of it than is good, against sc-streams (hostile.py). SC_HOSTILE=full: never with fewer.
# run: limit 600
exec python3 -B "$(dirname "$0")/hostile.py" "$@"
