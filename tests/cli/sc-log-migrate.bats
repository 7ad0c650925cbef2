#!/usr/bin/env bats
# sc-log migrate: what may be changed and in which words the rest is refused; programs that append, follow, serve, subscribe,
# seal and archive go on through it. Statuses, --json, --dry-run.
# run: limit 300

load ../lib/common
setup() {
	sc_setup
	schema one '"n":{"type":"integer"},"a":{"type":["string","null"]}' '"n"'
	schema two '"n":{"type":"integer"},"b":{"type":["number","null"]}' '"n"'
	sc-log create t --schema one
}
teardown() { sc_teardown; }

schema() { # FILE PROPERTIES REQUIRED
	printf '{"type":"object","properties":{%s},"required":[%s]}\n' "$2" "$3" >"$1"
}

refused() { # STATUS WORDS: sc-log migrate t --schema new
	run "-$1" --separate-stderr sc-log migrate t --schema new
	[[ -z $output ]]
	[[ $stderr == "sc-log: $2" ]]
}

@test "what changes is said, then done; the same schema is no change" {
	seq 3 | sed 's/.*/{"n":&}/' | sc-log append -q t
	schema new '"b":{"type":["number","null"],"format":"float"},"n":{"type":["integer","null"]}' ''
	run -0 sc-log migrate t --schema new --dry-run
	[[ $output == 'column added "b", float or null
column can be null now: "n", int64 or null
column removed "a", string or null
schema 2 would be in force from offset 4 on' ]]
	run -0 sc-log info t --json
	jq -e '.schema_version == 1 and .schema_from == 1 and (.schemas | length) == 1' <<<"$output"
	run -0 sc-log migrate t --schema - <new
	[[ ${lines[-1]} == 'schema 2 is in force from offset 4 on' ]]
	run -0 sc-log migrate t --schema new
	[[ $output == 'nothing to change: schema 2 is in force since offset 4' ]]
	run -0 sc-log migrate t --schema new --json
	[[ $output == '{"version":2,"from":4,"changed":false,"dry_run":false,"changes":[]}' ]]
	run -0 sc-log append t <<<'{"n":null}'
	[[ $output == '[4,{"b":null,"n":null}]' ]]
	run -0 sc-log info t
	[[ $output == *'number 2, in force since offset 4'* ]]
	run -0 sc-log info t --json
	jq -e '.schema_version == 2 and .schema_from == 4 and [.schemas[] | [.version, .from]] == [[1,1],[2,4]] and
		.schema == .schemas[1].schema and (.schemas[0].schema.properties | keys) == ["a","n"]' <<<"$output"
	schema new '"n":{"type":["integer","null"]},"b":{"type":["number","null"],"format":"float"},"c":{"type":["boolean","null"]}' ''
	run -0 sc-log migrate t --schema new --json --dry-run
	[[ $output == '{"version":3,"from":5,"changed":true,"dry_run":true,"changes":[{"change":"added","column":"c","type":"boolean","nullable":true},{"change":"order"}]}' ]]
	run -0 sc-log migrate t --schema new --quiet
	[[ -z $output ]]
}

@test "what may not be changed: the column and the rule" {
	schema new '"n":{"type":"integer"},"a":{"type":["string","null"]},"c":{"type":"string"}' '"n","c"'
	refused 78 "cannot change the schema of log 't': column 'c' is added and cannot be required: the rows before it have none; add null to its type"
	schema new '"n":{"type":"integer"},"a":{"type":"string"}' '"n","a"'
	refused 78 "cannot change the schema of log 't': column 'a' could be null so far and cannot be made required: rows with null are stored; leave null in its type, or add a column of another name"
	schema new '"n":{"type":"integer","format":"int32"}' '"n"'
	refused 78 "cannot change the schema of log 't': column 'n' cannot be int32: it is int64, and a column keeps its type for ever; give the new column another name"
	sc-log migrate t --schema two
	schema new '"n":{"type":"integer"},"a":{"type":["integer","null"]}' '"n"'
	refused 78 "cannot change the schema of log 't': column 'a' cannot be int64: it was removed as string, and a column keeps its type for ever; give the new column another name"
	# it comes back as what it was
	sc-log migrate t --schema one
	run -78 sc-log migrate t --schema new --json --dry-run
	echo '{"properties":{}}' >new
	run -78 sc-log migrate t --schema new
	echo '{"properties":' >new
	run -78 sc-log migrate t --schema new
	: >new
	refused 78 "cannot read the schema file 'new': it is empty"
	run -66 sc-log migrate t --schema nowhere
	run -66 sc-log migrate nowhere --schema one
	run -64 --separate-stderr sc-log migrate t
	[[ $stderr == 'sc-log: cannot migrate: --schema FILE is missing' ]]
	run -0 sc-log info t --json
	jq -e '.schema_version == 3' <<<"$output"
}

@test "an appender that runs takes rows of the new schema at once" {
	hold app
	start app sc-log append t
	say app '{"n":1,"a":"x"}'
	wait_for has app.out '[1,{"n":1,"a":"x"}]'
	sc-log migrate t --schema two
	say app '{"n":2,"b":0.5}'
	wait_for has app.out '[2,{"n":2,"b":0.5}]'
	sc-log migrate t --schema one
	say app '{"n":3}'
	wait_for has app.out '[3,{"n":3,"a":null}]'
	sc-log migrate t --schema two
	say app '' '{"n":4,"a":"x"}'
	await app || :
	[[ $ended -eq 65 ]]
	[[ $(cat app.err) == *"on line '5': not columns: a"* ]]
	close_input app
	[[ $(sc-log read t | wc -l) -eq 3 ]]
}

@test "what does not fit any more is set aside" {
	hold app
	start app sc-log append t --skip-bad bad
	say app '{"n":1,"a":"x"}'
	wait_for has app.out '[1,{"n":1,"a":"x"}]'
	sc-log migrate t --schema two
	say app ' {"a":"x", "n":2}' '{"n":3}'
	wait_for has app.out '[2,{"n":3,"b":null}]'
	[[ $(cat bad) == ' {"a":"x", "n":2}' ]]
	close_input app
	await app || :
	[[ $ended -eq 1 ]]
}

@test "a log without a schema gets one; what is there stays" {
	sc-log create u
	printf '%s\n' 7 '[1,2]' '{"n":"x"}' | sc-log append -q u
	sc-log migrate u --schema one
	run -65 sc-log append u <<<'7'
	run -0 sc-log append u <<<'[9,{"n":4}]'
	[[ $output == '[4,{"n":4,"a":null}]' ]]
	run -0 sc-log read u --payload
	[[ $output == $'7\n[1,2]\n{"n":"x"}\n{"n":4,"a":null}' ]]
	sc-seal -q u --force
	[[ $(ls u/sealed | wc -l) -eq 2 ]]
	run -0 sc-log read u --payload
	[[ ${#lines[@]} -eq 4 ]]
}

@test "history of both schemas: sealed, compacted, archived, made anew" {
	local i hash

	mkdir archive
	for i in 1 2 3; do
		seq 20 | sed 's/.*/{"n":&}/' | sc-log append -q t
		sc-seal -q t --force --archive "file://$PWD/archive"
	done
	sc-log migrate t --schema two
	for i in 1 2 3; do
		seq 20 | sed 's/.*/{"n":&}/' | sc-log append -q t
		sc-seal -q t --force --archive "file://$PWD/archive"
	done
	jq -e '.schema_version == 2 and .schema_from == 61' archive/t/log.json
	cmp t/log.json archive/t/log.json
	seq 20 | sed 's/.*/{"n":&}/' | sc-log append -q t
	hash=$(sc-log verify t)
	sc-log read t >want
	[[ $(grep -c '"a":null' want) -eq 60 && $(grep -c '"b":null' want) -eq 80 ]]
	sc-log reindex t
	[[ $(sc-log verify t) == "$hash" ]]
	sc-seal -q t --force --archive "file://$PWD/archive"
	[[ $(sc-log verify t) == "$hash" ]]
	sc-catchup "file://$PWD/archive/t" >got
	same want got
	sc-catchup "file://$PWD/archive/t" --verify
	sc-catchup t >got
	same want got
	# a copy without its index
	mkdir copy
	cp -r t/log.json t/journal t/sealed copy
	[[ $(sc-log verify copy) == "$hash" ]]
	[[ $(sc-log info copy --json | jq .schema_from) -eq 61 ]]
}

where() { # COLUMN VALUE: the command, in cmd
	cmd=(sc-sub "ws://127.0.0.1:$port/t?where=$(jq -rn --arg c "$1" --argjson v "$2" '{($c): $v} | @json | @uri')"
		--offset earliest --until-end --payload)
}

@test "a server tells the schema in force, and filters by it" {
	needs sc-serve sc-sub
	seq 3 | sed 's/.*/{"n":&,"a":"x"}/' | sc-log append -q t
	ready server sc-serve --wire 2 --listen 127.0.0.1:0 t
	start early sc-sub "ws://127.0.0.1:$port/t" --offset earliest
	wait_for lines early.out 3
	where a '"x"'
	run -0 "${cmd[@]}"
	[[ ${#lines[@]} -eq 3 && $output == '{"n":1,"a":"x"}'* ]]
	sc-log migrate t --schema two
	printf '%s\n' '{"n":4,"b":1}' '{"n":5}' | sc-log append -q t
	wait_for lines early.out 5
	sc-log read t >want
	same want early.out
	start events curl -sN -m 30 "http://127.0.0.1:$port/t?offset=0"
	wait_for grep -q '^data: .*"schema"' events.out
	sed -n 's/^data: //p' events.out | head -1 |
		jq -e '.schema.properties | keys_unsorted == ["n","b"]'
	# rows of before do not have the column: null
	where b null
	run -0 "${cmd[@]}"
	[[ $output == $'{"n":1,"a":"x"}\n{"n":2,"a":"x"}\n{"n":3,"a":"x"}\n{"n":5,"b":null}' ]]
	where a '"x"'
	run -76 --separate-stderr "${cmd[@]}"
	[[ $stderr == *"where:"*a* ]]
	running early
}

@test "appenders at full speed, followers, a subscriber and a sealer through migrations that are killed" {
	needs sc-serve sc-sub
	local i from last

	ready server sc-serve --listen 127.0.0.1:0 t
	start follow sc-log read t --follow --from 1
	start sub sc-sub "ws://127.0.0.1:$port/t?offset=0"
	for i in 1 2; do
		mkfifo "app$i.in"
		start "app$i" sc-log append t --quiet --batch-rows "$((i * 4))"
		start "rows$i" sh -c "exec seq -f '{\"n\":%.0f}' 1 100000000 >app$i.in"
	done
	start seal bash -c 'while :; do sc-seal -q t --force || exit; done'
	for i in {1..40}; do
		last=$(sc-log info t --json | jq .next)
		wait_for sh -c "[ \$(sc-log info t --json | jq .next) -gt $last ]"
		sc-log migrate t --schema "$([[ $((i % 2)) -eq 1 ]] && echo two || echo one)" >/dev/null &
		pid=$!
		if [[ $((i % 3)) -eq 0 ]]; then
			sleep "0.00$((RANDOM % 10))"
			kill -KILL "$pid" 2>/dev/null || :
		fi
		wait "$pid" || [[ $? -eq 137 ]]
	done
	running app1
	running app2
	running seal
	for i in app1 app2 seal; do
		stop "$i"
	done
	[[ ! -s app1.err && ! -s app2.err && ! -s seal.err ]]
	sc-log migrate t --schema one >/dev/null
	echo '{"n":0,"a":"end"}' | sc-log append -q t
	wait_for grep -q '"end"' follow.out
	wait_for grep -q '"end"' sub.out
	sc-log read t >want
	cmp want follow.out
	cmp want sub.out
	sc-log verify t >proof
	# each row as the schema at its offset says
	sc-log info t --json >info
	[[ $(jq .schema_version info) -gt 10 ]]
	python3 - <<-'END'
	import json
	eras = [(e["from"], list(e["schema"]["properties"])) for e in json.load(open("info"))["schemas"]]
	at, rows, seen = 0, 0, set()
	for line in open("want"):
	    offset, row = json.loads(line)
	    rows += 1
	    assert offset == rows, line
	    while at + 1 < len(eras) and eras[at + 1][0] <= offset:
	        at += 1
	    assert list(row) == eras[at][1], (line, eras[at])
	    seen.add(list(row)[1])
	assert seen == {"a", "b"}, seen
	END
	sc-log reindex t
	[[ $(sc-log verify t) == "$(cat proof)" ]]
	stop server
}
