# sc-pub: options and their words, what comes in and what is printed, refused rows, refusals with their statuses, lost
# connections with and without --producer, signals, and kill -9 in a pipeline that loses and repeats nothing. The server is
# sc-serve on logs, or peer.py where it must misbehave.

load ../lib/common

setup() {
	needs sc-pub sc-serve sc-log sc-sub
	sc_setup
}

teardown() { sc_teardown; }

pub() { timeout 60 sc-pub "$@"; }

# logs: a server that takes publishers, on the log `rows` without and `typed` with a schema.
logs() {
	sc-log create rows
	echo '{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":["string","null"]}},"required":["a"]}' >schema
	sc-log create typed --schema schema
	serve server --publish rows typed
}

# liar STEP...: a peer.py that does these steps.
liar() {
	start peer python3 "$SC_TESTS/cli/peer.py" "$@"
	wait_for lines peer.out 1
	url=ws://127.0.0.1:$(head -1 peer.out)/rows
}

greeting='{"streamcast":1,"stream":"rows","end_offset":1,"replay":null,"durable":true,"schema":null,"archive":null}'

# usage WORDS ARGUMENT...: status 64, nothing on stdout, and these words on the one line of stderr.
usage() {
	local words=$1

	shift
	run -64 --separate-stderr sc-pub "$@"
	[[ -z $output ]]
	[[ $stderr == "sc-pub: $words" ]]
}

@test "--help and --version" {
	run -0 --separate-stderr sc-pub --help
	[[ $output == 'Usage: sc-pub [OPTION]... URL'* && -z $stderr ]]
	run -0 sc-pub --version
	[[ $output == 'sc-pub '[0-9]*.[0-9]*.[0-9]* ]]
}

@test "the command line: what is wrong and what to do" {
	usage "cannot start: URL is missing; see 'sc-pub --help'"
	usage "cannot use --last: it is about a producer; name one with --producer" --last ws://x/t
	usage "cannot use --numbered: it is about a producer; name one with --producer" --numbered ws://x/t
	usage "cannot use --epoch: it is about a producer; name one with --producer" --epoch 4 ws://x/t
	usage "cannot use --at-least-once: with --producer every row is stored once; leave it out" -P p --at-least-once ws://x/t
	usage "cannot publish: --pairs, --bare and --numbered exclude each other; say which one the lines are" --bare --pairs ws://x/t
	usage "cannot use --producer: its name has no or more than 255 bytes; give it a short name" -P '' ws://x/t
	usage "cannot publish: the URL names a producer or an epoch; use --producer and --epoch" 'ws://x/t?producer=p'
	usage "cannot start: --window takes a number from 1 to 1024, not '0'; see 'sc-pub --help'" --window 0 ws://x/t
}

@test "rows and pairs come in, lines go out as sc-log append would print them" {
	logs
	run -0 --separate-stderr pub "$url/rows" <<<$'{"a":1}\n\n [77,{"x": 1.0}] \n{"a":18446744073709551616}'
	[[ $output == $'[1,{"a":1}]\n[2,{"x": 1.0}]\n[3,{"a":18446744073709551616}]' && -z $stderr ]]
	run -0 pub "$url/typed" <<<$'{"b":"x","a":1}\n{"a":2}'
	[[ $output == $'[1,{"a":1,"b":"x"}]\n[2,{"a":2,"b":null}]' ]]
	run -0 sc-log read typed
	[[ $output == $'[1,{"a":1,"b":"x"}]\n[2,{"a":2,"b":null}]' ]]
	run -0 pub --quiet "$url/rows" <<<'{"a":1}'
	[[ -z $output ]]
	run -0 pub --wrap "$url/rows" <<<'plain words'
	[[ $output == '[5,{"$text":"plain words"}]' ]]
	run -0 pub "$url/rows" </dev/null
	[[ -z $output ]]
	printf '{"a":6}' >unended
	run -0 pub "$url/rows" <unended
	[[ $output == '[6,{"a":6}]' ]]
}

