#!/usr/bin/env bats
# sc-log: what users expect of a log's command line. Options, words, statuses, and what a crash or a full disk leaves.

load ../lib/common
setup() { sc_setup; }
teardown() { sc_teardown; }

schema() {
	cat >s.json <<-'END'
	{"type":"object","properties":{"ts":{"type":"integer"},"price":{"type":"number"},"side":{"type":["string","null"]}},
	 "required":["ts","price"]}
	END
	sc-log create t --schema s.json
}

rows() { # rows FROM TO: {"n":FROM} ...
	seq "$1" "$2" | sed 's/.*/{"n":&}/'
}

@test "create, append, read: the bytes come back as they went in" {
	sc-log create t
	cat >in <<-'END'
	18446744073709551615
	1e1000
	1.0
	-0
	"\/ \u00e9 é"
	{"b":1,"a":2,"b":3}
	[ 1,  2 ]
	null
	END
	sc-log append t <in >out
	diff <(sed -n 's/^\[[0-9]*,\(.*\)\]$/\1/p' out) in
	sc-log read t >again
	same out again
	sc-log read t --payload >payload
	same in payload
}

@test "append prints a line at once, and the line is on disk then" {
	sc-log create t
	hold a
	start a sc-log append t
	say a '{"x":1}'
	wait_for has a.out '[1,{"x":1}]'
	stop a KILL
	run -0 sc-log read t
	[[ $output == '[1,{"x":1}]' ]]
}

@test "the last line counts without its newline; blank lines do not" {
	sc-log create t
	printf '1\n\n  \n2' | sc-log append t >out
	[[ $(cat out) == $'[1,1]\n[2,2]' ]]
}

@test "rows are checked and put in the schema's order" {
	schema
	run -0 --separate-stderr sc-log append t <<<'{"price":0.10,"side":"b","ts":9007199254740993}'
	[[ $output == '[1,{"ts":9007199254740993,"price":0.10,"side":"b"}]' ]]
	run -0 sc-log append t <<<'{"price":1,"ts":2}'
	[[ $output == '[2,{"ts":2,"price":1,"side":null}]' ]]
}

@test "a refused row: status 65, line and column named, what came before is stored" {
	schema
	printf '%s\n' '{"ts":1,"price":1}' '{"ts":1,"price":"x"}' '{"ts":2,"price":2}' >in
	run -65 --separate-stderr sc-log append t <in
	[[ $output == '[1,{"ts":1,"price":1,"side":null}]' ]]
	[[ $stderr == *"'2'"* && $stderr == *price* && $stderr != *$'\n'* ]]
	run -65 --separate-stderr sc-log append --json t <in
	[[ $(jq -r .line <<<"${stderr_lines[-1]}") == 2 ]]
	run -0 sc-log info --json t
	[[ $(jq .rows <<<"$output") == 2 ]]
}

