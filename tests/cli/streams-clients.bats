# sc-sub and sc-pub with Durable Streams servers (http://.../v1/stream/...): where they begin, catching up and both ways of
# waiting, offsets, cursor files, publishing with and without a producer, state files, statuses, and kill -9 in a pipeline and at
# the server. The server is sc-streams.

load ../lib/common

setup() {
	needs sc-pub sc-sub sc-streams
	sc_setup
	ready server sc-streams --listen 127.0.0.1:0 data
	url=http://127.0.0.1:$port/v1/stream
}

teardown() { sc_teardown; }

pub() { timeout 60 sc-pub "$@"; }
sub() { timeout 60 sc-sub "$@"; }

# abc: a JSON stream `s` that holds three messages.
abc() {
	run -0 pub --create application/json "$url/s" <<<$'{"m":1}\n{"m":2.0}\n"x"'
	[[ $output == $'[11,{"m":1}]\n[24,{"m":2.0}]\n[31,"x"]' ]]
}

@test "rows are published and read, with the offsets behind them" {
	abc
	run -0 sub --offset earliest --until-end "$url/s"
	[[ $output == $'[11,{"m":1}]\n[24,{"m":2.0}]\n[31,"x"]' ]]
	run -0 sub --after 24 --until-end "$url/s"
	[[ $output == '[31,"x"]' ]]
	run -0 sub --at 0000000000000000_0000000000000024 --until-end "$url/s"
	[[ $output == '[31,"x"]' ]]
	run -0 sub --offset earliest --count 2 --payload --filter 'type == "object"' "$url/s"
	[[ $output == $'{"m":1}\n{"m":2.0}' ]]
	run -0 sub --until-end "$url/s"
	[[ -z $output ]]
}

waits() {
	abc
	start sub sc-sub -v --live "$1" --count 4 --after 31 "$url/s"
	wait_for has sub.err 'connected to'
	pub -q "$url/s" <<<4
	pub -q "$url/s" <<<$'5\n6'
	wait_for lines sub.out 3
	pub -q "$url/s" <<<7
	await sub
	[[ $ended -eq 0 ]]
	[[ $(cat sub.out) == $'[36,4]\n[41,5]\n[46,6]\n[51,7]' ]]
}

@test "waiting with long-polls" { waits long-poll; }
@test "waiting with server-sent events" { waits sse; }

@test "a closed stream ends it, and takes no more" {
	abc
	start sub sc-sub --offset earliest "$url/s"
	start sse sc-sub --live sse --offset earliest "$url/s"
	wait_for lines sub.out 3
	wait_for lines sse.out 3
	run -0 pub --close "$url/s" <<<'"last"'
	await sub
	[[ $ended -eq 0 ]]
	await sse
	[[ $ended -eq 0 ]]
	[[ $(tail -1 sub.out) == '[41,"last"]' ]]
	same sub.out sse.out
	run -79 --separate-stderr pub "$url/s" <<<1
	[[ $stderr == *'the stream is closed' ]]
}

@test "what is not JSON goes out and comes back as the same bytes" {
	printf '{"$text":"a\\nb"}\n{"$base64":"/wA="}\nplain\n' >in
	pub -q --create application/octet-stream --wrap "$url/bytes" <in
	curl -s "$url/bytes?offset=-1" >got
	same <(printf 'a\nb\xff\0plain') got
	run -0 sub --offset earliest --until-end "$url/bytes"
	[[ $output == '[22,{"$base64":"'"$(base64 -w0 got)"'"}]' ]]
}

@test "a cursor follows what was finished, and holds the server's offset" {
	abc
	sub --cursor c --offset earliest --count 2 "$url/s" >got
	[[ $(cat c) == 0000000000000000_0000000000000024 ]]
	run -0 sub --cursor c --until-end "$url/s"
	[[ $output == '[31,"x"]' ]]
	[[ $(cat c) == 0000000000000000_0000000000000031 ]]
	echo 11 >c2
	run -79 --separate-stderr sub --cursor c2 --until-end "$url/s"
	run -1 --separate-stderr sub --cursor c3 --offset earliest --exec 'read -r l; test "$SC_OFFSET" != 24' "$url/s"
	[[ $(cat c3) == 0000000000000000_0000000000000011 ]]
}

