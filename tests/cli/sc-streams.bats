# sc-streams: options and their words, the ready notice, verbs, tokens, logs, TLS, limits, signals, a full disk. What its protocol does is
# in tests/streams and tests/interop.

load ../lib/common

setup() {
	needs sc-streams
	sc_setup
}

teardown() {
	sc_teardown
	umount -l data 2>/dev/null || :
}

streams() { # NAME OPTION...
	local name=$1

	shift
	ready "$name" sc-streams data --listen 127.0.0.1:0 "$@" || return 1
	base=http://127.0.0.1:$port/v1/stream
}

# ask STATUS CURL-ARGUMENT...: the answer's body in $output, its head in the file head
ask() {
	local wanted=$1

	shift
	run -0 curl -s -m 20 -D head -o body -w '%{http_code}' "$@"
	[[ $output == "$wanted" ]] || {
		echo "$* gave $output, not $wanted: $(cat body)" >&2
		return 1
	}
	output=$(tr -d '\0' <body 2>/dev/null) || :
}

field() { # NAME: of the last answer
	tr -d '\r' <./head | sed -n "s/^$1: //ip"
}

put() { # PATH [CURL-ARGUMENT...]
	ask 201 -X PUT -H 'Content-Type: text/plain' "${@:2}" "$base/$1"
}

post() { # PATH TEXT
	ask 204 -X POST -H 'Content-Type: text/plain' --data-binary "$2" "$base/$1"
}

usage() { # STATUS WORDS ARGUMENT...
	run "-$1" --separate-stderr sc-streams "${@:3}" </dev/null
	[[ -z $output ]]
	[[ $stderr == "sc-streams: $2" ]]
}

@test "--help, of the whole and of a verb; --version" {
	run -0 --separate-stderr sc-streams --help
	[[ $output == 'Usage: sc-streams [OPTION]... DIR'* && $output == *'Verbs:'* && $output == *'--long-poll'* && -z $stderr ]]
	run -0 sc-streams trim --help
	[[ $output == 'Usage: sc-streams trim [OPTION]... DIR PATH OFFSET'* ]]
	run -0 sc-streams --version
	[[ $output == 'sc-streams '[0-9]*.[0-9]*.[0-9]* ]]
	run -74 bash -c 'sc-streams --help >/dev/full'
}

@test "the command line: what is wrong and what to do" {
	usage 64 "cannot start: DIR is missing; see 'sc-streams --help'"
	usage 64 "cannot start: there is nothing to do with 'b'; see 'sc-streams --help'" a b
	usage 64 "cannot start: there is no option --lisen; did you mean --listen?" --lisen x data
	usage 64 "cannot speak TLS: --key is missing; give both --cert and --key" --cert x data
	usage 64 "cannot speak TLS: --cert is missing; give both --cert and --key" --key x data
	usage 64 "cannot use --client-ca: there is no TLS without --cert and --key; give a certificate of the server's own, or leave out --client-ca" \
		--client-ca x data
	usage 64 "cannot serve prefix 'v1/': a prefix begins and ends with '/'; write it as in /v1/stream/" --listen :0 --prefix v1/ data
	usage 64 "cannot serve CORS origin 'https://a.example, https://b.example': it is not one origin; write it as in https://app.example.com, or take * for all" \
		--listen :0 --cors 'https://a.example, https://b.example' data
	run -64 --separate-stderr sc-streams --listen :0 --cors $'https://a.example\r\nX: y' data
	usage 64 "cannot serve: --cors names no origin; name one, * for all, or none" --listen :0 --cors '' data
	usage 64 "cannot serve log 'rows': it is not NAME=LOG; name the stream that the log becomes: trades=data/trades" --listen :0 --log rows data
	for name in '' 'a b' 'a?b' __ds __ds/x; do
		usage 64 "cannot serve log '$name=rows': no stream can have this name; name the stream that the log becomes: trades=data/trades" \
			--listen :0 --log "$name=rows" data
	done
	usage 64 "cannot trim: '5' is not an offset of a stream; give one as Stream-Next-Offset says it, with all its zeros" trim data /a 5
	run -64 --separate-stderr sc-streams --max-path 513 data
	[[ $stderr == "sc-streams: cannot start: --max-path takes a number from 1 to 512, not '513'"* ]]
}

