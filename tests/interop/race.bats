# Two machines at one archive on S3 servers of other people: the first one is held before each of its requests in turn (faultproxy.py),
# and the second one does all of its work meanwhile. One has the archive in the end, the other one is told so, and every row that was
# there is there once. The same in a folder, and with both held: unit/log/archive_race_test.
# run: limit 400

load ../lib/common
load places

setup() {
	places_setup
	base=$shelf
}

teardown() { sc_teardown; }

# A log of 400 rows: 300 in segments, the rest shipped, all archived as $shelf; and 50 more that are not.
make_it() {
	sc-log create t --journal-size 8K
	seq 1 300 | sed 's/.*/{"n":&,"price":0.10}/' | sc-log append --quiet --batch-rows 50 t
	sc-seal t --force --target 4K --archive "$shelf"
	seq 301 400 | sed 's/.*/{"n":&,"price":0.10}/' | sc-log append --quiet --batch-rows 50 t
	sc-seal t --age none --archive "$shelf" --ship
	seq 401 450 | sed 's/.*/{"n":&,"price":0.10}/' | sc-log append --quiet --batch-rows 50 t
	sc-log trim t --before 2 # its log.json is not the archive's
}

# It was through, or it says who has the archive.
told() { # STATUS FILE
	[[ $1 -eq 0 || ($1 -eq 77 && $(<"$2") =~ (was taken over by|is written by another copy)) ]]
}

# Two that hold rows of one log up to its end: where both have them, they are the same.
meet() { # FILE FILE
	local a b

	a=$(wc -l <"$1")
	b=$(wc -l <"$2")
	[[ $a -lt $b ]] || a=$b
	[[ $a -gt 100 ]]
	tail -n "$a" "$1" >meet.1
	tail -n "$a" "$2" >meet.2
	same meet.1 meet.2
}

# The archive is that log's, for all who read it, and a log can be made of it.
holds() { # LOG
	local web=http://127.0.0.1:$filer/buckets/prod/${shelf#s3://prod/}/t

	run -0 --separate-stderr sc-seal "$1" --force --target 4K --archive "$shelf"
	[[ -z $stderr ]]
	sc-log read "$1" >rows
	sc-catchup "$shelf/t" >got
	meet rows got
	if [[ $AWS_ENDPOINT_URL == *:$weed ]]; then # by list.json
		sc-catchup "$web" >listed
		same got listed
	fi
	((n % 4 == 1)) || return 0
	sc-log restore "third-$n/t" --archive "$shelf" --quiet
	sc-log read "third-$n/t" >third
	meet rows third
	rm -rf "third-$n"
}

# every_request SERVER SECOND CHECK [STEP]: SECOND runs before the nth request of the first one, for each n, or each STEPth.
every_request() {
	local server=$1 second=$2 check=$3 step=${4:-1} status other refused=0

	n=$((1 - step))
	while :; do
		n=$((n + step))
		shelf=$base/$server/$n
		rm -rf t other release
		at "$server"
		make_it
		[[ $second != seizes ]] || { mkdir other && cp -a t other/t; }
		through "$server" "$((n - 1)) * $n/t/ pass" "1 * $n/t/ hold $PWD/release"
		export AWS_ENDPOINT_URL shelf
		start first sc-seal t --force --target 4K --archive "$shelf" --ship --keep-archive 1K
		reached() { grep -q ' hold' log || sc_gone "${sc_pids[first]}"; }
		wait_for reached
		at "$server"
		other=0
		"$second" 2>second.err || other=$?
		touch release
		await first
		status=$ended
		told "$status" first.err
		told "$other" second.err
		[[ $status -eq 0 ]] || refused=$((refused + 1))
		"$check" "$status" "$other"
		grep -q " hold" log || break
		((n < 80))
	done
	((n > 15 && refused > 15 / step - 3))
}

restores() {
	sc-log restore other/t --archive "$shelf" --quiet && echo '{"n":0}' | sc-log append --quiet other/t &&
		sc-seal other/t --age none --archive "$shelf" --ship
}

restored() {
	[[ $2 -eq 0 ]]
	run -77 --separate-stderr sc-seal t --force --archive "$shelf"
	[[ $(sc-log read other/t | grep -c '^\[400,') -eq 1 ]] # what was shipped before
	holds other/t
}

seizes() { sc-seal other/t --force --target 4K --archive "$shelf" --take-over; }

seized() {
	[[ $2 -eq 0 ]]
	run -77 --separate-stderr sc-seal t --force --archive "$shelf"
	holds other/t
}

@test "a restore between any two requests of the lost machine, SeaweedFS" { every_request "$weed" restores restored; }

@test "a restore between any two requests of the lost machine, moto" { every_request "$moto" restores restored 3; }

@test "a take-over between any two requests of the other one, SeaweedFS" { every_request "$weed" seizes seized 2; }
