#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# outage_cases.sh -- queues, replay, restores, leases, peers that lie in an outage, and first weights, over verbs in one virtual machine
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
	for test in ${OL_TESTS:-outage_queue outage_restore outage_peers outage_lease outage_history init}; do
		"$0/integration-$test" || { echo "not ok $test"; exit 1; }
		echo "ok $test"
	done' "$build"
