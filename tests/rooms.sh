#!/usr/bin/env bash
# Check the rooms of lib/: includes run one way, foreign libraries stay behind their room, headers stand alone, objects export
# only sc_ names. ROOMS (lowest first), CC and OUT come from the Makefile.
set -u
cd "$(dirname "$0")/.." || exit 70
CC=${CC:-gcc}
OUT=${OUT:-build}
ROOMS=${ROOMS:-base json kv store log net durable wire cast serve client msg}
work=$(mktemp -d "${TMPDIR:-/tmp}/sc-rooms.XXXXXX")
trap 'rm -rf "$work"' EXIT
failed=0

fail() {
	echo "rooms: $*" >&2
	failed=1
}

# What each room may include, besides itself (lib/README.md).
declare -A may=(
	[base]=''
	[json]='base'
	[kv]='base'
	[store]='base'
	[log]='base json kv store'
	[net]='base'
	[durable]='base json kv store log net'
	[wire]='base json'
	[cast]='base json log wire'
	[serve]='base json log net wire cast'
	[client]='base json store log net wire'
	[msg]='base json kv net'
)
# Foreign headers, and the one room that may see each.
declare -A owner=(
	[jq.h]=json [jv.h]=json [lmdb.h]=kv [zstd.h]=log [xxhash.h]=log [zlib.h]=net [curl/curl.h]=store
)

include='include[[:space:]]*[<"]([^>"]*)[>"]'
# target_of LINE: what an #include line names, into $target.
target_of() {
	target=
	[[ $1 =~ $include ]] && target=${BASH_REMATCH[1]}
}

for folder in lib/*/; do
	room=$(basename "$folder")
	[[ " $ROOMS " == *" $room "* && -n ${may[$room]+known} ]] || fail "lib/$room is in no list: Makefile, tests/rooms.sh, lib/README.md"
done

while IFS=: read -r file line text; do
	room=${file#lib/}
	room=${room%%/*}
	target_of "$text"
	case $text in
	*\"*)
		other=${target%%/*}
		if [[ $target != */* ]]; then
			fail "$file:$line: \"$target\" must carry its room"
		elif [[ ! -f lib/$target ]]; then
			fail "$file:$line: there is no lib/$target"
		elif [[ $other != "$room" && " ${may[$room]-} " != *" $other "* ]]; then
			fail "$file:$line: room $room may not include room $other"
		elif [[ $other != "$room" && $target == *_internal.h ]]; then
			fail "$file:$line: $target is internal to its room"
		fi
		;;
	*)
		if [[ -n ${owner[$target]+foreign} && ${owner[$target]} != "$room" ]]; then
			fail "$file:$line: <$target> belongs behind room ${owner[$target]}"
		elif [[ $target == openssl/* && $room != net && $room != store ]]; then
			fail "$file:$line: <$target> belongs behind the rooms net and store"
		fi
		;;
	esac
done < <(grep -nE '^[[:space:]]*#[[:space:]]*include' lib/*/*.[ch])

# A program may use any room, never another program, and no foreign library.
while IFS=: read -r file line text; do
	target_of "$text"
	if [[ -n ${owner[$target]+foreign} || $target == openssl/* ]]; then
		fail "$file:$line: <$target> belongs behind a room"
	fi
done < <(grep -nE '^[[:space:]]*#[[:space:]]*include' bin/*.c bin/*/*.[ch] 2>/dev/null)

# A unit test links everything, but includes only what its room may.
while IFS=: read -r file line text; do
	room=${file#tests/unit/}
	room=${room%%/*}
	target_of "$text"
	other=${target%%/*}
	[[ $target == */* && -f lib/$target ]] || continue
	if [[ $other != "$room" && " ${may[$room]-} " != *" $other "* ]]; then
		fail "$file:$line: tests of room $room may not include room $other"
	fi
done < <(grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' tests/unit/*/*.[ch])

# Compiled several at a time: each says into a file of its own what is wrong.
headers=(lib/*/*.h)
sources=(lib/*/*.c)
export CC OUT work

alone() {
	local file=$work/${1//\//-}

	printf '#include "%s"\n#include "%s"\n' "${1#lib/}" "${1#lib/}" >"$file.c"
	if ! $CC -std=gnu11 -D_GNU_SOURCE -Ilib -Wall -Wextra -Werror -fsyntax-only "$file.c" 2>"$file.log"; then
		echo "$1 does not compile alone:" >"$file.wrong"
		sed 's/^/     /' "$file.log" >>"$file.wrong"
	fi
}

exports() {
	local file=$work/${1//\//-} object=$OUT/obj/${1%.c}.o

	if [[ ! -f $object || $1 -nt $object ]]; then
		object=$file.o
		if ! $CC -std=gnu11 -D_GNU_SOURCE -DSC_VERSION='"0"' -Ilib -O0 -c -o "$object" "$1" 2>"$file.log"; then
			echo "$1 does not compile" >"$file.wrong"
			sed 's/^/     /' "$file.log" >>"$file.wrong"
			return
		fi
	fi
	nm -g --defined-only "$object" |
		awk -v source="$1" 'NF == 3 && $3 !~ /^(sc_|__asan|__odr)/ { print source " exports " $3 }' >"$file.wrong"
}
export -f alone exports

printf '%s\0' "${headers[@]}" | xargs -0 -n 8 -P "$(nproc)" bash -c 'for f; do alone "$f"; done' rooms
printf '%s\0' "${sources[@]}" | xargs -0 -n 8 -P "$(nproc)" bash -c 'for f; do exports "$f"; done' rooms
for wrong in "$work"/*.wrong; do
	[[ -s $wrong ]] && fail "$(<"$wrong")"
done

for header in "${headers[@]}"; do
	guard=${header#lib/}
	guard=SC_${guard^^}
	guard=${guard//[.\/]/_}
	grep -q "^#ifndef $guard\$" "$header" || fail "$header: its guard is not $guard"
done

[[ $failed -eq 0 ]] && echo "rooms: in order"
exit $failed
