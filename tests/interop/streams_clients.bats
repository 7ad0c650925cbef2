# sc-sub and sc-pub with the official Durable Streams server (Node): streams made, JSON and bytes published and read, what is there and
# what comes by both ways of waiting, offsets, cursor files, Stream-Seq, producers over kill -9 and restarts, ends and refusals. What holds
# for sc-streams as well is asked of both. Its offsets count 5 bytes for a request where ours count 4 for a message; so of a page of it only
# the last line has an offset.
# run: limit 600

load ../lib/common

setup() {
	needs sc-pub sc-sub sc-streams
	sc_setup
	packages=$SC_INTEROP/durable
	listen=0
}

teardown() { sc_teardown; }

# theirs, ours: the server, on files; again on the same port when `listen` holds it.
theirs() {
	mkdir -p files
	: >server.ready
	(
		sc_let_go
		exec "$packages/bin/node" "$packages/reference.mjs" "$PWD/files" "$listen" 9 1000
	) </dev/null >server.out 2>server.err 3>&- 9>server.ready &
	pid=$!
	sc_pids[server]=$pid
	sc_ready server || return 1
	listen=$port
	url=http://127.0.0.1:$port/v1/stream
}

ours() {
	ready server sc-streams --listen "127.0.0.1:$listen" --long-poll 1s data || return 1
	listen=$port
	url=http://127.0.0.1:$port/v1/stream
}

pub() { timeout 100 sc-pub --retry-wait 50ms "$@"; }
sub() { timeout 100 sc-sub --retry-wait 50ms "$@"; }

# messages PATH: what the stream holds, one a line, as another client sees it.
messages() {
	curl -sf -m 20 "$url/$1?offset=-1" | jq -c '.[]'
}

# tail_of PATH: the server's offset of its end.
tail_of() {
	curl -sfI -m 20 "$url/$1" | tr -d '\r' | sed -n 's/^stream-next-offset: //ip'
}

# both FUNCTION: the same with either server, each in a folder of its own. (Not in a condition: that would switch off what fails a test.)
both() {
	local server

	for server in theirs ours; do
		mkdir -p "$server"
		cd "$server" || false
		listen=0
		echo "with the server that is $server"
		"$server"
		"$@"
		stop server
		cd ..
	done
}

