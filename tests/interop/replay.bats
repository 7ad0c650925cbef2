# sc-serve --replay-archive on an S3 server of other people, for a client of other people: the whole history while rows move from
# the log into the archive, and an archive that does not answer, which holds up nobody but those who read it.
# run: limit 300

load ../lib/common
load places

setup() {
	places_setup
	sc-log create t --journal-size 16K
	: >all
}

teardown() { sc_teardown; }

append() { # FROM TO
	seq "$1" "$2" | sed 's/.*/{"n":&,"price":0.10,"side":"\\u0041"}/' | sc-log append --batch-rows 50 t >>all
}

move() { sc-seal t --force --target 8K --archive "$shelf" --keep-local 1ms; }

@test "a client of other people reads the whole history, byte for byte, while it moves" {
	append 1 4000
	move
	[[ $(sc-log info t --json | jq .rows) -eq 0 ]]
	serve server --replay-archive --ring 64K t
	for i in 1 2; do
		start "client$i" "${python_new[@]}" "$SC_TESTS/interop/wsclient.py" --count 10000 --greeting "greeting$i" "$url/t?offset=1"
	done
	start squeezed "${python_new[@]}" "$SC_TESTS/interop/wsclient.py" --count 10000 --compress "$url/t?offset=1"
	for round in 4 5 6 7 8 9; do
		append $((1000 * round + 1)) $((1000 * round + 1000))
		move
	done
	for name in client1 client2 squeezed; do
		await "$name"
		[[ $ended -eq 0 ]]
		same all "$name.out"
	done
	jq -e --arg url "$shelf/t" '.replay[0] == 1 and .sc_archive == $url' greeting1
	[[ $(wc -l <server.err) -eq 1 ]]
}

@test "an archive that stalls holds up only those who read it, and only while it does" {
	append 1 3000
	move
	: >plan
	: >log
	peer proxy "${python_new[@]}" "$SC_TESTS/interop/faultproxy.py" --to "$weed" --plan plan --log log \
		--secret "$AWS_SECRET_ACCESS_KEY"
	export AWS_ENDPOINT_URL=http://127.0.0.1:$port
	echo '* GET sealed/0 slow 0.2' >plan
	serve server --replay-archive t
	for i in 1 2 3 4 5; do
		start "old$i" "${python_new[@]}" "$SC_TESTS/interop/wsclient.py" --count 3020 --greeting "greeting$i" "$url/t?offset=$((i % 2))"
	done
	start live "${python_new[@]}" "$SC_TESTS/interop/wsclient.py" --count 20 --greeting greeting "$url/t"
	wait_for test -s greeting
	wait_for has log ' slow '
	for n in {3001..3020}; do
		before=${EPOCHREALTIME/./}
		append "$n" "$n"
		wait_for lines live.out $((n - 3000))
		# a second, on a machine that may be busy: what stalls does so for ten
		[[ $((${EPOCHREALTIME/./} - before)) -lt 1500000 ]]
	done
	await live
	tail -n +3001 all >want
	same want live.out
	run -0 curl -s "http://127.0.0.1:$port/stats"
	[[ $(jq '.streams[0].replaying_archive' <<<"$output") -eq 5 && ! -s old1.out ]]
	: >plan
	for i in 1 2 3 4 5; do
		await "old$i"
		[[ $ended -eq 0 ]]
		same all "old$i.out"
	done
}

@test "an archive that is not allowed, or gone for good: 1011, once on stderr" {
	append 1 1000
	move
	AWS_SECRET_ACCESS_KEY=wrong serve server --replay-archive t
	run -1 --separate-stderr "${python_new[@]}" "$SC_TESTS/interop/wsclient.py" "$url/t?offset=1"
	[[ $stderr == '{"code": 1011, "reason": "the archive cannot be read"}' ]]
	run -1 --separate-stderr "${python_new[@]}" "$SC_TESTS/interop/wsclient.py" "$url/t?offset=0"
	[[ $stderr == '{"code": 1011, "reason": "the archive cannot be read"}' ]]
	[[ $(grep -c "stream 't': " server.err) -eq 1 ]]
}
