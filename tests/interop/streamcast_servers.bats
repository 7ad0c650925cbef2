# sc-sub against real streamcast servers: 0.1.0 (protocol 1, binary pairs), 0.8.0 (2) and the newest (4, triples).
# It must read both, resume across its own death and theirs, and give each refusal its own status.

load ../lib/common
load interop

setup() {
	needs sc-sub
	sc_setup
}

teardown() { sc_teardown; }

# One that would hang is stopped: bats cannot.
sub() { timeout 90 sc-sub "$@"; }

# upstream old|mid|new [ARGUMENT...]: a real server, whose commands go through `tell`.
upstream() {
	local python=("${python_new[@]}")

	case $1 in
	old) python=("${python_old[@]}") ;;
	mid) python=("${python_mid[@]}") ;;
	esac
	[[ -e server.in ]] || hold server
	peer server "${python[@]}" "$SC_TESTS/interop/streamcast_server.py" --root root "${@:2}"
}

# tell COMMAND: give the server a command and wait for its answer.
tell() {
	local before

	before=$(wc -l <server.out)
	say server "$1"
	wait_for lines server.out $((before + 1))
}

# frames OFFSET COUNT FILE: what the server's data frames hold, as sc-sub is to print them.
frames() {
	"${python_new[@]}" "$SC_TESTS/interop/wsclient.py" --count "$2" "$url/trades?offset=$1" |
		sed -E 's/^\[([0-9]+),[0-9]+,/[\1,/' >"$3"
}

reads() {
	upstream "$1"
	tell 'rows 50'
	frames 1 50 want
	sub --offset earliest --count 50 "$url/trades" >got
	same want got
	sub --offset 48 --count 3 "$url/trades" >got
	same <(tail -3 want) got
	sub --after 48 --count 2 "$url/trades" >got
	same <(tail -2 want) got

	# Live only.
	start subscriber sc-sub --count 2 "$url/trades"
	wait_for sc_subscribed
	tell 'rows 2'
	await subscriber
	[ "$ended" -eq 0 ]
	[ "$(offsets subscriber.out | tr '\n' ' ')" = '51 52 ' ]
}

