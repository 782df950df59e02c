#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# length.sh ROOT -- no function has more than 70 lines, no file more than 800; no line of what the changelog says of a version
# more than 78 characters, as packages put two before it and Debian's lintian wants at most 80
#
# A function's lines are those from its opening brace to its closing one, both counted; in our style
# they are the only braces in the first column.
set -eu
cd "$1"
. tests/lint/files
{
	list_files '*.[ch]' '*.inc' '*.cmake' '*CMakeLists.txt' '*.py' '*.awk'
	list_scripts
} | sort -u | xargs -r awk '
FNR > 800 && !(FILENAME in long) {
	long[FILENAME] = 1
	print FILENAME ": more than 800 lines"
	bad = 1
}
FNR == 1 { start = 0 }
FILENAME !~ /\.(c|h|inc)$/ { next }
/^[a-zA-Z_].*\(/ { name = $0 }
/^\{/ { start = FNR }
/^\}/ && start > 0 {
	if (FNR - start + 1 > 70) {
		print FILENAME ":" start ": function of " FNR - start + 1 " lines: " name
		bad = 1
	}
	start = 0
}
END { exit bad }
' || exit 1
[ ! -e tools/package/CHANGELOG.md ] || awk '
/^## / { inside = 1 }
inside && length > 78 {
	print FILENAME ":" FNR ": " length " characters, not 78 at most"
	bad = 1
}
END { exit bad }
' tools/package/CHANGELOG.md
