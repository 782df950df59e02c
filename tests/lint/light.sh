#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# light.sh ROOT LIBRARY -- the library alone builds without a warning, needs nothing of the tools, is installed
# whole, and says that it has no ZooKeeper
#
# It builds into light/ beside LIBRARY. What the whole build has compiled it compiles again without
# optimisation: some ten seconds.
set -eu
root=$1
light=$(dirname "$2")/light
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH PKG_CONFIG_PATH

fail() {
	printf '%s\n' "$@"
	exit 1
}

# quietly COMMAND... -- what it prints is shown where it fails
quietly() {
	"$@" >"$work/said" 2>&1 || fail "$*: failed" "$(grep -E -A 8 'error|warning|Error|FAILED' "$work/said" | head -n 40)"
}

# build TOOLS ZOOKEEPER TARGET... -- a combination of the options; without a target it is configured only
build() {
	quietly cmake -S "$root" -B "$light" -G Ninja -Werror=dev -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS='-O0 -g0' \
		-DOL_WERROR=ON -DOUTLAST_TOOLS="$1" -DOUTLAST_ZOOKEEPER="$2"
	shift 2
	[ $# -eq 0 ] || quietly cmake --build "$light" -j 2 --target "$@"
}

# needs_check LIBRARY... -- liboutlast.so is linked with these and no other
needs_check() {
	needed=$(readelf -d "$light/liboutlast.so" | sed -n 's/.*(NEEDED).*\[\(lib[a-z_]*\)[.0-9]*\.so.*/\1/p' |
		grep -v -x -E 'libc|libm' | LC_ALL=C sort | xargs)
	[ "$needed" = "$*" ] || fail "liboutlast.so: needs $needed, not $*"
}

build ON OFF
build OFF ON outlast
needs_check libcrypto libibverbs libisal libnuma librdmacm libzookeeper_mt
rm -f "$light/CMakeCache.txt" # what it found for others
build OFF OFF all
needs_check libcrypto libibverbs libisal libnuma librdmacm
if grep -i -E 'openblas|jansson|microhttpd|zlib|zookeeper_mt' "$light/CMakeCache.txt"; then
	fail "CMakeLists.txt: looks for what a library alone does not need"
fi

# A user's program, with what is installed
quietly cmake --install "$light" --prefix "$work/usr"
pc=$(find "$work/usr" -name outlast.pc)
PKG_CONFIG_PATH=${pc%/*}
LD_LIBRARY_PATH=$(pkg-config --variable=libdir outlast)
cat >"$work/user.c" <<'END'
#include <stdio.h>

#include <outlast.h>
#include <outlast_policy.h>
#include <outlast_server.h>

int main(void)
{
	struct ol_chains *chains;
	char err[256] = "";
	int rc = ol_chains_open("zk:127.0.0.1:1", "job", "", 1, 1000, &chains, err, sizeof(err));

	printf("%s|%s\n", ol_strerror(rc), err);
	return 0;
}
END
# shellcheck disable=SC2046  # lists of words
quietly "${CC:-cc}" -Wall -Wextra -Werror -o "$work/user" "$work/user.c" $(pkg-config --cflags --libs outlast)
said=$("$work/user")
[ "$said" = "Operation not supported|coordinator zk:127.0.0.1:1: this build of Outlast has no ZooKeeper: give dir:PATH,\
 or build it with OUTLAST_ZOOKEEPER=ON" ] || fail "a program beside a library without ZooKeeper was told: $said"
readelf -d "$work/user" | grep -q -F '[liboutlast.so.1]' || fail 'a program is not linked with liboutlast.so.1'
[ -z "$(pkg-config --print-requires-private outlast)" ] ||
	fail 'outlast.pc: a program that is only compiled with it needs packages of others'
[[ "$(pkg-config --static --libs outlast)" == *'-lrdmacm -libverbs -lcrypto -lisal -lnuma'* ]] ||
	fail 'outlast.pc: Libs.private is not what the library is linked with'
