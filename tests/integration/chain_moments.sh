#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# chain_moments.sh -- a job whose processes, and ZooKeeper's, are killed from outside at random moments, each during the
# failover before, ends at the bits of an undisturbed job
#
# not under asan, tsan: its subject is what processes agree on, and figures of failovers
#
# OL_MOMENTS=N: kills with each kind of coordinator; OL_SEED=N: other moments; OL_COORDINATORS: "dir zk"
. "$(dirname "$0")/chain_lib.bash"
. "$(dirname "$0")/ensemble_lib.bash"

moments=${OL_MOMENTS:-3}
told=''
RANDOM=${OL_SEED:-1}
run=(--consistency sync --workers 2 --optimizer momentum)
# a lease that nobody who waits for a processor outlives: two deaths and a false suspicion are more than three replicas bear
lasting=("${run[@]}" --durability chain --replicas 3 --lease-ms 5000 --restarts 1000)

# children KIND -- processes of the job that do that
children() {
	local child

	for child in $(cat "/proc/$job/task/$job/children" 2>/dev/null); do
		{ tr '\0' ' ' <"/proc/$child/cmdline" | grep -q "^outlast $1 " && echo "$child"; } 2>/dev/null
	done
}

# whole -- three replicas, none joining, and both workers there; $step is what is committed
whole() {
	local name all

	name=$({ tr '\0' '\n' <"/proc/$(children work | head -n 1)/cmdline" | sed -n 's/^--job=//p'; } 2>/dev/null)
	[ -n "$name" ] && [ "$(children work | wc -l)" = 2 ] && [ "$(children serve | wc -l)" = 3 ] || return 1
	"$OUTLAST_BIN" stat --coordinator "$coordinator" --job "$name" --once --json - >"$tmp/look" 2>/dev/null || return 1
	all=$(json "$tmp/look" '*[(s["count"], s["joining"], s["gone"], s["replicas"][-1].get("committed")) for s in r["shards"]],' \
		2>/dev/null) || return 1
	[[ $all =~ ^\(\(3,\ 0,\ 0,\ ([0-9]+)\),\)$ ]] || return 1
	step=${BASH_REMATCH[1]}
}

# serving -- which of ZooKeeper's servers answer
serving() {
	local i

	for i in "${!ensemble_pids[@]}"; do
		ensemble_serves "$i" && echo " zookeeper$i serves"
	done
}

# further -- whole, and somewhere else than it was; all of ZooKeeper's servers answer
further() {
	local before=$at

	[ "$(serving | wc -w)" = $((2 * ${#ensemble_pids[@]})) ] && whole && [ "$step" -gt "$before" ]
}

# pause_ms SPAN -- a moment, at random
pause_ms() {
	read -r -t "$(printf '0.%03d' $((RANDOM % $1)))" <>"$tmp/never" || :
}

# strike KIND -- kill one of them, which one is random. We begin ZooKeeper's servers again. One dies at a time: 3.8 loses
# what was committed where a second one dies while the first catches up (ZOOKEEPER-4643, ZOOKEEPER-4646)
strike() {
	local all victim

	if [ "$1" = zookeeper ]; then
		victim=$((RANDOM % 3))
		ensemble_kill $victim
		pause_ms 300
		ensemble_run $victim
		told="$told zookeeper$victim"
		return
	fi
	mapfile -t all < <(children "$1")
	[ ${#all[@]} -gt 0 ] || return
	victim=${all[RANDOM % ${#all[@]}]}
	kill -9 "$victim" 2>/dev/null || return
	told="$told $1"
	[ "$1" != serve ] || deaths=$((deaths + 1))
}

# suffer COORDINATOR KIND... -- a job with it, struck again and again; kinds of what dies beside a server
suffer() {
	local kinds version sha_struck

	coordinator=$1
	shift
	kinds=("$@")
	rm -f "$report"
	background t train "${mlp[@]}" "${lasting[@]}" --coordinator "$coordinator" --pace 200 --seconds 100000 --json "$report"
	job=$pid
	ran="train, struck at $moments moments, with $coordinator"
	at=0
	deaths=0
	for ((moment = 1; moment <= moments; moment++)); do
		until_true further || {
			fail "$ran: not whole before moment $moment, after:$told:$(serving) $(tail -n 20 "$tmp/t.err")"
			break
		}
		at=$step
		told=''
		pause_ms 100
		strike serve
		pause_ms 60
		strike "${kinds[RANDOM % ${#kinds[@]}]}"
	done
	until_true further || fail "$ran: not whole at the end, after:$told:$(serving)"
	kill -INT "$job"
	ended "$job" 130 "$ran"
	truth "nothing lost" 'r["gradients_lost"] == 0 and r["accounting"]["agree"]'
	# a server that dies again before its outage is over is the same restart
	[ "$deaths" -ge "$moments" ] || fail "$ran: $deaths servers killed"
	truth "struck" "1 <= r['restarts'] and all(v['founded'] == 1 for v in r['views'])"
	sha_struck=$(sha)
	version=$(json "$report" 'r["version"]')
	train "${run[@]}" --steps "$version"
	[ "$(sha)" = "$sha_struck" ] || fail "$coordinator: other weights than undisturbed: $sha_struck, not $(sha)"
	echo "$coordinator: $moments moments, $version steps, the bits of an undisturbed run"
}

for kind in ${OL_COORDINATORS:-dir zk}; do
	case $kind in
	dir)
		mkdir -m 700 "$tmp/views"
		suffer "dir:$tmp/views" serve work
		;;
	zk)
		ensemble_start 3
		suffer "$ensemble_addr" serve work zookeeper zookeeper
		;;
	esac
done
verdict
