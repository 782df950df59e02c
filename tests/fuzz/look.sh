#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# look.sh BUILD SECONDS -- search new inputs with every fuzz target of a libFuzzer build, SECONDS for each
#
# Inputs that fail are kept as crash-* in BUILD.
set -u

here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd) || exit 2
bad=0

for source in "$here"/*_fuzz.c; do
	target=$(basename "$source" _fuzz.c)
	found=$(mktemp -d) || exit 1
	echo "fuzz: $target"
	(cd "$build" && "tests/fuzz-$target" -max_total_time="$2" -timeout=20 "$found" "$here/corpus/$target" 2>&1) |
		tail -n 3
	[ "${PIPESTATUS[0]}" = 0 ] || bad=1
	rm -rf "$found"
done
exit $bad
