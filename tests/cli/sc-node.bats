# sc-node: verbs, lines, acks, ends, statuses. What needs a broker runs against sc-broker; what looks at single messages, or needs
# a broker that misbehaves, against tests/cli/msgpeer.py.
# run: limit 300

load ../lib/common

setup() {
	needs sc-node
	sc_setup
	unset SC_TOKEN SC_BROKER_URL
}

teardown() { sc_teardown; }

# fake OPTION...: the broker of the tests; its log of messages is broker.out
fake() {
	ready broker python3 "$SC_TESTS/cli/msgpeer.py" "$@" || return 1
	export SC_BROKER_URL=ws://127.0.0.1:$port
}

broker() {
	if [[ ! -x $SC_BUILD/bin/sc-broker ]]; then
		fake
		return
	fi
	ready broker sc-broker --listen 127.0.0.1:0 --no-state || return 1
	export SC_BROKER_URL=ws://127.0.0.1:$port
}

# node NAME VERB ARGUMENT...: in the background, until it is ready
node() {
	local name=$1 in=/dev/null

	shift
	stop "$name"
	[[ -e $name.in ]] && in=$name.in
	: >"$name.ready"
	(
		sc_let_go
		exec sc-node "$1" --ready-fd 9 "${@:2}"
	) <"$in" >"$name.out" 2>"$name.err" 3>&- 9>"$name.ready" &
	pid=$!
	sc_pids[$name]=$pid
	if ! wait_for sc_ready_or_gone "$name" || ! [[ -s $name.ready ]]; then
		echo "'$name' did not become ready:" >&2
		cat "$name.err" >&2
		return 1
	fi
}

# received FILTER N: the broker has received N messages that the jq filter takes; for wait_for
received() {
	[[ $(jq -c "select($1)" broker.out | wc -l) -ge $2 ]]
}

usage() { # WORDS ARGUMENT...
	run -64 --separate-stderr sc-node "${@:2}" </dev/null
	[[ -z $output && $stderr == "sc-node: $1" ]]
}

@test "--help of the whole and of the verbs; --version" {
	run -0 --separate-stderr sc-node --help
	[[ $output == *'Verbs:'* && $output == *'request'* && -z $stderr ]]
	for verb in pub sub node request reply ctl; do
		run -0 sc-node "$verb" --help
		[[ $output == "Usage: sc-node $verb"* && $output == *'--order'* ]]
	done
	run -0 sc-node --version
	[[ $output == 'sc-node '[0-9]*.[0-9]*.[0-9]* ]]
}

@test "the command line: what is wrong and what to do" {
	usage "cannot start: SUBJECT is missing; see 'sc-node pub --help'" pub orders
	usage "cannot use --uid: lines say their own; give CHANNEL and SUBJECT, or leave it out" pub --uid 01KB88X0G0AAAAAAAAAAAAAAA1
	usage "cannot use --exec: the command's end acknowledges a message; leave --ack out, or give --ack exec" sub a --ack auto --exec true
	usage "cannot use --ack exec: there is no command; give one with --exec" sub a --ack exec
	usage "cannot use --on-fail: there is no command that could fail; give one with --exec" sub a --on-fail 'b c'
	usage "cannot start: --on-fail takes 'CHANNEL SUBJECT', not 'b'; names with blanks are quoted as in a shell" \
		sub a --exec true --on-fail b
	usage "cannot start: --also takes 'CHANNEL [SUBJECT]', not 'a b c'; names with blanks are quoted as in a shell" sub a --also 'a b c'
	usage "cannot start: 'a/b' cannot be the name of an endpoint; it is one segment of a path: no '/' in it" sub a --endpoint a/b
	usage "cannot use URL: it has a query or a fragment; give the broker's root: ws://HOST:PORT" sub a --url 'ws://h:1/?a'
	usage "cannot start: there is no command 'paws'; see 'sc-node ctl --help'" ctl paws
	usage "cannot start: there is no command 'burn'; see 'sc-node ctl --help'" ctl channel burn x
	usage "cannot start: an argument of 'channel.size' is missing; see 'sc-node ctl --help'" ctl channel size x
	usage "cannot start: 'many' is not a number; see 'sc-node ctl --help'" ctl channel size x many
	usage "cannot start: there is nothing to do with 'x'; see 'sc-node ctl --help'" ctl pause x
	usage "cannot send data: not JSON: expected a value, found 'h' at byte 0; write JSON, in quotes of the shell: '\"text\"'" pub c s hello
	usage "cannot send a message: the channel must be 1 to 255 bytes" pub '' s 1
	run -64 sc-node sub a --ack sometimes
	run -64 sc-node reply a b
	run -64 sc-node
}

