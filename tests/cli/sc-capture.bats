# sc-capture: options and their words, what is said to the feed, what lines its messages become (--map, --raw, --stamp,
# --binary), when it stops and with which status. The feed is peer.py; feeds that misbehave are in tests/interop/capture.bats.

load ../lib/common

setup() {
	needs sc-capture
	sc_setup
}

teardown() { sc_teardown; }

# feed STEP...: sets url
feed() {
	start feed "$SC_TESTS/cli/peer.py" "$@"
	wait_for test -s feed.out
	url=ws://127.0.0.1:$(head -n 1 feed.out)/feed
}

usage() {
	local words=$1

	shift
	run -64 --separate-stderr sc-capture "$@"
	[[ -z $output ]]
	[[ $stderr == "sc-capture: $words" ]]
}

@test "--help and --version" {
	run -0 --separate-stderr sc-capture --help
	[[ $output == 'Usage: sc-capture [OPTION]... URL'* && -z $stderr ]]
	run -0 sc-capture --version
	[[ $output == 'sc-capture '[0-9]*.[0-9]*.[0-9]* ]]
}

@test "the command line: what is wrong and what to do" {
	usage "cannot start: URL is missing; see 'sc-capture --help'"
	usage "cannot start: there is nothing to do with 'b'; see 'sc-capture --help'" ws://a b
	usage "cannot start: there is no option --sent; did you mean --send?" --sent x ws://a
	usage "cannot start: --binary takes base64, drop or text, not 'hex'; see 'sc-capture --help'" --binary hex ws://a
	usage "cannot use --raw: it says what to do where --map makes no row; give a program with --map, or leave out --raw: messages are printed as they are" \
		--raw x ws://a
	usage "cannot start: --events takes the number of an open descriptor, not '77'; nothing is open there: open it in the shell, as in 3>file" \
		--events 77 ws://a
	usage "cannot use the URL: it does not begin with ws://, wss:// or ws+unix:; write it as ws://HOST:PORT/NAME" http:/a
	usage "cannot start: --max-message takes a size from 1 to 1T, such as 1000, 64K or 8MiB, not 'big'; write bytes or a unit, as 1000, 64K or 8MiB" \
		--max-message big ws://a
	run -64 --separate-stderr sc-capture --send --quiet ws://a # a flag never swallows the next one
	[[ $stderr == *'--send=--quiet' ]]
}

@test "files that cannot be used" {
	run -66 --separate-stderr sc-capture --send-file nofile ws://127.0.0.1:1/
	[[ $stderr == "sc-capture: cannot read file 'nofile': No such file or directory; check the path" ]]
	run -78 --separate-stderr sc-capture --ca nofile wss://127.0.0.1:1/
	[[ $stderr == "sc-capture: cannot use the CA file 'nofile': No such file or directory; "* ]]
	run -78 --separate-stderr sc-capture --map '.[' ws://127.0.0.1:1/
	[[ $stderr == 'sc-capture: cannot compile jq program'* ]]
}

@test "JSON comes out as it came, anything else wrapped" {
	cat >lines <<'F'
{"a":1.0,"b":1e2,"a":-0,"c":"\/ \u00e9"}
[ 1,  18446744073709551615 ]
pong
{"$text":"me"}
F
	feed file lines text $'{"a":\n1}' text '' hex 00ff
	run -0 sc-capture "$url" --count 7
	[[ ${lines[0]} == '{"a":1.0,"b":1e2,"a":-0,"c":"\/ \u00e9"}' ]]
	[[ ${lines[1]} == '[ 1,  18446744073709551615 ]' ]]
	[[ ${lines[2]} == '{"$text":"pong"}' ]]
	[[ ${lines[3]} == '{"$text":"{\"$text\":\"me\"}"}' ]]
	[[ ${lines[4]} == '{"a":1}' ]]
	[[ ${lines[5]} == '{"$text":""}' ]]
	[[ ${lines[6]} == '{"$base64":"AP8="}' ]]
}

@test "--binary: wrapped, dropped, or taken as text" {
	feed hex 7b7d text 1
	run -0 sc-capture "$url" --count 2
	[[ $output == $'{"$base64":"e30="}\n1' ]]
	run -0 sc-capture "$url" --count 2 --binary drop
	[[ $output == 1 ]]
	run -0 sc-capture "$url" --count 2 --binary text
	[[ $output == $'{}\n1' ]]
}

