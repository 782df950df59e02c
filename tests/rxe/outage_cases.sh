#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# outage_cases.sh -- queues, replay, restores, leases, and peers that lie in an outage, over verbs in one virtual machine
#
# Runs the integration tests of the same names on a soft-RoCE device.
#
# alone: leases are counted by the clock, in a machine that is emulated
set -u

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${OUTLAST_BUILD:-$root/build/dev}/tests

# shellcheck disable=SC2016  # expanded in the guest
exec "$root/tools/lab/run" --deadline 900 -- sh -c '
	export OL_TRANSPORT=verbs
	for test in ${OL_TESTS:-queue restore peers lease history}; do
		"$0/integration-outage_$test" || { echo "not ok $test"; exit 1; }
		echo "ok $test"
	done' "$build"
