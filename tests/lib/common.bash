# tests/lib/common.bash: what every bats file loads.
#
#     load ../lib/common
#     setup() { sc_setup; }
#     teardown() { sc_teardown; }
#
# sc_setup gives each test an empty folder and the built programs in PATH. Everything started with `start` or `serve`
# ends in sc_teardown, by its process id. Background programs never hold descriptor 3, on which bats would wait.
# Limits are generous (a loaded machine is no failure) and nothing waits for a time: always for a condition.

bats_require_minimum_version 1.5.0

SC_ROOT=${SC_ROOT:-$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}
SC_BUILD=$(realpath -m "${SC_BUILD:-$SC_ROOT/build}")
SC_TESTS=$SC_ROOT/tests
SC_DATA=$SC_TESTS/data
SC_INTEROP=${SC_INTEROP:-$SC_ROOT/build/interop}
SC_WAIT_S=${SC_WAIT_S:-60}
export SC_ROOT SC_BUILD PATH="$SC_BUILD/bin:$PATH"
unset http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY

sc_setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	declare -gA sc_pids=()
}

# needs PROGRAM...: skip the test where a program is not part of the tree yet; one that is part and not built is a failure.
needs() {
	local program

	for program in "$@"; do
		if ! compgen -G "$SC_ROOT/bin/$program*" >/dev/null; then
			skip "$program is not there yet"
		fi
	done
}

sc_teardown() {
	local name

	for name in "${!sc_pids[@]}"; do
		stop "$name" KILL || :
	done
}

# wait_for [-t SECONDS] COMMAND...: run COMMAND every 20 ms until it succeeds; fails, naming it, after the limit.
wait_for() {
	local limit=$SC_WAIT_S end

	if [[ $1 == -t ]]; then
		limit=$2
		shift 2
	fi
	end=$((${EPOCHREALTIME/./} + limit * 1000000))
	until "$@" >/dev/null 2>&1; do
		if [[ ${EPOCHREALTIME/./} -gt $end ]]; then
			echo "not so within $limit s: $*" >&2
			return 1
		fi
		sleep 0.02
	done
}

# In a child: the inputs held for others are not its own, else they would never end.
sc_let_go() {
	local fd

	for fd in "${sc_inputs[@]}"; do
		exec {fd}>&-
	done
}

# start NAME COMMAND...: run COMMAND in the background; its output goes to NAME.out and NAME.err, its input is
# NAME.in if that exists (a file or a FIFO), else empty. Sets pid.
start() {
	local name=$1 in=/dev/null

	shift
	stop "$name"  # an earlier one of that name
	: >"$name.out"  # nor is its output taken for the new one's until that opens it
	: >"$name.err"
	[[ -e $name.in ]] && in=$name.in
	(
		sc_let_go
		exec "$@"
	) <"$in" >"$name.out" 2>"$name.err" 3>&- &
	pid=$!
	sc_pids[$name]=$pid
}

# hold NAME: give what will be started as NAME an input that stays open; `say NAME TEXT` writes a line to it, and
# `close_input NAME` ends it.
declare -gA sc_inputs=()
hold() {
	local fd

	mkfifo "$1.in"
	exec {fd}<>"$1.in"
	sc_inputs[$1]=$fd
}

say() {
	printf '%s\n' "${@:2}" >&"${sc_inputs[$1]}"
}

close_input() {
	local fd=${sc_inputs[$1]}

	exec {fd}>&-
	unset "sc_inputs[$1]"
}

# stop NAME [SIGNAL]: signal what was started as NAME (TERM) and wait for its end, or until it stands still after STOP;
# SIGKILL after the usual limit.
# Sets ended to its exit status, 128+n when it ended by a signal, and took to the microseconds until then.
stop() {
	local name=$1 signal=${2:-TERM} id=${sc_pids[$1]:-} begun=${EPOCHREALTIME/./} rc=0

	[[ -n $id ]] || return 0
	kill -"$signal" "$id" 2>/dev/null || :
	case $signal in
	STOP)
		wait_for sc_stopped "$id"
		return
		;;
	CONT) return 0 ;;
	esac
	await "$name" || rc=$?
	# shellcheck disable=SC2034 # for the tests
	took=$((${EPOCHREALTIME/./} - begun))
	return "$rc"
}

# quick US COMMAND...: COMMAND sets took, by stop or itself: less than US at one of ten tries. What is slow for another
# reason than a busy machine is so at each.
quick() {
	local us=$1 try

	shift
	for try in {1..10}; do
		"$@"
		[[ $took -ge $us ]] || return 0
	done
	echo "not once of $try times in less than $us us: $*" >&2
	return 1
}

# SIGKILL to all of the process group that PID, started by setsid, leads or is about to lead: before setsid has run
# there is no such group, and a signal to it reaches nobody. Returns when all of it is gone, with its locks.
kill_group() { # kill_group PID
	wait_for leads "$1"
	kill -KILL "-$1"
	wait "$1" 2>/dev/null || :
	wait_for group_gone "$1"
}

