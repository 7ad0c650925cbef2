#!/bin/sh
# kill -9 of sc-streams at random moments, sixteen writers, half of them idempotent (crash.py). SC_ROUNDS=100 for the long form.
# run: limit 900
exec python3 -B "$(dirname "$0")/crash.py" "$@"
