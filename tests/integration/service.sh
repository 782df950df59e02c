#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# service.sh -- a service says that it is ready, what it does, and that its loop turns; and in a systemd, process 1 of new
# namespaces, the units that are installed start, confine, watch, restart and stop servers, and the journal has their fields
#
# not under asan, tsan: what a sanitizer does at its start a unit forbids
. "$(dirname "$0")/train_lib.bash"
. "$(dirname "$0")/service_lib.bash"

here=$(cd "$(dirname "$0")" && pwd)
build=${OUTLAST_BUILD:?is the build that is installed}
unset OUTLAST_JOB_KEY

"$python" "$here/service_wedge.py" manager "$OUTLAST_BIN" || fail "a server and its manager"

# examples are files of settings that the program takes: it misses the key that they name, and nothing before it
examples=$here/../../tools/service
outlast serve --config "$examples/serve.conf" --config "$examples/cnn7.conf"
expect_error "the example of a server" 2 'outlast serve: cannot read the job key: /etc/outlast/cnn7.key: *'
outlast stat --config "$examples/cnn7.metrics.conf"
expect_error "the example of metrics" 2 'outlast stat: cannot read the job key: /etc/outlast/cnn7.look.key: *'
outlast relay --config "$examples/cnn7.relay.conf"
expect_error "the example of a relay" 2 'outlast relay: cannot read the job key: /etc/outlast/cnn7.look.key: *'

# --- a systemd of its own

service_start
prefix=$(sed -n 's/^CMAKE_INSTALL_PREFIX:[^=]*=//p' "$build/CMakeCache.txt")

work() {
	inside setpriv --reuid outlast --regid outlast --clear-groups "$prefix/bin/outlast" work --connect @t "${tiny[@]}" --steps "$1" \
		>"$tmp/work" 2>&1 || fail "a worker: $(cat "$tmp/work")"
}

