# sc-sub: options and their words, where it begins and stops, what finishes a row (pipe, file, --exec, --ack-fd), the
# cursor file, filters, refusals with their statuses. The server is sc-serve on a log of ten rows, or lines of standard input.

load ../lib/common

setup() {
	needs sc-sub sc-serve sc-log
	sc_setup
}

teardown() { sc_teardown; }

# ten: a server of the log `rows` that holds [1,1] to [10,10].
ten() {
	sc-log create rows
	seq 1 10 | sc-log append --quiet rows
	serve server rows "$@"
	url=$url/rows
}

# subscribers N: the server has that many; for wait_for. What is counted has a cursor locked, if it has one.
subscribers() {
	[[ $(curl -s "http://127.0.0.1:$port/stats" | jq '.streams | map(.subscribers) | add') -eq $1 ]]
}

more() { seq "$1" "$2" | sc-log append --quiet rows; }

# usage WORDS ARGUMENT...: status 64, nothing on stdout, and these words on the one line of stderr.
usage() {
	local words=$1

	shift
	run -64 --separate-stderr sc-sub "$@"
	[[ -z $output ]]
	[[ $stderr == "sc-sub: $words" ]]
}

@test "--help and --version" {
	run -0 --separate-stderr sc-sub --help
	[[ $output == 'Usage: sc-sub [OPTION]... URL'* && -z $stderr ]]
	run -0 sc-sub --version
	[[ $output == 'sc-sub '[0-9]*.[0-9]*.[0-9]* ]]
}

@test "the command line: what is wrong and what to do" {
	usage "cannot start: URL is missing; see 'sc-sub --help'"
	usage "cannot start: there is nothing to do with 'y'; see 'sc-sub --help'" ws://x y
	usage "cannot start: there is no option --ofset; did you mean --offset?" --ofset 3 ws://x/
	usage "cannot use the URL: it does not begin with ws://, wss:// or ws+unix:; write it as ws://HOST:PORT/NAME" ftp://x
	usage "cannot start: --offset takes an offset or 'earliest', not '-1'; see 'sc-sub --help'" --offset -1 ws://x/t
	usage "cannot start: --count takes a number from 1 up, not '0'; see 'sc-sub --help'" --count 0 ws://x/t
	usage "cannot start: --cursor needs a file's name, and the option --payload is behind it; if that is the value, write --cursor=--payload" \
		--cursor --payload ws://x
	usage "cannot start: --ack-fd takes the number of an open descriptor, not '77'; nothing is open there: open it in the shell, as in 3>file" \
		--ack-fd 77 ws://x/t
}

@test "options that clash" {
	usage "cannot use --after: --offset says where to begin already; leave one of them out" --offset 1 --after 2 ws://x/t
	usage "cannot use --after: no offset comes after it; give a smaller one" --after 18446744073709551615 ws://x/t
	usage "cannot use --to: it is before the offset to begin with; give the last offset that is wanted" --to 3 --offset 5 ws://x/t
	usage "cannot use --to: it is before the offset to begin with; give the last offset that is wanted" --to 3 --after 3 ws://x/t
	usage "cannot use --to: offsets begin at 1; give the last offset that is wanted" --to 0 ws://x/t
	usage "cannot use --ack-fd: with --exec the command's success finishes a row; leave one of them out" \
		--exec true --ack-fd 0 ws://x/t
	usage "cannot subscribe: the URL names an offset, and so does an option; leave one of them out" --offset 1 'ws://x/t?offset=3'
	usage "cannot subscribe: the URL's offset 'x' is no offset; give a number of 1 or more, or 0 for the earliest" 'ws://x/t?offset=x'
}

@test "--json: errors as one object" {
	run -64 --separate-stderr sc-sub --json --offset 1 --after 2 ws://x/t
	jq -e '.error == "usage" and .status == 64 and .tried and .reason and .next' <<<"$stderr"
}

@test "defaults from the environment and an options file; the command line wins" {
	ten
	echo '--offset 9 # the last two' >file
	run -0 sc-sub --options-file file --until-end "$url"
	[[ $output == $'[9,9]\n[10,10]' ]]
	SC_SUB_OPTIONS='--offset 10 --until-end' run -0 sc-sub "$url"
	[[ $output == '[10,10]' ]]
	SC_SUB_OPTIONS='--offset 10 --until-end' run -0 sc-sub --offset 8 --count 1 "$url"
	[[ $output == '[8,8]' ]]
}

