#!/bin/sh
# Nodes that flood, stall, lie or die, and very many of them, against sc-broker (broker.py). SC_HOSTILE=full for full counts.
# run: limit 600
exec python3 "$(dirname "$0")/broker.py" "$@"
