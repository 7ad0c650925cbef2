#!/usr/bin/env bats
# Losing the machine: sc-seal --ship, --take-over and sc-log restore. What is there after a ship can be restored, the lost machine can
# do nothing any more, and whoever read there goes on.

load ../lib/common
setup() {
	sc_setup
	mkdir shelf
	shelf=file://$PWD/shelf
}
teardown() { sc_teardown; }

rows() { # rows FROM TO: {"n":FROM} ...
	seq "$1" "$2" | sed 's/.*/{"n":&,"price":0.10}/'
}

fill() { # fill LOG FROM TO
	rows "$2" "$3" | sc-log append --quiet --batch-rows 100 "$1"
}

make_log() { # make_log LOG ROWS
	sc-log create "$1" --journal-size 8192
	fill "$1" 1 "$2"
}

silent() {
	run -0 --separate-stderr "$@"
	[[ -z $output && -z $stderr ]]
}

shipped() { find shelf -name '*.blocks' | wc -l; }

@test "--ship: rows that are not sealed are in the archive, and go when they are" {
	make_log t 1000
	silent sc-seal t --target 4K --archive "$shelf" --ship
	fill t 1001 1300
	before=$(shipped)
	run -0 --separate-stderr sc-seal t --archive "$shelf" --ship --dry-run
	[[ $output == *'would ship rows 1001 to '* && $output == *' to 1300 to the archive'* && $(shipped) -eq $before ]]
	run -0 --separate-stderr sc-seal t --archive "$shelf" --ship --json
	jq -es '.[0].shipped | .first == 1001 and .last == 1300 and .objects >= 1 and .bytes > 0' <<<"$output"
	[[ $(shipped) -ge 1 ]]
	sc-catchup "$shelf/t" >got
	sc-log read t >all
	same all got
	[[ $(sc-catchup "$shelf/t" --verify | cut -d ' ' -f 1) == $(sc-log verify t | cut -d ' ' -f 1) ]]
	[[ $(sc-catchup "$shelf/t" --from 1299 | wc -l) -eq 2 ]]
	run -0 --separate-stderr sc-seal t --archive "$shelf" --ship --json
	jq -es '.[0].shipped == null' <<<"$output"
	silent sc-seal t --force --archive "$shelf"
	[[ $(shipped) -eq 0 ]]
	sc-catchup "$shelf/t" >got
	same all got
}

@test "--ship takes a time or none, and is not without --archive" {
	make_log t 10
	run -64 --separate-stderr sc-seal t --ship
	[[ $stderr == *'--ship needs --archive'* ]]
	run -64 --separate-stderr sc-seal t --take-over
	[[ $stderr == *'--take-over needs --archive'* ]]
	run -64 --separate-stderr sc-seal t --archive "$shelf" --jump 0
	[[ $stderr == *'--jump needs --take-over'* ]]
	silent sc-seal --archive "$shelf" --ship t
	silent sc-seal --archive "$shelf" --ship 5s t
	run -64 --separate-stderr sc-seal --archive "$shelf" --ship 1ms t
	[[ $stderr == *--ship* ]]
}

@test "--watch --ship: ships between the rounds; the machine is lost, and a new one goes on" {
	make_log t 500
	start seal sc-seal --watch --interval 1h --ship 50ms --target 4K --archive "$shelf" t
	caught() { [[ $(sc-catchup "$shelf/t" 2>/dev/null | tail -n 1) == "[$1,"* ]]; }
	wait_for caught 500
	fill t 501 800
	wait_for caught 800
	sc-log read t >all
	fill t 801 820
	stop seal KILL
	cp -a t old
	rm -rf t
	run -0 --separate-stderr sc-log restore t --archive "$shelf" --json
	jq -es '.[0] | .epoch == 2 and .first == 1 and .last >= 800 and .rows == .last and .next == .last + 1 + 1048576
		and .resumed == false and .taken_from.host != "" and (.last_appended | endswith("Z"))' <<<"$output"
	last=$(jq .last <<<"$output")
	next=$(jq .next <<<"$output")
	sc-log read t >got
	same all <(head -n 800 got)
	[[ $(sc-log verify t | cut -d ' ' -f 1) == $(sc-log verify old --to "$last" | cut -d ' ' -f 1) ]]
	# the old one wakes up
	mkdir away
	mv old away/t
	fill away/t 900 950
	run -77 --separate-stderr sc-seal away/t --archive "$shelf" --ship
	[[ $stderr == *"was taken over by"* && $stderr == *"epoch is 2"* ]]
	run -77 --separate-stderr sc-seal away/t --force --archive "$shelf"
	# the new one goes on behind what the old one may have given
	[[ $(rows 1 1 | sc-log append t) == "[$next,{\"n\":1,\"price\":0.10}]" ]]
	silent sc-seal t --archive "$shelf" --ship
	sc-log read t >all
	sc-catchup "$shelf/t" >got
	same all got
	[[ $(sc-log info t --json | jq .next) -eq $((next + 1)) ]]
	run -73 --separate-stderr sc-log restore t --archive "$shelf"
	[[ $stderr == *'exists already'* ]]
}

