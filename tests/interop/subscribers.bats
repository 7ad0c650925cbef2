# Plain WebSocket clients of other people subscribe to sc-serve: python websockets, npm ws, wscat, and a browser (both
# WebSocket and server-sent events). All must get the lines of the log, byte for byte.

load ../lib/common
load interop

rows_held=300

setup() {
	needs sc-log sc-serve
	sc_setup
	mkdir data
	sc-log create data/any
	# Any JSON: what careless programs re-spell must come through as it is.
	{
		rows 1 294
		cat <<'P'
{"big":18446744073709551615,"tiny":1e-300,"one":1.0,"exp":1E+2,"zero":-0}
["\/","\u00e9","𝄞","\ud834\udd1e","\u0000",""]
{"a":1,"a":2, "b" : [ ] }
"text"
null
12345678901234567890123456789.0
P
	} | sc-log append --quiet data/any
	sc-log read data/any >want
	[ "$(wc -l <want)" -eq "$rows_held" ]
}

teardown() { sc_teardown; }

@test "python websockets gets the log's lines" {
	serve server data/any
	"${python_new[@]}" "$SC_TESTS/interop/wsclient.py" --count "$rows_held" --greeting greeting \
		"$url/any?offset=0" >got
	same want got
	[ "$(jq -c '[.streamcast, .stream, .end_offset, .replay, .durable]' greeting)" = \
		"[1,\"any\",$((rows_held + 1)),[1,$((rows_held + 1))],true]" ]
	[ "$(jq -r 'keys_unsorted[-1]' greeting)" = stream_id ]
}

@test "python websockets gets the log's lines with permessage-deflate" {
	serve server --compress data/any
	"${python_new[@]}" "$SC_TESTS/interop/wsclient.py" --compress --count "$rows_held" "$url/any?offset=0" >got
	same want got
}

@test "npm ws gets the log's lines" {
	serve server data/any
	node "$SC_TESTS/interop/wsclient.js" "$url/any?offset=0" "$rows_held" >got
	same want got
}

@test "npm ws gets the log's lines with permessage-deflate" {
	serve server --compress data/any
	node "$SC_TESTS/interop/wsclient.js" "$url/any?offset=0" "$rows_held" --compress >got
	same want got
}

@test "wscat gets the log's lines" {
	serve server data/any
	hold wscat
	start wscat "$SC_INTEROP/node/node_modules/.bin/wscat" --no-color --connect "$url/any?offset=0"
	wait_for lines wscat.out $((rows_held + 1))
	sed 1d wscat.out >got
	same want got
	rows 1 1 | sc-log append data/any >appended
	wait_for lines wscat.out $((rows_held + 2))
	tail -1 wscat.out >got
	same appended got
}

@test "wscat tells its user why it is refused" {
	serve server data/any
	# It speaks of the close on a terminal only.
	hold wscat
	start wscat timeout 60 script -qec "$SC_INTEROP/node/node_modules/.bin/wscat --no-color -c $url/none" /dev/null
	await wscat
	grep -F 'code: 4404' wscat.out
	grep -F '"serves":["any"]' wscat.out
}

@test "a browser gets the log's lines over WebSocket" {
	serve server data/any
	node "$SC_TESTS/interop/browser.js" ws "$url/any?offset=0" "$rows_held" >got
	same want got
}

@test "a browser gets the log's lines as server-sent events" {
	serve server data/any
	node "$SC_TESTS/interop/browser.js" sse "http://127.0.0.1:$port/any?offset=0" "$rows_held" >got
	same want got
}

@test "a browser from a page that is not on the list is refused" {
	serve server --origin https://app.example data/any
	run -1 node "$SC_TESTS/interop/browser.js" ws "$url/any?offset=0" 1
	run -0 "${python_new[@]}" "$SC_TESTS/interop/wsclient.py" --origin https://app.example --count 1 \
		"$url/any?offset=0"
}

@test "curl reads the log as server-sent events" {
	serve server data/any
	start curl curl -sN "http://127.0.0.1:$port/any?offset=0"
	wait_for sc_events "$rows_held"
	sed -n 's/^data: \(\[.*\)/\1/p' curl.out | head -n "$rows_held" >got
	same want got
}

sc_events() {
	[[ $(grep -c '^data: \[' curl.out) -ge $1 ]]
}

@test "all at once, while rows are appended, get the same bytes" {
	serve server data/any
	start python "${python_new[@]}" "$SC_TESTS/interop/wsclient.py" --count 5300 "$url/any?offset=0"
	start node node "$SC_TESTS/interop/wsclient.js" "$url/any?offset=0" 5300
	start browser node "$SC_TESTS/interop/browser.js" ws "$url/any?offset=0" 5300
	start sub sc-sub --offset earliest --count 5300 "$url/any"
	for batch in 1 2 3 4 5; do
		rows 1 1000 | sc-log append --quiet --batch-rows 7 data/any
	done
	sc-log read data/any >want
	for name in python node browser sub; do
		await "$name"
		[ "$ended" -eq 0 ]
		same want "$name.out"
	done
}