@test "no broker: 69; with 401: 77; with 404: 69; with 503: 69" {
	run -69 --separate-stderr sc-node pub c s 1 --url "ws://127.0.0.1:$(free_port)"
	[[ $stderr == "sc-node: cannot connect to "* ]]
	fake --status 401
	run -77 sc-node pub c s 1
	fake --status 404
	run -69 sc-node pub c s 1
	fake --status 503
	run -69 sc-node sub c
}

@test "the endpoint is one segment of the path, below the root of the URL; the token is sent" {
	fake
	run -0 sc-node pub c s --endpoint 'a b%?é' --url "$SC_BROKER_URL/root/"
	echo tok1 >token
	run -0 sc-node pub c s --endpoint x --token-file token
	SC_TOKEN=tok2 run -0 sc-node pub c s --endpoint x
	run -0 sc-node pub c s
	jq -se '[.[] | select(.event == "joined")] | .[0].path == "/root/a b%?é" and .[0].authorization == null and
		.[1].path == "/x" and .[1].authorization == "Bearer tok1" and .[2].authorization == "Bearer tok2" and
		(.[3].path | test("^/[0-9A-Z]{26}$"))' broker.out
	SC_TOKEN='a b' run -78 sc-node pub c s
}

@test "pub: one message, its data, reference and uid" {
	fake
	run -0 sc-node pub orders submitted '{"id":42,"total":9.5}' --uid 01KB88X0G0AAAAAAAAAAAAAAA2 --reference hex:00ff
	[[ -z $output ]]
	run -0 sc-node pub orders submitted
	run -0 sc-node pub orders submitted - <<<'[1,
		2]'
	jq -se '[.[] | select(.channel == "orders")] | .[0].uid == "019ad08e82005294a5294a5294a52942" and .[0].reference == "00ff" and
		.[0].data == {id: 42, total: 9.5} and .[0].order == "D" and .[1].data == null and .[1].reference == null and
		(.[1].uid | length == 32) and .[2].data == [1, 2]' broker.out
	run -65 --separate-stderr sc-node pub orders submitted - <<<'[1,'
	run -0 sc-node pub orders submitted 1 --order reference
	jq -se '.[-2] | .order == "R" and .data == 1' broker.out
}

@test "pub: lines of each form; bad ones are named, the others sent, status 1; --strict stops" {
	fake
	cat >lines <<-'L'
		["c","s",1]
		["c","s","01KB88X0G0AAAAAAAAAAAAAAA1",2]

		{"subject":"s","channel":"c","data":3}
		nonsense
		["c","s"]
		["c","s",18446744073709551616]
		["c","s",4]
	L
	run -1 --separate-stderr sc-node pub --json <lines
	[[ $(jq -s -c '[.[].line]' <<<"$stderr") == '[5,6,7]' && -z $output ]]
	jq -se '[.[] | select(.channel == "c") | .data] == [1, 2, 3, 4]' broker.out
	run -1 --separate-stderr sc-node pub --strict <lines
	[[ $stderr == "sc-node: "*"line '5'"* ]]
	jq -se '[.[] | select(.channel == "c") | .data] == [1, 2, 3, 4, 1, 2, 3]' broker.out
}

@test "pub: a last line without a newline, CR LF, no line at all" {
	fake
	printf '["c","s",1]\r\n["c","s",2]' | sc-node pub
	jq -se '[.[] | select(.channel == "c") | .data] == [1, 2]' broker.out
	sc-node pub </dev/null
}

@test "pub: a window of one waits for each answer; many lines arrive in order" {
	broker
	node sub sub c --format data --count 2000
	seq 2000 | jq -c '["c","s",.]' >lines
	run -0 sc-node pub --window 1 < <(head -n 50 lines)
	run -0 sc-node pub < <(tail -n +51 lines)
	await sub
	seq 2000 | same - sub.out
}

@test "pub, node: a line of any length is named and left out, the others are sent" {
	fake
	local long
	printf -v long '%08000d' 0
	printf '["c","s",1]\n["c","s","%s"]\n["c","s",2]\n["c","s","%s%s"]\n["c","s",3]\n"%s%s' \
		"${long::1500}" "$long" "$long" "$long" "$long" >lines
	head -c 300000 /dev/zero | tr '\0' 'x' >>lines
	run -1 --separate-stderr sc-node pub --max-message 200 <lines
	[[ -z $output && $(grep -c 'line .[246].: it is longer than 2224 bytes; raise --max-message' <<<"$stderr") -eq 2 ]]
	[[ $(grep -c "line '2': it has 15.. bytes, and the limit is 200" <<<"$stderr") -eq 1 ]]
	run -1 sc-node node --exit-on-eof --max-message 200 <lines
	run -1 sc-node pub --strict --max-message 200 < <(tail -n +4 lines)
	jq -se '[.[] | select(.channel == "c").data] == [1, 2, 3, 1, 2, 3]' broker.out
}

