# The options of sc-streams that are about subscriptions: what each takes, what it refuses and how, and that it does what it says. What
# subscriptions themselves do is in tests/streams.

load ../lib/common

setup() {
	needs sc-streams
	sc_setup
}

teardown() { sc_teardown; }

streams() { # NAME OPTION...
	local name=$1

	shift
	ready "$name" sc-streams data --listen 127.0.0.1:0 "$@" || return 1
	base=http://127.0.0.1:$port/v1/stream
	subs=$base/__ds/subscriptions
}

# ask STATUS CURL-ARGUMENT...: the answer's body in the file body
ask() {
	run -0 curl -s -m 20 -o body -w '%{http_code}' "${@:2}"
	[[ $output == "$1" ]] || {
		echo "${*:2} gave $output, not $1: $(cat body)" >&2
		return 1
	}
}

put() { # PATH JSON
	ask 201 -X PUT -H 'Content-Type: application/json' -d "$2" "$base/$1"
}

post() { # PATH JSON
	ask 204 -H 'Content-Type: application/json' -d "$2" "$base/$1"
}

# hook NAME OPTION...: a receiver; sets hook_url.
hook() {
	start "$1" python3 "$SC_TESTS/cli/hookpeer.py" "${@:2}"
	wait_for lines "$1.out" 1
	hook_url=http://127.0.0.1:$(head -1 "$1.out")/hook
}

subscribe() { # STATUS ID URL PATTERN
	ask "$1" -X PUT "$subs/$2" -d "{\"type\":\"webhook\",\"pattern\":\"$4\",\"webhook\":{\"url\":\"$3\"}}"
}

pull() { # STATUS ID MEMBERS
	ask "$1" -X PUT "$subs/$2" -d "{\"type\":\"pull-wake\",\"wake_stream\":\"wake\",$3}"
}

# says ID JQ: of what the server says of a subscription; for wait_for.
says() {
	curl -sf -m 20 "$subs/$1" | jq -e "$2"
}

refused() { # WORDS OPTION...
	run -64 --separate-stderr timeout 20 sc-streams --listen 127.0.0.1:0 "${@:2}" data
	[[ -z $output && $stderr == "sc-streams: cannot start: $1; see 'sc-streams --help'" && ! -e data ]]
}

@test "values that are no values: 64, and which ones are" {
	local timeout='--webhook-timeout takes a duration from 1ms to 10m, such as 250ms, 30s or 1h30m'

	refused "$timeout, not '0'" --webhook-timeout 0
	refused "$timeout, not '601s'" --webhook-timeout 601s
	run -64 --separate-stderr timeout 20 sc-streams --webhook-timeout soon data
	[[ $stderr == "sc-streams: cannot start: $timeout, not 'soon'; write a number and a unit, as 250ms, 30s, 5m, 1h30m or 7d" ]]
	refused "--max-subscriptions takes a number from 1 to 1000000, not '0'" --max-subscriptions 0
	refused "--max-subscriptions takes a number from 1 to 1000000, not '1000001'" --max-subscriptions 1000001
	refused "--max-subscriptions takes a number from 1 to 1000000, not 'many'" --max-subscriptions many
	refused "--max-links takes a number from 1 to 10000000, not '-1'" --max-links=-1
	refused "--max-links takes a number from 1 to 10000000, not '10000001'" --max-links 10000001
	refused "--subscriptions takes no value, and has 'yes'" --subscriptions=yes
	run -64 --separate-stderr timeout 20 sc-streams --webhook-ca some.pem data
	[[ $stderr == "sc-streams: cannot use --webhook-ca: no webhooks are delivered without --subscriptions; add --subscriptions" ]]
	run -78 --separate-stderr timeout 20 sc-streams --listen 127.0.0.1:0 --subscriptions --webhook-ca none.pem data
	[[ $stderr == "sc-streams: cannot use the CA file 'none.pem': No such file or directory; give a PEM file that can be read" ]]
	echo nonsense >nonsense.pem
	run -78 --separate-stderr timeout 20 sc-streams --listen 127.0.0.1:0 --subscriptions --webhook-ca nonsense.pem data
	[[ $stderr == "sc-streams: cannot use the CA file 'nonsense.pem': "* ]]
}

@test "values at their bounds are taken" {
	streams server --subscriptions --webhook-timeout 1ms --max-subscriptions 1 --max-links 1
	pull 201 a '"streams":["x"]'
	streams server --subscriptions --webhook-timeout 10m --max-subscriptions 1000000 --max-links 10000000
	ask 200 "$subs/a"
}

@test "--subscriptions: there are none without it, and they are there again with it" {
	hook hook
	streams server --subscriptions
	subscribe 201 mail "$hook_url" 'users/*'
	ask 200 "$base/__ds/jwks.json"
	put users/1 '[1]'
	wait_for lines hook.out 2
	jq -e '.[0] == "/hook" and (.[1] | startswith("t=")) and .[2].subscription_id == "mail" and .[2].streams[0].path == "users/1"' \
		<<<"$(tail -1 hook.out)"
	wait_for says mail '.streams[0].acked_offset == "0000000000000000_0000000000000005"'
	streams server --no-subscriptions
	ask 404 "$subs/mail"
	jq -e '.error.code == "SUBSCRIPTION_NOT_FOUND"' body
	ask 404 "$base/__ds/jwks.json"
	ask 404 -X PUT "$subs/other" -d '{"type":"pull-wake","wake_stream":"w","pattern":"*"}'
	post users/1 2
	# what came meanwhile is told when they are back
	streams server --subscriptions
	wait_for lines hook.out 3
	wait_for says mail '.streams[0].acked_offset == "0000000000000000_0000000000000010"'
	# under a prefix of one's own
	ready other sc-streams elsewhere --listen 127.0.0.1:0 --subscriptions --prefix /s/
	ask 201 -X PUT "http://127.0.0.1:$port/s/__ds/subscriptions/a" -d '{"type":"pull-wake","wake_stream":"w","pattern":"*"}'
	ask 404 "http://127.0.0.1:$port/v1/stream/__ds/subscriptions/a"
}

