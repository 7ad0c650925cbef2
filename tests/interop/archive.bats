# Archives on S3 servers of other people and behind a plain web server: written by sc-seal, read by sc-catchup, with what fails on the
# way (faultproxy.py), and two machines that want the same one.
# run: limit 300

load ../lib/common
load places

setup() {
	places_setup
}

teardown() { sc_teardown; }

make_log() { # ROWS
	sc-log create t --journal-size 8192
	seq 1 "$1" | sed 's/.*/{"n":&,"price":0.10}/' | sc-log append --quiet --batch-rows 50 t
	sc-seal t --force --target 8K
	sc-log read t >all
}

whole() {
	sc-catchup "$shelf/t" >got
	same all got
}

@test "written and read, on both servers" {
	for server in "$weed" "$moto"; do
		at "$server"
		rm -rf t
		[[ $server == "$weed" ]] || shelf=$shelf-moto
		make_log 2000
		run -0 --separate-stderr sc-seal t --target 8K --archive "$shelf" --keep-local 1ms
		[[ -z $output && -z $stderr && -z $(find t/sealed -name '*.zst') ]]
		whole
		[[ $(sc-catchup "$shelf/t" --from 1234 --to 1235 | wc -l) -eq 2 ]]
		[[ $(sc-catchup "$shelf/t" --verify | cut -d ' ' -f 3) -eq 2000 ]]
		run -0 --separate-stderr sc-seal t --target 8K --archive "$shelf" --keep-archive 2K --json
		[[ $(jq '.expired | length' <<<"$output") -gt 0 ]]
		run -79 sc-catchup "$shelf/t" --from 1
		sc-catchup "$shelf/t" >got
		same <(tail -n "$(wc -l <got)" all) got
	done
}

@test "behind a web server, by ranges, without a listing" {
	make_log 2000
	sc-seal t --target 8K --archive "$shelf"
	web=http://127.0.0.1:$filer/buckets/prod/archive/$BATS_TEST_NUMBER/t
	sc-catchup "$web" >got
	same all got
	[[ $(sc-catchup "$web" --from 1999) == "$(tail -n 2 all)" ]]
	run -66 sc-catchup "$web/none"
	run -64 --separate-stderr sc-seal t --target 8K --archive "$web"
	[[ $stderr == *'only read from'* ]]
}

@test "failures on the way are tried again, and end with a status when they do not" {
	make_log 2000
	through "$weed" '1 PUT sealed status 500:InternalError' '1 PUT sealed lost' '1 GET epoch reset' \
		'1 GET log.json cut' '1 PUT list.json status 503:SlowDown'
	run -0 --separate-stderr sc-seal t --target 8K --archive "$shelf"
	[[ -z $stderr ]]
	through "$weed" '2 GET sealed cut' '1 GET list-type status 500' '1 GET sealed reset'
	whole
	through "$weed" '* GET sealed/ status 500'
	run -69 --separate-stderr sc-catchup "$shelf/t" --retry 1
	through "$weed" '* GET sealed/ hang'
	start hung sc-catchup "$shelf/t"
	hanging() { grep -q hang log; }
	wait_for hanging
	stop hung TERM
	[[ $ended -eq 143 ]]
	# it waits for no answer longer than it is told to go on for
	run -80 timeout 20 sc-catchup "$shelf/t" --retry-for 1s
	through "$weed" '* GET log.json status 500'
	run -69 --separate-stderr sc-catchup "$shelf/t" --retry 0
	[[ $stderr == *'; the server failed: '* ]]
	through "$weed" '* GET list-type say <html>a captive portal</html>'
	run -76 --separate-stderr sc-catchup "$shelf/t"
	[[ $stderr == *'; look whether the endpoint is an S3 server' ]]
	AWS_SECRET_ACCESS_KEY=wrong run -77 sc-catchup "$shelf/t"
	run -66 --separate-stderr sc-catchup s3://no-such-bucket/t
	[[ $stderr == *NoSuchBucket*'; create the bucket, or correct its name' ]]
	run -66 --separate-stderr sc-log restore new/t --archive s3://no-such-bucket
	[[ $stderr == *NoSuchBucket*'; create the bucket, or correct its name' && ! -e new ]]
}

@test "killed in any upload, the next run ends the work" {
	make_log 2000
	n=0
	while :; do
		n=$((n + 1))
		# the nth write hangs, and there it is killed
		if ((n % 2)); then how=hang; else how=lost; fi
		through "$weed" "$((n - 1)) PUT archive/$BATS_TEST_NUMBER/ pass" "1 PUT archive/$BATS_TEST_NUMBER/ $how"
		start push sc-seal t --target 8K --archive "$shelf"
		reached() { grep -q " $how" log || sc_gone "${sc_pids[push]}"; }
		wait_for reached
		grep -q " $how" log || break
		stop push KILL
		at "$weed"
		# what is there is whole
		if sc-catchup "$shelf/t" >got 2>/dev/null; then
			same <(head -n "$(wc -l <got)" all) got
		fi
		((n < 40))
	done
	await push
	[[ $ended -eq 0 && $n -gt 3 ]]
	at "$weed"
	run -0 --separate-stderr sc-seal t --target 8K --archive "$shelf" --keep-local 1ms
	[[ -z $stderr && -z $(find t/sealed -name '*.zst') ]]
	whole
}

@test "of two machines that archive at once, one does" {
	make_log 1000
	mkdir other
	cp -a t other/t
	start a sc-seal t --target 8K --archive "$shelf"
	start b sc-seal other/t --target 8K --archive "$shelf"
	await a
	first=$ended
	await b
	[[ $first/$ended == 0/77 || $first/$ended == 77/0 ]]
	grep -q 'another copy of this log\|was taken over' a.err b.err
	whole
}