@test "pub, reply and ctl print nothing, and need nobody who reads it" {
	fake
	mkfifo gone
	seq 3000 | jq -c '["c","s",.]' >lines
	unread() { # COMMAND...: its output is a pipe whose reader has left
		: <gone &
		local reader=$!
		exec 7>gone
		wait "$reader"
		local status=0
		"$@" >&7 7>&- || status=$?
		exec 7>&-
		return "$status"
	}
	run -0 unread sc-node pub <lines
	run -0 unread sc-node pub c s '"one"'
	run -0 unread sc-node ctl channel create made
	run -0 unread sc-node reply rpc '*' --idle 10ms -- cat
	sc-node pub c s '"closed"' >&-
	sc-node ctl resume >&-
	wait_for received '.event == "left"' 6
	jq -se '[.[] | select(.channel == "c").data] == [range(1; 3001)] + ["one", "closed"]' broker.out
	jq -se '[.[] | select(.subject == "channel.create" or .subject == "resume")] | length == 2' broker.out
}

@test "pub, ctl: a message that their endpoint gets meanwhile is lost, and named" {
	broker
	sc-node ctl subscribe w c
	sc-node pub < <(printf '["c","s",%d]\n' 1 2 3)
	run -0 --separate-stderr sc-node pub --endpoint w other s
	[[ $stderr == "sc-node: "*"warning: message 01"*" of endpoint 'w' was delivered here and is lost; give"* ]]
	run -0 --separate-stderr sc-node ctl endpoint size w 5 --endpoint w
	[[ $stderr == "sc-node: "*"warning: message 01"*" of endpoint 'w' was delivered here and is lost; give"* ]]
	run -0 sc-node sub other --endpoint w --format data --count 1
	[[ $output == 3 ]]
}

@test "an end by --count or a signal takes no message that it has no use for" {
	broker
	lost() { sc-node ctl stats | jq .lost_unacked; }
	sc-node ctl subscribe w c
	sc-node pub < <(seq 9 | jq -c '["c","s",.]')
	for want in 1 2 3; do
		run -0 sc-node sub c --endpoint w --count 1 --format data
		[[ $output == "$want" ]]
	done
	run -0 sc-node sub c --endpoint w --count 1 --format data --exec cat
	[[ $output == 4 ]]
	run -1 sc-node sub c --endpoint w --count 1 --exec 'exit 1' --on-fail 'failed s'
	# a signal while a command runs
	node s sub c --endpoint w --format data --exec 'cat; until [ -e go ]; do sleep 0.02; done'
	wait_for has s.out 6
	kill -TERM "${sc_pids[s]}"
	: >go
	await s
	[[ $ended -eq 143 && $(<s.out) == 6 ]]
	run -0 sc-node node c --endpoint w --count 3 --format data </dev/null
	[[ $output == $'7\n8\n9' && $(lost) -eq 0 ]]
	sc-node ctl subscribe r rpc
	sc-node pub < <(seq 6 | jq -c '["rpc","a",.]')
	node got sub rpc '*.reply' --format data --count 6
	for mode in exec auto; do
		sc-node reply rpc '*' --endpoint r --count 1 --ack "$mode" -- cat
		sc-node reply rpc '*' --endpoint r --count 2 --ack "$mode" -- cat
	done
	await got
	seq 6 | same - got.out
	[[ $(lost) -eq 0 ]]
}

@test "commands have none of our descriptors but input, output and errors" {
	broker
	node s sub c --count 1 --exec 'ls -l /proc/$$/fd | grep -E " 9 ->|anon_inode|socket:"; echo looked'
	sc-node pub c s
	await s
	[[ $(<s.out) == looked ]]
	node r reply rpc '*' --raw --count 1 -- sh -c 'ls -l /proc/$$/fd | grep -E " 9 ->|anon_inode|socket:"; echo looked'
	run -0 sc-node request rpc a
	[[ $output == '"looked\n"' ]]
}

