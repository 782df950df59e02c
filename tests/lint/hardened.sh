#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# hardened.sh ROOT LIBRARY -- library and program are built as SECURITY.md says: relocations read-only from the start,
# no executable stack, position-independent, stack protector, marked branches, and checked calls where it is optimised
set -eu
root=$1
library=$2
build=$(dirname "$library")
bad=0

no() {
	echo "$1: $2"
	bad=1
}

case $(sed -n 's/^OL_HARDEN:BOOL=//p; s/^OL_SANITIZE:STRING=./instrumented/p; s/^OL_COVERAGE:BOOL=ON/instrumented/p' \
	"$build/CMakeCache.txt" 2>/dev/null | paste -sd,) in
ON) ;;
*)
	echo "this build is not hardened"
	exit 77
	;;
esac

for file in "$library" "$build/outlast"; do
	[ -e "$file" ] || { no "$file" "is not built"; continue; }
	LC_ALL=C readelf -hldW "$file" >"$build/hardened.txt"
	symbols=$(nm -D -u "$file")
	grep -q 'Type: *DYN' "$build/hardened.txt" || no "$file" "not position-independent"
	grep -q 'GNU_RELRO' "$build/hardened.txt" || no "$file" "its relocations stay writable"
	grep -q 'FLAGS.*NOW' "$build/hardened.txt" || no "$file" "it is bound lazily: relocations stay writable"
	grep -q 'TEXTREL' "$build/hardened.txt" && no "$file" "its code is relocated"
	grep 'GNU_STACK' "$build/hardened.txt" | grep -q 'RW  *0x' || no "$file" "its stack is executable"
	grep -q '__stack_chk_fail' <<<"$symbols" || no "$file" "no stack protector"
	if grep -qE '^CMAKE_BUILD_TYPE:STRING=(Release|RelWithDebInfo|MinSizeRel)$' "$build/CMakeCache.txt"; then
		grep -qE '__(memcpy|snprintf|vsnprintf)_chk' <<<"$symbols" || no "$file" "no call is told its buffer's size"
	fi
done

# The note of a linked file is that of its weakest part, and the C library's own parts lack it on Debian 12. So the
# objects are looked at; all but those of an empty room.
case $(uname -m) in
x86_64) mark='IBT, SHSTK' ;;
aarch64) mark='BTI, PAC' ;;
*) mark='' ;;
esac
count=0
while IFS= read -r object; do
	source=${object#*.dir/}
	[ -e "$root/${source%.o}" ] || continue # an object of a source that is no more
	count=$((count + 1))
	LC_ALL=C readelf -nW "$object" | grep -q "$mark" || no "$object" "its branches are not marked"
done < <(find "$build/CMakeFiles" -path '*/ol_*.dir/*' -name '*.o')
[ "$count" -gt 50 ] || no "$build" "$count objects were found"
exit $bad
