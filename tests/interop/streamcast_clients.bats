# Real streamcast clients against sc-serve: of 0.1.0 (protocol 1), 0.8.0 (2) and the newest (which reads 4 and 5).
# They must subscribe, resume from their cursor, and be refused with the right word and numbers.

load ../lib/common
load interop

setup() {
	needs sc-log sc-serve
	sc_setup
}

teardown() { sc_teardown; }

client() { "${python[@]}" "$SC_TESTS/interop/streamcast_client.py" "$@"; }

# with WIRE: use the client that reads it.
with() {
	wire=$1
	python=("${python_new[@]}")
	case $1 in
	1) python=("${python_old[@]}") ;;
	2) python=("${python_mid[@]}") ;;
	esac
}

subscribes() {
	with "$1"
	make_log 20
	serve server --wire "$wire" data/trades
	client --offset 0 --count 20 "$url/trades" >got

	head -1 got >info
	[ "$(field info .info.version)" = "$wire" ]
	[ "$(field info .info.stream)" = trades ]
	[ "$(field info .info.end_offset)" = 21 ]
	[ "$(field info '.info.replay | tojson')" = '[1,21]' ]
	[ "$(field info .info.durable)" = true ]
	[ "$(field info '.info.schema.properties | keys_unsorted | tojson')" = '["event_ts","price","side"]' ]
	[ "$(field info '.info.schema.required | tojson')" = '["event_ts","price"]' ]

	sc-log read data/trades >stored
	normal stored >want
	sed 1d got >rows
	normal rows >have
	same want have
}

goes_live() {
	with "$1"
	make_log 3
	serve server --wire "$wire" data/trades
	start subscriber "${python[@]}" "$SC_TESTS/interop/streamcast_client.py" --offset 2 "$url/trades"
	wait_for lines subscriber.out 3
	rows 4 500 | sc-log append --quiet data/trades
	wait_for lines subscriber.out 500
	sed 1d subscriber.out >rows
	normal rows >have
	sc-log read --from 2 data/trades >stored
	normal stored >want
	same want have

	# The server's end is an ordinary end of the client's iteration.
	stop server
	[ "$ended" -eq 0 ]
	await subscriber
	[ "$ended" -eq 0 ]
	[ ! -s subscriber.err ]
}

resumes() {
	with "$1"
	make_log 10
	serve server --wire "$wire" data/trades
	client --offset 1 --cursor place --count 4 "$url/trades" >got
	[ "$(cat place)" = 4 ]
	client --cursor place --count 6 "$url/trades" >got
	sed 1d got >rows
	[ "$(offsets rows | head -1)" = 5 ]
	[ "$(cat place)" = 10 ]

	# All of it read: the common reconnect, at the frontier.
	start subscriber "${python[@]}" "$SC_TESTS/interop/streamcast_client.py" --cursor place --count 2 "$url/trades"
	wait_for lines subscriber.out 1
	[ "$(jq -c .info.replay subscriber.out)" = '[11,11]' ]
	rows 11 12 | sc-log append --quiet data/trades
	await subscriber
	[ "$ended" -eq 0 ]
	[ "$(cat place)" = 12 ]
}

# answers "PATH OFFSET"...: subscribe so, one after the other; what came of each is a line of the file answers.
answers() {
	printf "$url%s\n" "$@" | client --each >answers
	cat answers >&2
}

answer() { # N JQ
	sed -n "$1p" answers | jq -r "$2"
}

is_refused() {
	with "$1"
	make_log 10
	sc-log create data/none --schema "$SC_DATA/trades.schema.json"
	hold server
	serve server --wire "$wire" --max-replay 5 data/trades data/none live=-
	answers '/trades 12' '/trades 5' '/trades 0' '/trades 6' '/live 0' '/none 0' '/none 2' '/trade -' \
		'/trades?colour=red -' '/trades?offset=-1 -'

	[ "$(answer 1 '[.exception, .why] | tojson')" = '["NotReplayable","ahead"]' ]
	[ "$(answer 1 '.fields | tojson')" = '{"offset":12,"end_offset":11}' ]

	[ "$(answer 2 .why)" = too_old ]
	[ "$(answer 2 '.fields | [.offset, .behind, .max_replay] | tojson')" = '[5,6,5]' ]
	[ "$(answer 3 .why)" = too_old ]
	[ "$(answer 3 '.fields | [.offset, .behind, .max_replay] | tojson')" = '[1,10,5]' ]
	[ "$(answer 4 '.info.replay | tojson')" = '[6,11]' ]

	[ "$(answer 5 .why)" = not_durable ]

	# Offset 0 of an empty log is accepted, as newer servers do; 2 is ahead.
	[ "$(answer 6 '.info.replay | tojson')" = '[1,1]' ]
	[ "$(answer 7 .why)" = ahead ]

	[ "$(answer 8 .exception)" = StreamNotFound ]
	[ "$(answer 8 '.serves | tojson')" = '["live","none","trades"]' ]

	[ "$(answer 9 .exception)" = ProtocolError ]
	[[ $(answer 9 .text) == *colour* ]]
	[ "$(answer 10 .exception)" = ProtocolError ]
}