@test "pub: a message over the limit is refused before it is sent" {
	fake
	run -1 --separate-stderr sc-node pub --max-message 100 < <(printf '["c","s","%090d"]\n["c","s",1]\n' 0)
	[[ $stderr == *"line '1': it has "*" bytes, and the limit is 100; raise --max-message"* ]]
	jq -se '[.[] | select(.channel == "c") | .data] == [1]' broker.out
}

@test "pub: what the broker refuses is named and gives status 1; the rest is sent" {
	fake --refuse 'bad:limit:too many'
	run -1 --separate-stderr sc-node pub < <(printf '["c","s",1]\n["bad","s",2]\n["c","s",3]\n')
	[[ $stderr == "sc-node: "*"cannot send a message line '2': the broker refused it: too many (limit)" ]]
	jq -se '[.[] | select(.channel == "c") | .data] == [1, 3]' broker.out
	stop broker
	fake --refuse 'system:denied:no'
	run -77 sc-node ctl pause --timeout 20s
}

@test "pub: --timeout with a broker that does not answer: 80" {
	fake --mute
	run -80 --separate-stderr sc-node pub c s 1 --timeout 200ms
	[[ $stderr == "sc-node: cannot finish: it took longer than 200 ms" ]]
	run -80 sc-node ctl stats --timeout 200ms
	run -80 sc-node request c s --timeout 200ms
}

@test "the broker closes or breaks the protocol: 76 for 1003, 1007, 1008, 1009, 1011; else 69" {
	for code in 1003 1007 1008 1009 1011; do
		fake --close "1:$code:no good"
		run -76 --separate-stderr sc-node pub c s 1
		[[ $stderr == *"closed it with $code 'no good'"* ]]
	done
	for code in 1001 4000; do
		fake --close "1:$code"
		run -69 sc-node pub c s 1
	done
	fake --cut 1
	run -69 sc-node pub c s 1
	fake --bad 9401020304
	run -76 --separate-stderr sc-node sub c
	[[ $stderr == *"what it sent is no message: need 5 elements, got 4"* ]]
	fake --text
	run -76 sc-node sub c
}

@test "--retry: again what has no answer, once; 1009 is not tried again" {
	fake --cut 3
	seq 5 | jq -c '["c","s",.]' >lines
	run -0 sc-node pub --retry --window 2 <lines
	# the third was cut off before its answer, and came again with the same uid
	jq -se '[.[] | select(.channel == "c")] | (map(.data) | unique) == [1, 2, 3, 4, 5] and
		(map(select(.node == 1).data) | .[-1]) == 3 and (map(select(.node == 2).data)) == [3, 4, 5] and
		(map(select(.data == 3).uid) | unique | length) == 1' broker.out
	fake --close 1:1009
	run -76 sc-node pub --retry c s 1
}

@test "--retry: a broker that comes later; subscriptions again after a restart" {
	free=$(free_port)
	start later sc-node pub c s 1 --retry --url "ws://127.0.0.1:$free"
	wait_for has later.err 'trying again'
	fake --port "$free"
	await later
	[[ $ended -eq 0 ]]
	node sub sub c --retry --format data --count 2
	sc-node pub c s 1
	wait_for lines sub.out 1
	stop broker KILL
	fake --port "$free"
	wait_for received '.subject == "subscribe.channel"' 1
	sc-node pub c s 2
	await sub
	printf '1\n2\n' | same - sub.out
}

@test "--retry after stopping waits a second and a half" {
	fake --stopping 2
	hold pub
	start pub sc-node pub --retry --window 1
	say pub '["c","s",1]' '["c","s",2]' '["c","s",3]'
	wait_for has pub.err 'trying again in'
	ms=$(sed -n 's/.*trying again in \([0-9]*\) ms.*/\1/p' pub.err | head -n 1)
	[[ $ms -ge 1500 && $ms -le 1800 ]]
	close_input pub
	stop pub KILL
}

@test "--order auto finds the other order; document says what may be wrong" {
	fake --order R
	run -0 sc-node pub c s 1 --order auto
	jq -se '[.[] | select(.channel == "c") | .order] == ["D", "R"]' broker.out
	run -69 --separate-stderr sc-node pub c s 1
	[[ $stderr == *'closed it with 1000; a server of the published package speaks the other order: --order auto finds out' ]]
	node sub sub c 's*' --order auto --count 1 --format data
	sc-node pub --order reference < <(printf '["c","x",1]\n["c","sub",2]\n')
	await sub
	[[ $ended -eq 0 && $(<sub.out) == 2 ]] # such a server looks at no subject: we do
}

