#!/usr/bin/env bats
# sc-catchup: history from a log and from its archive, the same bytes from both; damage named; sc-seal's side of an archive.

load ../lib/common

setup() {
	needs sc-catchup sc-seal
	sc_setup
	mkdir shelf
	shelf=file://$PWD/shelf
}

teardown() { sc_teardown; }

rows() { # rows FROM TO
	seq "$1" "$2" | sed 's/.*/{"n":&,"price":0.10}/'
}

fill() { # fill LOG FROM TO
	rows "$2" "$3" | sc-log append --quiet --batch-rows 50 "$1"
}

# A log of ROWS rows, sealed into small segments and archived.
make_log() {
	sc-log create t --journal-size 8192
	fill t 1 "$1"
	sc-seal t --force --target 8K --archive "$shelf"
}

nth() { # nth FOLDER N: the N-th segment
	find "$1" -name '*.zst' | sort | sed -n "$2p"
}

flip() { # flip FILE BYTE
	python3 -c 'import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(int(sys.argv[2])); b = f.read(1)[0]; f.seek(int(sys.argv[2])); f.write(bytes([b ^ 1]))' "$1" "$2"
}

@test "a log and its archive give the same lines, which sc-log read and zstdcat give too" {
	make_log 2000
	sc-log read t >want
	sc-catchup t >got
	same want got
	sc-catchup "$shelf/t" >got
	same want got
	sc-catchup "$shelf/t/" >got
	same want got
	if command -v zstdcat >/dev/null; then
		zstdcat shelf/t/sealed/*.zst >got
		same want got
	fi
	for form in --payload --times; do
		sc-log read t $form --from 777 >want
		sc-catchup "$shelf/t" $form --from 777 >got
		same want got
		sc-catchup t $form --from 777 >got
		same want got
	done
}

@test "ranges: by offset and time, in the middle, past the end, before the start" {
	make_log 2000
	for place in t "$shelf/t"; do
		run -0 --separate-stderr sc-catchup "$place" --from 1000 --to 1001
		[[ $output == $'[1000,{"n":1000,"price":0.10}]\n[1001,{"n":1001,"price":0.10}]' && -z $stderr ]]
		run -0 --separate-stderr sc-catchup "$place" --from 2000 --to 3000
		[[ $output == '[2000,{"n":2000,"price":0.10}]' && $stderr == *'ends before offset 2001'* ]]
		run -0 --separate-stderr sc-catchup "$place" --from 2001
		[[ -z $output && $stderr == *'no rows in that range'* ]]
		run -79 --separate-stderr sc-catchup --json "$place" --from 2002
		[[ $(jq -r .why <<<"$stderr") == ahead && $(jq .end_offset <<<"$stderr") == 2001 ]]
	done
	at=$(sc-log read t --times --from 1201 --to 1201 | jq '.[1]')
	sc-log read t --since "$at" >want
	sc-catchup "$shelf/t" --since "$at" >got
	same want got
	sc-log read t --until "$at" >want
	sc-catchup "$shelf/t" --until "$at" >got
	same want got
	run -0 --separate-stderr sc-catchup "$shelf/t" --since 2100-01-01
	[[ -z $output && $stderr == *'no rows in that range'* ]]
}

@test "a range in the middle reads the segments that hold it, and no others" {
	make_log 4000
	# the addresses sanitizer cannot be traced: without its look for leaks
	ASAN_OPTIONS=detect_leaks=0 strace -f -o trace -e trace=openat sc-catchup "$shelf/t" --from 2000 --to 2001 >got
	[[ $(wc -l <got) -eq 2 ]]
	[[ $(grep -c 'ndjson.zst' trace) -le 4 && $(find shelf -name '*.zst' | wc -l) -gt 8 ]]
}

@test "--verify prints the log's hash, for any range" {
	make_log 1500
	hash=$(sc-log verify t | cut -d ' ' -f 1)
	[[ $(sc-catchup t --verify | cut -d ' ' -f 1) == "$hash" ]]
	[[ $(sc-catchup "$shelf/t" --verify --json | jq -r .hash) == "$hash" ]]
	[[ $(sc-catchup "$shelf/t" --verify --from 300 --to 1200) == "$(sc-log verify t --from 300 --to 1200)" ]]
	[[ $(sc-catchup "$shelf/t" --verify --from 1501) == "$(sc-log verify t --from 1501)" ]]
	flip "$(nth shelf 2)" 40
	run -65 --separate-stderr sc-catchup "$shelf/t" --verify
	[[ -z $output ]]
}

@test "a damaged, cut or missing segment: named with the last good offset; what is printed is right" {
	make_log 2000
	sc-log read t >all
	file=$(nth shelf 3)
	first=$((10#$(basename "$file" | cut -c 1-20))) last=$((10#$(basename "$file" | cut -c 22-41)))
	cp "$file" good
	for damage in flip cut gone; do
		case $damage in
		flip) flip "$file" 60 ;;
		cut) head -c 300 good >"$file" ;;
		gone) rm "$file" ;;
		esac
		code=0
		sc-catchup "$shelf/t" --json >got 2>err || code=$?
		[[ $code -eq 65 ]]
		same <(head -n $((first - 1)) all) got
		[[ $(jq .last_good err) -eq $((first - 1)) && $(jq -r .file err) == *"$(basename "$file")" ]]
		# rows behind it can be had, rows in it cannot
		sc-catchup "$shelf/t" --from $((last + 1)) >got
		same <(tail -n +$((last + 1)) all) got
		run -65 sc-catchup "$shelf/t" --from "$last"
		cp good "$file"
	done
	sc-catchup "$shelf/t" >got
	same all got
}

@test "--speed keeps the times between rows; a signal ends it at once" {
	sc-log create t
	sc-log append -q t <<<'{"n":1}'
	sleep 1
	sc-log append -q t <<<'{"n":2}'
	sc-seal t --force --archive "$shelf"
	for place in t "$shelf/t"; do
		since=${EPOCHREALTIME/./}
		sc-catchup "$place" --speed 2x >got
		took=$((${EPOCHREALTIME/./} - since))
		[[ $(wc -l <got) -eq 2 && $took -ge 500000 ]]
		start slow sc-catchup "$place" --speed 0.0001x
		wait_for has slow.out '[1,'
		stop slow TERM # the next row is hours away
		[[ $ended -eq 143 ]]
		[[ $(wc -l <slow.out) -eq 1 ]]
	done
	# its reader leaves
	mkfifo pipe
	start left sh -c 'sc-catchup t --speed 0.0001x >pipe'
	head -n 1 pipe
	await left
	[[ $ended -eq 0 ]]
}

@test "usage, and places that are not there" {
	sc-log create t
	run -64 sc-catchup
	run -64 sc-catchup t --payload --times
	run -64 sc-catchup t --verify --speed 1x
	run -64 sc-catchup t --from 5 --to 4
	run -64 sc-catchup t --since 1h --until 2h
	run -66 --separate-stderr sc-catchup nowhere
	run -66 --separate-stderr sc-catchup "$shelf"
	[[ $stderr == *"the log's name at its end"* ]]
	run -66 sc-catchup "$shelf/t"
	# full and closed outputs
	fill t 1 10000
	run -74 sh -c 'sc-catchup t >/dev/full'
	run -0 sh -c 'sc-catchup t | head -n 1'
}

@test "memory does not grow with the range" {
	[[ $SC_BUILD != *asan* ]] || skip "sanitizers have their own memory"
	sc-log create t --journal-size 1M
	seq 1 400000 | sed 's/.*/{"n":&,"x":"abcdefghijklmnopqrstuvwxyz"}/' | sc-log append -q t
	sc-seal t --force --target 1M --archive "$shelf"
	(
		ulimit -v 200000
		sc-catchup "$shelf/t" | wc -l >count
	)
	[[ $(cat count) -eq 400000 ]]
}

