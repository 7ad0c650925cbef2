#!/bin/sh
# Each write, sync, rename, open and allocation of sc-log fails in turn (inject.py).
# run: limit 600
exec python3 -B "$(dirname "$0")/inject.py" "$@"
