#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# drill_small.sh -- a small drill of each experiment, whose processes a sanitizer watches
#
# not under tsan: a trial has one thread; drill_scar and drill_dbw, which are larger, are lines of long.list
. "$(dirname "$0")/train_lib.bash"

# drill NAME WORD... -- a drill, and what every report has
drill() {
	local name=$1

	shift
	outlast drill "$@" --out "$tmp/$name" --json "$tmp/$name.json"
	expect "$name" 0
	for file in README.md claims.md summary.csv settings drill.json; do
		[ -s "$tmp/$name/$file" ] || fail "$name: no $file"
	done
}

drill kills --model mlp:16 --dataset synthetic:train=500,test=200 --workers 2 --seconds 2 --kill-at 0.6 --down 0.3 \
	--again 0.3 --pace 60 --checkpoint-every 10 --kills 1 --seeds 1 --strategies checkpoint --consistency async
[ "$(grep -c ',done,' "$tmp/kills/summary.csv")" = 1 ] || fail "kills: $(cat "$tmp/kills/summary.csv")"
drill scar --experiment scar --trials 1
[ "$(grep -c '^uneven,' "$tmp/scar/summary.csv")" = 72 ] || fail "scar: $(cat "$tmp/scar/summary.csv")"
drill dbw --experiment dbw --trials 1
[ "$(wc -l <"$tmp/dbw/summary.csv")" = 91 ] || fail "dbw: $(cat "$tmp/dbw/summary.csv")"
drill mtbf --experiment mtbf --trials 1 --job servers=2,hours=0.5
[ "$(wc -l <"$tmp/mtbf/summary.csv")" = 141 ] || fail "mtbf: $(cat "$tmp/mtbf/summary.csv")"
[ -s "$tmp/mtbf/plots/useful.svg" ] || fail "mtbf: no picture"
outlast drill --experiment mtbf --job servers=2,cost=3 --out "$tmp/none"
expect "a job with a wrong word" 2
[ ! -e "$tmp/none" ] || fail "a job with a wrong word: a folder"
verdict
