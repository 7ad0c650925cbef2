# The programs piped to each other: what one writes any other reads; readers that leave, writers that end, statuses in a
# pipeline, descriptors that are closed.

load ../lib/common

setup() {
	needs sc-log sc-serve sc-sub sc-capture
	sc_setup
	sc-log create rows
	printf '%s\n' '{"p":0.10}' '18446744073709551615' '"\/ \u00e9"' '{"a":1,"a":2, "b" : [ ]}' '-0' '1E+2' | sc-log append --quiet rows
}

teardown() { sc_teardown; }

subscribers() {
	[[ $(curl -s "http://127.0.0.1:$port/stats" | jq '.streams | map(.subscribers) | add') -eq $1 ]]
}

@test "sc-capture | sc-log append: the feed's messages, byte for byte" {
	sc-log read rows --payload >want
	start feed "$SC_TESTS/cli/peer.py" file want
	wait_for test -s feed.out
	sc-log create copy
	run -0 bash -o pipefail -c 'sc-capture "$1" --count 6 | sc-log append copy' bash "ws://127.0.0.1:$(<feed.out)/"
	[[ $output == "$(sc-log read rows)" ]] # append's lines are those of a log
	same want <(sc-log read copy --payload)
}

@test "sc-sub | sc-log append --mirror: the same lines, the same hash" {
	serve server rows
	sc-log create copy
	run -0 bash -o pipefail -c 'sc-sub "$1" --offset earliest --until-end | sc-log append --quiet --mirror copy' bash "$url/rows"
	same <(sc-log read rows) <(sc-log read copy)
	[[ $(sc-log verify rows | cut -d ' ' -f 1) == $(sc-log verify copy | cut -d ' ' -f 1) ]]
}

@test "sc-sub | sc-log append --source: ended and begun again, no row twice" {
	serve server rows
	sc-log create copy
	run -0 bash -o pipefail -c 'sc-sub "$1" --offset earliest --to 4 | sc-log append --quiet --source rows copy' bash "$url/rows"
	[[ $(sc-log source copy rows) -eq 4 ]]
	run -0 bash -o pipefail -c 'sc-sub "$1" --offset 2 --until-end | sc-log append --quiet --source rows copy' bash "$url/rows"
	same <(sc-log read rows) <(sc-log read copy)
}

@test "the issue's chain of --after: on an empty source it begins at the first row" {
	serve server rows
	sc-log create copy
	run -0 bash -o pipefail -c 'sc-sub --after "$(sc-log source copy rows)" "$1" --until-end | sc-log append --quiet --source rows copy' bash "$url/rows"
	same <(sc-log read rows) <(sc-log read copy)
	run -0 bash -o pipefail -c 'sc-sub --after "$(sc-log source copy rows)" "$1" --until-end | sc-log append --source rows copy' bash "$url/rows"
	[[ -z $output ]]
}

@test "sc-log read --follow | sc-serve NAME=-: a log as a stream that is not kept" {
	hold unused
	sc-log read rows --follow >lines &
	sc_pids[follower]=$!
	wait_for lines lines 6
	mkfifo server.in
	(sc_let_go; exec sc-log read rows --from 7 --follow) >server.in 2>follow.err 3>&- &
	sc_pids[reader]=$!
	serve server live=-
	start sub sc-sub "$url/live" --count 2
	wait_for subscribers 1
	printf '{"x":1.0}\n2\n' | sc-log append --quiet rows
	await sub
	[[ $(cat sub.out) == $'[null,{"x":1.0}]\n[null,2]' ]]
	wait_for lines lines 8
	stop reader
	await server # the end of its input is its end
	[[ $ended -eq 0 ]]
}

@test "sc-capture from sc-serve: any WebSocket is a feed" {
	serve server rows
	run -0 sc-capture "$url/rows?offset=1" --count 7 --map 'if type == "array" then .[1] else empty end'
	[[ $output == "$(sc-log read rows --payload)" ]]
}

@test "jq between them: lines in, lines out" {
	serve server rows
	run -0 bash -o pipefail -c 'sc-sub "$1" --offset 1 --to 1 | jq -c "[.[0], {twice: (.[1].p * 2)}]" | sc-log append --source rows rows' bash "$url/rows"
	[[ $output == '[7,{"twice":0.2}]' ]]
}

