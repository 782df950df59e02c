# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# ensemble_lib.bash -- sourced by tests that need ZooKeeper: an ensemble of real servers on loopback
#
# Source train_lib.bash before it: servers lie in $tmp and are killed with its background processes.
# ensemble_start leaves the address in $ensemble_addr and the servers' processes in ensemble_pids.

ensemble_jar=/usr/share/java/zookeeper.jar
ensemble_addr=''
ensemble_ports=()
ensemble_pids=()

# ensemble_port VARIABLE -- a port that nobody listens at; not one of those that the kernel gives to
# clients, who would meet themselves there while the server is gone
ensemble_next=$((($$ * 37) % 20000))
ensemble_port() {
	local port

	while :; do
		ensemble_next=$(((ensemble_next + 1) % 20000))
		port=$((10000 + ensemble_next))
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && continue
		printf -v "$1" '%s' "$port"
		return
	done
}

# ensemble_run INDEX -- start a server, for the first time or again, with what it wrote
ensemble_run() {
	java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData \
		-Dzookeeper.root.logger=WARN,CONSOLE -Dzookeeper.preAllocSize=1024 \
		-cp "/etc/zookeeper/conf:$ensemble_jar" \
		org.apache.zookeeper.server.quorum.QuorumPeerMain "$tmp/zk$1/cfg" \
		>>"$tmp/zk$1/log" 2>&1 &
	ensemble_pids[$1]=$!
	background_pids+=($!)
}

# ensemble_answers PORT -- the server there sees a quorum; ensemble_serves INDEX -- one of these does
ensemble_serves() {
	ensemble_answers "${ensemble_ports[$1]}"
}
ensemble_answers() {
	local text=''

	{ exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || return 1
	printf srvr >&3
	text=$(timeout 1 cat <&3)
	exec 3>&-
	[[ $text == *'Mode: '* ]]
}

# ensemble_wait INDEX -- until it serves
ensemble_wait() {
	local until=$((SECONDS + DEADLINE_S))

	until ensemble_serves "$1"; do
		if [ "$SECONDS" -ge "$until" ] || ! kill -0 "${ensemble_pids[$1]}" 2>/dev/null; then
			cat "$tmp/zk$1/log" >&2
			fail "ZooKeeper server $1 does not serve"
			verdict
		fi
		read -r -t 0.05 <> <(:) || :
	done
}

# ensemble_needs -- exit 77 and the reason where ZooKeeper is not there
ensemble_needs() {
	[ -r "$ensemble_jar" ] || {
		echo "skip: no $ensemble_jar: install zookeeper"
		exit 77
	}
	command -v java >/dev/null || {
		echo 'skip: no java: install default-jre-headless'
		exit 77
	}
}

# ensemble_start COUNT -- and wait until each serves
ensemble_start() {
	local i peer election servers=''

	ensemble_needs
	for ((i = 0; i < $1; i++)); do
		ensemble_port "ensemble_ports[$i]"
		ensemble_port peer
		ensemble_port election
		servers+="server.$((i + 1))=127.0.0.1:$peer:$election"$'\n'
		ensemble_addr+="${ensemble_addr:+,}127.0.0.1:${ensemble_ports[$i]}"
	done
	ensemble_addr=zk:$ensemble_addr
	for ((i = 0; i < $1; i++)); do
		mkdir "$tmp/zk$i"
		echo $((i + 1)) >"$tmp/zk$i/myid"
		cat >"$tmp/zk$i/cfg" <<END
tickTime=50
initLimit=100
syncLimit=40
minSessionTimeout=100
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr
dataDir=$tmp/zk$i
clientPortAddress=127.0.0.1
clientPort=${ensemble_ports[$i]}
$servers
END
		ensemble_run "$i"
	done
	for ((i = 0; i < $1; i++)); do
		ensemble_wait "$i"
	done
}

# ensemble_kill INDEX -- SIGKILL; ensemble_pause, ensemble_resume INDEX -- SIGSTOP, SIGCONT
ensemble_kill() {
	kill -9 "${ensemble_pids[$1]}"
	wait "${ensemble_pids[$1]}" 2>/dev/null
}
ensemble_pause() {
	kill -STOP "${ensemble_pids[$1]}"
}
ensemble_resume() {
	kill -CONT "${ensemble_pids[$1]}"
}
