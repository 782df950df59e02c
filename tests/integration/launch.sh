#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# launch.sh -- outlast launch on this machine: what dies comes back and the weights stay those of an undisturbed run; ends,
# signals and statuses are as promised, and nothing outlives the launcher
# not under asan, tsan: its subject is the launcher's own decisions, which are tested there by unit
. "$(dirname "$0")/train_lib.bash"
. "$(dirname "$0")/launch_lib.bash"

work=(-- outlast work --until 150 --pace 60 --eval)

# undisturbed, and what a worker knows
outlast launch "${job[@]}" --workers 2 --json "$report" -- outlast work --until 150 --eval
expect "undisturbed" 0
printf '%s\n' "$out" >"$tmp/whole"
whole=$(sha_of "$tmp/whole")
[[ $whole =~ ^[0-9a-f]{64}$ ]] || fail "undisturbed: no weights: $out $err"
[ "$(grep -c '^\[worker [01]\] ' <<<"$out")" = 4 ] || fail "lines of workers lack their names: $out"
truth "undisturbed" 'r["ended"] == "done" and r["restarts"] == 0 and len(r["processes"]) == 3'
# shellcheck disable=SC2016  # the worker's
OPENBLAS_NUM_THREADS='' outlast launch --params 8 --workers 2 -- sh -c 'echo $OUTLAST_WORKER of $OUTLAST_WORKERS,\
	$OUTLAST_LOCAL_WORKER of $OUTLAST_LOCAL_WORKERS, $OUTLAST_JOB_KEY; outlast stat --once >/dev/null || echo no job'
expect "what a worker knows" 0
for i in 0 1; do
	grep -q "^\[worker $i\] $i of 2, $i of 2, ." <<<"$out" || fail "worker $i does not know who it is: $out"
done
[[ $out != *"no job"* ]] || fail "outlast stat in a worker does not find the job: $out $err"
[[ $out$err != *"$OUTLAST_JOB_KEY"* ]] || fail "the job's key is seen, or a worker has it: $out $err"

mkdir -m 700 "$tmp/views"
OUTLAST_COORDINATOR=dir:$tmp/views outlast launch "${job[@]}" --replicas 2 --workers 1 -- outlast work --until 5
expect "a coordinator in the environment" 0

# lost: the only server, the head of a chain, a worker
launched server "${job[@]}" --workers 2 "${work[@]}"
wait_said server '^\[worker [01]\] worker . at @' 2
kill -9 "$(process_of server 'server 0')"
ended "$launcher" 0 "its server was killed"
same "its server was killed" server
truth "its server was killed" 'r["restarts"] == 1 and r["processes"][0]["starts"] == 2'

launched chain "${job[@]}" --workers 2 --replicas 3 "${work[@]}"
wait_said chain '^\[worker [01]\] worker . at dir:' 2
kill -9 "$(process_of chain 'server 0.0')"
wait_said chain 'server 0.0 listens' 2
folder=$(sed -n 's/.* views in dir:\(.*\)$/\1/p' "$tmp/chain.err")
[ -d "$folder" ] || fail "no folder of views: $(cat "$tmp/chain.err")"
ended "$launcher" 0 "the head of its chain was killed"
same "the head of its chain was killed" chain
truth "the head of its chain was killed" 'r["restarts"] == 1 and r["replicas"] == 3'
[ ! -e "$folder" ] || fail "the folder of views is still there"

launched worker "${job[@]}" --workers 2 "${work[@]}"
wait_said worker '^\[worker [01]\] worker . at @' 2
kill -9 "$(process_of worker 'worker 1')"
ended "$launcher" 0 "a worker was killed"
same "a worker was killed" worker
truth "a worker was killed" 'r["restarts"] == 1 and r["processes"][2]["starts"] == 2'

# making room: the status says so, and the next one goes on where the checkpoints are
saves=(--durability checkpoint --checkpoint "every=100steps,dir=$tmp/saves")
launched room "${job[@]}" --workers 2 "${saves[@]}" --requeue "${work[@]}"
wait_said room '^\[worker [01]\] worker . at @' 2
kill -USR1 "$launcher"
ended "$launcher" 11 "SIGUSR1"
truth "SIGUSR1" 'r["ended"] == "preempted" and r["processes"][0]["end"] == "done"'
said room 'no SLURM_JOB_ID' || fail "SIGUSR1: does not say that there is no Slurm: $(cat "$tmp/room.err")"
launched again "${job[@]}" --workers 2 "${saves[@]}" --resume "${work[@]}"
ended "$launcher" 0 "--resume"
same "--resume" again
said again 'goes on from version' || fail "--resume: begins anew: $(cat "$tmp/again.err")"

