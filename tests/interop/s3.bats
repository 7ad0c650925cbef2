# The store room against S3 servers of other people (SeaweedFS, which checks signatures, checksums and conditions; moto), straight
# and through a proxy that fails as networks and servers do (faultproxy.py), one call a run (storeprobe.c).
# run: limit 600

load ../lib/common
load places

setup() {
	places_setup
	secret=secret/with+chars
	place=s3://prod/$BATS_TEST_NUMBER
	printf hello >hello
	printf 'other words' >other
	seq 1 600000 >large
}

teardown() { sc_teardown; }

# store [NAME=VALUE]... VERB ARGUMENT...: one call, with quick retries.
store() {
	local -a settings=(backoff_ms=10 tries=4)

	while [[ $1 == [a-z_]*=[0-9]* ]]; do
		settings+=("$1")
		shift
	done
	"$SC_BUILD/interop-bin/storeprobe" "${settings[@]}" "$place" "$@"
}

# asked METHOD ACTION: how many requests were answered so.
asked() {
	awk -v m="$1" -v a="$2" '$1 == m && $3 == a' log | wc -l
}

# fails STATUS WORDS COMMAND...: it ends so, and says that.
fails() {
	local status=$1 words=$2

	shift 2
	run "-$status" --separate-stderr "$@"
	[[ $stderr == *"$words"* ]] || {
		echo "not said: $words; but: $stderr" >&2
		return 1
	}
	# whatever is said, it is one JSON object, and keeps the secret
	jq -e .error <<<"$stderr" >/dev/null
	[[ $stderr != *"$secret"* ]]
}

holds() { # KEY FILE
	store get "$1" | cmp - "$2"
}

# --- what a place does, for each server, and for a folder ------------------------------------------------------------

whole_objects() {
	local key

	store put a/hello hello >got
	grep -q '^size 5$' got
	grep -q "^sha256 $(sha256sum hello | cut -d' ' -f1)$" got
	holds a/hello hello
	store memory=1 put a/memory other
	holds a/memory other
	: >empty
	store put a/empty empty absent
	[ -z "$(store get a/empty)" ]
	[ -z "$(store tail a/empty 10)" ]
	for key in 'b c+d=e&f?g#h%20i~é!*'"'"'();:@,$[]{}|^`"<>' 'x/𝄞' 'x/100%' "${odd_keys[@]}"; do
		store put "$key" hello absent
		holds "$key" hello
		store head "$key" | grep -q '^size 5$'
		store list "$key" | grep -qxF "$key 5 1"
		store delete "$key"
		fails 66 "$key" store head 'x/100%' || [[ $key != 'x/100%' ]]
	done
	store put large large
	holds large large
	store copy large back
	cmp large back
	store verify large large
	fails 65 'bytes' store verify large hello
	fails 65 'more than 100' store max=100 get large
	store put a/hello other
	holds a/hello other
	store delete a/hello
	store delete a/hello
	fails 66 'a/hello' store get a/hello
	fails 66 'a/hello' store head a/hello
	fails 66 'a/hello' store range a/hello 0 10
	fails 64 "'..'" store put ../a hello
}

ranges() {
	local size

	store put large large
	size=$(stat -c %s large)
	cmp <(store range large 0 10) <(head -c 10 large)
	cmp <(store range large 1000000 300000) <(tail -c +1000001 large | head -c 300000)
	cmp <(store range large $((size - 5)) 100) <(tail -c 5 large)
	[ -z "$(store range large "$size" 100)" ]
	[ -z "$(store range large $((size + 1000)) 100)" ]
	cmp <(store tail large 7) <(tail -c 7 large)
	cmp <(store tail large $((size * 2))) large
}

conditions() {
	local etag

	store check
	store put once hello absent >first
	fails 75 'it is there already' store put once other absent
	holds once hello
	etag=$(sed -n 's/^etag //p' first)
	[ "$(store head once | sed -n 's/^etag //p')" = "$etag" ]
	store put once other "$etag" >second
	fails 75 'it was replaced meanwhile' store put once hello "$etag"
	holds once other
	store put once hello "$(sed -n 's/^etag //p' second)"
	store delete once
	fails 75 'it' store put once hello "$etag"
	[ -z "$(store list '')" ]
}