@test "what cannot be used: 66, 69, 78" {
	run -66 --separate-stderr sc-streams ls nothing
	[[ ! -e nothing ]]
	run -66 --separate-stderr sc-streams verify nothing
	run -66 --separate-stderr sc-streams trim nothing /a 0000000000000000_0000000000000000
	run -66 --separate-stderr sc-streams --listen :0 --log a=nolog data
	run -66 --separate-stderr sc-streams --listen :0 --token-file notokens data
	streams server
	put x
	stop server
	head -c 5000 data/streams.mdb >short
	mkdir broken
	mv short broken/streams.mdb
	usage 65 "cannot open store 'broken/streams.mdb': MDB_CORRUPTED: Located page was wrong type; put a good copy of it back" ls broken
	chmod 444 data/streams.mdb-lock
	local plain=()
	[[ $EUID -ne 0 ]] || plain=(setpriv "--bounding-set=-dac_override,-dac_read_search")
	run -77 --separate-stderr "${plain[@]}" sc-streams ls data
	[[ $stderr == *'; it takes the right to read it, and to write data/streams.mdb-lock, where its readers are noted' ]]
	chmod 0 data
	run -77 --separate-stderr "${plain[@]}" sc-streams ls data
	chmod 755 data
	rm -r data
	usage 69 "cannot listen on address '8.8.8.8:80': Cannot assign requested address; give an address of this machine" --listen 8.8.8.8:80 data
	usage 78 "cannot listen on address 'foo': it is not HOST:PORT, [IPV6]:PORT, :PORT or unix:PATH (ports are 0 to 65535)" --listen foo data
	echo nonsense >x.pem
	run -78 --separate-stderr sc-streams --listen :0 --cert x.pem --key x.pem data
	[[ $stderr == *"'x.pem'"* ]]
}

@test "the ready notice names the real port, in words and on --ready-fd; serve may be said" {
	streams server
	jq -e --argjson pid "$pid" '.event == "ready" and .port > 0 and .pid == $pid and .prefix == "/v1/stream/" and
		.addresses == ["127.0.0.1:\(.port)"]' server.ready
	has server.err "listening on 127.0.0.1:$port"
	stop server
	[[ $ended -eq 0 ]]
	ready server sc-streams serve --json data --listen 127.0.0.1:0 --prefix /s/
	jq -e '.event == "ready" and .level == "notice" and .prefix == "/s/"' server.err
	base=http://127.0.0.1:$port/s
	put a
	ask 404 "http://127.0.0.1:$port/v1/stream/a"
}

@test "one stream from beginning to end, and its access log" {
	streams server -v
	put a --data one
	post a two
	ask 200 "$base/a"
	[[ $output == onetwo && $(field Stream-Next-Offset) == 0000000000000000_0000000000000014 ]]
	curl -sN -m 20 "$base/a?offset=-1&live=sse" >sse &
	reader=$!
	wait_for has sse '"upToDate":true'
	ask 204 -X POST -H 'Stream-Closed: true' "$base/a"
	wait "$reader"
	has sse 'data:onetwo'
	has sse '"streamClosed":true'
	ask 204 -X DELETE "$base/a"
	ask 404 "$base/a"
	stop server
	has server.err 'PUT /v1/stream/a 201, 3 in, 0 out'
	has server.err 'GET /v1/stream/a 200, 0 in, 6 out'
}

@test "two servers on one folder: the second says which process, 75" {
	streams server
	usage 75 "cannot serve folder 'data': sc-streams serves it already, as process $pid; end that one, or give this one a folder of its own" \
		--listen :0 data
	stop server KILL
	streams server
}