# --- a log and its archive --------------------------------------------------------------------------------------------

# The lower rows of t only in the archive, the middle ones in both, the upper ones only in t.
make_both() {
	make_log 2000
	fill t 2001 2400
	sc-log read t >all
	sc-catchup t --times >stamps
	sc-seal t --no-compact --target 8K --archive "$shelf" --keep-rows 1000
	fill t 2401 2500
	sc-log read t --from 2401 >>all
	sc-log read t --from 2401 --times >>stamps
	floor=$(sc-log info t --json | jq .first)
	[[ $floor -gt 100 && $floor -lt 1900 ]]
}

@test "a log and its archive are one sequence, by offset and by time" {
	make_both
	for option in '' "--archive=$shelf/t" "--archive=$shelf" "--archive=$shelf/"; do
		sc-catchup t $option >got
		same all got
	done
	for at in 1 2 $((floor - 1)) "$floor" $((floor + 1)) 2000 2001 2401 2500; do
		sc-catchup t --from "$at" >got
		same <(tail -n +"$at" all) got
		sc-catchup t --to "$at" >got
		same <(head -n "$at" all) got
		sc-catchup t --from $((at > 60 ? at - 60 : 1)) --to "$at" --payload >got
		same <(sed -n "$((at > 60 ? at - 60 : 1)),${at}p" all | jq -c '.[1]' | sed 's/0.1}/0.10}/') got
		# the rows of one commit share their time
		time=$(sed -n "${at}p" stamps | jq '.[1]')
		sc-catchup t --times --since "$time" >got
		same <(jq -c "select(.[1] >= $time)" stamps | sed 's/0.1}/0.10}/') got
		sc-catchup t --times --until "$time" >got
		same <(jq -c "select(.[1] < $time)" stamps | sed 's/0.1}/0.10}/') got
	done
	run -79 sc-catchup t --from 2502
	run -79 --separate-stderr sc-catchup t --archive none --from 1
	run -0 --separate-stderr sc-catchup t --archive none
	[[ ${lines[0]} == "[$floor,"* ]]
}

