# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# slurm_lib.bash -- sourced by tests that need Slurm: a cluster of its own, whose nodes are this machine, on loopback
#
# Source train_lib.bash and ensemble_lib.bash before it: files and sockets lie in $tmp, daemons end with the background processes.

# slurm_needs -- exit 77 and the reason where a program is missing
slurm_needs() {
	local program

	PATH=$PATH:/usr/sbin:/sbin
	for program in munged slurmctld slurmd sbatch salloc srun scontrol scancel; do
		command -v "$program" >/dev/null && continue
		echo "skip: no $program: apt-get install --no-install-recommends munge slurmctld slurmd slurm-client"
		exit 77
	done
}

# slurm_end -- what daemons and jobs of this cluster have started and have not ended
# shellcheck disable=SC2317,SC2329  # called by the trap
slurm_end() {
	exec 2>/dev/null # bash would tell each that is killed
	grep -lzxF "SLURM_CONF=$SLURM_CONF" /proc/[0-9]*/environ 2>/dev/null | while IFS=/ read -r _ _ pid _; do
		kill -9 "$pid" 2>/dev/null
	done
	cleanup
}

slurm_daemon() {
	local name=$1

	shift
	"$@" >"$slurm_dir/$name.out" 2>&1 &
	background_pids+=($!)
}

# slurm_start COUNT -- nodes node1 to nodeCOUNT, which all are idle; SLURM_CONF is exported
slurm_start() {
	local self user i port ports=()

	slurm_dir=$tmp/slurm
	self=$(hostname -s)
	user=$(id -un)
	mkdir -p "$slurm_dir/munge" "$slurm_dir/state"
	head -c 1024 /dev/urandom >"$slurm_dir/munge/key"
	chmod 600 "$slurm_dir/munge/key"
	slurm_daemon munged munged --force --foreground --key-file="$slurm_dir/munge/key" --socket="$slurm_dir/munge/socket" \
		--pid-file="$slurm_dir/munge/pid" --log-file="$slurm_dir/munge/log" --seed-file="$slurm_dir/munge/seed"
	for ((i = 0; i <= $1; i++)); do
		ensemble_port "ports[$i]"
	done
	cat >"$slurm_dir/slurm.conf" <<END
ClusterName=outlast
SlurmctldHost=$self(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$slurm_dir/munge/socket
StateSaveLocation=$slurm_dir/state
SlurmdSpoolDir=$slurm_dir/spool-%n
SlurmctldPidFile=$slurm_dir/slurmctld.pid
SlurmdPidFile=$slurm_dir/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
KillWait=2
ReturnToService=2
END
	for ((i = 1; i <= $1; i++)); do
		mkdir "$slurm_dir/spool-node$i"
		echo "NodeName=node$i NodeHostname=$self NodeAddr=127.0.0.1 Port=${ports[$i]} CPUs=2" >>"$slurm_dir/slurm.conf"
	done
	echo "PartitionName=usual Nodes=ALL Default=YES PriorityTier=1 GraceTime=60" >>"$slurm_dir/slurm.conf"
	echo "PartitionName=urgent Nodes=ALL PriorityTier=2 PreemptMode=OFF" >>"$slurm_dir/slurm.conf"
	export SLURM_CONF=$slurm_dir/slurm.conf
	trap slurm_end EXIT
	until_true test -S "$slurm_dir/munge/socket" || { fail "munged: $(cat "$slurm_dir"/munge*/log "$slurm_dir/munged.out")"; verdict; }
	slurm_daemon slurmctld slurmctld -D
	for ((i = 1; i <= $1; i++)); do
		slurm_daemon "node$i" slurmd -D -N "node$i"
	done
	until_true slurm_idle "$1" || { fail "Slurm: $(sinfo 2>&1; tail -n 5 "$slurm_dir"/*.out)"; verdict; }
}

# slurm_idle COUNT -- so many nodes are
slurm_idle() {
	[ "$(sinfo -h -p usual -N -t idle -o %N 2>/dev/null | wc -l)" = "$1" ]
}

# slurm_is JOB STATE -- the job's state
slurm_is() {
	[ "$(scontrol -o show job "$1" 2>/dev/null | grep -o 'JobState=[A-Z_]*')" = "JobState=$2" ]
}
