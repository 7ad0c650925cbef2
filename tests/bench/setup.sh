#!/usr/bin/env bash
# Lay the message brokers that sc-broker is measured beside into build/peers (SC_PEERS). Nothing is installed into the system
# and no service starts: Debian's packages are fetched by apt-get and unpacked there.
#     mosquitto    the MQTT broker
#     lwspair      peers/lwspair.c over libwebsockets: a bare ping-pong
#     wsmsg        the published Python server, pinned as for the tests
# Each leaves NAME.stamp where it is there, and NAME.why, one line, where it cannot be had: then bench.py measures the rest.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
out=${SC_PEERS:-$(cd "$here/../.." && pwd)/build/peers}
# The system's Python: an environment made with another one breaks when that goes away.
python=/usr/bin/python3
[[ -x $python ]] || python=python3

mkdir -p "$out" || exit 0
exec 9>"$out/lock"
flock 9

# peer NAME WANT COMMAND...: run COMMAND unless the peer is there as WANT says.
peer() {
	local name=$1 want

	want=$(sha256sum <<<"$2")
	shift 2
	if [[ -f $out/$name.stamp && $(<"$out/$name.stamp") == "$want" ]]; then
		return
	fi
	rm -f "$out/$name.stamp" "$out/$name.why"
	if "$@" >"$out/$name.log" 2>&1; then
		printf '%s\n' "$want" >"$out/$name.stamp"
	else
		grep -v '^[[:space:]]*$' "$out/$name.log" | tail -n 1 >"$out/$name.why"
		[[ -s $out/$name.why ]] || echo "it could not be laid" >"$out/$name.why"
	fi
}

# debian NAME PACKAGE: PACKAGE and what it needs that is not installed here, unpacked in NAME.
# shellcheck disable=SC2317 # this and the next are called by peer
debian() {
	local name=$1 package=$2 need file

	if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
		echo "this is not a Debian system"
		return 1
	fi
	rm -rf "${out:?}/$name"
	mkdir -p "$out/$name/packages" || return 1
	need=$(LC_ALL=C apt-get install --simulate --no-install-recommends --reinstall "$package" | sed -n 's/^Inst \([^ ]*\).*/\1/p')
	[[ -n $need ]] || { echo "apt-get does not know $package: apt-get update, perhaps"; return 1; }
	# shellcheck disable=SC2086 # names of packages are words
	(cd "$out/$name/packages" && timeout 120 apt-get -q download $need) || { echo "apt-get cannot download $package"; return 1; }
	for file in "$out/$name/packages"/*.deb; do
		dpkg-deb -x "$file" "$out/$name" || return 1
	done
	rm -rf "$out/$name/packages"
}

# shellcheck disable=SC2317
lay_mosquitto() {
	debian mosquitto mosquitto
}

# shellcheck disable=SC2317
# Against the library of the system, where its headers are, else against one unpacked here.
lay_lwspair() {
	local flags libs

	if pkg-config --exists libwebsockets; then
		flags=$(pkg-config --cflags --libs libwebsockets)
	else
		debian libwebsockets libwebsockets-dev || return 1
		libs=$out/libwebsockets/usr/lib/$(gcc -print-multiarch)
		# by the library's own name: what is installed already was not unpacked
		flags="-I$out/libwebsockets/usr/include -L$libs -Wl,-rpath,$libs -l:$(readlink "$libs/libwebsockets.so")"
	fi
	# shellcheck disable=SC2086 # flags are words
	gcc -O2 -std=gnu11 -Wall -Wextra -o "$out/lwspair" "$here/peers/lwspair.c" $flags
}

# shellcheck disable=SC2317
lay_wsmsg() {
	rm -rf "$out/wsmsg"
	"$python" -m venv "$out/wsmsg" || return 1
	timeout 300 "$out/wsmsg/bin/python" -m pip --disable-pip-version-check --quiet install --no-deps --retries 1 \
		-r "$here/../interop/wsmsg.txt" || { echo "pip cannot install wsmsg"; return 1; }
}

peer mosquitto 1 lay_mosquitto
peer lwspair "$(cat "$here/peers/lwspair.c")" lay_lwspair
peer wsmsg "$(cat "$here/../interop/wsmsg.txt" <("$python" --version))" lay_wsmsg
exit 0