@test "--verify proves the log and its archive as one: the hash is that of the whole log" {
	make_both
	[[ $(sc-catchup t --verify --json | jq -r .rows) -eq 2500 ]]
	sc-log create whole
	jq -c '.[1]' all | sed 's/0.1}/0.10}/' | sc-log append -q whole
	hash=$(sc-log verify whole | cut -d ' ' -f 1)
	[[ $(sc-catchup t --verify | cut -d ' ' -f 1) == "$hash" ]]
	for range in "--from 1 --to $((floor - 1))" "--from $((floor - 1)) --to $floor" "--from $floor" '--from 50 --to 2450'; do
		[[ $(sc-catchup t --verify $range | cut -d ' ' -f 1) == "$(sc-log verify whole $range | cut -d ' ' -f 1)" ]]
	done
	flip "$(nth shelf 2)" 40
	run -65 --separate-stderr sc-catchup t --verify
	[[ -z $output ]]
	run -65 --separate-stderr sc-catchup t
	[[ ${lines[0]} == '[1,'* && $stderr == *"$(basename "$(nth shelf 2)")"* ]]
	# rows that the log holds are read from there
	run -0 sc-catchup t --verify --from "$floor"
}

@test "rows that the log holds need no archive; one that is not there, or another log's, is named" {
	make_both
	mv shelf away
	sc-catchup t --from "$floor" >got
	same <(tail -n +"$floor" all) got
	time=$(sed -n "$((floor + 400))p" stamps | jq '.[1]')
	sc-catchup t --since "$time" --times >got
	same <(jq -c "select(.[1] >= $time)" stamps | sed 's/0.1}/0.10}/') got
	for range in '' "--from $((floor - 1))" '--since 1970-01-02'; do
		run -66 --separate-stderr sc-catchup t $range
		[[ -z $output && $stderr == *"'$PWD/shelf'"* || $stderr == *"$shelf"* ]]
	done
	mv away shelf
	sc-log create other
	mkdir two two/shelf
	mv other two/t
	fill two/t 1 2000
	sc-seal two/t --force --target 8K --archive "file://$PWD/two/shelf"
	run -78 --separate-stderr sc-catchup t --archive "file://$PWD/two/shelf"
	[[ $stderr == *'another log'* ]]
	run -64 --separate-stderr sc-catchup t --archive shelf
	run -64 --separate-stderr sc-catchup "$shelf/t" --archive "$shelf"
}