@test "where it begins and where it ends" {
	ten
	run -0 sc-sub "$url" --offset earliest --until-end
	[[ $output == "$(sc-log read rows)" ]]
	run -0 sc-sub "$url" --offset 9 --until-end
	[[ $output == $'[9,9]\n[10,10]' ]]
	run -0 sc-sub "$url" --after 9 --until-end
	[[ $output == '[10,10]' ]]
	run -0 sc-sub "$url?offset=3" --count 2
	[[ $output == $'[3,3]\n[4,4]' ]]
	run -0 sc-sub "$url" --offset 4 --to 5
	[[ $output == $'[4,4]\n[5,5]' ]]
	run -0 sc-sub "$url" --after 10 --until-end
	[[ -z $output ]]
	run -0 sc-sub "$url" --until-idle 100ms
	[[ -z $output ]]
}

@test "without an offset: what comes next" {
	ten
	start sub sc-sub "$url" --count 2
	wait_for subscribers 1
	more 11 12
	await sub
	[[ $ended -eq 0 ]]
	[[ $(cat sub.out) == $'[11,11]\n[12,12]' ]]
}

@test "a line is out at once on a pipe" {
	ten
	mkfifo pipe
	start sub sh -c 'exec sc-sub "$1" --offset 10 >pipe' sh "$url"
	exec 5<pipe
	read -r -t 10 line <&5
	[[ $line == '[10,10]' ]]
	more 11 11
	read -r -t 10 line <&5
	[[ $line == '[11,11]' ]]
	exec 5<&-
	wait_for sc_gone "${sc_pids[sub]}" # also although no row is due
	await sub
	[[ $ended -eq 0 && ! -s sub.err ]]
}

@test "--payload prints rows without offsets" {
	ten
	run -0 sc-sub "$url" --payload --offset 9 --until-end
	[[ $output == $'9\n10' ]]
}

@test "the cursor: resumes behind what is finished, moves only forward, is readable and settable" {
	ten
	run -0 sc-sub "$url" --cursor c --offset earliest --count 4
	[[ $(od -An -c c | tr -d ' ') == 4 ]] # digits and nothing else
	run -0 sc-sub "$url" --cursor c --count 2
	[[ $output == $'[5,5]\n[6,6]' && $(<c) == 6 ]]
	run -0 sc-sub "$url" --cursor c --offset 2 --to 3 # going back does not move it
	[[ $output == $'[2,2]\n[3,3]' && $(<c) == 6 ]]
	echo ' 8 ' >c
	run -0 sc-sub "$url" --cursor c --until-end
	[[ $output == $'[9,9]\n[10,10]' && $(<c) == 10 ]]
	echo 0 >c # nothing is finished yet
	run -0 sc-sub "$url" --cursor c --count 1
	[[ $output == '[1,1]' && $(<c) == 1 ]]
}

@test "the cursor's folders are made; a file that holds something else is warned of" {
	ten
	run -0 sc-sub "$url" --cursor deep/er/c --offset earliest --count 4
	[[ $(<deep/er/c) == 4 ]]
	echo abc >c
	run -0 --separate-stderr sc-sub "$url" --cursor c --until-idle 100ms
	[[ -z $output && $stderr == *'warning: the cursor file holds no offset: starting as if it were not there' ]]
}

@test "two on one cursor file: the second one is refused, 75" {
	ten
	start first sc-sub "$url" --cursor c
	wait_for subscribers 1
	run -75 --separate-stderr sc-sub "$url" --cursor c
	[[ $stderr == "sc-sub: cannot use cursor file 'c': another process is using it; give each consumer a cursor file of its own, or end the other one" ]]
}

@test "a cursor that is there and cannot be read is not taken for none" {
	ten
	ln -s c c
	run -74 --separate-stderr sc-sub "$url" --cursor c --until-idle 100ms
	[[ -z $output && $stderr == *"'c': Too many levels of symbolic links; give the right to read it, or another file" ]]
	[[ -L c ]]
}

