#!/bin/sh
# A queue of tasks: workers at one endpoint share the messages of a channel. Each task goes to one of them, the next one to whoever
# has acknowledged its last; a worker that holds its task gets no other.
set -eu
# shellcheck source=examples/common
. "$(dirname "$0")/common"

broker --no-state

# Two quick workers, and one that keeps its first task until the file "go" is there.
for name in a b; do
	node "$name" sub orders submitted --endpoint workers --exec "cat >>'$work/$name.tasks'" --format data
done
node slow sub orders submitted --endpoint workers --format data \
	--exec "cat >>'$work/slow.tasks'; until [ -e '$work/go' ]; do sleep 0.05; done"

tasks=60
seq $tasks | jq -c '["orders", "submitted", {task: .}]' | sc-node pub
sc-node pub orders cancelled '"for nobody"' # another subject: it reaches no worker

worked_on() { [ "$(cat "$work"/*.tasks | wc -l)" -ge "$1" ]; }
await "the quick workers" worked_on $tasks
touch "$work/go"

wc -l "$work"/*.tasks | sed "s|$work/||"
[ "$(wc -l <"$work/slow.tasks")" -eq 1 ] || give_up "the slow worker got more than it could do"
cat "$work"/*.tasks | jq .task | sort -n >"$work/got"
seq $tasks | cmp - "$work/got" || give_up "not every task was worked on once"
echo "$tasks tasks, each once"
