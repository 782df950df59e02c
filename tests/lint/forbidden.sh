#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# forbidden.sh ROOT -- functions and words that CONTRIBUTING.md rules out, outside comments and strings
#
# volatile is allowed in "asm volatile" and "volatile sig_atomic_t". Arrays of variable length are
# the compiler's to find (-Wvla).
set -eu
cd "$1"
. tests/lint/files

list_files '*.[ch]' '*.inc' | xargs -r awk -f tests/lint/strip.awk -f /dev/fd/3 3<<'AWK' || exit 1
function no(what) {
	print FILENAME ":" FNR ": " what
	bad = 1
}
code ~ /(^|[^A-Za-z0-9_.>])(strcpy|strcat|sprintf|vsprintf|strtok|atoi|atol|atoll|atof|alloca|gets|rand|srand|signal)[ \t]*\(/ {
	no("forbidden function: " $0)
}
code ~ /(^|[^A-Za-z0-9_.>])(sleep|usleep|nanosleep|clock_nanosleep)[ \t]*\(/ {
	no("sleeping; wait for a condition instead: " $0)
}
code ~ /(^|[^A-Za-z0-9_])volatile([^A-Za-z0-9_]|$)/ && code !~ /asm(__)?[ \t]+(__)?volatile|volatile sig_atomic_t/ {
	no("volatile orders nothing; see rdma/order.h: " $0)
}
code ~ /\/\// {
	no("a comment is written /* so */: " $0)
}
END { exit bad }
AWK
