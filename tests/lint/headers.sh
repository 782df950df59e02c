#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# headers.sh ROOT -- every header compiles alone, without a warning; the public ones as C++ too
set -eu
cd "$1"
. tests/lint/files
bad=0
warn='-Wall -Wextra -Wpedantic -Werror'
libs=$(pkg-config --cflags libibverbs librdmacm 2>/dev/null || true)

# $1 header, then the compiler and its words; what it says goes out with the offender's name
alone() {
	header=$1
	shift
	if ! said=$(printf '#include "%s"\n' "$header" | "$@" -fsyntax-only - 2>&1); then
		printf '%s: does not compile alone: %s\n' "$header" \
			"$(printf '%s\n' "$said" | grep -m 1 error || printf '%s' "$said" | head -n 1)"
		bad=1
	fi
}

# shellcheck disable=SC2086  # lists of words
for header in $(list_files '*.h'); do
	case $header in
	src/include/*)
		alone "$header" "${CC:-cc}" -x c -std=c11 $warn -iquote . -I src/include
		alone "$header" "${CXX:-c++}" -x c++ -std=c++11 $warn -iquote . -I src/include
		;;
	*)
		alone "$header" "${CC:-cc}" -x c -std=c11 -D_GNU_SOURCE $warn $libs -I src/include \
			-iquote . -iquote src -iquote tools -iquote tests
		;;
	esac
done
exit $bad
