#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# scripts.sh ROOT -- every shell script parses, and can be run
set -eu
cd "$1"
. tests/lint/files
list_scripts | {
	bad=0
	while IFS= read -r file; do
		case $(head -n 1 "$file") in
		*bash*) shell='bash' ;;
		*sh | *'sh '*) shell='sh' ;;
		*) continue ;;
		esac
		if ! said=$("$shell" -n "$file" 2>&1); then
			printf '%s\n' "$said"
			bad=1
		fi
		if [ ! -x "$file" ]; then
			echo "$file: begins with #! and is not executable"
			bad=1
		fi
	done
	exit $bad
}