@test "sub: the three forms; what is printed is read again" {
	broker
	node a sub orders --count 3
	node b sub orders --count 3 --format array
	node c sub orders --count 3 --format data
	node d sub copy --count 3 --format data
	cat >lines <<-'L'
		["orders","submitted",{"id":18446744073709551615,"b":{"$bin":"AP8="},"f":2.0}]
		["orders","x","01KB88X0G0AAAAAAAAAAAAAAA1",[{"$map":[[1,{"$ext":[-1,"AAA="]}]]},{"$float":"nan"},"é\n"]]
		{"channel":"orders","subject":"y","uid":"01KB88X0G0AAAAAAAAAAAAAAA9"}
	L
	sc-node pub <lines
	await a; await b; await c
	jq -se 'length == 3 and .[0].channel == "orders" and .[1].reference == "01KB88X0G0AAAAAAAAAAAAAAA1" and
		.[2] == {uid: "01KB88X0G0AAAAAAAAAAAAAAA9", channel: "orders", subject: "y", reference: null, data: null}' a.out
	same <(jq -c 'del(.uid, .reference) | [.[]]' a.out | jq -c .) <(jq -c . b.out)
	cat >want <<-'L'
		{"id":18446744073709551615,"b":{"$bin":"AP8="},"f":2.0}
		[{"$map":[[1,{"$ext":[-1,"AAA="]}]]},{"$float":"nan"},"é\n"]
		null
	L
	same want c.out
	sed 's/^\["orders"/["copy"/' b.out | sc-node pub
	await d
	same want d.out
	sed 's/"channel":"orders"/"channel":"again"/' a.out | sc-node pub
}

@test "sub: patterns, --also, endpoints that share" {
	broker
	node all sub '*' --also 'x' --count 5
	node some sub 'ord*' '*.done' --also "'other channel' a" --count 2 --format data
	node w1 sub orders --endpoint w --format data --count 2
	node w2 sub orders --endpoint w --format data --count 2
	for i in 1 2 3 4; do
		sc-node pub orders "$i.done" "$i"
		wait_for lines <(cat w1.out w2.out) "$i"
	done
	sc-node pub 'other channel' b 8
	await w1; await w2; await all; await some
	cat w1.out w2.out | sort | same - <(seq 4)
	printf '1\n2\n' | same - some.out
}

@test "sub --ack auto: acknowledged when the line is out" {
	fake
	node sub sub c --count 2 --format data
	sc-node pub < <(printf '["c","s",1]\n["c","s",2]\n')
	await sub
	[[ $ended -eq 0 ]]
	jq -se '([.[] | select(.channel == "c").uid]) as $sent | [.[] | select(.subject == "ack").reference] == $sent' broker.out
}

@test "sub: a reader that leaves is a quiet end, and its line has no ack" {
	fake
	mkfifo pipe
	: >sub.ready
	sc-node sub c --format data --ready-fd 9 >pipe 2>sub.err 9>sub.ready 3>&- &
	sc_pids[sub]=$!
	exec 8<pipe
	wait_for test -s sub.ready
	exec 8<&-
	await sub
	[[ $ended -eq 0 && ! -s sub.err ]]
	node sub sub c --format data
	# a reader that has gone when the line is written: the pipe's hangup comes first or the write fails
	stop sub
	run -0 bash -o pipefail -c 'sc-node sub c --format data --ready-fd 9 9>r2 2>e2 3>&- | head -n 1 & until [ -s r2 ]; do sleep 0.02; done
		sc-node pub c s 7; wait $!'
	[[ $output == 7 ]]
	wait_for received '.event == "left"' 4
}

@test "sub: output that nobody reads holds the next message back, without an end" {
	fake
	mkfifo pipe
	exec 8<>pipe
	: >sub.ready
	(exec 8>&-; exec sc-node sub c --format data --count 3 --ready-fd 9 >pipe 2>sub.err 9>sub.ready 3>&-) &
	sc_pids[sub]=$!
	wait_for test -s sub.ready
	for i in 1 2 3; do printf '["c","s","%0200000d"]\n' "$i"; done | sc-node pub
	sleep 0.3
	run -0 jq -s '[.[] | select(.subject == "ack")] | length' broker.out
	[[ $output -eq 0 ]] # the first line does not fit into the pipe
	timeout 60 head -n 3 <&8 >got
	await sub
	exec 8>&-
	[[ $ended -eq 0 && $(wc -c <got) -eq 600009 ]]
	wait_for received '.subject == "ack"' 3
}

