#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# train_manual.sh -- the manual page has every option of train, launch, drill, serve, work, relay, stat, export, import, chain, coord and keygen, in its section, and no other
# not under asan, tsan: it is about words
. "$(dirname "$0")/train_lib.bash"

page=${OUTLAST_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}/tools/outlast/outlast.1
for command in train launch drill serve work relay stat export import chain coord keygen; do
	outlast $command --help
	printf '%s\n' "$out" | grep -oE '^  --[a-z0-9-]+' | tr -d ' ' | sort >"$tmp/help.txt"
	awk -v head=".SH OUTLAST ${command^^}" '/^\.SH/ { inside = $0 == head } inside' "$page" |
		grep -A 1 '^\.TP' | sed -n 's/^\.B[IR] \([^ ]*\).*/\1/p' | sed 's/\\-/-/g' | sort >"$tmp/page.txt"
	[ "$(wc -l <"$tmp/help.txt")" -gt 2 ] || fail "$command --help lists no options"
	difference=$(diff "$tmp/help.txt" "$tmp/page.txt") || fail "$command (< --help, > outlast.1): $difference"
done
outlast --help
named=0
for command in $(printf '%s\n' "$out" | sed -n '/^commands/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
	grep -qE "^\.B \"?outlast $command" "$page" || fail "outlast.1 does not name $command"
	named=$((named + 1))
done
[ $named -ge 5 ] || fail "outlast --help lists $named commands"
verdict
