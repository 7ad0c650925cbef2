#!/usr/bin/env bats
# sc-sub --catch-up: rows that the server has no more come from the archive, once, in order, in their own bytes; where that is;
# what nobody holds; rounds; delivery, filters and ends as they are live. The server is sc-serve, or peer.py with its refusals.
# run: limit 300

load ../lib/common

setup() {
	needs sc-sub sc-serve sc-seal
	sc_setup
	mkdir shelf
	shelf=file://$PWD/shelf
}

teardown() { sc_teardown; }

fill() { # fill FROM TO
	seq "$1" "$2" | sed 's/.*/{"n":&,"price":0.10}/' | sc-log append --quiet --batch-rows 50 t
}

# t: 2000 rows archived, 400 more that are not; `allhas them. With "evict" the lower ones are only in the archive.
make_log() {
	sc-log create t --journal-size 8192
	fill 1 2000
	sc-seal t --force --target 8K --archive "$shelf"
	fill 2001 2400
	sc-log read t >all
	[[ $1 != evict ]] || sc-seal t --target 8K --archive "$shelf" --keep-rows 300
	floor=$(sc-log info t --json | jq .first)
	end=$(sc-catchup "$shelf/t" --from 2000 | tail -n 1 | jq '.[0] + 1') # of the archive
}

whole() { sc-sub "$url/t" --catch-up --archive "$shelf" --until-end --quiet "$@"; }

@test "too_old and evicted rows come from the archive: the same bytes, once, in order" {
	make_log stay
	for kind in too_old evicted; do
		[[ $kind == too_old ]] || sc-seal t --target 8K --archive "$shelf" --keep-rows 300
		floor=$(sc-log info t --json | jq .first)
		limit=(--max-replay 500)
		[[ $kind == too_old ]] || limit=()
		serve server "${limit[@]}" t
		run -79 --separate-stderr sc-sub "$url/t" --offset 1 --quiet
		[[ $stderr == *"($kind); read them from the archive with --catch-up, or accept the loss and begin with"* ]]
		for from in 1 2 1000 1900; do
			whole --offset $from >got
			same <(tail -n +$from all) got
		done
		whole --after 1500 >got
		same <(tail -n +1501 all) got
		sc-sub "$url/t?offset=7" --catch-up --archive "$shelf/t" --until-end --quiet >got
		same <(tail -n +7 all) got
		# what the server has needs no archive
		sc-sub "$url/t" --offset 2200 --catch-up --archive "file://$PWD/nowhere" --until-end >got
		same <(tail -n +2200 all) got
		stop server
	done
	[[ $floor -gt 1000 ]]
	# the earliest of all is the server's; when it does not replay so much, the archive's
	serve server t
	[[ $(whole --offset earliest | head -n 1) == "[$floor,"* ]]
	serve server --max-replay 420 t
	whole --offset earliest >got
	same all got
}

@test "it follows on live, and catches up again when a connection that was lost is refused" {
	make_log evict
	serve server t
	start sub sc-sub "$url/t" --offset 1 --catch-up --archive "$shelf" --cursor c --retry-wait 100ms --events 5 5>events
	wait_for lines sub.out 2400
	fill 2401 2402
	wait_for lines sub.out 2402
	[[ $(jq -r .event events) == $'connected\nlost\ncatch_up\ncaught_up\nconnected' ]]
	jq -se --arg url "$shelf/t" --argjson to "$end" '.[2] | .archive == $url and .first == 1 and .next == $to' events
	jq -se --argjson to "$end" '.[3] | .rows == $to - 1 and .resume == $to' events
	# days pass
	server_port=$port
	stop server
	fill 2403 6000
	sc-seal t --force --target 8K --archive "$shelf" --keep-rows 300
	fill 6001 6010
	[[ $(sc-log info t --json | jq .first) -gt 5000 ]]
	ready server sc-serve --listen "127.0.0.1:$server_port" t
	wait_for lines sub.out 6010
	stop sub
	[[ $ended -eq 143 && $(cat c) -eq 6010 ]]
	same sub.out <(seq 6010 | sed 's/.*/[&,{"n":&,"price":0.10}]/')
	grep -q 'reading offsets 2403 to 6000 from the archive' sub.err
}