@test "sub --ack exec: one at a time, acknowledged at its end whatever its status; its environment" {
	fake
	cat >work.sh <<-'W'
		read -r line
		echo "$SC_CHANNEL $SC_SUBJECT $SC_UID $SC_REFERENCE $line" >>finished
		[ "$line" != 2 ]
	W
	node sub sub c --ack exec --exec 'sh ./work.sh' --format data --count 3 --on-fail 'failed again'
	node failed sub failed --count 1
	sc-node pub < <(printf '["c","a",1]\n{"channel":"c","subject":"b","uid":"01KB88X0G0AAAAAAAAAAAAAAA1","data":2}\n["c","d","hex:ab",3]\n')
	await sub
	[[ $ended -eq 1 ]]
	has sub.err "cannot finish command 'sh ./work.sh': it ended with status 1"
	await failed
	jq -e '.subject == "again" and .reference == "01KB88X0G0AAAAAAAAAAAAAAA1" and .data == 2' failed.out
	[[ $(sed 's/01[0-9A-Z]\{24\}/UID/' finished) == $'c a UID  1\nc b UID  2\nc d UID hex:ab 3' ]]
	jq -se '[.[] | select(.channel == "c").uid] as $sent | [.[] | select(.subject == "ack").reference | select(IN($sent[]))] == $sent' broker.out
}

@test "sub --exec: a signal waits for the command, and its message is acknowledged" {
	fake
	node sub sub c --exec 'touch started; until [ -e go ]; do sleep 0.02; done'
	sc-node pub c s 1
	wait_for test -e started
	kill -TERM "${sc_pids[sub]}"
	sleep 0.2
	running sub
	touch go
	await sub
	[[ $ended -eq 143 ]]
	wait_for received '.subject == "ack"' 1
	received '.subject == "unsubscribe.channel"' 1
}

@test "sub --ack manual: the next one comes after the ack; a wrong uid is told" {
	fake
	hold sub
	node sub sub c --ack manual --count 2
	sc-node pub < <(printf '["c","s",1]\n["c","s",2]\n')
	wait_for lines sub.out 1
	say sub '{"ack":"hex:00"}' '["c","s",1]'
	wait_for has sub.err "line '2'"
	has sub.err "line '1': no message of that uid waits for it"
	[[ $(wc -l <sub.out) -eq 1 ]]
	say sub "{\"ack\":$(jq -c .uid sub.out)}"
	wait_for lines sub.out 2
	say sub "{\"ack\":$(tail -n 1 sub.out | jq -c .uid)}"
	await sub
	[[ $ended -eq 1 ]]
	close_input sub
	run -0 sc-node sub c --ack manual </dev/null
}

@test "sub --ack none: one message, no ack" {
	fake
	node sub sub c --ack none --count 1 --format data
	sc-node pub < <(printf '["c","s",1]\n["c","s",2]\n')
	await sub
	[[ $ended -eq 0 && $(<sub.out) == 1 ]]
	! received '.subject == "ack"' 1
}

@test "ends: --count, --idle 0, --timeout 80 below the count and 0 without one; signals" {
	broker
	run -0 sc-node sub c --idle 100ms
	run -80 --separate-stderr sc-node sub c --timeout 100ms --count 1
	[[ $stderr == 'sc-node: cannot finish: 0 messages came within 100 ms' ]]
	run -0 sc-node sub c --timeout 100ms
	for signal in TERM INT; do
		node sub sub c
		stop sub "$signal"
		[[ $ended -eq $((128 + $(kill -l "$signal"))) ]]
	done
}

@test "a clean end takes the subscriptions of a generated endpoint back; --keep and --endpoint leave them" {
	fake
	run -0 sc-node sub c --also 'd e' --idle 50ms
	received '.subject == "unsubscribe.channel" and .data[1] == "c"' 1
	received '.subject == "unsubscribe.channel" and .data[1] == "d"' 1
	run -0 sc-node sub c --idle 50ms --keep
	run -0 sc-node sub c --idle 50ms --endpoint e
	! received '.subject == "unsubscribe.channel"' 3
}

@test "a server that does not wait for acks: messages are still handled one at a time, all of them" {
	fake --flood
	node sub sub c --exec 'cat >>got; sleep 0.01' --format data --count 30
	seq 30 | jq -c '["c","s",.]' | sc-node pub
	await sub
	[[ $ended -eq 0 ]]
	seq 30 | same - got
	wait_for received '.subject == "ack"' 30
}