# Of writers that create one object at the same time, one does.
one_of_many() {
	local i created=0 refused=0
	local -a ids=()

	for i in 1 2 3 4 5 6; do
		echo "from $i" >"from-$i"
		store put race "from-$i" absent >/dev/null 2>&1 3>&- &
		ids[i]=$!
	done
	for i in 1 2 3 4 5 6; do
		if wait "${ids[i]}"; then
			created=$((created + 1)) winner=$i
		elif [[ $? -eq 75 ]]; then
			refused=$((refused + 1))
		fi
	done
	[ "$created" -eq 1 ]
	[ "$refused" -eq 5 ]
	holds race "from-$winner"
}

listings() {
	local i

	for i in b a.b a/x a/y/z a-b c/1 c/2; do
		store put "$i" hello >/dev/null
	done
	store list c/ >got
	diff - got <<<$'c/1 5 1\nc/2 5 1'
	store list c/ c/1 >got
	diff - got <<<'c/2 5 1'
	store folders a/ >got
	diff - got <<<$'a/x 5 1\na/y/ 0 0'
	store folders a/ a/x >got
	diff - got <<<'a/y/ 0 0'
	[ -z "$(store list nothing)" ]
	[ -z "$(store list c/ c/2)" ]
}

whole_list() {
	store list '' >got
	diff - got <<<$'a-b 5 1\na.b 5 1\na/x 5 1\na/y/z 5 1\nb 5 1\nc/1 5 1\nc/2 5 1'
	store folders '' >got
	diff - got <<<$'a-b 5 1\na.b 5 1\na/ 0 0\nb 5 1\nc/ 0 0'
}

