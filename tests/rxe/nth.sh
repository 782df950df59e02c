#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nth.sh -- verbs calls and what else the control path calls fail in turn, in one virtual machine
#
# The scenarios of tests/nth that have a transport, on a soft-RoCE device. OL_NTH: which.
set -u

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${OUTLAST_BUILD:-$root/build/dev}/tests

# shellcheck disable=SC2016  # expanded in the guest
exec "$root/tools/lab/run" --deadline 1100 -- sh -c '
	export OL_TRANSPORT=verbs
	status=0
	for name in ${OL_NTH:-xport server worker}; do
		"$0/nth" "$name" || status=1
	done
	exit $status' "$build"
