#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# chain_usage.sh -- invalid settings of chains, and coordinators that do not answer, get one line that names the fault
#
# not under tsan: a command line is refused before there is a second thread
. "$(dirname "$0")/chain_lib.bash"

bad() { # WHAT STATUS PATTERN WORD...
	local what=$1 status=$2 pattern=$3

	shift 3
	outlast "$@"
	expect_error "$what" "$status" "$pattern"
	[ -z "$out" ] || fail "$what: says something on stdout: $out"
}

train=(train "${tiny[@]}")
bad "nine replicas" 2 "outlast train: --replicas*9*8*" "${train[@]}" --durability chain --replicas 9
bad "no replica" 2 "outlast train: --replicas*" "${train[@]}" --durability chain --replicas 0
bad "replicas without chain" 2 "outlast train: --replicas: *needs --durability chain*" "${train[@]}" --replicas 2
bad "replicas of checkpoints" 2 "outlast train: --replicas: *needs --durability chain*" \
	"${train[@]}" --durability checkpoint --replicas 2
bad "period without chain" 2 "outlast train: --replicate-every: *needs --durability chain*" \
	"${train[@]}" --replicate-every 100
bad "coordinator without chain" 2 "outlast train: --coordinator: *needs --durability chain*" \
	"${train[@]}" --coordinator @nowhere
bad "checkpoints of a chain" 2 "outlast train: --checkpoint: *needs --durability checkpoint*" \
	"${train[@]}" --durability chain --checkpoint every=5s
bad "a server of a chain" 2 "outlast train: --kill: *server0@3s*head0*" \
	"${train[@]}" --durability chain --kill server0@3s
bad "a shard that is not" 2 'outlast train: --kill: *"head1@3s" is not below --servers*' \
	"${train[@]}" --durability chain --kill head1@3s
bad "a head without a chain" 2 "outlast train: --kill: *needs --durability chain*" "${train[@]}" --kill tail0@3s
bad "serve without a coordinator" 2 "outlast serve: --durability: *needs --coordinator*" \
	serve "${tiny[@]}" --durability chain --listen "$(address)"
for words in replicas=3 replicate-every=5 rank=1 refound job=other; do
	bad "serve --$words" 2 "outlast serve: --${words%%=*}: *needs --coordinator" \
		serve "${tiny[@]}" --listen "$(address)" "--$words"
done
bad "serve, a chain of none" 2 "outlast serve: --durability: *--coordinator*" \
	serve "${tiny[@]}" --listen "$(address)" --coordinator @a --durability none
bad "serve, nine" 2 "outlast serve: --replicas*" serve "${tiny[@]}" --replicas 9
bad "work, both" 2 "outlast work: --connect: *--connect or --coordinator*" \
	work "${tiny[@]}" --connect @a --coordinator @b
bad "stat of nothing" 2 "outlast stat: give --coordinator or --servers" stat
bad "stat of both" 2 "outlast stat: --servers: *--coordinator or --servers*" stat --coordinator @a --servers @b
bad "stat of no address" 2 "outlast stat: --servers: *" stat --servers @a,,@b

# nobody there; what is no address; folders that cannot be used
nobody=dir:$tmp/nobody
bad "train" 4 "outlast train: *$nobody: there is no such folder*" "${train[@]}" --durability chain --coordinator "$nobody"
bad "stat" 4 "outlast stat: *$nobody*" stat --coordinator "$nobody"
bad "serve" 4 "*outlast serve: *$nobody: there is no such folder: make it first" serve "${tiny[@]}" --listen "$(address)" --coordinator "$nobody"
bad "work" 4 "*outlast work: *$nobody*" work "${tiny[@]}" --coordinator "$nobody" --connect-timeout-ms 500
outlast doctor --coordinator "$nobody"
expect_error "doctor" 4 "outlast doctor: the coordinator does not answer*"
[[ $out == *"-> give a folder of this machine"* ]] || fail "doctor: no remedy for a folder: $out"
bad "no address" 2 "outlast stat: *@nowhere*dir:PATH*zk:*" stat --coordinator @nowhere
mkdir "$tmp/open"
chmod 777 "$tmp/open"
bad "for everybody" 7 "outlast stat: *$tmp/open*chmod go-w*" stat --coordinator "dir:$tmp/open"
mkdir "$tmp/views"
bad "job" 2 "outlast stat: *name*" stat --coordinator "dir:$tmp/views" --job a/b
verdict
