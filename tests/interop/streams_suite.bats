# sc-streams and the official Durable Streams packages: their suite (338 tests, none left out), their client, and their reference
# server, on which our own tests of the protocol must find what is known to be at fault there.
# run: limit 600

load ../lib/common

setup() {
	sc_setup
	packages=$SC_INTEROP/durable
	PATH=$packages/bin:$PATH
}

teardown() { sc_teardown; }

# serve_streams OPTION...: sc-streams on a free port; sets DS_URL.
serve_streams() {
	ready server sc-streams data/streams --listen 127.0.0.1:0 --long-poll 500ms "$@" || return 1
	DS_URL=http://127.0.0.1:$port
	export DS_URL
}

# suite LIMIT: run the suite against DS_URL; its report is report.json, its words suite.log.
suite() {
	(cd "$packages" && DS_SUBSCRIPTIONS=1 timeout "$1" node_modules/.bin/vitest run --reporter=dot --reporter=json \
		--outputFile="$BATS_TEST_TMPDIR/report.json") >suite.log 2>&1 3>&-
}

# What did not pass, and why.
not_passed() {
	jq -r '.testResults[].assertionResults[] | select(.status != "passed") |
		"\(.status): \(.fullName): \(.failureMessages[0] // "" | split("\n")[0])"' report.json
}

@test "the official suite: 338 passed, 0 failed, 0 skipped, in under two minutes" {
	serve_streams --subscriptions
	began=$SECONDS
	if ! suite 120; then
		if [[ -s report.json ]]; then not_passed; else tail -20 suite.log; fi
	fi
	took=$((SECONDS - began))
	run jq -r '"\(.numTotalTests) \(.numPassedTests) \(.numFailedTests) \(.numPendingTests) \(.numTodoTests) \(.success)"' report.json
	[ "$output" = "338 338 0 0 0 true" ]
	[ "$took" -lt 120 ]
	stop server
	[ "$ended" -eq 0 ]
}

@test "the official client reads all that is there: JSON, bytes, text" {
	serve_streams
	run timeout 60 node "$packages/client.mjs" catch-up
	[ "$status" -eq 0 ]
	[ "$output" = good ]
}

@test "the official client produces, and follows by long-poll to the end of the stream: JSON, bytes" {
	serve_streams
	run timeout 100 node "$packages/client.mjs" long-poll
	[ "$status" -eq 0 ]
	[ "$output" = good ]
}

@test "the official client produces, and follows server-sent events to the end of the stream: JSON, text, bytes" {
	serve_streams
	run timeout 100 node "$packages/client.mjs" sse
	[ "$status" -eq 0 ]
	[ "$output" = good ]
}

@test "the official client's idempotent producer: lost answers, nothing twice; a former one is fenced off" {
	serve_streams
	run timeout 100 node "$packages/client.mjs" produce
	[ "$status" -eq 0 ]
	[ "$output" = good ]
}

@test "our tests of the protocol fail on the official reference server where it is at fault, and pass elsewhere" {
	run env SC_STREAMS_REFERENCE=1 timeout 230 python3 -B "$SC_TESTS/streams/protocol.py"
	echo "$output" | grep -v '^ok'
	[ "$status" -eq 0 ]
	[ "$(grep -c 'fails as it must' <<<"$output")" -ge 50 ]
}
