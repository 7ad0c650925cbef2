# sc-serve: options and their words, addresses, the ready notice, tokens, HTTP answers, server-sent events, streams of
# standard input, limits, TLS, signals. What its subscribers get is in sc-sub.bats and tests/interop.

load ../lib/common

setup() {
	needs sc-serve sc-log
	sc_setup
	sc-log create rows
	seq 1 10 | sc-log append --quiet rows
}

teardown() { sc_teardown; }

usage() {
	local status=$1 words=$2

	shift 2
	run "-$status" --separate-stderr sc-serve "$@" </dev/null
	[[ -z $output ]]
	[[ $stderr == "sc-serve: $words" ]]
}

# get PATH [CURL OPTION...]: body in $output, status as the last line
get() {
	local path=$1

	shift
	run -0 curl -s -m 10 -w '\n%{http_code}' "$@" "http://127.0.0.1:$port$path"
	code=${lines[-1]}
}

@test "--help and --version" {
	run -0 --separate-stderr sc-serve --help
	[[ $output == 'Usage: sc-serve [OPTION]... [NAME=]LOG...'* && -z $stderr ]]
	run -0 sc-serve --version
	[[ $output == 'sc-serve '[0-9]*.[0-9]*.[0-9]* ]]
	run -74 bash -c 'sc-serve --help >/dev/full'
}

@test "the command line: what is wrong and what to do" {
	usage 64 "cannot start: [NAME=]LOG... is missing; see 'sc-serve --help'"
	usage 64 "cannot start: there is no option --lisen; did you mean --listen?" --lisen x rows
	usage 64 "cannot start: --wire takes 1, 2, 4 or 5, not '3'; see 'sc-serve --help'" --wire 3 rows
	usage 64 "cannot speak TLS: --key is missing; give both --cert and --key" --cert x rows
	usage 64 "cannot speak TLS: --cert is missing; give both --cert and --key" --key x rows
	usage 64 "cannot use --client-ca: there is no TLS without --cert and --key; give a certificate of the server's own, or leave out --client-ca" \
		--client-ca x rows
	run -64 --separate-stderr sc-serve --ring 1k rows
	[[ $stderr == "sc-serve: cannot start: --ring takes a size from 64K to 4G"* ]]
}

@test "streams that cannot be: named, 64 and 66" {
	usage 66 "cannot open log 'nolog': No such file or directory; make it with: sc-log create nolog" nolog
	usage 64 "cannot serve standard input: it has no name; name the stream: NAME=-" -
	usage 64 "cannot serve standard input twice: stream 'a' reads it already; name '-' once" a=- b=-
	usage 64 "cannot serve stream 'rows': another stream has that name; name one of them otherwise: NAME=LOG" rows ./rows
	usage 64 "cannot serve stream 'a b': it holds '?', '#', a blank or a control character; give the stream another name: NAME=LOG" 'a b=rows'
}

@test "addresses that cannot be: 78, 69" {
	usage 78 "cannot listen on address 'foo': it is not HOST:PORT, [IPV6]:PORT, :PORT or unix:PATH (ports are 0 to 65535)" --listen foo rows
	usage 78 "cannot listen on address '127.0.0.1:99999': it is not HOST:PORT, [IPV6]:PORT, :PORT or unix:PATH (ports are 0 to 65535)" \
		--listen 127.0.0.1:99999 rows
	usage 69 "cannot listen on address '8.8.8.8:80': Cannot assign requested address; give an address of this machine" --listen 8.8.8.8:80 rows
	serve server rows
	run -69 --separate-stderr sc-serve --listen "127.0.0.1:$port" rows
	[[ $stderr == "sc-serve: cannot listen on address '127.0.0.1:$port': Address already in use; stop the other program, or choose another port (port 0 takes a free one)" ]]
}

