#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# outage_jobs.sh [--runs N] [--from SEED] -- jobs of several servers, some of which are killed from outside at random
# moments, end, account for every gradient, and with steps of all workers have the bits of an undisturbed run
#
# A seed draws servers, workers, window, consistency, outage and kills. A failure prints its seed; the moment of a kill
# depends on the machine, so a replay may take a few tries.
. "$(dirname "$0")/kill_lib.bash"

mlp=(--model mlp:64 --dataset synthetic:train=500,test=200 --eval-every 0)
runs=3 from=1
while [ $# -ge 2 ]; do
	case $1 in
	--runs) runs=$2 ;;
	--from) from=$2 ;;
	*) fail "unknown option $1"; verdict ;;
	esac
	shift 2
done

children() { # PID SUBCOMMAND
	local child

	for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
		{ tr '\0' ' ' <"/proc/$child/cmdline"; } 2>/dev/null | grep -q "^outlast $2 " && echo "$child"
	done
}

strikes=0
declare -A whole # weights of a job that is left alone, by its number of workers

whole_of() { # WORKERS
	[ -z "${whole[$1]-}" ] || return
	train --consistency sync --workers "$1" --steps 750
	whole[$1]=$(sha)
}

# begun -- the last of its processes is there
begun() {
	gone "$job" || [ "$(children "$job" work | wc -l)" -ge $workers ]
}

# strike -- kill one of the servers at a moment that the seed says, less than half a second from now. Not when the job may
# be at its end: nobody is left then who has what a server without replica and checkpoint had.
strike() {
	local pids victim

	read -r -t "0.$((RANDOM % 5))$((RANDOM % 10))" <>"$tmp/never"
	victim=$RANDOM
	mapfile -t pids < <(children "$job" serve)
	[ ${#pids[@]} -gt 0 ] && [ $((${EPOCHREALTIME/[.,]/} - began_us)) -lt 2800000 ] &&
		kill -9 "${pids[victim % ${#pids[@]}]}" 2>/dev/null && strikes=$((strikes + 1))
}

play() { # SEED
	local kills away

	RANDOM=$1
	servers=$((2 + RANDOM % 2)) workers=$((2 + RANDOM % 3)) window=$((2 + RANDOM % 4))
	consistency=sync outage=continue
	[ $((RANDOM % 3)) = 0 ] && consistency=async
	[ $((RANDOM % 4)) = 0 ] && outage=wait
	kills=$((1 + RANDOM % 3)) away=$((RANDOM % servers))@$((20 + RANDOM % 200))steps:down=$((RANDOM % 6))00ms
	# at this pace it lasts for three seconds at least: nobody is killed later than that
	steps=750
	[ $consistency = sync ] || steps=$((750 * workers))
	[ $outage = wait ] && [ $consistency = sync ] && whole_of $workers
	ran="seed $1: $consistency, $servers servers, $workers workers, window $window, outage $outage, $kills kills, $away"
	rm -f "$report"
	began_us=${EPOCHREALTIME/[.,]/}
	background t train "${mlp[@]}" --json "$report" --consistency $consistency --outage $outage --servers $servers \
		--workers $workers --window $window --steps $steps --pace 250 --restarts 100 --kill "server$away"
	job=$pid
	until_true begun || fail "$ran: it did not begin: $(cat "$tmp/t.err")"
	for ((kill = 0; kill < kills; kill++)); do
		strike
	done
	ended "$job" 0 "$ran: $(tail -n 3 "$tmp/t.err")"
	gone "$job" || { kill -9 "$job"; return; }
	truth "accounts agree" 'r["ended"] == "done" and r["accounting"]["agree"]'
	truth "all is resolved" 'all(l["pending"] == 0 and l["pushed"] == l["applied"] + l["dropped_late"] +
		l["dropped_nonfinite"] + l["queue_dropped"] + l["lost"]
		for w in r["accounting"]["workers"] for l in w["links"])'
	truth "nothing lost" 'r["gradients_lost"] == 0 and r["gradients_nonfinite"] == 0'
	[ $outage = continue ] || [ $consistency = async ] || [ "$(sha)" = "${whole[$workers]}" ] ||
		fail "$ran: other weights: $(sha), not ${whole[$workers]}"
}

for ((seed = from; seed < from + runs; seed++)); do
	play $seed
	[ "$runs" -le 20 ] || [ $((seed % 20)) != 0 ] || echo "seed $seed: $failures failed so far"
done
echo "$runs jobs, $strikes kills, $failures failed"
verdict
