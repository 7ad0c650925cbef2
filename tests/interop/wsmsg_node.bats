# sc-node at the server of the published wsmsg package: the other order of elements, acks that it does not wait for, no patterns of
# subjects on its side; and beside that package's own nodes.

load ../lib/common

setup() {
	needs sc-node
	sc_setup
	unset SC_TOKEN SC_BROKER_URL
	wsmsg=(env "PYTHONPATH=$SC_INTEROP/wsmsg" PYTHONUNBUFFERED=1 python3 -m wsmsg)
	port=$(free_port)
	start server "${wsmsg[@]}" server -H 127.0.0.1 -p "$port"
	wait_for bash -c ": >/dev/tcp/127.0.0.1/$port"
	export SC_BROKER_URL=ws://127.0.0.1:$port
}

teardown() { sc_teardown; }

node() {
	local name=$1

	shift
	: >"$name.ready"
	sc-node "$1" --ready-fd 9 "${@:2}" </dev/null >"$name.out" 2>"$name.err" 3>&- 9>"$name.ready" &
	sc_pids[$name]=$!
	wait_for test -s "$name.ready" || { cat "$name.err" >&2; return 1; }
}

# The published subscriber has no sign of being ready but that it gets something.
theirs() { # NAME CHANNEL
	start "$1" "${wsmsg[@]}" -q subscribe "$2" -H 127.0.0.1 -p "$port"
	wait_for probed "$1" "$2"
}

probed() {
	sc-node pub "$2" probe --order reference && has "$1.out" ' probe null'
}

# The package's publisher waits 10 ms and is gone: what the server has not read by then is lost with the connection.
published() { # FILE VALUE
	"${wsmsg[@]}" -q publish c s "$2" -H 127.0.0.1 -p "$port" && has "$1" "$2"
}

@test "the document's order is refused; reference and auto work" {
	run -69 --separate-stderr sc-node pub c s 1
	[[ $stderr == *'--order auto finds out' ]]
	run -0 sc-node pub c s 1 --order reference
	run -0 sc-node pub c s 1 --order auto
}

@test "messages from sc-node to sc-node, in order, one at a time, only those that fit" {
	for order in reference auto; do
		node sub sub c 's*' --order "$order" --format data --count 300
		{
			echo '["c","other","passed over"]'
			seq 300 | jq -c '["c","s",.]'
		} | sc-node pub --order "$order"
		await sub
		[[ $ended -eq 0 ]]
		seq 300 | same - sub.out
	done
}

@test "values: what the package sends and takes, dates too" {
	theirs peer c
	node sub sub c '[st]' --order auto --format data
	sub_values='{"a":[1,-5,18446744073709551615,1.5,null,true],"é":"\n"}'
	wait_for published sub.out "$sub_values"
	sc-node pub c t '{"$map":[[{"$bin":"X19kYXRldGltZV9f"},true],[{"$bin":"YXNfc3Ry"},{"$bin":"MjAyNi0xMS0zMFQwMTowMjowMy4wMDAwMDA="}]]}' --order auto
	wait_for has sub.out '{"$map":[[{"$bin":"X19kYXRldGltZV9f"},true]'
	wait_for has peer.out ' t "2026-11-30T01:02:03"'
}

@test "requests and replies, each side in both parts" {
	node r reply rpc '*.request' --order auto -- jq '. + 1'
	run -0 --separate-stderr sc-node request rpc a.request 41 --order auto
	[[ $output == 42 ]]
	run -0 --separate-stderr sc-node request rpc a.request 42 --order reference
	[[ $output == 43 ]]
	run -0 --separate-stderr "${wsmsg[@]}" -q request rpc a.request 1 -H 127.0.0.1 -p "$port"
	[[ $output == 2 ]]
	run -80 sc-node request rpc other 1 --order reference --timeout 300ms
}

@test "--retry over a restart of the server" {
	hold pub
	start pub sc-node pub --order reference --retry --window 1
	node sub sub c --order reference --retry --format data --count 2
	say pub '["c","s",1]'
	wait_for lines sub.out 1
	stop server KILL
	start server "${wsmsg[@]}" server -H 127.0.0.1 -p "$port"
	wait_for bash -c ": >/dev/tcp/127.0.0.1/$port"
	# what comes before the subscription is there again reaches nobody
	wait_for bash -c "sc-node pub c s 2 --order reference && [[ \$(wc -l <sub.out) -ge 2 ]]"
	await sub
	[[ $ended -eq 0 ]]
	say pub '["c","s",3]'
	close_input pub
	await pub
	[[ $ended -eq 0 ]]
}
