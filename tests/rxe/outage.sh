#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# outage.sh -- servers killed at random moments, over verbs in one virtual machine
#
# What the integration test of the same name checks over shared memory, on a soft-RoCE device.
#
# alone: it looks for deaths by the clock, in a machine that is emulated
set -u

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${OUTLAST_BUILD:-$root/build/dev}/tests

# shellcheck disable=SC2016  # expanded in the guest
exec "$root/tools/lab/run" --deadline 600 -- sh -c '
	export OL_TRANSPORT=verbs OL_KILLS="${OL_KILLS:-10}"
	exec "$0/integration-outage"' "$build"
