#!/usr/bin/env bats
# sc-seal: made for cron. What it says, what it does, what a crash leaves; a log stays a log throughout.

load ../lib/common
setup() { sc_setup; }
teardown() { sc_teardown; }

rows() { # rows FROM TO: {"n":FROM} ...
	seq "$1" "$2" | sed 's/.*/{"n":&,"price":0.10}/'
}

# fill LOG FROM TO: more rows, each call more journals where these are small
fill() {
	rows "$2" "$3" | sc-log append --quiet --batch-rows 100 "$1"
}

# make LOG ROWS: one with small journals
make_log() {
	sc-log create "$1" --journal-size 8192
	fill "$1" 1 "$2"
}

journals() { find "$1/journal" -name '*.journal' | wc -l; }
segments() { find "$1/sealed" -name '*.zst' 2>/dev/null | wc -l; }

# Quiet and well: status 0 and no word.
silent() {
	run -0 --separate-stderr "$@"
	[[ -z $output && -z $stderr ]]
}

@test "silent and 0: nothing to do, nothing due, something done" {
	sc-log create t
	silent sc-seal t
	silent sc-seal t --force
	fill t 1 100
	silent sc-seal t
	[[ $(segments t) -eq 0 ]]
	silent sc-seal t --force
	[[ $(segments t) -eq 1 ]]
	silent sc-seal t --force
	[[ $(segments t) -eq 1 ]]
	silent sc-seal t -q --dry-run
}

@test "sealed rows are read as before, appended to, followed by new offsets" {
	make_log t 1000
	sc-log read t >before
	hash=$(sc-log verify t | cut -d ' ' -f 1)
	silent sc-seal t --force --target 16K
	[[ $(segments t) -gt 1 && $(journals t) -eq 1 ]]
	sc-log read t >after
	same before after
	[[ $(sc-log verify t | cut -d ' ' -f 1) == "$hash" ]]
	run -0 sc-log append t <<<'{"n":1001}'
	[[ $output == '[1001,{"n":1001}]' ]]
	sc-log read t --from 1000 | tail -n 1 >last
	[[ $(cat last) == '[1001,{"n":1001}]' ]]
}

