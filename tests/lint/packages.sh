#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# packages.sh ROOT -- tools/packages has a name, or "-", of each need for each family of systems, and says so plainly where
# it does not know a system
set -eu
cd "$1"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0

no() {
	echo "tools/packages: $*"
	bad=1
}

# says WHAT OS_RELEASE WANT... -- on such a system its lists hold these names
says() {
	local what=$1 name

	printf '%s\n' "$2" >"$tmp/os"
	shift 2
	OUTLAST_OS_RELEASE=$tmp/os tools/packages list build test >"$tmp/list" 2>"$tmp/err" || no "$what: fails"
	for name; do
		grep -qxF -e "$name" "$tmp/list" || no "$what: does not list $name"
	done
	! grep -E -e '^-?$' -e '[| ]' "$tmp/list" || no "$what: lists what is no name"
}

sed -n "/^table='/,/^'/p" tools/packages | sed '1d;$d' >"$tmp/table"
[ -s "$tmp/table" ] || no "has no table"
awk -F '|' 'NF != 3 || $1 !~ /^(build|test) +[a-z0-9]/ || $2 !~ /[a-z-]/ || $3 !~ /[a-z-]/' "$tmp/table" >"$tmp/rows"
[ ! -s "$tmp/rows" ] || no "rows that have not three columns: $(cat "$tmp/rows")"
says Debian 'ID=debian' libibverbs-dev ninja-build spin
says Ubuntu $'ID=ubuntu\nID_LIKE=debian' libibverbs-dev
says Fedora 'ID=fedora' 'pkgconfig(libibverbs)' ninja-build clang-tools-extra
says Rocky $'ID="rocky"\nID_LIKE="rhel centos fedora"' 'pkgconfig(numa)'
says Leap $'ID="opensuse-leap"\nID_LIKE="suse opensuse"' 'pkgconfig(libisal)' ninja
[ ! -s "$tmp/err" ] || no "a known system is complained of: $(cat "$tmp/err")"
says Arch $'ID=arch\nPRETTY_NAME="Arch Linux"'
grep -q 'this is Arch Linux, of which no package names are known here' "$tmp/err" || no "an unknown system: says $(cat "$tmp/err")"
OUTLAST_OS_RELEASE=$tmp/none tools/packages install build >"$tmp/list" 2>"$tmp/err" || no "no os-release: fails"
grep -q 'a system without a name' "$tmp/err" || no "no os-release: says $(cat "$tmp/err")"
exit $bad