[ "$(inside stat -c '%n %a %U %G' /etc/outlast /var/lib/outlast /run/outlast)" = "/etc/outlast 750 root outlast
/var/lib/outlast 700 outlast outlast
/run/outlast 700 outlast outlast" ] || fail "folders: $(inside stat -c '%n %a %U %G' /etc/outlast /var/lib/outlast /run/outlast)"

s=outlast-serve@t.service
put /etc/outlast/t.conf <<'END'
listen = @t
model = softmax
dataset = synthetic:train=500,test=200
durability = checkpoint
checkpoint = every=1s,dir=/var/lib/outlast/t
lease_ms = 2000
END
inside mkdir "/etc/systemd/system/$s.d"
printf '[Service]\nWatchdogSec=4s\n' | put "/etc/systemd/system/$s.d/test.conf"
inside systemctl enable --quiet --now "$s" >"$tmp/said" 2>&1 ||
	{ fail "enable --now: $(cat "$tmp/said"; inside journalctl --no-pager -n 40)"; verdict; }
is "$s" ActiveState '^active$' || fail "it is $(shows "$s" ActiveState)"
is "$s" StatusText '^shard 0, waits for its weights, 0 workers$' || fail "status: $(shows "$s" StatusText)"
inside test -L "/etc/systemd/system/multi-user.target.wants/$s" || fail "it is not enabled"

# what it may do, and what it has
main=$(shows "$s" MainPID)
inside cat "/proc/$main/status" >"$tmp/status"
for want in 'NoNewPrivs: 1' 'Seccomp: 2' 'CapEff: 0000000000000000'; do
	[ "$(sed -n "s/^${want%%:*}:[[:space:]]*//p" "$tmp/status")" = "${want#*: }" ] || fail "not $want"
done
# unlimited; or as much as this machine's root may have
memory=$(inside awk '/^Max locked memory/ { print $4 }' "/proc/$main/limits")
[ "$memory" = unlimited ] || [ "$memory" = "$(inside awk '/^Max locked memory/ { print $5 }' /proc/1/limits)" ] ||
	fail "locked memory is limited to $memory"
inside test -c "/proc/$main/root/dev/infiniband/uverbs0" || fail "it sees no RDMA device"
inside test -d "/proc/$main/root/dev/shm" || fail "it sees no shared memory"
journal -u "$s" | grep -q '^in a sandbox: seccomp' || fail "it is in no sandbox of its own"

# the status line, and the journal's fields
work 20
becomes "$s" StatusText '^shard 0, epoch 1, version 20, 0 workers, checkpoint of version 20$'
journal -u "$s" OUTLAST_SHARD=0 PRIORITY=6 | grep -q '^server at @t: shard 0 of 1' || fail "the journal has no such line of shard 0"
[ -z "$(journal -u "$s" OUTLAST_SHARD=1)" ] || fail "the journal has lines of shard 1"

# it dies, and goes on where it was
inside kill -9 "$main"
becomes "$s" NRestarts '^[1-9]'
becomes "$s" ActiveState '^active$'
work 5
grep -q 'version 25' "$tmp/work" || fail "it did not go on from version 20: $(cat "$tmp/work")"
becomes "$s" StatusText '^shard 0, epoch 2, version 25, 0 workers, checkpoint of version 25$'
journal -u "$s" OUTLAST_SHARD=0 OUTLAST_EPOCH=2 | grep -q 'goes on from version 20 of a checkpoint' ||
	fail "the journal has no such line of epoch 2: $(journal -u "$s" OUTLAST_SHARD=0)"

# its loop stands still: the watchdog ends it
restarts=$(shows "$s" NRestarts)
: >"$tmp/wedge"
inside "$python" - wedge "$(shows "$s" MainPID)" <"$here/service_wedge.py" >"$tmp/wedge" 2>&1 &
until_true grep -q stopped "$tmp/wedge" || fail "the loop cannot be stopped: $(cat "$tmp/wedge")"
becomes "$s" NRestarts "^$((restarts + 1))\$"
journal -u "$s" | grep -qi 'watchdog timeout' || fail "not by the watchdog: $(journal -u "$s" -n 20)"
becomes "$s" ActiveState '^active$'

work 3

# its counters, read by another service
m=outlast-metrics@t.service
printf 'servers = @t\njob = t\nlisten = 127.0.0.1:0\n' | put /etc/outlast/t.metrics.conf
inside systemctl start $m || fail "$m: $(inside journalctl -u $m --no-pager)"
is $m StatusText '^serves http://127\.0\.0\.1:[0-9]+/metrics; not scraped yet$' || fail "$m: $(shows $m StatusText)"
url=$(shows $m StatusText)
url=${url#serves }
is_scraped() {
	inside "$python" -c 'import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())' "${url%;*}" >"$tmp/page" 2>&1
	grep -q '^outlast_up{.*} 1$' "$tmp/page"
}
until_true is_scraped || fail "metrics: $(cat "$tmp/page")"
becomes $m StatusText '; [0-9]+ scrapes, 1 of 1 servers read in the last$'
inside systemctl stop $m
is $m Result '^success$' || fail "$m ended: $(shows $m Result)"

# its weights, for readers: a service that outlives the server's restart
r=outlast-relay@t.service
printf 'connect = @t\nlisten = @r\nlog = info\nlease_ms = 2000\n' | put /etc/outlast/t.relay.conf
inside systemctl start $r || fail "$r: $(inside journalctl -u $r --no-pager)"
becomes $r StatusText '^version 28 of 1 shard, 1 reads of the job$'
restarts=$(shows "$s" NRestarts)
inside kill -9 "$(shows "$s" MainPID)"
becomes "$s" NRestarts "^$((restarts + 1))\$"
becomes "$s" ActiveState '^active$'
work 2
becomes $r StatusText '^version 30 of 1 shard, [0-9]+ reads of the job$'
inside systemctl stop $r
is $r Result '^success$' || fail "$r ended: $(shows $r Result)"

# a stop is no failure, and leaves a checkpoint
inside systemctl stop "$s"
is "$s" Result '^success$' && is "$s" ExecMainStatus '^0$' || fail "stopped: $(shows "$s" Result) $(shows "$s" ExecMainStatus)"
journal -u "$s" -n 10 | grep -q '^version 30, ' || fail "no summary: $(journal -u "$s" -n 10)"
inside find /var/lib/outlast/t -name '*30*' | grep -q . || fail "no checkpoint: $(inside ls /var/lib/outlast/t)"

# a chain of two services, whose roles change hands
inside setpriv --reuid outlast --regid outlast --clear-groups mkdir -m 700 /var/lib/outlast/views
for name in c0 c1; do
	printf '%s\n' "listen = @$name" 'model = softmax' 'dataset = synthetic:train=500,test=200' 'lease_ms = 2000' \
		'coordinator = dir:/var/lib/outlast/views' 'job = c' 'replicas = 2' 'restore = none' "rank = ${name#c}" | put "/etc/outlast/$name.conf"
done
inside systemctl start outlast-serve@c0
becomes outlast-serve@c0 StatusText '^shard 0: 1 of 2 servers are here; waits for 1 more$'
inside systemctl start outlast-serve@c1
becomes outlast-serve@c0 StatusText '^shard 0, head, epoch [0-9]+, version 0, 0 workers$'
becomes outlast-serve@c1 StatusText '^shard 0, tail, epoch [0-9]+, version 0, 0 workers$'
inside systemctl restart outlast-serve@c0
becomes outlast-serve@c1 StatusText '^shard 0, head, epoch [0-9]+, version 0, 0 workers$'
becomes outlast-serve@c0 StatusText '^shard 0, tail, epoch [0-9]+, version 0, 0 workers$'
journal -u outlast-serve@c1 OUTLAST_SHARD=0 PRIORITY=6 | grep -q 'epoch [0-9]*: only of 1' || fail "no role in the journal: $(journal -u outlast-serve@c1)"
inside systemctl stop outlast-serve@c0 outlast-serve@c1

# what only a person can mend is not tried again
echo 'no_such = 1' | put /etc/outlast/bad.conf
inside systemctl start outlast-serve@bad >/dev/null 2>&1 && fail "it starts with a wrong setting"
is outlast-serve@bad 'ActiveState' '^failed$' && is outlast-serve@bad ExecMainStatus '^2$' && is outlast-serve@bad NRestarts '^0$' ||
	fail "a wrong setting: $(inside systemctl status --no-pager outlast-serve@bad)"
journal -u outlast-serve@bad PRIORITY=3 | grep -q '/etc/outlast/bad.conf:1: no_such' ||
	fail "the journal does not say what is wrong: $(journal -u outlast-serve@bad)"
verdict
