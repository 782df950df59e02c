#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# adapter.sh -- what works on adapters that are not rdma_rxe: profiles of support/adapter, in one virtual machine
#
#	adapter.sh [all | PROFILE...]
#
# Without a word: each quirk does what it says, all suites pass under the worst of the profiles, and what shows their
# quirks under those others that have a quirk of their own. With words: the whole table of these profiles, and exit 1 if a cell has a failure. A profile is one by
# name, or a list of quirks.
# OL_ADAPTER_*: see support/suites.sh
#
# not under asan, tsan: a library of theirs must be the first that is loaded
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${OUTLAST_BUILD:-$root/build/dev}
bin=${OUTLAST_BIN:-$build/outlast}
library=$build/tests/libol-adapter.so
profiles="mlx5 mlx4 irdma-gen2 bnxt_re hns siw-like worst"

# under PROFILE COMMAND... -- its output in $log
under() {
	local profile=$1

	shift
	OL_ADAPTER=$profile LD_PRELOAD=$library timeout "${OL_ADAPTER_LIMIT:-120}" "$@" >"$log" 2>&1 </dev/null
}

# shellcheck source=tests/support/suites.sh
. "$root/tests/support/suites.sh"

# What the test runs: all of the worst profile, with fewer rounds, and of the others what shows their quirks
rung() {
	local bad=0 shows="conformance-p2_doorbell_after_payload conformance-p8_rights conformance-conn_private_data \
		conformance-credits_return conformance-write_shapes conformance-read_shapes litmus-doorbell_payload"

	"$build/tests/rxe-guest-adapter_quirks" "$library" >"$log" 2>&1 || {
		cat "$log"
		return 1
	}
	echo "quirks: $(grep -c ^ok "$log") ok"
	under mlx5 "$build/tests/rxe-guest-ece_agreed" verbs || {
		cat "$log"
		bad=1
	}
	under mlx5 "$build/tests/conformance-foreign_memory" verbs || [ $? = 77 ] || {
		cat "$log"
		bad=1
	}
	OL_TEST_SCALE=0.02 table worst || bad=1
	OL_TEST_SCALE=0.03 OL_ADAPTER_PROGRAMS=$shows OL_ADAPTER_SUITES="conformance litmus train" \
		table mlx5 irdma-gen2 hns siw-like || bad=1
	return $bad
}

if [ "${OL_ADAPTER_GUEST:-}" != 1 ]; then
	[ "${1-}" != all ] || read -ra profile_list <<<"$profiles"
	[ "${1-}" = all ] || profile_list=("$@")
	OL_ADAPTER_GUEST=1 exec "$root/tools/lab/run" --deadline "${OL_ADAPTER_DEADLINE:-1800}" -- \
		bash "$0" "${profile_list[@]}"
fi
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
log=$tmp/log
if [ $# = 0 ]; then
	rung
else
	table "$@"
fi