# A server that replays 5 rows, a mirror of its stream that has them all, and the mirror's archive.
catches_up() {
	local from

	mkdir shelf
	upstream "$1" --max-replay 5
	tell 'rows 5'
	sc-log create trades
	sub --offset earliest --count 5 "$url/trades" | sc-log append --quiet --mirror trades
	tell 'rows 5'
	sub --offset 6 --count 5 "$url/trades" | sc-log append --quiet --mirror trades
	tell 'rows 4'
	sub --offset 11 --count 4 "$url/trades" >rest
	cat <(sc-log read trades) rest >want

	# Its own archive is of another kind, or there is none.
	run -66 --separate-stderr sub --offset 3 --catch-up "$url/trades" --quiet
	[[ -z $output && $stderr == *'nothing says where the archive is'*'name it with --archive' ]]
	run -66 --separate-stderr sub --offset 3 --catch-up --archive "file://$PWD/shelf" "$url/trades" --quiet
	[[ -z $output && $stderr == *"$PWD/shelf/trades"* ]]

	sc-seal trades --force --archive "file://$PWD/shelf"
	for from in 1 3 9; do
		sub --offset $from --count $((15 - from)) --catch-up --archive "file://$PWD/shelf" "$url/trades" --cursor place >got
		same <(tail -n +$from want) got
		[[ $(cat place) -eq 14 ]]
		rm place
	done
	# The server answers offset 0 with what it would have to replay, and that is too much.
	sub --offset earliest --count 14 --catch-up --archive "file://$PWD/shelf" "$url/trades" >got
	same want got

	# Rows between the archive's end and what the server replays.
	tell 'rows 3'
	run -79 --separate-stderr sub --json --offset 3 --catch-up --archive "file://$PWD/shelf" "$url/trades"
	[[ $(jq -r .why <<<"${stderr_lines[-1]}") == gap && $(jq .first <<<"${stderr_lines[-1]}") -eq 11 ]]
	[[ ${#lines[@]} -eq 8 ]]
}

# The server names an archive, and it is not one of ours.
names_its_own() {
	upstream "$1" --max-replay 5 --archive "$2"
	tell 'rows 9'
	mkdir -p ice
	AWS_ENDPOINT_URL=http://127.0.0.1:1 AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b \
		run --separate-stderr sub --offset 3 --catch-up "$url/trades" --quiet
	echo "$stderr"
	[[ $status -eq $3 && -z $output && $stderr == *"$2"* ]]
}

# Somebody is subscribed, as far as the operating system can tell: a connection to the server's port.
sc_subscribed() {
	local hex

	hex=$(printf '0100007F:%04X' "$port")
	[[ $(awk -v to="$hex" '$3 == to && $4 == "01"' /proc/net/tcp | wc -l) -gt 0 ]]
}

resumes_after_kill() {
	upstream "$1"
	tell 'rows 40'
	start subscriber sc-sub --cursor place --offset earliest "$url/trades"
	wait_for lines subscriber.out 40
	wait_for sc_saved 40
	stop subscriber KILL
	cp subscriber.out first
	tell 'rows 40'
	sub --cursor place --count 40 "$url/trades" >second
	# Missing nothing; what the cursor had not told yet may come again.
	offsets first | cat - <(offsets second) | sort -nu | diff - <(seq 80)
	[ "$(offsets second | head -1)" = 41 ]
	[ "$(cat place)" = 80 ]
}

sc_saved() {
	[[ -s place && $(cat place) -eq $1 ]]
}

resumes_after_server() {
	upstream "$1"
	tell 'rows 10'
	start subscriber sc-sub --retry-wait 300ms --offset earliest --count 30 "$url/trades"
	wait_for lines subscriber.out 10
	local at=$port
	stop server
	upstream "$1" --port "$at"
	tell 'rows 10'
	wait_for lines subscriber.out 20
	stop server KILL
	upstream "$1" --port "$at"
	tell 'rows 10'
	await subscriber
	[ "$ended" -eq 0 ]
	offsets subscriber.out | diff - <(seq 30)
}

is_refused() {
	upstream "$1" --max-replay 5
	tell 'rows 9'

	run -79 --separate-stderr sub --offset 4 "$url/trades"
	[ -z "$output" ]
	[[ $stderr == *too*old* ]]
	[[ $stderr == *5* ]]
	run -79 --separate-stderr sub --json --offset 4 "$url/trades"
	[ "$(jq -r .why <<<"${stderr_lines[-1]}")" = too_old ]
	[ "$(jq -c '[.offset, .behind, .max_replay]' <<<"${stderr_lines[-1]}")" = '[4,6,5]' ]

	run -79 --separate-stderr sub --json --offset 11 "$url/trades"
	[ "$(jq -r .why <<<"${stderr_lines[-1]}")" = ahead ]
	[ "$(jq -c '[.offset, .end_offset]' <<<"${stderr_lines[-1]}")" = '[11,10]' ]

	run -79 --separate-stderr sub --json --offset earliest "$url/live"
	[ "$(jq -r .why <<<"${stderr_lines[-1]}")" = not_durable ]

	run -66 --separate-stderr sub "$url/trade"
	[[ $stderr == *trade* ]]
	[[ $stderr == *live*trades* ]]

	# A cursor that fell behind is refused in the same way, and stays as it is.
	echo -n 2 >place
	run -79 --separate-stderr sub --cursor place "$url/trades"
	[ "$(cat place)" = 2 ]
}

survives_being_slow() {
	upstream "$1" --max-backlog 50
	tell 'rows 1'
	start subscriber sc-sub --offset earliest --count 3001 "$url/trades"
	wait_for lines subscriber.out 1
	# Faster than the server lets any subscriber be: it cuts us off after 50.
	tell 'flood 3000'
	await subscriber
	[ "$ended" -eq 0 ]
	offsets subscriber.out | diff - <(seq 3001)
}

@test "sc-sub reads from a streamcast 0.1.0 server" { reads old; }
@test "sc-sub resumes from its cursor after kill -9, at 0.1.0" { resumes_after_kill old; }
@test "sc-sub goes on when a 0.1.0 server comes back" { resumes_after_server old; }
@test "sc-sub is refused by a 0.1.0 server with 79 and 66" { is_refused old; }
@test "sc-sub, cut off by a 0.1.0 server as too slow, goes on where it was" { survives_being_slow old; }

@test "sc-sub reads from a streamcast 0.8.0 server" { reads mid; }
@test "sc-sub resumes from its cursor after kill -9, at 0.8.0" { resumes_after_kill mid; }
@test "sc-sub is refused by a 0.8.0 server with 79 and 66" { is_refused mid; }

@test "sc-sub reads from the newest streamcast server" { reads new; }
@test "sc-sub resumes from its cursor after kill -9, at the newest" { resumes_after_kill new; }
@test "sc-sub goes on when the newest server comes back" { resumes_after_server new; }
@test "sc-sub is refused by the newest server with 79 and 66" { is_refused new; }
@test "sc-sub, cut off by the newest server as too slow, goes on where it was" { survives_being_slow new; }

@test "sc-sub prints rows of a 0.1.0 stream without a log, with null for the offset" {
	upstream old
	start subscriber sc-sub --count 1 "$url/live"
	wait_for sc_subscribed
	# The handshake may still be under way when the connection is seen: send until one came.
	wait_for sc_said_live
	await subscriber
	[ "$ended" -eq 0 ]
	[ "$(cat subscriber.out)" = '[null,{"b":1,"a":2.5}]' ]
}

sc_said_live() {
	say server 'live {"b":1,"a":2.5}'
	sleep 0.1
	[[ -s subscriber.out ]]
}

@test "sc-sub knows the old word for an empty log" {
	upstream old
	run -79 --separate-stderr sub --json --offset earliest "$url/trades"
	[ "$(jq -r .why <<<"${stderr_lines[-1]}")" = empty ]
}

@test "sc-sub catches up from a mirror's archive where a 0.1.0 server does not go back so far" { catches_up old; }
@test "sc-sub catches up from a mirror's archive where a 0.8.0 server does not go back so far" { catches_up mid; }
@test "sc-sub catches up from a mirror's archive where the newest server does not go back so far" { catches_up new; }
@test "sc-sub says that a 0.1.0 server's own archive is none of ours" { names_its_own old s3://ice/prod 69; }
@test "sc-sub says that a 0.8.0 server's own archive is none of ours" { names_its_own mid s3://ice/prod 69; }
