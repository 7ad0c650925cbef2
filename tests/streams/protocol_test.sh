#!/bin/sh
# Every rule of the Durable Streams protocol that a server can get wrong (protocol.py), against sc-streams.
exec python3 -B "$(dirname "$0")/protocol.py" "$@"
