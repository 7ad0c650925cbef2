#!/usr/bin/env bash
# Lay other people's programs into build/interop: a Python environment and npm packages, pinned.
# Four sets, each with a stamp of its own: a set that is there in the wanted versions is left as it is, and asks no network.
#     python    venv/ and streamcast-VERSION/    requirements*.txt
#     wsmsg     wsmsg/                           wsmsg.txt
#     node      node/                            package.json
#     durable   durable/                         durable/package.json
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
out=${SC_INTEROP:-$(cd "$here/../.." && pwd)/build/interop}
# The system's Python: an environment made with another one breaks when that goes away.
python=/usr/bin/python3
[[ -x $python ]] || python=python3

mkdir -p "$out"
exec 9>"$out/lock"
flock 9

# set_of NAME WANT COMMAND...: run COMMAND unless the set is there as WANT says.
set_of() {
	local name=$1 want

	want=$(sha256sum <<<"$2")
	shift 2
	if [[ -f $out/$name.stamp && $(<"$out/$name.stamp") == "$want" ]]; then
		return
	fi
	rm -f "$out/$name.stamp"
	"$@"
	printf '%s\n' "$want" >"$out/$name.stamp"
}

pip() { "$out/venv/bin/python" -m pip --disable-pip-version-check --quiet "$@"; }

lay_python() {
	local list version

	rm -rf "$out/venv" "$out"/streamcast-*
	"$python" -m venv "$out/venv"
	pip install -r "$here/requirements.txt"
	# Older releases of streamcast are laid over it.
	for list in "$here"/requirements-*.txt; do
		version=${list##*-}
		pip install --no-deps --target "$out/streamcast-${version%.txt}" -r "$list"
	done
}

# The published wsmsg client and server, with the websockets library of their days.
lay_wsmsg() {
	rm -rf "$out/wsmsg"
	pip install --no-deps --target "$out/wsmsg" -r "$here/wsmsg.txt"
}

# lay_node FOLDER PACKAGES
lay_node() {
	rm -rf "${out:?}/$1"
	mkdir -p "$out/$1"
	cp "$2" "$out/$1/package.json"
	(cd "$out/$1" && npm install --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error)
}

# The suite needs node 20.19; where the system's is older (Debian 12), a newer one is laid beside the packages.
# bin/node is the one to run them with.
lay_durable() {
	local node

	lay_node durable "$here/durable/package.json"
	node=$(command -v node)
	if ! "$node" -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)'; then
		node=node-linux-$(node -p process.arch)
		(cd "$out/durable" && npm install --no-save --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error \
			"$node@20.19.6")
		node=$out/durable/node_modules/$node/bin/node
	fi
	mkdir "$out/durable/bin"
	ln -s "$node" "$out/durable/bin/node"
}

rm -f "$out/stamp" # of the time when all was one set
set_of python "$(cat "$here"/requirements*.txt <("$python" --version))" lay_python
set_of wsmsg "$(cat "$here/wsmsg.txt" <("$python" --version))" lay_wsmsg
set_of node "$(cat "$here/package.json" <(node --version))" lay_node node "$here/package.json"
set_of durable "$(cat "$here/durable/package.json" <(node --version))" lay_durable
# The scripts of ours that need these packages find them beside themselves.
cp "$here"/durable/*.mjs "$out/durable/"
