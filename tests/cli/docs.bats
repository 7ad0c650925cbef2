# The documents: pages that are named exist, flags that are named exist, commands that are shown can be run as they are
# shown (their options parse), headers name sections that are there. `make check-docs` compares the generated parts.

load ../lib/common

programs=(sc-broker sc-capture sc-catchup sc-log sc-node sc-pub sc-seal sc-serve sc-streams sc-sub)

setup() {
	needs "${programs[@]}"
	sc_setup
	pages=("$SC_ROOT"/man/*.[1-8])
}

teardown() { sc_teardown; }

# flags PROGRAM: every option that its help (that of all verbs) lists.
flags() {
	local verb

	{
		"$1" --help
		for verb in $("$1" --help | awk '/^Verbs:/{on=1;next} /^$/{on=0} on && /^  [a-z]/{print $1}'); do
			"$1" "$verb" --help
		done
	} | sed -nE 's/^  (-[a-zA-Z], |    )(--[a-z-]+).*/\2/p' | sort -u
}

# prose PAGE: a page without what is generated
prose() {
	awk '/^\.\\" BEGIN/ { skip = 1 } /^\.\\" END/ { skip = 0 } !skip' "$1"
}

@test "every page that a page refers to exists" {
	for page in "${pages[@]}"; do
		grep -hoE '^\.Xr sc[a-z-]* [1-8]' "$page" | while read -r _ name section; do
			[[ -f $SC_ROOT/man/$name.$section ]] || { echo "$page: $name($section) is missing"; exit 1; }
		done
	done
}

@test "every page has the parts that a page has, and mandoc has nothing against it" {
	for page in "${pages[@]}"; do
		for part in NAME DESCRIPTION 'SEE ALSO'; do
			grep -qx "\.Sh $part" "$page" || { echo "$page: no $part"; false; }
		done
		if [[ $page == *.1 ]]; then
			for part in SYNOPSIS OPTIONS FILES 'EXIT STATUS' EXAMPLES; do
				grep -qx "\.Sh $part" "$page" || { echo "$page: no $part"; false; }
			done
		fi
		run -0 mandoc -T lint -W error "$page"
	done
}

@test "every section that a header names is on its page" {
	bad=0
	while IFS=: read -r file line; do
		page=$(grep -oE 'man/[a-z-]+\.[1-8]' <<<"$line" | head -n 1)
		[[ -f $SC_ROOT/$page ]] || { echo "$file: $page is missing"; bad=1; continue; }
		while IFS= read -r section; do
			[[ -z $section ]] && continue
			grep -qiE "^\.S[hs] (\"?)(sc-[a-z]+ )?$section( LOG.*)?\1$" "$SC_ROOT/$page" || { echo "$file: $page has no section \"$section\""; bad=1; }
		done < <(sed "s|.*$page||" <<<"$line" | grep -oE '"[A-Za-z -]+"' | tr -d '"')
	done < <(cd "$SC_ROOT" && grep -rnoE 'Source .*man/[a-z-]+\.[1-8].*' lib --include='*.h' | sed -E 's/^([^:]*):[0-9]+:/\1:/')
	[[ $bad -eq 0 ]]
}

@test "every flag that a page names in its own words exists" {
	bad=0
	for program in "${programs[@]}"; do flags "$program" >"$program.flags"; done
	sort -u ./*.flags >all.flags
	for page in "${pages[@]}"; do
		name=$(basename "$page")
		# .Fl \-name of this program, or of one that the sentence names: any program's is good
		{
			prose "$page" | grep -oE 'Fl \\-[a-z\\-]+' | sed -E 's/^Fl \\-/--/; s/\\-/-/g'
			prose "$page" | grep -oE '(^|[ (])--[a-z][a-z-]+' | tr -d ' ('
		} | sort -u | while read -r flag; do
			grep -qx -- "$flag" all.flags && continue
			[[ $flag == --no-* ]] && flag=--${flag#--no-}
			[[ $flag == --name || $flag == --unbuffered ]] && continue # sc(7) on options in general; one of jq
			grep -qx -- "$flag" all.flags || echo "$name: $flag"
		done >found
		[[ -s found ]] && { cat found; bad=1; }
	done
	[[ $bad -eq 0 ]]
}

@test "every flag that the README names exists" {
	for program in "${programs[@]}"; do flags "$program"; done | sort -u >all.flags
	grep -oE '(^|[ `(])--[a-z][a-z-]+' "$SC_ROOT/README.md" | tr -d ' `(' | sort -u | while read -r flag; do
		grep -qx -- "$flag" all.flags || { echo "README.md: $flag"; exit 1; }
	done
}

@test "every path that the README names exists" {
	grep -oE '`(bin|lib|man|completions|examples|tests|\.ci)/[A-Za-z0-9_./@-]*`' "$SC_ROOT/README.md" | tr -d '`' | sort -u |
		while read -r path; do
			[[ -e $SC_ROOT/$path ]] || { echo "README.md: $path"; exit 1; }
		done
	grep -oE '^make [a-z-]+' "$SC_ROOT/README.md" | sort -u | while read -r _ target; do
		grep -q "^$target:" "$SC_ROOT/Makefile" || { echo "README.md: make $target"; exit 1; }
	done
}

# Every command of the README's blocks, one a line, continuations joined.
readme_commands() {
	awk '/^```sh$/ { on = 1; next } /^```$/ { on = 0 } on' "$SC_ROOT/README.md" |
		awk '{ line = line $0 } /\\$/ { sub(/\\$/, "", line); next } /\|$/ { line = line " "; next } { print line; line = "" }'
}

@test "the README's commands begin with programs that exist" {
	readme_commands >commands
	[[ $(wc -l <commands) -gt 15 ]]
	while IFS= read -r line; do
		bash -n -c "$line" || { echo "not shell: $line"; false; }
		word=${line%% *}
		[[ $word == tests/* ]] && { [[ -x $SC_ROOT/$word ]]; continue; }
		type "$word" >/dev/null 2>&1 || { echo "no such command: $line"; false; }
	done <commands
}

# shown PROGRAM...: the examples of --help, as they are to be typed
examples() {
	"$1" --help | awk '/^Examples:/ { on = 1; next } /^Exit status:/ { on = 0 } on && /^  [^# ]/ { print; next } on && /^      / { print }' |
		awk '{ sub(/^ +/, "") } /\\$/ { sub(/ *\\$/, " "); line = line $0; next } { print line $0; line = "" }'
}

# Commands that a document shows: each of our programs in them is asked to parse what it is given, and stops there,
# since --help is added behind its options.
parses() {
	local line

	mkdir -p shim
	for program in "${programs[@]}"; do
		cat >"shim/$program" <<-S
		#!/bin/bash
		# what stands behind -- is no option: --help goes in front of it
		for ((n = 1; n <= \$#; n++)); do [[ \${!n} != -- ]] || break; done
		"$SC_BUILD/bin/$program" "\${@:1:n-1}" --help "\${@:n}" >/dev/null 2>>"$PWD/refused" || echo "$program \$*" >>"$PWD/refused"
		echo "$program" >>"$PWD/ran"
		[[ \$1 != source && " \$* " != *' --last '* ]] || echo 7
		S
		chmod +x "shim/$program"
	done
	: >refused
	: >ran
	while IFS= read -r line; do
		(
			PATH=$PWD/shim:$PATH
			make() { :; }
			curl() { :; }
			python3() { :; }
			eval "$line"
		) </dev/null >/dev/null 2>>shell.err 3>ready-fd 4>&- || :
	done
	cat refused
	[[ ! -s refused && -s ran ]]
}

@test "--help is set line by line, and no limit is the machine's own" {
	local program

	for program in sc-broker sc-capture sc-catchup sc-log sc-node sc-pub sc-seal sc-serve sc-streams sc-sub; do
		"$program" --help >help
		run ! grep -E '[0-9]{16}' help
		# of two lines of a paragraph the first has no room for the second's first word
		run -0 --separate-stderr awk '
			/^[A-Z].*[^:]$/ && before != "" { split($0, w, " "); if (length(before) + 1 + length(w[1]) <= 79) print NR ": " before }
			{ before = /^[A-Za-z[].*[^:]$/ && NR > 3 ? $0 : "" }' help
	done
}

@test "the examples of --help parse" {
	for program in "${programs[@]}"; do
		examples "$program" >shown
		[[ $(wc -l <shown) -ge 3 ]]
		parses <shown
	done
}

@test "the README's commands parse" {
	readme_commands | grep -E 'sc-(broker|log|node|pub|seal|serve|streams|sub|capture|catchup)' | grep -v '^export' >shown
	parses <shown
}

@test "the manual's examples parse" {
	for page in "$SC_ROOT"/man/*.1; do
		awk '/^\.Sh/ { on = ($2 == "EXAMPLES") } /^\.Bd/ { block = on; next } /^\.Ed/ { if (block) print ""; block = 0 } block' "$page" |
			sed 's/\\e/\\/g; s/\\\&//g' |
			awk '{ if (sub(/\\$/, "")) { line = line $0; next } if ($0 ~ /(\||do|then)$/) { line = line $0 " "; next } \
				if ($0 ~ /^\t/ ) { line = line $0 "; "; next } print line $0; line = "" }' | grep sc- >shown || :
		while IFS= read -r line; do
			bash -n -c "$line" || { echo "$page: not shell: $line"; false; }
		done <shown
		grep -v '^until' shown >shown2
		parses <shown2
	done
}

# offered WORD...: what bash offers for the last word
offered() {
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
	"_${1//-/_}"
	echo "${COMPREPLY[*]}"
}

@test "bash completes every option, verbs, and the values that can be told" {
	for program in "${programs[@]}"; do
		# shellcheck source=/dev/null
		source "$SC_ROOT/completions/$program.bash"
		for verb in '' $("$program" --help | awk '/^Verbs:/{on=1;next} /^$/{on=0} on && /^  [a-z]/{print $1}'); do
			all=" $(offered "$program" $verb --) "
			for flag in $("$program" $verb --help | sed -nE 's/^  (-[a-zA-Z], |    )(--[a-z-]+).*/\2/p'); do
				[[ $all == *" $flag "* ]] || { echo "$program $verb: $flag is not offered"; false; }
			done
		done
	done
	touch file.pem
	[[ $(offered sc-log re) == 'read restore reindex' ]]
	[[ $(offered sc-log -v read --fro) == '--from' ]]
	[[ $(offered sc-log read --from '') == 'earliest' && $(offered sc-log read --from = '') == 'earliest' ]]
	[[ $(offered sc-log read file) == 'file.pem' && -z $(offered sc-log read --count '') ]]
	[[ $(offered sc-serve --wire '') == '1 2 4 5' && $(offered sc-serve --cert f) == 'file.pem' ]]
	[[ $(offered sc-serve name = f) == 'file.pem' && $(offered sc-streams f) == 'file.pem' ]]
	[[ $(offered sc-sub --live '') == 'long-poll sse' && $(offered sc-node sub --ack m) == 'manual' ]]
}

@test "installed: programs, pages and completions, and gone again" {
	command -v make >/dev/null || skip "no make"
	# In folders with a blank in their names, and others may read them whatever the umask is.
	umask 077
	make -s --no-print-directory -C "$SC_ROOT" OUT="$SC_BUILD" -o all install DESTDIR="$PWD/to here" PREFIX='/usr of us' >/dev/null
	to="to here/usr of us"
	for program in "${programs[@]}"; do
		[[ -x $to/bin/$program && -f $to/share/man/man1/$program.1 ]]
		[[ -f $to/share/bash-completion/completions/$program && -f $to/share/zsh/site-functions/_$program ]]
	done
	[[ -f $to/share/man/man7/sc.7 && -f $to/share/man/man5/sc-log.5 ]]
	[[ -z $(find "to here" -not -perm -004) ]]
	make -s --no-print-directory -C "$SC_ROOT" OUT="$SC_BUILD" uninstall DESTDIR="$PWD/to here" PREFIX='/usr of us' >/dev/null
	[[ -z $(find "to here" -type f) && -z $(find . -name usr -type f) ]]
}

@test "what is said of S3's environment is the same on every page that says it" {
	said() { sed -n '/^\.It Ev AWS_ACCESS_KEY_ID/,/^\.El/p' "$1"; }
	mapfile -t telling < <(grep -l '^\.It Ev AWS_ACCESS_KEY_ID' "$SC_ROOT"/man/*.1)
	[[ ${#telling[@]} -ge 5 ]]
	for page in "${telling[@]}"; do
		echo "$page"
		diff <(said "$SC_ROOT/man/sc-catchup.1") <(said "$page")
	done
	# and those are all that the code asks for
	for name in $(grep -ohE '"(AWS|SC_S3)_[A-Z0-9_]+"' "$SC_ROOT"/lib/store/*.c | tr -d '"' | sort -u); do
		echo "$name"
		said "$SC_ROOT/man/sc-catchup.1" | grep -qw "$name"
	done
}