@test "a log that is damaged, 65; a folder that is none, 66 or 78" {
	mkdir empty
	run sc-serve --listen :0 empty
	[[ $status -eq 66 || $status -eq 78 ]]
	journal=$(ls rows/journal/*)
	printf 'XXXX' | dd of="$journal" bs=1 seek=100 conv=notrunc 2>/dev/null
	rm -f rows/index.*
	run -65 sc-serve --listen :0 rows
}

@test "the ready notice names the real port, in words and on --ready-fd" {
	serve server --listen 127.0.0.1:0 rows copy=rows
	jq -e --argjson pid "$pid" '.event == "ready" and .port > 0 and .pid == $pid and (.addresses | length == 2) and
		.streams == ["copy", "rows"]' server.ready
	has server.err "listening on 127.0.0.1:$port, 2 streams"
	get /healthz
	[[ $code == 200 ]]
}

@test "unix sockets, IPv6, several addresses at once" {
	ready server sc-serve --listen :0 --listen "unix:$PWD/s" --listen '[::1]:0' rows
	[[ $(curl -s --unix-socket s http://x/healthz) == '{"status":"ok"}' ]]
	run -0 sc-sub "ws+unix:$PWD/s:/rows" --offset 10 --until-end
	[[ $output == '[10,10]' ]]
	six=$(jq -r '.addresses[] | select(startswith("["))' server.ready)
	run -0 sc-sub "ws://$six/rows" --offset 10 --until-end
	stop server
	[[ $ended -eq 0 && ! -e s ]]
}

@test "the socket's file of a server that was killed is replaced; one in use is not" {
	ready server sc-serve --listen "unix:$PWD/s" rows
	run -69 sc-serve --listen "unix:$PWD/s" rows
	stop server KILL
	ready server sc-serve --listen "unix:$PWD/s" rows
	[[ $(curl -s --unix-socket s http://x/healthz) == '{"status":"ok"}' ]]
}

@test "a socket from the service manager is the only one" {
	cat >pass.py <<'P'
import os, socket, sys
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
if s.fileno() != 3:
    os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execvp("sc-serve", ["sc-serve"] + sys.argv[1:])
P
	ready server python3 pass.py rows
	jq -e '.addresses | length == 1' server.ready
	run -0 sc-sub "ws://127.0.0.1:$port/rows" --offset 10 --until-end
	[[ $output == '[10,10]' ]]
}

@test "HTTP: health, statistics, metrics, the page, and what is refused" {
	serve server rows
	get /healthz
	[[ ${lines[0]} == '{"status":"ok"}' && $code == 200 ]]
	get /stats
	jq -e '.streams[0] | .name == "rows" and .durable and .end_offset == 11 and .first_offset == 1 and .subscribers == 0' <<<"${lines[0]}"
	get /metrics
	grep -qx 'sc_stream_end_offset{stream="rows"} 11' <<<"$output"
	get /
	[[ $output == *'<td>/rows</td>'* ]]
	get /nothing
	[[ ${lines[0]} == '{"error":"no_such_stream","serves":["rows"]}' && $code == 404 ]]
	get '/rows?offset=99'
	[[ ${lines[0]} == '{"error":"not_replayable","why":"ahead","offset":99,"end_offset":11}' && $code == 416 ]]
	get '/rows?bogus=1'
	[[ $code == 400 ]]
	get / -X POST -d x
	[[ $code == 405 || $code == 413 ]]
	# what GET would have had, without the body: of a stream nobody knows how long that is
	get /rows -I
	[[ $code == 200 && $output == *'text/event-stream'* && $output != *'Content-Length'* ]]
	get '/rows?offset=99' -I
	[[ $code == 416 && $output == *'Content-Length: 69'* ]]
	get /stats
	jq -e '.streams[0].subscribers == 0' <<<"${lines[0]}"
}

@test "server-sent events: greeting, rows with their offsets as ids, and on from the last one" {
	serve server rows
	start events curl -sN "http://127.0.0.1:$port/rows?offset=9"
	wait_for has events.out 'id: 10'
	[[ $(sed -n '1p;4,8p' events.out) == $'event: greeting\nid: 9\ndata: [9,9]\n\nid: 10\ndata: [10,10]' ]]
	echo 11 | sc-log append --quiet rows
	wait_for has events.out 'data: [11,11]'
	start again curl -sN -H 'Last-Event-ID: 9' "http://127.0.0.1:$port/rows?offset=1"
	wait_for has again.out 'data: [11,11]'
	[[ $(grep -c '^id' again.out) -eq 2 ]]
	stop server # ends the answers; a browser comes back by itself
	await events
	[[ $ended -eq 0 ]]
}

@test "lines of standard input: rows, pairs and texts; then the end, with status 0" {
	hold server
	serve server --max-message 100 live=-
	start sub sc-sub "$url/live"
	wait_for sh -c "curl -s http://127.0.0.1:$port/stats | jq -e '.streams[0].subscribers == 1'"
	say server '{"a":0.10}' '[7,{"b":1}]' '[null,2]' 'text' '' "\"$(printf '%0200d' 0)\"" '"last"'
	wait_for lines sub.out 5
	[[ $(cat sub.out) == $'[null,{"a":0.10}]\n[null,{"b":1}]\n[null,2]\n[null,{"$text":"text"}]\n[null,"last"]' ]]
	has server.err 'a line of standard input was left out'
	close_input server
	await server
	[[ $ended -eq 0 ]]
	await sub
	[[ $ended -eq 0 ]]
}

@test "tokens: read, publish and all; the file may change; one that cannot be used leaves the old ones" {
	printf '%s\n' '# who' 'read r1' 'publish p1' 'both' >tokens
	serve server --token-file tokens rows
	get /stats
	[[ $code == 401 ]]
	get /stats -H 'Authorization: Bearer wrong'
	[[ $code == 401 ]]
	get /stats -H 'Authorization: Bearer p1'
	[[ $code == 403 ]]
	get /stats -H 'Authorization: Bearer r1'
	[[ $code == 200 ]]
	get /stats -u anybody:both
	[[ $code == 200 ]]
	get /healthz
	[[ $code == 200 ]]
	echo 'read r2' >tokens.new
	mv tokens.new tokens
	get /stats -H 'Authorization: Bearer r2'
	[[ $code == 200 ]]
	get /stats -H 'Authorization: Bearer r1'
	[[ $code == 401 ]]
	get /metrics -H 'Authorization: Bearer r2'
	grep -qx 'sc_refused_auth_total 4' <<<"$output"
	echo 'nobody three words' >tokens.new
	mv tokens.new tokens
	get /stats -H 'Authorization: Bearer r2'
	[[ $code == 200 ]]
	wait_for has server.err "cannot use token file 'tokens': line 1: "
}

@test "token files that cannot be used: 66, 78, the line named" {
	usage 66 "cannot read file 'none': No such file or directory; check the path" --listen :0 --token-file none rows
	printf 'read good\nwrite bad\n' >tokens
	usage 78 "cannot use token file 'tokens': line 2: the first word is none of read, publish, all; write one token a line, with read, publish or all in front" \
		--listen :0 --token-file tokens rows
	: >tokens
	run -78 sc-serve --listen :0 --token-file tokens rows
}

@test "origins: others get 403, programs without one are taken" {
	serve server --origin https://app.example rows
	get /stats -H 'Origin: https://app.example'
	[[ $code == 200 ]]
	get /stats -H 'Origin: https://other.example'
	[[ $code == 403 ]]
	get /stats
	[[ $code == 200 ]]
}

@test "limits: clients, connections of an address, heads" {
	serve server --max-clients 1 --max-header 1000 rows
	start sub sc-sub "$url/rows" --offset earliest
	wait_for lines sub.out 10
	run -69 --separate-stderr sc-sub "$url/rows" --retry 0
	[[ $stderr == *'the server answered 503'* ]]
	get /stats
	[[ $code == 200 ]]
	get /stats -H "X: $(printf '%02000d' 0)"
	[[ $code == 431 ]]
	stop server
	serve server --max-per-address 1 rows
	start sub2 sc-sub "$url/rows" --offset earliest
	wait_for lines sub2.out 10
	get /stats
	[[ $code == 503 ]]
}

@test "limits: what connections hold together" {
	serve server --wire 5 --max-memory 64K --max-header 32K rows
	get /metrics
	[[ $code == 200 ]]
	grep -q '^sc_connection_memory_bytes [0-9]' <<<"$output"
	grep -q '^sc_refused_memory_total 0$' <<<"$output"
	where="%7B%22id%22:%5B1$(printf ',%d' {1..800})%5D%7D"
	get "/rows?where=$where" -H 'Accept: text/event-stream' # a filter of 3 KB fits not beside the rest
	[[ $code == 503 ]]
	[[ $output == *'(--max-memory)'* ]]
	get /metrics
	grep -q '^sc_refused_memory_total 1$' <<<"$output"
	run -0 sc-sub "$url/rows" --offset earliest --until-end
	[[ $output == "$(sc-log read rows)" ]]
	get /healthz
	[[ $code == 200 ]]
}

@test "a request that never comes is cut after --handshake-timeout" {
	serve server --handshake-timeout 200ms rows
	exec 7<>"/dev/tcp/127.0.0.1/$port"
	printf 'GET / HT' >&7
	read -r -t 20 line <&7 || [[ $? -le 128 ]] # the end of the connection, not the time of read
	exec 7<&-
}

@test "--compress serves those that offer it and those that do not" {
	serve server --compress rows
	for flag in --compress --no-compress; do
		run -0 sc-sub "$url/rows" --offset earliest --until-end $flag
		[[ $output == "$(sc-log read rows)" ]]
	done
}

@test "--wire: each protocol gives the same lines to sc-sub" {
	for wire in 1 2 4 5; do
		serve server --wire $wire rows
		run -0 sc-sub "$url/rows" --offset earliest --until-end
		[[ $output == "$(sc-log read rows)" ]]
		if [[ $wire != 1 ]]; then
			sc-log create --schema "$SC_DATA/trades.schema.json" t$wire
			printf '%s\n' '{"event_ts":1,"price":1.0,"side":"a"}' '{"event_ts":2,"price":2,"side":null}' | sc-log append --quiet t$wire
			stop server
			serve server --wire $wire t$wire
			run -0 --separate-stderr sc-sub "$url/t$wire?where=%7B%22side%22:null%7D" --offset earliest --until-end --payload
			[[ $output == '{"event_ts":2,"price":2,"side":null}' && -z $stderr ]]
		fi
		stop server
	done
}

@test "a slow subscriber is dropped beyond --max-backlog; without the limit it gets everything" {
	sc-log create many
	serve server --ring 64K --max-backlog 100 many
	mkfifo pipe
	start slow sh -c 'exec sc-sub "$1/many" --read-ahead 0 --retry 0 --json >pipe' sh "$url"
	exec 5<pipe
	wait_for sh -c "curl -s http://127.0.0.1:$port/stats | jq -e '.streams[0].subscribers == 1'"
	long=$(printf '%01000d' 0)
	for part in $(seq 1 40); do
		yes "\"$long\"" | head -n 500 | sc-log append --quiet many
		[[ $(curl -s "http://127.0.0.1:$port/stats" | jq '.streams[0].dropped_slow') -eq 0 ]] || break
	done
	[[ $(curl -s "http://127.0.0.1:$port/metrics" | grep -c '^sc_stream_dropped_total{stream="many",reason="too_slow"} 1') -eq 1 ]]
	exec 5<&-
	stop server
	serve server --ring 64K many
	run -0 bash -c 'sc-sub "$1/many" --offset earliest --until-end | { sleep 0.2; sc-log verify many >/dev/null; cat; } | cmp - <(sc-log read many)' bash "$url"
}

@test "TLS: a certificate that is checked, read again on SIGHUP, and of clients" {
	command -v openssl >/dev/null || skip "no openssl"
	self_signed one
	self_signed two
	cp one.pem cert.pem
	cp one.key key.pem
	serve server --cert cert.pem --key key.pem rows
	secure=wss://127.0.0.1:$port/rows
	run -0 sc-sub "$secure" --ca one.pem --offset 10 --until-end
	[[ $output == '[10,10]' ]]
	run -69 --separate-stderr sc-sub "$secure" --retry 0
	[[ $stderr == *'cannot trust the certificate'* ]]
	run -0 --separate-stderr sc-sub "$secure" --insecure --offset 10 --until-end
	[[ $stderr == *'certificate is not checked'* ]]
	cp two.pem cert.pem
	cp two.key key.pem
	kill -HUP "$pid"
	wait_for sc-sub "$secure" --ca two.pem --offset 10 --until-end --retry 0
	echo none >cert.pem
	kill -HUP "$pid"
	wait_for has server.err 'the old certificate stays'
	run -0 sc-sub "$secure" --ca two.pem --offset 10 --until-end
	stop server
	serve server --cert one.pem --key one.key --client-ca two.pem rows
	run -69 sc-sub "wss://127.0.0.1:$port/rows" --ca one.pem --offset 10 --until-end --retry 0
	run -0 sc-sub "wss://127.0.0.1:$port/rows" --ca one.pem --cert two.pem --key two.key --offset 10 --until-end
	usage 78 "cannot use the certificate 'none': No such file or directory; give a PEM file that can be read" --listen :0 --cert none --key one.key rows
}

@test "--publish: rows come in over a WebSocket and are stored; without it the request is refused" {
	cat >publish.py <<'P'
import asyncio, base64, json, os, struct, sys

def frame(payload):
    mask = os.urandom(4)
    n = len(payload)
    return struct.pack("!BB", 0x81, 0x80 | n) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload))

async def message(reader):
    first, n = struct.unpack("!BB", await reader.readexactly(2))
    if n == 126:
        n, = struct.unpack("!H", await reader.readexactly(2))
    return first & 15, await reader.readexactly(n)

async def main():
    reader, writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    key = base64.b64encode(os.urandom(16)).decode()
    writer.write(("GET /rows?publish HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  "Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n\r\n" % key).encode())
    await reader.readuntil(b"\r\n\r\n")
    opcode, data = await message(reader)
    if opcode == 8:
        print(struct.unpack("!H", data[:2])[0], data[2:].decode())
        return
    for text in sys.argv[2:]:
        writer.write(frame(text.encode()))
        print((await message(reader))[1].decode())

asyncio.run(main())
P
	serve server rows
	run -0 python3 publish.py "$port" '{"a":1}'
	[[ $output == '4400 '* ]]
	stop server
	serve server --publish rows
	run -0 python3 publish.py "$port" '{"a":0.10}' '[{"b":1},{"b":2}]' '[]' 'no'
	[[ ${lines[0]} == '{"ok":[11]}' && ${lines[1]} == '{"ok":[12,13]}' ]]
	[[ ${lines[2]} == '{"error":"bad_frame",'* && ${lines[3]} == '{"error":"bad_frame",'* ]]
	[[ $(sc-log read rows --from 11) == $'[11,{"a":0.10}]\n[12,{"b":1}]\n[13,{"b":2}]' ]]
}

@test "TERM and INT: subscribers get 1001, status 0" {
	for signal in TERM INT; do
		serve server --grace 1h rows # it is not waited for: who is told leaves
		start sub sc-sub "$url/rows" --offset earliest --retry 0
		wait_for lines sub.out 10
		stop server $signal
		[[ $ended -eq 0 ]]
		await sub
		[[ $ended -eq 69 ]]
		has sub.err "the server closed it with 1001 'server shutting down'"
	done
}

@test "a second signal ends it now" {
	serve server --grace 60s rows
	exec 7<>"/dev/tcp/127.0.0.1/$port" # a client that never answers the close
	printf 'GET /rows?offset=0 HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n' >&7
	wait_for sh -c "curl -s http://127.0.0.1:$port/stats | jq -e '.streams[0].subscribers == 1'"
	kill -TERM "$pid"
	wait_for sh -c "! curl -s http://127.0.0.1:$port/healthz"
	running server
	stop server TERM
	[[ $ended -eq 0 ]]
	exec 7<&-
}

@test "the default address is this machine alone" {
	run -0 sc-serve --help
	[[ $output == *'default
                            127.0.0.1:8765'* ]]
	ready server sc-serve --listen :0 rows
	jq -e '.addresses[0] | startswith("127.0.0.1:")' server.ready
}

# archived [KEEP]: the log "old", of whose rows 1 to 2000 the archive on the shelf has all, and the log those that KEEP leaves.
# They are in "all", as they were appended.
archived() {
	sc-log create old --journal-size 8192
	seq 1 2000 | sed 's/.*/{"n":&,"k":"a"}/; s/\([05]\),"k":"a"/\1,"k":"b"/' | sc-log append --quiet --batch-rows 50 old
	sc-log read old >all
	mkdir shelf
	shelf=file://$PWD/shelf
	sc-seal old --force --target 8K --archive "$shelf" "${@:---keep-local=1ms}"
}

@test "--replay-archive: what the log gave up comes from the archive, then what it has, then what is new" {
	archived
	seq 2001 2010 | sed 's/.*/{"n":&,"k":"a"}/' | sc-log append old >>all
	[[ $(sc-log info old --json | jq .first) -eq 2001 ]]
	serve server --replay-archive old
	for offset in 1 2 777 2000 2001 2005 earliest; do
		sc-sub "$url/old" --offset "$offset" --until-end >got
		[[ $offset == earliest ]] && offset=1
		tail -n "+$offset" all >want
		same want got
	done
	start sub sc-sub "$url/old" --offset 1500
	wait_for lines sub.out 511
	echo '{"n":2011,"k":"a"}' | sc-log append old >>all
	wait_for lines sub.out 512
	tail -n +1500 all >want
	same want sub.out
	run -79 --separate-stderr sc-sub "$url/old" --offset 2013
	get /stats
	jq -e '.streams[0] | .first_offset == 2001 and .replaying_archive == 0' <<<"${lines[0]}"
	get /metrics
	[[ $output == *'sc_stream_replaying_archive{stream="old"} 0'* ]]
	[[ $output == *'sc_stream_dropped_total{stream="old",reason="archive"} 0'* ]]
	[[ $output == *'sc_stream_archive_messages_out_total{stream="old"} 7725'* ]]
	[[ $(<server.err) == *'notice: listening'* && $(wc -l <server.err) -eq 1 ]]
}

@test "--replay-archive: server-sent events and filters too" {
	archived
	serve server --replay-archive --wire 2 old
	start events curl -sN "http://127.0.0.1:$port/old?offset=1990" -H 'Accept: text/event-stream'
	wait_for has events.out 'data: [2000,'
	[[ $(<events.out) == 'event: greeting
data: {"streamcast":2,'*'"replay":[1990,2001]'*'}

id: 1990
data: [1990,{"n":1990,"k":"b"}]

id: 1991'* ]]
	start events curl -sN "http://127.0.0.1:$port/old?offset=0&where=%7B%22k%22:%22b%22%7D" -H 'Accept: text/event-stream'
	wait_for has events.out 'id: 2000'
	sed -n 's/^data: \[/[/p' events.out >got
	grep '"b"' all >want
	same want got
	has events.out '"replay":[1,2001]'
	has events.out "\"sc_archive\":\"$shelf/old\"}"
}

@test "without --replay-archive the archive is only told of" {
	archived
	serve server old
	run -79 --separate-stderr sc-sub "$url/old" --offset 1
	[[ $stderr == *'2001'* ]]
	get '/old?offset=1' -H 'Accept: text/event-stream'
	[[ $code -eq 416 && ${lines[0]} == '{"error":"not_replayable","why":"evicted","offset":1,"earliest":2001,"archive":null}' ]]
	start events curl -sN "http://127.0.0.1:$port/old" -H 'Accept: text/event-stream'
	wait_for has events.out "\"sc_archive\":\"$shelf/old\"}"
	# --archive tells of another place, and never of what is secret
	serve server --archive 'https://me:secret@example.org/logs/?token=hidden' old
	start events curl -sN "http://127.0.0.1:$port/old" -H 'Accept: text/event-stream'
	wait_for has events.out '"sc_archive":"https://example.org/logs/old"}'
	! has events.out secret && ! has events.out hidden
	usage 64 "cannot use archive: its scheme is none of file, s3, https and http; write file:///FOLDER, s3://BUCKET/PREFIX, or (to read) https://HOST/PATH" \
		--archive ftp://x old
	usage 64 "cannot use archive URL 's3://x': a bucket's name has 3 to 63 characters; write file:///FOLDER, s3://BUCKET/PREFIX, or (to read) https://HOST/PATH" \
		--archive s3://x old
}

@test "an archive that comes while the server runs is found" {
	sc-log create old --journal-size 8192
	serve server --replay-archive old
	has server.err "stream 'old' has no archive yet: sc-seal --archive makes one"
	seq 1 500 | sc-log append --quiet old
	sc-log read old >all
	mkdir shelf
	sc-seal old --force --archive "file://$PWD/shelf" --keep-local 1ms
	told() {
		start events curl -sN -m 5 "http://127.0.0.1:$port/old" -H 'Accept: text/event-stream'
		wait_for has events.out end_offset
		has events.out '"sc_archive":"file://'
	}
	wait_for told
	sc-sub "$url/old" --offset 1 --until-end >got
	same all got
}

@test "retention meanwhile: nothing is lost or repeated, byte for byte" {
	archived --keep-local=1w
	serve server --replay-archive --ring 64K old
	for i in 1 2 3 4; do
		start "sub$i" sc-sub "$url/old" --offset 1
	done
	for round in 1 2 3 4 5; do
		seq $((2000 * round + 1)) $((2000 * round + 2000)) | sed 's/.*/{"n":&,"k":"a"}/' |
			sc-log append --batch-rows 50 old >>all
		sc-seal old --force --target 8K --archive "$shelf" --keep-local 1ms
		start "late$round" sc-sub "$url/old" --offset $((round * 900))
	done
	for i in 1 2 3 4; do
		wait_for lines "sub$i.out" 12000
		same all "sub$i.out"
	done
	for round in 1 2 3 4 5; do
		tail -n +$((round * 900)) all >want
		wait_for lines "late$round.out" "$(wc -l <want)"
		same want "late$round.out"
	done
}

@test "an archive that cannot be read: those who need it are closed, it is said once, the others go on" {
	archived
	serve server --replay-archive old
	start live sc-sub "$url/old"
	chmod 000 shelf/old 2>/dev/null || :
	mv shelf elsewhere
	for i in 1 2 3; do
		start "sub$i" sc-sub "$url/old" --offset 1 --retry 0
	done
	for i in 1 2 3; do
		await "sub$i"
		[[ $ended -ne 0 && ! -s sub$i.out ]]
		has "sub$i.err" 'the archive cannot be read'
	done
	[[ $(grep -c "stream 'old': cannot" server.err) -eq 1 ]]
	get /metrics
	[[ $output =~ reason=\"archive\"\}\ [1-9] ]]
	echo '{"n":2001}' | sc-log append --quiet old
	wait_for lines live.out 1
	mv elsewhere shelf
	chmod 755 shelf/old
	back() { sc-sub "$url/old" --offset 1 --until-end --retry 0 >got; }
	wait_for back
	[[ $(wc -l <got) -eq 2001 ]]
}
