# sc-capture against a feed that misbehaves in every way that feeds do. The feed is a python `websockets` server that
# follows a script (feedserver.py) and reports what it saw: nothing that was received may be lost, and each loss of the
# connection is told.

load ../lib/common

setup() {
	needs sc-capture
	sc_setup
	feed=$SC_DATA/bitstamp-live-trades.jsonl
	frames=$(wc -l <"$feed")
}

teardown() { sc_teardown; }

# upstream [OPTION...] SCRIPT...: the feed; what it reports is in report.json.
upstream() {
	peer feed "${python_new[@]}" "$SC_TESTS/interop/feedserver.py" --report report.json --feed "$feed" "$@"
}

# A capture that would hang is stopped: bats cannot.
capture() { timeout 60 sc-capture "$url/feed" --retry-wait 300ms "$@"; }

reported() { # JQ: true of the report
	jq -e "$1" report.json
}

whole_feed() { # SCRIPT...: all frames arrive once, whatever the connections do
	upstream "$@"
	run -0 --separate-stderr capture --count "$frames"
	same <(printf '%s\n' "$output") "$feed"
}

@test "messages in one frame" { whole_feed 'play rest'; }
@test "messages in fragments" { whole_feed 'style fragments; play rest'; }

@test "messages cut inside letters, with pings between the fragments" {
	printf '%s\n' '{"é":"𝄞𝄞𝄞","longer":"äöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöü"}' '["€€€€"]' >letters
	feed=letters frames=2
	whole_feed 'style split; play rest'
	wait_for reported '.connections[0].pongs > 3'
}

@test "messages that come before anything was sent, some with the upgrade's answer" {
	upstream 'play 3; want 1; play rest'
	run -0 --separate-stderr capture --send hello --count "$frames"
	same <(printf '%s\n' "$output") "$feed"
}

@test "closed with code and reason: connects again, says so, loses nothing" {
	upstream 'play 5; sync; close 4123 "come again"' 'play rest'
	run -0 --separate-stderr capture --count "$frames"
	same <(printf '%s\n' "$output") "$feed"
	[[ $stderr == *4123* ]]
	[[ $stderr == *'come again'* ]]
	reported '.connections[0].close.code == 4123'
}

@test "a TCP reset in mid-stream: what had come is kept, the rest comes on the next connection" {
	upstream 'play 5; sync; reset' 'play 2; sync; fin' 'play rest'
	run -0 --separate-stderr capture --count "$frames"
	same <(printf '%s\n' "$output") "$feed"
	reported '.connections | length == 3'
}

@test "a TCP reset inside a message: the half message is dropped, nothing else" {
	# The head of a text frame of 16 bytes, and 5 of them.
	upstream 'play 5; sync; raw 81107b2261223a; reset' 'play rest'
	run -0 --separate-stderr capture --count "$frames"
	same <(printf '%s\n' "$output") "$feed"
}

@test "subscribe messages are sent on every connection, once each and in order" {
	printf 'from a file' >subscribe
	upstream 'want 3; play 3; sync; reset' 'want 3; play 3; sync; close 1012' 'want 3; play rest'
	run -0 --separate-stderr capture --send '{"op":1}' --send '{"op":2}' --send-file subscribe --count "$frames"
	same <(printf '%s\n' "$output") "$feed"
	for connection in 0 1 2; do
		reported "[.connections[$connection].received[].text] == [\"{\\\"op\\\":1}\",\"{\\\"op\\\":2}\",\"from a file\"]"
	done
}

@test "429 with Retry-After: waits as long as it is told, then goes on" {
	upstream 'http 429 Retry-After=2' 'play rest'
	run -0 --separate-stderr capture --count "$frames"
	same <(printf '%s\n' "$output") "$feed"
	[[ $stderr == *429* ]]
	reported '.connections[1].at - .connections[0].ended >= 1.9'
	reported '.connections[1].at - .connections[0].ended < 10'
}

