#!/bin/sh
# Everything that touches sealed logs at once, with kill -9 at random (soak.py). SC_SOAK_S=600 for ten minutes.
# run: alone
# run: limit 1200
exec python3 -B "$(dirname "$0")/soak.py" "$@"
