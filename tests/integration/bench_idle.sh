#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench_idle.sh -- a server with a worker and no traffic sleeps: the goal is under 1 % of a core, the bound 3 %
#
# alone: other processes would change the figure by caches and the scheduler
# not under asan, tsan: the figure is that of an ordinary build
set -u

bin=${OUTLAST_BIN:-${OUTLAST_BUILD:-build/dev}/outlast}
line=$("$bin" bench idle --seconds 3 | grep '^idle server') || {
	echo "not ok: outlast bench idle gave no figure"
	exit 1
}
echo "$line"
percent=$(sed -n 's/.*: \([0-9.]*\) % of a core.*/\1/p' <<<"$line")
awk -v percent="$percent" 'BEGIN { exit !(percent > 0 && percent < 3) }' || {
	echo "not ok: '$percent' is not between 0 and 3 %"
	exit 1
}
