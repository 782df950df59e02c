#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# units.sh ROOT LIBRARY -- systemd knows every line of the units, and rates what a service could do in them at 3.0 of 10 or less
#
# The units are those that the build of LIBRARY installs.
set -u
build=$(cd "$(dirname "$2")" && pwd) || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
worst=3.0 bad=0

command -v systemd-analyze >/dev/null || { echo 'skip: systemd-analyze is missing'; exit 77; }
systemd-analyze security --help 2>/dev/null | grep -q -e --threshold ||
	{ echo 'skip: systemd-analyze is older than 250 and rates no files'; exit 77; }
[ -d "$build/service" ] || { echo 'skip: this build has no program, hence no units'; exit 77; }

for unit in "$build"/service/*.service; do
	name=$(basename "$unit")
	# the program is not installed, and neither are its pages
	sed "s|^ExecStart=[^ ]*|ExecStart=$build/outlast|" "$unit" >"$work/$name"
	if ! said=$(systemd-analyze verify --man=no "$work/$name" 2>&1) || [ -n "$said" ]; then
		printf '%s: %s\n' "$name" "$said"
		bad=1
	fi
	# its threshold is in tenths
	if ! said=$(systemd-analyze security --offline=true --threshold="${worst/./}" --no-pager "$work/$name" 2>&1); then
		printf '%s: more exposed than %s\n%s\n' "$name" "$worst" "$said"
		bad=1
	fi
	grep -o 'Overall exposure level.*: [0-9.]*' <<<"$said"
done
exit $bad
