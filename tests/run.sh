#!/usr/bin/env bash
# Run the tests and count them.
#
#     tests/run.sh [SUITE|SUITE/NAME]...
#
# Suites, in the order in which they run:
#     unit      $SC_BUILD/unit/ROOM/*_test      C tests; last line "...: N passed, N failed"
#     seeds     $SC_BUILD/fuzz/TARGET           each on the files of tests/fuzz/seeds/TARGET
#     cli       tests/cli/*.bats
#     examples  examples/*.sh                   each in an empty folder, the programs in PATH; one test each
#     interop   tests/interop/*.bats            after tests/interop/setup.sh
#     fault     tests/fault/*.bats, tests/fault/*_test.sh, $SC_BUILD/fault/*_test
#     streams   tests/streams/*_test.sh         sc-streams over HTTP
# "all" (no argument) is all of them; "asan" is unit, seeds, cli, fault and streams. SUITE/NAME runs the files of a suite whose
# name contains NAME. SC_BUILD is the build folder (build; build/asan for a sanitized one).
#
# One job more runs at once than there are cores (SC_TEST_JOBS): they often wait for each other's ends. A file that says
# "# run: alone" or "// run: alone" near its top has the machine to itself, when all others are through; "# run: limit 300"
# gives it 300 s instead of its suite's time. A job that hangs, crashes, or ends without a count is one failure. The
# output of what failed is shown; the last line sums up.
#
# SC_TEST_TRIES=2 (as .ci/run has it, whose machine may be busy) runs what failed once more at the end, alone: both
# outcomes are shown, the second one counts.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 70
SC_BUILD=$(realpath -m "${SC_BUILD:-build}")
export SC_BUILD SC_ROOT=$root
export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=0:detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}
# One test that hangs ends with its name, before its file's time is up.
export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-240}
# The users' own settings are not the tests'.
for name in $(compgen -e | grep '^SC_.*_OPTIONS$'); do
	unset "$name"
done
unset http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY

work=$(mktemp -d "${TMPDIR:-/tmp}/sc-tests.XXXXXX")
chmod 711 "$work" # some tests become a user with fewer rights
# Unit tests kill and fail, but cut no power: where they write, memory will do, and waits for no disk.
quick=$work
if [[ $(stat -f -c %T /dev/shm 2>/dev/null) == tmpfs && $(df --output=avail -k /dev/shm | tail -n 1) -gt 1048576 ]]; then
	quick=$(mktemp -d /dev/shm/sc-tests.XXXXXX) || quick=$work
	chmod 711 "$quick"
fi
# Where python3 is a script that looks for the right one, that costs more than most of our helpers do.
if python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null) && [[ ! $(command -v python3) -ef $python ]]; then
	PATH=$(dirname "$python"):$PATH
fi
declare -A pid_job=()
passed=0 failed=0 skipped=0
jobs_max=${SC_TEST_JOBS:-$(($(nproc) < 8 ? $(nproc) + 1 : 8))}
declare -a failures=() again=()
tries_left=$((${SC_TEST_TRIES:-1} - 1))