# chain URL OPTION...: a stream at URL is made, written, read, and waited for.
chain() {
	run -0 pub "${@:2}" --create application/json "$1" <<<$'1\n"x"'
	[[ $output == $'[5,1]\n[12,"x"]' ]]
	run -0 pub -P p --state "st.${1##*/}" --numbered "${@:2}" "$1" <<<2
	[[ $output == '[17,2]' ]]
	run -0 sub --offset earliest --until-end "${@:2}" "$1"
	[[ $output == $'[5,1]\n[12,"x"]\n[17,2]' ]]
	run -0 sub --at 0000000000000000_0000000000000005 --until-end "${@:2}" "$1"
	[[ $output == $'[12,"x"]\n[17,2]' ]]
	start sub sc-sub --cursor "c.${1##*/}" --after 17 --count 1 "${@:2}" "$1"
	wait_for metric 'sc_streams_live_reads{mode="long-poll"} 1'
	pub -q "${@:2}" "$1" <<<3
	await sub
	[[ $ended -eq 0 && $(cat sub.out) == '[22,3]' ]]
	run -66 --separate-stderr sub "${@:2}" "${1}-none"
	[[ $stderr == *"stream '"*"/${1##*/}-none'"* ]]
}

@test "streams elsewhere than under /v1/stream/, and on a unix socket" {
	ready server sc-streams --listen 127.0.0.1:0 --listen unix:sock --prefix /feeds/ data
	url=http://127.0.0.1:$port/feeds
	chain "$url/a" --protocol durable
	chain "ws://127.0.0.1:$port/feeds/b" --protocol durable
	chain "ws+unix:$PWD/sock:/feeds/c" --protocol durable
	SC_PUB_OPTIONS='--protocol durable' SC_SUB_OPTIONS='--protocol durable' chain "$url/d"
	# an option that only such a server knows says it too
	run -0 pub --create application/json "$url/e" <<<1
	[[ $output == '[5,1]' ]]
	run -0 sub --at -1 --until-end "$url/e"
	[[ $output == '[5,1]' ]]
	# behind a proxy that puts its own path in front
	ready server sc-streams --listen 127.0.0.1:0 --prefix /app/v1/stream/ data2
	chain "http://127.0.0.1:$port/app/v1/stream/f"
}

@test "the other protocol: what to say is said" {
	needs sc-serve sc-log
	ready server sc-streams --listen 127.0.0.1:0 --prefix /feeds/ data
	url=http://127.0.0.1:$port/feeds
	run -0 pub -q --create application/json "$url/s" <<<1
	for client in sc-sub sc-pub; do
		run -76 --separate-stderr timeout 60 "$client" "$url/s" </dev/null
		[[ -z $output ]]
		[[ $stderr == "$client: cannot open a WebSocket at server '127.0.0.1:$port': the server answered 200 OK ('[1]'); it is a Durable Streams server: say --protocol durable" ]]
	done
	run -76 --separate-stderr sub --retry-refused "$url/s"
	run -76 --separate-stderr sub --protocol streamcast "$url/s"
	run -64 --separate-stderr pub --protocol streamcast --create application/json "$url/s"
	[[ $stderr == 'sc-pub: cannot use --create: it is for Durable Streams servers; leave it out, or say --protocol durable' ]]
	run -64 --separate-stderr sub --at -1 "ws://127.0.0.1:$port/feeds/s"
	[[ $stderr == 'sc-sub: cannot use --at: it is for Durable Streams servers; leave it out, or give the URL of one, as http://HOST:PORT/NAME' ]]
	run -64 --separate-stderr sub --protocol durable "127.0.0.1:$port/feeds/s"
	[[ $stderr == *"; write it as http://127.0.0.1:$port/feeds/s" ]]
	run -64 --separate-stderr sub --protocol other "$url/s"
	# and the other way round
	sc-log create v1
	echo '{"a":1}' | sc-log append -q v1
	serve server --publish v1
	url=http://127.0.0.1:$port
	run -76 --separate-stderr sub --protocol durable "$url/v1"
	[[ $stderr == *'; is this a Durable Streams server? to one of sc-serve say --protocol streamcast' ]]
	run -76 --separate-stderr sub --protocol durable --offset earliest "$url/v1"
	[[ $stderr == *'--protocol streamcast' ]]
	run -76 --separate-stderr pub --protocol durable "$url/v1" <<<'{"a":2}'
	[[ -z $output && $stderr == *'--protocol streamcast' ]]
	run -0 sub --protocol streamcast --offset earliest --until-end "$url/v1"
	[[ $output == '[1,{"a":1}]' ]]
}

