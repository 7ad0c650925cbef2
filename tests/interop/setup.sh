#!/usr/bin/env bash
# Lay other people's programs into build/interop: a Python environment and npm packages, pinned.
# Does nothing, and asks no network, when they are there in the wanted versions.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
out=${SC_INTEROP:-$(cd "$here/../.." && pwd)/build/interop}
# The system's Python: an environment made with another one breaks when that goes away.
python=/usr/bin/python3
[[ -x $python ]] || python=python3

mkdir -p "$out"
exec 9>"$out/lock"
flock 9
want=$(cat "$here"/requirements*.txt "$here/package.json" <("$python" --version) <(node --version) | sha256sum)
if [[ -f $out/stamp && $(<"$out/stamp") == "$want" ]]; then
	exit 0
fi
rm -rf "$out/stamp" "$out/venv" "$out/node" "$out"/streamcast-*

pip() { "$out/venv/bin/python" -m pip --disable-pip-version-check --quiet "$@"; }
"$python" -m venv "$out/venv"
pip install -r "$here/requirements.txt"
# Older releases of streamcast are laid over it.
for list in "$here"/requirements-*.txt; do
	version=${list##*-}
	pip install --no-deps --target "$out/streamcast-${version%.txt}" -r "$list"
done

mkdir -p "$out/node"
cp "$here/package.json" "$out/node/"
(cd "$out/node" && npm install --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error)

printf '%s\n' "$want" >"$out/stamp"