@test "a folder: whole objects" {
	mkdir there
	odd_keys=('back\slash\')
	place=file://$PWD/there
	whole_objects
}

@test "a folder: ranges" {
	mkdir there
	place=file://$PWD/there
	ranges
}

@test "a folder: conditions" {
	mkdir there
	place=file://$PWD/there
	conditions
	one_of_many
}

@test "a folder: listings" {
	mkdir there
	place=file://$PWD/there
	listings
	whole_list
}

@test "a folder: each step is on disk before the next" {
	mkdir there
	place=file://$PWD/there
	# the addresses sanitizer cannot be traced: without its look for leaks
	export ASAN_OPTIONS=detect_leaks=0
	strace -f -y -o trace -e trace=mkdir,fsync,pwrite64,link,rename,unlink -- \
		"$SC_BUILD/interop-bin/storeprobe" "$place" put a/k hello absent
	strace -f -y -o trace2 -e trace=mkdir,fsync,pwrite64,link,rename,unlink -- \
		"$SC_BUILD/interop-bin/storeprobe" "$place" put a/k other
	strace -f -y -o trace3 -e trace=mkdir,fsync,pwrite64,link,rename,unlink -- \
		"$SC_BUILD/interop-bin/storeprobe" "$place" delete a/k
	sed -n "s,$PWD/,,g; s/^[0-9]* *//; s/\\.k\\.[0-9a-f]*\\.tmp/TEMP/g; s/(\\([0-9]*<\\)*/ /; s/).*//; /^[a-z]/p" trace >steps
	diff steps - <<-'P'
		mkdir "there/a", 0777
		fsync there>
		pwrite64 there/a/TEMP>, "hello", 5, 0
		fsync there/a/TEMP>
		link "there/a/TEMP", "there/a/k"
		unlink "there/a/TEMP"
		fsync there/a>
	P
	sed -n "s,$PWD/,,g; s/^[0-9]* *//; s/\\.k\\.[0-9a-f]*\\.tmp/TEMP/g; s/(\\([0-9]*<\\)*/ /; s/).*//; /^[a-z]/p" trace2 trace3 >steps
	diff steps - <<-'P'
		mkdir "there/a", 0777
		fsync there>
		pwrite64 there/a/TEMP>, "other words", 11, 0
		fsync there/a/TEMP>
		rename "there/a/TEMP", "there/a/k"
		fsync there/a>
		unlink "there/a/k"
		fsync there/a>
	P
}

@test "SeaweedFS: whole objects" { whole_objects; }

@test "SeaweedFS: ranges" { ranges; }

@test "SeaweedFS: conditions" {
	conditions
	one_of_many
}

# It lists "a/x" before "a.b", so a whole list is out of order for it, and said to be.
@test "SeaweedFS: listings" { listings; }

@test "moto: whole objects" {
	odd_keys=('back\slash\')
	at "$moto"
	whole_objects
}

@test "moto: ranges" {
	at "$moto"
	ranges
}

@test "moto: conditions" {
	at "$moto"
	conditions
}

@test "moto: listings" {
	at "$moto"
	listings
	whole_list
}

@test "listings of many pages; what boto3 wrote" {
	for server in "$weed" "$moto"; do
		at "$server"
		place=s3://prod/$BATS_TEST_NUMBER
		"${python_new[@]}" - "$AWS_ENDPOINT_URL" "$BATS_TEST_NUMBER" <<'P'
import boto3, sys
from botocore.config import Config
from concurrent.futures import ThreadPoolExecutor
s3 = boto3.client("s3", endpoint_url=sys.argv[1], region_name="us-east-1", config=Config(max_pool_connections=4))
with ThreadPoolExecutor(4) as pool:
    list(pool.map(lambda n: s3.put_object(Bucket="prod", Key=f"{sys.argv[2]}/many/{n:05}", Body=b"%d" % n), range(2100)))
P
		store list many/ >got
		[ "$(wc -l <got)" -eq 2100 ]
		sort -c got
		store list many/ many/01999 | head -n 1 | grep -q '^many/02000 4 1$'
		[ "$(store get many/01234)" = 1234 ]
	done
}

@test "boto3 reads what we wrote, also in parts" {
	for server in "$weed" "$moto"; do
		at "$server"
		store put one hello absent
		store multipart=1000000 part=5242880 put two large absent
		"${python_new[@]}" - "$AWS_ENDPOINT_URL" "$BATS_TEST_NUMBER" <<'P'
import boto3, sys
s3 = boto3.client("s3", endpoint_url=sys.argv[1], region_name="us-east-1")
assert s3.get_object(Bucket="prod", Key=sys.argv[2] + "/one")["Body"].read() == b"hello"
assert s3.get_object(Bucket="prod", Key=sys.argv[2] + "/two")["Body"].read() == open("large", "rb").read()
P
	done
}

@test "large objects go up in parts, under the same conditions" {
	for _ in 1 2 3 4 5; do cat large; done >larger # 20 MB: 4 parts
	for server in "$weed" "$moto"; do
		at "$server"
		store multipart=1000000 part=5242880 put big larger absent >got
		grep -q -- '-4"$' got
		holds big larger
		store verify big larger
		fails 75 'it is there already' store multipart=1000000 put big large absent
		store multipart=1000000 part=5242880 put big large >got
		holds big large
		store multipart=1000000 part=5242880 memory=1 put big larger "$(sed -n 's/^etag //p' got)"
		holds big larger
	done
}

# --- who may, and where it is -------------------------------------------------------------------------------------------

@test "wrong credentials are not tried again, and say what to look at" {
	through "$weed"
	AWS_SECRET_ACCESS_KEY=wrong fails 77 'look at AWS_SECRET_ACCESS_KEY' store put x hello
	[ "$(grep -c . log)" -eq 1 ]
	AWS_ACCESS_KEY_ID=nobody fails 77 'InvalidAccessKeyId' store list ''
	AWS_SESSION_TOKEN=old fails 77 's3_code' store list ''
	unset AWS_ACCESS_KEY_ID
	fails 78 'without' store list ''
	AWS_SECRET_ACCESS_KEY='' fails 77 'set AWS_ACCESS_KEY_ID' store list ''
	SC_S3_ANONYMOUS=1 fails 77 'AccessDenied' store list ''
}

@test "a missing bucket, folder and server" {
	place=s3://no-such-bucket/x
	fails 66 'create the bucket' store put x hello
	fails 66 'NoSuchBucket' store list ''
	fails 66 'NoSuchBucket' store get x
	fails 66 'no such bucket' store head x
	place=file://$PWD/nowhere
	fails 66 'mount the disk' store put x hello
	fails 66 'mount the disk' store list ''
	fails 66 'mount the disk' store get x
	[ ! -e nowhere ]
	place=s3://prod/x
	at 1
	fails 69 'look at the endpoint' store get x
}

@test "profile files, and credentials that are renewed in them" {
	mkfifo creds
	unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
	cat >config <<-P
		[profile other]
		region = us-east-1
		[profile mine]
		region = us-east-1
		services = local
		[services local]
		s3 =
		  endpoint_url = http://127.0.0.1:$weed
	P
	export AWS_CONFIG_FILE=$PWD/config AWS_SHARED_CREDENTIALS_FILE=$PWD/creds AWS_PROFILE=mine
	unset AWS_ENDPOINT_URL
	# the first reader gets credentials that have ended, the second one new ones
	(
		printf '[mine]\naws_access_key_id = AKIDOLD\naws_secret_access_key = old\n' >creds
		printf '[mine]\naws_access_key_id = AKIDTEST\naws_secret_access_key = secret/with+chars\n' >creds
	) 3>&- &
	sc_pids[writer]=$!
	store put x hello
}

@test "every request is signed: query, special characters, conditions, tokens" {
	export AWS_SESSION_TOKEN='to/ke+n==' AWS_REGION=eu-central-1
	through "$moto"
	store put "b c+d=e&f?g#h%20i~é!*'()" hello absent
	store get "b c+d=e&f?g#h%20i~é!*'()"
	store head "b c+d=e&f?g#h%20i~é!*'()"
	store list 'b c+d=e&' 'b '
	store folders ''
	store multipart=1000000 part=5242880 put large large absent
	store sweep '' 0
	store delete large
	grep -q '^PUT .* pass .*content-md5;.*if-none-match;.*x-amz-checksum-sha256;x-amz-content-sha256;.*x-amz-security-token' log
	[ "$(grep -c 'host;.*x-amz-content-sha256;x-amz-date;.*x-amz-security-token' log)" -eq "$(wc -l <log)" ]
}

@test "TLS: an unknown authority is refused, AWS_CA_BUNDLE names it" {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -days 2 \
		-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem 2>/dev/null
	proxy_options=(--cert cert.pem --key key.pem)
	through "$weed"
	export AWS_ENDPOINT_URL=https://127.0.0.1:$port
	fails 69 'AWS_CA_BUNDLE' store put x hello
	AWS_CA_BUNDLE=$PWD/cert.pem store put x hello
}

# --- what fails on the way ----------------------------------------------------------------------------------------------

@test "failures of the server are tried again" {
	through "$weed" '2 PUT . status 500:InternalError' '1 HEAD . status 502' '1 GET . status 503:SlowDown:1'
	store put x hello
	[ "$(asked PUT status)" -eq 2 ]
	[ "$(asked HEAD status)" -eq 1 ]
	since=${EPOCHREALTIME/./}
	store get x
	[ $((${EPOCHREALTIME/./} - since)) -ge 1000000 ] # Retry-After
}

@test "when the tries are spent, that is said" {
	through "$weed" '* PUT . status 500:InternalError' '* GET . status 503:SlowDown' '* DELETE . reset'
	fails 69 '"tries":4' store put x hello
	fails 69 'HTTP status 503 SlowDown: said the proxy' store get x
	[ "$(asked GET status)" -eq 4 ]
	fails 69 '"tries":4' store delete x
	fails 69 '"tries":1' store tries=9 backoff_ms=5000 retry_for_ms=1 get x
}

@test "time-outs, stalls and drips end, and are tried again before" {
	store put x hello
	seq 1 2000 >words
	store put words words
	through "$weed" '1 GET /x hang' '1 GET /words slow 0.3'
	store stall_ms=1000 get x | cmp - hello
	store stall_ms=1000 get words | cmp - words
	through "$weed" '* GET /x hang' '* GET /words slow 0.3'
	fails 80 '"tries":2' store stall_ms=1000 tries=2 get x
	fails 80 '"tries":2' store stall_ms=1000 tries=2 get words
}

@test "answers that are cut or reset are asked for again" {
	store put large large
	through "$weed" '1 GET large cut' '1 GET large reset' '1 GET large lost' '1 GET list-type cut'
	holds large large
	store list '' | grep -q '^large '
	[ "$(asked GET cut)" -eq 2 ]
}

@test "a create whose answer is lost is known to be ours, or not" {
	through "$weed" '1 PUT /mine lost' '1 PUT /theirs status 500:InternalError' '1 POST /parts\?uploadId lost' \
		'1 DELETE . lost'
	store put mine hello absent
	[ "$(asked PUT lost)" -eq 1 ]
	at "$weed"
	store put theirs other
	at "$port"
	fails 75 'it is there already' store put theirs hello absent
	store multipart=1000000 part=5242880 put parts large absent
	holds parts large
	store delete mine
}

@test "a replacement whose answer is lost is known to be ours" {
	etag=$(store put x hello | sed -n 's/^etag //p')
	through "$weed" '1 PUT . lost'
	store put x other "$etag"
	[ "$(asked PUT lost)" -eq 1 ]
	holds x other
}

@test "bytes that change on their way up do not stay" {
	through "$weed" '1 PUT . spoil'
	store put x hello absent
	holds x hello
	[ "$(asked PUT pass)" -eq 1 ]
	through "$weed" '* PUT . spoil'
	fails 65 'BadDigest' store put y hello absent
	fails 66 '/y' store get y
}

@test "an error under status 200, and an upload that fails is aborted" {
	through "$weed" '1 POST uploadId ok-error InternalError' '1 PUT partNumber=2 reset'
	for _ in 1 2; do cat large; done >larger
	store multipart=1000000 part=5242880 put x larger absent
	holds x larger
	through "$weed" '* PUT partNumber=2 status 500'
	fails 69 '"tries":2' store tries=2 multipart=1000000 part=5242880 put y larger absent
	[ "$(asked DELETE pass)" -eq 1 ]
	at "$weed"
	[ "$(store sweep '' 0)" = 'removed 0' ]
	fails 66 '/y' store get y
}

@test "uploads that were left are swept, by age" {
	for server in "$weed" "$moto"; do
		at "$server"
		"${python_new[@]}" - "$AWS_ENDPOINT_URL" "$BATS_TEST_NUMBER" <<'P'
import boto3, sys
s3 = boto3.client("s3", endpoint_url=sys.argv[1], region_name="us-east-1")
for key in ("a/1", "a/2", "b/3"):
    s3.create_multipart_upload(Bucket="prod", Key=f"{sys.argv[2]}/{key}")
P
		# moto says that all were begun in 2010
		[[ $server == "$moto" ]] || [ "$(store sweep '' 3600)" = 'removed 0' ]
		[ "$(store sweep a/ -60)" = 'removed 2' ]
		[ "$(store sweep '' -60)" = 'removed 1' ]
		[ "$(store sweep '' -60)" = 'removed 0' ]
	done
}

@test "answers that make no sense" {
	store put x hello
	through "$weed" '1 GET list-type say <html></html>' '1 GET list-type say <ListBucketResult><a></b>' '1 GET list-type say hello' '1 GET /x status 301:PermanentRedirect' '1 GET /x status 418' '1 GET /x status 307'
	fails 76 'no listing' store list ''
	fails 76 'XML' store list ''
	fails 76 'XML' store list ''
	fails 78 'AWS_REGION' store get x
	fails 76 '418' store get x
	fails 78 'AWS_REGION' store get x
}

@test "a server that ignores conditions is found out" {
	through "$moto" '* PUT . strip If-None-Match'
	fails 78 'two writers could overwrite each other' store check
	at "$moto"
	[ -z "$(store list '')" ]
}

@test "web servers are read by ranges" {
	store put dir/large large
	store put 'dir/a b' hello
	place=http://127.0.0.1:$filer/buckets/prod/$BATS_TEST_NUMBER
	holds dir/large large
	cmp <(store range dir/large 1000 77) <(tail -c +1001 large | head -c 77)
	cmp <(store tail dir/large 100) <(tail -c 100 large)
	[ -z "$(store range dir/large 100000000 5)" ]
	holds 'dir/a b' hello
	store head dir/large | grep -qx "size $(stat -c %s large)"
	store verify dir/large large
	fails 66 "$place/none" store get none
	fails 64 'only read from' store put x hello
	fails 64 'only read from' store delete dir/large
	fails 64 'does not tell' store list ''
	place=http://127.0.0.1:$moto/no-such-bucket
	fails 66 '404' store get x
}

@test "a web server without ranges is refused, in words" {
	mkdir web
	cp large web
	cat >server.py <<'P'
import functools, http.server, json, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="web")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
open(sys.argv[2], "w").write('{"port": %d}' % server.server_address[1])
server.serve_forever()
P
	peer web python3 server.py
	place="http://user:p%40ss@127.0.0.1:$port/?token=hidden"
	fails 76 'range requests' store get large
	[[ $stderr != *hidden* && $stderr != *ss@* ]]
	fails 66 '404' store get none
}
