#!/usr/bin/env bash
# Documents against code: `tests/docs.sh check` compares, `tests/docs.sh update` writes (`make check-docs`, `make docs`).
#
# completions/PROGRAM.bash and completions/_PROGRAM are what PROGRAM --print-completion prints. In man/PROGRAM.1 these
# blocks are filled from the program's table; what stands between the markers is generated:
#     .\" BEGIN OPTIONS            all options, of a program with verbs: those that all verbs have
#     .\" BEGIN OPTIONS append     the options of the verb append
#     .\" BEGIN STATUSES           the exit statuses
#     .\" END
# The map of lib/README.md, between its markers, is made of the files' own first words.
set -u
cd "$(dirname "$0")/.." || exit 70
build=${SC_BUILD:-build}
mode=${1:-check}
work=$(mktemp -d "${TMPDIR:-/tmp}/sc-docs.XXXXXX")
trap 'rm -rf "$work"' EXIT
failed=0
export LC_ALL=C.UTF-8

fail() {
	echo "docs: $*" >&2
	failed=1
}

# same WANTED FILE: they must be equal, or FILE is written.
same() {
	if [[ $mode == update ]]; then
		cmp -s "$1" "$2" || cp "$1" "$2"
	elif ! diff -u "$2" "$1" >"$work/diff" 2>&1; then
		fail "$2 is not what the program prints: make docs"
		head -n 20 "$work/diff" | sed 's/^/     /' >&2
	fi
}

# block PROGRAM KIND [VERB]: what belongs between the markers.
block() {
	local program=$1 kind=$2 verb=${3-}

	case $kind in
	OPTIONS) "$build/bin/$program" ${verb:+"$verb"} --print-man-options ;;
	STATUSES) "$build/bin/$program" --print-man-statuses ;;
	*) return 1 ;;
	esac
}

