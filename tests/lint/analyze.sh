#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# analyze.sh ROOT LIBRARY [--clang] -- gcc's analyzer, or clang's, reports nothing in the product that is not in
# analyze.known, and that list has nothing that is not reported
#
# Each file is analysed as the build of LIBRARY compiles it (compile_commands.json). gcc takes some 25 seconds on two
# processors, clang 160: so clang's is a line of long.list.
set -u
root=$(cd "$1" && pwd) || exit 2
build=$(cd "$(dirname "$2")" && pwd) || exit 2
which=${3---gcc}
known=$root/tests/lint/analyze.known
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

# The list is of what these versions report.
case $which in
--gcc)
	which=gcc
	[ "$(gcc -dumpversion 2>/dev/null | cut -d. -f1)" = 12 ] || { echo 'skip: gcc 12 is missing'; exit 77; }
	;;
--clang)
	which=clang
	clang-tidy --version 2>/dev/null | grep -q 'version 14\.' || { echo 'skip: clang-tidy 14 is missing'; exit 77; }
	;;
*)
	echo "analyze.sh: $which: no such analyzer" >&2
	exit 2
	;;
esac
[ -f "$build/compile_commands.json" ] || { echo "skip: $build has no compile_commands.json"; exit 77; }

# Not looked for, by clang: padding (fields stand in the order of their meaning); memory of 0 bytes (a count of 0 is
# allowed, and free() takes what comes of it); what is no fault but an "insecure" function (lint-forbidden has a list)
checks='-*,clang-analyzer-*,-clang-analyzer-optin.*,-clang-analyzer-security.insecureAPI.*'

# one FILE FOLDER COMMAND -- its reports: "FILE:LINE:COLUMN: warning: TEXT [CHECK]"
one() {
	if [ "$which" = gcc ]; then
		(cd "$2" && eval "gcc ${3#* } -fanalyzer -Wno-error -fdiagnostics-path-format=none \
			-fno-diagnostics-show-caret -fdiagnostics-color=never") 2>&1
	else
		clang-tidy --quiet --checks="$checks" -p "$build" "$1" 2>&1
	fi
}
export -f one
export which build checks

python3 - "$root" "$build" >"$work/files" <<'END' || exit 2
import json
import os
import re
import sys

root, build = sys.argv[1:]
seen = set()
for unit in json.load(open(build + "/compile_commands.json")):
    path = os.path.relpath(os.path.join(unit["directory"], unit["file"]), root)
    if path.split("/")[0] not in ("src", "rdma", "replication", "tools") or path in seen:
        continue
    seen.add(path)
    command = re.sub(r" -M[DTF]\b( \S+\.o(\.d)?)?", "", re.sub(r" -o \S+", " -o /dev/null", unit["command"]))
    sys.stdout.write("\0".join((os.path.join(root, path), unit["directory"], command)) + "\0")
END
[ -s "$work/files" ] || { echo 'no file to analyse'; exit 1; }
# shellcheck disable=SC2016  # for the other shell
xargs -0 -n 3 -P "$(nproc)" bash -c 'one "$@" || echo "$1:1:1: warning: not analysed [failed]"' one \
	<"$work/files" >"$work/said"

# FILE CHECK FUNCTION, and the report itself. A function's name is in the last line before that begins in the first
# column, as our style has it.
grep -E '^[^ ]+:[0-9]+:[0-9]+: (warning|error): ' "$work/said" | sort -u | while IFS= read -r line; do
	file=${line%%:*}
	number=${line#*:}
	check=${line##*[}
	function=$(awk -v at="${number%%:*}" 'NR > at { exit } /^[a-zA-Z_].*\(/ { name = $0 } END {
		sub(/\(.*/, "", name); sub(/.*[ *]/, "", name); print name }' "$file")
	printf '%s %s %s\t%s\n' "${file#"$root"/}" "${check%]}" "${function:--}" "${line#"$root"/}"
done >"$work/found"

# A line of the list: ANALYZER FILE CHECK FUNCTION: REASON
sed -n "s/^$which \([^:]*\): .*/\1/p" "$known" | sort -u >"$work/known"
cut -f 1 "$work/found" | sort -u >"$work/keys"
bad=0
while IFS= read -r key; do
	grep -F "$key	" "$work/found" | cut -f 2
	echo "	(mend it; or, if it is false, in analyze.known: $which $key: WHY)"
	bad=1
done < <(comm -13 "$work/known" "$work/keys")
while IFS= read -r key; do
	echo "analyze.known: $which $key: is not reported any more: take it out"
	bad=1
done < <(comm -23 "$work/known" "$work/keys")
exit $bad
