# Losing the machine, with archives on S3 servers of other people, straight and with what fails on the way (faultproxy.py): appenders at
# full speed while sc-seal --watch --ship runs, all killed, the log's folder gone, and a log made anew elsewhere. Every row that was
# acknowledged before the last ship that ended is there, in its bytes; the old machine is refused.
# run: limit 300

load ../lib/common
load places

setup() {
	places_setup
}

teardown() { sc_teardown; }

# The last row that a ship which ended had put there, by what sc-seal said; 0 without one.
last_shipped() {
	sed -n 's/.* shipped rows [0-9]* to \([0-9]*\) to the archive.*/\1/p' seal.err | tail -n 1 | grep . || echo 0
}

shipped_beyond() { [[ $(last_shipped) -gt $1 ]]; }

# lose_it SECONDS: appenders at full speed and ships each second, killed after that; then the log is in lost/t.
lose_it() {
	local i

	sc-log create t --journal-size 64K
	for i in 1 2; do
		mkfifo "append-$i.in"
		start "rows-$i" sh -c 'exec seq 1 100000000 >"$1"' sh "append-$i.in"
		start "append-$i" sc-log append --quiet --batch-rows 100 t
	done
	start seal sc-seal --watch --interval 2s --target 256K --ship 1s -v --archive "$shelf" t
	wait_for -t 60 shipped_beyond 1000
	sleep "$1"
	stop seal KILL
	for i in 1 2; do
		stop "append-$i" KILL
		stop "rows-$i" KILL
	done
	mkdir -p lost
	mv t lost/t
}

check_restored() {
	local last next hash shipped

	shipped=$(last_shipped)
	run -0 --separate-stderr sc-log restore t --archive "$shelf" --json
	last=$(jq .last <<<"$output")
	next=$(jq .next <<<"$output")
	[[ $last -ge $shipped && $shipped -gt 1000 && $next -ge $((last + 1 + 1048576)) ]]
	hash=$(sc-log verify t | cut -d ' ' -f 1)
	[[ $hash == $(sc-log verify lost/t --to "$last" | cut -d ' ' -f 1) ]]
	[[ $hash == $(sc-catchup "$shelf/t" --verify | cut -d ' ' -f 1) ]]
	cmp <(sc-log read t) <(sc-log read lost/t --to "$last")
	run -77 --separate-stderr sc-seal lost/t --archive "$shelf" --force
	[[ $stderr == *'was taken over by'* ]]
	echo '{"n":0}' | sc-log append --quiet t
	run -0 --separate-stderr sc-seal t --archive "$shelf" --ship
	[[ $(sc-catchup "$shelf/t" | tail -n 1) == "[$next,{\"n\":0}]" ]]
	run -0 --separate-stderr sc-seal t --archive "$shelf" --force --keep-local 1ms
	[[ -z $(find t/sealed -name '*.zst') ]]
	[[ $(sc-catchup "$shelf/t" --verify | cut -d ' ' -f 3) -eq $((last + 1)) ]]
}

@test "killed at full speed, restored from SeaweedFS" {
	lose_it 3
	check_restored
}

@test "killed at full speed, restored from moto" {
	at "$moto"
	lose_it 3
	check_restored
}

@test "with answers that are errors, cut, lost or late, while it is shipped and restored" {
	through "$weed" '3 PUT journal/ status 500:InternalError' '2 PUT journal/ lost' '2 GET epoch reset' \
		'3 PUT sealed/ status 503:SlowDown' '1 PUT journal/ slow 0.01' '2 DELETE . status 500' '2 GET list-type cut'
	lose_it 4
	printf '%s\n' '2 PUT epoch lost' '2 GET journal/ cut' '2 GET sealed/ status 500' '1 GET list-type reset' '1 PUT list.json lost' >plan
	check_restored
}

@test "a restore that is killed in any of its requests is ended by the next one" {
	local n=0

	sc-log create t --journal-size 8K
	seq 1 2000 | sed 's/.*/{"n":&}/' | sc-log append --quiet --batch-rows 50 t
	sc-seal t --target 8K --archive "$shelf"
	seq 2001 2500 | sed 's/.*/{"n":&}/' | sc-log append --quiet --batch-rows 50 t
	sc-seal t --age none --archive "$shelf" --ship
	mv t lost
	while :; do
		n=$((n + 1))
		through "$weed" "$((n - 1)) * restore/$BATS_TEST_NUMBER pass" "1 * restore/$BATS_TEST_NUMBER hang"
		start restore sc-log restore t --archive "$shelf" --quiet
		reached() { grep -q ' hang' log || sc_gone "${sc_pids[restore]}"; }
		wait_for reached
		grep -q ' hang' log || break
		stop restore KILL
		[[ -e t/log.json ]] || run -66 sc-log info t
		((n < 60))
		# the next one goes on with what is there; each third begins anew, as another machine would
		((n % 3)) || rm -rf t
	done
	await restore
	[[ $ended -eq 0 && $n -gt 10 ]]
	at "$weed"
	cmp <(sc-log read t) <(sc-log read lost)
	run -0 --separate-stderr sc-seal t --archive "$shelf" --ship
	[[ -z $stderr ]]
}

@test "of two restores at once one has the archive" {
	sc-log create t
	seq 1 500 | sed 's/.*/{"n":&}/' | sc-log append --quiet t
	sc-seal t --archive "$shelf" --ship
	mkdir a b
	start a sc-log restore a/t --archive "$shelf"
	start b sc-log restore b/t --archive "$shelf"
	await a
	first=$ended
	await b
	[[ $first/$ended == 0/77 || $first/$ended == 77/0 || $first/$ended == 0/0 ]]
	status=0
	sc-seal a/t --archive "$shelf" 2>a.seal || status=$?
	other=0
	sc-seal b/t --archive "$shelf" 2>b.seal || other=$?
	[[ $status/$other == 0/77 || $status/$other == 77/0 || $status/$other == 0/66 || $status/$other == 66/0 ]]
}