@test "--until-idle: it is the stream that has to be silent, not the consumer" {
	printf '"%s"\n' "$(head -c 3000000 /dev/zero | base64 -w0)" >large
	pub -q --create application/json "$url/s" < <(cat large large)
	sub --offset earliest --until-idle 2s --payload "$url/s" | { sleep 4; cat; } >got
	same <(cat large large) got
}

@test "statuses" {
	abc
	run -66 --separate-stderr sub "$url/none"
	run -66 --separate-stderr pub "$url/none" <<<1
	run -79 --separate-stderr sub --after 12 "$url/s"
	[[ $stderr == *'400 Bad Request; is the offset one of this stream? begin with --offset earliest' ]]
	run -64 --separate-stderr sub --offset 5 "$url/s"
	run -64 --separate-stderr sub --to 5 "$url/s"
	run -64 --separate-stderr sub --contiguous "$url/s"
	run -64 --separate-stderr sub --at 'a b' "$url/s"
	run -64 --separate-stderr sub "$url/s?offset=-1"
	run -64 --separate-stderr sub --at -1 ws://127.0.0.1:1/s
	run -64 --separate-stderr sub localhost:4437/v1/stream/s
	[[ $stderr == 'sc-sub: cannot use the URL: it does not begin with http:// or https://; write it as http://localhost:4437/v1/stream/s' ]]
	run -64 --separate-stderr pub --create application/json localhost:4437/v1/stream/s
	[[ $stderr == *'; write it as http://localhost:4437/v1/stream/s' ]]
	run -64 --separate-stderr pub --close ws://127.0.0.1:1/s
	run -64 --separate-stderr pub -P p --last "$url/s"
	run -64 --separate-stderr pub --state f "$url/s"
	run -64 --separate-stderr pub -P p --bare --state f "$url/s"
	run -65 --separate-stderr pub "$url/s" <<<$'1\n{"a":'
	[[ $stderr == *"on line '2'"* && $output == '[36,1]' ]]
	run -65 --separate-stderr pub --create text/plain "$url/s" <<<1
	stop server
	run -69 --separate-stderr sub --retry 0 "$url/s"
	run -69 --separate-stderr pub --retry 0 "$url/s" <<<1
}

@test "a producer's state: what is there already is skipped, and what was on its way is sent again as it was" {
	abc
	run -0 pub -P p --state st "$url/s" <<<$'[5,50]\n[9,90]'
	[[ $output == $'[37,50]\n[43,90]' ]]
	run -0 pub -P p --state st "$url/s" <<<$'[5,50]\n[9,90]\n[12,3]'
	[[ $output == '[48,3]' ]]
	run -0 sc-pub --last -P p --state st "$url/s"
	[[ $output == 12 ]]
	# as it is when the last request was stored and its answer did not come
	jq -c '.seq = 1 | .after = 9 | .last = 12' st >st2
	run -0 sc-pub --last -P p --state st2 "$url/s"
	[[ $output == 9 ]]
	run -65 --separate-stderr pub -P p --state st2 "$url/s" <<<'[13,4]'
	[[ $stderr == *'row 13 came where 12 was due, which the last run was publishing; give the same rows as then' ]]
	run -65 --separate-stderr pub -P p --state st2 "$url/s" </dev/null
	run -0 pub -P p --state st2 "$url/s" <<<$'[9,90]\n[12,3]\n[13,4]'
	[[ $output == $'[null,3]\n[53,4]' ]]
	hold pub
	start pub sc-pub -v -P p --state st2 "$url/s"
	wait_for has pub.err 'connected to'
	run -75 --separate-stderr pub -P p --state st2 "$url/s" </dev/null
	[[ $stderr == "sc-pub: cannot use state file 'st2': another process is using it; end the other one, or publish as another producer with a file of its own" ]]
	close_input pub
	await pub
	run -65 --separate-stderr pub -P q --state st2 "$url/s" <<<'[14,4]'
	[[ $stderr == *'it is the state of another producer' ]]
	# a run without the state takes over
	run -0 pub -P p "$url/s" <<<'[1,1]'
	run -79 --separate-stderr pub -P p --state st2 "$url/s" <<<'[14,4]'
	[[ $stderr == *'taken over by another process'* ]]
}

