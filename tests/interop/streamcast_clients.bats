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

refused() { # ARGUMENT... PATH: the refusal is in the file refusal
	if client "$@" >got 2>refusal; then
		echo "not refused: $*" >&2
		cat got >&2
		return 1
	fi
	cat refusal >&2
}

is_refused() {
	with "$1"
	make_log 10
	sc-log create data/none --schema "$SC_DATA/trades.schema.json"
	hold server
	serve server --wire "$wire" --max-replay 5 data/trades data/none live=-

	refused --offset 12 "$url/trades"
	[ "$(field refusal .exception)" = NotReplayable ]
	[ "$(field refusal .why)" = ahead ]
	[ "$(field refusal '.fields | tojson')" = '{"offset":12,"end_offset":11}' ]

	refused --offset 5 "$url/trades"
	[ "$(field refusal .why)" = too_old ]
	[ "$(field refusal '.fields | [.offset, .behind, .max_replay] | tojson')" = '[5,6,5]' ]
	refused --offset 0 "$url/trades"
	[ "$(field refusal '.fields | [.offset, .behind, .max_replay] | tojson')" = '[1,10,5]' ]
	client --offset 6 --count 5 "$url/trades" >got

	refused --offset 0 "$url/live"
	[ "$(field refusal .why)" = not_durable ]

	# Offset 0 of an empty log is accepted, as newer servers do; 2 is ahead.
	client --offset 0 --count 0 "$url/none" >got
	[ "$(jq -c .info.replay got)" = '[1,1]' ]
	refused --offset 2 "$url/none"
	[ "$(field refusal .why)" = ahead ]

	refused "$url/trade"
	[ "$(field refusal .exception)" = StreamNotFound ]
	[ "$(field refusal '.serves | tojson')" = '["live","none","trades"]' ]

	refused "$url/trades?colour=red"
	[ "$(field refusal .exception)" = ProtocolError ]
	[ "$(field refusal .text)" = 'unknown query parameter(s): colour' ]
	refused "$url/trades?offset=-1"
	[ "$(field refusal .exception)" = ProtocolError ]
}

is_evicted() {
	with "$1"
	make_log 10
	sc-log trim data/trades --before 6
	first=$(sc-log info --json data/trades | jq .first_offset)
	[ "$first" -gt 1 ]
	serve server --wire "$wire" data/trades
	refused --offset $((first - 1)) "$url/trades"
	[ "$(field refusal .why)" = evicted ]
	[ "$(field refusal '.fields | [.offset, .earliest] | tojson')" = "[$((first - 1)),$first]" ]
	client --offset "$first" --count $((11 - first)) "$url/trades" >got
}

is_too_slow() {
	with "$1"
	make_log 1
	serve server --wire "$wire" --max-backlog 100 data/trades
	start subscriber "${python[@]}" "$SC_TESTS/interop/streamcast_client.py" --offset 1 --pause-after 1 --resume go \
		"$url/trades"
	wait_for lines subscriber.out 2
	# More than the sockets' buffers hold.
	python3 -c '
for number in range(4000):
    print("{\"event_ts\":%d,\"price\":1.5,\"side\":\"%s\"}" % (number, "x" * 10000))' |
		sc-log append --quiet data/trades
	wait_for sc_cut
	touch go
	await subscriber
	[ "$ended" -eq 1 ]
	cat subscriber.err
	[ "$(field subscriber.err .exception)" = TooSlow ]
	[ "$(field subscriber.err .backlog)" = 100 ]

	# What it got is an unbroken prefix, and it can go on where it was.
	sed 1d subscriber.out >rows
	last=$(wc -l <rows)
	[ "$(field subscriber.err .offset)" = "$last" ]
	offsets rows | diff - <(seq "$last")
	client --offset $((last + 1)) --count 1 "$url/trades" >got
}

sc_cut() {
	curl -s "http://127.0.0.1:$port/stats" | jq -e '.streams[0].subscribers == 0'
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
	refused --offset 0 "$url/trades"
	[ "$(field refusal .exception)" = ProtocolError ]
	[[ $(field refusal .text) == *'speaks streamcast 4'*'speaks 1'* ]]
}
