#!/bin/sh
# Rounds of appenders, a server, subscribers and chains, with kill -9 and failures at random (rounds.py). SC_ROUNDS=200 for long ones.
# run: alone
# run: limit 1800
exec python3 -B "$(dirname "$0")/rounds.py" "$@"