@test "a cursor that cannot be made, 73" {
	run -73 --separate-stderr sc-sub --cursor /proc/none/c ws://127.0.0.1:1/t
	[[ $stderr == "sc-sub: cannot make the folders of cursor file '/proc/none/c': No such file or directory; check the path" ]]
	# found at the start, not at the first save
	mkdir folder
	run -73 --separate-stderr sc-sub ws://127.0.0.1:1/t --cursor folder
	[[ $stderr == "sc-sub: cannot use cursor file 'folder': it is a folder; name a file to keep the offset in" ]]
	run -73 sc-sub ws://127.0.0.1:1/t --cursor new/
	run -73 sc-sub ws://127.0.0.1:1/t --cursor /dev/null
	[[ ! -e folder.lock && ! -e new && -c /dev/null ]]
}

@test "the cursor of a pipe does not lead a reader that stalls" {
	ten
	mkfifo pipe
	start sub sh -c 'exec sc-sub "$1" --cursor c --offset earliest >pipe' sh "$url"
	exec 5<pipe
	read -r -t 10 line <&5 # bash reads a pipe byte by byte: one line is taken
	[[ $line == '[1,1]' ]]
	stop sub TERM
	[[ $ended -eq 143 ]]
	[[ ! -e c ]] # row 1 was taken, but its reader did not come back for more
	exec 5<&-
}

@test "a reader that takes a line and comes back has finished it" {
	ten
	mkfifo pipe
	start sub sh -c 'exec sc-sub "$1" --cursor c --offset earliest >pipe' sh "$url"
	exec 5<pipe
	for n in 1 2 3 4; do read -r -t 10 line <&5; done
	wait_for grep -qx 3 c # within the second in which the cursor follows
	exec 5<&-
	await sub
	[[ $(<c) == 3 ]]
}

@test "the cursor of a file is what is on disk" {
	ten
	sc-sub "$url" --cursor c --offset earliest --until-end >file
	[[ $(<c) == 10 ]]
	same <(sc-log read rows) file
}

@test "--exec: finished when the command succeeds; a failing one stops, and its row comes again" {
	ten
	run -1 --separate-stderr sc-sub "$url" --cursor c --offset earliest --until-end --exec 'read -r l; echo "$SC_FIRST_OFFSET-$SC_OFFSET $l"; test $SC_OFFSET != 3'
	[[ $output == $'1-1 [1,1]\n2-2 [2,2]\n3-3 [3,3]' && $(<c) == 2 ]]
	[[ ${stderr_lines[-1]} == *": it ended with status 1; offsets 3 to 3 are not finished and come again at the next start" ]]
	run -0 sc-sub "$url" --cursor c --to 4 --exec cat
	[[ $output == $'[3,3]\n[4,4]' && $(<c) == 4 ]]
	run -0 sc-sub "$url" --cursor c --to 6 --exec true # a command need not read
	[[ $(<c) == 6 ]]
	run -1 --separate-stderr sc-sub "$url" --cursor c --until-end --exec 'kill -9 $$'
	[[ ${stderr_lines[-1]} == *": it was ended by signal 9; offsets 7 to 7 are not finished and come again at the next start" && $(<c) == 6 ]]
}

@test "--exec: ended together with its command, as by Ctrl-C: the signal's status, and the row comes again" {
	ten
	start sub setsid sc-sub "$url" --cursor c --offset earliest --exec 'test $SC_OFFSET != 3 || { touch there; sleep 60; }'
	wait_for test -e there
	kill -TERM -- "-$pid"
	await sub
	[[ $ended == 143 && $(<c) == 2 && ! -s sub.err ]]
}

@test "--exec-rows: several lines for one run" {
	ten
	run -0 sc-sub "$url" --cursor c --offset earliest --until-end --exec-rows 100 --exec 'wc -l >>runs; echo "$SC_OFFSET" >>runs'
	[[ $(awk 'NR % 2 { n += $1 } END { print n }' runs) == 10 && $(tail -1 runs) == 10 && $(<c) == 10 ]]
}

@test "--ack-fd: finished when the consumer says so" {
	ten
	mkfifo acks
	exec 6<>acks
	start sub sh -c 'exec sc-sub "$1" --cursor c --offset earliest --ack-fd 6' sh "$url"
	wait_for lines sub.out 10
	[[ ! -e c ]]
	echo 4 >&6
	wait_for grep -qx 4 c
	printf '2\r\n\n' >&6 # lower ones and empty lines say nothing new
	echo 7 >&6
	wait_for grep -qx 7 c
	stop sub
	[[ $ended -eq 143 && $(<c) == 7 ]]
	exec 6>&-
}