# the same of a chain: its tail has saved what was committed, and another coordinator knows nothing of it
beside=(--replicas 2 --checkpoint "every=100steps,dir=$tmp/beside")
launched chained "${job[@]}" --workers 2 "${beside[@]}" --requeue "${work[@]}"
wait_said chained '^\[worker [01]\] worker . at dir:' 2
kill -USR1 "$launcher"
ended "$launcher" 11 "SIGUSR1, a chain"
launched chained2 "${job[@]}" --workers 2 "${beside[@]}" --resume "${work[@]}"
ended "$launcher" 0 "--resume, a chain"
same "--resume, a chain" chained2
said chained2 'goes on from version' || fail "--resume, a chain: begins anew: $(cat "$tmp/chained2.err")"

# signals: in order, and at once
launched asked "${job[@]}" --workers 2 -- outlast work --steps 0 --pace 60
wait_said asked '^\[worker [01]\] worker . at @' 2
kill -TERM "$launcher"
kill -TERM "$launcher" # as timeout does, to a process and to its group
ended "$launcher" 143 "SIGTERM"
truth "SIGTERM" 'r["ended"] == "interrupted" and r["processes"][0]["end"] == "done"'
# shellcheck disable=SC2016
launched deaf --params 8 --grace 1h -- sh -c 'trap "" TERM; echo deaf >&2; while :; do read -r x </dev/zero; done'
wait_said deaf '^\[worker 0\] deaf'
kill -INT "$launcher"
wait_said deaf 'signal 2'
sleep 1.1
kill -INT "$launcher"
ended "$launcher" 130 "a second signal"

# the launcher is killed: neither the agent, nor what it started, nor what that started is left
# shellcheck disable=SC2016
launched gone "${job[@]}" --workers 1 -- sh -c 'outlast work --steps 0 --pace 60 & echo "is $!" >&2; wait'
wait_said gone '^\[worker 0\] worker 0 at @'
left="$(process_of gone 'server 0') $(process_of gone 'worker 0') $(sed -n 's/^\[worker 0\] is //p' "$tmp/gone.err")"
left="$left $(cut -d ' ' -f 4 "/proc/${left%% *}/stat")"
kill -9 "$launcher"
for pid in $left; do
	until_true gone "$pid" || fail "the launcher was killed, and process $pid of $left is left"
done
[ "$(wc -w <<<"$left")" = 4 ] || fail "not the four processes of a job: $left"

# what cannot be saved is no success
launched full --model mlp --durability checkpoint --checkpoint "every=1h,dir=$tmp/full" -- outlast work --until 60 --pace 20
wait_said full '^\[worker 0\] worker 0 at @'
prlimit --pid "$(process_of full 'server 0')" --fsize=16384
ended "$launcher" 1 "the last checkpoint is not written"
said full 'its last checkpoint is not written, see what it said: server 0: ' ||
	fail "the last checkpoint: $(cat "$tmp/full.err")"

# a job of that name runs already: said at once, also where its servers would join the chain of the other
launched first "${job[@]}" --job twice --workers 1 --replicas 2 --coordinator "dir:$tmp/views" -- outlast work --steps 0 --pace 60
wait_said first '^\[worker 0\] worker 0 at dir:'
outlast launch "${job[@]}" --job twice --workers 1 -- true
expect "a job of that name" 7
[[ $err == *'is the job of that name running already?'* && $err != *'is started again'* ]] || fail "a job of that name: $err"
outlast launch "${job[@]}" --job twice --workers 1 --replicas 2 --lease-ms 500 --coordinator "dir:$tmp/views" -- true
expect "a chain of that name" 5
[[ $err == *'outlast launch: the job is running already: twice: '* ]] || fail "a chain of that name: $err"
kill -TERM "$launcher"
ended "$launcher" 143 "the first of that name"

