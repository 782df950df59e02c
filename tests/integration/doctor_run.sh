#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# doctor_run.sh -- outlast doctor prints one verdict a line, a remedy if needed, and ends with a status for scripts
set -u

bin=${OUTLAST_BIN:-${OUTLAST_BUILD:-build/dev}/outlast}
tmp=$(mktemp -d)
bad=0
trap 'rm -rf "$tmp"' EXIT

wrong() {
	echo "not ok: $1"
	sed 's/^/    /' "$tmp/out" "$tmp/err"
	bad=1
}

# says WORDS
says() {
	grep -qF -- "$1" "$tmp/out" || wrong "does not say '$1'"
}

"$bin" doctor --json "$tmp/json" >"$tmp/out" 2>"$tmp/err" || wrong "status $? where shared memory works"
says 'training can run on this machine'
says 'update kernels'
says 'a protection domain a worker pins'
awk '!/^(ok|warn|BAD) / && !/^ +(->|gid)/ { exit 1 }' "$tmp/out" || wrong "a line without a verdict"
awk '/^(warn|BAD)/ { want = 1; next } want && !/->/ { exit 1 } { want = 0 } END { exit want }' "$tmp/out" ||
	wrong "a warning without a remedy"
for word in '"findings"' '"devices"' '"pinned_isolation_worker"' '"environment"' '"settings"'; do
	grep -qF "$word" "$tmp/json" || wrong "JSON has no $word"
done

# Settings of verbs, each with its source; timers that are not set are derived from the time
row() {
	grep -qE "^ok +$1 +$2 +$3\$" "$tmp/out" || wrong "no row '$1 $2 $3'"
}
row retry-timeout-ms '7516 ms of silence' default
row ack-timeout '18 \(1074 ms\)' 'from retry-timeout-ms \(default\)'
row retries 6 'from retry-timeout-ms \(default\)'
row rnr-timer 19 'from retry-timeout-ms \(default\)'
row traffic-class "the system's" default
OUTLAST_TRAFFIC_CLASS=104 "$bin" doctor --retries 3 --path-mtu 512 >"$tmp/out" 2>"$tmp/err" || wrong "status $?"
row retries 3 --retries
row retry-timeout-ms '4295 ms of silence' 'from ack-timeout and retries'
row traffic-class 104 OUTLAST_TRAFFIC_CLASS
row path-mtu 512 --path-mtu
"$bin" doctor --retries 7 >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] || wrong "7 retries are for ever to some adapters, and no usage error"

# A vector of 1000 floats is 4032 bytes padded. Board and 3 snapshots of 2 pages; control page and 4 slots of 2.
"$bin" doctor --params 1000 --workers 10 --window 4 --json "$tmp/json" >"$tmp/out" 2>"$tmp/err" || wrong "status $?"
pinned=$(sed -n 's/.*"pinned_isolation_\([a-z]*\)": \([0-9]*\).*/\1 \2/p' "$tmp/json" | sort | tr '\n' ' ')
[ "$pinned" = "job $((28672 + 10 * 36864)) worker $((10 * (28672 + 36864))) " ] || wrong "pinned: $pinned"

if [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
	echo "a device is here: tests/rxe/doctor.sh has the rest"
	exit "$bad"
fi
"$bin" doctor --transport verbs >"$tmp/out" 2>"$tmp/err"
[ $? = 6 ] || wrong "verbs that cannot be: not status 6"
says 'BAD   rdma'
grep -qE -- '-> .*(apt-get install|install rdma-core)' "$tmp/out" || wrong "no package named that helps"
grep -q 'verbs cannot work here' "$tmp/err" || wrong "no reason on standard error"
"$bin" doctor --params 0 >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] || wrong "0 parameters: not status 2"
[ "$bad" = 0 ] && echo "ok"
exit "$bad"
