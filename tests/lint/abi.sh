#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# abi.sh ROOT LIBRARY [--renew] -- the interface of LIBRARY is the one that abi/outlast.abi describes
#
# Functions, the public structs' fields with their places, and enumerations with their values are compared
# by abidiff. Each change fails, also one that old programs do not notice: the description is renewed in
# the commit that makes it.
set -eu
cd "$1"
library=$2
kept=tests/lint/abi/outlast.abi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for tool in abidw abidiff; do
	if ! command -v $tool >/dev/null; then
		echo "skip: no $tool: install abigail-tools"
		exit 77
	fi
done
if [ "$(uname -m)" != x86_64 ]; then
	echo "skip: $kept is of x86_64"
	exit 77
fi
if [ ! -f "$library" ]; then
	echo "$library: not built"
	exit 1
fi

# The same bytes wherever it is built: no paths, no lines, no libraries below ours
abidw --headers-dir src/include --drop-private-types --drop-undefined-syms --exported-interfaces-only \
	--no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed --type-id-style hash \
	--out-file "$work/abi" "$library"
sed "s| path='[^']*/src/| path='src/|" "$work/abi" >"$work/is.abi"
if [ "${3-}" = --renew ]; then
	cp "$work/is.abi" "$kept"
	exit 0
fi
rc=0
abidiff --harmless "$kept" "$work/is.abi" >"$work/said" 2>&1 || rc=$?
[ $rc -ne 0 ] || exit 0
head -n 60 "$work/said"
echo "$kept: the interface differs (above). Only functions and enumerators are new, or fields at the end of structs" \
	"that travel with their size: tests/lint/abi.sh . $library --renew. Anything else breaks programs:" \
	"SOVERSION in CMakeLists.txt and the name in src/liboutlast.map grow, too"
exit 1
