# sc-sub and sc-pub with sc-streams over https: pipelines with tokens, and what is said of certificates and tokens that do not do.

load ../lib/common

setup() {
	needs sc-pub sc-sub sc-streams
	sc_setup
	certificate good 20200101000000Z 20991231000000Z
	printf 'read r\nwrite w\nread both\nwrite both\n' >tokens
	for token in r w both; do
		echo "$token" >"$token"
	done
	secure server good
}

teardown() { sc_teardown; }

# certificate NAME FROM TO: signed by itself, for localhost.
certificate() {
	[[ -d ca ]] || {
		mkdir ca
		: >ca/index
		printf '%s\n' '[ca]' default_ca=c '[c]' database=ca/index serial=ca/serial new_certs_dir=ca default_md=sha256 policy=p \
			x509_extensions=x unique_subject=no '[p]' commonName=supplied '[x]' subjectAltName=DNS:localhost >ca/cnf
	}
	openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.csr" -subj /CN=localhost \
		2>openssl.err
	openssl ca -batch -create_serial -config ca/cnf -selfsign -keyfile "$1.key" -in "$1.csr" -out "$1.pem" -startdate "$2" \
		-enddate "$3" -notext 2>>openssl.err
}

secure() { # NAME CERTIFICATE
	ready "$1" sc-streams --listen "127.0.0.1:${listen:-0}" --cert "$2.pem" --key "$2.key" --token-file tokens data || return 1
	listen=$port
	where=localhost:$port/v1/stream
	url=https://$where
}

pub() { timeout 60 sc-pub --ca good.pem "$@"; }
sub() { timeout 60 sc-sub --ca good.pem "$@"; }

@test "published and read, waited for in both ways, with tokens out of files" {
	# a token that may only write is enough for a publisher, and one that may only read for a subscriber
	run -0 --separate-stderr pub -T w --create application/json "$url/s" <<<$'{"m":1}\n{"m":2.0}'
	[[ $output == $'[11,{"m":1}]\n[24,{"m":2.0}]' && -z $stderr ]]
	for live in long-poll sse; do
		start "$live" sc-sub --ca good.pem -T r --live "$live" --offset earliest --payload "$url/s"
		wait_for lines "$live.out" 2
	done
	for i in 3 4 5; do
		run -0 pub -q -T w "$url/s" <<<"$i"
		wait_for lines long-poll.out "$i"
		wait_for lines sse.out "$i"
	done
	printf '"%s"\n' "$(head -c 3000000 /dev/zero | base64 -w0)" >large
	pub -q -T w --close "$url/s" <large
	await long-poll
	[[ $ended -eq 0 ]]
	await sse
	[[ $ended -eq 0 ]]
	same long-poll.out sse.out
	same <(printf '{"m":1}\n{"m":2.0}\n3\n4\n5\n'; cat large) sse.out
}

@test "tokens in options out of the environment and out of a file, and in header files" {
	SC_PUB_OPTIONS="--token-file w --ca good.pem" run -0 sc-pub --create application/json "$url/s" <<<1
	[[ $output == '[5,1]' ]]
	printf -- '--ca good.pem\n--token-file r # to read\n' >options
	run -0 sc-sub --options-file options --offset earliest --until-end "$url/s"
	[[ $output == '[5,1]' ]]
	echo 'Authorization: Bearer r' >fields
	run -0 sub --header-file fields --offset earliest --until-end "$url/s"
	[[ $output == '[5,1]' ]]
	echo 'anyone:r' >user
	run -0 sub --user-file user --offset earliest --until-end "$url/s"
	[[ $output == '[5,1]' ]]
	run -0 sub --offset earliest --until-end "https://x:r@$where/s"
	[[ $output == '[5,1]' ]]
}

@test "a pipeline of sc-sub and sc-pub --producer over TLS, the server killed under it" {
	pub -q -T w --create application/json "$url/a" < <(seq 1 1500)
	pub -q -T w --create application/json "$url/b" </dev/null
	sc-sub --ca good.pem -T r --live sse --offset earliest --count 3000 --retry-wait 20ms "$url/a" 2>sub.err |
		sc-pub -q --ca good.pem -T w -P copy --batch 10 --retry-wait 20ms "$url/b" 2>pub.err 3>&- &
	chain=$!
	start out sc-sub --ca good.pem -T r --offset earliest --payload --count 3000 --retry-wait 20ms "$url/b"
	wait_for lines out.out 300
	stop server KILL
	secure server good
	pub -q -T w "$url/a" < <(seq 1501 3000)
	wait_for lines out.out 1800
	stop server KILL
	secure server good
	await out
	wait "$chain"
	same <(seq 1 3000) out.out
}