@test "--send and --send-file: in order, on each connection, once" {
	printf 'three\r\n\nfour' >file
	printf 'five\n' >standard.in
	feed want 5 cut
	run -69 bash -c 'sc-capture "$1" --send one --send two --send-file file --send-file - --retry 1 --retry-wait 50ms <standard.in' bash "$url"
	grep '^got' feed.out | tail -n 10 >got
	printf 'got %s\n' one two three four five one two three four five >want
	same want got
}

@test "--map: rows, in the bytes that were copied; none for what is not selected" {
	cat >lines <<'F'
{"event":"trade","data":{"id":9007199254740993,"price":0.10,"side":"b"}}
{"event":"heartbeat"}
{"event":"trade","data":{"id":2,"price":8.394607e4,"side":"s"}}
F
	feed file lines
	run -0 --separate-stderr sc-capture "$url" --count 3 --map 'select(.event=="trade") | .data | {price,id}'
	[[ $output == $'{"price":0.10,"id":9007199254740993}\n{"price":8.394607e4,"id":2}' && -z $stderr ]]
	run -0 sc-capture "$url" --count 1 --map '.data.id, .data.side'
	[[ $output == $'9007199254740993\n"b"' ]]
}

@test "--map: what it fails on is skipped and told, status 1" {
	cat >lines <<'F'
{"p":1}
pong
{"p":"x"}
{"p":9007199254740993}
{"p":2}
F
	feed file lines
	run -1 --separate-stderr sc-capture "$url" --count 5 --map '{p: (.p + 1)}' --events 6 6>events
	[[ $output == $'{"p":2}\n{"p":3}' ]]
	[[ ${stderr_lines[-1]} == 'sc-capture: cannot make rows of all messages: 3 of 5 were skipped; let the program select the messages that it is for, or keep the others with --raw' ]]
	jq -es 'map(select(.event == "skipped")) | length == 3 and .[0].message == "pong" and .[2].skipped == 3 and (.[2].reason | length > 0)' events
	run -1 --separate-stderr sc-capture "$url" --count 5 --map '{p: (.p + 1)}' --json --quiet
	jq -e '.error == "partial" and .status == 1 and .skipped == 3' <<<"${stderr_lines[-1]}"
}

@test "--raw: every message is kept" {
	printf '%s\n' '{"p":0.10}' pong '{"q":1}' '{"p":"x"}' '[1]' '{"p":tru' >lines
	feed file lines hex 00ff
	run -0 --separate-stderr sc-capture "$url" --count 7 --raw raw --map 'select(.p) | {p: (if .p | type == "string" then error("no") else .p end)}'
	[[ -z $stderr ]]
	[[ ${lines[0]} == '{"p":0.10}' ]]
	[[ ${lines[1]} == '{"raw":"pong"}' ]]
	[[ ${lines[2]} == '{"raw":"{\"q\":1}"}' ]]
	[[ ${lines[3]} == '{"raw":"{\"p\":\"x\"}"}' ]]
	[[ ${lines[4]} == '{"raw":"[1]"}' ]]
	[[ ${lines[5]} == '{"raw":"{\"p\":tru"}' ]]
	[[ ${lines[6]} == '{"raw":"{\"$base64\":\"AP8=\"}"}' ]]
	run -0 sc-capture "$url" --count 1 --raw raw --map '.p' # something else than an object
	[[ $output == '{"raw":"{\"p\":0.10}"}' ]]
}