@test "--count, --to, --until-end, --payload, --filter and the URL's where work in the archive" {
	make_log evict
	serve server --wire 2 t
	whole --offset 5 --count 7 >got
	same <(sed -n 5,11p all) got
	whole --offset 5 --to 900 >got
	same <(sed -n 5,900p all) got
	whole --offset 5 --to 2001 >got
	same <(sed -n 5,2001p all) got
	whole --offset 1990 --payload >got
	same <(sed -n '1990,$p' all | sed 's/^\[[0-9]*,\(.*\)\]$/\1/') got
	whole --offset 1 --filter '.n % 700 == 0' --cursor c >got
	same <(sed -n '700p;1400p;2100p' all) got
	[[ $(cat c) -eq 2400 ]]
	sc-sub "$url/t?where=%7B%22n%22%3A%5B3%2C1999%2C2399%5D%7D" --offset 1 --catch-up --archive "$shelf" --until-end --quiet >got
	same <(sed -n '3p;1999p;2399p' all) got
	run -65 --separate-stderr whole --offset 1 --filter 'if .n == 600 then error("no") else true end'
	[[ ${#lines[@]} -eq 599 ]]
	# with an end that the server told while it was asked where the archive is, too
	run -64 --separate-stderr sc-sub "$url/t" --archive "$shelf"
	[[ $stderr == *'without --catch-up; add --catch-up' ]]
	run -64 --separate-stderr sc-sub "$url/t" --catch-up --archive shelf
	[[ $stderr == *'it is no URL'* ]]
}

@test "delivery in the archive: cursor, --exec, --ack-fd, a consumer that leaves, one that fails" {
	make_log evict
	serve server t
	whole --offset 1 --cursor c --exec 'cat >>got' --exec-rows 100
	same all got
	[[ $(cat c) -eq 2400 ]]
	rm c
	# the command fails in the middle of the archive: its rows come again, those before it do not
	run -1 --separate-stderr whole --offset 1 --cursor c --exec '[ $SC_OFFSET -ne 700 ] || [ -e go ]'
	[[ $(cat c) -eq 699 ]]
	touch go
	whole --cursor c --exec 'cat >>rest' --exec-rows 1000
	same <(tail -n +700 all) rest
	# what was acknowledged
	rm c
	mkfifo acks
	exec 8<>acks
	start sub sc-sub "$url/t" --offset 1 --cursor c --catch-up --archive "$shelf" --ack-fd 7 7<acks
	wait_for lines sub.out 2400
	[[ ! -e c ]]
	echo 1234 >&8
	wait_for grep -qx 1234 c
	stop sub
	exec 8<&-
	[[ $(cat c) -eq 1234 ]]
	# the reader leaves
	run -0 --separate-stderr sh -c "sc-sub $url/t --offset 1 --catch-up --archive $shelf --quiet | head -n 3"
	[[ ${#lines[@]} -eq 3 && -z $stderr ]]
	run -74 sh -c "sc-sub $url/t --offset 1 --catch-up --archive $shelf --until-end --quiet >/dev/full"
}

@test "a reader that stalls holds up the reading of the archive, not the memory" {
	[[ $SC_BUILD != *asan* ]] || skip "sanitizers have their own memory"
	sc-log create t --journal-size 1M
	seq 1 400000 | sed 's/.*/{"n":&,"x":"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"}/' | sc-log append -q t
	sc-seal t --force --target 1M --archive "$shelf" --keep-rows 1
	serve server t
	mkfifo pipe
	start sub sh -c "exec sc-sub $url/t --offset 1 --catch-up --archive $shelf --until-end --cursor c >pipe"
	exec 7<pipe
	head -c 200000 <&7 >got
	stalled() { # it sleeps, and has read no more than its buffers hold
		[[ $(awk '/^rchar/ { print $2 }' "/proc/${sc_pids[sub]}/io") -eq ${read:-0} ]] && return 0
		read=$(awk '/^rchar/ { print $2 }' "/proc/${sc_pids[sub]}/io")
		sleep 0.2
		return 1
	}
	wait_for stalled
	[[ $(awk '/^VmHWM/ { print $2 }' "/proc/${sc_pids[sub]}/status") -lt 40000 ]]
	[[ ! -e c || $(cat c) -lt 10000 ]]
	cat <&7 >>got
	exec 7<&-
	await sub
	[[ $ended -eq 0 && $(cat c) -eq 400000 ]]
	same got <(seq 1 400000 | sed 's/.*/[&,{"n":&,"x":"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"}]/')
}

@test "killed in the middle of it and started again: no row is missing" {
	make_log evict
	serve server t
	for at in 1 51 777 1500 1999 2350; do
		rm -f c got
		start sub sc-sub "$url/t" --offset 1 --catch-up --archive "$shelf" --cursor c --exec-rows 50 \
			--exec "cat >>got; [ \$SC_OFFSET -lt $at ] || kill -KILL \$PPID"
		await sub
		[[ $ended -eq 137 ]]
		before=0
		[[ ! -e c ]] || before=$(cat c)
		[[ $before -lt $at && $before -ge $((at - 51)) ]]
		sc-sub "$url/t" --after "$before" --catch-up --archive "$shelf" --until-end --quiet >rest
		same <(tail -n +$((before + 1)) all) rest
		# what was given to the command and not finished is all that comes twice
		[[ $(tail -n 1 got | jq '.[0]') -le $((before + 50)) ]]
		same <(head -n "$before" all) <(head -n "$before" got)
	done
}

@test "a gap that nobody holds: both numbers, before any row" {
	make_log stay
	fill 2401 4000
	sc-log trim t --before 3001
	serve server t
	run -79 --separate-stderr sc-sub "$url/t" --offset "$end" --catch-up --archive "$shelf" --quiet
	[[ -z $output && $stderr == *"neither the server nor the archive '$shelf/t' has the rows from offset $end to 3000; accept the loss with --offset 3001" ]]
	run -79 --separate-stderr sc-sub "$url/t" --offset 2500 --catch-up --archive "$shelf" --quiet --json
	jq -e '.why == "gap" and .first == 2500 and .last == 3000' <<<"${stderr_lines[-1]}"
	# those that there are come first
	code=0
	sc-sub "$url/t" --offset 1 --catch-up --archive "$shelf" --cursor c >got 2>err || code=$?
	[[ $code -eq 79 && $(cat c) -eq $((end - 1)) ]]
	same <(head -n $((end - 1)) all) got
	grep -q "from offset $end to 3000" err
	# the archive gave rows up too
	sc-seal t --archive "$shelf" --keep-archive 3K
	first=$(sc-catchup "$shelf/t" | head -n 1 | jq '.[0]')
	[[ $first -gt 1 ]]
	run -79 --separate-stderr sc-sub "$url/t" --offset 1 --catch-up --archive "$shelf" --quiet
	[[ -z $output && $stderr == *"from offset 1 to $((first - 1)); "*"--offset $first" ]]
}

greeting() { # greeting FROM END [MORE]
	echo "{\"streamcast\":1,\"stream\":\"t\",\"end_offset\":$2,\"replay\":[$1,$2],\"durable\":true,\"schema\":null,\"archive\":null${3:-}}"
}

refusal() { # refusal OFFSET EARLIEST [MORE]
	echo "{\"error\":\"not_replayable\",\"why\":\"evicted\",\"offset\":$1,\"earliest\":$2${3:-}}"
}

# peer STEP...
peer_steps() {
	rm -f peer.out
	start peer python3 "$SC_TESTS/cli/peer.py" "$@"
	wait_for lines peer.out 1
	url=ws://127.0.0.1:$(head -n 1 peer.out)
}

asked() { grep -c . <(grep '^asked ' peer.out); }

@test "where the archive is: the refusal, else the greeting of a connection made for that; else it is said that nobody knows" {
	make_log stay
	id=$(sc-log info t --json | jq -r .stream_id)
	# a server of protocol 1 or 2 says it as it refuses, in 123 bytes at most
	short=$(mktemp -u "${TMPDIR:-/tmp}/XXXXX")
	says() { echo "{\"error\":\"not_replayable\",\"why\":\"evicted\",\"archive\":\"file://$short/$1\"}"; }
	ln -s "$PWD/shelf" "$short"
	peer_steps close 4416 "$(says t)" next \
		text "$(greeting 2001 2002)" text "$(sc-log read t --from 2001 --to 2001)" close 1000 ''
	sc-sub "$url/t" --offset 1 --catch-up --quiet >got
	same <(head -n 2001 all) got
	[[ $(sed -n 's/^asked //p' peer.out) == $'/t?offset=1\n/t?offset=2001' ]]
	# a greeting: asked once, live, and closed at once
	for key in sc_archive archive log; do
		value=\"$shelf/t\"
		[[ $key != log ]] || value="{\"name\":\"t\",\"archive\":$value}"
		peer_steps close 4416 "$(refusal 1 1900)" next \
			text "$(greeting 2400 2401 ",\"$key\":$value,\"stream_id\":\"$id\"" | sed 's/"archive":null,//')" text '[2401,{}]' next \
			text "$(greeting 2001 2002 ",\"stream_id\":\"$id\"")" text "$(sc-log read t --from 2001 --to 2001)" close 1000 ''
		sc-sub "$url/t?where=%7B%7D" --offset 1 --catch-up --quiet >got
		same <(head -n 2001 all) got
		[[ $(sed -n 's/^asked //p' peer.out) == $'/t?where=%7B%7D&offset=1\n/t?where=%7B%7D\n/t?where=%7B%7D&offset=2001' ]]
	done
	# nobody says
	peer_steps close 4416 "$(refusal 1 1900)" next text "$(greeting 2400 2401)"
	run -66 --separate-stderr sc-sub "$url/t" --offset 1 --catch-up --quiet
	[[ $stderr == *'nothing says where the archive is: the server names none; name it with --archive' ]]
	[[ $(asked) -eq 2 ]]
	# one of another kind, as other servers have them
	mkdir shelf/ice
	for where in ice no; do
		peer_steps close 4416 "$(says $where)"
		run -66 --separate-stderr sc-sub "$url/t" --offset 1 --catch-up --quiet
		[[ $stderr == *"file://$short/$where"*'name that of sc-seal with --archive' && $(asked) -eq 1 ]]
	done
	rm "$short"
	# of another log
	peer_steps close 4416 "$(refusal 1 1900)" next text "$(greeting 2400 2401 ",\"sc_archive\":\"$shelf/t\",\"stream_id\":\"other\"")"
	run -78 --separate-stderr sc-sub "$url/t" --offset 1 --catch-up --quiet
	[[ -z $output && $stderr == *'another log'*other* ]]
	# the user knows better
	peer_steps close 4416 "$(refusal 1 1900)" next \
		text "$(greeting 2001 2002 ',"stream_id":"other"')" text "$(sc-log read t --from 2001 --to 2001)" close 1000 ''
	sc-sub "$url/t" --offset 1 --catch-up --archive "$shelf" --quiet >got
	same <(head -n 2001 all) got
}

@test "sc-serve says where the archive of its log is" {
	make_log evict
	serve server t
	sc-sub "$url/t" --offset 1 --catch-up --until-end --quiet >got
	same all got
	sc-sub "$url/t" --offset 1 --catch-up --until-end --quiet --json 2>err >got
	same all got
	# other servers of the same log may name another place
	mv shelf away
	run -66 --separate-stderr sc-sub "$url/t" --offset 1 --catch-up --quiet
	[[ $stderr == *"$shelf/t"* ]]
	serve server --archive "file://$PWD/away" t
	sc-sub "$url/t" --offset 1 --catch-up --until-end --quiet >got
	same all got
}

@test "rounds: refused again it reads on in an archive opened anew; then it says that the stream is too fast" {
	make_log stay
	fill 2401 9000
	seal="sc-seal t --force --target 8K --archive $shelf"
	peer_steps close 4416 "$(refusal 1 1900)" next run "$seal" close 4416 "$(refusal 2001 8000)" next \
		run "seq 3 | sc-log append -q t; $seal" close 4416 "$(refusal 9001 9002)" next \
		text "$(greeting 9004 9005)" text '[9004,4]' close 1000 ''
	run -0 --separate-stderr sc-sub "$url/t" --offset 1 --catch-up --archive "$shelf"
	[[ ${#lines[@]} -eq 9004 && ${lines[2000]} == '[2001,'* && ${lines[9000]} == '[9001,1]' && ${lines[9003]} == '[9004,4]' ]]
	[[ $(sed -n 's/^asked //p' peer.out) == $'/t?offset=1\n/t?offset=2001\n/t?offset=9001\n/t?offset=9004' ]]
	[[ $(grep -c 'reading offsets' <<<"$stderr") -eq 3 ]]
	# the archive did not go on
	peer_steps close 4416 "$(refusal 1 1900)" next close 4416 "$(refusal 9004 9500)"
	run -79 --separate-stderr sc-sub "$url/t" --offset 1 --catch-up --archive "$shelf" --quiet
	[[ $stderr == *"from offset 9004 to 9499"* && $(asked) -eq 2 ]]
	peer_steps close 4416 "$(refusal 1 1900)" next close 4416 "$(refusal 9004 9005)"
	run -79 --separate-stderr sc-sub "$url/t" --offset 1 --catch-up --catch-up-rounds 1 --archive "$shelf" --quiet --json
	[[ ${#lines[@]} -eq 9003 ]]
	jq -e '.rounds == 1 and .earliest == 9005 and (.reason | contains("up to offset 9003 in 1 rounds"))
		and (.next | contains("faster than it is archived"))' <<<"${stderr_lines[-1]}"
	# another refusal ends it
	peer_steps close 4416 "$(refusal 1 1900)" next close 4404 '{"error":"no_such_stream","serves":[]}'
	run -66 --separate-stderr sc-sub "$url/t" --offset 1 --catch-up --archive "$shelf" --quiet
	[[ ${#lines[@]} -eq 9003 && $(asked) -eq 2 ]]
}

@test "damage in the archive: named, 65; the rows before it are delivered and finished" {
	make_log evict
	serve server t
	file=$(find shelf -name '*.zst' | sort | sed -n 3p)
	good=$((10#$(basename "$file" | cut -c 1-20) - 1))
	python3 -c 'import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(60); b = f.read(1)[0]; f.seek(60); f.write(bytes([b ^ 1]))' "$file"
	code=0
	sc-sub "$url/t" --offset 1 --catch-up --archive "$shelf" --cursor c --json --quiet >got 2>err || code=$?
	[[ $code -eq 65 && $(cat c) -eq $good ]]
	same <(head -n "$good" all) got
	jq -se --argjson good "$good" '.[-1].last_good == $good' err
}

@test "a signal ends it at once, also when the archive does not answer" {
	make_log evict
	serve server t
	cat >stall.py <<-'END'
		import socket, sys, time
		s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(9)
		print(s.getsockname()[1], flush=True)
		held = []
		while True:
		    held.append(s.accept()[0]); print("came", flush=True)
	END
	start stall python3 stall.py
	wait_for lines stall.out 1
	start sub sc-sub "$url/t" --offset 1 --catch-up --archive "http://127.0.0.1:$(head -n 1 stall.out)/t" --events 5 5>events
	wait_for has stall.out came
	# nothing is connected meanwhile
	alone() { [[ $(curl -s "http://127.0.0.1:$port/stats" | jq '.streams[0].subscribers') -eq 0 && $(wc -l <events) -eq 2 ]]; }
	wait_for alone
	stop sub TERM
	[[ $ended -eq 143 && $took -lt 9000000 ]] # the archive's time is 30 s
	# its reader leaves meanwhile
	start left sh -c "sc-sub $url/t --offset 1 --catch-up --archive http://127.0.0.1:$(head -n 1 stall.out)/t | sleep 0.1"
	await left
	[[ $ended -eq 0 ]]
}

@test "an archive that is a moment old is told to who asks for what went there" {
	for round in 1 2 3; do # a server looks every second besides
		rm -rf t shelf/t
		sc-log create t --journal-size 8192
		serve server t
		fill 1 2000
		sc-log read t >all
		sc-seal t --force --target 8K --archive "$shelf" --keep-rows 300
		sc-sub "$url/t" --offset 1 --catch-up --until-end --quiet >got
		same all got
		stop server
	done
}