@test "a row that waits for nothing is printed at once" {
	logs
	hold pub
	start pub sc-pub "$url/rows"
	say pub '{"a":1}'
	wait_for lines pub.out 1
	say pub '{"a":2}'
	wait_for lines pub.out 2
	running pub
	close_input pub
	await pub
	[[ $ended -eq 0 ]]
}

@test "a refused row is named by its line; those before it are stored" {
	logs
	run -65 --separate-stderr pub "$url/typed" <<<$'{"a":1}\n\n{"a":2}\n{"a":3.5}\n{"a":4}'
	[[ $output == $'[1,{"a":1,"b":null}]\n[2,{"a":2,"b":null}]' ]]
	[[ $stderr == "sc-pub: "*"on line '4': column 'a': 3.5 is a number with a fraction or exponent, and the column is an integer" ]]
	run -65 --separate-stderr pub --json "$url/rows" <<<$'{"a":1}\n{"a":'
	[[ $(tail -1 <<<"$stderr" | jq .line) -eq 2 ]]
	run -65 --separate-stderr pub "$url/rows" <<<$'3'
	[[ $stderr == *"on line '1': a row is an object, not "* ]]
	run -65 --separate-stderr pub --pairs "$url/rows" <<<$'{"a":1}'
	[[ $stderr == *"it is not a pair [offset,msg]"* ]]
	[[ $(sc-log info --json rows | jq .rows) -eq 1 ]]
}

