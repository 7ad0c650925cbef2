# sc-sub --catch-up where it has to work: the archive on an S3 server of other people or behind https, with what fails on the way; the
# stream written, sealed, archived and given up at full speed meanwhile; the subscriber killed at any moment.
# run: limit 300

load ../lib/common
load places

setup() {
	needs sc-sub sc-serve sc-seal
	places_setup
}

teardown() { sc_teardown; }

# by_proxy PORT LINE...: what the archive is asked goes by a proxy with this plan. Sets through.
by_proxy() {
	local at=$port home=$url
	local -a proxy_options=("${tls[@]}")

	faults "$@"
	through=$port port=$at url=$home
}

fill() { # fill FROM TO
	seq "$1" "$2" | sed 's/.*/{"n":&,"price":0.10}/' | sc-log append --quiet --batch-rows 50 t
}

want() { # want FROM TO
	seq "$1" "$2" | sed 's/.*/[&,{"n":&,"price":0.10}]/'
}

# t, of which the log has only the newest of 4000 rows, and a server on it. Sets url.
make_log() {
	sc-log create t --journal-size 8192
	fill 1 3800
	sc-seal t --force --target 8K --archive "$shelf" --keep-rows 300
	fill 3801 4000
	[[ $(sc-log info t --json | jq .first) -gt 3000 ]]
	serve server t
}

caught_up() { # caught_up ARGUMENT...: all rows, into got
	sc-sub "$url/t" --offset 1 --catch-up --until-end --quiet "$@" >got
	same <(want 1 4000) got
}

@test "from S3, with failures on the way that pass, and that do not" {
	make_log
	caught_up --archive "$shelf"
	by_proxy "$weed" '2 GET sealed cut' '1 GET list-type status 500' '1 GET log.json reset' '1 GET sealed status 503:SlowDown' \
		'1 GET sealed reset' '1 GET epoch lost'
	AWS_ENDPOINT_URL=http://127.0.0.1:$through caught_up --archive "$shelf/t"
	[[ $(grep -cv ' pass' log) -eq 7 ]]
	# in the middle of it the store is gone for good: what came before is delivered and finished
	by_proxy "$weed" '9 GET sealed/ pass' '* GET sealed/ status 404:NoSuchKey'
	code=0
	AWS_ENDPOINT_URL=http://127.0.0.1:$through sc-sub "$url/t" --offset 1 --catch-up --archive "$shelf" --cursor c --quiet >got 2>err ||
		code=$?
	[[ $code -eq 65 && -s got && $(cat c) -eq $(wc -l <got) && $(cat c) -lt 3800 ]]
	same <(want 1 "$(cat c)") got
	# and goes on there once it is back
	sc-sub "$url/t" --catch-up --archive "$shelf" --cursor c --until-end --quiet >>got
	same <(want 1 4000) got
	# hanging, it does not hold up the end
	by_proxy "$weed" '* GET sealed/ hang'
	AWS_ENDPOINT_URL=http://127.0.0.1:$through start hung sc-sub "$url/t" --offset 1 --catch-up --archive "$shelf"
	wait_for grep -q hang log
	stop hung TERM
	[[ $ended -eq 143 && $took -lt 9000000 ]] # the store's time is 30 s
	AWS_SECRET_ACCESS_KEY=wrong run -77 sc-sub "$url/t" --offset 1 --catch-up --archive "$shelf" --quiet
	run -66 sc-sub "$url/t" --offset 1 --catch-up --archive s3://no-such-bucket/t --quiet
}

@test "from behind https, with an authority of one's own" {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout key.pem -out ca.pem \
		-subj /CN=localhost -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1' 2>/dev/null
	make_log
	tls=(--cert ca.pem --key key.pem)
	by_proxy "$filer" '1 GET sealed cut' '1 GET list.json status 502'
	web=https://localhost:$through/buckets/prod/catch-up/$BATS_TEST_NUMBER
	caught_up --archive "$web" --archive-ca ca.pem
	AWS_CA_BUNDLE=ca.pem caught_up --archive "$web/t?x=1"
	grep -q 'log.json?x=1' log
	run -69 --separate-stderr sc-sub "$url/t" --offset 1 --catch-up --archive "$web" --quiet
	[[ $stderr == *AWS_CA_BUNDLE* ]]
}

