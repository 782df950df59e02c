#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# trace.sh -- the model accepts all that sim-chain does, and does not if sim-chain leaves out a rule
set -u

here=$(cd "$(dirname "$0")" && pwd)
cc=${CC:-cc}
simulator=${OUTLAST_BUILD:-$here/../../build/dev}/tests/sim-chain
tries=150

# Each rule that sim-chain can leave out, and a seed from which on its lack is soon seen. Not here:
# "session-version", which one seed in tens of thousands needs.
rules='fence 0
handoff 0
tail-acks 0
load-once 115
handoff-ends-by-view 11
end-readers 0
keep-for-joining 0
floor 0
welcome-when-applied 0
propose-on-adopted 0
session-epoch 0
hello-epoch 0
removed-is-removed 0
free-when-applied 0
have-is-no-ack 2360
loaded-before-tail 0'

usage() {
	cat <<END
usage: tests/model/trace.sh [--seeds N] [--first SEED] [--break RULE]

Runs sim-chain and gives Spin each run as a trace: chain.pml must be able to take all of its steps, in
their order, and have the same state after each. Then each rule of the protocol is left out in the
simulator, and the model must refuse. README.md beside this script says what is compared.

  --seeds N      so many runs (40), and the rules only where N is not given
  --first SEED   from this seed on (0)
  --break RULE   a rule left out: prints where the model refuses, and the steps before

Exit status: 0 all as it should be, 1 not, 2 wrong usage, 77 there is no Spin.

Example:
  tests/model/trace.sh --first 1 --seeds 1 --break fence
END
}

wrong() {
	printf 'model: %s; --help lists what there is\n' "$1" >&2
	exit 2
}

seeds=
first=0
rule=
while [ $# -gt 0 ]; do
	case $1 in
	--help | -h)
		usage
		exit 0
		;;
	--seeds | --first | --break)
		[ $# -ge 2 ] || wrong "$1 needs a value"
		case $1 in
		--seeds) seeds=$2 ;;
		--first) first=$2 ;;
		--break) rule=$2 ;;
		esac
		shift
		;;
	*) wrong "$1: no such option" ;;
	esac
	shift
done
[[ "${seeds:-0}$first" =~ ^[0-9]+$ ]] || wrong "a seed is a number"

for program in spin "$cc"; do
	if ! command -v "$program" >/dev/null; then
		echo "skip: $program is not installed: tools/packages install test"
		exit 77
	fi
done
[ -x "$simulator" ] || wrong "$simulator is not there: build it"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
if ! { spin -DTRACE -a "$here/chain.pml" && "$cc" -w -DSAFETY -DNOREDUCE -o pan pan.c; } >build.out 2>&1; then
	cat build.out
	exit 1
fi

# accepted SEED [OPTIONS...] -- may the model do what the simulator did? What it says is in out.
accepted() {
	local seed=$1
	shift

	"$simulator" --model --seed "$seed" "$@" >steps
	OL_TRACE=steps ./pan -E -n -m3000 -w10 >out 2>&1
	grep -q '^accepted' out
}

# Why not: the last steps, the one that the model refuses, or the promise that it breaks
say() {
	grep -E '^(trace|refused|pan:)' out
}

failed=0
total=0
for ((seed = first; seed < first + ${seeds:-40}; seed++)); do
	if accepted "$seed" ${rule:+--break "$rule"}; then
		total=$((total + $(wc -l <steps)))
		continue
	fi
	echo "model: seed $seed: the simulator does what the model may not"
	say
	failed=1
	[ -z "$rule" ] || exit 1
done
echo "${seeds:-40} traces, $total steps"
[ -z "$seeds$rule" ] || exit $failed

while read -r rule seed; do
	end=$((seed + tries))
	while [ "$seed" -lt $end ] && accepted "$seed" --break "$rule"; do
		seed=$((seed + 1))
	done
	if [ "$seed" -eq $end ]; then
		echo "model: without \"$rule\" the model refuses nothing"
		failed=1
		continue
	fi
	printf 'without %-21s seed %3d %s\n' "$rule:" "$seed" "$(say | tail -n 1)"
	if ! accepted "$seed"; then
		echo "model: seed $seed is refused with the rule, too"
		failed=1
	fi
done <<<"$rules"
exit $failed
