#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# siw.sh -- everything works over iWARP: siw, a real driver, in place of rdma_rxe in one virtual machine
#
# No test of the rung rxe, as it compiles a kernel module (tools/lab/siw). OL_ADAPTER_*: see support/suites.sh
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
build=${OUTLAST_BUILD:-$root/build/dev}
bin=${OUTLAST_BIN:-$build/outlast}

under() {
	shift
	timeout "${OL_ADAPTER_LIMIT:-300}" "$@" >"$log" 2>&1 </dev/null
}

# shellcheck source=tests/support/suites.sh
. "$root/tests/support/suites.sh"

# Programs that no iWARP device can pass: a write is DONE when it has left, so its refusal has no status of its own.
# Flushes and CONN_DOWN tell of it. siw, moreover, lets a peer read what it may not (siw_check_sgl_tx() without rights).
refusals="conformance-bad_said conformance-more conformance-p5_down_is_final conformance-p7_fence conformance-p8_rights
litmus-old_key"

if [ "${OL_SIW_GUEST:-}" != 1 ]; then
	OL_SIW_MODULES=$("$root/tools/lab/siw") || exit
	export OL_SIW_MODULES
	OL_SIW_GUEST=1 exec "$root/tools/lab/run" --deadline "${OL_ADAPTER_DEADLINE:-1800}" -- bash "$0"
fi
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
log=$tmp/log
while read -r module; do
	insmod "$OL_SIW_MODULES/$module" || exit 1
done <"$OL_SIW_MODULES/order"
rdma link delete "$OL_DEVICE" && rdma link add siw0 type siw netdev d0 || exit 1
export OL_DEVICE=siw0
left_out=${refusals//$'\n'/ }
# /sys does not say which interface siw is on.
job_words=(--device siw0 --address "$OL_ADDR")
for name in $left_out; do
	echo "skip: $name: over iWARP a refused access has no status of its own"
done
table siw
