#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench_run.sh -- outlast bench makes the requested measurement, on one machine and as two ends, and refuses nonsense
#
# It does not check speed.
# not under tsan: a measurement has one thread, and its servers are those of every job
set -u

bin=${OUTLAST_BIN:-${OUTLAST_BUILD:-build/dev}/outlast}
tmp=$(mktemp -d)
bad=0
under=() # what the measurement runs under
ends=()
trap 'kill "${ends[@]}" 2>/dev/null; rm -rf "$tmp"' EXIT

wrong() {
	echo "not ok: $1"
	sed 's/^/    /' "$tmp/out" "$tmp/err"
	bad=1
}

# rows WHAT N ARGUMENTS... -- the command succeeds and prints N rows of figures
rows() {
	local what=$1 want=$2 got

	shift 2
	timeout 120 "${under[@]}" "$bin" bench "$@" >"$tmp/out" 2>"$tmp/err" || {
		wrong "$what: status $?"
		return
	}
	got=$(awk '/^ +[0-9]+ +[0-9]+ / && $3 > 0' "$tmp/out" | wc -l)
	[ "$got" = "$want" ] || wrong "$what: $got rows, not $want"
}

# refuses WHAT STATUS WORDS ARGUMENTS... -- one line with these words, and that status
refuses() {
	local what=$1 want=$2 words=$3 got

	shift 3
	timeout 60 "$bin" bench "$@" >"$tmp/out" 2>"$tmp/err"
	got=$?
	[ "$got" = "$want" ] || wrong "$what: status $got, not $want"
	grep -qF -- "$words" "$tmp/err" || wrong "$what: does not say '$words'"
	[ "$(wc -l <"$tmp/err")" = 1 ] || wrong "$what: more than one line"
}

few=(--iters 50 --warmup 5)
rows "push" 2 push -s 64,64K -n 50 --warmup 5 --baseline --fill --raw "$tmp/raw" --json "$tmp/json"
[ "$(grep -c '^64 [0-9]*$' "$tmp/raw")" = 50 ] || wrong "raw: not 50 times of 64 bytes"
[ "$(grep -c '^65536 [0-9]*$' "$tmp/raw")" = 50 ] || wrong "raw: not 50 times of 65536 bytes"
for word in '"cpu"' '"kernel"' '"transport": "shm"' '"pinned"' '"spin_us"' '"t_typical_us"' '"p999_us"' '"ratio"'; do
	grep -qF "$word" "$tmp/json" || wrong "JSON has no $word"
done
rows "push in a window" 2 push --mode bw --window 4 --size 8,1M "${few[@]}"
rows "pull" 3 pull --size 8..32 "${few[@]}" --baseline
rows "pull one after the other" 1 pull --mode bw --size 4M "${few[@]}"
rows "waits that sleep" 1 push --size 4K --spin-us 0 "${few[@]}"
rows "by time" 1 pull --size 64 --seconds 0.05
rows "a job key" 1 push --size 64 --job-key 0123456789abcdef0123456789abcdef "${few[@]}"
# the server's loop leaves its processor to the thread that makes memory ready
if chrt -f 1 true 2>/dev/null; then
	under=(chrt -f 1)
	rows "real-time priority" 1 push --size 64 "${few[@]}"
	under=()
fi

"$bin" bench train --model softmax --seconds 0.1 >"$tmp/out" 2>"$tmp/err" || wrong "train: status $?"
grep -q 'agree bit for bit' "$tmp/out" || wrong "train: weights were not compared"
grep -q '^through a server / alone.*: [0-9.]*$' "$tmp/out" || wrong "train: no ratio"
"$bin" bench train --model mlp:16 --overlap --seconds 0.1 >"$tmp/out" 2>"$tmp/err" || wrong "train --overlap: status $?"

rows "commit" 4 commit --size 64,4K --replicas 1,2 "${few[@]}" --baseline --json "$tmp/json"
for word in '"replicas": 2' '"one_way_us"' '"ratio"' '"server_cpus"' '"spin_yield": true'; do
	grep -qF "$word" "$tmp/json" || wrong "JSON of commit has no $word"
done
rows "commit, servers that are threads" 1 commit --size 64 --replicas 3 --threads "${few[@]}"
rows "commit, a job key" 1 commit --size 64 --replicas 2 --job-key 0123456789abcdef0123456789abcdef "${few[@]}"

# phases WHAT KILLS ARGUMENTS... -- a row for each phase, of so many kills, and the phases add up to the total
phases() {
	local what=$1 kills=$2

	shift 2
	timeout 120 "$bin" bench failover --kills "$kills" --raw "$tmp/raw" --json "$tmp/json" "$@" >"$tmp/out" 2>"$tmp/err" || {
		wrong "$what: status $?"
		return
	}
	for phase in detection view reconnect commit total; do
		grep -q "^ $phase  *$kills " "$tmp/out" || wrong "$what: no row of $kills for $phase"
		grep -qF "\"$phase\": {" "$tmp/json" || wrong "$what: JSON has no $phase"
	done
	awk -v kills="$kills" '$1 + $2 + $3 + $4 != $5 || $5 <= 0 { bad = 1 } END { exit bad || NR != kills }' "$tmp/raw" ||
		wrong "$what: phases do not add up: $(cat "$tmp/raw")"
}
phases "failover of the head" 3
phases "failover of the middle" 2 --target middle
phases "failover of the tail, of two" 2 --target tail --replicas 2 --size 64K
phases "failover of one that is stopped" 2 --signal STOP --lease-ms 500

timeout 120 "$bin" bench rejoin --size 64K,1M --kills 2 --down 100ms --seconds 0.2 --json "$tmp/json" >"$tmp/out" 2>"$tmp/err" ||
	wrong "rejoin: status $?"
[ "$(grep -cE '^ (65536|1048576) ' "$tmp/out")" = 4 ] || wrong "rejoin: not two rows of each size"
[ "$(grep -cE '"read_bytes": [1-9]' "$tmp/json")" = 4 ] || wrong "rejoin: a server came back without weights"

# Two ends, three sizes: the server end goes on to the next size when the client has.
at=@outlast-bench-test-$$
timeout 120 "$bin" bench push --listen "$at" --size 64,4K,1M --pin none --spin-us 100 >"$tmp/serving" 2>&1 &
ends+=($!)
rows "two ends" 3 push --connect "$at" --size 64,4K,1M --pin none --spin-us 100 "${few[@]}"
wait "${ends[0]}" || wrong "the server end: status $?"
[ "$(grep -c '^serving ' "$tmp/serving")" = 3 ] || wrong "the server end did not serve three sizes"

refuses "a size" 2 'size "5"' push --size 5
refuses "a mode" 2 '--mode' push --mode fast
refuses "a baseline in a window" 2 'is for --mode lat' push --mode bw --baseline
refuses "a pin" 2 'pin "x"' pull --pin x
refuses "both ends" 2 'listen' push --listen @a --connect @b
refuses "verbs without an address" 2 '--address' push --transport verbs
refuses "a length of a chain" 2 '--replicas' commit --replicas 1,9
refuses "a middle of two" 2 '--target' failover --target middle --replicas 2
refuses "two sizes" 2 '--size' failover --size 64,4K
refuses "a measurement" 2 'no such measurement' shove
refuses "a file that cannot be written" 1 'no/x' push --size 64 "${few[@]}" --json "$tmp/no/x"
refuses "a model" 3 'model' train --model nonesuch
refuses "a model that goes on" 3 'choose another' train --model lda --dataset topics
[ "$bad" = 0 ] && echo "ok"
exit "$bad"
