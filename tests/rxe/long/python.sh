#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# python.sh -- learners of PyTorch end with the same bits over verbs, whenever the only server is killed: the test
# python-exact in one virtual machine
#
# No test of the rung rxe: torch takes minutes in a machine that is emulated
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
build=${OUTLAST_BUILD:-$root/build/dev}

# shellcheck disable=SC2016  # for the guest's shell
exec "$root/tools/lab/run" --mem 4096 --deadline "${OL_DEADLINE_S:-3600}" -- env OUTLAST_BUILD="$build" \
	bash -c 'OUTLAST_TEST_HOST=$OL_ADDR exec /usr/bin/python3 "$0" exact' "$root/tests/python/run.py"
