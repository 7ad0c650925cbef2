#!/usr/bin/env bash
# Run the named fuzz targets (build/fuzzer/libfuzzer/NAME) for FUZZ_SECONDS each, from their seeds. What crashes one is kept in
# build/fuzzer/NAME.crash-*; add it to tests/fuzz/seeds/NAME when it is mended.
set -u
cd "$(dirname "$0")/.." || exit 70
seconds=${FUZZ_SECONDS:-20}
failed=0

for name in "$@"; do
	mkdir -p "build/fuzzer/corpus/$name" "tests/fuzz/seeds/$name"
	dictionary=()
	[[ -f tests/fuzz/$name.dict ]] && dictionary=("-dict=tests/fuzz/$name.dict")
	echo "fuzz $name: $seconds s"
	if ! build/fuzzer/libfuzzer/"$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
		-print_final_stats=1 -verbosity=0 -artifact_prefix="build/fuzzer/$name." "${dictionary[@]}" \
		"build/fuzzer/corpus/$name" "tests/fuzz/seeds/$name" 2>"build/fuzzer/$name.log"; then
		tail -n 60 "build/fuzzer/$name.log" >&2
		echo "fuzz $name: FAILED" >&2
		failed=1
		continue
	fi
	sed -n 's/^stat::number_of_executed_units: *\(.*\)/     \1 inputs/p' "build/fuzzer/$name.log"
done
exit $failed