@test "killed at any moment of a catch-up and started again: nothing is missing, and what comes twice is the run that was cut" {
	make_log
	by_proxy "$weed" '* GET sealed/ pass'
	export AWS_ENDPOINT_URL=http://127.0.0.1:$through
	: >got
	turns=0
	while :; do
		begin=(--offset 1)
		[[ ! -e c ]] || begin=()
		start sub sc-sub "$url/t" "${begin[@]}" --catch-up --archive "$shelf" --cursor c --to 4000 \
			--exec 'cat >>got; echo $SC_FIRST_OFFSET >>runs' --exec-rows 40
		before=$(wc -l <got)
		# a few runs on, wherever that is
		moved() { [[ $(wc -l <got) -gt $((before + 300 + 17 * turns)) ]] || sc_gone "${sc_pids[sub]}"; }
		wait_for moved
		stop sub KILL
		[[ $ended -eq 137 ]] || break
		turns=$((turns + 1))
	done
	[[ $ended -eq 0 && $turns -ge 4 && $(cat c) -eq 4000 ]]
	# each start goes on at the run that was not finished, and repeats no other
	python3 - "$turns" <<-'END'
		import json, sys
		rows = [json.loads(line) for line in open("got") if line.endswith("\n")]
		again, due = 0, 1
		for offset, row in rows:
		    assert row["n"] == offset
		    if offset != due:
		        assert due - 40 <= offset < due, (offset, due)
		        again += 1
		    due = offset + 1
		assert due == 4001, due
		assert again <= int(sys.argv[1]), again
	END
}

@test "under appends at full speed, sealed, archived and given up meanwhile: each subscriber gets every row once" {
	make_log
	start append sh -c 'from=4001; while [ $from -lt 60000 ]; do
		seq $from $((from + 999)) | sed "s/.*/{\"n\":&,\"price\":0.10}/" | sc-log append -q --batch-rows 100 t; from=$((from + 1000)); done'
	start seal sh -c "while [ ! -e stop ]; do sc-seal t --force --target 64K --archive $shelf --keep-rows 1 || exit 1; done"
	# what evicts is in the archive before: nobody can find a gap
	for i in 1 2; do
		start "sub$i" sc-sub "$url/t" --offset $((i * 100)) --catch-up --catch-up-rounds 1000 --archive "$shelf" --to 60000
	done
	# one that is slow is refused again and again in the middle of the stream
	start slow sh -c "sc-sub $url/t --offset 1 --catch-up --catch-up-rounds 1000 --archive $shelf --to 60000 --read-ahead 4K --retry-wait 10ms |
		python3 -c 'import sys, time
for n, line in enumerate(sys.stdin):
    sys.stdout.write(line)
    if n % 1000 == 0: time.sleep(0.02)'"
	# a server that replays little: what is neither here nor there ends it, and a script starts it again
	serve small --max-replay 4000 t
	start script sh -c "until sc-sub $url/t --cursor c \$([ -e c ] || echo --offset 1) --catch-up --catch-up-rounds 1000 --archive $shelf \
		--to 60000 >>script.got 2>>script.log; do [ \$? -eq 79 ] || exit 1; done"
	await append
	[[ $ended -eq 0 ]]
	for i in 1 2; do
		await "sub$i"
		[[ $ended -eq 0 ]]
		same <(want $((i * 100)) 60000) "sub$i.out"
		grep -q 'reading offsets' "sub$i.err"
	done
	await slow
	[[ $ended -eq 0 ]]
	same <(want 1 60000) slow.out
	await script
	[[ $ended -eq 0 ]]
	same <(want 1 60000) script.got
	touch stop
	await seal
	[[ $ended -eq 0 ]]
}
