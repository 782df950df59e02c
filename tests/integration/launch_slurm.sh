#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# launch_slurm.sh -- outlast launch in allocations of a real Slurm with four nodes, all of which are this machine: a chain of
# three with four workers loses a worker, a step with a server, and a node; another job is preempted; the weights stay those of an
# undisturbed run
# not under asan, tsan: its subject is what runs where
. "$(dirname "$0")/train_lib.bash"
. "$(dirname "$0")/launch_lib.bash"
. "$(dirname "$0")/ensemble_lib.bash"
. "$(dirname "$0")/slurm_lib.bash"

slurm_needs
ensemble_start 1
slurm_start 4
PATH=$(dirname "$OUTLAST_BIN"):$PATH
# what the scripts of the guide are run with, besides what they say
guide=$(dirname "$0")/../../tools/CLUSTER.md
export OUTLAST_MODEL=mlp:16 OUTLAST_DATASET=synthetic:train=500,test=100 OUTLAST_CONSISTENCY=sync OUTLAST_TRANSPORT=shm
export OUTLAST_JSON=$report

# script NUMBER -- of the guide's scripts for sbatch
script() {
	awk -v want="$1" '/^```/ { inside = 0 } /^#!/ { inside = ++hit == want } inside' "$guide"
}
script 1 >"$tmp/chain.sh"
script 2 >"$tmp/saves.sh"
for i in chain saves; do
	grep -q '^exec outlast launch ' "$tmp/$i.sh" || fail "the guide lacks a script for sbatch"
done

# submitted NAME SCRIPT WORD... -- a job of the batch: its number in $batch, what it says in $tmp/NAME.err and .out
submitted() {
	local name=$1 script=$2

	shift 2
	rm -f "$report"
	: >"$tmp/$name.err"
	batch=$(sbatch --parsable -o "$tmp/$name.out" -e "$tmp/$name.err" "$@" "$tmp/$script.sh") || fail "sbatch $name"
}
batch_ended() {
	until_true slurm_is "$batch" COMPLETED || { fail "$1: $(scontrol show job "$batch"; tail -n 40 "$tmp/$1.err"; tail -n 12 "$slurm_dir"/*.out)"; verdict; }
}


# node_of NAME PROCESS -- where its last start is; processes_on NAME NODE -- the last starts there
node_of() {
	sed -n "s/^\[launch\] $2 \(listens\|runs\) on \([^ ,]*\).* process [0-9]*\$/\2/p" "$tmp/$1.err" | tail -n 1
}
processes_on() {
	sed -n "s/^\[launch\] .* \(listens\|runs\) on $2[ ,].*process \([0-9]*\)\$/\2/p" "$tmp/$1.err" | while read -r pid; do
		gone "$pid" || echo "$pid"
	done
}
# step_on NODE -- the launcher's step there
step_on() {
	squeue -s -h -j "$batch" -w "$1" -o %i | grep -v batch | head -n 1
}

# one line, with a ZooKeeper of its own: undisturbed; a site's file of hosts says where the nodes are
work='outlast work --until 600 --eval'
printf '%s address=127.0.0.1 %s\n' node1 rack=a elsewhere 'slots=2 rack=b' node2 rack=a node3 rack=c node4 rack=d >"$tmp/site"
# shellcheck disable=SC2086
timeout "$DEADLINE_S" salloc -Q -N4 outlast launch --ensemble 3 --hosts "$tmp/site" --replicas 3 --workers 4 -- $work \
	>"$tmp/whole" 2>"$tmp/whole.err" </dev/null || fail "salloc: $(cat "$tmp/whole.err")"
grep -qE '^\[launch\] node3 +c +server' "$tmp/whole.err" || fail "salloc: places: $(cat "$tmp/whole.err")"
grep -qF 'elsewhere' "$tmp/whole.err" && fail "salloc: a host that is not of the allocation: $(cat "$tmp/whole.err")"
whole=$(sha_of "$tmp/whole")
[[ $whole =~ ^[0-9a-f]{64}$ ]] || { fail "salloc: no weights: $(cat "$tmp/whole" "$tmp/whole.err")"; verdict; }
truth "salloc" 'r["ended"] == "done" and r["restarts"] == 0 and len(r["processes"]) == 10'
# node2 is in the rack of node1
truth "salloc" '{p["host"] for p in r["processes"] if p["name"].startswith("server")} == {"node1", "node3", "node4"}'
export OUTLAST_COORDINATOR=$ensemble_addr

# a worker is killed; a step ends, with the server and the worker that are in it; a node is set down, and does not come back
export TRAIN="$work --pace 100"
submitted lost chain
wait_said lost '^\[worker [0-3]\] worker . at zk:' 4
kill -9 "$(process_of lost 'worker 3')"
wait_said lost 'worker 3 runs on' 2
node=$(node_of lost 'server 0.1')
left="$(processes_on lost "$node")"
scancel "$(step_on "$node")"
wait_said lost 'server 0\.1 listens' 2
[ "$(wc -w <<<"$left")" = 2 ] || fail "not a server and a worker on $node: $left"
for pid in $left; do
	gone "$pid" || fail "scancel of a step: process $pid of $left is left"
done
node=$(node_of lost 'server 0.2')
left="$(processes_on lost "$node")"
scontrol update nodename="$node" state=down reason=test
for pid in $left; do
	until_true gone "$pid" || fail "a node is down: process $pid of $left is left"
done
wait_said lost "$node is lost"
batch_ended lost
same "a worker, a step and a node were lost" lost
truth "a worker, a step and a node were lost" 'r["ended"] == "done" and r["restarts"] >= 4'
said lost 'server 0\.2 moves' || fail "a node is down: its server does not move: $(cat "$tmp/lost.err")"
scontrol update nodename="$node" state=resume 2>/dev/null # unless its slurmd has registered again before
until_true slurm_idle 4 || fail "the nodes of a job that ended are not idle: $(sinfo)"

# an urgent job takes the nodes: checkpoint, back into the queue, on from there
unset OUTLAST_COORDINATOR
export TRAIN="$work --pace 300"
cd "$tmp" || exit 1
submitted saves saves
wait_said saves '^\[worker [0-3]\] worker . at @' 4
timeout "$DEADLINE_S" srun -Q -p urgent -N4 true || fail "the urgent job did not run: $(squeue)"
said saves 'SIGUSR1: servers save' || fail "preemption: no SIGUSR1: $(cat "$tmp/saves.err")"
said saves "job $batch is requeued" || fail "preemption: not requeued: $(cat "$tmp/saves.err")"
until_true slurm_is "$batch" PENDING || fail "preemption: not pending: $(scontrol show job "$batch")"
until_true slurm_idle 4 || fail "preemption: the nodes are not idle: $(sinfo)"
: >"$tmp/saves.out" # the weights at the checkpoint
sleep 2 # a credential of the second in which slurmd revoked the job's is refused, and the job fails
scontrol update jobid="$batch" starttime=now # Slurm lets a requeued job wait two minutes
batch_ended saves
same "preemption" saves
said saves 'goes on from its checkpoints' || fail "preemption: begins anew: $(cat "$tmp/saves.err")"
verdict