@test "503: tries again" {
	upstream 'http 503 Retry-After=1' 'http 503' 'play rest'
	run -0 --separate-stderr capture --count "$frames"
	[[ $stderr == *503* ]]
	reported '.connections[1].at - .connections[0].ended >= 0.9'
}

@test "401 and 403 end it with 77, 404 with 66; the status is told" {
	for answer in 401 403; do
		upstream "http $answer"
		run -77 --separate-stderr capture
		[[ $stderr == *"$answer"* ]]
		reported '.connections | length == 1'
		stop feed
	done
	upstream 'http 404'
	run -66 --separate-stderr capture
	[[ $stderr == *404* ]]
}

@test "a token from a file goes with the request and shows nowhere" {
	echo 'geheim-42' >token
	upstream 'need Authorization="Bearer geheim-42"; play rest'
	run -0 --separate-stderr capture -vv --token-file token --count 1
	[[ $stderr$output != *geheim* ]]
	echo 'falsch-43' >token
	run -77 --separate-stderr capture --token-file token --count 1
	[[ $stderr != *falsch* ]]
}

@test "headers go with the request, on every connection" {
	upstream 'need X-Key=1; play 3; sync; reset' 'need X-Key=1; play rest'
	run -0 --separate-stderr capture --header 'X-Key: 1' --header 'User-Agent: mine' --count "$frames"
	reported '.connections[1].headers."User-Agent" == "mine"'
}

@test "silence: with --idle the connection is left and made again" {
	upstream 'play 5' 'play rest'
	run -0 --separate-stderr capture --idle 1s --count "$frames"
	same <(printf '%s\n' "$output") "$feed"
	[[ $stderr == *silen* ]]
}

@test "a peer that answers no ping is left" {
	upstream 'play 5; sync; deaf' 'play rest'
	run -0 --separate-stderr capture --ping 1s --pong-timeout 1s --count "$frames"
	same <(printf '%s\n' "$output") "$feed"
	reported '.connections[0].ended - .connections[0].at < 10'
}

@test "an upgrade that is never answered counts as a try" {
	upstream mute
	start capture sc-capture "$url/feed" --retry 0 --upgrade-timeout 1s
	await capture
	[ "$ended" -eq 69 ]
	[[ $(cat capture.err) == *"127.0.0.1:$port"* ]]
}

@test "nobody listens: ends with 69 after the tries, naming the place" {
	at=$(free_port)
	run -69 --separate-stderr sc-capture "ws://127.0.0.1:$at/feed" --retry 2
	[ -z "$output" ]
	[[ $stderr == *"127.0.0.1:$at"* ]]
}

@test "nobody listens: few tries and little work in some seconds" {
	at=$(free_port)
	run -69 --separate-stderr sc-capture "ws://127.0.0.1:$at/feed" --retry-for 5s
	[ "$(grep -c . <<<"$stderr")" -lt 12 ]
}

@test "a message at the limit comes whole, one byte more is refused with the limit's name" {
	upstream 'big 5000; bigfragments 5000' 'big 5001'
	capture --max-message 5000 --count 2 >got
	[ "$(head -1 got | wc -c)" -eq 5001 ]
	same <(head -1 got) <(tail -1 got)
	upstream 'big 5001' 'bigfragments 5001' 'text end'
	run -0 --separate-stderr capture --max-message 5000 --count 1
	[[ $output == *end* ]]
	[[ $stderr == *5000* ]]
	reported '.connections[0].close.code == 1009'
	reported '.connections[1].close.code == 1009'
}

@test "binary messages: base64 by default, or dropped" {
	upstream 'hex 00ff10; text 1'
	run -0 --separate-stderr capture --count 2
	[[ ${lines[0]} == *AP8Q* ]]
	jq -e . <<<"${lines[0]}"
	[ "${lines[1]}" = 1 ]
	stop feed
	upstream 'hex 00ff10; text 1'
	run -0 --separate-stderr capture --binary drop --count 2
	[ "$output" = 1 ]
}

