#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# wire_options.sh -- timers, traffic class and path MTU that are set are those of the queue pairs at both ends
set -u

root=$(cd "$(dirname "$0")/../.." && pwd)
exec "$root/tools/lab/run" --deadline 200 -- "${OUTLAST_BUILD:-$root/build/dev}/tests/rxe-guest-wire_options"
