#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# launch_ssh.sh -- outlast launch over a real sshd to three hosts, all of which are this machine: a chain with a replica on
# each, two workers; the head is killed, then a host's connection is; the weights stay those of an undisturbed run
# not under asan, tsan: its subject is what runs where
. "$(dirname "$0")/train_lib.bash"
. "$(dirname "$0")/launch_lib.bash"
. "$(dirname "$0")/ensemble_lib.bash"
. "$(dirname "$0")/hosts_lib.bash"

hosts_needs
hosts_start
hosts_undisturbed
hosts_head_killed --hosts "$tmp/hosts" --ssh "$hosts_ssh"
hosts_way_killed '127\.0\.0\.2 .*launch-agent' --hosts "$tmp/hosts" --ssh "$hosts_ssh"

# hosts that cannot be reached
outlast launch "${hosts_job[@]}" --coordinator "$ensemble_addr" --hosts "$tmp/hosts" --ssh "${hosts_ssh/ -p / -p 1 -p }" "${hosts_work[@]}"
[ "$rc" != 0 ] && [ "$rc" != 124 ] || fail "hosts that are not there: status $rc"
[[ $err == *"127.0.0."* ]] || fail "hosts that are not there: says $err"
verdict
