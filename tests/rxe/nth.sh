#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nth.sh -- verbs calls and what else the control path calls fail in turn, in one virtual machine
#
# The scenario `xport` of tests/nth on a soft-RoCE device: the whole of rdma/verbs. What server and worker do when their
# transport fails is the same over shm, and the rung nth has it there. OL_NTH: which scenarios (xport).
set -u

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${OUTLAST_BUILD:-$root/build/dev}/tests

# shellcheck disable=SC2016  # expanded in the guest
exec "$root/tools/lab/run" --deadline 1100 -- sh -c '
	export OL_TRANSPORT=verbs
	status=0
	for name in ${OL_NTH:-xport}; do
		"$0/nth" "$name" || status=1
	done
	exit $status' "$build"