@test "node: both ways; goes on after the end of input, or ends with --exit-on-eof" {
	broker
	hold a
	node a node c --format data
	node b sub d --count 2 --format data
	say a '["d","s",1]' 'x' '["d","s",2]'
	await b
	wait_for has a.err "line '2'"
	close_input a
	sc-node pub c s 5
	wait_for lines a.out 1
	running a
	stop a
	[[ $(<a.out) == 5 && $ended -eq 143 ]]
	run -0 sc-node node c --exit-on-eof --format data <<<'["c","s",9]'
	run -1 --separate-stderr sc-node node --strict --exit-on-eof < <(seq 99 | jq -c '["x","s",.]'; echo x; seq 9 | jq -c '["y","s",.]')
	[[ $stderr == "sc-node: "*"line '100'"* && $stderr != *$'\n'* ]]
	seq 500 | jq -c '["d","s",.]' >lines
	node b sub d --count 500 --format data
	run -0 sc-node node --exit-on-eof --window 3 <lines
	await b
	seq 500 | same - b.out
}

@test "request and reply, in one line each" {
	broker
	node r reply rpc 'order.*.request' -- jq -c '{id: ., state: "paid"}'
	run -0 --separate-stderr sc-node request rpc order.get.request 42 --timeout 20s
	[[ $output == '{"id":42,"state":"paid"}' && -z $stderr ]]
	run -0 sc-node request rpc order.get.request 43 --full
	jq -e '.subject == "order.get.reply" and .channel == "rpc" and .data.id == 43' <<<"$output"
	stop r
	[[ $ended -eq 143 ]]
}

@test "request: 81 when nobody is there, 80 when nobody answers; several replies" {
	broker
	run -81 --separate-stderr sc-node request rpc a.request 1 --timeout 20s
	[[ $stderr == "sc-node: cannot get a reply: nobody is subscribed to subject 'a.request' of channel 'rpc'; start a responder: sc-node reply" ]]
	node s sub rpc
	run -80 --separate-stderr sc-node request rpc a.request 1 --timeout 200ms
	[[ $stderr == 'sc-node: cannot get a reply: 0 of 1 came within 200 ms' ]]
	node r1 reply rpc 'a.request' -- echo 1
	node r2 reply rpc 'a.request' -- echo 2
	run -0 sc-node request rpc a.request 1 --replies 2
	[[ $(sort <<<"$output") == $'1\n2' ]]
	run -0 timeout 20 sc-node request rpc a.request 1 --replies 2 --timeout none
	[[ $(sort <<<"$output") == $'1\n2' ]]
	run -80 --separate-stderr sc-node request rpc a.request 1 --replies 3 --timeout 1s
	[[ $stderr == *'2 of 3 came'* ]]
}

@test "reply: a command that fails is an exception; request prints it and gives 1" {
	broker
	node r reply rpc '*' -- sh -c 'read -r x; case $x in 1) echo no >&2; exit 3 ;; 2) echo nonsense ;; 3) kill -9 $$ ;; 4) ;; 5) echo "{}" ;; esac'
	run -1 --separate-stderr sc-node request rpc a 1
	[[ -z $output && $stderr == '{"exit":3,"stderr":"no\n"}' ]]
	run -1 --separate-stderr sc-node request rpc a 2 --full
	jq -e '.subject == "a.exception" and .data.exit == 0 and (.data.error | startswith("not JSON"))' <<<"$stderr"
	run -1 --separate-stderr sc-node request rpc a 3
	[[ $stderr == '{"exit":137,"stderr":""}' ]]
	run -0 --separate-stderr sc-node request rpc a.request 4
	[[ $output == null ]]
	run -0 --separate-stderr sc-node request rpc a.request 5
	[[ $output == '{}' ]]
	stop r
	has r.err "cannot reply with the output of command 'sh': it ended with status 3"
	# a command that is not there is told to who asks, and ends the responder
	node r reply rpc '*' -- ./nothing
	run -1 --separate-stderr sc-node request rpc a 1
	jq -e '.exit == 127' <<<"$stderr"
	await r
	[[ $ended -eq 70 ]]
	has r.err "cannot start command './nothing': No such file or directory"
}

@test "reply: bytes that are no text are bin, of a failure too; many words are cut at a letter" {
	broker
	node r reply rpc '*' --raw -- sh -c 'read -r x; case $x in 1) printf "\377\0" ;; 2) printf "\377" >&2; exit 1 ;;
		3) yes é | tr -d "\n" | head -c 70001 >&2; exit 1 ;; esac'
	run -0 sc-node request rpc a 1
	[[ $output == '{"$bin":"/wA="}' ]]
	run -1 --separate-stderr sc-node request rpc a 2
	[[ $stderr == '{"exit":1,"stderr":{"$bin":"/w=="}}' ]]
	run -1 --separate-stderr sc-node request rpc a 3
	jq -e '.stderr | length == 32768' <<<"$stderr"
}