@test "a schema that was changed since the archive's log.json is restored with the rows" {
	printf '%s' '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}' >one
	printf '%s' '{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":["string","null"]}},"required":["n"]}' >two
	sc-log create t --schema one
	echo '{"n":1}' | sc-log append --quiet t
	start seal sc-seal --watch --interval 1h --ship 50ms --archive "$shelf" t
	caught() { [[ $(sc-catchup "$shelf/t" 2>/dev/null | tail -n 1) == "[$1,"* ]]; }
	wait_for caught 1
	sc-log migrate t --schema two
	echo '{"n":2,"s":"x"}' | sc-log append --quiet t
	wait_for caught 2
	stop seal KILL
	sc-log info t --json | jq -c .schema >want
	sc-log read t >all
	rm -rf t
	run -0 sc-log restore t --archive "$shelf"
	sc-log info t --json | jq -c .schema >got
	same want got
	sc-log read t >got
	same all got
	echo '{"n":3,"s":"y"}' | sc-log append --quiet t
	sc-log reindex t
	sc-log verify t
	[[ $(sc-log read t | tail -n 1) == *'{"n":3,"s":"y"}]' ]]
}

@test "a restore that is not finished is no log for any program, and is gone on with" {
	make_log t 1000
	silent sc-seal t --target 4K --archive "$shelf"
	fill t 1001 1200
	silent sc-seal t --archive "$shelf" --ship
	bad=$(find shelf -name '*.blocks' | sort | head -n 1)
	cp "$bad" good
	printf X | dd of="$bad" bs=1 seek=300 conv=notrunc status=none
	mkdir new
	run -65 --separate-stderr sc-log restore new/t --archive "$shelf"
	[[ $stderr == *"$(basename "$bad")"* && $stderr == *'--partial'* ]]
	for command in 'sc-log read' 'sc-log append' 'sc-log info' 'sc-log verify' 'sc-log reindex' 'sc-seal' 'sc-catchup' \
		'sc-serve --listen 127.0.0.1:0'; do
		# shellcheck disable=SC2086
		run -66 --separate-stderr $command new/t
		[[ $stderr == *'restore is not finished'*"sc-log restore new/t --archive $shelf"* ]]
	done
	run -73 sc-log create new/t
	cp good "$bad"
	run -0 --separate-stderr sc-log restore new/t --archive "$shelf" --json
	jq -es '.[0].resumed and .[0].rows == 1200' <<<"$output"
	same <(sc-log read t) <(sc-log read new/t)
	[[ ! -e new/t/restore.json ]]
}

@test "what is whole, with --partial; the newest of it, with --keep-local" {
	make_log t 1000
	silent sc-seal t --target 4K --archive "$shelf"
	fill t 1001 1100
	silent sc-seal t --archive "$shelf" --ship
	fill t 1101 1200
	silent sc-seal t --archive "$shelf" --ship
	mkdir a b
	run -0 --separate-stderr sc-log restore a/t --archive "$shelf" --keep-local 1K
	[[ $output == *'stay in the archive only'* ]]
	first=$(sc-log info a/t --json | jq .first)
	[[ $first -gt 1 ]]
	same <(tail -n "+$first" <(sc-log read t)) <(sc-log read a/t)
	run -64 --separate-stderr sc-log restore b/t --archive "$shelf" --keep-local 7
	find shelf -name '*.blocks' | sort | head -n 1 | xargs rm
	run -65 --separate-stderr sc-log restore b/t --archive "$shelf"
	[[ $stderr == *'hole'*'--partial'* ]]
	run -0 --separate-stderr sc-log restore b/t --archive "$shelf" --partial --json
	jq -es '.[0].last < 1200 and .[0].last >= 900' <<<"$output"
	same <(head -n "$(jq .last <<<"$output")" <(sc-log read t)) <(sc-log read b/t)
}

