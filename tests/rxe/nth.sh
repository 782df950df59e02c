#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nth.sh -- verbs calls and other calls of the control path may fail in turn, in one virtual machine
#
# The scenario `xport` of tests/nth on a soft-RoCE device: the whole of rdma/verbs. Server and worker treat failures of
# their transport the same over shm, where the rung nth checks them. OL_NTH: which scenarios (xport).
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
