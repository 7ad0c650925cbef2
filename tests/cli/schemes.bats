# Where a client says ws:// or http:// to a port that speaks TLS, or wss:// or https:// to one that speaks none: it says what to
# write, at once where the answer shows it (our servers, and others that tell) and with each try where it may be so. All clients.

load ../lib/common

setup() {
	sc_setup
	self_signed cert
}

teardown() { sc_teardown; }

# wrong URL WORDS CLIENT...: CLIENT, called with URL behind its arguments, ends at once with 69 and these words, and with what to write.
wrong() {
	run -69 --separate-stderr timeout 60 "${@:3}" "$1" </dev/null
	[[ -z $output ]]
	[[ $stderr == "$3: $2" ]]
}

# both_wrong PATH CLIENT...: to the ports $plain and $secure; $ws and $wss are the schemes.
both_wrong() {
	wrong "$ws://localhost:$secure$1" "cannot talk to server 'localhost:$secure': it speaks TLS; write the URL with $wss://" "${@:2}"
	wrong "$wss://localhost:$plain$1" \
		"cannot set up TLS with server 'localhost:$plain': it speaks no TLS; write the URL with $ws://" "${@:2}"
}

@test "streams of sc-serve: sc-capture, sc-sub, sc-pub" {
	needs sc-serve sc-log sc-capture sc-sub sc-pub
	sc-log create t
	serve plain --publish t
	plain=$port
	serve secure --publish --cert cert.pem --key cert.key t
	secure=$port
	for ws in ws http; do
		wss=${ws}s
		both_wrong /t sc-capture --ca cert.pem
		both_wrong /t sc-sub --ca cert.pem
		both_wrong /t sc-pub --ca cert.pem
	done
	# what is right still is
	run -0 sc-sub --until-end --offset earliest "ws://localhost:$plain/t"
	run -0 sc-sub --until-end --offset earliest --ca cert.pem "wss://localhost:$secure/t"
	# whoever speaks to the port reads it
	run -0 curl -s -m 20 "http://localhost:$secure/t"
	[[ $output == 'this port speaks TLS: write the URL with https:// or wss://' ]]
	run -69 --separate-stderr sc-sub --json "ws://localhost:$secure/t"
	jq -e '.error == "unavailable" and .next == "write the URL with wss://"' <<<"$stderr"
}

@test "streams of sc-streams: sc-sub, sc-pub" {
	needs sc-streams sc-sub sc-pub
	ready plain sc-streams --listen 127.0.0.1:0 one
	plain=$port
	ready secure sc-streams --listen 127.0.0.1:0 --cert cert.pem --key cert.key two
	secure=$port ws=http wss=https
	both_wrong /v1/stream/t sc-sub --ca cert.pem
	both_wrong /v1/stream/t sc-pub --ca cert.pem
	both_wrong /v1/stream/t sc-pub --ca cert.pem --create application/json
	run -0 curl -s -m 20 -i "http://localhost:$secure/v1/stream/t"
	[[ $output == 'HTTP/1.1 400 Bad Request'* && ${lines[-1]} == *'this port speaks TLS: write the URL with https:// or wss://'* ]]
	# TLS gets its answer before the time for a head is over
	run -35 curl -s -m 20 "https://localhost:$plain/v1/stream/t"
}

@test "sc-broker: sc-node" {
	needs sc-broker sc-node
	ready plain sc-broker --listen 127.0.0.1:0 --no-state
	plain=$port
	ready secure sc-broker --listen 127.0.0.1:0 --no-state --tls-cert cert.pem --tls-key cert.key
	secure=$port ws=ws wss=wss
	both_wrong / sc-node pub c s 1 --ca cert.pem --url
	both_wrong / sc-node sub c --ca cert.pem --url
}

@test "a TLS server that says nothing to plain text: a hint with each try" {
	needs sc-capture sc-sub sc-pub sc-node
	hold server
	start server openssl s_server -accept 127.0.0.1:0 -cert cert.pem -key cert.key
	wait_for has server.out 'ACCEPT 127.0.0.1:'
	port=$(sed -n 's/^ACCEPT 127.0.0.1://p' server.out)
	for client in sc-capture sc-sub sc-pub; do
		run -69 --separate-stderr timeout 60 "$client" "ws://localhost:$port/t" --retry 1 --retry-wait 10ms </dev/null
		[[ ${#stderr_lines[@]} -eq 2 && ${stderr_lines[0]} == *'; trying again in '* ]]
		for line in "${stderr_lines[@]}"; do
			[[ $line == *'; if it speaks TLS, write the URL with wss://'* ]]
		done
	done
	# its tries are not spent unless it is told to try again
	run -69 --separate-stderr timeout 60 sc-node sub c --url "ws://localhost:$port"
	[[ $stderr == *'; if it speaks TLS, write the URL with wss://' ]]
	for client in sc-sub sc-pub; do
		run -69 --separate-stderr timeout 60 "$client" "http://localhost:$port/v1/stream/t" --retry 1 --retry-wait 10ms </dev/null
		[[ ${stderr_lines[0]} == *'; if it speaks TLS, write the URL with https://; trying again in '* ]]
		[[ ${stderr_lines[-1]} == *'; if it speaks TLS, write the URL with https://' ]]
	done
}
