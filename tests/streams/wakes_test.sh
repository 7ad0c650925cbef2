#!/bin/sh
# No wake of a subscription is lost, whenever sc-streams is killed (wakes.py).
exec python3 -B "$(dirname "$0")/wakes.py" "$@"