# refused STATUS WORDS: of both programs, at once, with nothing printed; more options in `extra`.
refused() {
	run "-$1" --separate-stderr timeout 60 sc-sub "${extra[@]}" --offset earliest --until-end "$url/s"
	[[ -z $output && $stderr == "sc-sub: "*"$2" ]]
	run "-$1" --separate-stderr timeout 60 sc-pub "${extra[@]}" "$url/s" <<<1
	[[ -z $output && $stderr == "sc-pub: "*"$2" ]]
}

@test "certificates that are not trusted: 69, and what to do" {
	pub -q -T w --create application/json "$url/s" <<<1
	certificate other 20200101000000Z 20991231000000Z
	extra=(-T both --ca other.pem)
	refused 69 "cannot trust the certificate of host 'localhost': self-signed certificate; give the authority's PEM file with --ca"
	extra=(-T both)
	refused 69 "cannot trust the certificate of host 'localhost': self-signed certificate; give the authority's PEM file with --ca"
	extra=(-T both --ca good.pem --server-name elsewhere.example)
	refused 69 "certificate of host 'elsewhere.example': hostname mismatch; use the name that it is for, in the URL or with --server-name"
	extra=(-T both --ca nowhere.pem)
	run -78 --separate-stderr sc-sub "${extra[@]}" "$url/s"
	[[ $stderr == *"'nowhere.pem'"* ]]
	certificate old 20200101000000Z 20200102000000Z
	secure server old
	extra=(-T both --ca old.pem)
	refused 69 "certificate of host 'localhost': certificate has expired; the server needs a new one, unless it is this machine's clock that is wrong"
	certificate soon 20980101000000Z 20991231000000Z
	secure server soon
	extra=(-T both --ca soon.pem)
	refused 69 "certificate is not yet valid; the server needs a new one, unless it is this machine's clock that is wrong"
	# whoever wants it takes any, and is told
	run -0 --separate-stderr sc-sub -k -T r --offset earliest --until-end "$url/s"
	[[ $output == '[5,1]' && $stderr == *'warning: '*'certificate'* ]]
}

@test "tokens that do not do: 77, and what to do" {
	pub -q -T w --create application/json "$url/s" <<<1
	echo other >bad
	extra=(--ca good.pem -T bad)
	refused 77 "the server answered 401 Unauthorized; check the token, user or certificate"
	extra=(--ca good.pem)
	refused 77 "the server answered 401 Unauthorized; check the token, user or certificate"
	# the right one for the other thing
	run -77 --separate-stderr sub -T w --offset earliest "$url/s"
	[[ -z $output && $stderr == *"the server answered 403 Forbidden; check the token, user or certificate" ]]
	run -77 --separate-stderr pub -T r "$url/s" <<<1
	[[ -z $output && $stderr == *"the server answered 403 ('the token does not allow this'); check the token, user or certificate" ]]
	run -77 --separate-stderr pub --json -T r --create application/json "$url/t" <<<1
	jq -e '.http_status == 403 and .next == "check the token, user or certificate"' <<<"$stderr"
	# the token in no message
	run -77 --separate-stderr pub -vv -T bad "$url/s" <<<1
	[[ $stderr != *other* ]]
	: >empty
	run -78 --separate-stderr sub -T empty "$url/s"
	run -66 --separate-stderr sub -T nowhere "$url/s"
	[[ $stderr == *"'nowhere'"* ]]
}

@test "a token that is taken back while a subscriber waits" {
	pub -q -T w --create application/json "$url/s" <<<1
	start sub sc-sub --ca good.pem -T r --offset earliest --payload "$url/s"
	wait_for lines sub.out 1
	printf 'read new\nwrite w\n' >tokens
	wait_for refuses_r
	# the request that waits was let in; the next one is not
	pub -q -T w "$url/s" <<<2
	await sub
	[[ $ended -eq 77 && $(cat sub.out) == $'1\n2' ]]
}

refuses_r() {
	[[ $(curl -s -o /dev/null -w '%{http_code}' --cacert good.pem -H 'Authorization: Bearer r' "$url/s") == 401 ]]
}
