#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# exports.sh ROOT LIBRARY -- the symbols of liboutlast.so are those of src/liboutlast.map, all ol_
set -eu
cd "$1"
library=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ ! -f "$library" ]; then
	echo "$library: not built"
	exit 1
fi
# Absolute symbols are the version's name.
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
	LC_ALL=C sort >"$work/is"
awk '/local:/ { on = 0 } on { gsub(/[ \t;]/, ""); if ($0 != "") print } /global:/ { on = 1 }' \
	src/liboutlast.map | LC_ALL=C sort >"$work/want"

bad=0
LC_ALL=C comm -23 "$work/is" "$work/want" | sed 's/$/: exported, but not in src\/liboutlast.map/' >"$work/bad"
LC_ALL=C comm -13 "$work/is" "$work/want" | sed 's/$/: in src\/liboutlast.map, but not exported/' >>"$work/bad"
{ grep -v '^ol_' "$work/is" || true; } | sed 's/$/: exported without ol_/' >>"$work/bad"
{ grep -hoE '^OL_API .*\b(ol_[a-z0-9_]+)\(' src/include/*.h || true; } |
	sed 's/.*[ *]\(ol_[a-z0-9_]*\)($/\1/' | LC_ALL=C sort -u >"$work/declared"
LC_ALL=C comm -3 "$work/declared" "$work/want" | tr -d '\t' |
	sed 's/$/: in only one of src\/include and src\/liboutlast.map/' >>"$work/bad"
if [ -s "$work/bad" ]; then
	cat "$work/bad"
	bad=1
fi
exit $bad
