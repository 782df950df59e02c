#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# launch_ssh.sh -- outlast launch over a real sshd to three hosts, all of which are this machine: a chain with a replica on
# each, two workers; the head is killed, then a host's connection is; the weights stay those of an undisturbed run
# not under asan, tsan: its subject is what runs where
. "$(dirname "$0")/train_lib.bash"
. "$(dirname "$0")/launch_lib.bash"
. "$(dirname "$0")/ensemble_lib.bash"

sshd=$(command -v sshd || echo /usr/sbin/sshd)
if ! [ -x "$sshd" ] || ! command -v ssh >/dev/null || ! command -v ssh-keygen >/dev/null; then
	echo "skip: no sshd here: apt-get install openssh-server"
	exit 77
fi
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd # its folder of privileges that it gives up
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
ssh-keygen -q -t ed25519 -N '' -f "$tmp/host" && ssh-keygen -q -t ed25519 -N '' -f "$tmp/me" || fail "no keys"
cp "$tmp/me.pub" "$tmp/authorized"
chmod 700 "$tmp"
printf '%s\n' "ListenAddress 127.0.0.1:$port" "ListenAddress 127.0.0.2:$port" "ListenAddress 127.0.0.3:$port" \
	"HostKey $tmp/host" "AuthorizedKeysFile $tmp/authorized" "PidFile none" "StrictModes no" "UsePAM no" \
	"PasswordAuthentication no" "PermitRootLogin prohibit-password" >"$tmp/sshd_config"
"$sshd" -D -e -f "$tmp/sshd_config" 2>"$tmp/sshd.err" &
background_pids+=($!)
way="ssh -F none -p $port -i $tmp/me -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=no \
-o UserKnownHostsFile=$tmp/known -o LogLevel=ERROR"
reaches() {
	$way 127.0.0.3 true 2>"$tmp/ssh.err"
}
until_true reaches || { fail "sshd: $(cat "$tmp/ssh.err" "$tmp/sshd.err")"; verdict; }
printf '%s\n' '127.0.0.1 rack=a slots=1' '127.0.0.2 rack=b slots=1' '127.0.0.3 rack=c slots=0' >"$tmp/hosts"
ensemble_start 1
hosts=(--hosts "$tmp/hosts" --ssh "$way" --transport shm --coordinator "$ensemble_addr" --replicas 3
	--env PATH,LD_LIBRARY_PATH,OPENBLAS_CORETYPE,OPENBLAS_L2_SIZE) # other kernels of BLAS make other bits
work=(-- outlast work --until 150 --pace 30 --eval)

outlast launch "${job[@]}" --workers 2 -- outlast work --until 150 --eval
expect "undisturbed, on this machine" 0
printf '%s\n' "$out" >"$tmp/whole"
whole=$(sha_of "$tmp/whole")

launched head "${job[@]}" "${hosts[@]}" "${work[@]}"
wait_said head '^\[worker [01]\] worker . at zk:' 2
for line in '127.0.0.1  *a  *server 0.0, worker 0' '127.0.0.2  *b  *server 0.1, worker 1' '127.0.0.3  *c  *server 0.2'; do
	said head "^\\[launch\\] $line\$" || fail "places: no line \"$line\": $(cat "$tmp/head.err")"
done
kill -9 "$(process_of head 'server 0.0')"
ended "$launcher" 0 "a server on another host was killed"
same "a server on another host was killed" head
truth "a server on another host was killed" 'r["ended"] == "done" and r["restarts"] == 1'
! grep -qF "$OUTLAST_JOB_KEY" "$tmp/head.err" "$tmp/head.out" "$tmp/sshd.err" || fail "the key is seen"

# a connection is lost: what ran on its host is ended there, and starts again
launched host "${job[@]}" "${hosts[@]}" "${work[@]}"
wait_said host '^\[worker [01]\] worker . at zk:' 2
left=$(process_of host 'server 0.1')
line=$(pgrep -f "127\\.0\\.0\\.2 .*launch-agent" | while read -r pid; do
	[ "$(cut -d ' ' -f 4 "/proc/$pid/stat")" != "$launcher" ] || echo "$pid"
done)
[ "$(wc -w <<<"$line")" = 1 ] || fail "not one connection to a host: $line"
kill -9 "$line"
until_true gone "$left" || fail "a server outlived the connection to its host"
ended "$launcher" 0 "the connection to a host was lost"
same "the connection to a host was lost" host
truth "the connection to a host was lost" 'r["ended"] == "done" and r["restarts"] >= 2'

# hosts that cannot be reached
outlast launch "${job[@]}" --hosts "$tmp/hosts" --ssh "${way/-p $port/-p 1}" --transport shm --coordinator "$ensemble_addr" "${work[@]}"
[ "$rc" != 0 ] && [ "$rc" != 124 ] || fail "hosts that are not there: status $rc"
[[ $err == *"127.0.0."* ]] || fail "hosts that are not there: says $err"
verdict