@test "JSON: published, seen by others, read back with the server's offsets" {
	theirs
	run -0 pub --create application/json "$url/s" <<<$'{"m":1}\n{"m":"é \\u0041"}\n"x"\n[[2],1]'
	[[ ${#lines[@]} -eq 4 && ${lines[0]} == '[null,{"m":1}]' ]]
	[[ ${lines[3]} == "[$((10#$(tail_of s | cut -d_ -f2))),[[2],1]]" ]]
	run -0 messages s
	[[ $output == $'{"m":1}\n{"m":"é A"}\n"x"\n[[2],1]' ]]
	run -0 sub --offset earliest --until-end --payload "$url/s"
	[[ $(jq -c . <<<"$output") == "$(messages s)" ]]
	# the last line's offset is where the next message comes
	run -0 sub --offset earliest --until-end "$url/s"
	after=$(jq '.[0]' <<<"${lines[3]}")
	run -0 pub "$url/s" <<<5
	[[ $output == "[$((10#$(tail_of s | cut -d_ -f2))),5]" ]]
	run -0 sub --after "$after" --until-end --payload "$url/s"
	[[ $output == 5 ]]
	run -0 sub --at "$(printf '%016d_%016d' 0 "$after")" --until-end --payload "$url/s"
	[[ $output == 5 ]]
	run -0 sub --until-end "$url/s"
	[[ -z $output ]]
	# --create with a stream that is there: the same type is no matter, another one is told
	run -0 pub --create application/json "$url/s" </dev/null
	run -65 --separate-stderr pub --create text/plain "$url/s" </dev/null
	[[ $stderr == *'409'* ]]
}

@test "streams elsewhere than under /v1/stream/, which that server has anywhere" {
	local base client

	theirs
	base=http://127.0.0.1:$port
	run -0 pub --create application/json "$base/feeds/a" <<<$'1\n"x"'
	[[ ${#lines[@]} -eq 2 && ${lines[1]} == *',"x"]' ]]
	run -0 pub --protocol durable -q "$base/feeds/a" <<<2
	run -0 sub --protocol durable --offset earliest --until-end --payload "$base/feeds/a"
	[[ $output == $'1\n"x"\n2' ]]
	# at its root, on two ways to wait
	run -0 pub --create application/json -q "$base/b" <<<1
	for live in long-poll sse; do
		start "$live" sc-sub --protocol durable --live "$live" --offset earliest --payload "$base/b"
		wait_for lines "$live.out" 1
	done
	run -0 pub --protocol durable -q --close "$base/b" <<<2
	for live in long-poll sse; do
		await "$live"
		[[ $ended -eq 0 && $(cat "$live.out") == $'1\n2' ]]
	done
	# without it a WebSocket is asked for, and what answers is told
	for client in sub pub; do
		run -76 --separate-stderr "$client" "$base/b" </dev/null
		[[ -z $output && $stderr == *'; it is a Durable Streams server: say --protocol durable' ]]
	done
}

@test "bytes: out as they were wrapped, back as the same bytes" {
	theirs
	printf '{"$text":"a\\nb"}\n{"$base64":"/wA="}\nplain\n1.0\n' >in
	printf 'a\nb\xff\0plain1.0' >want
	run -0 pub --create application/octet-stream --wrap "$url/bytes" <in
	[[ ${#lines[@]} -eq 4 && $output != *null* ]]
	curl -s "$url/bytes?offset=-1" >got
	same want got
	run -0 sub --offset earliest --until-end --payload "$url/bytes"
	jq -r '."$base64"' <<<"$output" | base64 -d >got
	same want got
	head -c 3000000 /dev/urandom >large
	for i in 0 1 2; do
		printf '{"$base64":"%s"}\n' "$(tail -c +$((i * 1000000 + 1)) large | head -c 1000000 | base64 -w0)"
	done >in
	pub -q --create application/octet-stream "$url/large" <in
	for live in long-poll sse; do
		sub --offset earliest --live "$live" --until-end --payload "$url/large" >out
		jq -r '."$base64" // (."$text" | @base64)' out | while read -r part; do base64 -d <<<"$part"; done >got
		same large got
	done
}

# live MODE: what is there, then what comes, up to the end of the stream, while another publishes.
live() {
	pub -q --create application/json "$url/live" < <(seq 1 100)
	start sub sc-sub -v --live "$1" --offset earliest --payload "$url/live"
	wait_for lines sub.out 100
	for i in 1 2 3 4 5; do
		pub -q "$url/live" < <(seq $((100 * i + 1)) $((100 * i + 100)))
		wait_for lines sub.out $((100 * i + 100))
	done
	pub -q --close "$url/live" <<<601
	await sub
	[[ $ended -eq 0 ]]
	same <(seq 1 601) sub.out
	# one that comes when it is closed gets all, and ends
	sub --live "$1" --offset earliest --payload "$url/live" >again
	same sub.out again
	run -0 sub --live "$1" "$url/live"
	[[ -z $output ]]
	run -79 --separate-stderr pub "$url/live" <<<1
	[[ $stderr == *'the stream is closed' ]]
}

@test "what is there, then what comes by long-polls, up to the close" { both live long-poll; }
@test "what is there, then what comes by server-sent events, up to the close" { both live sse; }

# live_bytes MODE TYPE: the same for bytes, some of which begin or end like the framing of events.
live_bytes() {
	local name=${2//[^a-z]/}

	pub -q --create "$2" "$url/$name" </dev/null
	start sub sc-sub -v --live "$1" --offset earliest --payload "$url/$name"
	wait_for has sub.err 'connected to'
	: >want
	for text in 'data: x' ' blank' '' 'event: control' '{"streamClosed":true} x' 'é'; do
		jq -cn --arg t "$text"$'\n' '{"$text":$t}' | pub -q "$url/$name"
		printf '%s\n' "$text" >>want
	done
	pub -q --close "$url/$name" </dev/null
	await sub
	[[ $ended -eq 0 ]]
	jq -j '."$text" // (."$base64" | @base64d)' sub.out >got
	same want got
}

@test "bytes that come by long-polls and by server-sent events" {
	theirs
	live_bytes long-poll application/octet-stream
	live_bytes sse application/x-data
	# by server-sent events text loses a blank in front of a line: that server forgets to guard it
	live_bytes long-poll text/plain
}

# A cursor: nothing is left out, whenever the reader is killed. Where the server's offsets do not add up it stands at the end of
# an answer, so a run that does not come so far is repeated.
cursor() {
	local round last

	pub -q --create application/json "$url/c" < <(seq 1 100)
	sub --cursor c --offset earliest --until-end --payload "$url/c" >got
	same <(seq 1 100) got
	[[ $(cat c) == "$(tail_of c)" ]]
	run -0 sub --cursor c --until-end "$url/c"
	[[ -z $output ]]
	: >all
	for round in 1 2 3 4 5 6 7 8 9; do
		last=$((100 + 40 * round))
		pub -q "$url/c" < <(seq $((last - 39)) "$last")
		start sub sc-sub --live "$1" --cursor c --payload --exec 'cat; sleep 0.01' --exec-rows 10 "$url/c"
		if [[ $((round % 3)) -eq 0 ]]; then
			wait_for has sub.out "$last"
		else
			wait_for lines sub.out $((round * 3))
		fi
		stop sub KILL
		head -n "$(wc -l <sub.out)" sub.out >>all # the last line may be half a one
	done
	sub --cursor c --until-end --payload "$url/c" >>all
	sort -nu all >got
	same <(seq 101 "$last") got
	# within a run the order holds, and a run begins no later than the one before ended
	awk '$1 > last + 1 { exit 1 } { last = $1 }' last=100 all
	[[ $(cat c) == "$(tail_of c)" ]]
}

@test "a cursor holds the server's offset, and leaves nothing out over kill -9: long-polls" { both cursor long-poll; }
@test "a cursor holds the server's offset, and leaves nothing out over kill -9: events" { both cursor sse; }

# A producer that is killed again and again: each row once, in order.
producer() {
	local round=0

	seq 1 4000 >pub.in
	pub -q --create application/json "$url/p" </dev/null
	while [[ $round -lt 25 ]]; do
		round=$((round + 1))
		start pub sc-pub -P loader --numbered --state st --batch $((round % 17 + 1)) "$url/p"
		wait_for -t 5 lines pub.out $((round * 7 % 60 + 1)) || :
		stop pub KILL
	done
	start pub sc-pub -P loader --numbered --state st "$url/p"
	await pub
	[[ $ended -eq 0 ]]
	messages p >got
	same pub.in got
	run -0 sc-pub --last -P loader --state st "$url/p"
	[[ $output == 4000 ]]
}

@test "an idempotent producer, killed again and again: each row once, in order" { both producer; }

# The server goes and comes again under a producer and a subscriber. Theirs is stopped with a signal: after kill -9 it may
# have lost what it acknowledged.
restarts() {
	local signal=$1 again=$2 i

	pub -q --create application/json "$url/r" </dev/null
	start sub sc-sub --live "$3" --offset earliest --payload --count 2000 --retry-wait 50ms "$url/r"
	hold pub
	start pub sc-pub -q -P p --bare --batch 7 --retry-wait 50ms "$url/r"
	for i in 1 2 3 4; do
		seq $((500 * i - 499)) $((500 * i)) >&"${sc_inputs[pub]}"
		wait_for lines sub.out $((500 * i - 450))
		[[ $i -eq 4 ]] || { stop server "$signal" && "$again"; }
	done
	close_input pub
	await pub
	[[ $ended -eq 0 ]]
	await sub
	[[ $ended -eq 0 ]]
	messages r >stored
	same <(seq 1 2000) stored
	same stored sub.out
}

@test "the server restarted under a producer and a subscriber: long-polls" {
	theirs
	restarts TERM theirs long-poll
}

@test "the server restarted under a producer and a subscriber: events" {
	theirs
	restarts TERM theirs sse
}

@test "sc-streams killed under a producer and a subscriber: events" {
	ours
	restarts KILL ours sse
}

# Stream-Seq: the offset of a line, which a stream takes in rising order only.
stream_seq() {
	pub -q --create application/json --stream-seq end "$url/q" <<<$'[5,50]\n[9,90]\n[12,3]'
	run -79 --separate-stderr pub --stream-seq end "$url/q" <<<$'[12,3]\n[13,4]'
	[[ -z $output ]]
	[[ $stderr == *"/q': its Stream-Seq is 12 or more already: another writer is ahead; see what the stream has, or pass such rows over with --stream-seq skip" ]]
	# bytewise 100 is below 13, and it is not here
	pub -q --stream-seq end "$url/q" <<<'[100,4]'
	run -0 --separate-stderr pub -v --stream-seq skip "$url/q" <<<$'[9,90]\n[13,0]\n[100,4]\n[18446744073709551615,5]'
	[[ ${#lines[@]} -eq 1 && $output == *',5]' && $stderr == *'1 rows of 4 lines stored, 3 skipped as there already'* ]]
	run -0 messages q
	[[ $output == $'50\n90\n3\n4\n5' ]]
}

@test "Stream-Seq: no line twice, and none out of order" { both stream_seq; }

# Three writers of the same lines, killed at will: each line once, in order.
writers() {
	local n round

	seq 1 80 | sed 's/.*/[&,&]/' | tee a.in b.in >c.in
	pub -q --create application/json "$url/w" </dev/null
	for round in 1 2 3; do
		for n in a b c; do
			start "$n" sc-pub --stream-seq skip "$url/w"
		done
		wait_for stored $((round * 20))
		for n in a b c; do
			stop "$n" KILL
		done
	done
	for n in a b c; do
		start "$n" sc-pub --stream-seq skip "$url/w"
	done
	for n in a b c; do
		await "$n"
		[[ $ended -eq 0 ]]
	done
	messages w >got
	same <(seq 1 80) got
}

stored() {
	[[ $(messages w | wc -l) -ge $1 ]]
}

@test "Stream-Seq: several writers of the same lines, killed at will" { both writers; }

@test "deleted, expired, never there" {
	theirs
	run -66 --separate-stderr sub "$url/none"
	[[ $stderr == *'404 Not Found; check the path of the URL; a stream may have expired' ]]
	run -66 --separate-stderr sub --live sse "$url/none"
	run -66 --separate-stderr pub "$url/none" <<<1
	run -66 --separate-stderr sub "http://127.0.0.1:$port/v1/stream/"
	pub -q --create application/json "$url/d" <<<1
	start sub sc-sub --offset earliest "$url/d"
	wait_for lines sub.out 1
	curl -sf -X DELETE "$url/d"
	await sub
	[[ $ended -eq 66 ]]
	has sub.err '404 Not Found'
	run -66 --separate-stderr sub --offset earliest "$url/d"
	curl -sf -X PUT -H 'Content-Type: application/json' -H "Stream-Expires-At: $(date -u -d '+2 seconds' +%Y-%m-%dT%H:%M:%SZ)" -d '[1]' "$url/e"
	start sub sc-sub --offset earliest "$url/e"
	await sub
	[[ $ended -eq 66 && $(cat sub.out) == *',1]' ]]
	run -66 --separate-stderr pub "$url/e" <<<1
	# an offset of another stream
	pub -q --create application/json "$url/o" <<<1
	run -79 --separate-stderr sub --at 'no_such!' --until-end "$url/o"
	[[ $stderr == *'is the offset one of this stream?'* ]]
	# or behind the end: that server has nothing against it, and goes back; a stream that was made anew looks so
	for live in long-poll sse; do
		run -79 --separate-stderr sub --live "$live" --json --at 0000000000000000_0000000000000999 "$url/o"
		[[ -z $output ]]
		tail -1 <<<"$stderr" | jq -e '.why == "other_log" and .reason == "it ends before the offset 0000000000000000_0000000000000999"'
	done
}
