# shellcheck shell=bash
# tests/interop/places.bash: S3 servers of other people for one test file (s3servers.py), straight or through a proxy that fails
# as networks and servers do (faultproxy.py). Loaded after common.

# They run from the file's first test to its last.
setup_file() {
	cd "$BATS_FILE_TMPDIR" || return 1
	"${python_new[@]}" "$SC_TESTS/interop/s3servers.py" --ready ready.json --dir "$BATS_FILE_TMPDIR" \
		</dev/null >servers.log 2>&1 3>&- &
	echo $! >servers.pid
	if ! wait_for -t 90 test -s ready.json; then
		cat servers.log >&2
		return 1
	fi
}

teardown_file() {
	local id

	id=$(<"$BATS_FILE_TMPDIR/servers.pid")
	kill "$id" 2>/dev/null || :
	wait "$id" 2>/dev/null || :
}

# A test's own place, and who it is there. Sets weed, moto and filer (ports) and shelf (a URL below the bucket).
places_setup() {
	sc_setup
	unset "${!AWS_@}" "${!SC_S3_@}"
	export AWS_ACCESS_KEY_ID=AKIDTEST AWS_SECRET_ACCESS_KEY=secret/with+chars HOME=$PWD
	weed=$(jq .weed "$BATS_FILE_TMPDIR/ready.json")
	moto=$(jq .moto "$BATS_FILE_TMPDIR/ready.json")
	filer=$(jq .filer "$BATS_FILE_TMPDIR/ready.json")
	at "$weed"
	shelf=s3://prod/$(basename "$BATS_TEST_FILENAME" .bats)/$BATS_TEST_NUMBER
	: >plan
}

# at PORT: S3 is asked there.
at() { export AWS_ENDPOINT_URL=http://127.0.0.1:$1; }

# faults PORT LINE...: a proxy to that server with this plan; more of its options in proxy_options. Sets port and url.
faults() {
	local to=$1

	shift
	printf '%s\n' "$@" >plan
	: >log
	peer proxy "${python_new[@]}" "$SC_TESTS/interop/faultproxy.py" --to "$to" --plan plan --log log \
		--secret "$AWS_SECRET_ACCESS_KEY" "${proxy_options[@]}"
}

# through PORT LINE...: calls go by such a proxy.
through() {
	faults "$@"
	at "$port"
}
