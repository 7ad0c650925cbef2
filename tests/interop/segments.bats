# Sealed segments are read by other people's programs: zstd, python zstandard, a reader of the seekable format (pyzstd),
# DuckDB; and their seek table is what the format's description says.

load ../lib/common

golden=$SC_TESTS/golden/segment
python=$SC_INTEROP/venv/bin/python

setup() {
	sc_setup
	"$SC_BUILD/bench/sealbench" --write many.ndjson.zst 30000 3 >many.ndjson
	"$SC_BUILD/bench/sealbench" --write small.ndjson.zst 1 1 >small.ndjson
	cp "$golden/v1-good.ndjson.zst" "$golden/v1-good.ndjson" .
	files=(many small v1-good)
}

teardown() { sc_teardown; }

@test "zstd tests and unpacks them, and finds damage" {
	for name in "${files[@]}"; do
		zstd -q -t "$name.ndjson.zst"
		zstdcat "$name.ndjson.zst" | cmp - "$name.ndjson"
	done
	zstdcat many.ndjson.zst small.ndjson.zst | jq -c '.[1].side' | sort | uniq -c >sides
	[ "$(wc -l <sides)" -eq 2 ]
	run zstd -q -t "$golden/v1-frame.ndjson.zst"
	[ "$status" -ne 0 ]
}

@test "the seek table is what the seekable format says" {
	for name in "${files[@]}"; do
		"$python" "$SC_TESTS/interop/seekable.py" "$name.ndjson.zst" "$name.ndjson"
	done
}

@test "the index is what the lines are" {
	for name in "${files[@]}"; do
		"$python" "$SC_TESTS/interop/seekable.py" --index "$name.ndjson.zst" "$name.ndjson"
	done
}

@test "python zstandard streams them" {
	for name in "${files[@]}"; do
		"$python" - "$name" <<'P'
import sys, zstandard
with open(sys.argv[1] + ".ndjson.zst", "rb") as packed, open(sys.argv[1] + ".ndjson", "rb") as want:
    reader = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
    assert reader.read() == want.read()
P
	done
}

@test "a reader of the seekable format finds any byte" {
	for name in "${files[@]}"; do
		"$python" - "$name" <<'P'
import random, sys
from pyzstd import SeekableZstdFile
want = open(sys.argv[1] + ".ndjson", "rb").read()
packed = SeekableZstdFile(sys.argv[1] + ".ndjson.zst", "r")
assert packed.read() == want
random.seed(1)
for _ in range(100):
    at = random.randrange(len(want))
    size = random.randrange(1, 600000)
    packed.seek(at)
    assert packed.read(size) == want[at:at + size], (at, size)
P
	done
}

@test "DuckDB reads rows and columns" {
	"$python" - <<'P'
import duckdb
count, first, last, sides = duckdb.sql("""
    select count(*), min((row[1])::bigint), max((row[1])::bigint), sum((row[2]->>'side')::int)
    from (select json::json[] as row from read_json('many.ndjson.zst', format='newline_delimited', records=false))
""").fetchone()
assert (count, first, last) == (30000, 1, 30000), (count, first, last)
want = sum(line.count(b'"side":1') for line in open("many.ndjson", "rb"))
assert sides == want, (sides, want)
P
}