@test "--stamp: the time of receipt, in front" {
	feed text '{"a":0.10}' text '{}' text 5
	before=${EPOCHREALTIME/./}
	run -0 sc-capture "$url" --count 3 --stamp at
	after=${EPOCHREALTIME/./}
	[[ ${lines[0]} =~ ^\{\"at\":([0-9]+),\"a\":0.10\}$ ]]
	[[ ${BASH_REMATCH[1]} -ge $before && ${BASH_REMATCH[1]} -le $after ]]
	[[ ${lines[1]} =~ ^\{\"at\":[0-9]+\}$ ]]
	[[ ${lines[2]} =~ ^\{\"at\":[0-9]+,\"message\":5\}$ ]]
}

@test "stops after a time, and after silence" {
	feed text 1
	run -0 sc-capture "$url" --for 300ms
	[[ $output == 1 ]]
	run -0 sc-capture "$url" --until-idle 300ms
	[[ $output == 1 ]]
}

@test "closed by the feed: told with code and reason, and made again" {
	feed text 1 close 4321 'come again'
	run -0 --separate-stderr sc-capture "$url" --count 2 --retry-wait 50ms --events 6 6>events
	[[ $output == $'1\n1' ]]
	[[ $stderr == *"the server closed it with 4321 'come again'; trying again in"* ]]
	jq -es 'map(.event) == ["connected","lost","connected"] or map(.event) == ["connected","lost","connected","lost"]' events
	jq -es '.[1] | .code == 4321 and .close_reason == "come again" and .messages == 1 and .lasted_ms >= 0 and .retry_ms >= 0' events
	jq -es '.[2] | .connection == 2 and .down_ms >= 0' events
}

@test "the tries are spent, 69" {
	feed text 1 cut
	run -69 --separate-stderr sc-capture "$url" --retry 2 --retry-wait 50ms
	[[ $output == $'1\n1\n1' && ${stderr_lines[-1]} == *'gave up after 3 tries'* ]]
	run -69 --separate-stderr sc-capture --retry 0 "ws://127.0.0.1:$(free_port)/"
	[[ $stderr == "sc-capture: cannot connect to address '127.0.0.1:"*"': Connection refused; start the server, or correct the address" ]]
	run -69 --separate-stderr sc-capture --retry 0 ws://nosuch.invalid/
	[[ $stderr == "sc-capture: cannot look up host 'nosuch.invalid': "*"; check the name, and that this machine can look it up" ]]
	feed cut
	run -69 --separate-stderr sc-capture "$url" --retry 0
	[[ $stderr == *'; try again later, or allow more tries with --retry' ]]
}

@test "a server that speaks no WebSocket, 76: which one, and how it is seen" {
	local words where="server '127.0.0.1:"

	# what it answers to whatever comes
	for words in "SSH-2.0 there|cannot read the HTTP answer of $where*': it does not begin with HTTP/1.1" \
		"HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n|cannot open a WebSocket at $where*"; do
		stop feed
		rm -f feed.out
		start feed python3 -u -c '
import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1])
peer = listener.accept()[0]
peer.recv(65536)
peer.sendall(sys.argv[1].encode().decode("unicode_escape").encode() + b"\r\n\r\n")
peer.recv(1)
' "${words%%|*}"
		wait_for test -s feed.out
		run -76 --separate-stderr sc-capture --retry 0 "ws://127.0.0.1:$(head -n 1 feed.out)/"
		[[ $stderr == "sc-capture: "${words#*|} ]]
	done
}

@test "a message over the limit names the limit; it is refused whole" {
	feed text '"0123456789"'
	run -0 sc-capture "$url" --count 1 --max-message 12
	[[ $output == '"0123456789"' ]]
	run -76 --separate-stderr sc-capture "$url" --retry 0 --max-message 11
	[[ -z $output && $stderr == *11*'--max-message'* ]]
}

@test "output that fails, 74; a reader that leaves, 0 and quiet" {
	feed text 1 text 2
	run -74 --separate-stderr bash -c 'sc-capture "$1" --count 2 >/dev/full' bash "$url"
	[[ $stderr == "sc-capture: cannot write to output 'standard output': No space left on device"* ]]
	run -0 --separate-stderr bash -o pipefail -c 'sc-capture "$1" | head -n 1' bash "$url"
	[[ $output == 1 && -z $stderr ]]
}

@test "a second writer of events that leaves does not hold up the data" {
	feed text 1 close 1000 ''
	run -0 --separate-stderr bash -c 'sc-capture "$1" --count 3 --retry-wait 20ms --events 6 6> >(exit 0)' bash "$url"
	[[ $output == $'1\n1\n1' ]]
}

@test "signals: 128+n, the feed gets a close frame" {
	feed text 1
	start capture sc-capture "$url"
	wait_for lines capture.out 1
	stop capture TERM
	[[ $ended -eq 143 && $(cat capture.out) == 1 ]]
	start capture sc-capture "$url"
	wait_for lines capture.out 1
	stop capture INT
	[[ $ended -eq 130 ]]
}

@test "secrets are in no message" {
	echo very-secret >token
	run -69 --separate-stderr sc-capture --retry 0 -vv --token-file token 'ws://127.0.0.1:1/'
	[[ $stderr != *very-secret* ]]
	run -69 --separate-stderr sc-capture --retry 0 -vv 'ws://me:very-secret@127.0.0.1:1/'
	[[ $stderr != *very-secret* ]]
	: >empty
	feed text 1
	run -78 --separate-stderr sc-capture --retry 0 --token-file empty "$url"
	[[ $stderr == *"token file 'empty': it is empty"* ]]
}
