#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# spdx.sh ROOT -- every source file has one licence line at its top, and C files say what they are for
set -eu
cd "$1"
. tests/lint/files
{
	list_files '*.[ch]' '*.inc' '*.py' '*.awk' '*.cmake' '*CMakeLists.txt'
	list_scripts
} | sort -u | {
	bad=0
	while IFS= read -r file; do
		if ! head -n 3 "$file" | grep -q 'SPDX-License-Identifier: BSD-3-Clause'; then
			echo "$file: no SPDX-License-Identifier: BSD-3-Clause in its first lines"
			bad=1
		fi
		case $file in
		*.[ch])
			if ! head -n 8 "$file" | grep -qF "${file##*/} -- "; then
				echo "$file: does not begin with \"${file##*/} -- purpose\""
				bad=1
			fi
			;;
		esac
	done
	exit $bad
}
