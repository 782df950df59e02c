#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# format.sh ROOT -- clang-format 14 would change nothing
set -eu
cd "$1"
. tests/lint/files
for tool in clang-format-14 clang-format ''; do
	case $("${tool:-false}" --version 2>/dev/null || true) in
	*'version 14.'*) break ;;
	esac
done
if [ -z "$tool" ]; then
	echo 'skip: clang-format 14 is not installed; other versions format differently'
	exit 77
fi
list_files '*.[ch]' | xargs -r "$tool" --dry-run -Werror --ferror-limit=1 2>&1 |
	{ grep ': error:' || true; } | sed 's/: error: .*/: clang-format would change this/' | {
	bad=0
	while IFS= read -r line; do
		printf '%s\n' "$line"
		bad=1
	done
	exit $bad
}