@test "a gap that nobody holds: both numbers, before anything is printed, unless the range is outside of it" {
	make_log 2000
	end=$(sc-catchup "$shelf/t" | tail -n 1 | jq '.[0]')
	fill t 2001 3000
	sc-log read t >all
	sc-log trim t --before 2501
	for range in '' '--from 5' "--from $((end + 1))" "--from $((end + 100)) --to 2700" "--to $((end + 1))"; do
		run -79 --separate-stderr sc-catchup t $range
		[[ -z $output && $stderr == *"from offset $((end + 1)) to 2500;"* && $stderr == *" at $end, "*" at 2501" ]]
	done
	run -79 --separate-stderr sc-catchup --json t
	[[ $(jq -r .why <<<"$stderr") == gap && $(jq .first <<<"$stderr") -eq $((end + 1)) && $(jq .last <<<"$stderr") -eq 2500 ]]
	run -79 sc-catchup t --verify
	sc-catchup t --to "$end" >got
	same <(head -n "$end" all) got
	sc-catchup t --from 2501 >got
	same <(tail -n +2501 all) got
	run -0 sc-catchup t --verify --to "$end"
	run -0 sc-catchup t --verify --from 2501
}

@test "offsets that were never given are no gap" {
	sc-log create t --journal-size 8192
	rows 1 300 | sed 's/^{"n":\([0-9]*\)\(.*\)$/[\1,{"n":\1\2]/' | sc-log append -q --mirror --source a t
	sc-seal t --force --target 4K --archive "$shelf"
	rows 5001 5400 | sed 's/^{"n":\([0-9]*\)\(.*\)$/[\1,{"n":\1\2]/' | sc-log append -q --mirror --source a t
	sc-log read t >all
	[[ $(wc -l <all) -eq 700 ]]
	sc-log trim t --before 5001
	sc-catchup t >got
	same all got
	sc-catchup t --from 299 --to 5001 >got
	[[ $(wc -l <got) -eq 3 ]]
	sc-catchup t --from 4000 >got
	same <(tail -n 400 all) got
	run -0 sc-catchup t --verify
}

@test "retention moves rows under a reader, a verify and a slow reader: none is lost, none comes twice" {
	sc-log create t --journal-size 64K
	fill t 1 30000
	sc-seal t --force --no-compact --target 64K --archive "$shelf"
	sc-log read t >all
	hash=$(sc-log verify t | cut -d ' ' -f 1)
	mkfifo slow
	start slow sh -c 'sc-catchup t >slow'
	exec 7<slow
	head -c 1000 <&7 >got.slow
	for keep in 25000 20000 15000 8000 1; do
		sc-seal t --no-compact --archive "$shelf" --keep-rows "$keep"
		sc-catchup t >got
		same all got
		[[ $(sc-catchup t --verify | cut -d ' ' -f 1) == "$hash" ]]
	done
	cat <&7 >>got.slow
	exec 7<&-
	await slow
	[[ $ended -eq 0 ]]
	same all got.slow
	# and while it goes on
	start append sh -c 'seq 30001 36000 | sed "s/.*/{\"n\":&,\"price\":0.10}/" | sc-log append -q --batch-rows 20 t'
	start seal sh -c "while [ ! -e stop ]; do sc-seal t --force --target 4K --archive $shelf --keep-rows 1 || exit 1; done"
	for i in $(seq 12); do
		sc-catchup t >got
		same got <(seq "$(wc -l <got)" | sed 's/.*/[&,{"n":&,"price":0.10}]/')
		sc-catchup t --verify >/dev/null
	done
	await append
	touch stop
	await seal
	[[ $ended -eq 0 ]]
	sc-catchup t >got
	[[ $(wc -l <got) -eq 36000 ]]
}

# --- sc-seal's side ---------------------------------------------------------------------------------------------------