@test "head leaves: each program ends quietly, with status 0" {
	serve server rows
	start feed "$SC_TESTS/cli/peer.py" text 1 text 2
	wait_for test -s feed.out
	for command in "sc-log read rows" "sc-log read rows --follow" "sc-sub $url/rows --offset 1" "sc-capture ws://127.0.0.1:$(<feed.out)/"; do
		run -0 --separate-stderr bash -o pipefail -c "$command | head -n 1"
		[[ ${#lines[@]} -eq 1 && -z $stderr ]]
	done
}

@test "a reader that leaves while nothing flows ends them too" {
	serve server rows
	start feed "$SC_TESTS/cli/peer.py" text 1
	wait_for test -s feed.out
	for command in "sc-log read rows --from 7 --follow" "sc-sub $url/rows" "sc-capture ws://127.0.0.1:$(<feed.out)/ --map empty"; do
		mkfifo pipe
		start quiet bash -c "exec $command >pipe"
		exec 5<pipe
		exec 5<&-
		await quiet
		[[ $ended -eq 0 && ! -s quiet.err ]]
		rm pipe
	done
}

@test "the end of a pipeline refuses a row: its status is the pipeline's, what came before is stored" {
	sc-log create typed --schema "$SC_DATA/trades.schema.json"
	start feed "$SC_TESTS/cli/peer.py" text '{"event_ts":1,"price":2,"side":null}' text '{"event_ts":2,"price":"x","side":null}'
	wait_for test -s feed.out
	run -65 --separate-stderr bash -o pipefail -c 'sc-capture "$1" | sc-log append --quiet typed' bash "ws://127.0.0.1:$(<feed.out)/"
	[[ $stderr == 'sc-log: '*price* ]]
	[[ $(sc-log read typed) == '[1,{"event_ts":1,"price":2,"side":null}]' ]]
}

@test "the beginning of a pipeline fails: its status is the pipeline's, and nothing is stored" {
	sc-log create copy
	run -69 bash -o pipefail -c 'sc-sub "$1" --retry 0 | sc-log append copy' bash "ws://127.0.0.1:$(free_port)/t"
	[[ $(sc-log read copy | wc -l) -eq 0 ]]
}

@test "standard output is closed, standard input is closed: words, and a status" {
	serve server rows
	run -74 --separate-stderr bash -c 'sc-sub "$1" --offset 1 --until-end >&-' bash "$url/rows"
	[[ $stderr == 'sc-sub: cannot write to '* ]]
	run -74 --separate-stderr bash -c 'sc-log read rows >&-'
	run -0 bash -c 'sc-log read rows <&-'
	run -74 bash -c 'sc-log append rows <&-'
}

@test "two at once on one log: both are right" {
	sc-log create both
	seq 1 2000 | sed 's/.*/{"a":&}/' | sc-log append --quiet --batch-rows 10 both 3>&- &
	one=$!
	seq 1 2000 | sed 's/.*/{"b":&}/' | sc-log append --quiet --batch-rows 10 both 3>&- &
	two=$!
	wait $one
	wait $two
	[[ $(sc-log read both | wc -l) -eq 4000 ]]
	same <(sc-log read both | sed 's/^\[\([0-9]*\),.*/\1/') <(seq 1 4000)
	same <(sc-log read both --where .a --payload) <(seq 1 2000 | sed 's/.*/{"a":&}/')
	same <(sc-log read both --where .b --payload) <(seq 1 2000 | sed 's/.*/{"b":&}/')
}

@test "the service's script: a stop stores what was received" {
	sc-log create log
	printf '%s\n' 1 2 3 >want
	start feed "$SC_TESTS/cli/peer.py" file want
	wait_for test -s feed.out
	URL=ws://127.0.0.1:$(<feed.out)/ start service "$SC_ROOT/examples/systemd/capture-into" log
	wait_for sh -c '[ "$(sc-log read log | wc -l)" -eq 3 ]'
	stop service TERM
	[[ $ended -eq 0 ]]
	same want <(sc-log read log --payload)
	jq -es '.[0].event == "connected"' log.events
	URL=ws://127.0.0.1:1/ SC_CAPTURE_OPTIONS='--retry 0' run -69 "$SC_ROOT/examples/systemd/capture-into" log
}
