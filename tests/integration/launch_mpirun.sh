#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# launch_mpirun.sh -- outlast launch by Open MPI's mpirun to three hosts, all of which are this machine, and which are those of a
# PBS job: a chain with a replica on each, two workers; the head is killed, then the mpirun of a host is; the weights stay those
# of an undisturbed run
# not under asan, tsan: its subject is what runs where
. "$(dirname "$0")/train_lib.bash"
. "$(dirname "$0")/launch_lib.bash"
. "$(dirname "$0")/ensemble_lib.bash"
. "$(dirname "$0")/hosts_lib.bash"

if [[ $(mpirun --version 2>/dev/null) != *'Open MPI) '[45].* ]]; then
	echo "skip: no mpirun of Open MPI 4 or 5: apt-get install --no-install-recommends openmpi-bin"
	exit 77
fi
hosts_needs
hosts_start
# its daemons get to the other hosts by this sshd; what else it needs on a machine like this one
export OMPI_MCA_plm_rsh_agent=$hosts_ssh TMPDIR=$tmp OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
hosts_undisturbed
hosts_head_killed --mpirun --hosts "$tmp/hosts"
hosts_way_killed '^mpirun .*--host 127\.0\.0\.2 ' --mpirun --hosts "$tmp/hosts"

# a job of PBS: a line each slot; what mpirun tells the process that it starts is not for workers
printf '%s\n' 127.0.0.2 127.0.0.3 127.0.0.2 >"$tmp/nodes"
# shellcheck disable=SC2016  # the worker's
PBS_NODEFILE=$tmp/nodes outlast launch --mpirun --params 8 --transport shm -- \
	sh -c 'echo "$OUTLAST_WORKER of $OUTLAST_WORKERS, $(env | grep -cE "^(OMPI|PMIX)_"), $(taskset -p $$)"'
expect "a job of PBS" 0
mask=$(taskset -p $$)
for i in 0 1 2; do
	grep -q "^\[worker $i\] $i of 3, 0, .*${mask##*:}\$" <<<"$out" || fail "a job of PBS: worker $i: $out $err"
done
grep -qE '^\[launch\] 127\.0\.0\.2  .*workers 0-1$' <<<"$err" || fail "a job of PBS: places: $err"

# hosts that cannot be reached; a signal
OMPI_MCA_plm_rsh_agent=false outlast launch --mpirun --hosts "$tmp/hosts" --params 8 --transport shm -- true
expect "hosts that are not there" 4
[[ $err == *'cannot reach the host: 127.0.0.'*'--mpirun-command'* ]] || fail "hosts that are not there: says $err"
launched asked "${job[@]}" --mpirun --hosts "$tmp/hosts" --transport shm -- outlast work --steps 0 --pace 60
wait_said asked '^\[worker [01]\] worker . at @' 2
kill -TERM "$launcher"
ended "$launcher" 143 "SIGTERM"
truth "SIGTERM" 'r["ended"] == "interrupted" and r["processes"][0]["end"] == "done"'
verdict
