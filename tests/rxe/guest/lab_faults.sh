#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# lab_faults.sh CTL -- in a lab of two hosts: checks whether host 1 answers host 0, before and after each fault
#
# A live host refuses a connection to a port without a listener; a lost one is silent.
ctl=$1

answers() {
	timeout 2 bash -c "exec 3<>/dev/tcp/$OL_ADDR_1/9" 2>/dev/null
	case $? in
	124) echo no ;;
	*) echo yes ;;
	esac
}

# The server may not listen yet: ask until it answers; the lab's deadline ends what never does.
rdma_ping() {
	until rping -c -a "$OL_ADDR_1" -C 5 >/dev/null 2>&1; do
		sleep 0.1
	done
	echo yes
}

if [ "$OL_HOST" = 1 ]; then
	rping -s -P -a "$OL_ADDR" >/dev/null 2>&1
	exit 1 # the server never ends by itself; the power does
fi
seen="rdma $(rdma_ping)"
"$ctl" "$OL_OUT" cut 1 || exit 2
seen="$seen, cut $(answers)"
"$ctl" "$OL_OUT" heal 1 || exit 3
seen="$seen, healed $(answers)"
"$ctl" "$OL_OUT" poweroff 1 || exit 4
echo "$seen, off $(answers)"