# fill PROGRAM PAGE: the page with its blocks filled.
fill() {
	local line inside=

	while IFS= read -r line; do
		if [[ $line =~ ^\.\\\"\ BEGIN\ ([A-Z]+)(\ ([a-z-]+))?$ ]]; then
			[[ -z $inside ]] || return 1
			inside=1
			printf '%s\n' "$line"
			block "$1" "${BASH_REMATCH[1]}" "${BASH_REMATCH[3]}" || return 1
		elif [[ $line == '.\" END' ]]; then
			[[ -n $inside ]] || return 1
			inside=
			printf '%s\n' "$line"
		elif [[ -z $inside ]]; then
			printf '%s\n' "$line"
		fi
	done <"$2"
	[[ -z $inside ]]
}

check_page() { # PROGRAM VERBS
	local program=$1 page=man/$1.1 verb

	if [[ ! -f $page ]]; then
		fail "$page is missing"
		return
	fi
	for verb in '' $2; do
		# A verb that only has the common options needs no block.
		[[ $verb && $(block "$program" OPTIONS "$verb") == 'None besides the common ones.' ]] && continue
		grep -q "^\.\\\\\" BEGIN OPTIONS${verb:+ $verb}\$" "$page" ||
			fail "$page: no line .\\\" BEGIN OPTIONS${verb:+ $verb} (and .\\\" END behind it)"
	done
	# A group's title is a paragraph of its own.
	awk -v page="$page" '/^\.\\" BEGIN OPTIONS/ && before !~ /^\.(Pp|Sh OPTIONS|Ss .*)$/ {
		print page ":" NR ": .Pp is missing before " $0; bad = 1 } { before = $0 } END { exit bad }' "$page" >"$work/pp" ||
		fail "$(cat "$work/pp")"
	grep -q '^\.\\" BEGIN STATUSES$' "$page" || fail "$page: no line .\\\" BEGIN STATUSES (and .\\\" END behind it)"
	if fill "$program" "$page" >"$work/page"; then
		same "$work/page" "$page"
	else
		fail "$page: its BEGIN and END lines do not pair, or name what the program does not have"
	fi
	for verb in $2; do
		grep -qE "(^|[^a-z-])$verb([^a-z-]|\$)" "$page" || fail "$page: says nothing of the verb $verb"
	done
}

# Every option of the table is in --help, which is for 80 columns and has its examples and statuses.
check_help() { # PROGRAM VERB NAMES
	local program=$1 verb=$2 name wide
	local command="$program${verb:+ $verb}"

	if ! "$build/bin/$program" ${verb:+"$verb"} --help >"$work/help" 2>"$work/err" || [[ -s $work/err ]]; then
		fail "$command --help fails"
		return
	fi
	for name in $3; do
		grep -qE -- "(^|[ ,])$name([ ,]|\$)" "$work/help" || fail "$command --help does not list $name"
	done
	wide=$(awk 'length > 80' "$work/help")
	[[ -z $wide ]] || fail "$command --help has lines over 80 columns:"$'\n'"$wide"
	grep -q '^Usage: ' "$work/help" || fail "$command --help has no usage line"
	if [[ -z $verb ]]; then
		[[ $(grep -c '^  # ' "$work/help") -ge 3 ]] || fail "$command --help has fewer than three examples"
		grep -q '^  64 ' "$work/help" || fail "$command --help lists no exit statuses"
	fi
}

check_program() {
	local program=$1 verbs options verb

	"$build/bin/$program" --print-completion bash >"$work/bash" && "$build/bin/$program" --print-completion zsh >"$work/zsh" || {
		fail "$program prints no completions"
		return
	}
	same "$work/bash" "completions/$program.bash"
	same "$work/zsh" "completions/_$program"
	bash -n "$work/bash" || fail "bash does not read its completions of $program"
	if command -v zsh >/dev/null; then
		zsh -n "$work/zsh" || fail "zsh does not read its completions of $program"
	fi
	verbs=$(sed -n "s/^[[:space:]]*verbs='help \(.*\)'\$/\1/p" "$work/bash")
	check_page "$program" "$verbs"
	[[ $mode == check ]] || return
	options=$(sed -n "s/^[[:space:]]*options='\(.*\)'\$/\1/p" "$work/bash" | tail -n 1)
	check_help "$program" '' "$options"
	for verb in $verbs; do
		options=$(awk -v verb="$verb" '$1 == verb ")" { found = 1 } found' "$work/bash" |
			sed -n "s/^[[:space:]]*options='\(.*\)'\$/\1/p" | head -n 1)
		check_help "$program" "$verb" "$options"
	done
	[[ $("$build/bin/$program" --version) == "$program "[0-9]* ]] || fail "$program --version prints no version"
}

# What a file says of itself: of a header the first paragraph, of a source the first comment.
purpose() {
	sed -n '1{/^\/\* /!{n}}; s|^/\* ||; s|^ \* ||; /^ \*$/q; p; /\*\/$/q' "$1" | tr '\n' ' ' | sed 's|[ ]*\*/ *$||; s|[ .]*$||; s|^[a-z0-9_/]*\.[ch]: *||'
}

map() {
	local room folder file

	for folder in $(MAKEFLAGS='' make -s --no-print-directory print-rooms); do
		room=lib/$folder
		printf '\n### %s: %s\n\n' "$folder" "$(awk -F'|' -v room="\`$folder\`" '{ gsub(/ /, "", $2) } $2 == room { gsub(/^ *| *$/, "", $3); print $3 }' lib/README.md)"
		for file in "$room"/*.h "$room"/*.c; do
			[[ -f $file ]] || continue
			# A source with a header of its name says what the header says.
			[[ $file == *.c && -f ${file%.c}.h ]] && continue
			printf -- '- `%s` %s\n' "${file#"$room/"}" "$(purpose "$file")"
		done
	done
	printf '\n'
}

check_map() {
	local readme=lib/README.md

	map >"$work/map"
	if ! grep -q '^<!-- map -->$' $readme || ! grep -q '^<!-- end of map -->$' $readme; then
		fail "$readme has no markers for its map"
		return
	fi
	{
		sed '/^<!-- map -->$/q' $readme
		cat "$work/map"
		sed -n '/^<!-- end of map -->$/,$p' $readme
	} >"$work/readme"
	same "$work/readme" $readme
}

[[ $mode == check || $mode == update ]] || {
	echo 'usage: tests/docs.sh check|update' >&2
	exit 64
}
mkdir -p completions man
for source in bin/*.c bin/*/; do
	[[ -e $source ]] || continue
	program=$(basename "$source" .c)
	[[ -x $build/bin/$program ]] || {
		fail "$build/bin/$program is not built"
		continue
	}
	check_program "$program"
done
for page in man/*.[1-8]; do
	[[ -f $page ]] || continue
	# Errors, and what a reader would see; not the order of sections or the date's form.
	mandoc -T lint -W warning "$page" >"$work/lint" 2>&1
	if grep -E ': (ERROR|UNSUPP|WARNING|SYSERR|BADARG):' "$work/lint" | grep -vE 'cannot parse date|out of conventional order' >"$work/found"; then
		fail "$page:"
		sed 's/^/     /' "$work/found" >&2
	fi
	# man(1) renders with groff where there is one; it warns of what it cannot lay out.
	command -v groff >/dev/null || continue
	if ! groff -ww -man -Tutf8 -z "$page" >"$work/groff" 2>&1 || [[ -s $work/groff ]]; then
		fail "$page:"
		sed 's/^/     /' "$work/groff" >&2
	fi
done
check_map
# The family's page has every status of the one list.
for status in $(sed -n 's/^[[:space:]]*X([A-Z]*, \([0-9]*\),.*/\1/p' lib/base/err.h | sort -un); do
	grep -q "^\.It $status\$" man/sc.7 || fail "man/sc.7 does not list the exit status $status"
done
for file in completions/*; do
	[[ -f $file ]] || continue
	program=$(basename "$file" .bash)
	[[ -e bin/${program#_}.c || -d bin/${program#_} ]] || fail "$file belongs to no program"
done
[[ $failed -eq 0 ]] && echo "docs: as the code says"
exit $failed
