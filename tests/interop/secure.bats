# TLS and proxies, between sc-capture, sc-sub, sc-serve and other people's ends.

load ../lib/common
load interop

setup() {
	needs sc-log sc-serve sc-sub sc-capture
	sc_setup
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -days 2 \
		-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>/dev/null
	feed=$SC_DATA/bitstamp-live-trades.jsonl
	frames=$(wc -l <"$feed")
}

teardown() { sc_teardown; }

secure_feed() {
	peer feed "${python_new[@]}" "$SC_TESTS/interop/feedserver.py" --report report.json --feed "$feed" \
		--cert cert.pem --key key.pem "$@"
}

@test "sc-capture checks a feed's certificate" {
	secure_feed 'play rest'
	run -0 --separate-stderr sc-capture "wss://localhost:$port/feed" --ca cert.pem --count "$frames"
	same <(printf '%s\n' "$output") "$feed"

	run --separate-stderr sc-capture "wss://localhost:$port/feed" --retry 0
	[ "$status" -ne 0 ]
	[ -z "$output" ]
	[[ $stderr == *certificate* ]]
}

@test "sc-capture --insecure takes any certificate, and warns" {
	secure_feed 'play rest'
	run -0 --separate-stderr sc-capture "wss://127.0.0.1:$port/feed" --insecure --count 1
	[[ $stderr == *insecure* || $stderr == *certificate* ]]
}

@test "fragments, splits and a reset over TLS lose nothing" {
	secure_feed 'style split; play 4; sync; reset' 'style fragments; play rest'
	run -0 --separate-stderr sc-capture "wss://localhost:$port/feed" --ca cert.pem --count "$frames"
	same <(printf '%s\n' "$output") "$feed"
}

@test "python websockets and sc-sub subscribe to sc-serve over TLS" {
	make_log 200
	serve server --cert cert.pem --key key.pem data/trades
	sc-log read data/trades >want
	"${python_new[@]}" "$SC_TESTS/interop/wsclient.py" --ca cert.pem --count 200 "wss://localhost:$port/trades?offset=0" >got
	same want got
	sc-sub --ca cert.pem --offset earliest --count 200 "wss://localhost:$port/trades" >got
	same want got
	run -0 curl -s --cacert cert.pem "https://localhost:$port/healthz"
}

@test "through an HTTP proxy with a password" {
	peer proxy "${python_new[@]}" "$SC_TESTS/interop/proxy.py" --report proxy.json --user 'ada:s p'
	local proxy=$port
	secure_feed 'play rest'
	run -0 --separate-stderr sc-capture "wss://localhost:$port/feed" --ca cert.pem --count "$frames" \
		--proxy "http://ada:s%20p@127.0.0.1:$proxy"
	same <(printf '%s\n' "$output") "$feed"
	[ "$(jq -r '.[0].kind' proxy.json)" = http ]
	[ "$(jq -r '.[0].target' proxy.json)" = "localhost:$port" ]

	run --separate-stderr sc-capture "wss://localhost:$port/feed" --ca cert.pem --retry 0 \
		--proxy "http://ada:wrong@127.0.0.1:$proxy"
	[ "$status" -ne 0 ]
	[[ $stderr == *407* ]]
	[[ $stderr != *wrong* ]]
}

@test "through a SOCKS5 proxy with a password" {
	peer proxy "${python_new[@]}" "$SC_TESTS/interop/proxy.py" --report proxy.json --user 'ada:sp'
	local proxy=$port
	secure_feed 'play rest'
	run -0 --separate-stderr sc-capture "wss://localhost:$port/feed" --ca cert.pem --count "$frames" \
		--proxy "socks5h://ada:sp@127.0.0.1:$proxy"
	same <(printf '%s\n' "$output") "$feed"
	[ "$(jq -r '.[0].kind' proxy.json)" = socks5 ]
}