@test "a log that is served as a stream: the lines are the log's" {
	needs sc-log
	sc-log create rows
	printf '{"a":1}\n2.0\n"x"\n[]\n' | sc-log append --quiet rows
	ready logs sc-streams --listen 127.0.0.1:0 --log trades=rows other
	url=http://127.0.0.1:$port/v1/stream
	sc-log read rows >want
	sub --offset earliest --until-end --cursor c "$url/trades" >got
	same want got
	run -0 sub --after 2 --until-end "$url/trades"
	[[ $output == $'[3,"x"]\n[4,[]]' ]]
	for live in long-poll sse; do
		start "$live" sc-sub --live "$live" --cursor "c.$live" --after 4 --count 3 "$url/trades"
	done
	wait_for metric 'sc_streams_live_reads{mode="long-poll"} 1'
	wait_for metric 'sc_streams_live_reads{mode="sse"} 1'
	printf '5\n6\n7\n' | sc-log append rows >want
	for live in long-poll sse; do
		await "$live"
		[[ $ended -eq 0 ]]
		same want "$live.out"
	done
	# its cursor is where the log's reader would go on
	[[ $(cat c) == 0000000000000000_0000000000000004 ]]
	run -77 --separate-stderr pub "$url/trades" <<<1
	[[ $stderr == *'this stream is a log that is served to read only'* ]]
	# into another log, with its offsets
	sc-log create copy
	sub --offset earliest --until-end "$url/trades" | sc-log append --quiet --mirror copy
	same <(sc-log read rows) <(sc-log read copy)
}

metric() {
	curl -s "http://127.0.0.1:$port/metrics" | grep -qxF -- "$1"
}

@test "a pipeline of sc-sub and sc-pub --state, killed again and again, loses and repeats nothing" {
	seq 1 3000 | sed 's/.*/{"n":&}/' >in
	pub -q --create application/json "$url/a" <in
	pub -q --create application/json "$url/b" </dev/null
	sub --offset earliest --until-end --payload "$url/a" >want
	same in want
	local round chain chain_pid end
	end=$(sub --offset earliest --until-end "$url/a" | tail -n 1 | jq '.[0]')
	chain="sc-sub --after \"\$(sc-pub --last -P a --state st $url/b)\" --retry-wait 20ms $url/a |
		sc-pub -q -P a --state st --retry-wait 20ms --batch"
	: >st
	for round in {1..24}; do
		! grep -q "\"last\":$end}" st || break # all of it is on its way: nothing would change any more
		cp st old
		setsid sh -c "$chain $((round * 7 % 50 + 1)) $url/b" 2>>chain.err 3>&- &
		chain_pid=$!
		# at some moment of its start, or when it has begun to publish
		if [[ $((round % 3)) -eq 0 ]]; then
			sleep "0.0$((RANDOM % 10))"
		else
			wait_for differ st old || { tail -n 5 chain.err; return 1; }
		fi
		kill_group "$chain_pid" || :
		[[ $((round % 8)) -ne 7 ]] || { stop server KILL; ready server sc-streams --listen "127.0.0.1:$port" data; }
	done
	wait_for state_is_free # the last one killed may not be gone yet
	sub --after "$(sc-pub --last -P a --state st "$url/b")" --until-end "$url/a" | pub -q -P a --state st "$url/b"
	sub --offset earliest --until-end --payload "$url/b" >got
	same want got
}

state_is_free() {
	run sc-pub -q -P a --state st "$url/b" </dev/null
	[[ $status -ne 75 ]]
}

differ() {
	! cmp -s "$1" "$2"
}

@test "the server killed under a producer and a subscriber" {
	pub -q --create application/json "$url/b" </dev/null
	start sub sc-sub --offset earliest --payload --count 3000 --retry-wait 20ms "$url/b"
	hold pub
	start pub sc-pub -q -P p --bare --batch 7 --retry-wait 20ms "$url/b"
	for i in 1 2 3 4 5; do
		seq $((600 * i - 599)) $((600 * i)) >&"${sc_inputs[pub]}"
		wait_for lines sub.out $((600 * i - 500))
		stop server KILL
		ready server sc-streams --listen "127.0.0.1:$port" data
	done
	close_input pub
	await pub
	[[ $ended -eq 0 ]]
	await sub
	[[ $ended -eq 0 ]]
	same <(seq 1 3000) sub.out
}

@test "without a producer the lines in doubt are told" {
	abc
	hold pub
	start pub sc-pub --json "$url/s"
	say pub 1
	wait_for lines pub.out 1
	stop server STOP
	say pub 2
	wait_for asked
	stop server KILL
	await pub
	[[ $ended -eq 69 ]]
	tail -1 pub.err | jq -e '.line == 2 and .last_line == 2 and (.reason | test("sent and not acknowledged"))'
}