is_evicted() {
	with "$1"
	make_log 10
	sc-log trim data/trades --before 6
	serve server --wire "$wire" data/trades
	answers '/trades 5' '/trades 6' '/trades 0'
	[ "$(answer 1 .why)" = evicted ]
	[ "$(answer 1 '.fields | [.offset, .earliest] | tojson')" = '[5,6]' ]
	[ "$(answer 2 '.info.replay | tojson')" = '[6,11]' ]
	[ "$(answer 3 '.info.replay | tojson')" = '[6,11]' ]
}

is_too_slow() {
	with "$1"
	make_log 1
	serve server --wire "$wire" --max-backlog 2000 data/trades
	start subscriber "${python[@]}" "$SC_TESTS/interop/streamcast_client.py" --offset 1 --pause-after 1 --resume go \
		"$url/trades"
	wait_for lines subscriber.out 2
	start witness "${python_new[@]}" "$SC_TESTS/interop/wsclient.py" --count 6001 "$url/trades?offset=1"
	# More than the sockets' buffers hold.
	python3 -c '
for number in range(6000):
    print("{\"event_ts\":%d,\"price\":1.5,\"side\":\"%s\"}" % (number, "x" * 10000))' |
		sc-log append --quiet data/trades
	# When a reader that keeps up has it all, the one that does not is far behind.
	await witness
	[ "$ended" -eq 0 ]
	touch go
	await subscriber
	[ "$ended" -eq 1 ]
	cat subscriber.err
	[ "$(field subscriber.err .exception)" = TooSlow ]
	[ "$(field subscriber.err .backlog)" = 2000 ]

	# What it got is an unbroken prefix, and it can go on where it was.
	sed 1d subscriber.out >rows
	last=$(wc -l <rows)
	[ "$(field subscriber.err .offset)" = "$last" ]
	offsets rows | diff - <(seq "$last")
	client --offset $((last + 1)) --count 1 "$url/trades" >got
}

@test "streamcast 0.1.0 subscribes from the start" { subscribes 1; }
@test "streamcast 0.1.0 passes from replay into live, and ends with the server" { goes_live 1; }
@test "streamcast 0.1.0 resumes from its cursor" { resumes 1; }
@test "streamcast 0.1.0 is refused with the right words and numbers" { is_refused 1; }
@test "streamcast 0.1.0 is told what was evicted" { is_evicted 1; }
@test "streamcast 0.1.0 is dropped when too slow, after an unbroken prefix" { is_too_slow 1; }

@test "streamcast 0.8.0 subscribes from the start" { subscribes 2; }
@test "streamcast 0.8.0 passes from replay into live, and ends with the server" { goes_live 2; }
@test "streamcast 0.8.0 resumes from its cursor" { resumes 2; }
@test "streamcast 0.8.0 is refused with the right words and numbers" { is_refused 2; }

@test "the newest streamcast subscribes over protocol 4" { subscribes 4; }
@test "the newest streamcast passes from replay into live over protocol 4" { goes_live 4; }
@test "the newest streamcast resumes over protocol 4" { resumes 4; }
@test "the newest streamcast is refused over protocol 4 with the right words and numbers" { is_refused 4; }
@test "the newest streamcast is told what was evicted over protocol 4" { is_evicted 4; }
@test "the newest streamcast is dropped over protocol 4 when too slow" { is_too_slow 4; }

@test "the newest streamcast subscribes over protocol 5" { subscribes 5; }
@test "the newest streamcast passes from replay into live over protocol 5" { goes_live 5; }
@test "the newest streamcast resumes over protocol 5" { resumes 5; }

@test "a client of another protocol is told both numbers" {
	make_log 1
	serve server --wire 4 data/trades
	with 1
	answers '/trades 0'
	[ "$(answer 1 .exception)" = ProtocolError ]
	[[ $(answer 1 .text) == *'speaks streamcast 4'*'speaks 1'* ]]
}
