#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vectors.sh ROOT LIBRARY -- the update rules of LIBRARY are vector code at each width that they are compiled for
#
# Only Adam has a square root, and no compiler makes vectors of the half of a loop.
set -eu
library=$2
bad=0

case $(uname -m) in
x86_64) ;;
*)
	echo 'skip: knows the machine code of x86_64 only'
	exit 77
	;;
esac
code=$(mktemp)
trap 'rm -f "$code"' EXIT
objdump --disassemble --no-show-raw-insn "$library" >"$code"
for root in 'sqrtps .*%xmm' 'vsqrtps .*%ymm' 'vsqrtps .*%zmm'; do
	if ! grep -q -E "[[:space:]]$root" "$code"; then
		echo "$library: no '$root': Adam's loop (src/store/kernels_body.c) is not vector code at that width"
		bad=1
	fi
done
exit $bad
