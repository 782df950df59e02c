#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# service.sh -- in a virtual machine with a soft-RoCE device: a server that systemd runs by the installed unit, confined as that
# says, opens the device and is trained with over it, by a worker outside of the unit
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export OUTLAST_BUILD=${OUTLAST_BUILD:-$root/build/dev}
export OUTLAST_BIN=${OUTLAST_BIN:-$OUTLAST_BUILD/outlast}

if [ "${1:-}" != --guest ]; then
	exec "$root/tools/lab/run" --deadline 200 -- "$here/service.sh" --guest
fi

mount -t cgroup2 cgroup2 /sys/fs/cgroup || exit 1
. "$here/../integration/train_lib.bash"
. "$here/../integration/service_lib.bash"
service_spaces=(--mount --pid --cgroup --ipc --uts) # the device belongs to this machine's network
service_start
s=outlast-serve@t.service
put /etc/outlast/t.conf <<'END'
listen = :7471
transport = verbs
model = softmax
dataset = synthetic:train=500,test=200
job_key_file = /etc/outlast/t.key
END
printf '%s\n' "$OUTLAST_JOB_KEY" | put /etc/outlast/t.key
inside chown outlast /etc/outlast/t.key
inside chmod 600 /etc/outlast/t.key
inside systemctl start "$s" || { fail "start: $(inside journalctl --no-pager -n 40)"; verdict; }
main=$(shows "$s" MainPID)
inside test -c "/proc/$main/root/dev/infiniband/uverbs0" || fail "it sees no RDMA device"
[ "$(inside sed -n 's/^CapEff:[[:space:]]*//p' "/proc/$main/status")" = 0000000000000000 ] || fail "it has capabilities"
journal -u "$s" | grep -q "^server at $OL_ADDR:7471: shard 0 of 1" || fail "it listens elsewhere: $(journal -u "$s")"
outlast work --connect "$OL_ADDR:7471" --transport verbs "${tiny[@]}" --steps 30
expect "a worker over the device" 0
becomes "$s" StatusText '^shard 0, epoch 1, version 30, 0 workers$'
inside kill -9 "$main"
becomes "$s" NRestarts '^1$'
becomes "$s" ActiveState '^active$'
outlast work --connect "$OL_ADDR:7471" --transport verbs "${tiny[@]}" --steps 5
expect "a worker, and a server that came back" 0
inside systemctl stop "$s"
is "$s" Result '^success$' || fail "stopped: $(shows "$s" Result)"
verdict