@test "sc-seal --archive is silent, uploads once, and removes here only what is there" {
	make_log 1500
	before=$(find shelf -name '*.zst' | wc -l)
	run -0 --separate-stderr sc-seal t --archive "$shelf" --json
	[[ -z $stderr && $(jq '.uploaded | length' <<<"$output") -eq 0 ]]
	fill t 1501 2000
	run -0 --separate-stderr sc-seal t --force --archive "$shelf" --dry-run --json
	jq -c .uploaded <<<"$output" >planned
	run -0 --separate-stderr sc-seal t --force --archive "$shelf" --json
	[[ $(jq -c .uploaded <<<"$output") == "$(cat planned)" && $(cat planned) != '[]' ]]
	[[ $(find shelf -name '*.zst' | wc -l) -gt $before ]]
	sc-catchup "$shelf/t" >all
	# one that is gone there stays here, and all above it
	rm "$(nth shelf 2)"
	chmod a-w shelf/t/sealed
	[[ $(id -u) -eq 0 ]] || run -77 sc-seal t --archive "$shelf" --keep-local 1ms
	chmod u+w shelf/t/sealed
	run -0 --separate-stderr sc-seal t --archive "$shelf" --keep-local 1ms
	[[ -z $output && -z $stderr && -z $(find t/sealed -name '*.zst') ]]
	sc-catchup "$shelf/t" >again
	same all again
	run -79 --separate-stderr sc-catchup t --archive none --from 1
	sc-catchup t >again
	same all again
}

