#!/bin/sh
# All that may be asked of sc-streams, by many at once, with kills in between: the store stays in order (mixed.py).
exec python3 -B "$(dirname "$0")/mixed.py" "$@"
