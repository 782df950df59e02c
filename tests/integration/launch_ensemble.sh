#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# launch_ensemble.sh -- outlast launch --ensemble: a job begins ZooKeeper for itself; one server of it is killed, then what keeps
# another one, then the head of the chain: the weights stay those of an undisturbed run, and nothing is left
# not under asan, tsan: its subject is the launcher's own decisions, which are tested there by unit
. "$(dirname "$0")/train_lib.bash"
. "$(dirname "$0")/launch_lib.bash"
. "$(dirname "$0")/ensemble_lib.bash"

ensemble_needs
outlast launch "${job[@]}" --workers 2 -- outlast work --until 150 --eval
expect "undisturbed, without chains" 0
printf '%s\n' "$out" >"$tmp/whole"
whole=$(sha_of "$tmp/whole")

# java_of NAME INDEX -- the process of a server of ZooKeeper; folder_of NAME INDEX -- its folder
java_of() {
	pgrep -P "$(process_of "$1" "zookeeper $2")" -x java
}
folder_of() {
	dirname "$(tr '\0' '\n' <"/proc/$(java_of "$1" "$2")/cmdline" | tail -n 1)"
}
none_left() {
	local i

	for i in "${folders[@]}"; do
		[ ! -e "$i" ] || return 1
	done
}

launched job "${job[@]}" --workers 2 --ensemble 3 --replicas 3 -- outlast work --until 150 --pace 10 --eval
wait_said job '^\[worker [01]\] worker . at zk:127\.0\.0\.1:[0-9]*,127' 2
folders=("$(folder_of job 0)" "$(folder_of job 1)" "$(folder_of job 2)")
for i in "${folders[@]}"; do
	[ -s "$i/cfg" ] && [ "$(stat -c %a "$i")" = 700 ] || fail "no folder of ZooKeeper's: $i"
done
kill -9 "$(java_of job 1)"
wait_said job '^\[zookeeper 1\] ZooKeeper was killed by signal 9; it is started again with its data'
until_true ensemble_answers "$(sed -n 's/.* zookeeper 1 listens .*:\([0-9]*\), process .*/\1/p' "$tmp/job.err")" || fail "it does not come back"
kill -9 "$(process_of job 'zookeeper 2')"
wait_said job 'zookeeper 2 listens' 2
kill -9 "$(process_of job 'server 0.0')"
ended "$launcher" 0 "a server of ZooKeeper was killed, and a server"
same "a server of ZooKeeper was killed, and a server" job
truth "a server of ZooKeeper was killed, and a server" \
	'r["ended"] == "done" and r["restarts"] == 2 and r["processes"][-1]["end"] == "done"'
none_left || fail "a folder of ZooKeeper's is left: ${folders[*]}"

# the launcher is killed
launched killed "${job[@]}" --workers 1 --ensemble 1 --replicas 1 -- outlast work --steps 0 --pace 60
wait_said killed '^\[worker 0\] worker 0 at zk:'
folders=("$(folder_of killed 0)")
left=$(java_of killed 0)
kill -9 "$launcher"
until_true gone "$left" || fail "ZooKeeper outlived the launcher"
until_true none_left || fail "the launcher was killed: a folder is left: ${folders[*]}"

# what cannot be
outlast launch --params 8 --ensemble 1 --ensemble-classpath "$tmp/nothing.jar" -- true
expect "no ZooKeeper" 7
[[ $err == *'no ZooKeeper on this host: '*/nothing.jar:*'outlast launch: zookeeper 0 on this machine ended with exit status 7: '*'apt-get install zookeeper'* ]] ||
	fail "no ZooKeeper: $err"
outlast launch --params 8 --ensemble 3 --coordinator zk:127.0.0.1:1 -- true
expect_error "a coordinator as well" 2 'outlast launch: --ensemble: "3" is instead of a coordinator*'
outlast launch --params 8 --ensemble 2 -- true
expect_error "two" 2 'outlast launch: --ensemble: "2" is not 1, 3 or 5*'
printf '%s\n' a b >"$tmp/hosts"
outlast launch --params 8 --hosts "$tmp/hosts" --ensemble 3 --replicas 2 -- true
expect_error "too few hosts" 2 'outlast launch: 3 servers of ZooKeeper need 3 hosts, and there are 2*'
verdict