@test "every frame of a feed that is partly no JSON takes one valid line" {
	feed=$SC_DATA/mixed-exchanges.jsonl
	frames=$(wc -l <"$feed")
	upstream 'play rest'
	capture --count "$frames" >got
	[ "$(wc -l <got)" -eq "$frames" ]
	python3 -c 'import json, sys; [json.loads(line) for line in open("got", encoding="utf-8")]'
	grep -F 9007199254740993 got
	grep -F pong got
}

@test "frames that break the protocol: 1002 or 1007, and on to the next connection" {
	# a masked frame, a reserved bit, text that is not UTF-8, a continuation of nothing, a control frame too long,
	# a length beyond all bounds
	upstream 'raw 81850000000068656c6c6f' 'raw c10131' 'raw 8101ff' 'raw 800131' "raw 897e0080$(printf '%0256d' 0)" \
		'raw 817f7fffffffffffffff' 'text end'
	run -0 --separate-stderr capture --count 1
	[[ $output == *end* ]]
	reported '.connections[1].close.code == 1002'
	reported '.connections[2].close.code == 1007'
	reported '.connections[3].close.code == 1002'
	reported '.connections[4].close.code == 1002'
	reported '.connections[5].close.code == 1009 or .connections[5].close.code == 1002'
}

@test "events name each loss and return with time, length and reason" {
	upstream 'play 5; sync; close 4123 "come again"' 'play 2; sync; reset' 'play rest'
	capture --events 5 --count "$frames" 5>events >got
	jq -es 'length >= 5' events
	jq -es 'all(.[]; .time and .event)' events
	jq -es 'any(.[]; (tojson | contains("come again")) and (tojson | contains("4123")))' events
}

@test "the reader leaves: it ends quietly, also when no data flows" {
	upstream 'play 1'
	mkfifo pipe
	start capture bash -c 'exec sc-capture "$1" >pipe' - "$url/feed"
	head -1 pipe >got
	await capture
	[ ! -s capture.err ]
}

@test "TERM ends it within two seconds and closes the connection properly" {
	upstream 'play 1'
	start capture sc-capture "$url/feed"
	wait_for lines capture.out 1
	stop capture TERM
	wait_for reported '.connections[0].close.code == 1000 or .connections[0].close.code == 1001'
}

@test "when its output is stuck, it answers pings and stops reading" {
	upstream 'big 1000000; big 1000000; big 1000000; big 1000000; sync; text 1'
	mkfifo pipe
	exec {reader}<>pipe
	start capture bash -c 'exec sc-capture "$1" --count 5 >pipe' - "$url/feed"
	wait_for reported '.connections[0].pongs >= 1 or (.connections[0].sent | length) >= 1'
	timeout 30 head -n 5 <&"$reader" >got
	exec {reader}>&-
	[ "$(wc -l <got)" -eq 5 ]
	await capture
	[ "$ended" -eq 0 ]
}

@test "from a feed into a log, exactly" {
	needs sc-log
	mkdir data
	sc-log create data/raw
	upstream 'style split; play 4; sync; reset' 'style fragments; play rest'
	capture --count "$frames" | sc-log append --quiet data/raw
	sc-log read --payload data/raw >got
	same "$feed" got
}

@test "the trades of the feed become rows, with every integer exact" {
	needs sc-log
	mkdir data
	sc-log create data/trades --schema "$SC_DATA/trades.schema.json"
	upstream 'play rest'
	capture --count "$frames" --map 'select(.event=="trade") | .data
		| {event_ts: (.microtimestamp|tonumber), price, side: (if .type == 0 then "buy" else "sell" end)}' |
		sc-log append --quiet data/trades
	[ "$(sc-log read --payload data/trades | head -1)" = '{"event_ts":1676510678160000,"price":24629,"side":"buy"}' ]
	[ "$(sc-log read data/trades | wc -l)" -eq 8 ]
}
