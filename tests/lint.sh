#!/usr/bin/env bash
# Check the sources: layout, banned calls, sizes, scripts, both compilers without a warning, no stray file from a build.
set -u
cd "$(dirname "$0")/.." || exit 70
failed=0

fail() {
	echo "lint: $*" >&2
	failed=1
}

need() {
	command -v "$1" >/dev/null && return 0
	fail "$1 is not installed: make deps"
	return 1
}

shopt -s nullglob
sources=(lib/*/*.c bin/*.c bin/*/*.c tests/*/*.c tests/*/*/*.c)
headers=(lib/*/*.h bin/*/*.h tests/*/*.h tests/*/*/*.h)
ours=(lib/*/*.[ch] bin/*.c bin/*/*.[ch])
mapfile -t scripts < <(
	git ls-files --cached --others --exclude-standard | while read -r file; do
		case $file in
		completions/*) ;; # generated; `make check-docs` has them read by their shells
		*.sh | *.bash | *.bats) [[ -f $file ]] && echo "$file" ;;
		*) [[ -f $file ]] && head -c 64 "$file" | head -n 1 | grep -aqE '^#!.*[/ ](ba)?sh( |$)' && echo "$file" ;;
		esac
	done
)

layout() {
	local file

	need clang-format || return
	for file in "${sources[@]}"; do
		if ! clang-format "$file" | cmp -s - "$file"; then
			fail "$file: not laid out as .clang-format says: make format FILES=$file"
			clang-format "$file" | diff "$file" - | head -n 6 >&2
		fi
	done
}

# text PATTERN WHY FILE...: the pattern must not occur.
never() {
	local pattern=$1 why=$2 found

	shift 2
	[[ $# -gt 0 ]] || return
	found=$(grep -nHP "$pattern" "$@") || return
	fail "$why:"
	sed 's/^/     /' <<<"$found" >&2
}

words() {
	# Comment lines may speak of what the code may not do.
	local code='^(?!\s*(\*|/\*|//))(?:.*[^\w.>"])?'
	local -a text quiet

	mapfile -t quiet < <(printf '%s\n' lib/*/*.c | grep -vE '^lib/base/(program|usage|say)')
	never "$code(strcpy|strcat|strncpy|strncat|sprintf|vsprintf|gets|atoi|atol|atoll|atof|strtok|alloca|system|popen)\s*\(" \
		'calls without bounds, errors or safety' "${ours[@]}"
	never "$code(mktemp|tmpnam|tempnam|rand|srand|random|scanf|fscanf|gmtime|localtime|ctime|asctime)\s*\(" \
		'calls that guess, or share state' "${ours[@]}"
	never "$code(printf|puts|putchar|perror|exit|abort)\s*\(" 'the library returns, the program speaks' \
		"${quiet[@]}"
	mapfile -t text < <(git ls-files -- '*.c' '*.h' '*.sh' '*.bats' '*.bash' Makefile man README.md | grep -v '^tests/lint.sh$' |
		while read -r file; do [[ -f $file ]] && echo "$file"; done)
	never '\b(TODO|FIXME|XXX)\b' 'unfinished' "${text[@]}"
	never '[ \t]+$' 'blanks at the end of a line' "${sources[@]}" "${headers[@]}"
	never '^        ' 'blanks where tabs should be' "${sources[@]}" "${headers[@]}"
}

sizes() {
	local file

	for file in "${sources[@]}" "${headers[@]}"; do
		[[ $file == tests/bench/* ]] && continue
		expand -t 8 "$file" | awk -v file="$file" '
			length > 130 { printf "%s:%d: %d columns\n", file, NR, length }
			/^{/ { start = NR }
			/^}/ { if (start && NR - start > 100) printf "%s:%d: a function of %d lines\n", file, start, NR - start; start = 0 }
			END { if (NR > 800) printf "%s: %d lines: make it two files\n", file, NR }'
	done
}

compilers() {
	local compiler

	for compiler in gcc clang; do
		need "$compiler" || continue
		if ! make --no-print-directory -s -k -j2 OUT="build/lint-$compiler" CC="$compiler" objects \
			>"build/lint-$compiler.log" 2>&1; then
			fail "$compiler is not content:"
			grep -E 'error|warning' "build/lint-$compiler.log" | head -n 20 | sed 's/^/     /' >&2
		fi
	done
}

mkdir -p build
before=$(git status --porcelain --untracked-files=all)
layout
words
too_long=$(sizes)
[[ -z $too_long ]] || fail "too large:"$'\n'"$too_long"
if need shellcheck; then
	shellcheck -S warning -x "${scripts[@]}" || fail 'shellcheck is not content'
fi
compilers
after=$(git status --porcelain --untracked-files=all)
if [[ -n ${CI-} && $before != "$after" ]]; then
	fail 'a build leaves files behind:'
	diff <(echo "$before") <(echo "$after") >&2
fi
[[ $failed -eq 0 ]] && echo "lint: clean"
exit $failed
