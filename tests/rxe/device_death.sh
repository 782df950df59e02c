#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# device_death.sh -- devices die under a job, and it ends with the weights that it would have had
#
#	device_death.sh [CASE...]
#
# The adapters of support/adapter die at a post of one process (fatal, removed). Then a device is really taken away and
# given back: `rdma link delete`, `rdma link add`, with all processes of a job on it.
#
# not under asan, tsan: a library of theirs must be the first that is loaded
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${OUTLAST_BUILD:-$root/build/dev}
bin=${OUTLAST_BIN:-$build/outlast}
library=$build/tests/libol-adapter.so
steps=40

say() {
	echo "$*"
	sed 's/^/    /' "$log" | cut -c1-200
	failed=1
}

value() {
	sed -n "s/^  \"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$tmp/r.json"
}

# job WORD... -- a synchronous run; its output in $log
job() {
	rm -f "$tmp/r.json"
	timeout 90 "$bin" train --model mlp:16 --dataset synthetic:train=500,test=100 --eval-every 0 --seed 7 --workers 2 \
		--consistency sync --steps $steps --json "$tmp/r.json" "$@" >"$log" 2>&1 </dev/null
}

# judge NAME STATUS -- it ended well, with the weights of the undisturbed run and nothing lost. A worker that goes on
# without a server computes at its own weights, so then the weights are others
judge() {
	local sha256

	sha256=$(value weights_sha256)
	[ "$continues" = 0 ] || sha256=$whole
	if [ "$2" = 0 ] && [ "$sha256" = "$whole" ] && [ "$(value gradients_lost)" = 0 ]; then
		echo "$1: ok"
	else
		say "$1: status $2, lost $(value gradients_lost), weights $(value weights_sha256), not $whole"
	fi
}

# dies NAME WORD QUIRK ARGUMENT... -- the device of the process with this word on its command line dies, once
dies() {
	local name=$1 victim=$2 quirk=$3 status

	shift 3
	rm -f "$tmp/once"
	OL_ADAPTER=$quirk OL_ADAPTER_VICTIM=$victim OL_ADAPTER_ONCE=$tmp/once LD_PRELOAD=$library \
		job --transport verbs "$@"
	status=$?
	[ -e "$tmp/once" ] || say "$name: no device died"
	judge "$name" $status
}

# logged TEXT -- the last job said so
logged() {
	grep -q "$1" "$log" || say "nobody said: $1"
}

server() {
	dies "server" serve removed=60
	logged "server 0 ended with exit status 10: it is started again"
}

# It leaves what it had: nothing has to be computed again.
checkpoint() {
	dies "server with checkpoints" serve fatal=60 --durability checkpoint \
		--checkpoint "every=1000steps,dir=$tmp/checkpoints" --restore checkpoint
	logged "of a checkpoint"
}

worker() {
	dies "worker that waits" --id=1 fatal=60
	logged "worker 1: opened a device again"
	continues=1
	dies "worker that continues" --id=0 removed=70 --outage continue
	logged "worker 0: opened a device again"
	continues=0
}

chain() {
	local head

	# the pace: the job is not over before the head's process is
	dies "head of two" --rank=0 fatal=30 --durability chain --replicas 2 --lease-ms 5000 --pace 10
	logged "server 0.0 ended with exit status 10: it is started again"
	# the head that succeeds it may say so when the job ends
	head=$(sed -n "s/^server 0\.0 at \([0-9.]*:[0-9]*\):.*/\1/p" "$log")
	[ -n "$head" ] || say "no head named itself"
	! grep -q "server $head: .* successor .* is suspected" "$log" ||
		say "the head said so of a neighbour that is well"
}

# under_way DEVICES WORD... -- a long job runs over verbs, as $pid; $whole is of the same one, undisturbed
under_way() {
	steps=200
	job --transport shm "${@:2}"
	whole=$(value weights_sha256)
	: >"$log" # the last job's steps are no sign that this one has begun
	job --transport verbs --pace 25 ${1:+--device "$1"} "${@:2}" &
	pid=$!
	until grep -q '^step' "$log"; do sleep 0.1; done
}

# over NAME -- it ends, and well
over() {
	wait $pid
	judge "$1" $?
}

# second_device -- rxe1, on the other end of the cable, with an address of its own
second_device() {
	ip addr replace "${OL_ADDR%.*}.9/24" dev d1
	rdma link add rxe1 type rxe netdev d1
}

# removal -- all of a job's processes lose the device, which comes back. librdmacm lets a device go only when it sees
# another, so there is one.
removal() {
	rdma link add rxe1 type rxe netdev d1
	under_way ""
	timeout 60 rdma link delete "$OL_DEVICE" || say "removal: the device does not go"
	sleep 1
	rdma link add "$OL_DEVICE" type rxe netdev d0
	over removal
	logged "it is being removed"
	logged "server 0 ended with exit status 10: it is started again"
	logged "worker 0: opened a device again"
	rdma link delete rxe1
}

sent() {
	cat "/sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts"
}

# rails -- two servers and two devices, a shard each; the second device goes, and its server and connections take the
# first. Both are ends of one cable, with an address each.
rails() {
	local before

	sysctl -qw net.ipv4.conf.{all,d0,d1}.accept_local=1 net.ipv4.conf.{all,d0,d1}.rp_filter=0
	second_device
	before=$(sent rxe1)
	under_way "$OL_DEVICE,rxe1" --servers 2
	[ $(($(sent rxe1) - before)) -gt 100 ] || say "rails: rxe1 carries no shard"
	timeout 60 rdma link delete rxe1 || say "rails: the device does not go"
	over rails
	logged "worker 0: lost rxe1"
	logged "(shard 1) is reached by $OL_DEVICE now"
	logged "server 1 ended with exit status 10: it is started again"
}

# idle -- one server, so the second rail has no connection that would be told; its device goes all the same, and soon
idle() {
	second_device
	under_way "$OL_DEVICE,rxe1"
	timeout 60 rdma link delete rxe1 || say "idle: the device does not go"
	! grep -q '^ended' "$log" || say "idle: the device goes only with the job"
	over idle
	logged "worker 0: lost rxe1, and so a rail"
}

if [ "${OL_DEVICE_GUEST:-}" != 1 ]; then
	OL_DEVICE_GUEST=1 exec "$root/tools/lab/run" --deadline 600 -- bash "$0" "$@"
fi
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
log=$tmp/log
failed=0
continues=0
job --transport shm
whole=$(value weights_sha256)
[ ${#whole} = 64 ] || {
	say "no undisturbed run"
	exit 1
}
for case in ${*:-server checkpoint worker chain removal rails idle}; do
	"$case"
done
exit $failed
