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
	run -65 --separate-stderr pub -P q --state st2 "$url/s" <<<'[14,4]'
	[[ $stderr == *'it is the state of another producer' ]]
	# a run without the state takes over
	run -0 pub -P p "$url/s" <<<'[1,1]'
	run -79 --separate-stderr pub -P p --state st2 "$url/s" <<<'[14,4]'
	[[ $stderr == *'taken over by another process'* ]]
}

@test "a pipeline of sc-sub and sc-pub --state, killed again and again, loses and repeats nothing" {
	seq 1 3000 | sed 's/.*/{"n":&}/' >in
	pub -q --create application/json "$url/a" <in
	pub -q --create application/json "$url/b" </dev/null
	sub --offset earliest --until-end --payload "$url/a" >want
	same in want
	local round=0 chain chain_pid
	chain="sc-sub --after \"\$(sc-pub --last -P a --state st $url/b)\" $url/a | sc-pub -q -P a --state st --batch"
	sub --offset earliest --until-end --payload "$url/b" >got
	while [[ $(wc -l <got) -lt 3000 && $round -lt 400 ]]; do
		round=$((round + 1))
		setsid sh -c "$chain $((round * 7 % 50 + 1)) $url/b" 2>/dev/null 3>&- &
		chain_pid=$!
		sleep "0.0$((RANDOM % 10))$((RANDOM % 10))"
		[[ $round -lt 40 ]] || sleep 0.5
		kill_group "$chain_pid" || :
		[[ $round -ne 7 ]] || { stop server KILL; ready server sc-streams --listen "127.0.0.1:$port" data; }
		sub --offset earliest --until-end --payload "$url/b" >got
	done
	same want got
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
	sleep 0.2 # it is sent, and nobody answers
	stop server KILL
	await pub
	[[ $ended -eq 69 ]]
	tail -1 pub.err | jq -e '.line == 2 and .last_line == 2 and (.reason | test("sent and not acknowledged"))'
}