group_gone() { # group_gone GROUP: nobody is in it but who is dead and waits for its parent
	local file stat state group

	for file in /proc/[0-9]*/stat; do
		read -r stat 2>/dev/null <"$file" || continue
		read -r state _ group _ <<<"${stat##*) }"
		[[ $group -ne $1 || $state == Z || $state == X ]] || return 1
	done
}

leads() { # leads PID: a process group, or it has ended
	local group

	read -r _ _ _ _ group _ 2>/dev/null <"/proc/$1/stat" || return 0
	[[ $group -eq $1 ]]
}

# await NAME: wait for the end of what was started as NAME; after the limit it is killed, and that is a failure.
await() {
	local name=$1 id=${sc_pids[$1]:-} rc=0

	[[ -n $id ]] || return 0
	if ! wait_for sc_gone "$id"; then
		kill -KILL "$id" 2>/dev/null || :
		rc=1
	fi
	ended=0
	wait "$id" 2>/dev/null || ended=$?
	unset "sc_pids[$name]"
	return "$rc"
}

sc_gone() {
	local stat

	# A zombie has ended: it waits for our wait.
	{ read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
	[[ ${stat##*) } == Z* ]]
}

# On a busy machine a process goes on for a while after SIGSTOP was sent: it may still read, store and answer.
sc_stopped() { # all threads of process $1 are
	local file state

	[[ -e /proc/$1/task/$1 ]] || return 1
	for file in "/proc/$1/task/"*/status; do
		state=$(sed -n 's/^State:[^A-Za-z]*\(.\).*/\1/p' "$file" 2>/dev/null) || continue # it ended
		[[ $state == T ]] || return 1
	done
}

running() {
	! sc_gone "${sc_pids[$1]:?"$1 was not started"}"
}

# ready NAME COMMAND...: start a server of ours (which gets --ready-fd 9) or of tests/interop (--ready FILE is the
# caller's), and wait for its ready line. Sets pid and port.
ready() {
	local name=$1

	shift
	stop "$name"
	: >"$name.ready"
	: >"$name.out"
	: >"$name.err"
	local in=/dev/null
	[[ -e $name.in ]] && in=$name.in
	(
		sc_let_go
		exec "$@" --ready-fd 9
	) <"$in" >"$name.out" 2>"$name.err" 3>&- 9>"$name.ready" &
	pid=$!
	sc_pids[$name]=$pid
	sc_ready "$name"
}

# serve NAME ARGUMENT...: sc-serve on a port of the kernel's choice. Sets pid, port and url.
serve() {
	local name=$1

	shift
	ready "$name" sc-serve --listen 127.0.0.1:0 "$@" || return 1
	url=ws://127.0.0.1:$port
}

# peer NAME COMMAND...: start a helper of tests/interop, which gets --ready FILE. Sets pid, port and url.
peer() {
	local name=$1

	shift
	: >"$name.ready"
	start "$name" "$@" --ready "$name.ready"
	sc_ready "$name" || return 1
	url=ws://127.0.0.1:$port
}

sc_ready() {
	if ! wait_for sc_ready_or_gone "$1" || ! [[ -s $1.ready ]]; then
		echo "'$1' did not become ready:" >&2
		cat "$1.err" >&2
		return 1
	fi
	port=
	[[ $(<"$1.ready") =~ \"port\":\ *([0-9]+) ]] && port=${BASH_REMATCH[1]}
	return 0
}

sc_ready_or_gone() {
	grep -q '}$' "$1.ready" || sc_gone "${sc_pids[$1]}"
}

# lines FILE N: FILE has at least N lines; for wait_for.
lines() {
	[[ $(wc -l <"$1") -ge $2 ]]
}

# has FILE TEXT: FILE holds TEXT, literally; for wait_for.
has() {
	grep -qF -- "$2" "$1"
}

# self_signed NAME: NAME.pem, a certificate for this machine that is its own authority, and NAME.key.
self_signed() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$1" \
		-addext "subjectAltName=DNS:localhost,IP:127.0.0.1" -keyout "$1.key" -out "$1.pem" 2>/dev/null
}

# free_port: print a port that nobody listens on, for peers that are to be missing.
free_port() {
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# same FILE FILE: equal bytes, or show the first differences.
same() {
	cmp "$1" "$2" && return 0
	diff "$1" "$2" | head -20 >&2
	return 1
}

# The programs of other people, from tests/interop/setup.sh.
# Arrays, not functions: a function in the background is a shell of its own, whose death leaves its child behind.
python_new=("$SC_INTEROP/venv/bin/python")
# The same with an older streamcast, and the storage library of its days, in front of the newest ones.
python_old=(env "PYTHONPATH=$SC_INTEROP/streamcast-0.1.0" "$SC_INTEROP/venv/bin/python")
python_mid=(env "PYTHONPATH=$SC_INTEROP/streamcast-0.8.0" "$SC_INTEROP/venv/bin/python")
export NODE_PATH=$SC_INTEROP/node/node_modules