@test "--ack-fd: what is no offset, or was not delivered, ends it with 65" {
	ten
	run -65 --separate-stderr sc-sub "$url" --offset 9 --ack-fd 6 6< <(echo 99; sleep 5)
	[[ ${stderr_lines[-1]} == 'sc-sub: cannot take an acknowledgement: offset 99 was not delivered'* ]]
	run -65 --separate-stderr sc-sub "$url" --offset 9 --ack-fd 6 6< <(echo nine; sleep 5)
	[[ ${stderr_lines[-1]} == "sc-sub: cannot take an acknowledgement: 'nine' is not an offset; write the decimal offset of a finished line, one a line" ]]
}

@test "--filter: selects in their own bytes, makes new rows, moves the cursor past what it drops" {
	sc-log create rows
	printf '%s\n' '{"p":0.10,"s":"a"}' '{"p":1e2,"s":"b"}' '{"p":5.0,"s":"a"}' | sc-log append --quiet rows
	serve server rows
	url=$url/rows
	run -0 sc-sub "$url" --offset earliest --until-end --filter '.s == "a"'
	[[ $output == $'[1,{"p":0.10,"s":"a"}]\n[3,{"p":5.0,"s":"a"}]' ]]
	run -0 sc-sub "$url" --offset earliest --until-end --filter 'select(.p > 50)' --cursor c
	[[ $output == '[2,{"p":1e2,"s":"b"}]' && $(<c) == 3 ]]
	run -0 sc-sub "$url" --offset 1 --to 1 --filter '.p, .s'
	[[ $output == $'[1,0.10]\n[1,"a"]' ]]
}

@test "--filter: does not compile, 78; fails on a row, 65, which is named" {
	ten
	run -78 --separate-stderr sc-sub "$url" --filter '.['
	[[ $stderr == 'sc-sub: cannot compile jq program'* ]]
	run -65 --separate-stderr sc-sub "$url" --offset 7 --filter .a --json
	jq -e '.error == "bad_data" and .offset == 7' <<<"${stderr_lines[-1]}"
}

@test "a filter never rounds: 65" {
	sc-log create rows
	echo '{"n":9007199254740993}' | sc-log append --quiet rows
	serve server rows
	run -0 sc-sub "$url/rows" --offset 1 --until-end --filter '.n == 9007199254740993'
	[[ $output == '[1,{"n":9007199254740993}]' ]]
	run -65 sc-sub "$url/rows" --offset 1 --until-end --filter '.n + 1'
}

@test "refused offsets, 79: why, the numbers, and what to do" {
	ten
	run -79 --separate-stderr sc-sub "$url" --offset 12 --quiet
	[[ $stderr == "sc-sub: cannot subscribe at stream '127.0.0.1:$port/rows': offset 12 is above the end of the log at 11 (ahead); see whether the log was made anew" ]]
	run -79 --separate-stderr sc-sub "$url" --offset 12 --json --quiet
	jq -e '.error == "offset_refused" and .why == "ahead" and .offset == 12 and .end_offset == 11' <<<"${stderr_lines[-1]}"
	sc-log trim rows --before 5
	run -79 --separate-stderr sc-sub "$url" --offset 2 --quiet
	[[ $stderr == *'offset 2 is no longer held, the earliest is 5 (evicted); '* ]]
	run -0 sc-sub "$url" --offset earliest --count 1
	[[ $output == '[5,5]' ]]
}

@test "too_old and not_durable, 79" {
	hold server
	sc-log create rows
	seq 1 10 | sc-log append --quiet rows
	serve server --max-replay 3 rows live=-
	run -79 --separate-stderr sc-sub "$url/rows" --offset 7 --quiet
	[[ $stderr == *'offset 7 is 4 rows behind and the server replays at most 3 (too_old); '* ]]
	run -0 sc-sub "$url/rows" --offset 8 --until-end
	[[ ${lines[0]} == '[8,8]' ]]
	run -79 --separate-stderr sc-sub "$url/live" --offset 0 --quiet
	[[ $stderr == *'(not_durable); subscribe without an offset' ]]
}