@test "reply: what a command says of its failure is cut to what a message may be" {
	broker
	node r reply rpc '*' --max-message 400 -- sh -c 'yes "é" | head -n 2000 >&2; exit 3'
	run -1 --separate-stderr sc-node request rpc a.request 1
	jq -e '.exit == 3 and (.stderr | type == "string" and (length > 40) and ltrimstr("é\né\n") != .)' <<<"$stderr"
	running r
	stop r
	# where not even that fits, the next request is answered all the same
	node r reply rpc '*' --max-message 64 -- sh -c 'read -r x; [ "$x" = 2 ]'
	run -80 sc-node request rpc a.request 1 --timeout 300ms
	run -0 sc-node request rpc a.request 2
	[[ $output == null ]]
}

@test "request: a reader that takes its time gets everything" {
	broker
	node r reply rpc '*' -- sh -c 'head -c 400000 /dev/zero | tr "\0" x | jq -R .'
	run -0 bash -c 'sc-node request rpc a 1 | { sleep 1; wc -c; }'
	[[ $output -eq 400003 ]]
}

@test "reply: --raw, the environment, replies of its own are passed over, --count" {
	broker
	node r reply rpc '*' --raw --count 2 -- sh -c 'printf "%s %s %s" "$SC_CHANNEL" "$SC_SUBJECT" "$(cat)"'
	node watch sub rpc --count 4
	run -0 --separate-stderr sc-node request rpc x.request '"é"'
	[[ $output == '"rpc x.request \"é\""' ]]
	run -0 sc-node request rpc x 2
	await r
	await watch
	[[ $(jq -r .subject watch.out | sort) == $'x\nx.reply\nx.reply\nx.request' && ! -s r.err ]]
}

@test "ctl: every command, its arguments on the wire" {
	fake
	for command in pause resume 'channel create a' 'channel size a 5' 'channel priority a 99' 'endpoint create e' 'endpoint size e 7' \
		'subscribe e c' 'subscribe e c s' 'unsubscribe e c' stop; do
		# shellcheck disable=SC2086
		run -0 sc-node ctl $command
		[[ -z $output ]]
	done
	run -0 sc-node ctl stats
	jq -e '.nodes >= 1' <<<"$output"
	[[ $(jq -c 'select(.channel) | [.subject, .data]' broker.out) == '["pause",null]
["resume",null]
["channel.create",["a"]]
["channel.size",["a",5]]
["channel.priority",["a",99]]
["endpoint.create",["e"]]
["endpoint.size",["e",7]]
["subscribe.channel",["e","c","*"]]
["subscribe.channel",["e","c","s"]]
["unsubscribe.channel",["e","c"]]
["stop",null]
["stats",null]' ]]
}

@test "ctl against the broker: what is refused has status 1 and the broker's words" {
	needs sc-broker
	broker
	run -1 --separate-stderr sc-node ctl channel priority system 5
	[[ $stderr == *'(reserved)' ]]
	run -1 --separate-stderr sc-node ctl channel size c 0
	[[ $stderr == *'(bad-args)' ]]
	run -0 sc-node ctl stats
	jq -e '.refused == 2' <<<"$output"
}

@test "TLS, tokens and roots against the broker" {
	needs sc-broker
	self_signed cert
	echo secret >tokens
	echo wrong >other
	ready broker sc-broker --listen 127.0.0.1:0 --no-state --token-file tokens --tls-cert cert.pem --tls-key cert.key --root /msg
	url=wss://localhost:$port
	run -0 sc-node pub c s 1 --url "$url/msg" --token-file tokens --ca cert.pem
	SC_TOKEN=secret run -0 sc-node pub c s 1 --url "$url/msg/" --ca cert.pem
	run -77 --separate-stderr sc-node pub c s 1 --url "$url/msg" --token-file other --ca cert.pem
	[[ $stderr == *'401'* && $stderr != *wrong* ]]
	run -77 sc-node pub c s 1 --url "$url/msg" --ca cert.pem
	run -69 sc-node pub c s 1 --url "$url" --token-file tokens --ca cert.pem
	run -66 --separate-stderr sc-node pub c s 1 --url "$url/msg" --token-file nowhere --ca cert.pem
	[[ $stderr == "sc-node: cannot read file 'nowhere': No such file or directory; check the path" ]]
	run ! sc-node pub c s 1 --url "$url/msg" --token-file tokens
}
