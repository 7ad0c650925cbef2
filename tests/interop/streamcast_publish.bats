# sc-pub against real streamcast servers: 0.8.0 (where it must be asked for) and the newest. What it prints is what
# subscribers get; a row that does not fit is refused; a release that takes no publishers, or no producers, says so.

load ../lib/common
load interop

setup() {
	needs sc-pub sc-sub
	sc_setup
}

teardown() { sc_teardown; }

pub() { timeout 90 sc-pub "$@"; }

# publishes ARGUMENT...: to the server that was started.
publishes() {
	seq 1 3000 | sed 's/.*/{"price":&.25,"event_ts":&,"side":"é&"}/' >in
	pub "$url/trades" <in >got
	timeout 90 sc-sub --offset earliest --until-end "$url/trades" >want
	same want got
	[ "$(wc -l <got)" -eq 3000 ]
	run -0 pub "$url/live" <<<'{"x":1}'
	[ "$output" = '[null,{"x":1}]' ]
	run -65 --separate-stderr pub "$url/trades" <<<$'{"event_ts":1,"price":1}\n{"event_ts":1,"price":"x"}'
	[[ $stderr == *"on line '2': column 'price'"* ]]
	run -66 --separate-stderr pub "$url/nothing" <<<'{}'
	run -76 --separate-stderr pub -P p --bare "$url/trades" <<<'{}'
	[[ $stderr == *'leave --producer out' ]]
}

@test "publishing to 0.8.0" {
	peer server "${python_mid[@]}" "$SC_TESTS/interop/streamcast_server.py" --root root --publish
	publishes
	peer server "${python_mid[@]}" "$SC_TESTS/interop/streamcast_server.py" --root root
	run -77 --separate-stderr pub "$url/trades" <<<'{"event_ts":1,"price":1}'
}

@test "publishing to the newest" {
	peer server "${python_new[@]}" "$SC_TESTS/interop/streamcast_server.py" --root root
	publishes
}

@test "0.1.0 takes no publishers" {
	peer server "${python_old[@]}" "$SC_TESTS/interop/streamcast_server.py" --root root
	run -77 --separate-stderr pub "$url/trades" <<<'{"event_ts":1,"price":1}'
	[[ $stderr == *': the server takes no publishers'* ]]
}