@test "--skip-bad sets refused lines aside unchanged and goes on: status 1" {
	schema
	printf '%s\n' '{"ts":1,"price":1}' ' {"ts":1 ,"price":"x"}' 'junk' '{"ts":2,"price":2}' >in
	printf '{"ts":3' >>in
	run -1 --separate-stderr sc-log append --skip-bad bad t <in
	[[ ${#lines[@]} == 2 ]]
	[[ $stderr == *"3 of 5"*bad* ]]
	diff bad <(printf '%s\n' ' {"ts":1 ,"price":"x"}' junk '{"ts":3')
}

@test "the limit of a message: whole at the limit, one byte over refused, naming limit and flag" {
	sc-log create t --max-message 100
	python3 -c 'print("\"" + "x" * 98 + "\"")' | sc-log append t >out
	[[ $(wc -c <out) == 105 ]]
	run -65 --separate-stderr sc-log append t < <(python3 -c 'print("\"" + "x" * 99 + "\"")')
	[[ $stderr == *101*100*--max-message* ]]
	# a line without end is not held in memory
	(head -c 50000000 /dev/zero | tr '\0' 'x'; echo; echo '"y"') >in
	run -65 --separate-stderr sc-log append t <in
	[[ $stderr == *100*--max-message* ]]
	run -1 --separate-stderr sc-log append --skip-bad bad t <in
	[[ $output == '[2,"y"]' ]]
	same bad <(head -n 1 in)
}

@test "pairs: unwrapped where a row is an object, kept as they are where any JSON is a message" {
	schema
	run -0 sc-log append t <<<'[77,{"ts":1,"price":1}]'
	[[ $output == '[1,{"ts":1,"price":1,"side":null}]' ]]
	sc-log create any
	run -0 sc-log append any <<<'[77,{"ts":1}]'
	[[ $output == '[1,[77,{"ts":1}]]' ]]
	run -0 sc-log append --pairs any <<<'[77,{"ts":1}]'
	[[ $output == '[2,{"ts":1}]' ]]
	run -65 --separate-stderr sc-log append --pairs any <<<'{"ts":1}'
	[[ $stderr == *pair* ]]
	run -65 --separate-stderr sc-log append --bare t <<<'[77,{"ts":1,"price":1}]'
	run -64 --separate-stderr sc-log append --bare --mirror any </dev/null
}

@test "a line that is not JSON is refused, or taken wrapped and turned back" {
	sc-log create t
	run -65 --separate-stderr sc-log append t <<<'hello "you"'
	run -0 sc-log append --wrap t <<<'hello "you"'
	[[ $output == '[1,{"$text":"hello \"you\""}]' ]]
}

@test "--source: a chain neither loses nor repeats a row" {
	sc-log create A
	sc-log create B
	rows 1 100 | sc-log append --quiet A
	run -0 sc-log source B A
	[[ $output == 0 ]]
	sc-log read A --to 40 | sc-log append --quiet --source A B
	run -0 sc-log source B A
	[[ $output == 40 ]]
	sc-log read A --from 20 --to 70 | sc-log append --source A B >out
	[[ $(wc -l <out) == 30 ]]
	sc-log read A | sc-log append --quiet --source A B
	same <(sc-log read A) <(sc-log read B)
	rm B/index.*
	run -0 sc-log source B A
	[[ $output == 100 ]]
}

@test "--source through kill -9: B holds A exactly" {
	sc-log create A
	sc-log create B
	rows 1 20000 | sc-log append --quiet A
	for i in 1 2 3 4 5 6; do
		mkfifo chain$i
		start reader sc-log read A --from $(($(sc-log source B A) + 1))
		rm -f chain.in
		ln -s reader.out chain.in
		start chain sc-log append --quiet --batch-rows 50 --source A B
		sleep 0.0$i
		stop chain KILL
		stop reader KILL
	done
	sc-log read A --from $(($(sc-log source B A) + 1)) | sc-log append --quiet --source A B
	same <(sc-log read A) <(sc-log read B)
}

@test "--mirror keeps the offsets, refuses what does not rise" {
	sc-log create M
	printf '%s\n' '[5,"a"]' '[9,"b"]' | sc-log append --mirror M >out
	[[ $(cat out) == $'[5,"a"]\n[9,"b"]' ]]
	run -79 --separate-stderr sc-log append --mirror M <<<'[9,"c"]'
	[[ $stderr == *9*10* ]]
	run -79 --separate-stderr sc-log append --json --mirror M <<<'[9,"c"]'
	[[ $(jq -r .next_offset <<<"${stderr_lines[-1]}") == 10 ]]
	run -0 sc-log read M --from 6
	[[ $output == '[9,"b"]' ]]
}

@test "--if-next" {
	sc-log create t
	run -79 --separate-stderr sc-log append --if-next 2 t <<<1
	[[ $stderr == *'; look at what was appended meanwhile, and try with that' ]]
	[[ $stderr == *"2"*"1"* ]]
	run -0 sc-log append --if-next 1 t <<<1
	run -79 sc-log append --if-next 1 t <<<1
}

@test "ranges: offsets, last, count, times; the end is the end as it was" {
	sc-log create t
	rows 1 10 | sc-log append --quiet t
	sleep 0.01
	between=$(date +%s%3N)
	sleep 0.01
	rows 11 20 | sc-log append --quiet t
	[[ $(sc-log read t --from 3 --to 4 --payload) == $'{"n":3}\n{"n":4}' ]]
	[[ $(sc-log read t --last 2 --payload) == $'{"n":19}\n{"n":20}' ]]
	[[ $(sc-log read t --last 100 | wc -l) == 20 ]]
	[[ $(sc-log read t --from earliest --count 3 | wc -l) == 3 ]]
	[[ $(sc-log read t --since "$between" | head -1) == '[11,{"n":11}]' ]]
	[[ $(sc-log read t --until "$between" | tail -1) == '[10,{"n":10}]' ]]
	[[ $(sc-log read t --since 2001-01-01T00:00:00Z | wc -l) == 20 ]]
	[[ -z $(sc-log read t --until 2001-01-01T00:00:00Z) ]]
	[[ $(sc-log read t --from 19 --to 1000 | wc -l) == 2 ]]
	[[ -z $(sc-log read t --from 21) ]]
	run -79 --separate-stderr sc-log read t --from 22
	[[ $stderr == "sc-log: cannot read log 't': offset 22 is ahead of the end, 21; start at 21 to get what comes next" ]]
	run -79 --separate-stderr sc-log trim t --before 22
	[[ $stderr == "sc-log: cannot trim log 't': offset 22 is ahead of the end, 21; give an offset up to that one" ]]
	run -79 --separate-stderr sc-log read --json t --from 22
	[[ $(jq -r '.why, .end_offset' <<<"${stderr_lines[-1]}") == $'ahead\n21' ]]
	run -64 sc-log read t --last 3 --from 2
	run -64 sc-log read t --payload --times
	run -64 --separate-stderr sc-log read t --from 5 --to 4
	[[ $stderr == 'sc-log: cannot read: --to is before --from' ]]
	run -64 sc-log read t --since 1h --until 2h
	[[ $(sc-log read t --from 5 --to 5) == '[5,{"n":5}]' ]]
}

@test "--times and --where" {
	sc-log create t
	rows 1 10 | sc-log append --quiet t
	sc-log read t --times | jq -e '(.[1] / 1e6 - now | fabs) < 1000' >/dev/null
	[[ $(sc-log read t --where '.n > 8') == $'[9,{"n":9}]\n[10,{"n":10}]' ]]
	[[ $(sc-log read t --where 'select(.n == 3)' --count 1) == '[3,{"n":3}]' ]]
	run -78 --separate-stderr sc-log read t --where '.n >'
	# a program without end is stopped, and it is the program's fault, not ours
	run -65 --separate-stderr sc-log read t --where 'range(infinite) | "a longer string, many times"'
	[[ $stderr == *"row '1': its results of one input are more than "* ]]
}

@test "--follow prints new rows, also those of other processes, and ends with its reader" {
	sc-log create t
	rows 1 3 | sc-log append --quiet t
	start f sc-log read t --follow
	wait_for lines f.out 3
	rows 4 4 | sc-log append --quiet t
	wait_for lines f.out 4
	sc-log reindex t
	rows 5 5 | sc-log append --quiet t
	wait_for lines f.out 5
	rm t/index.*
	rows 6 6 | sc-log append --quiet t
	wait_for lines f.out 6
	stop f TERM
	[[ $ended == 143 ]]
	same f.out <(sc-log read t)
	# idle, and the reader leaves: the end, quietly
	run -0 --separate-stderr timeout 20 bash -c 'set -o pipefail; sc-log read t --follow | head -n 1'
	[[ -z $stderr ]]
	run -0 timeout 20 sc-log read t --follow --count 6
	run -0 timeout 20 sc-log read t --follow --to 6
}

@test "a stop: what was taken is committed, status 128+n" {
	sc-log create t
	hold a
	start a sc-log append --quiet t
	say a 1 2 3
	wait_for bash -c '[[ $(sc-log info --json t | jq .rows) == 3 ]]'
	stop a TERM
	[[ $ended == 143 ]]
	[[ $(sc-log read t | wc -l) == 3 ]]
}

@test "create, by several at once: one makes the log, the others are refused with 73" {
	local round i ids done_ones

	for round in 1 2 3 4 5 6 7 8; do
		ids=() done_ones=0
		for i in 1 2 3 4; do
			sc-log create "t$round" 2>>refused 3>&- &
			ids+=($!)
		done
		for i in "${ids[@]}"; do
			if wait "$i"; then
				done_ones=$((done_ones + 1))
			fi
		done
		[[ $done_ones == 1 ]]
		[[ $(echo 1 | sc-log append "t$round") == '[1,1]' ]]
	done
	[[ $(sort -u refused | sed 's/t[0-9]/T/' | sort -u) == "sc-log: cannot create log 'T': it exists already; choose another name" ]]
}

@test "a stop while nobody takes the output: the end all the same, at once with the second signal" {
	sc-log create t
	rows 1 100000 | sc-log append --quiet t
	mkfifo stuck
	exec {held}<>stuck
	start r bash -c 'exec sc-log read t >stuck'
	wait_for grep -q pipe_ "/proc/$pid/wchan"
	stop r TERM
	[[ $ended == 143 ]]
	start r bash -c 'exec sc-log read t >stuck'
	wait_for grep -q pipe_ "/proc/$pid/wchan"
	kill -TERM "$pid"
	wait_for grep -qE '^SigPnd.*0{16}' "/proc/$pid/status"
	began=$(date +%s%N)
	stop r TERM
	[[ $ended == 143 && $(($(date +%s%N) - began)) -lt 1500000000 ]]
	exec {held}>&-
}

@test "standard output: a reader that leaves ends append quietly, a full one with 74" {
	sc-log create t
	rows 1 200000 >in
	run -0 --separate-stderr bash -c 'set -o pipefail; sc-log append t <in | head -n 1'
	[[ $output == '[1,{"n":1}]' && -z $stderr ]]
	n=$(sc-log info --json t | jq .rows)
	same <(head -n "$n" in) <(sc-log read t --payload)
	run -74 --separate-stderr bash -c 'sc-log append t <in >/dev/full'
	[[ $stderr == *"No space left"* ]]
	run -74 bash -c 'sc-log read t >/dev/full'
}

@test "a full disk: 74, nothing acknowledged is lost, works again with space" {
	[[ $(id -u) == 0 ]] || skip "needs root for a small file system"
	mkdir small
	mount -t tmpfs -o size=1m tmpfs small 2>/dev/null || skip "cannot mount"
	sc-log create small/t
	rows 1 100000 >in
	rc=0
	sc-log append small/t <in >acked 2>err || rc=$?
	if [[ $rc != 74 ]]; then umount -l small; false; fi
	has err "No space left"
	n=$(wc -l <acked)
	sc-log read small/t >held
	cmp acked <(head -n "$n" held)
	mount -o remount,size=64m small
	tail -n +$(($(wc -l <held) + 1)) in | sc-log append --quiet small/t
	cmp in <(sc-log read small/t --payload)
	sc-log verify small/t
	umount small
}

@test "--wait-space waits for space" {
	[[ $(id -u) == 0 ]] || skip "needs root for a small file system"
	mkdir small
	mount -t tmpfs -o size=1m tmpfs small 2>/dev/null || skip "cannot mount"
	sc-log create small/t
	rows 1 100000 >a.in
	start a sc-log append --quiet --wait-space small/t
	wait_for has a.err "waiting for space" || { umount -l small; false; }
	mount -o remount,size=64m small
	await a
	[[ $ended == 0 ]]
	cmp a.in <(sc-log read small/t --payload)
	umount small
}

@test "info, in words and as JSON" {
	schema
	run -0 sc-log info --json t
	jq -e '.rows == 0 and .first == null and .next == 1 and .schema.type == "object" and .sources == {}' <<<"$output"
	printf '[3,{"ts":1,"price":2}]\n' | sc-log append --quiet --source up t
	run -0 sc-log info --json t
	jq -e '.rows == 1 and .first == 1 and .last == 1 and .sources.up == 3 and .bytes == 35 and (.stream_id | length) == 36' \
		<<<"$output"
	run -0 sc-log info t
	[[ $output == *"up at 3"* ]]
}

@test "verify: a range that is not there is refused, never another one proved" {
	sc-log create t --journal-size 4096
	seq 1 3000 | sc-log append --quiet --batch-rows 100 t
	sc-log trim t --before 2000
	first=$(sc-log info t --json | jq .first)
	run -79 --separate-stderr sc-log verify t --from 1
	[[ -z $output && $stderr == *"offset 1 is not held any more; the earliest is $first"* ]]
	run -79 --separate-stderr sc-log verify t --from 3002
	[[ -z $output && $stderr == *'ahead of the end, 3001'* ]]
	run -64 --separate-stderr sc-log verify t --to 0
	run -64 --separate-stderr sc-log verify t --from 2500 --to 2499
	run -0 sc-log verify t --from 3001
	run -0 sc-log verify t --from 2500 --to 2500
	[[ $output == *' 2500-2500 1 rows '* ]]
	run -0 sc-log verify t --from earliest
}

@test "verify prints one hash; damage names file and last good offset" {
	sc-log create a
	sc-log create b
	rows 1 1000 | sc-log append --quiet a
	rows 1 1000 | sc-log append --quiet --batch-rows 7 b
	[[ $(sc-log verify a) == "$(sc-log verify b)" ]]
	[[ $(sc-log verify a --from 5 --to 9) == "$(sc-log verify b --from 5 --to 9)" ]]
	[[ $(sc-log verify a) != "$(sc-log verify a --from 5)" ]]
	printf 'X' | dd of="$(echo b/journal/*)" bs=1 seek=3000 conv=notrunc status=none
	run -65 --separate-stderr sc-log verify b
	[[ $stderr == *journal*"last good offset"* ]]
	run -65 --separate-stderr sc-log read b
	[[ -n $output && $stderr == *"last good offset"* ]]
	cmp <(printf '%s\n' "$output") <(sc-log read a | head -n "${#lines[@]}")
}

@test "a segment that cannot be opened: the last good offset is that before it" {
	local file

	sc-log create t --journal-size 4K
	for i in 1 2 3; do rows 1 400 >in && sc-log append --quiet t <in; done
	sc-seal t --force --target 4K
	file=$(find t/sealed -name '*401-*')
	cp "$file" keep
	truncate -s 100 "$file"
	for command in 'sc-log read' 'sc-log verify' 'sc-catchup'; do
		run -65 --separate-stderr $command t
		[[ $stderr == *"$file"*'the last good offset is 400;'*'from 801'* ]]
	done
	run -0 sc-log read t --from 801
	[[ ${#lines[@]} -eq 400 ]]
	sc-log create other/t --journal-size 4K
	for i in 1 2 3; do sc-log append --quiet other/t <in; done
	sc-seal other/t --force --target 4K
	cp other/"$file" "$file"
	run -65 --separate-stderr sc-log read t
	[[ ${#lines[@]} -eq 400 && $stderr == *'another stream'*'the last good offset is 400;'* ]]
}

# hole FILE: t without it, after a reindex by hand, which tells.
hole() {
	rm "$1"
	run -1 --separate-stderr sc-log reindex t
	[[ ${#stderr_lines[@]} -eq 1 && $stderr == *'rows are missing'* ]]
}

@test "rows that are missing after a reindex by hand are never passed over in silence" {
	rows 1 400 >in
	sc-log create t --journal-size 4K
	for i in 1 2 3 4; do sc-log append --quiet t <in; done
	run -0 --separate-stderr sc-log reindex t
	[[ -z $stderr ]]
	cp -a t journals
	# between segments, and between segments and journals
	sc-seal t --force --target 4K
	sc-log append --quiet t <in
	cp -a t segments
	for first in 401 1201; do
		rm -rf t && cp -a segments t
		hole t/sealed/*"$first"-*
		run -65 --separate-stderr sc-log read t
		[[ ${#lines[@]} -eq $((first - 1)) ]]
		[[ $stderr == *"between offsets $((first - 1)) and $((first + 400)) are missing"* ]]
		run -65 --separate-stderr sc-log read t --from "$((first + 7))"
		[[ -z $output ]]
		run -65 sc-catchup t
		run -65 sc-log verify t
		run -0 sc-log read t --from "$((first + 400))"
		[[ ${#lines[@]} -eq $((2000 - first - 399)) ]]
		sc-log trim t --before "$((first + 400))"
		run -0 sc-log read t
		run -0 sc-log verify t
		cp segments/sealed/*"$first"-* t/sealed/
		run -0 sc-log reindex t
	done
	# at the front
	rm -rf t && cp -a segments t
	hole t/sealed/*0001-*
	run -65 --separate-stderr sc-log verify t
	[[ $stderr == *'400 rows before the first one that it holds, 401, are missing; the last good offset is 0;'*'--from 401'* ]]
	run -0 sc-log verify t --from 401
	# between journals
	rm -rf t && cp -a journals t
	hole t/journal/*401.journal
	run -65 --separate-stderr sc-log read t
	[[ ${#lines[@]} -eq 400 && $stderr == *'between offsets 400 and 801 are missing'* ]]
	run -0 sc-log read t --from 801
	[[ ${#lines[@]} -eq 800 ]]
	cp journals/journal/*401.journal t/journal/
	run -0 sc-log reindex t
	run -0 sc-log read t
	[[ ${#lines[@]} -eq 1600 ]]
}

@test "offsets that were never given are no rows that are missing" {
	sc-log create t --journal-size 4K
	for i in 1 3 7; do seq "$((i * 1000))" "$((i * 1000 + 500))" | sed 's/.*/[&,&]/' >in && sc-log append --quiet --mirror t <in; done
	run -0 sc-log read t
	[[ ${#lines[@]} -eq 1503 ]]
	sc-seal t --force --target 4K
	run -0 sc-log read t
	[[ ${#lines[@]} -eq 1503 ]]
	run -0 sc-log read t --from 2000 --to 3000
	[[ $output == '[3000,3000]' ]]
	sc-log trim t --before 2000
	run -0 --separate-stderr sc-log reindex t
	[[ -z $stderr ]]
	run -0 sc-log read t
	[[ ${#lines[@]} -eq 1002 ]]
}

@test "trim gives up rows; their offsets are refused and never used again" {
	sc-log create t --journal-size 4096
	rows 1 1000 | sc-log append --quiet --batch-rows 10 t
	before=$(ls t/journal | wc -l)
	sc-log trim t --before 501
	[[ $(ls t/journal | wc -l) -lt $before ]]
	[[ $(sc-log read t | head -n 1) == '[501,{"n":501}]' ]]
	run -79 --separate-stderr sc-log read --json t --from 500
	[[ $(jq -r '.why, .earliest' <<<"${stderr_lines[-1]}") == $'evicted\n501' ]]
	sc-log trim t --before 1001
	[[ -z $(sc-log read t) ]]
	rm t/index.*
	run -0 sc-log append t <<<'"next"'
	[[ $output == '[1001,"next"]' ]]
	run -64 sc-log trim t
}

@test "two appenders at full speed: both are right" {
	sc-log create t
	seq 1 20000 | sed 's/.*/{"a":&}/' >a.in
	seq 1 20000 | sed 's/.*/{"b":&}/' >b.in
	start a sc-log append --quiet --batch-rows 100 t
	start b sc-log append --quiet --batch-rows 77 t
	await a
	await b
	sc-log read t >out
	cmp a.in <(grep '"a"' out | sed 's/^\[[0-9]*,//; s/]$//')
	cmp b.in <(grep '"b"' out | sed 's/^\[[0-9]*,//; s/]$//')
	cmp <(seq 1 40000) <(sed 's/^\[\([0-9]*\),.*/\1/' out)
}

@test "refusals name what is wrong and what to do" {
	echo '{' >bad.json
	run -78 --separate-stderr sc-log create u --schema bad.json
	[[ $stderr == *"'bad.json': not JSON"*'; see sc-log(5), SCHEMA' && ! -e u ]]
	run -66 --separate-stderr sc-log read nothing
	[[ $stderr == *"'nothing'"*"sc-log create nothing"* ]]
	run -66 sc-log append nothing </dev/null
	sc-log create t
	run -73 --separate-stderr sc-log create t
	[[ $stderr == *"exists already"* ]]
	echo '{}' >bad.json
	run -78 sc-log create u --schema bad.json
	[[ ! -e u ]]
	sed -i 's/"format":1/"format":9/' t/log.json
	run -78 --separate-stderr sc-log read t
	[[ $stderr == *format*9* ]]
	run -64 sc-log
	run -64 sc-log append
}

@test "read --archive: rows that the log has no longer, then its own, by offset, time and number; --follow goes on" {
	needs sc-seal
	mkdir shelf
	sc-log create t --journal-size 8192
	seq 2000 | sed 's/.*/{"n":&}/' | sc-log append -q --batch-rows 50 t
	sc-seal t --force --target 8K --archive "file://$PWD/shelf"
	seq 2001 2100 | sed 's/.*/{"n":&}/' | sc-log append -q --batch-rows 50 t
	sc-log read t --times >stamps
	sc-log read t >all
	sc-seal t --target 8K --archive "file://$PWD/shelf" --keep-rows 300
	first=$(sc-log info t --json | jq .first)
	[[ $first -gt 1000 ]]
	run -79 sc-log read t --from 5
	[[ $(sc-log read t | head -n 1) == "[$first,"* ]]
	for url in "file://$PWD/shelf" "file://$PWD/shelf/t"; do
		sc-log read t --archive "$url" >got
		same all got
		sc-log read t --archive "$url" --from $((first - 2)) --count 4 >got
		same <(sed -n "$((first - 2)),$((first + 1))p" all) got
	done
	time=$(sed -n 707p stamps | jq '.[1]')
	sc-log read t -A "file://$PWD/shelf" --since "$time" --where '.n % 2 == 0' --times >got
	same <(jq -c "select(.[1] >= $time and .[2].n % 2 == 0)" stamps) got
	sc-log read t -A "file://$PWD/shelf" --until "$time" >got
	same <(jq -c "select(.[1] < $time) | [.[0], .[2]]" stamps) got
	for last in 1 50 100 101 400 $((2100 - first)) $((2101 - first)) $((2102 - first)) 1999 2099 2100 5000; do
		sc-log read t -A "file://$PWD/shelf" --last "$last" >got
		same <(tail -n "$last" all) got
	done
	start follow sc-log read t -A "file://$PWD/shelf" --follow --from 1990 --count 113
	wait_for lines follow.out 111
	printf '{"n":2101}\n{"n":2102}\n' | sc-log append -q t
	await follow
	[[ $ended -eq 0 && $(tail -n 1 follow.out) == '[2102,{"n":2102}]' ]]
	mv shelf away
	run -66 sc-log read t --archive "file://$PWD/shelf" --from 1
	sc-log read t --archive "file://$PWD/shelf" --from "$first" >got
	same <(sed -n "$first,2100p" all; tail -n 2 follow.out) got
	run -64 --separate-stderr sc-log read t --archive shelf
	run -64 --separate-stderr sc-log read "file://$PWD/away/t"
	[[ $stderr == *"sc-catchup file://$PWD/away/t" ]]
}