@test "nothing there, nothing asked for" {
	run -66 --separate-stderr sc-log restore t --archive "$shelf"
	[[ ! -e t ]]
	run -64 --separate-stderr sc-log restore t
	[[ $stderr == *'--archive is missing'* ]]
	run -64 --separate-stderr sc-log restore t --archive shelf
	[[ $stderr == *'no URL'* ]]
	mkdir t
	: >t/file
	make_log u/t 10
	silent sc-seal u/t --force --archive "$shelf"
	run -73 --separate-stderr sc-log restore t --archive "$shelf"
	[[ $stderr == *'other files'* ]]
}

@test "an archive whose log forgot it is taken over when it is asked for" {
	make_log t 1000
	silent sc-seal t --force --target 4K --archive "$shelf"
	rm t/archive.json
	run -77 --separate-stderr sc-seal t --archive "$shelf"
	[[ $stderr == *'--take-over'* ]]
	silent sc-seal t --archive "$shelf" --take-over --jump 0 --quiet
	[[ $(sc-log info t --json | jq .next) -eq 1001 ]]
	silent sc-seal t --archive "$shelf"
	cp -a t copy
	fill t 1001 1100
	silent sc-seal t --archive "$shelf" --ship
	mkdir other
	mv copy other/t
	run -79 --separate-stderr sc-seal other/t --archive "$shelf" --take-over
	[[ $stderr == *'does not have'*'restore'* ]]
	silent sc-seal t --archive "$shelf" --ship # it was not disturbed
}

