#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench.sh -- push, pull and commit over verbs beside perftest, in turns, in one virtual machine
#
# Commits are also compared with rxe-guest-relay: the same number of trips by bare verbs, between as many nodes that
# share the same two processors in the same way. perftest's two ends have a processor each.
#
# Fails if a measurement breaks, not if it is slow: under emulation only ratios of times mean anything, and
# only if the machine is quiet. Prints a table: ours, perftest's, their ratio, the goal. perftest prints half of
# a round trip for writes, so it is doubled here. $OL_BENCH_ROUNDS rounds (1); each figure is their median. One round
# shows that every measurement works, with commits of one size only; reliable figures take 3, after a round for the emulator
# to warm up.
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=${OUTLAST_BIN:-${OUTLAST_BUILD:-$root/build/dev}/outlast}
relay=${OL_RELAY:-$(dirname "$bin")/tests/rxe-guest-relay}
rounds=${OL_BENCH_ROUNDS:-1}
commits=(64 4096) times=300
[ "$rounds" -gt 1 ] || { commits=(64) times=100; }

# listening PORT PID -- waits until somebody listens there; fails if the process ends first
listening() {
	local tries

	for ((tries = 0; tries < 600; tries++)); do
		rdma resource show cm_id 2>/dev/null | grep -q "state LISTEN .*:$1 *" && return 0
		kill -0 "$2" 2>/dev/null || return 1
		read -r -t 0.05 <>"$tmp/never"
	done
	return 1
}

# perftest PROGRAM COLUMN SIZE ITERATIONS -- prints the figure in the column. A client that is refused would
# crash, so it comes when its server listens.
perftest() {
	local program=$1 column=$2 server row='' args
	port=$(($(cat "$tmp/port") + 1))
	echo "$port" >"$tmp/port"
	args=(-R -F -d "$OL_DEVICE" -s "$3" -n "$4" -p "$port")

	taskset -c 1 "$program" "${args[@]}" >"$tmp/server" 2>&1 &
	server=$!
	if listening "$port" "$server"; then
		taskset -c 0 "$program" "${args[@]}" "$OL_ADDR" >"$tmp/client" 2>&1
		row=$(grep -E '^ *[0-9]+ +[0-9]+ ' "$tmp/client")
	fi
	kill "$server" 2>/dev/null
	wait "$server" 2>/dev/null
	[ -n "$row" ] || {
		echo "bench: $program -s $3 gave nothing: $(tail -n 3 "$tmp/client" "$tmp/server")" >&2
		return 1
	}
	awk -v column="$column" '{ print $column }' <<<"$row"
}

# ours WHAT MODE COLUMN SIZE ITERATIONS
ours() {
	"$bin" bench "$1" --mode "$2" --size "$4" --iters "$5" --warmup 50 --seconds 20 --window 16 --pin 0,1 \
		--transport verbs --address "$OL_ADDR" --device "$OL_DEVICE" >"$tmp/ours" 2>"$tmp/err" || {
		echo "bench: outlast bench $1 --mode $2 --size $4 failed ($?): $(cat "$tmp/err")" >&2
		return 1
	}
	grep -E '^ *[0-9]+ +[0-9]+ ' "$tmp/ours" | awk -v column="$3" '{ print $column }'
}

# commit REPLICAS SIZE ITERATIONS -- the median. The servers are threads of one process on one processor: under
# emulation a switch between processes takes longer than a message.
commit() {
	"$bin" bench commit --replicas "$1" --size "$2" --iters "$3" --warmup 100 --seconds 20 --pin 0,1 --threads \
		--transport verbs --address "$OL_ADDR" --device "$OL_DEVICE" >"$tmp/ours" 2>"$tmp/err" || {
		echo "bench: outlast bench commit --replicas $1 --size $2 failed ($?): $(cat "$tmp/err")" >&2
		return 1
	}
	grep -E '^ *[0-9]+ +[0-9]+ ' "$tmp/ours" | awk '{ print $6 }'
}

# relay NODES SIZE ITERATIONS -- the median of a whole round
relay() {
	local port row

	port=$(($(cat "$tmp/port") + 10))
	echo "$port" >"$tmp/port"
	row=$("$relay" "$OL_ADDR" "$port" "$@" 2>"$tmp/err") || {
		echo "bench: relay of $1 nodes failed: $(cat "$tmp/err")" >&2
		return 1
	}
	awk '{ print $2 }' <<<"$row"
}

