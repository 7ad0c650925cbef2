#!/bin/sh
# make bench: every figure of the table in one run, as ratios taken in turns. See bench.py.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
"$here/setup.sh" # never fails: what it cannot lay is not measured
exec python3 "$here/bench.py" --build "${SC_BUILD:-build}" "$@"