@test "another copy that takes over leaves out what the one before may have given" {
	make_log t 300
	silent sc-seal t --force --target 4K --archive "$shelf"
	fill t 301 400
	silent sc-seal t --archive "$shelf" --ship
	mkdir other
	cp -a t other/t
	rm other/t/archive.json
	fill t 401 450 # the copy knows nothing of these
	cp -a shelf before
	run -0 --separate-stderr sc-seal other/t --archive "$shelf" --take-over --dry-run
	[[ $output == *'would take the archive over from '*', which has had it since '* ]]
	[[ $output == *', leaving offsets 401 to 1048976 out: the next row gets 1048977'* ]]
	run -0 --separate-stderr sc-seal other/t --archive "$shelf" --take-over --dry-run --json
	jq -e '.taken_over | .left_out.first == 401 and .left_out.last == 1048976 and .next == 1048977 and .epoch == 3 and
		(.from | has("host") and has("since"))' <<<"$output"
	diff -r shelf before
	run -0 --separate-stderr sc-seal other/t --archive "$shelf" --take-over --json
	jq -e '.ok and .late == 0 and (.taken_over | .left_out.first == 401 and .next == 1048977)' <<<"$output"
	[[ $(sc-log info other/t --json | jq .next) -eq 1048977 ]]
	run -77 --separate-stderr sc-seal t --archive "$shelf" --ship
	[[ $stderr == *'taken over by '*'its epoch is 3'* ]]
	# what the other one had on its way comes late: it is passed over, and told
	sc-seal --force t
	cp "$(find t/sealed -name '*450.ndjson.zst')" shelf/t/sealed/00000000000000000301-00000000000000000450.ndjson.zst
	fill other/t 1 10
	run -0 --separate-stderr sc-seal other/t --archive "$shelf" --ship -v
	[[ $stderr == *'passed over 1 segment in the archive: put there by a machine after it was replaced'* ]]
	run -0 --separate-stderr sc-seal other/t --archive "$shelf" --force --json
	jq -e '.taken_over == null and .late == 1' <<<"$output"
	sc-log read other/t >all
	sc-catchup "$shelf/t" >got
	same all got
	[[ $(sc-catchup "$shelf/t" --verify | cut -d ' ' -f 1) == $(sc-log verify other/t | cut -d ' ' -f 1) ]]
	grep -q '^\[1048977,' got
	[[ -e shelf/t/sealed/00000000000000000301-00000000000000000450.ndjson.zst ]] # its rows may be wanted
	zstdcat shelf/t/sealed/*301-*450.ndjson.zst | grep -q '^\[450,'
	# and a log can be made of it, and goes on above all
	rm -rf t other
	run -0 --separate-stderr sc-log restore t --archive "$shelf" --json
	jq -e '.first == 1 and .rows == 410 and .next > 2097152' <<<"$output"
	sc-log read t >again
	same all again
}

@test "a take-over says what it did" {
	make_log t 100
	silent sc-seal t --force --archive "$shelf"
	rm t/archive.json
	run -0 --separate-stderr sc-seal t --archive "$shelf" --take-over
	[[ -z $output && $stderr == *"log 't': took the archive over from "*', leaving offsets 101 to 1048676 out: the next row gets 1048677'* ]]
	rm t/archive.json
	run -0 --separate-stderr sc-seal t --archive "$shelf" --take-over --jump 2000000
	[[ $stderr == *'leaving offsets 1048677 to 3048676 out'* ]]
	# nobody had it
	sc-log create u
	echo 1 | sc-log append --quiet u
	run -0 --separate-stderr sc-seal u --force --archive "$shelf" --take-over --json
	jq -e '.taken_over == {epoch: 1, from: null, left_out: null, next: null}' <<<"$output"
}

@test "subscribers go on behind a restore, and are told what is missing" {
	needs sc-sub sc-serve
	make_log t 300
	silent sc-seal t --force --archive "$shelf"
	fill t 301 400
	silent sc-seal t --archive "$shelf" --ship
	fill t 401 450
	serve first t
	sc-sub "ws://127.0.0.1:$port/t" --offset 1 --count 450 --cursor c >seen
	[[ $(cat c) -eq 450 ]]
	sc-sub "ws://127.0.0.1:$port/t" --offset 1 --count 400 --cursor d >/dev/null
	stop first
	rm -rf t
	run -0 --separate-stderr sc-log restore t --archive "$shelf" --json
	next=$(jq .next <<<"$output")
	serve second t
	# beyond the last row that was restored: the rows that come later, and what is not there is told
	start sub sh -c 'exec sc-sub "$1" --cursor c --count 2 --events 6 6>events' sh "ws://127.0.0.1:$port/t"
	connected() { grep -q connected events; }
	wait_for connected
	fill t 1 2
	await sub
	[[ $ended -eq 0 && $(head -n 1 sub.out) == "[$next,"* && $(wc -l <sub.out) -eq 2 ]]
	jq -es --argjson next "$next" 'map(select(.event == "gap"))[0] | .first == 451 and .last == $next - 1' events
	[[ $(cat c) -eq $((next + 1)) ]]
	# at the last row that was restored, and in the middle of what was left out
	sc-sub "ws://127.0.0.1:$port/t" --cursor d --count 2 >got
	same <(sc-log read t | tail -n 2) got
	sc-sub "ws://127.0.0.1:$port/t" --offset 5000 --count 2 >got
	same <(sc-log read t | tail -n 2) got
	# and beyond the end, as ever
	run -79 sc-sub "ws://127.0.0.1:$port/t" --offset $((next + 100)) --count 1 --until-end
}

@test "rows that were given up in the log after they were shipped, and before they were sealed, stay in the archive" {
	make_log t 1000
	sc-seal t --force --archive "$shelf"
	fill t 1001 1600
	sc-seal t --ship --archive "$shelf"
	sc-log read t --times >stamps
	sc-log read t >all
	sc-log trim t --before 1601
	fill t 1601 1900
	sc-seal t --force --archive "$shelf" --ship
	[[ $(sc-log info t --json | jq .first) -gt 1100 && $(shipped) -gt 0 ]]
	sc-log read t --from 1601 >>all
	sc-log read t --from 1601 --times >>stamps
	for place in t "$shelf/t"; do
		for from in 1 1000 1001 1300 1600 1601; do
			sc-catchup "$place" --from "$from" >got
			same <(tail -n +"$from" all) got
		done
		for at in 1001 1300 1601; do
			time=$(sed -n "${at}p" stamps | jq '.[1]')
			sc-catchup "$place" --since "$time" --times | head -n 1 >got
			same <(jq -c "select(.[1] >= $time)" stamps | head -n 1) <(jq -c . got)
		done
		run -0 sc-catchup "$place" --verify
		[[ $output == *' 1-1900 1900 rows '* ]]
	done
	for last in 299 300 301 600 899 900 901; do
		sc-log read t --archive "$shelf" --last "$last" >got
		same <(tail -n "$last" all) got
	done
	objects=$(shipped)
	silent sc-seal t --force --archive "$shelf" --ship
	[[ $(shipped) -eq $objects ]]
	# one that is lost there is missed, and not passed over
	rm "$(find shelf -name '*.blocks' | sort | head -n 1)"
	run -65 --separate-stderr sc-catchup "$shelf/t"
	[[ $stderr == *'last good offset is 1000;'* && ${lines[-1]} == '[1000,'* ]]
	run -65 --separate-stderr sc-log read t --archive "$shelf" --last 800
}

@test "rows of a log that was only shipped before it was trimmed are the archive's first" {
	make_log t 500
	sc-seal t --ship --archive "$shelf"
	sc-log read t >all
	sc-log trim t --before 501
	fill t 501 600
	sc-seal t --force --archive "$shelf"
	sc-log read t --from 501 >>all
	sc-catchup t >got
	same all got
	sc-catchup "$shelf/t" --from 1 >got
	same all got
	[[ $(sc-log read t --archive "$shelf" --last 550 | wc -l) -eq 550 ]]
}

@test "restore: the URL with the name at its end is no way in, and the message says so" {
	make_log t 10
	sc-seal t --force --archive "$shelf"
	run -66 --separate-stderr sc-log restore new/t --archive "$shelf/t"
	[[ $stderr == *'URL/NAME'*'NAME is the last part of LOG'* ]]
	[[ ! -e new ]]
}

@test "restore: a full disk is named with the file, and it goes on when there is space" {
	[[ $(id -u) == 0 ]] || skip "needs root for a small file system"
	make_log t 2000
	head -c 3000000 /dev/urandom | base64 -w 200 | sed 's/.*/"&"/' | sc-log append --quiet t
	sc-seal t --force --archive "$shelf"
	mkdir small
	mount -t tmpfs -o size=1m tmpfs small 2>/dev/null || skip "cannot mount"
	run --separate-stderr sc-log restore small/t --archive "$shelf"
	if [[ $status != 74 || $stderr != *small/t/*'No space left'* ]]; then umount -l small; false; fi
	mount -o remount,size=64m small
	sc-log restore small/t --archive "$shelf"
	same <(sc-log read t) <(sc-log read small/t)
	umount small
}

@test "--ship from a full disk: a little room the first time, as it says, then none" {
	[[ $(id -u) == 0 ]] || skip "needs root for a small file system"
	mkdir small
	mount -t tmpfs -o size=1m tmpfs small 2>/dev/null || skip "cannot mount"
	make_log small/t 500
	head -c 2000000 /dev/zero >small/fill 2>/dev/null || :
	run --separate-stderr sc-seal small/t --ship --archive "$shelf"
	if [[ $status != 74 || $stderr != *archive.json*'No space left'*'make a little room'* ]]; then umount -l small; false; fi
	rm small/fill
	sc-seal small/t --ship --archive "$shelf"
	head -c 30000 /dev/zero | tr '\0' x | fold -w 100 | sed 's/.*/"&"/' | sc-log append --quiet small/t
	head -c 2000000 /dev/zero >small/fill 2>/dev/null || :
	run --separate-stderr sc-seal small/t --ship --age none --archive "$shelf"
	if [[ $status != 0 || -n $stderr ]]; then umount -l small; false; fi
	same <(sc-log read small/t) <(sc-catchup "$shelf/t")
	umount small
}

@test "restore: an archive that is only read from is told to be so" {
	run -64 --separate-stderr sc-log restore new/t --archive https://127.0.0.1:1/shelf
	[[ $stderr == *'takes the archive over'*'s3://'* && ! -e new ]]
}

@test "a log whose name can be no archive's, an archive where a log is wanted: what to do" {
	mkdir sub
	for name in .hidden $'tab\there'; do
		sc-log create "sub/$name"
		fill "sub/$name" 1 10
		run -64 --separate-stderr sc-seal "sub/$name" --force --archive "$shelf"
		[[ $stderr == *"rename the log's folder"* ]]
	done
	run -66 --separate-stderr sc-log verify "$shelf/t"
	[[ $stderr == *sc-catchup* && $stderr != *create* ]]
}