@test "another log under the name, 79" {
	ten
	start sub sc-sub "$url" --offset earliest --retry-wait 100ms
	wait_for lines sub.out 10
	stop server KILL
	rm -r rows
	sc-log create rows
	seq 1 20 | sc-log append --quiet rows
	ready server sc-serve --listen "127.0.0.1:$port" rows
	await sub
	[[ $ended -eq 79 ]]
	has sub.err "the server has another log now"
}

@test "no such stream, 66; a request that is none, 76" {
	ten
	run -66 --separate-stderr sc-sub "${url%/rows}/nothing" --quiet
	[[ $stderr == "sc-sub: cannot subscribe at stream '127.0.0.1:$port/nothing': the server has no stream of that name; it serves: rows" ]]
	run -76 --separate-stderr sc-sub "$url?bogus=1" --quiet
	[[ $stderr == *'unknown query parameters: bogus' ]]
}

@test "an end that is final is not told as a try to come" {
	ten
	run -66 --separate-stderr sc-sub "${url%/rows}/nothing"
	[[ $stderr != *'trying again'* ]]
}

@test "nobody there, 69: --retry counts, --retry-for limits" {
	gone=ws://127.0.0.1:$(free_port)/t
	run -69 --separate-stderr sc-sub --retry 0 "$gone"
	[[ $stderr == "sc-sub: cannot connect to address '${gone:5:-2}': Connection refused; start the server, or correct the address" ]]
	run -69 --separate-stderr sc-sub --retry 2 --retry-wait 50ms "$gone"
	[[ $(grep -c 'trying again' <<<"$stderr") -eq 2 && $(grep -c 'start the server' <<<"$stderr") -eq 1 ]]
	[[ ${stderr_lines[-1]} == *'gave up after 3 tries in '*' s; start the server, or correct the address' ]]
	run -69 sc-sub --retry-for 200ms --retry-wait 50ms "$gone"
}

@test "a peer that is no streamcast server, 76; one without a WebSocket, 66 and more" {
	mkdir served
	start web python3 -u -m http.server --bind 127.0.0.1 --directory served 0
	wait_for has web.out 'port '
	web=ws://127.0.0.1:$(sed 's/.* port \([0-9]*\) .*/\1/' web.out)
	run -66 sc-sub "$web/nothing" --quiet
	run -76 sc-sub "$web/" --quiet # 200 is no upgrade
}

@test "a token: missing or wrong, 77" {
	echo 'read right' >tokens
	ten --token-file tokens
	run -77 --separate-stderr sc-sub "$url" --until-end --quiet
	[[ $stderr == *'the server answered 401'*'; check the token, user or certificate' ]]
	run -77 --separate-stderr sc-sub "$url" --until-end --quiet --json
	[[ $(jq -c '[.status, .http_status]' <<<"$stderr") == '[77,401]' ]]
	[[ $(grep -o '"status"' <<<"$stderr" | wc -l) -eq 1 ]]
	echo wrong >token
	run -77 sc-sub "$url" --token-file token --until-end --quiet
	echo right >token
	run -0 sc-sub "$url" --token-file token --offset 10 --until-end
	[[ $output == '[10,10]' ]]
	echo 'anybody:right' >user
	run -0 sc-sub "$url" --user-file user --offset 10 --until-end
	echo 'publish only' >>tokens
	echo only >token
	run -77 sc-sub "$url" --token-file token --until-end --quiet
}

@test "dropped as too slow again and again, 75, with the offset to resume at" {
	# a peer that says 4429 after the greeting, each time
	start peer "$SC_TESTS/cli/peer.py" \
		text '{"streamcast":1,"stream":"t","end_offset":9,"replay":[3,9],"durable":true,"schema":null,"archive":null}' \
		close 4429 '{"error":"too_slow","backlog":8192}'
	wait_for test -s peer.out
	run -75 --separate-stderr sc-sub "ws://127.0.0.1:$(<peer.out)/t" --offset 3 --retry-wait 20ms --json
	jq -e '.error == "busy" and .refusal == "too_slow" and .resume == 3' <<<"${stderr_lines[-1]}"
}

