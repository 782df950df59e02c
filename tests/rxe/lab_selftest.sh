#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# lab_selftest.sh -- the lab returns status and output, has an RDMA device, makes faults on request, and leaves no trace
set -u

root=$(cd "$(dirname "$0")/../.." && pwd)
run=$root/tools/lab/run
tmp=$(mktemp -d)
bad=0
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; rm -rf "$tmp"' EXIT

# expect WHAT WANTED GOT
expect() {
	[ "$2" = "$3" ] && return
	echo "lab_selftest: $1: wanted '$2', got '$3'"
	bad=1
}

# shellcheck disable=SC2016  # expanded in the guest
one_host() {
	local rc

	"$run" --out "$tmp/one" -- sh -c 'ibv_devinfo -d "$OL_DEVICE" >"$OL_OUT/devinfo" || exit 9
		printf "a\r\nb c\n"; pwd; echo complaint >&2; cat; exit 3' >"$tmp/stdout" 2>"$tmp/stderr"
	rc=$?
	if [ "$rc" = 77 ]; then
		cat "$tmp/stderr"
		exit 77
	fi
	expect "status of one host" 3 "$rc"
	expect "output" "$(printf 'a\r\nb c\n'; pwd)" "$(cat "$tmp/stdout")"
	expect "errors" complaint "$(cat "$tmp/stderr")"
	expect "active ports of rxe0" 1 "$(grep -c PORT_ACTIVE "$tmp/one/devinfo")"
	expect "state left in the shared directory" '' "$(ls -d "$tmp/one/.lab" 2>/dev/null)"
}

# shellcheck disable=SC2016  # expanded in the guest
by_hand() {
	local shell=$root/tools/lab/shell lab

	"$run" --out "$tmp/hand" --deadline 120 -- "$shell" >"$tmp/stdout" 2>"$tmp/stderr" &
	lab=$!
	until [ -e "$tmp/hand/.lab/host0.pid" ] || ! kill -0 "$lab" 2>/dev/null; do
		read -r -t 0.1 <> <(:)
	done
	"$shell" in "$tmp/hand" 0 sh -c 'echo "a  b"; ls -d "/sys/class/infiniband/$OL_DEVICE"; exit 3' >"$tmp/said"
	expect "status of a command by hand" 3 $?
	expect "what it says" "$(printf 'a  b\n/sys/class/infiniband/rxe0')" "$(cat "$tmp/said")"
	"$shell" in "$tmp/hand" 1 true 2>"$tmp/said"
	expect "status for a host that is not there" 1 $?
	"$shell" end "$tmp/hand"
	wait "$lab"
	expect "status of a lab that is told to end" 0 $?
	expect "files of commands" '' "$(find "$tmp/hand" -name 'shell.0.*')"
}

# A guest that measures its clock itself, while the machine is busy, gets it wrong in 1 of 6 boots.
clock() {
	local given

	"$run" --out "$tmp/clock" -- cat /proc/cmdline >"$tmp/stdout" 2>"$tmp/stderr"
	expect "status of a guest that looks at its clock" 0 $?
	given=$(sed -n 's/.*tsc_early_khz=\([0-9]*\).*/\1/p' "$tmp/stdout")
	expect "the counter's frequency as the guest takes it" "${given%???}.${given: -3}" \
		"$(sed -n 's/.*tsc: Detected \([0-9.]*\) MHz.*/\1/p' "$tmp/clock/host0.dmesg" | tail -n 1)"
}

panic() {
	"$run" -- sh -c 'echo c >/proc/sysrq-trigger; exec sleep 60' >"$tmp/stdout" 2>"$tmp/stderr"
	expect "status of a panic" 125 $?
	expect "panics told" 1 "$(grep -c 'host 0 ended without a status: Kernel panic' "$tmp/stderr")"
}

kernel_warning() {
	"$run" -- sh -c 'echo "WARNING: made up" >/dev/kmsg' >"$tmp/stdout" 2>"$tmp/stderr"
	expect "status with a kernel warning" 70 $?
}

deadline() {
	"$run" --deadline 1 -- sleep 60 >"$tmp/stdout" 2>"$tmp/stderr"
	expect "status after the deadline" 124 $?
}

# Host 1 listens; host 0 pings it over rxe, cuts it off, heals it, takes its power, and tells what it saw.
two_hosts() {
	local pid

	"$run" --hosts 2 --out "$tmp/two" --deadline 120 -- "$root/tests/rxe/guest/lab_faults.sh" "$root/tools/lab/ctl" \
		>"$tmp/stdout" 2>"$tmp/stderr" &
	pid=$!
	pids+=("$pid")
	wait "$pid"
	expect "status of two hosts" 0 $?
	expect "what host 0 saw" "host0: rdma yes, cut no, healed yes, off no" "$(grep '^host0: ' "$tmp/stdout")"
	expect "namespaces left" '' "$(ip netns list | grep -w "outlast-lab-$pid")"
	[ "$bad" = 0 ] || sed 's/^/lab_selftest: stderr: /' "$tmp/stderr"
}

one_host
by_hand
clock
panic
kernel_warning
deadline
if [ "$(id -u)" = 0 ]; then
	two_hosts
else
	echo "lab_selftest: several hosts not tried: that needs root"
fi
exit "$bad"
