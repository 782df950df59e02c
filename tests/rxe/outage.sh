#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# outage.sh -- when servers are killed at random moments no gradient is lost, over verbs in one virtual machine
#
# Runs the integration test of the same name on a soft-RoCE device.
#
# alone: it detects deaths by the clock, in a machine that is emulated
set -u

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${OUTLAST_BUILD:-$root/build/dev}/tests

# shellcheck disable=SC2016  # expanded in the guest
exec "$root/tools/lab/run" --deadline 600 -- sh -c '
	export OL_TRANSPORT=verbs OL_KILLS="${OL_KILLS:-10}"
	exec "$0/integration-outage"' "$build"