@test "the server restarts: the stream goes on, nothing is missing or repeated" {
	ten
	start sub sc-sub "$url" --offset earliest --count 20 --retry-wait 100ms
	wait_for lines sub.out 10
	stop server KILL
	more 11 20
	ready server sc-serve --listen "127.0.0.1:$port" rows
	await sub
	[[ $ended -eq 0 ]]
	same <(sc-log read rows) sub.out
	has sub.err 'trying again in'
	has sub.err 'again after'
}

@test "--events: what happens to the connection, as JSON lines" {
	ten
	start sub sh -c 'exec sc-sub "$1" --offset earliest --count 11 --retry-wait 100ms --events 6 6>events' sh "$url"
	wait_for lines sub.out 10
	stop server KILL
	more 11 11
	ready server sc-serve --listen "127.0.0.1:$port" rows
	await sub
	jq -es '.[0].event == "connected" and .[0].connection == 1 and (.[0].time | endswith("Z"))' events
	jq -es 'map(select(.event == "lost"))[0] | .code == 1006 and .resume == 11 and .retry_ms >= 0 and .messages == 11' events
	jq -es 'map(select(.event == "connected"))[-1] | .connection == 2 and .down_ms >= 0' events
}

@test "a gap is told; with --contiguous it ends, 76" {
	sc-log create rows
	printf '%s\n' '[1,1]' '[2,2]' '[9,9]' '[10,10]' | sc-log append --quiet --mirror rows
	serve server rows
	run -0 --separate-stderr sc-sub "$url/rows" --offset 1 --until-end --events 6 6>events
	[[ ${#lines[@]} -eq 4 && $stderr == *'offsets 3 to 8 are left out'* ]]
	jq -es 'map(select(.event == "gap"))[0] | .first == 3 and .last == 8' events
	run -76 --separate-stderr sc-sub "$url/rows" --offset 1 --until-end --contiguous
	[[ ${#lines[@]} -eq 2 && ${stderr_lines[-1]} == *'offset 9 came where 3 was due'* ]]
}

@test "the stream of standard input ends: so does its subscriber" {
	hold server
	serve server live=-
	start sub sc-sub "$url/live"
	wait_for subscribers 1
	say server '{"a":1}' 'text'
	close_input server
	await sub
	[[ $ended -eq 0 ]]
	[[ $(cat sub.out) == $'[null,{"a":1}]\n[null,{"$text":"text"}]' ]]
}

@test "a full disk under the output, 74; what was not written is not finished" {
	ten
	run -74 --separate-stderr bash -c 'sc-sub "$1" --offset 1 --count 2 --cursor c >/dev/full' bash "$url"
	[[ $stderr == "sc-sub: cannot write to output 'standard output': No space left on device"* ]]
	[[ ! -e c ]]
	run -74 bash -c 'sc-sub --help >/dev/full'
}

@test "the reader leaves: quiet, status 0" {
	ten
	run -0 --separate-stderr bash -o pipefail -c 'sc-sub "$1" --offset 1 | head -n 1' bash "$url"
	[[ $output == '[1,1]' && -z $stderr ]]
}

@test "TERM and INT end it with 128+n" {
	ten
	start sub sc-sub "$url" --cursor c --offset earliest
	wait_for lines sub.out 10
	stop sub TERM
	[[ $ended -eq 143 && $(<c) == 10 ]]
	start sub sc-sub "$url" --cursor c
	wait_for subscribers 1
	stop sub INT
	[[ $ended -eq 130 ]]
}

@test "a second signal ends it now" {
	ten
	stop_twice() {
		rm -f child
		start sub sc-sub "$url" --offset earliest --exec 'echo $$ >child; exec sleep 60'
		wait_for test -s child
		kill -TERM "$pid"
		wait_for subscribers 0 # the first one was taken; by itself it ends a second later
		stop sub TERM
		[[ $ended -eq 143 ]]
		kill "$(<child)" # the command was let be
	}
	quick 700000 stop_twice
}

@test "works without a standard input, and takes none" {
	ten
	run -0 bash -c 'sc-sub "$1" --offset 10 --until-end <&-' bash "$url"
	[[ $output == '[10,10]' ]]
	run -0 bash -c 'printf "a\nb\n" | { sc-sub "$1" --offset 10 --until-end >/dev/null; cat; }' bash "$url"
	[[ $output == $'a\nb' ]]
}