finish() {
	local pid

	for pid in "${!pid_job[@]}"; do
		kill -TERM "$pid" 2>/dev/null
	done
	wait
	rm -rf "$work" "$quick"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- what there is to run ---------------------------------------------------------------------------------------

# job SUITE NAME LIMIT KIND FILE SOURCE: KIND is count ("N passed, N failed"), tap, status, or setup (no test itself).
declare -a queue=()
job() {
	local suite=$1 name=$2 limit=$3 kind=$4 file=$5 source=$6 alone=- own

	if [[ -f $source ]]; then
		own=$(sed -n '1,30s/^[#/ *]*run: limit \([0-9]*\).*/\1/p' "$source" | head -1)
		limit=${own:-$limit}
		sed -n '1,30p' "$source" | grep -q '^[#/ *]*run: alone' && alone=alone
	fi
	queue+=("$suite|$name|$limit|$kind|$alone|$file")
}

suite_unit() {
	local source name

	for source in tests/unit/*/*_test.c; do
		[[ -f $source ]] || continue
		name=${source#tests/unit/}
		name=${name%.c}
		job unit "$name" 300 count "$SC_BUILD/unit/$name" "$source"
	done
}

suite_seeds() {
	local target

	for target in "$SC_BUILD"/fuzz/*; do
		[[ -f $target && -x $target ]] || continue
		job seeds "${target##*/}" 120 status "$target" "tests/fuzz/${target##*/}.c"
	done
}

suite_bats() { # SUITE LIMIT
	local file

	for file in tests/"$1"/*.bats; do
		[[ -f $file ]] || continue
		job "$1" "$(basename "$file" .bats)" "$2" tap "$file" "$file"
	done
}

suite_examples() {
	local file

	for file in examples/*.sh; do
		[[ -f $file ]] || continue
		job examples "$(basename "$file" .sh)" 120 status "$root/$file" "$file"
	done
}

suite_fault() {
	local file

	suite_bats fault 300
	for file in tests/fault/*_test.sh; do
		[[ -f $file ]] || continue
		job fault "$(basename "$file" .sh)" 300 count "$root/$file" "$file"
	done
	for file in tests/fault/*_test.c; do
		[[ -f $file ]] || continue
		job fault "$(basename "$file" .c)" 300 count "$SC_BUILD/fault/$(basename "$file" .c)" "$file"
	done
}

suite_streams() {
	local file

	for file in tests/streams/*_test.sh; do
		[[ -f $file ]] || continue
		job streams "$(basename "$file" .sh)" 300 count "$root/$file" "$file"
	done
}

add_suite() {
	case $1 in
	unit) suite_unit ;;
	seeds) suite_seeds ;;
	cli) suite_bats cli 180 ;;
	examples) suite_examples ;;
	interop)
		job interop setup 600 setup tests/interop/setup.sh tests/interop/setup.sh
		suite_bats interop 600
		;;
	fault) suite_fault ;;
	streams) suite_streams ;;
	*)
		echo "tests/run.sh: '$1' is no suite; give all, asan, unit, seeds, cli, examples, interop, fault or streams" >&2
		exit 64
		;;
	esac
}

# --- running ----------------------------------------------------------------------------------------------------

# The command of a job, in its own folder under $work; output goes to $work/N.out.
launch() { # N SUITE NAME LIMIT KIND FILE
	local n=$1 suite=$2 name=$3 limit=$4 kind=$5 file=$6
	local -a command

	case $kind in
	tap) command=(bats --tap --print-output-on-failure "$root/${file#"$root"/}") ;;
	setup) command=("$root/$file") ;;
	*)
		command=("$file")
		if [[ $suite == seeds ]]; then
			shopt -s nullglob
			command+=("$root/tests/fuzz/seeds/$name"/*)
			shopt -u nullglob
		fi
		;;
	esac
	mkdir -p "$work/$n"
	(
		cd "$work/$n" || exit 70
		if [[ $suite == unit || $suite == seeds ]]; then cd "$root" || exit 70; fi
		export TMPDIR=$work/$n
		if [[ $suite == unit ]]; then
			TMPDIR=$quick/$n
			mkdir -p "$TMPDIR"
		fi
		export PATH=$SC_BUILD/bin:$PATH
		exec timeout -k 10 "$limit" "${command[@]}"
	) </dev/null >"$work/$n.out" 2>&1 &
	pid_job[$!]="$n|$suite|$name|$limit|$kind|$EPOCHREALTIME|$file"
}

# Counts of one finished job: sets p, f, s and why.
judge() { # STATUS KIND OUT
	local status=$1 kind=$2 out=$3 line

	p=0 f=0 s=0 why=
	case $kind in
	tap)
		s=$(grep -c '^ok .*# skip' "$out")
		p=$(($(grep -c '^ok ' "$out") - s))
		f=$(grep -c '^not ok ' "$out")
		line=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$out" | head -1)
		if [[ -z $line || $((p + f + s)) -ne $line ]]; then
			f=$((f + 1)) why="ended after $((p + f + s - 1)) of ${line:-no} tests"
		fi
		;;
	count)
		line=$(grep -Eo '[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' "$out" | tail -1)
		if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]; then
			p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[4]:-0}
		else
			f=1 why='ended without a count'
		fi
		;;
	status) [[ $status -eq 0 ]] && p=1 || f=1 ;;
	setup) [[ $status -eq 0 ]] || f=1 ;;
	esac
	if [[ $status -eq 124 || $status -eq 137 ]]; then
		why="hung: stopped after its ${4} s"
		[[ $f -gt 0 ]] || f=1
	elif [[ $status -ne 0 && $f -eq 0 ]]; then
		f=1 why="exit status $status"
	fi
}

reap() { # one job
	local pid status n suite name limit kind since file took p f s why

	wait -n -p pid "${!pid_job[@]}"
	status=$?
	[[ -n ${pid:-} ]] || return
	IFS='|' read -r n suite name limit kind since file <<<"${pid_job[$pid]}"
	unset "pid_job[$pid]"
	[[ $kind == setup ]] && setup_runs=
	took=$(awk -v a="$since" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
	judge "$status" "$kind" "$work/$n.out" "$limit"
	if [[ $kind == tap && $why == hung* ]]; then
		# TAP names a test when it has ended: the one that hangs is the next in the file.
		why+=", in \"$(sed -n 's/^@test "\(.*\)" {.*/\1/p' "$file" | sed -n "$((p + f + s))p")\""
	fi
	if [[ $f -gt 0 && $tries_left -gt 0 && $kind != setup ]]; then
		again+=("$suite|$name|$limit|$kind|alone|$file")
		echo "FAIL $suite/$name: $p passed, $f failed${why:+ ($why)}, $took s: once more at the end"
		show "$kind" "$work/$n.out"
		rm -rf "${work:?}/$n" "$work/$n.out"
		return
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	if [[ $f -gt 0 ]]; then
		failures+=("$suite/$name${why:+ ($why)}")
		echo "FAIL $suite/$name: $p passed, $f failed$( ((s)) && echo ", $s skipped")${why:+ ($why)}, $took s"
		show "$kind" "$work/$n.out"
	elif [[ $kind == setup ]]; then
		echo "ok   $suite/$name: ready, $took s"
	else
		echo "ok   $suite/$name: $p passed$( ((s)) && echo ", $s skipped"), $took s"
	fi
	[[ $s -gt 0 ]] && grep '^ok .*# skip' "$work/$n.out" | sed 's/^ok [0-9]* /     skipped: /'
	rm -rf "${work:?}/$n" "$work/$n.out"
}

# What failed, without what passed.
show() {
	if [[ $1 == tap ]]; then
		awk '/^ok /{ shown = 0 } /^not ok /{ shown = 1 } shown || !/^(ok|not ok|1\.\.|#) ?/' "$2"
	else
		cat "$2"
	fi | tail -n 200 | sed 's/^/     | /'
}

main() {
	local -a wanted=("$@")
	local word suite entry name limit kind alone file n=0 pattern
	local setup_runs=

	[[ ${#wanted[@]} -gt 0 ]] || wanted=(all)
	for word in "${wanted[@]}"; do
		case $word in
		all) for suite in unit seeds cli examples interop fault streams; do add_suite $suite; done ;;
		asan) for suite in unit seeds cli fault streams; do add_suite $suite; done ;;
		*/*)
			local -a before=("${queue[@]+"${queue[@]}"}")
			queue=()
			add_suite "${word%%/*}"
			pattern=${word#*/}
			for entry in "${queue[@]+"${queue[@]}"}"; do
				IFS='|' read -r suite name limit kind alone file <<<"$entry"
				[[ $name == *"$pattern"* || $kind == setup ]] && before+=("$entry")
			done
			queue=("${before[@]+"${before[@]}"}")
			;;
		*) add_suite "$word" ;;
		esac
	done

	# The set-up waits for the network more than for a core: begin with it.
	local -a first=() rest=() last=()
	for entry in "${queue[@]+"${queue[@]}"}"; do
		case $entry in
		*'|setup|'*'|setup|'*) first=("$entry") ;;
		*'|alone|'*) last+=("$entry") ;;
		*) rest+=("$entry") ;;
		esac
	done

	for entry in "${first[@]+"${first[@]}"}" "${rest[@]+"${rest[@]}"}" "${last[@]+"${last[@]}"}"; do
		IFS='|' read -r suite name limit kind alone file <<<"$entry"
		while [[ ${#pid_job[@]} -ge $jobs_max || ($alone == alone && ${#pid_job[@]} -gt 0) ||
			(-n $setup_runs && $suite == interop) ]]; do
			reap
		done
		n=$((n + 1))
		[[ $kind == setup ]] && setup_runs=1
		launch "$n" "$suite" "$name" "$limit" "$kind" "$file"
		while [[ $alone == alone && ${#pid_job[@]} -gt 0 ]]; do
			reap
		done
	done
	while [[ ${#pid_job[@]} -gt 0 ]]; do
		reap
	done
	tries_left=0
	for entry in "${again[@]+"${again[@]}"}"; do
		IFS='|' read -r suite name limit kind alone file <<<"$entry"
		n=$((n + 1))
		launch "$n" "$suite" "$name" "$limit" "$kind" "$file"
		reap
	done

	if [[ ${#failures[@]} -gt 0 ]]; then
		echo "failed:"
		printf '     %s\n' "${failures[@]}"
	fi
	if [[ $skipped -gt 0 ]]; then
		echo "$passed passed, $failed failed, $skipped skipped"
	else
		echo "$passed passed, $failed failed"
	fi
	[[ $failed -eq 0 && $passed -gt 0 ]]
}

# On one line: bash reads no further in a file that may have changed meanwhile.
main "$@"; exit
