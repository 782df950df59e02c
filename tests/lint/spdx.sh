#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# spdx.sh ROOT -- every source file has one licence line at its top, and C files say what they are for
set -eu
cd "$1"
. tests/lint/files
{
	list_files '*.[ch]' '*.inc' '*.py' '*.awk' '*.cmake' '*CMakeLists.txt'
	list_scripts
} | sort -u | xargs -r awk '
function judge() {
	if (file != "" && !licence) {
		print file ": no SPDX-License-Identifier: BSD-3-Clause in its first lines"
		bad = 1
	}
	if (file ~ /\.[ch]$/ && !purpose) {
		print file ": does not begin with \"" name " -- purpose\""
		bad = 1
	}
}
FNR == 1 {
	judge()
	seen[FILENAME] = 1
	file = name = FILENAME
	sub(/^.*\//, "", name)
	licence = purpose = 0
}
FNR <= 3 && /SPDX-License-Identifier: BSD-3-Clause/ { licence = 1 }
index($0, name " -- ") { purpose = 1 }
FNR == 8 { nextfile }
END {
	judge()
	for (i = 1; i < ARGC; i++) {
		if (!(ARGV[i] in seen)) {
			print ARGV[i] ": is empty, and has no SPDX-License-Identifier: BSD-3-Clause"
			bad = 1
		}
	}
	exit bad
}
' || exit 1