@test "--webhook-timeout: an answer that takes longer is none" {
	hook slow --wait 1.5
	streams server --subscriptions --webhook-timeout 200ms
	subscribe 201 mail "$hook_url" 'a'
	put a '[1]'
	wait_for says mail '.status == "failed" and .streams[0].acked_offset == "-1"'
	wait_for has server.err 'cannot deliver a wake'
	has server.err "to webhook '$hook_url'"
	# with more time the same answer counts
	streams server --subscriptions --webhook-timeout 30s
	wait_for says mail '.status == "active" and .streams[0].acked_offset == "0000000000000000_0000000000000005"'
}

@test "--max-subscriptions: one more is refused, until one goes; fewer than there are take none away" {
	streams server --subscriptions --max-subscriptions 2
	pull 201 a '"streams":["x"]'
	pull 201 b '"streams":["x"]'
	pull 400 c '"streams":["x"]'
	jq -e '.error.code == "INVALID_REQUEST" and (.error.message | test("subscriptions"))' body
	pull 200 a '"streams":["x"]'
	ask 204 -X DELETE "$subs/b"
	pull 201 c '"streams":["x"]'
	streams server --subscriptions --max-subscriptions 1
	ask 200 "$subs/a"
	ask 200 "$subs/c"
	ask 204 -X DELETE "$subs/a"
	pull 400 d '"streams":["x"]'
}

@test "--max-links: streams of one subscription" {
	streams server --subscriptions --max-links 2
	pull 400 a '"streams":["1","2","3"]'
	jq -e '.error.code == "INVALID_REQUEST"' body
	pull 201 a '"streams":["1"]'
	ask 204 "$subs/a/streams" -d '{"streams":["2"]}'
	ask 400 "$subs/a/streams" -d '{"streams":["3"]}'
	ask 204 -X DELETE "$subs/a/streams/1"
	ask 204 "$subs/a/streams" -d '{"streams":["3"]}'
	# streams that match later are made all the same, and not linked
	pull 201 p '"pattern":"n/*"'
	for n in 1 2 3; do
		put "n/$n" '[]'
	done
	says p '.streams | length == 2'
	run -0 curl -s "http://127.0.0.1:$port/metrics"
	[[ $output == *$'\nsc_streams_subscription_links_refused_total 1\n'* ]]
}

@test "--webhook-ca: an https webhook's certificate is checked against it" {
	unshare -rn true || skip 'needs a network of its own'
	for name in good other; do
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$name.key" -out "$name.pem" -days 2 -subj "/CN=$name" \
			-addext subjectAltName=IP:8.8.8.8 2>/dev/null
	done
	cat >inside.sh <<-'END'
		# A network in which an address of the open one is this machine's.
		set -eu
		ip link set lo up
		ip address add 8.8.8.8/32 dev lo
		python3 "$SC_TESTS/cli/hookpeer.py" --host 8.8.8.8 --cert good.pem --key good.key >hook.out &
		hook=$!
		trap 'kill "$hook" "${server:-$hook}" 2>/dev/null || :' EXIT
		until [ -s hook.out ]; do sleep 0.02; done
		for ca in other good none; do
			case $ca in none) set -- ;; *) set -- --webhook-ca "$ca.pem" ;; esac
			: >ready
			sc-streams "data-$ca" --listen 127.0.0.1:0 --subscriptions --ready-fd 9 "$@" 9>ready 2>"$ca.err" &
			server=$!
			until [ -s ready ]; do sleep 0.02; done
			base=http://127.0.0.1:$(jq .port ready)/v1/stream
			curl -sf -X PUT "$base/__ds/subscriptions/s" -o made -d '{"type":"webhook","streams":["a"],"webhook":{"url":"https://8.8.8.8:'"$(head -1 hook.out)"'/hook"}}'
			curl -sf -X PUT -H 'Content-Type: application/json' -d '[1]' "$base/a"
			n=0
			until curl -sf "$base/__ds/subscriptions/s" >"$ca.json" && jq -e '.status == "failed" or .streams[0].acked_offset == "0000000000000000_0000000000000005"' "$ca.json" >judged; do
				n=$((n + 1))
				[ "$n" -lt 500 ]
				sleep 0.02
			done
			kill "$server"
			wait "$server"
		done
	END
	SC_TESTS=$SC_TESTS timeout 100 unshare -rn sh inside.sh
	jq -e '.status == "active"' good.json
	[[ $(wc -l <hook.out) -eq 2 ]]
	for name in other none; do
		jq -e '.status == "failed"' "$name.json"
		has "$name.err" 'cannot deliver a wake'
		has "$name.err" 'certificate'
	done
}
