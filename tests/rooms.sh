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

for folder in lib/*/; do
	room=$(basename "$folder")
	[[ " $ROOMS " == *" $room "* && -n ${may[$room]+known} ]] || fail "lib/$room is in no list: Makefile, tests/rooms.sh, lib/README.md"
done

while IFS=: read -r file line text; do
	room=${file#lib/}
	room=${room%%/*}
	target=$(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]\([^>"]*\)[>"].*/\1/p' <<<"$text")
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
	target=$(sed -n 's/.*[<"]\([^>"]*\)[>"].*/\1/p' <<<"$text")
	if [[ -n ${owner[$target]+foreign} || $target == openssl/* ]]; then
		fail "$file:$line: <$target> belongs behind a room"
	fi
done < <(grep -nE '^[[:space:]]*#[[:space:]]*include' bin/*.c bin/*/*.[ch] 2>/dev/null)

# A unit test links everything, but includes only what its room may.
while IFS=: read -r file line text; do
	room=${file#tests/unit/}
	room=${room%%/*}
	target=$(sed -n 's/.*"\([^"]*\)".*/\1/p' <<<"$text")
	other=${target%%/*}
	[[ $target == */* && -f lib/$target ]] || continue
	if [[ $other != "$room" && " ${may[$room]-} " != *" $other "* ]]; then
		fail "$file:$line: tests of room $room may not include room $other"
	fi
done < <(grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' tests/unit/*/*.[ch])

for header in lib/*/*.h; do
	printf '#include "%s"\n#include "%s"\n' "${header#lib/}" "${header#lib/}" >"$work/alone.c"
	if ! $CC -std=gnu11 -D_GNU_SOURCE -Ilib -Wall -Wextra -Werror -fsyntax-only "$work/alone.c" 2>"$work/log"; then
		fail "$header does not compile alone:"
		sed 's/^/     /' "$work/log" >&2
	fi
	guard=$(tr 'a-z/.' 'A-Z__' <<<"SC_${header#lib/}")
	grep -q "^#ifndef $guard\$" "$header" || fail "$header: its guard is not $guard"
done

for source in lib/*/*.c; do
	object=$OUT/obj/${source%.c}.o
	if [[ ! -f $object || $source -nt $object ]]; then
		object=$work/one.o
		if ! $CC -std=gnu11 -D_GNU_SOURCE -DSC_VERSION='"0"' -Ilib -O0 -c -o "$object" "$source" 2>"$work/log"; then
			fail "$source does not compile"
			sed 's/^/     /' "$work/log" >&2
			continue
		fi
	fi
	while read -r name; do
		[[ $name == sc_* || $name == __asan* || $name == __odr* ]] || fail "$source exports $name"
	done < <(nm -g --defined-only "$object" | awk 'NF == 3 { print $3 }')
done

[[ $failed -eq 0 ]] && echo "rooms: in order"
exit $failed
