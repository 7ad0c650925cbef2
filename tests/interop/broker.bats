# Other people's programs are nodes of sc-broker: python websockets with msgpack, byte for byte and in both orders, and the
# published wsmsg client. The cases are in broker_cases.py and wsmsg_client.py.

load ../lib/common
load interop

setup() {
	needs sc-broker
	sc_setup
}

teardown() { sc_teardown; }

# broker [OPTION...]: on a free port, with nothing kept
broker() {
	ready broker sc-broker --listen 127.0.0.1:0 --no-state "$@" || return 1
	url=ws://127.0.0.1:$port
}

# plays CASE [ARG...]: against it; it must still be there afterwards, and end well
plays() {
	"$SC_INTEROP/venv/bin/python" "$SC_TESTS/interop/broker_cases.py" "$url" "$@"
	curl -s -m 10 "http${url#ws}/healthz" | grep -q '"ok"'
	stop broker
	[ "$ended" -eq 0 ]
}

# published CASE
published() {
	PYTHONPATH=$SC_INTEROP/wsmsg "$SC_INTEROP/venv/bin/python" "$SC_TESTS/interop/wsmsg_client.py" 127.0.0.1 "$port" "$1"
	stop broker
	[ "$ended" -eq 0 ]
}

@test "a task queue: nodes of an endpoint share, in rotation; what a lost node held is gone" {
	broker
	plays task_queue
}

@test "fan-out: each endpoint gets a copy, also while it has no node" {
	broker
	plays fan_out
}

@test "direct delivery: one copy, however many subscriptions match" {
	broker
	plays direct_delivery
}

@test "request and reply, by subjects" {
	broker
	plays rpc_by_subject
}

@test "request and reply, by reference" {
	broker
	plays rpc_by_reference
}

@test "the example bytes, document order" {
	broker
	plays bytes_document
}

@test "the example bytes, reference order" {
	broker
	plays bytes_reference
}

@test "malformed messages close with 1007 and the reason" {
	broker
	plays bytes_malformed
}

@test "wrong fields are answered, and the connection stays" {
	broker
	plays bytes_wrong
}

@test "node.joined and node.left, to the byte" {
	broker
	plays bytes_event
}

@test "the order before a node's first message" {
	broker
	plays order_before_the_first_message D
	broker --order reference
	plays order_before_the_first_message R
}

@test "paths: one segment, percent-decoded, the query ignored; below the root" {
	broker
	plays paths
	broker --root /ws
	plays paths /ws
}

@test "x-wsmsg-node and the subprotocol" {
	broker
	plays handshake
}

@test "frames: pieces, text, the limit" {
	broker
	plays frames 1048576
	broker --max-message 300000
	plays frames 300000
}

@test "bearer tokens, from a file and from the environment; admin tokens" {
	printf '# comment\n\nfirst\nsecret\n' >tokens
	printf 'chief\n' >admins
	broker --token-file tokens
	plays tokens secret
	SC_TOKEN=other broker
	plays tokens other
	broker --token-file tokens --admin-token-file admins
	plays tokens chief
	broker --token-file tokens --admin-token-file admins
	plays admin secret chief
}

@test "the ack timeout, and plain acks" {
	broker --ack-timeout 200ms
	plays ack_timeout
	broker --plain-acks
	plays plain_acks
}

@test "stop: notice, a second, 1001; what was pending is there after the start" {
	ready broker sc-broker --listen 127.0.0.1:0 --state s
	url=ws://127.0.0.1:$port
	"$SC_INTEROP/venv/bin/python" "$SC_TESTS/interop/broker_cases.py" "$url" stop
	await broker
	[ "$ended" -eq 0 ]
	[ "$(stat -c %a s)" = 600 ]
	ready broker sc-broker --listen 127.0.0.1:0 --state s
	url=ws://127.0.0.1:$port
	[ ! -e s ]
	"$SC_INTEROP/venv/bin/python" "$SC_TESTS/interop/broker_cases.py" "$url" restored
}

@test "the published client publishes and subscribes" {
	broker
	published publish_subscribe
}

@test "published clients share work" {
	broker
	published task_queue
}

@test "the published client requests" {
	broker
	published request
}

@test "all of it over TLS and over a unix socket" {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
		-addext "subjectAltName=DNS:localhost,IP:127.0.0.1" -keyout key -out cert 2>/dev/null
	broker --tls-cert cert --tls-key key --listen unix:sock
	url=wss://127.0.0.1:$port
	SSL_CERT_FILE=cert "$SC_INTEROP/venv/bin/python" "$SC_TESTS/interop/broker_cases.py" "$url" fan_out
	curl -s -m 10 --cacert cert --unix-socket sock "https://localhost/stats" | jq -e '.nodes == 0 and .delivered == 11'
}

# Lock-step, so that nothing is done in one: epoll_wait, recvfrom, an ack and the delivery; epoll_wait, recvfrom of its ack.
@test "a message in and out, with its acks, costs six system calls" {
	ready broker env ASAN_OPTIONS=detect_leaks=0 strace -f -c -o calls sc-broker --listen 127.0.0.1:0 --no-state
	"$SC_BUILD/bench/msgbench" one --port "$port" --secs 1 --warmup 0 >result
	kill "$(jq .pid broker.ready)"
	await broker
	read -r calls < <(awk '$NF == "total" { print $4 }' calls)
	count=$(jq .count result)
	[[ $count -ge 100 && $calls -le $((6 * count + count / 20 + 400)) ]]
}
