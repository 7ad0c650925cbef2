# sc-broker: options and their words, addresses, the ready notice, tokens, pages, the state file, signals. What nodes get is in
# sc-node.bats, tests/unit/msg and tests/interop/broker.bats.

load ../lib/common

setup() {
	needs sc-broker sc-node
	sc_setup
	export HOME=$PWD/home XDG_STATE_HOME=
	mkdir home
}

teardown() { sc_teardown; }

usage() {
	local status=$1 words=$2

	shift 2
	run "-$status" --separate-stderr timeout 60 sc-broker "$@" </dev/null
	[[ -z $output ]]
	[[ $stderr == "sc-broker: $words" ]]
}

# broker [OPTION...]: on a free port
broker() {
	ready broker sc-broker --listen 127.0.0.1:0 "$@" || return 1
	url=ws://127.0.0.1:$port
	export SC_BROKER_URL=$url
}

# get PATH [CURL OPTION...]: body in $output, status as the last line
get() {
	local path=$1

	shift
	run -0 curl -s -m 10 -w '\n%{http_code}' "$@" "http://127.0.0.1:$port$path"
	code=${lines[-1]}
}

# upgrade PATH [CURL OPTION...]: the status of a WebSocket request in $code, its head in head
upgrade() {
	local path=$1

	shift
	code=$(curl -s -m 10 -o body -D head -w '%{http_code}' --no-buffer -H 'Connection: Upgrade' -H 'Upgrade: websocket' \
		-H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==' "$@" "http://127.0.0.1:$port$path") || :
}

# free_port: one that nobody has now
free_port() {
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

@test "--help and --version" {
	run -0 --separate-stderr sc-broker --help
	[[ $output == 'Usage: sc-broker [OPTION]...'* && -z $stderr ]]
	run -0 sc-broker --version
	[[ $output == 'sc-broker '[0-9]*.[0-9]*.[0-9]* ]]
	run -74 bash -c 'sc-broker --help >/dev/full'
}

@test "the command line: what is wrong and what to do" {
	usage 64 "cannot start: there is no option --lisen; did you mean --listen?" --lisen x
	usage 64 "cannot speak TLS: --tls-key is missing; give both --tls-cert and --tls-key" --tls-cert x
	usage 64 "cannot speak TLS: --tls-cert is missing; give both --tls-cert and --tls-key" --key x
	usage 64 "cannot use --client-ca: there is no TLS without --tls-cert and --tls-key; give a certificate of the server's own, or leave out --client-ca" \
		--client-ca x
	usage 64 "cannot use --root: 'x' is no path; give one that begins with '/', without '?', '#' and '%'" --root x
	usage 64 "cannot keep the state: --state and --no-state are both given; leave out one of them" --state x --no-state
	usage 64 "cannot start: --queue-size takes a number from 1 to 1000000, not '0'; see 'sc-broker --help'" --queue-size 0
	usage 64 "cannot start: --order takes document or reference, not 'x'; see 'sc-broker --help'" --order x
	run -64 --separate-stderr sc-broker operand
}

@test "without a token only this machine may connect" {
	local words="cannot listen: without a token, other machines may not connect; give --token-file, or --no-auth to let everybody in"

	usage 64 "$words" --listen 0.0.0.0:0
	usage 64 "$words" --listen 127.0.0.1:0 --listen '*:0'
	ready broker sc-broker --listen 0.0.0.0:0 --no-auth
	echo token >tokens
	ready broker sc-broker --listen 0.0.0.0:0 --token-file tokens
	SC_TOKEN=token ready broker sc-broker --listen 0.0.0.0:0
	ready broker sc-broker --listen 127.0.0.2:0 --listen unix:sock
	if [[ -e /proc/net/if_inet6 ]] && grep -q lo /proc/net/if_inet6; then
		ready broker sc-broker --listen '[::1]:0'
	fi
}

@test "addresses that cannot be had: 78, 69" {
	run -78 --separate-stderr timeout 60 sc-broker --listen 127.0.0.1:x
	[[ $stderr == *"127.0.0.1:x"* ]]
	broker
	run -69 --separate-stderr timeout 60 sc-broker --listen "127.0.0.1:$port"
	[[ $stderr == *"127.0.0.1:$port"* ]]
}

@test "the ready notice names the real port, in words and on --ready-fd" {
	broker
	jq -e --argjson port "$port" '.event == "ready" and .pid > 0 and .port == $port and
		.addresses == ["127.0.0.1:\($port)"]' broker.ready
	grep -q "listening on 127.0.0.1:$port" broker.err
	ready broker sc-broker --json --listen 127.0.0.1:0
	jq -e --argjson port "$port" 'select(.level == "notice") | .port == $port' broker.err
}

@test "pages: health, statistics, metrics; 426 and 404; an endpoint may be called metrics" {
	broker
	get /healthz
	[[ ${lines[0]} == '{"status":"ok"}' && $code == 200 ]]
	sc-node pub c s 1
	get /stats
	[[ $code == 200 ]]
	jq -e '.received >= 1 and .unrouted == 1 and .per_endpoint == {}' <<<"${lines[0]}"
	get /metrics
	[[ $output == *$'\nsc_broker_unrouted_total 1\n'* && $code == 200 ]]
	# every metric has its help and type, once
	[[ -z $(curl -s -m 10 "http://127.0.0.1:$port/metrics" | sed -n 's/^# TYPE \([a-z_]*\) .*/\1/p' | sort | uniq -d) ]]
	get /name
	[[ $code == 426 ]]
	get /a/b
	[[ $code == 404 ]]
	get / -X POST -d x
	[[ $code == 405 ]]
	start sub sc-node sub c --endpoint metrics
	wait_for subscribed metrics
	sc-node pub c s '"é"'
	wait_for has sub.out é
	get /metrics
	[[ $output == *'sc_broker_endpoint_nodes{endpoint="metrics"} 1'* ]]
}

@test "metrics stay readable whatever endpoints are called" {
	broker
	sc-node ctl endpoint create $'a\tb\x01\\"é\nc'
	get /metrics
	[[ $output == *$'sc_broker_endpoint_nodes{endpoint="a\tb\x01\\\\\\"é\\nc"} 0\n'* ]]
	# a value has no escapes but these three
	[[ -z $(sed -n 's/.*{endpoint="\(.*\)"} .*/\1/p' <<<"$output" | sed 's/\\["n\\]//g' | grep -F '\') ]]
}

subscribed() {
	curl -s -m 10 "http://127.0.0.1:$port/stats" | jq -e --arg name "$1" '.subscriptions >= 1 and .per_endpoint[$name].nodes == 1'
}

@test "tokens: 401 in front of everything else; the file may change; one that cannot be used leaves the old ones" {
	printf 'one\n' >tokens
	broker --token-file tokens
	get /healthz
	[[ $code == 200 ]]
	get /stats
	[[ $code == 401 ]]
	get /stats -H 'Authorization: Bearer one'
	[[ $code == 200 ]]
	upgrade /a/b
	[[ $code == 401 ]]
	grep -qi '^HTTP/1.1 401' head
	grep -qi '^www-authenticate: Bearer.$' head
	grep -qi '^content-length: 0.$' head
	upgrade /a/b -H 'Authorization: Bearer two'
	grep -qi '^www-authenticate: Bearer error="invalid_token".$' head
	upgrade /a/b -H 'Authorization: Bearer one'
	[[ $code == 404 ]]
	printf 'two\n' >new
	mv new tokens
	get /stats -H 'Authorization: Bearer two'
	[[ $code == 200 ]]
	get /stats -H 'Authorization: Bearer one'
	[[ $code == 401 ]]
	: >new
	mv new tokens
	get /stats -H 'Authorization: Bearer two'
	[[ $code == 200 ]]
	wait_for has broker.err 'no token in the file'
	run -0 cat broker.err
	[[ $output != *'Bearer'* ]]
}

@test "token files that cannot be used: 66, 78" {
	run -66 --separate-stderr sc-broker --token-file none
	printf 'a b c\n' >tokens
	run -78 --separate-stderr sc-broker --token-file tokens
	run -78 --separate-stderr env SC_TOKEN='a b' sc-broker
	[[ $stderr == "sc-broker: cannot use token of 'SC_TOKEN': a token is made of printable ASCII characters" ]]
}

@test "origins, and as many nodes as there may be" {
	broker --origin https://good.example --max-nodes 1
	upgrade /a -H 'Origin: https://bad.example'
	[[ $code == 403 ]]
	start sub sc-node sub c --endpoint e
	wait_for subscribed e
	upgrade /a
	[[ $code == 503 ]]
}

@test "TLS, under both names of the options; a unix socket" {
	self_signed cert
	broker --cert cert.pem --key cert.key --listen unix:sock
	[[ $(curl -s -m 10 --cacert cert.pem "https://localhost:$port/healthz") == '{"status":"ok"}' ]]
	broker --tls-cert cert.pem --tls-key cert.key
	[[ $(curl -s -m 10 --cacert cert.pem "https://localhost:$port/healthz") == '{"status":"ok"}' ]]
	broker --listen unix:sock
	[[ $(curl -s -m 10 --unix-socket sock http://x/healthz) == '{"status":"ok"}' ]]
	stop broker
	[[ ! -e sock && $ended -eq 0 ]]
}

@test "the state: kept from stop to start, at the usual place, and gone while it runs" {
	local state where=$PWD/xdg/wsmsg port

	port=$(free_port)
	export XDG_STATE_HOME=$PWD/xdg SC_BROKER_URL=ws://127.0.0.1:$port
	state=$where/$port.state
	ready broker sc-broker --listen "127.0.0.1:$port"
	[[ -d $where && ! -e $state ]]
	sc-node ctl subscribe e c
	sc-node pub c s '{"n":1}'
	sc-node pub c s '{"n":2}'
	stop broker
	[[ $ended -eq 0 && $(stat -c %a "$state") == 600 ]]
	ready broker sc-broker --listen "127.0.0.1:$port"
	[[ ! -e $state ]]
	has broker.err "2 messages and 1 subscription from '$state'"
	run -0 sc-node sub c --endpoint e --count 2 --format data
	[[ $output == $'{"n":1}\n{"n":2}' ]]
	# a crash brings nothing back
	sc-node pub c s 3
	stop broker KILL
	ready broker sc-broker --listen "127.0.0.1:$port"
	get /stats
	jq -e '.queued == 0' <<<"${lines[0]}"
	sc-node ctl subscribe e c
	sc-node ctl stop
	await broker
	[[ $ended -eq 0 && -s $state ]]
	unset XDG_STATE_HOME
	ready broker sc-broker --listen "127.0.0.1:$port"
	stop broker
	[[ -s home/.local/state/wsmsg/$port.state ]]
}

@test "a port that is taken does not cost the state" {
	ready broker sc-broker --listen 127.0.0.1:0 --state s
	SC_BROKER_URL=ws://127.0.0.1:$port sc-node ctl endpoint create kept
	stop broker
	cp s before
	broker --no-state
	run -69 timeout 60 sc-broker --listen "127.0.0.1:$port" --state s
	same before s
}

@test "a broker that cannot say that it is ready leaves the state as it was" {
	broker --state s
	sc-node ctl subscribe e c
	sc-node pub c s 1
	stop broker
	mkfifo gone
	: <gone &
	exec 7>gone
	wait $!
	run -74 timeout 60 sc-broker --listen 127.0.0.1:0 --state s --ready-fd 7
	exec 7>&-
	[[ -s s ]]
	broker --state s
	run -0 sc-node sub c --endpoint e --count 1 --format data
	[[ $output == 1 ]]
}

@test "two brokers do not write one state: 75 where it was named, a warning at the usual place" {
	local port where

	broker --state s
	usage 75 "cannot use state file 's': another broker will write it; name another with --state, or give --no-state" \
		--listen 127.0.0.1:0 --state s
	sc-node ctl endpoint create kept
	stop broker
	[[ -s s ]]
	port=$(free_port)
	where=home/.local/state/wsmsg/$port.state
	ready first sc-broker --listen "127.0.0.1:$port"
	ready second sc-broker --listen "127.0.0.2:$port"
	has second.err "cannot use state file '$PWD/$where': another broker will write it"
	has second.err 'messages that are not delivered when it stops will be lost'
	SC_BROKER_URL=ws://127.0.0.2:$port sc-node ctl endpoint create of-the-second
	SC_BROKER_URL=ws://127.0.0.1:$port sc-node ctl endpoint create of-the-first
	stop second
	[[ $ended -eq 0 && ! -e $where ]]
	stop first
	[[ $ended -eq 0 ]]
	grep -q of-the-first "$where"
	# killed, it is free for the next one
	ready first sc-broker --listen "127.0.0.1:$port"
	stop first KILL
	ready second sc-broker --listen "127.0.0.2:$port"
	! has second.err 'another broker'
}

@test "a state that cannot be used: 1, and the file stays; nor written: 1; a place that is none: 73" {
	echo rubbish >s
	usage 1 "cannot use state file 's': it is no state file; move it away to start without what it holds, or give --no-state" \
		--listen 127.0.0.1:0 --state s
	[[ $(<s) == rubbish ]]
	broker --state s2
	mkdir s2
	stop broker
	[[ $ended -eq 1 ]]
	grep -q "^sc-broker: cannot replace state file 's2': Is a directory" broker.err
	: >file
	run -73 --separate-stderr sc-broker --listen 127.0.0.1:0 --state file/s
	# the usual place need not be there
	: >home/.local
	ready broker sc-broker --listen "127.0.0.1:$(free_port)"
	has broker.err 'messages that are not delivered when it stops will be lost'
	stop broker
	[[ $ended -eq 0 ]]
	ready broker env -u HOME sc-broker --listen "127.0.0.1:$(free_port)"
	has broker.err 'neither XDG_STATE_HOME nor HOME says where; name a file with --state'
	has broker.err 'messages that are not delivered when it stops will be lost'
	stop broker
	[[ $ended -eq 0 ]]
	broker --no-state
	stop broker
	[[ $ended -eq 0 ]]
	! has broker.err warning
}

@test "signals: a second of notice where there are nodes, none where there are not; the second signal ends it at once" {
	without_nodes() {
		broker --no-state
		stop broker INT
		[[ $ended -eq 0 ]]
	}
	with_a_node() {
		rm -f s
		broker --state s
		start sub sc-node sub c --endpoint e
		wait_for subscribed e
		kill -TERM "${sc_pids[broker]}"
		stop broker INT # another one: two of a kind may become one
		[[ $ended -eq 0 && -s s ]]
	}
	quick 900000 without_nodes
	quick 900000 with_a_node
}

@test "--stats prints the counters as lines of JSON" {
	broker --stats 50ms --quiet
	lines_of_stats() { [[ $(grep -c '^{"uptime_s":' broker.err) -ge 3 ]]; }
	wait_for lines_of_stats
	stop broker
	grep '^{"uptime_s":' broker.err | jq -e '.nodes == 0 and has("lost_unacked")' >/dev/null
}

@test "queues: --queue-size drops the oldest, --max-memory refuses, --max-age forgets" {
	broker --queue-size 3
	sc-node ctl subscribe e c
	for n in 1 2 3 4 5; do sc-node pub c s "$n"; done
	run -0 sc-node sub c --endpoint e --count 3 --format data
	[[ $output == $'3\n4\n5' ]]
	broker --max-memory 4000
	sc-node ctl subscribe e c
	run -1 --separate-stderr sc-node pub c s "\"$(printf '%04000d' 0)\""
	[[ $stderr == *'(--max-memory) (limit)'* ]]
	until_refused() { for n in {1..20}; do sc-node ctl subscribe e "c$n" || return 1; done; }
	run -1 --separate-stderr until_refused
	[[ $stderr == *'(--max-memory) (limit)'* ]]
	sc-node ctl subscribe e c # it is there
	curl -s -m 10 "http://127.0.0.1:$port/stats" | jq -e '.memory_bytes <= 4000 and .subscriptions > 1' >/dev/null
	broker --max-age 100ms
	sc-node ctl subscribe e c
	sc-node pub c s 1
	dropped() { curl -s -m 10 "http://127.0.0.1:$port/stats" | jq -e '.dropped_age == 1 and .queued == 0'; }
	wait_for dropped
}

@test "endpoints without a node are forgotten after --endpoint-idle" {
	broker --endpoint-idle 200ms
	sc-node ctl subscribe e c
	forgotten() { curl -s -m 10 "http://127.0.0.1:$port/stats" | jq -e '.endpoints == 0 and .subscriptions == 0'; }
	wait_for forgotten
}
