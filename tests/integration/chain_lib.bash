# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# chain_lib.bash -- sourced by the tests of chains: what is true of a run whose servers were lost and replaced
. "$(dirname "$0")/kill_lib.bash"

chain=(--durability chain --replicas 3 --lease-ms 1000 --outage-timeout 20)

# failed_over N -- so many servers lost, each failover seen to its end; nothing lost, both ends agree
failed_over() {
	killed "$1"
	truth "failovers" "len(r['failovers']) == $1 and all(f['detect_ms'] is not None and
		0 <= f['detect_ms'] <= f['recover_ms'] for f in r['failovers'])"
	truth "nothing lost" 'r["gradients_lost"] == 0'
	truth "none lost all its replicas" 'not any(f["all_lost"] for f in r["failovers"]) and
		all(o["restored_from"] is None for o in r["outages"])'
	truth "a history of its own" 'r["replicas"] == 3 and all(v["founded"] == 1 for v in r["views"])'
}

# all_applied N -- each of so many gradients is in the weights, once
all_applied() {
	truth "every gradient once" "r['gradients_computed'] == $1 == r['gradients_applied'] and
		r['gradients_dropped'] == 0 == r['gradients_lost']"
}