@test "ls, trim, seal and verify beside a server, and without one" {
	streams server
	put chat/1 --data one
	put chat/2 -H 'Stream-TTL: 600' -H 'Stream-Closed: true'
	put 'we%20ird'
	for _ in beside without; do
		run -0 sc-streams ls data
		[[ ${#lines[@]} -eq 3 ]]
		[[ ${lines[0]} == '/v1/stream/chat/1 0000000000000000_0000000000000007 text/plain' ]]
		[[ ${lines[1]} == '/v1/stream/chat/2 0000000000000000_0000000000000000 text/plain closed ttl=600' ]]
		run -0 sc-streams ls --json data /v1/stream/we
		jq -e '.path == "/v1/stream/we%20ird" and .closed == false and .forks == 0' <<<"$output"
		run -0 sc-streams ls data /v1/stream/none
		[[ -z $output ]]
		run -0 sc-streams verify data
		[[ $output == '3 streams (0 gone), 1 messages, 3 bytes, 0 producers: in order' ]]
		run -74 bash -c 'sc-streams ls data >/dev/full'
		stop server
	done
	streams server
	post chat/1 two
	sc-streams trim data /v1/stream/chat/1 0000000000000000_0000000000000007
	ask 410 "$base/chat/1?offset=0000000000000000_0000000000000000"
	ask 200 "$base/chat/1"
	[[ $output == two ]]
	usage 79 "cannot trim stream '/v1/stream/chat/1': the offset is behind the end of the stream, 0000000000000000_0000000000000014" \
		trim data /v1/stream/chat/1 0000000000000000_0000000000000099
	run -66 --separate-stderr sc-streams trim data /v1/stream/none 0000000000000000_0000000000000000
	sc-streams seal data /v1/stream/chat
	ask 409 -X PUT "$base/chat/.new"
	put other
	run -75 --separate-stderr bash -c 'ulimit -f 1; exec sc-streams seal data /v1/stream/none'
	[[ $stderr == *'warning: cannot commit to store '*'No space left on device'*'the write failed: it was not stored' ]]
	usage 64 "cannot seal group '/v1/stream/chat/.new': this is not a group of streams; give the front of a path, up to its first part that begins with a dot: /v1/stream/orders" \
		seal data /v1/stream/chat/.new
	usage 64 "cannot list: 'v1/stream' begins no path of a stream; begin it with a '/', as in /v1/stream/chat/" ls data v1/stream
}

@test "paths that are no text are listed without a loss" {
	streams server -v
	for name in 'caf\xc3\xa9' 'latin\xe9' 'csi\xc2\x9b'; do
		put x --request-target "$(printf "/v1/stream/$name")"
	done
	wait_for has server.err 'info: PUT /v1/stream/csi\xc2\x9b 201'
	run -0 sc-streams ls data
	[[ ${lines[0]} == '/v1/stream/café '* && ${lines[1]} == '/v1/stream/csi%C2%9B '* && ${lines[2]} == '/v1/stream/latin%E9 '* ]]
	run -0 sc-streams ls --json data
	[[ $(jq -r .path <<<"${lines[0]}") == /v1/stream/café ]]
	jq -e '.path_base64 == null' <<<"${lines[0]}"
	[[ $(jq -r .path <<<"${lines[2]}") == /v1/stream/latin%E9 ]]
	[[ $(jq -r .path_base64 <<<"${lines[2]}" | base64 -d) == "$(printf '/v1/stream/latin\xe9')" ]]
}

@test "tokens: who may read, write, see the numbers; a change of the file counts" {
	printf '# mine\nread r\nwrite w\nadmin a\n' >tokens
	streams server --token-file tokens
	ask 401 "$base/x"
	[[ $(field WWW-Authenticate) == Bearer ]]
	ask 401 -H 'Authorization: Bearer no' "$base/x"
	put x -H 'Authorization: Bearer w' --data one
	ask 403 -H 'Authorization: Bearer w' "$base/x"
	ask 200 -I -H 'Authorization: Bearer w' "$base/x"
	ask 403 -X POST -H 'Authorization: Bearer r' -d y "$base/x"
	ask 200 -H 'Authorization: Bearer r' "$base/x"
	ask 200 -u me:r "$base/x"
	ask 200 -H 'Authorization: Bearer a' "$base/x"
	ask 403 -H 'Authorization: Bearer r' "http://127.0.0.1:$port/metrics"
	ask 200 -H 'Authorization: Bearer a' "http://127.0.0.1:$port/metrics"
	ask 200 "http://127.0.0.1:$port/health"
	ask 204 -X OPTIONS "$base/x"
	echo 'read new' >tokens
	wait_for ask 200 -H 'Authorization: Bearer new' "$base/x"
	ask 401 -H 'Authorization: Bearer r' "$base/x"
	echo 'nonsense here' >tokens
	wait_for has server.err 'the old tokens stay'
	ask 200 -H 'Authorization: Bearer new' "$base/x"
}

@test "a log as a stream: read, followed, not written; trimmed rows are gone" {
	needs sc-log
	sc-log create rows
	seq 1 5 | sc-log append --quiet rows
	streams server --log nums=rows
	ask 200 "$base/nums"
	[[ $output == '[1,2,3,4,5]' && $(field Stream-Next-Offset) == 0000000000000000_0000000000000005 ]]
	[[ $(field Content-Type) == application/json && $(field Stream-Up-To-Date) == true ]]
	etag=$(field ETag)
	ask 304 -H "If-None-Match: $etag" "$base/nums"
	ask 200 "$base/nums?offset=0000000000000000_0000000000000003"
	[[ $output == '[4,5]' ]]
	ask 400 "$base/nums?offset=0000000000000000_0000000000000006"
	ask 200 -I "$base/nums"
	[[ $(field Stream-Next-Offset) == 0000000000000000_0000000000000005 ]]
	ask 403 -X POST -H 'Content-Type: application/json' -d 6 "$base/nums"
	ask 403 -X DELETE "$base/nums"
	curl -s -m 50 "$base/nums?offset=now&live=long-poll" >poll &
	curl -sN -m 50 "$base/nums?offset=-1&live=sse" >sse &
	sse=$!
	wait_for has sse '"upToDate":true'
	wait_for metric 'sc_streams_live_reads{mode="long-poll"} 1'
	echo '{"n":6}' | sc-log append --quiet rows
	wait_for has sse 'data:[{"n":6}]'
	wait_for has poll '[{"n":6}]'
	kill "$sse"
	wait_for metric 'sc_streams_live_reads{mode="sse"} 0'
	sc-log trim --before 4 rows
	ask 410 "$base/nums?offset=0000000000000000_0000000000000000"
	ask 200 "$base/nums?offset=-1"
	[[ $output == '[4,5,{"n":6}]' ]]
}

metric() {
	curl -s "http://127.0.0.1:$port/metrics" | grep -qxF -- "$1"
}

@test "TLS: spoken, with client certificates if asked for; SIGHUP reads the files again" {
	self_signed one
	self_signed two
	cp one.pem cert.pem
	cp one.key key.pem
	streams server --cert cert.pem --key key.pem
	base=https://127.0.0.1:$port/v1/stream
	put a --cacert one.pem --data one
	[[ $(field Location) == "$base/a" ]]
	ask 200 --cacert one.pem "$base/a"
	[[ $output == one ]]
	run -60 curl -s -m 20 --cacert two.pem "$base/a"
	cp two.pem cert.pem
	cp two.key key.pem
	kill -HUP "$pid"
	wait_for curl -sf -m 20 --cacert two.pem "$base/a"
	head -c 3000000 /dev/urandom >large
	ask 204 --cacert two.pem -X POST -H 'Content-Type: text/plain' --data-binary @large "$base/a"
	ask 200 --cacert two.pem "$base/a?offset=0000000000000000_0000000000000007"
	same body large
	streams server --cert one.pem --key one.key --client-ca two.pem
	base=https://127.0.0.1:$port/v1/stream
	run curl -s -m 20 --cacert one.pem "$base/a"
	[[ $status -ne 0 ]]
	ask 404 --cacert one.pem --cert two.pem --key two.key "$base/none"
}

@test "addresses: unix sockets, several at once, one that is inherited" {
	ready server sc-streams data --listen 127.0.0.1:0 --listen unix:sock
	ask 200 "http://127.0.0.1:$port/health"
	ask 200 --unix-socket sock http://localhost/health
	stop server
	[[ ! -e sock ]]
	python3 - <<-'END'
		import os, socket, subprocess, sys
		s = socket.socket()
		s.bind(("127.0.0.1", 0))
		s.listen()
		r, w = os.pipe()
		p = subprocess.Popen(["sc-streams", "data", "--listen", "fd:%d" % s.fileno(), "--ready-fd", str(w)], pass_fds=(s.fileno(), w), stderr=subprocess.DEVNULL)
		os.close(w)
		with os.fdopen(r) as f:
		    assert str(s.getsockname()[1]) in f.readline()
		c = socket.create_connection(s.getsockname())
		c.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
		answer = c.recv(100)
		p.terminate()
		sys.exit(p.wait() or not answer.startswith(b"HTTP/1.1 200"))
	END
}

@test "SIGTERM: what waits is told, what is written is finished; status 0" {
	streams server
	put a --data one
	curl -s -m 50 -o body -w '%{http_code}' "$base/a?offset=now&live=long-poll" >poll &
	curl -sN -m 50 "$base/a?offset=now&live=sse" >sse &
	sse=$!
	wait_for metric 'sc_streams_live_reads{mode="long-poll"} 1'
	wait_for metric 'sc_streams_live_reads{mode="sse"} 1'
	stop server
	[[ $ended -eq 0 ]]
	wait "$sse"
	wait_for has poll 503
	run -0 sc-streams verify data
}

@test "SIGTERM: nobody waits for a client that has its answer and leaves" {
	streams server --grace 10m
	put a
	exec {poll}<>"/dev/tcp/127.0.0.1/$port"
	printf 'GET /v1/stream/a?offset=now&live=long-poll HTTP/1.1\r\nHost: h\r\n\r\n' >&"$poll"
	wait_for metric 'sc_streams_live_reads{mode="long-poll"} 1'
	kill -TERM "$pid"
	run -0 timeout 20 cat <&"$poll" # to the end of what the server says, which listens for a while yet
	[[ $output == 'HTTP/1.1 503'* ]]
	exec {poll}>&-
	await server
	[[ $ended -eq 0 ]]
}

@test "SIGTERM twice: a client that takes nothing does not hold it" {
	streams server --grace 10m
	head -c 8000000 /dev/zero >large
	put a --data-binary @large
	# one that asks and reads nothing
	exec {slow}<>"/dev/tcp/127.0.0.1/$port"
	printf 'GET /v1/stream/a HTTP/1.1\r\nHost: h\r\n\r\n' >&"$slow"
	wait_for busy_answer
	kill -TERM "$pid"
	sleep 0.3
	running server
	stop server
	[[ $ended -eq 0 ]]
	exec {slow}>&-
}

busy_answer() {
	curl -s "http://127.0.0.1:$port/metrics" | grep -q '^sc_streams_answer_bytes [1-9]'
}

@test "limits: clients, connections of an address, bodies, paths, heads" {
	streams server --max-clients 2 --max-body 1k --max-path 40 --head-timeout 300ms
	put a
	ask 413 -X POST -H 'Content-Type: text/plain' -d "$(printf '%02000d' 0)" "$base/a"
	ask 414 -X PUT "$base/$(printf '%050d' 0)"
	ask 431 -H "X: $(printf '%020000d' 0)" "$base/a"
	# a head that does not come is not waited for
	exec {slow}<>"/dev/tcp/127.0.0.1/$port"
	printf 'GET /v1/stream/a HTTP/1.1\r\nHo' >&"$slow"
	run -0 timeout 20 cat <&"$slow"
	exec {slow}>&-
	streams server --max-per-address 1
	exec {one}<>"/dev/tcp/127.0.0.1/$port"
	wait_for ask 503 "$base/a"
	[[ $(field Retry-After) == 1 ]]
	exec {one}>&-
	wait_for ask 200 "$base/a"
}

@test "a full disk: 503, reads go on, works again with space" {
	[[ $(id -u) == 0 ]] || skip "needs root for a small file system"
	mkdir data
	mount -t tmpfs -o size=4m tmpfs data 2>/dev/null || skip "cannot mount"
	streams server
	put a --data one
	head -c 700000 /dev/urandom >large
	code=204 stored=0
	while [[ $code == 204 ]]; do
		code=$(curl -s -m 20 -o body -w '%{http_code}' -X POST -H 'Content-Type: text/plain' --data-binary @large "$base/a")
		[[ $code != 204 ]] || stored=$((stored + 1))
	done
	[[ $code == 503 && $stored -lt 10 ]]
	ask 200 "$base/a?offset=0000000000000000_0000000000000000"
	[[ $(head -c 3 body) == one ]]
	mount -o remount,size=64m data
	wait_for ask 204 -X POST -H 'Content-Type: text/plain' --data-binary @large "$base/a"
	run -0 sc-streams verify data
	[[ $output == "1 streams (0 gone), $((stored + 2)) messages"* ]]
}
