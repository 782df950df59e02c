#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# job.sh -- pushes count exactly once, pulls are whole, lost workers and servers and lying peers do no harm, and a lost
# shard comes back from its running checkpoint, over verbs in one virtual machine
#
# Runs the integration tests of the same names on a soft-RoCE device.
set -u

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${OUTLAST_BUILD:-$root/build/dev}/tests

# shellcheck disable=SC2016  # expanded in the guest
exec "$root/tools/lab/run" --deadline 600 -- sh -c '
	export OL_TRANSPORT=verbs
	for test in job hostile pin between decided scar; do
		"$0/integration-$test" || { echo "not ok $test"; exit 1; }
		echo "ok $test"
	done' "$build"