@test "--retry-refused: a stream that is not there yet, and a token that is not good yet, are waited for" {
	start sub sc-sub --retry-refused --retry-wait 50ms --offset earliest --payload --count 2 "$url/new"
	hold pub
	start pub sc-pub --retry-refused --retry-wait 50ms "$url/new"
	say pub 1
	wait_for has sub.err '404 Not Found'
	wait_for has pub.err '404 Not Found'
	curl -sf -X PUT -H 'Content-Type: application/json' "$url/new"
	wait_for lines sub.out 1
	curl -sf -X DELETE "$url/new"
	say pub 2
	wait_for has pub.err '404'
	curl -sf -X PUT -H 'Content-Type: application/json' "$url/new"
	close_input pub
	await pub
	[[ $ended -eq 0 ]]
	run -0 sub --offset earliest --until-end --payload "$url/new"
	[[ $output == 2 ]]
	printf 'read r\nwrite w\n' >tokens
	ready guarded sc-streams --listen 127.0.0.1:0 --token-file tokens other
	url=http://127.0.0.1:$port/v1/stream
	echo w >w
	sc-pub -q -T w --create application/json "$url/s" <<<1
	echo early >token
	start sub sc-sub --retry-refused --retry-wait 50ms -T token --offset earliest --payload --count 1 "$url/s"
	wait_for has sub.err '401'
	running sub
	echo r >token
	await sub
	[[ $ended -eq 0 && $(cat sub.out) == 1 ]]
}