# what cannot be mended ends the job with one line, and nothing waits
outlast launch --params 8 -- no-such-program
expect_error "no such command" 8 '*outlast launch: worker 0 on this machine ended with exit status 127: the job ends*'
outlast launch --params 8 --json "$tmp/nowhere/r.json" -- true
expect_error "--json" 2 "outlast launch: cannot write --json: $tmp/nowhere/r.json: *"
outlast launch --params 8 --replicas 3 --coordinator "dir:$tmp/nowhere" -- true
expect_error "no folder" 4 "outlast launch: cannot use the folder of --coordinator: $tmp/nowhere: *"
outlast launch --params 8 --restart-workers 1 -- sh -c 'exit 7'
expect_error "a worker fails" 8 '*outlast launch: worker 0 on this machine ended with exit status 7: it was started again in vain; the job ends*'
outlast launch --params 8 --restart-workers 0 -- "$tmp/nothing"
expect_error "no such command" 8 '*cannot start: */nothing: No such file*outlast launch: worker 0 on this machine ended with exit status 127: the job ends*'
outlast launch --init "$tmp/nothing.npy" -- true
expect_error "no first weights" 3 '*nothing.npy*outlast launch: server 0 on this machine ended with exit status 3: the job ends*'
outlast launch --params 8 --chdir "$tmp/nothing" -- true
expect_error "no folder" 2 '*cannot go to the folder on this machine: */nothing: No such file*'

# places, without starting anything
printf '%s\n' 'a rack=r1 slots=2' 'b rack=r1 slots=1' 'c rack=r2 slots=1' >"$tmp/hosts"
outlast launch --hosts "$tmp/hosts" --servers 1 --replicas 2 --coordinator zk:127.0.0.1:1 --dry-run -- true
expect "places" 0
for line in 'a  *r1  *server 0.0, workers 0-1' 'b  *r1  *worker 2' 'c  *r2  *server 0.1, worker 3'; do
	grep -qE "^\[launch\] $line$" <<<"$err" || fail "places: no line \"$line\": $err"
done
SLURM_JOB_ID=1 SLURM_JOB_NODELIST='n[1-2]' SLURM_NTASKS=3 SLURM_TASKS_PER_NODE=2,1 outlast launch --params 8 --dry-run -- true
expect "Slurm's places" 0
grep -qE '^\[launch\] n1 .* server 0, workers 0-1$' <<<"$err" || fail "Slurm's places: $err"

# wrong usage
outlast launch --workers 2
expect_error "no command" 2 'outlast launch: the workers have no command: *'
OMPI_COMM_WORLD_SIZE=4 outlast launch -- true
expect_error "by mpirun" 2 'outlast launch: was started many times at once: OMPI_COMM_WORLD_SIZE: *--mpirun*'
outlast launch --mpirun -- true
expect_error "mpirun to nowhere" 2 'outlast launch: --mpirun: leads to no host: *'
printf '%s\n' b c b >"$tmp/nodes"
LSB_DJOB_HOSTFILE=$tmp/nodes outlast launch --mpirun --dry-run --params 8 -- true
expect "a job of LSF" 0
grep -qE '^\[launch\] b .* workers 0-1$' <<<"$err" || fail "a job of LSF: $err"
outlast launch --env PATH,SEED=7 -- true
expect_error "--env with a value" 2 'outlast launch: --env: *SEED=7* is not names of variables*'
outlast launch --env PATH,NOSUCH --params 8 --dry-run -- true
expect "--env without a value" 0
[[ $err == *'there is no variable NOSUCH here'* && $err != *'variable PATH'* ]] || fail "--env without a value: $err"
outlast launch --replicas 3 --durability none --params 8 -- true
expect_error "no durability with replicas" 2 'outlast launch: --durability: *--replicas 1*'
outlast launch --hosts "$tmp/hosts" --replicas 2 -- true
expect_error "no coordinator" 2 'outlast launch: --coordinator is missing: *zk:HOST:PORT*'
outlast launch --hosts "$tmp/hosts" --replicas 2 --coordinator "dir:$tmp" -- true
expect_error "a folder of several hosts" 2 'outlast launch: --coordinator: *zk:HOST:PORT*'
outlast launch --hosts "$tmp/hosts" --servers 2 --replicas 4 --coordinator zk:127.0.0.1:1 -- true
expect_error "too few hosts" 2 'outlast launch: 4 replicas of a shard need 4 hosts, and there are 3 *'
outlast launch --hosts "$tmp/hosts" --workers 5 -- true
expect_error "too few slots" 2 'outlast launch: 5 workers, and the hosts take 4: *'
outlast launch --hosts "$tmp/none" -- true
expect_error "no file of hosts" 2 'outlast launch: --hosts: *none: No such file*'
outlast launch --resume -- true
expect_error "nothing to resume" 2 'outlast launch: --resume: *needs --durability checkpoint'
verdict