@test "zstd alone reads what was sealed: the same bytes in the same order" {
	make_log t 3000
	sc-seal t --force --target 16K
	zstd -q -t t/sealed/*.zst
	zstdcat t/sealed/*.zst >them
	sc-log read t >ours
	same them ours
	zstdcat t/sealed/*.zst | jq -c '.[1]' >them
	sc-log read t --payload | jq -c . >ours
	same them ours
	[[ $(wc -l <ours) -eq 3000 ]]
}

@test "size: finished journals that make a segment are sealed, a rest waits for its age" {
	make_log t 2000
	before=$(journals t)
	silent sc-seal t --target 16K --age none
	[[ $(segments t) -ge 2 ]]
	[[ $(journals t) -lt $before ]]
	fill t 2001 2010
	silent sc-seal t --age 1h
	run -0 sc-seal t --age 1h --json
	jq -e '.sealed == [] and .unsealed.last == 2010' <<<"$output"
	sleep 0.2 # the age is the subject
	run -0 sc-seal t --age 100ms --json
	jq -e '.unsealed == null and .sealed[-1].why == "age" and .sealed[-1].last == 2010' <<<"$output"
}

@test "--json: one object a log, with all that was done" {
	make_log a 2000
	make_log b 10
	run -0 --separate-stderr sc-seal a b --force --target 16K --json
	[[ -z $stderr && ${#lines[@]} -eq 2 ]]
	jq -se '.[0].log == "a" and .[1].log == "b" and all(.ok and (.dry_run | not))' <<<"$output"
	jq -e '[.sealed[].rows] | add == 2000' <<<"${lines[0]}"
	jq -e '.sealed as $s | all(range(1; $s | length); $s[.].first == $s[. - 1].last + 1)' <<<"${lines[0]}"
	jq -e '.sealed[0] | .first == 1 and .journals >= 1 and .bytes > .file_bytes and .file_bytes > 0 and .why == "size"' \
		<<<"${lines[0]}"
	jq -e '.kept.segments == (.sealed | length) and .kept.why == "no limit" and .kept.rows == 2000' <<<"${lines[0]}"
	jq -e '.sealed | length == 1 and .[0].why == "force"' <<<"${lines[1]}"
	jq -e '(.ms | type) == "number" and .unsealed == null and .leftovers == 0' <<<"${lines[0]}"
	[[ $(jq '[.sealed[].file_bytes] | add' <<<"${lines[0]}") -eq $(cat a/sealed/*.zst | wc -c) ]]
}

@test "-v says it in words, one a step" {
	make_log t 1000
	run -0 --separate-stderr sc-seal t --force -v
	[[ -z $output ]]
	[[ $stderr =~ info:\ log\ \'t\':\ sealed\ [0-9]+\ journals\ into\ segment\ 1-1000 ]]
}

@test "--dry-run prints what a run then does, and changes nothing" {
	make_log t 4000
	sc-seal t --target 16K --age none
	fill t 4001 5000
	find t -type f ! -name '*mdb-lock' -exec cksum {} + | sort >before
	sc-seal t --dry-run --force --compact --target 24K --keep-rows 3000 >words
	sc-seal t --dry-run --force --compact --target 24K --keep-rows 3000 --json >would
	find t -type f ! -name '*mdb-lock' -exec cksum {} + | sort >after
	same before after
	sc-seal t --force --compact --target 24K --keep-rows 3000 --json >did
	for list in sealed compacted removed; do
		jq -c ".${list}[] | [.first, .last, .rows, .bytes, .why, .first_us, .last_us, .journals]" would >w
		jq -c ".${list}[] | [.first, .last, .rows, .bytes, .why, .first_us, .last_us, .journals]" did >d
		same w d
	done
	jq -e '.dry_run and (.sealed | length > 0) and (.removed | length > 0)' would
	[[ $(wc -l <words) -eq $(jq '(.sealed + .removed + .compacted) | length' did) ]]
	grep -q '^t: would seal ' words
	grep -q '^t: would remove segment 1-' words
	jq -e '.kept.rows >= 3000' did
}

@test "--dry-run with nothing to do says so on standard error" {
	make_log t 10
	run -0 --separate-stderr sc-seal t --dry-run
	[[ -z $output && $stderr == *'nothing to do'* ]]
	[[ ! -e t/sealed ]]
}

@test "--dry-run that fails does not say that there is nothing to do" {
	make_log t 10
	run -66 --separate-stderr sc-seal t --dry-run --archive "file://$PWD/nowhere"
	[[ -z $output && ${#stderr_lines[@]} -eq 1 && $stderr == *'no such folder'* ]]
}

# foretold OPTION...: what a dry run says is what a run with -v then says, word for word, but for sizes that are estimates.
foretold() {
	sc-seal t --dry-run "$@" |
		sed -E 's/^t: would (\w+)/\1/; s/^(seal|compact|upload|ship)\b/\1ed/; s/^remove /removed /; s/^verify /verified /
			s/^take the/took the/; s/^shiped/shipped/; s/(about )?[0-9]+ bytes on disk/N on disk/' >words
	sc-seal t -v "$@" 2>said
	sed -E "s/^.* (info|notice): log 't': //; s/[0-9]+ bytes on disk/N on disk/; s/ \\([0-9]+ bytes\\)\$//" said >did
	same words did
	[[ -s did ]]
}

@test "--dry-run foretells what goes to the archive and from it, word for word" {
	mkdir shelf
	make_log t 4000
	foretold --target 8K --archive "file://$PWD/shelf" --keep-archive 1K --ship
	fill t 4001 4900
	foretold --target 8K --age 1ms --archive "file://$PWD/shelf" --keep-archive 1K
	# nothing is kept there but the newest, which is not sealed yet when it is asked
	grep -q '^removed segment 4[0-9]*-[0-9]* from the archive' did
	fill t 4901 5600
	[[ $(find t/journal -name '*.journal' | wc -l) -gt 2 ]]
	foretold --target 1G --archive "file://$PWD/shelf" --ship
	[[ $(grep -c '^shipped' did) -gt 1 ]]
	foretold --force --compact --target 32K --archive "file://$PWD/shelf" --keep-rows 1 --keep-archive 1ms
	rm t/archive.json
	run -77 sc-seal t --dry-run --archive "file://$PWD/shelf"
	foretold --take-over --archive "file://$PWD/shelf"
	sc-seal t --dry-run --take-over --archive "file://$PWD/shelf" --json >would
	jq -e '.taken_over and .kept.file_bytes != null' would
	fill t 5601 5700
	sc-seal t --force --dry-run --archive "file://$PWD/shelf" --json >would
	jq -e '(.taken_over | not) and .kept.file_bytes == null and .sealed[0].file_bytes == null' would
	[[ $(find shelf -name '*.zst' | wc -l) -eq 1 ]]
}

@test "--dry-run needs no right to write" {
	local -a other=()

	# root may write anywhere: then it is tried as nobody
	[[ $(id -u) -ne 0 ]] || other=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	make_log t 1000
	chmod a+rx .
	chmod -R a+rX,a-w t
	cp "$(command -v sc-seal)" . # the build may lie where nobody has no way to
	run "${other[@]}" ./sc-seal t --dry-run --force
	chmod -R u+w t
	[[ $status -eq 0 && $output == *'would seal'* ]]
}

@test "small segments become larger ones" {
	sc-log create t
	for i in {0..11}; do
		fill t $((i * 50 + 1)) $((i * 50 + 50))
		sc-seal t --force --target 1M
	done
	[[ $(segments t) -lt 12 ]] # many of like size are put together by themselves
	sc-log read t >before
	run -0 sc-seal t --compact --target 1M --json
	jq -e '.compacted | length == 1 and .[0].first == 1 and .[0].last == 600 and .[0].segments > 1' <<<"$output"
	[[ $(segments t) -eq 1 ]]
	sc-log read t >after
	same before after
}

@test "retention by age, size and count, to the segment" {
	make_log t 1000
	sc-seal t --force --target 16K
	sleep 1.5 # the age is the subject
	fill t 1001 2000
	sc-seal t --force --target 16K
	run -0 sc-seal t --keep-local 1s --json --target 16K
	jq -e '(.removed | length > 0) and all(.removed[]; .why == "age" and .last <= 1000) and .kept.first == 1001 and
		.kept.why == "within the limits"' <<<"$output"
	[[ $(sc-log read t | head -n 1) == '[1001,'* ]]

	size=$(cat t/sealed/*.zst | wc -c)
	[[ $(segments t) -gt 2 ]]
	run -0 sc-seal t --keep-local $((size - 1))B --json --target 16K
	jq -e '.removed | length == 1 and .[0].why == "size"' <<<"$output"
	[[ $(cat t/sealed/*.zst | wc -c) -lt $size ]]

	rows=$(jq '.kept.rows' <<<"$output")
	first=$(find t/sealed -name '*.zst' -printf '%f\n' | sort | tail -n 1 | cut -c 1-20)
	last_rows=$((2001 - 10#$first))
	run -0 sc-seal t --keep-rows "$rows" --target 16K --json
	jq -e '.removed == []' <<<"$output"
	run -0 sc-seal t --keep-rows $((last_rows + 1)) --target 16K --json
	jq -e '.kept.segments == 2' <<<"$output"
	run -0 sc-seal t --keep-rows "$last_rows" --target 16K --json
	jq -e '.kept.segments == 1' <<<"$output"
	run -0 sc-seal t --keep-rows 1 --json --target 16K
	jq -e '.kept.segments == 1 and .kept.last == 2000 and all(.removed[]; .why == "rows")' <<<"$output"
	[[ $(segments t) -eq 1 ]]
	sc-log verify t
}

@test "retention never takes rows that are not sealed" {
	make_log t 500
	sleep 0.1 # older than what is kept
	silent sc-seal t --age none --target 1G --keep-local 1ms --keep-local 1B --keep-rows 1
	[[ $(sc-log read t | wc -l) -eq 500 ]]
	sc-seal t --force --keep-local 1B
	[[ $(sc-log read t | wc -l) -eq 0 ]]
	run -0 sc-log append t <<<'{"n":501}'
	[[ $output == '[501,{"n":501}]' ]]
	[[ $(sc-log read t) == "$output" ]]
}

@test "nonsense is refused before anything is touched" {
	make_log t 500
	for keep in 0 0s 0G -1d 5 7x '' '1d,2d'; do
		run -64 sc-seal t --force --keep-local="$keep"
		[[ $output == *--keep-local* ]]
	done
	run -64 sc-seal t --force --keep-local 1d --keep-local 2d
	run -64 sc-seal t --force --keep-local 1G --keep-local 2G
	run -64 sc-seal t --force --keep-rows 0
	run -64 sc-seal t --force --keep-rows -1
	run -64 sc-seal t --target 1
	run -64 sc-seal t --level 99
	run -64 sc-seal t --watch --dry-run
	run -64 sc-seal t ./t/
	run -64 sc-seal
	[[ ! -e t/sealed ]]
}

@test "a log that fails does not stop the others; the status tells" {
	make_log a 100
	make_log b 100
	run -66 --separate-stderr sc-seal a missing b --force
	[[ -z $output && ${#stderr_lines[@]} -eq 1 && $stderr == *"log 'missing'"* ]]
	[[ $(segments a) -eq 1 && $(segments b) -eq 1 ]]
	run -66 --separate-stderr sc-seal missing
	[[ ${#stderr_lines[@]} -eq 1 ]]
	run -66 --separate-stderr sc-seal missing a --json
	jq -se 'length == 2 and (.[0].ok | not) and .[0].error.status == 66 and .[1].ok' <<<"$output"
	jq -e '.status == 66' <<<"$stderr"
}

@test "damage in a journal is named, and nothing is lost" {
	make_log t 1000
	journal=$(find t/journal -name '*.journal' | sort | sed -n 2p)
	printf 'x' | dd of="$journal" bs=1 seek=3000 conv=notrunc status=none
	run -65 --separate-stderr sc-seal t --force --target 16K
	[[ ${#stderr_lines[@]} -eq 1 && $stderr == *"$(basename "$journal")"* ]]
	[[ -e $journal ]]
	[[ $(find t -name '*.zst*' | wc -l) -eq $(segments t) ]]
}

@test "a second run leaves at once, with 75 and the process" {
	make_log t 100
	start w sc-seal --watch t -v
	wait_for has w.err watching
	run -75 --separate-stderr sc-seal t --force
	[[ ${#stderr_lines[@]} -eq 1 && $stderr == *"another seal runs as process $pid"* ]]
	run -75 --separate-stderr sc-seal t --json
	jq -e --argjson pid "$pid" '.pid == $pid and .status == 75' <<<"$stderr"
	silent sc-seal t --dry-run -q
	stop w
	[[ $ended -eq 0 ]]
	silent sc-seal t --force
	[[ $(segments t) -eq 1 ]]
}

sealed_to() { # sealed_to LOG LAST: for wait_for
	compgen -G "$1/sealed/*-$(printf %020d "$2").*" >/dev/null
}

@test "--watch seals as rows come, and ends within two seconds" {
	watch_two() {
		rm -rf a b
		make_log a 100
		make_log b 100
		start w sc-seal --watch --age 1ms --interval 20ms a b --json
		wait_for sealed_to a 100
		wait_for sealed_to b 100
		fill a 101 200
		wait_for sealed_to a 200
		stop w
		[[ $ended -eq 0 ]]
		[[ ! -s w.err ]]
		jq -se 'length >= 3 and all(.ok and ((.sealed + .compacted) | length > 0))' w.out # quiet rounds are not told
	}
	quick 2500000 watch_two
}

@test "--watch: HUP seals what there is, at once" {
	make_log t 100
	start w sc-seal --watch --age none --interval 1h t -v
	wait_for has w.err watching
	kill -HUP "$pid"
	wait_for sealed_to t 100
	running w
	fill t 101 200
	kill -HUP "$pid"
	wait_for sealed_to t 200
	stop w
	[[ $ended -eq 0 ]]
}

@test "--watch goes on when a log fails, and when another one takes its place" {
	make_log t 100
	start w sc-seal --watch --age 1ms --interval 20ms t
	wait_for sealed_to t 100
	mv t gone
	wait_for has w.err 'tried again'
	make_log t 50
	wait_for sealed_to t 50
	running w
	[[ $(wc -l <w.err) -le 3 ]] # not a line a round
	stop w
	run -66 sc-seal --watch missing
}

@test "--watch sees that its log was replaced" {
	make_log t 100
	make_log u 50
	start w sc-seal --watch --age none --interval 1h t
	wait_for test -s t/seal.lock
	kill -HUP "$pid"
	wait_for sealed_to t 100
	mv t gone
	mv u t
	kill -HUP "$pid"
	wait_for sealed_to t 50
	stop w
	# the first round may just have had its last step before it when the folder went
	[[ $ended -eq 0 && $(wc -l <w.err) -le 1 ]]
}

@test "a reader and an appender run through seals: every row once, in order" {
	sc-log create t --journal-size 16384
	rows 1 20000 | sc-log append --quiet --batch-rows 50 t 3>&- &
	appender=$!
	start r sc-log read t --from 1 --follow --count 20000
	while kill -0 "$appender" 2>/dev/null; do
		sc-seal t --force --target 64K
		sc-log read t --from 1 >once
		awk -F'[[,]' '$2 != NR { exit 1 }' once
	done
	wait "$appender"
	sc-seal t --force --target 64K
	await r
	[[ $ended -eq 0 && ! -s r.err ]]
	rows 1 20000 | awk '{ print "[" NR "," $0 "]" }' >want
	same want r.out
	sc-log read t >all
	same want all
}

@test "killed at random moments: the next run finishes, nothing lost, nothing twice" {
	sc-log create t --journal-size 8192
	total=0
	for round in {1..25}; do
		fill t $((total + 1)) $((total + 600))
		total=$((total + 600))
		start s sc-seal t --force --compact --target 32K
		sleep "0.0$((RANDOM % 40 + 10))" # the moment is the subject
		stop s KILL
		[[ $(sc-log read t | wc -l) -eq $total ]]
	done
	silent sc-seal t --force --compact --target 32K
	rows 1 $total | awk '{ print "[" NR "," $0 "]" }' >want
	sc-log read t >got
	same want got
	zstdcat t/sealed/*.zst >them
	same want them
	[[ $(journals t) -eq 1 ]]
	run -0 sc-log verify t --json
	jq -e '.orphans == 0' <<<"$output"
}

@test "disk use is bounded over many rounds" {
	sc-log create t --journal-size 16384
	most=0
	for round in {1..30}; do
		rows $((round * 1000)) $((round * 1000 + 999)) | sc-log append --quiet t
		silent sc-seal t --force --target 64K --keep-local 12K
		[[ $(cat t/sealed/*.zst | wc -c) -le 12288 ]]
		use=$(du -sk t | cut -f 1)
		[[ $round -ne 10 ]] || most=$use
	done
	[[ $use -le $((most + 64)) ]]
	[[ $(sc-log read t | tail -n 1) == '[30000,'* ]]
	sc-log verify t
}

@test "a bar on a terminal only, and gone at the end; TERM in the middle of a long seal" {
	sc-log create t --journal-size 8M
	rows 1 1500000 | sc-log append --quiet t
	cp -r t u
	seal_and_stop() {
		rm -f u/seal.lock
		start s sc-seal u --force --level 19 --target 64M
		wait_for test -s u/seal.lock
		stop s
		[[ $ended -eq 143 && ! -s s.err && $(segments u) -eq 0 ]]
	}
	quick 2500000 seal_and_stop
	TERM=xterm script -qec "sc-seal u --force --level 9 -q --json" /dev/null </dev/null >screen
	jq -e '.leftovers == 0 and .sealed[-1].last == 1500000' screen # it tidied up, and drew nothing
	[[ $(sc-log verify u | cut -d ' ' -f 1) == "$(sc-log verify t | cut -d ' ' -f 1)" ]]
	TERM=xterm script -qec "sc-seal t --force --level 9" /dev/null </dev/null >screen
	grep -q 'seal \[#' screen
	[[ $(tail -c 4 screen) == $'\r\e[K' ]]
}

@test "no room: one line, status 74, and the next run goes on" {
	make_log t 1000
	sc-log read t >before
	SC_FAULT=fsync:1:ENOSPC run -74 --separate-stderr sc-seal t --force
	[[ ${#stderr_lines[@]} -eq 1 && $stderr == *'No space left on device'* ]]
	sc-log read t >after
	same before after
	silent sc-seal t --force
	sc-log read t >after
	same before after
	[[ $(segments t) -eq 1 ]]
}

@test "a report that cannot be written is an error; a reader that left is none" {
	make_log t 1000
	run -74 --separate-stderr bash -c 'sc-seal t --force --json >/dev/full'
	[[ $stderr == *'No space left on device'* ]]
	run -0 --separate-stderr bash -c 'set -o pipefail; sc-seal t --json | true'
	[[ -z $stderr ]]
}