# note NAME COMMAND... -- the figure goes to a file of that name
note() {
	local name=$1

	shift
	# perftest may fail once by itself; what fails three times is broken
	"$@" >"$tmp/figure" || "$@" >"$tmp/figure" || "$@" >"$tmp/figure" || failed=1
	cat "$tmp/figure" >>"$tmp/figures.$name"
	echo "$name $(cat "$tmp/figure") ($SECONDS s)" >&2
}

round() {
	note push64 ours push lat 5 64 500
	note write64 perftest ib_write_lat 5 64 500
	note push4k ours push lat 5 4096 300
	note write4k perftest ib_write_lat 5 4096 300
	note pull64 ours pull lat 5 64 500
	note read64 perftest ib_read_lat 5 64 500
	note pushbw64k ours push bw 4 65536 200
	note writebw64k perftest ib_write_bw 4 65536 200
	note pushbw1m ours push bw 4 1048576 20
	note writebw1m perftest ib_write_bw 4 1048576 20
	note pullbw64k ours pull bw 4 65536 200
	note readbw64k perftest ib_read_bw 4 65536 200
	for size in "${commits[@]}"; do
		for replicas in 1 2 3; do
			note "commit$size.$replicas" commit "$replicas" "$size" "$times"
			note "relay$size.$replicas" relay $((replicas + 1)) "$size" "$times"
		done
	done
}

median() {
	sort -g "$tmp/figures.$1" | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : "nan" }'
}

# row WHAT OURS THEIRS FACTOR GOAL
row() {
	awk -v what="$1" -v ours="$(median "$2")" -v theirs="$(median "$3")" -v factor="$4" -v goal="$5" 'BEGIN {
		printf "%-42s %12.2f %12.2f %8.2f   %s\n", what, ours, theirs * factor,
			(theirs > 0 ? ours / (theirs * factor) : 0), goal }'
}

guest() {
	tmp=$(mktemp -d)
	mkfifo "$tmp/never"
	echo 18600 >"$tmp/port"
	failed=0
	if [ "$rounds" -gt 1 ]; then
		round # for the emulator to warm up
		rm -f "$tmp"/figures.*
	fi
	for ((i = 0; i < rounds; i++)); do
		round
	done
	echo "same virtual machine, same device, in turns; median of $rounds; no word about a real adapter"
	printf '%-42s %12s %12s %8s   %s\n' "what" ours perftest ratio goal
	row "push 64 B, p50, us (2 x ib_write_lat)" push64 write64 2 "<= 1.3"
	row "push 4 KiB, p50, us (2 x ib_write_lat)" push4k write4k 2 "<= 1.3"
	row "pull 64 B, p50, us (ib_read_lat)" pull64 read64 1 "<= 1.7"
	row "push 64 KiB, MB/s (ib_write_bw)" pushbw64k writebw64k 1 ">= 0.9"
	row "push 1 MiB, MB/s (ib_write_bw)" pushbw1m writebw1m 1 ">= 0.9"
	row "pull 64 KiB, MB/s (ib_read_bw)" pullbw64k readbw64k 1 ">= 0.9"
	for replicas in 1 2 3; do
		trips=$((replicas + 1))
		row "commit 64 B, R $replicas, us ($trips x ib_write_lat)" "commit64.$replicas" write64 "$trips" "-"
		row "commit 64 B, R $replicas, us (relay, $trips nodes)" "commit64.$replicas" "relay64.$replicas" 1 "<= 1.4"
		[ "$rounds" -gt 1 ] || continue
		row "commit 4 KiB, R $replicas, us ($trips x ib_write_lat)" "commit4096.$replicas" write4k "$trips" "-"
		row "commit 4 KiB, R $replicas, us (relay, $trips nodes)" "commit4096.$replicas" "relay4096.$replicas" 1 "<= 1.4"
	done
	rm -rf "$tmp"
	return "$failed"
}

if [ "${1:-}" = --guest ]; then
	guest
	exit
fi
for tool in ib_write_lat ib_read_lat ib_write_bw ib_read_bw; do
	command -v "$tool" >/dev/null || {
		echo "SKIP: no $tool: run apt-get install perftest"
		exit 77
	}
done
[ -x "$bin" ] || {
	echo "bench: no program at $bin: build it, or set OUTLAST_BIN"
	exit 1
}
[ -x "$relay" ] || {
	echo "bench: no program at $relay: build it (rxe-guest-relay), or set OL_RELAY"
	exit 1
}
# perftest's clients crash now and then when a connection is refused, and the kernel logs that
exec "$root/tools/lab/run" --deadline 1000 --allow-kernel-warnings -- "$here/bench.sh" --guest
