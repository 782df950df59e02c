# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# hosts_lib.bash -- sourced by tests of outlast launch to several hosts: a real sshd, and three hosts that are this machine
#
# Source train_lib.bash, launch_lib.bash and ensemble_lib.bash before it. hosts_start leaves ssh's words in $hosts_ssh, the file of
# hosts in $tmp/hosts, and what all launches share in hosts_job.

hosts_ssh=''
hosts_job=()

# hosts_needs -- exit 77 and the reason where there is no sshd
hosts_needs() {
	hosts_sshd=$(command -v sshd || echo /usr/sbin/sshd)
	if ! [ -x "$hosts_sshd" ] || ! command -v ssh >/dev/null || ! command -v ssh-keygen >/dev/null; then
		echo "skip: no sshd here: apt-get install openssh-server"
		exit 77
	fi
}

hosts_reached() {
	$hosts_ssh 127.0.0.3 true 2>"$tmp/ssh.err"
}

# hosts_start -- 127.0.0.1 to .3: a rack each, workers on the first two; an ensemble of one server
hosts_start() {
	local port

	[ "$(id -u)" != 0 ] || mkdir -p /run/sshd # its folder of privileges that it gives up
	port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	ssh-keygen -q -t ed25519 -N '' -f "$tmp/host" && ssh-keygen -q -t ed25519 -N '' -f "$tmp/me" || fail "no keys"
	cp "$tmp/me.pub" "$tmp/authorized"
	chmod 700 "$tmp"
	printf '%s\n' "ListenAddress 127.0.0.1:$port" "ListenAddress 127.0.0.2:$port" "ListenAddress 127.0.0.3:$port" \
		"HostKey $tmp/host" "AuthorizedKeysFile $tmp/authorized" "PidFile none" "StrictModes no" "UsePAM no" \
		"PasswordAuthentication no" "PermitRootLogin prohibit-password" >"$tmp/sshd_config"
	"$hosts_sshd" -D -e -f "$tmp/sshd_config" 2>"$tmp/sshd.err" &
	background_pids+=($!)
	hosts_ssh="ssh -F none -p $port -i $tmp/me -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=no \
-o UserKnownHostsFile=$tmp/known -o LogLevel=ERROR"
	until_true hosts_reached || { fail "sshd: $(cat "$tmp/ssh.err" "$tmp/sshd.err")"; verdict; }
	printf '%s\n' '127.0.0.1 rack=a slots=1' '127.0.0.2 rack=b slots=1' '127.0.0.3 rack=c slots=0' >"$tmp/hosts"
	ensemble_start 1
	hosts_job=("${job[@]}" --transport shm --replicas 3
		--env PATH,LD_LIBRARY_PATH,OPENBLAS_CORETYPE,OPENBLAS_L2_SIZE) # other kernels of BLAS make other bits
	hosts_work=(-- outlast work --until 150 --pace 30 --eval)
}

# hosts_undisturbed -- the weights that all others are to have
hosts_undisturbed() {
	outlast launch "${job[@]}" --workers 2 -- outlast work --until 150 --eval
	expect "undisturbed, on this machine" 0
	printf '%s\n' "$out" >"$tmp/whole"
	whole=$(sha_of "$tmp/whole")
}

# hosts_head_killed WORD... -- a launch with these words, whose head of the chain is killed
hosts_head_killed() {
	launched head "${hosts_job[@]}" --coordinator "$ensemble_addr" "$@" "${hosts_work[@]}"
	wait_said head '^\[worker [01]\] worker . at zk:' 2
	for line in '127.0.0.1  *a  *server 0.0, worker 0' '127.0.0.2  *b  *server 0.1, worker 1' '127.0.0.3  *c  *server 0.2'; do
		said head "^\\[launch\\] $line\$" || fail "places: no line \"$line\": $(cat "$tmp/head.err")"
	done
	kill -9 "$(process_of head 'server 0.0')"
	ended "$launcher" 0 "a server on another host was killed"
	same "a server on another host was killed" head
	truth "a server on another host was killed" 'r["ended"] == "done" and r["restarts"] == 1'
	! grep -qF "$OUTLAST_JOB_KEY" "$tmp/head.err" "$tmp/head.out" "$tmp/sshd.err" || fail "the key is seen"
}

# hosts_way_killed PATTERN WORD... -- what leads to the second host is killed, the launcher's child with such a command
# line, in a job with a ZooKeeper of its own: what ran there is ended, and starts again, but for the server of ZooKeeper,
# without which the two others go on
hosts_way_killed() {
	local pattern=$1 left way i

	shift
	ensemble_needs
	launched host "${hosts_job[@]}" --ensemble 3 "$@" "${hosts_work[@]}"
	wait_said host '^\[worker [01]\] worker . at zk:127\.0\.0\.1:[0-9]*,127\.0\.0\.2:[0-9]*,127\.0\.0\.3:' 2
	for i in 0 1 2; do
		said host "^\\[launch\\] zookeeper $i listens on 127\\.0\\.0\\.$((i + 1)) " ||
			fail "no server of ZooKeeper on 127.0.0.$((i + 1)): $(cat "$tmp/host.err")"
	done
	left=$(process_of host 'server 0.1')
	way=$(pgrep -f "$pattern" | while read -r pid; do
		[ "$(cut -d ' ' -f 4 "/proc/$pid/stat")" != "$launcher" ] || echo "$pid"
	done)
	[ "$(wc -w <<<"$way")" = 1 ] || fail "not one connection to a host: $way"
	kill -9 "$way"
	until_true gone "$left" || fail "a server outlived the connection to its host"
	ended "$launcher" 0 "the connection to a host was lost"
	same "the connection to a host was lost" host
	truth "the connection to a host was lost" 'r["ended"] == "done" and r["restarts"] >= 2'
	said host 'zookeeper 1 .*, and is not started again' || fail "the lost server of ZooKeeper: $(cat "$tmp/host.err")"
}
