#!/bin/sh
# --exec: a command for each row. One that fails stops the subscriber, and its row comes again at the next start: the
# cursor counts only what succeeded.
set -eu
# shellcheck source=examples/common
. "$(dirname "$0")/common"

sc-log create "$work/orders"
seq 1 6 | sed 's/.*/{"order":&}/' | sc-log append --quiet "$work/orders"
serve "$work/orders"

# The work: it fails at order 4 until the file "repaired" is there.
cat >"$work/work.sh" <<'W'
#!/bin/sh
read -r line
case $line in
*'"order":4'*) [ -e "$1/repaired" ] || exit 1 ;;
esac
echo "$line" >>"$1/done"
W

subscribe() {
	sc-sub "$url/orders" --cursor "$work/cursor" --offset earliest --until-end --exec "sh '$work/work.sh' '$work'"
}
resume() {
	sc-sub "$url/orders" --cursor "$work/cursor" --until-end --exec "sh '$work/work.sh' '$work'"
}

status=0
subscribe 2>"$work/sub.err" || status=$?
[ "$status" -eq 1 ] || give_up "a command that fails gave status $status"
tail -n 1 "$work/sub.err"
echo "the cursor is at $(cat "$work/cursor")"

touch "$work/repaired"
resume
cat "$work/done"
sc-log read "$work/orders" | cmp - "$work/done" || give_up "not every order was worked on once"