@test "a row that only the server refuses is found in its group" {
	# The log takes messages of 100 bytes; that is not in the schema that a publisher is told.
	sc-log create short --max-message 100
	serve server --publish short
	for i in 1 2 3 4 5 6 7; do echo "{\"a\":$i}"; done >in
	printf '{"a":"%0200d"}\n' 8 >>in
	echo '{"a":9}' >>in
	run -65 --separate-stderr pub --window 1 "$url/short" <in
	[[ ${#lines[@]} -eq 7 && ${lines[6]} == '[7,{"a":7}]' ]]
	[[ $stderr == *"on line '8': the server refused the row: "*"limit is 100"* ]]
	run -65 --separate-stderr pub -P p --bare "$url/short" <in
	[[ ${#lines[@]} -eq 7 && $stderr == *"on line '8': the server refused the row"* ]]
	[[ $(sc-log info --json short | jq .rows) -eq 14 ]]
}

@test "refusals and their statuses" {
	logs
	run -66 --separate-stderr pub "$url/none" <<<'{}'
	[[ $stderr == *'the server has no stream of that name; it serves: rows, typed' ]]
	stop server
	serve server rows
	for producer in '' '-P p --bare'; do
		run -77 --separate-stderr pub $producer "$url/rows" <<<'{}'
		[[ $stderr == *': the server takes no publishers; start it with --publish' ]]
	done
	stop server
	serve server --wire 2 rows
	run -77 --separate-stderr pub "$url/rows" <<<'{}'
	stop server
	echo 'read reader' >tokens
	serve server --publish --token-file tokens rows
	echo reader >token
	run -77 --separate-stderr pub --token-file token "$url/rows" <<<'{}'
	[[ $stderr == *'403'* ]]
	run -77 --separate-stderr pub "$url/rows" <<<'{}'
	stop server
	run -69 --separate-stderr pub --retry 0 "ws://127.0.0.1:$(free_port)/rows" <<<'{}'
}

@test "a stream without a log: offsets are null, and producers are unknown" {
	hold server
	serve server --publish live=-
	run -0 pub "$url/live" <<<'{"a":1}'
	[[ $output == '[null,{"a":1}]' ]]
	run -76 --separate-stderr pub -P p "$url/live" <<<'[1,{"a":1}]'
	[[ $stderr == *'a stream without a log knows no producers; '*'leave --producer out' ]]
}

@test "a producer: the offsets of pairs say what is there already" {
	logs
	run -0 sc-pub --last -P p "$url/rows"
	[[ $output == 0 ]]
	run -0 pub -P p "$url/rows" <<<$'[5,"x"]\n[7,[1]]\n[9,3]'
	[[ $output == $'[1,"x"]\n[2,[1]]\n[3,3]' ]]
	run -0 pub -P p "$url/rows" <<<$'[5,"x"]\n[7,[1]]\n[9,3]\n[20,4]'
	[[ $output == '[4,4]' ]]
	run -0 sc-pub --last -P p "$url/rows"
	[[ $output == 20 ]]
	run -0 sc-pub --last -P 'an other/&%é' "$url/rows"
	[[ $output == 0 ]]
	run -65 --separate-stderr pub -P p "$url/rows" <<<'{"a":1}'
	[[ $stderr == *'it is not a pair [offset,msg]; rows without offsets are taken with --bare or --numbered' ]]
	run -65 --separate-stderr pub -P p "$url/rows" <<<'[null,1]'
}

@test "a producer: lines that are numbered, and bare ones that are always new" {
	logs
	run -0 pub -P n --numbered "$url/rows" <<<$'1\n2'
	[[ $output == $'[1,1]\n[2,2]' ]]
	run -0 pub -P n --numbered "$url/rows" <<<$'1\n2\n3'
	[[ $output == '[3,3]' ]]
	run -0 pub -P b --bare "$url/rows" <<<$'1\n2'
	run -0 pub -P b --bare "$url/rows" <<<$'1\n2'
	[[ $output == $'[6,1]\n[7,2]' ]]
}

@test "a producer is taken over by a higher epoch" {
	logs
	hold old
	start old sc-pub -P p --bare "$url/rows"
	say old 1
	wait_for lines old.out 1
	run -0 pub -P p --bare --epoch 3 "$url/rows" <<<2
	[[ $output == '[2,2]' ]]
	say old 3
	await old
	[[ $ended -eq 79 ]]
	grep -q 'taken over by another process with epoch 3, ours is 0' old.err
	# the next one without an epoch goes on under that one
	run -0 pub -P p --bare "$url/rows" <<<4
	[[ $output == '[3,4]' ]]
	run -79 --separate-stderr pub -P p --bare --epoch 2 "$url/rows" <<<5
}

@test "a lost connection: without a producer the lines in doubt are told, and not sent again" {
	liar text "$greeting" want 1 text '{"ok":[1]}' want 2 cut
	hold pub
	start pub sc-pub --json "$url"
	say pub '{"a":1}'
	wait_for lines pub.out 1
	say pub '' '{"a":2}'
	await pub
	[[ $ended -eq 69 ]]
	tail -1 pub.err | jq -e '.line == 3 and .stored_line == 1 and (.reason | test("line 3 was sent and not acknowledged"))'
	[[ $(cat pub.out) == '[1,{"a":1}]' ]]
	[[ $(grep -c '^got' peer.out) -eq 2 ]]
}

@test "a lost connection with nothing in doubt is made again" {
	liar text "$greeting" want 1 text '{"ok":[1]}' cut
	hold pub
	start pub sc-pub --retry-wait 10ms "$url"
	say pub '{"a":1}'
	wait_for lines pub.out 1
	wait_for has pub.err 'again after'
	stop pub
	[[ $ended -eq 143 ]]
}

@test "--at-least-once sends again what is in doubt" {
	liar text "$greeting" want 1 cut
	again() { [[ $(grep -c 'got {"a":1}' peer.out) -ge 3 ]]; }
	hold more
	start more sc-pub --at-least-once --retry-wait 10ms "$url"
	say more '{"a":1}'
	wait_for again
}

@test "a server that lies" {
	liar text "$greeting" want 1 text '{"ok":[1,2]}'
	run -76 --separate-stderr pub "$url" <<<'{}'
	[[ $stderr == *'1 rows were acknowledged with 2 offsets'* ]]
	liar text "$greeting" text '{"ok":[1]}'
	hold pub
	start pub sc-pub "$url"
	await pub
	[[ $ended -eq 76 ]]
	liar text 'hello'
	run -76 --separate-stderr pub "$url" <<<'{}'
	liar text "$greeting" want 1 text '{"error":"rejected","detail":"so there"}'
	run -65 --separate-stderr pub "$url" <<<'{}'
	[[ $stderr == *"on line '1': the server refused the row: so there"* ]]
	liar text "$greeting" want 1 text '{"error":"commit_failed","detail":"disk"}'
	run -75 --separate-stderr pub "$url" <<<'{}'
	liar text "$greeting" want 1 close 1009 'too big'
	run -65 --separate-stderr pub "$url" <<<'{}'
	[[ $stderr == *'longer than the server takes'* ]]
	liar text "$greeting"
	run -76 --separate-stderr pub -P p --bare "$url" <<<'{}'
	[[ $stderr == *'the server knows no producers; leave --producer out' ]]
}

@test "TERM waits for replies, then says which lines are in doubt" {
	liar text "$greeting" want 1 text '{"ok":[1]}' want 2
	hold pub
	start pub sc-pub "$url"
	say pub '{"a":1}'
	wait_for lines pub.out 1
	say pub '{"a":2}'
	wait_for has peer.out '{"a":2}'
	stop pub
	[[ $ended -eq 143 ]]
	grep -q 'lines 2 to 2 were sent and not acknowledged' pub.err
}

@test "input and output that are closed, full, or gone" {
	logs
	run -74 --separate-stderr bash -c "exec sc-pub '$url/rows' <&-"
	[[ $stderr == *"cannot read input 'standard input'"* ]]
	[[ -e /dev/full ]] || skip "no /dev/full"
	run -74 --separate-stderr bash -c "echo '{}' | timeout 60 sc-pub '$url/rows' >/dev/full"
	[[ $stderr == *'No space left on device'* ]]
	hold pub
	mkfifo out
	cat out >/dev/null &
	local reader=$!
	start pub bash -c "exec sc-pub '$url/rows' >out"
	wait_for has /proc/"$pid"/comm sc-pub
	kill "$reader"
	await pub
	[[ $ended -eq 0 ]]
}

@test "a pipeline of sc-sub and sc-pub --producer, killed again and again, loses and repeats nothing" {
	sc-log create a
	sc-log create b
	serve server --publish a b
	(for i in $(seq 1 40); do seq $((100 * i - 99)) $((100 * i)) | sed 's/.*/{"n":&}/'; sleep 0.02; done |
		sc-log append --quiet a) 3>&- &
	local feeder=$! round=0 chain chain_pid
	chain="sc-sub --after \"\$(sc-pub --last -P a $url/b)\" $url/a | sc-pub -q -P a --batch"
	while [[ $(sc-log info --json b | jq .rows) -lt 4000 && $round -lt 400 ]]; do
		round=$((round + 1))
		# a process group of its own, so that all of it dies at once
		setsid sh -c "$chain $((round * 7 % 50 + 1)) $url/b" 2>>chain.err 3>&- &
		chain_pid=$!
		sleep "0.$((RANDOM % 3))$((RANDOM % 10))"
		[[ $round -lt 40 ]] || sleep 0.5 # a machine so slow that nothing moves in so short a life
		kill_group "$chain_pid" || :
	done
	wait "$feeder"
	same <(sc-log read --payload a) <(sc-log read --payload b)
	[[ $(sc-log info --json b | jq .rows) -eq 4000 ]]
}

@test "the server killed again and again under a producer" {
	sc-log create b
	serve server --publish b
	seq 1 30000 | sed 's/.*/[&,{"n":&}]/' >in
	local at=$port
	mkfifo slow
	(while IFS= read -r line; do echo "$line"; done <in >slow) 3>&- &
	start pub bash -c "exec sc-pub -q -P p --batch 7 --window 9 --retry-wait 20ms '$url/b' <slow"
	for i in 1 2 3 4 5 6; do
		sleep 0.1
		stop server KILL
		ready server sc-serve --listen "127.0.0.1:$at" --publish b
	done
	await pub
	[[ $ended -eq 0 ]]
	same <(sc-log read --payload b) <(sed 's/^\[[0-9]*,\(.*\)\]$/\1/' in)
}