@test "sc-seal: an archive that cannot be reached removes nothing" {
	make_log 1000
	before=$(find t/sealed -name '*.zst' | wc -l)
	mv shelf away
	run -66 --separate-stderr sc-seal t --archive "$shelf" --keep-local 1ms
	[[ ${#stderr_lines[@]} -eq 1 ]]
	[[ $(find t/sealed -name '*.zst' | wc -l) -eq $before ]]
	mv away shelf
	run -0 sc-seal t --archive "$shelf" --keep-local 1ms
	[[ -z $(find t/sealed -name '*.zst') ]]
}

@test "an archive in a log, in its folder or in that of a copy: refused, and nothing is written there" {
	local at

	mkdir -p data copy
	sc-log create data/t --journal-size 8192
	fill data/t 1 500
	sc-seal data/t --force --target 8K
	cp -a data/t copy/t
	ln -s data other
	find data copy -type f ! -name '*mdb-lock' ! -name seal.lock -exec cksum {} + | sort >before
	for at in data data/t data/t/sealed other copy copy/../data/; do
		run -78 --separate-stderr sc-seal data/t --archive "file://$PWD/$at" --keep-rows 1
		[[ ${#stderr_lines[@]} -eq 1 && $stderr == *elsewhere* || $stderr == *'another folder than logs'* ]]
		run -78 sc-seal data/t --archive "file://$PWD/$at" --keep-rows 1 --take-over
		run -78 sc-seal data/t --archive "file://$PWD/$at" --force --dry-run
	done
	find data copy -type f ! -name '*mdb-lock' ! -name seal.lock -exec cksum {} + | sort >after
	same before after
	# nor is it read as one: the rows of its journals would be left out
	run -78 --separate-stderr sc-catchup "file://$PWD/data/t"
	[[ -z $output && $stderr == *'the folder of a log'*path* ]]
	run -78 --separate-stderr sc-log restore elsewhere/t --archive "file://$PWD/data"
	[[ ! -e elsewhere ]]
	run -64 --separate-stderr sc-seal data/t --archive https://host/path
	[[ $stderr == *'; give file:'* ]]
}

# without WHICH: the archive of a log of some segments, but for its first, last, or any segment; what is missing is [$missing, $behind).
without() {
	local file name

	rm -rf t shelf
	mkdir shelf
	make_log 1000
	case $1 in
	first) file=$(nth shelf 1) ;;
	last) file=$(find shelf -name '*.zst' | sort | tail -n 1) ;;
	esac
	name=$(basename "${file:-$(nth shelf 1)}")
	missing=$((10#${name%%-*})) behind=$((10#${name:21:20} + 1))
	cp -a t full
	if [[ -n ${file-} ]]; then rm "$file"; else find shelf -name '*.zst' -delete; fi
}

@test "objects that somebody removed are missed: the first, the last, all of them" {
	local which

	for which in first last all; do
		without "$which"
		run -65 --separate-stderr sc-catchup "$shelf/t"
		[[ $stderr == *"between offsets $((missing - 1)) and $behind"*"the last good offset is $((missing - 1))"* ]]
		[[ $(wc -l <<<"$output") -eq $((missing > 1 ? missing - 1 : 1)) ]]
		run -65 sc-catchup "$shelf/t" --verify
		run -65 sc-catchup "$shelf/t" --since 1d
		[[ $which == all ]] || run -0 sc-catchup "$shelf/t" --from "$((which == first ? behind : 1))" --to "$((which == first ? behind : 1))"
		# a restore says so before it takes the archive
		cksum shelf/t/epoch.json >before
		run -65 --separate-stderr sc-log restore new/t --archive "$shelf"
		[[ $stderr == *"from offset $missing up to $behind"*--partial* && ! -e new ]]
		cksum shelf/t/epoch.json >after
		same before after
		# what the log has is put there again; what it has no longer is told, once
		run -0 --separate-stderr sc-seal t --archive "$shelf" -v
		[[ $stderr == *"uploaded segment $missing-$((behind - 1))"* ]]
		sc-catchup "$shelf/t" >got
		sc-log read t >all
		same all got
		rm -rf full
	done
	without first
	sc-seal t --archive "$shelf" # there again
	sc-seal t --archive "$shelf" --keep-rows 1
	find shelf -name '*.zst' | sort | sed -n 1,3p | xargs rm
	run -0 --separate-stderr sc-seal t --archive "$shelf" --json
	[[ ${#stderr_lines[@]} -eq 1 ]]
	jq -e '.level == "warning" and (.text | test("rows 1 to [0-9]+ are not in the archive any more"))' <<<"$stderr"
	jq -e '.lost | length == 1 and .[0].first == 1' <<<"$output"
	run -0 --separate-stderr sc-seal t --archive "$shelf"
	[[ -z $stderr ]]
}

@test "sc-seal: a segment of the log that is missing is named, with what to do" {
	make_log 500
	rm -rf shelf/t t/archive.json "$(nth t/sealed 2)"
	run -65 --separate-stderr sc-seal t --archive "$shelf"
	[[ ${#stderr_lines[@]} -eq 1 && $stderr == *'last good offset'*'put it back'* ]]
}

@test "sc-seal: another object of that name is an error that names both" {
	make_log 500
	rm t/archive.json shelf/t/epoch.json
	flip "$(nth shelf 1)" 40
	run -65 --separate-stderr sc-seal t --archive "$shelf" --keep-local 1ms
	[[ $stderr == *"$(basename "$(nth shelf 1)")"*t/sealed/* ]]
	[[ -n $(find t/sealed -name '*.zst') ]]
}

@test "sc-seal: of two copies of a log, one archives; the other is told why not" {
	make_log 500
	mkdir other
	cp -a t other/t
	rm other/t/archive.json
	run -77 --separate-stderr sc-seal other/t --archive "$shelf"
	[[ $stderr == *'another copy of this log'* ]]
	sc-log create other/u
	mv other/u other/x && mkdir other/y && mv other/x other/y/t
	run -78 --separate-stderr sc-seal other/y/t --archive "$shelf"
	[[ $stderr == *'another stream'* ]]
}

@test "sc-seal --keep-archive: what it gives up does not come back" {
	make_log 2000
	run -0 --separate-stderr sc-seal t --archive "$shelf" --keep-archive 3K --json
	[[ $(jq '.expired | length' <<<"$output") -gt 0 ]]
	count=$(find shelf -name '*.zst' | wc -l)
	run -0 --separate-stderr sc-seal t --archive "$shelf" --keep-archive 3K --json
	[[ $(jq '(.expired + .uploaded) | length' <<<"$output") -eq 0 ]]
	[[ $(find shelf -name '*.zst' | wc -l) -eq $count ]]
	run -79 --separate-stderr sc-catchup --json "$shelf/t" --from 1
	first=$(jq .earliest <<<"$stderr")
	sc-catchup "$shelf/t" >got
	same got <(sc-log read t --from "$first")
	run -64 sc-seal t --keep-archive 7d
	run -64 sc-seal t --archive shelf
	run -64 --separate-stderr sc-seal t --archive "$shelf" --keep-archive soon
	[[ $stderr == *--keep-archive* ]]
}

@test "sc-seal --watch archives what it seals" {
	make_log 500
	start watch sc-seal t --watch --interval 50ms --age 1ms --archive "$shelf"
	fill t 501 600
	archived() { [[ $(sc-catchup "$shelf/t" | wc -l) -eq 600 ]]; }
	wait_for archived
	stop watch
	[[ $ended -eq 143 || $ended -eq 0 ]]
	[[ ! -s watch.err ]]
}

@test "a note of the archive that is damaged, or of another name: no history is left out in silence" {
	make_log 500
	sc-catchup t >all
	first=$(sc-log info t --json | jq .first)
	sc-log trim t --before $((first + 100))
	cp t/archive.json note
	for note in garbage '{"format":1}' "$(jq -c '.archive = "file:///nowhere/other"' note)"; do
		echo "$note" >t/archive.json
		for range in '' '--from 1' '--since 1970-01-02' --verify; do
			run -65 --separate-stderr sc-catchup t $range
			[[ -z $output && $stderr == *archive* && $stderr == *--archive* ]]
		done
		run -0 --separate-stderr sc-catchup t --archive none
		[[ ${#lines[@]} -eq $((500 - first - 99)) ]]
		run -0 --separate-stderr sc-catchup t --from $((first + 100))
		sc-catchup t --archive "$shelf" >got
		same all got
	done
	mv t renamed
	cp note renamed/archive.json
	run -65 --separate-stderr sc-catchup renamed
	[[ -z $output && $stderr == *"$shelf/t"*'another name'* ]]
	sc-catchup renamed --archive "$shelf/t" >got
	same all got
}

@test "sc-seal: an archive of two users: each may lock it, and no probe is left" {
	[[ $(id -u) -eq 0 ]] || skip "needs root to be two users"
	make_log 100
	place=$(mktemp -d /tmp/sc-users.XXXXXX) # where nobody has a way to
	cp -r shelf "$(command -v sc-log)" "$place"
	chown -R 65534 "$place"
	chown root "$place/shelf/.sc-lock"
	chmod 644 "$place/shelf/.sc-lock"
	run --separate-stderr setpriv --reuid 65534 --regid 65534 --clear-groups "$place/sc-log" restore "$place/new/t" \
		--archive "file://$place/shelf"
	left=$(find "$place" -name 'condition*')
	rm -r "$place"
	[[ $status -eq 0 && -z $left ]]
}

@test "numbers at the limits of 64 bits: told as they are; a foreign file with such a name hides nothing" {
	make_log 300
	for place in t "$shelf/t"; do
		run -79 --separate-stderr sc-catchup "$place" --from 18446744073709551615 --json
		[[ $stderr == *'"offset":18446744073709551615,'* ]]
	done
	sc-catchup t >all
	for last in 18446744073709551614 18446744073709551615; do
		: >"shelf/t/sealed/00000000000000000001-$last.ndjson.zst"
		: >"shelf/t/sealed/$last-$last.ndjson.zst"
		sc-catchup "$shelf/t" >got
		same all got
		rm shelf/t/sealed/*"-$last.ndjson.zst"
	done
	sc-log create m
	run -79 --separate-stderr sc-log append m --mirror <<<'[18446744073709551614,1]'
	[[ $stderr == *'18446744073709551614 is above the highest that there can be, 18446744073709551613'* ]]
}

@test "libcurl is loaded when an archive needs it, and not before; one that does not load is named" {
	mkdir broken
	: >broken/libcurl.so.4
	run -78 --separate-stderr env LD_LIBRARY_PATH="$PWD/broken" sc-catchup http://127.0.0.1:1/t
	[[ $stderr == "sc-catchup: cannot use archive 'http://127.0.0.1:1/t': libcurl does not start: "*libcurl.so.4*"install Debian's libcurl4"* ]]
	make_log 300
	sc-catchup t >all
	LD_LIBRARY_PATH="$PWD/broken" sc-catchup "$shelf/t" >got
	same all got
}