@test "--stream-seq: options, numbers, what is refused and what is skipped" {
	run -64 --separate-stderr pub --stream-seq end ws://127.0.0.1:1/s
	[[ $stderr == "sc-pub: cannot use --stream-seq: it is for Durable Streams servers; leave it out, or give the URL of one, as http://HOST:PORT/NAME" ]]
	run -64 --separate-stderr pub --stream-seq end --bare "$url/s"
	[[ $stderr == "sc-pub: cannot use --stream-seq: with --bare rows have no numbers to send; use --pairs or --numbered" ]]
	run -64 --separate-stderr pub --stream-seq skip --at-least-once "$url/s"
	[[ $stderr == "sc-pub: cannot use --at-least-once: with --stream-seq no row is stored twice; leave it out" ]]
	run -64 --separate-stderr pub --stream-seq skip -P p "$url/s"
	[[ $stderr == "sc-pub: cannot use --stream-seq skip: with --producer the server counts its requests; use one of them, or --stream-seq end" ]]
	run -64 --separate-stderr pub --stream-seq maybe "$url/s"
	[[ $stderr == "sc-pub: cannot start: --stream-seq takes no, end or skip, not 'maybe'; see 'sc-pub --help'" ]]
	run -0 pub --create application/json --stream-seq end "$url/s" <<<$'[5,50]\n[9,90]'
	[[ $output == $'[6,50]\n[12,90]' ]]
	# it is of 20 digits, so that it rises byte for byte; another's of another form ends it
	run -0 curl -s -o /dev/null -w '%{http_code}' -H 'Content-Type: application/json' -H 'Stream-Seq: 00000000000000000009' -d 1 "$url/s"
	[[ $output == 409 ]]
	run -0 curl -s -o /dev/null -w '%{http_code}' -H 'Content-Type: application/json' -H 'Stream-Seq: 00000000000000000010' -d 1 "$url/s"
	[[ $output == 204 ]]
	run -79 --separate-stderr pub --json --stream-seq end "$url/s" <<<$'[10,1]\n[11,2]'
	[[ -z $output ]]
	tail -1 <<<"$stderr" | jq -e '.why == "stream_seq" and .offset == 10 and .line == 1 and .last_line == 1 and .status == 79'
	run -65 --separate-stderr pub --stream-seq end "$url/s" <<<$'[11,1]\n[100,3]\n[99,4]\n[101,5]'
	[[ ${#lines[@]} -eq 2 && $stderr == "sc-pub: cannot publish on line '3': its offset is 99, and 100 came before it; give rows in the order of their offsets" ]]
	run -65 --separate-stderr pub --stream-seq end "$url/s" <<<'[null,1]'
	run -65 --separate-stderr pub --stream-seq end "$url/s" <<<'{}'
	# the line's number, of a file that is given again
	seq 1 9 >file
	head -n 4 file | pub -q --create application/json --stream-seq skip --numbered "$url/f"
	run -0 pub --stream-seq skip --numbered "$url/f" <file
	[[ ${#lines[@]} -eq 5 && ${lines[0]} == *',5]' ]]
	# a group says its last row's, so that what is partly there is taken whole
	seq 1 10 >longer # a file: of a pipe it might read the lines in two goes, as two groups
	run -0 pub -q --stream-seq skip --numbered --batch 100 "$url/f" <longer
	run -0 pub -q --stream-seq skip --numbered --batch 100 "$url/f" <file
	run -0 sub --offset earliest --until-end --payload "$url/f"
	[[ $output == "$(cat file longer)" ]]
	# with a producer: both are checked
	run -0 pub -q --create application/json -P p --stream-seq end --state st "$url/p" <<<$'[5,50]\n[9,90]'
	run -79 --separate-stderr pub -P q --stream-seq end "$url/p" <<<'[9,90]'
	run -0 pub -P p --stream-seq end --state st "$url/p" <<<$'[9,90]\n[10,0]'
	[[ $output == '[17,0]' ]]
	# another stream in its place, of another type, is no reason to skip rows
	hold pub
	start pub sc-pub --stream-seq skip "$url/f"
	say pub '[20,1]'
	wait_for lines pub.out 1
	curl -sf -X DELETE "$url/f"
	curl -sf -X PUT -H 'Content-Type: text/plain' "$url/f"
	say pub '[21,1]'
	await pub
	[[ $ended -eq 79 ]]
	has pub.err "it was made anew, of type text/plain; it was of type application/json; see what it is for now"
}

@test "--stream-seq skip: the server killed under two writers of the same lines" {
	pub -q --create application/json "$url/w" </dev/null
	for n in a b; do
		hold "$n"
		start "$n" sc-pub --stream-seq skip --retry-wait 20ms "$url/w"
	done
	for i in 1 2 3; do
		seq $((100 * i - 99)) $((100 * i)) | sed 's/.*/[&,&]/' >rows
		cat rows >&"${sc_inputs[a]}"
		cat rows >&"${sc_inputs[b]}"
		wait_for stored_up_to $((100 * i - 50))
		stop server KILL
		ready server sc-streams --listen "127.0.0.1:$port" data
	done
	for n in a b; do
		close_input "$n"
		await "$n"
		[[ $ended -eq 0 ]]
	done
	run -0 sub --offset earliest --until-end --payload "$url/w"
	[[ $output == "$(seq 1 300)" ]]
}

stored_up_to() {
	[[ $(cat a.out b.out | sed 's/.*,\(.*\)]/\1/' | sort -n | tail -1) -ge $1 ]]
}

@test "signals: what is on its way is waited for, and told; a second one ends it at once" {
	abc
	hold pub
	start pub sc-pub "$url/s"
	say pub 1
	wait_for lines pub.out 1
	# nothing is on its way
	stop pub
	[[ $ended -eq 143 && ! -s pub.err ]]
	hold cut
	start cut sc-pub "$url/s"
	say cut 2
	wait_for lines cut.out 1
	stop server STOP
	say cut 3
	wait_for asked
	stop cut
	[[ $ended -eq 143 ]]
	has cut.err 'lines 2 to 2 were sent and not acknowledged: they may be stored or not'
	stop server CONT
	# a reader that takes nothing: the first signal waits for it, the second does not
	seq 1 200000 >pub2.in
	mkfifo pipe
	start pub2 sh -c "exec sc-pub '$url/s' >pipe"
	exec {slow}<pipe
	wait_for full pipe
	kill -TERM "$pid"
	kill -INT "$pid"
	await pub2
	[[ $ended -eq 143 || $ended -eq 130 ]] # which of them is first is the kernel's
	exec {slow}<&-
}

# The line was taken out of the input, and its request is at the server, which stands still and does not read it. A
# connection that was closed meanwhile is none of it: its end counts as a byte.
asked() {
	ss -Htn "sport = :$port" | awk '$1 == "ESTAB" && $2 > 0 { found = 1 } END { exit !found }'
}

full() {
	python3 -c '
import array, fcntl, sys, termios
n = array.array("i", [0])
fcntl.ioctl(int(sys.argv[1]), termios.FIONREAD, n)
sys.exit(n[0] < 60000)' "$slow" 2>/dev/null
}
