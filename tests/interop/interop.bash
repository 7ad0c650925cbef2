# tests/interop/interop.bash: a log to serve, and what is compared. Loaded after common.

# rows FROM TO: rows of the trades schema, with numbers and letters that a careless program re-spells.
rows() {
	python3 - "$1" "$2" <<'P'
import json, sys
prices = ["0.10", "1e2", "-0.0", "100", "8.394607e4", "0.30000000000000004"]
sides = ["null", '"buy"', '"é\\\\ 𝄞 \\u0041\\/"', '"\\"\\u0001"']
for number in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
    print('{"event_ts":%d,"price":%s,"side":%s}' % (9007199254740993 + number, prices[number % 6], sides[number % 4]))
P
}

# make_log [N]: data/trades with N rows (none).
make_log() {
	mkdir -p data
	sc-log create data/trades --schema "$SC_DATA/trades.schema.json"
	[[ ${1:-0} -eq 0 ]] || rows 1 "$1" | sc-log append --quiet data/trades
}

# normal FILE: its JSON lines with numbers and letters spelled in one way, exact integers kept.
normal() {
	python3 -c '
import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    value = json.loads(line)
    if isinstance(value, list):
        del value[1:-1]  # the time stamp of protocols 4 and 5
    print(json.dumps(value))' "$1"
}

# offsets FILE: the first element of each line.
offsets() {
	sed 's/^\[\([0-9]*\),.*/\1/' "$1"
}

# field FILE JQ: one value out of a JSON file.
field() {
	jq -r "$2" "$1"
}
