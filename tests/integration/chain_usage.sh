#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# chain_usage.sh -- invalid settings of chains, and coordinators that do not answer, get one line that names the fault
#
# not under asan, tsan: a command line is refused before there is a second thread, by code of which there are unit tests
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
bad "running checkpoints of a chain" 2 "outlast train: --checkpoint: *there are full ones only*" \
	"${train[@]}" --durability chain --checkpoint priority,r=1/8,every=8steps
bad "each replica's checkpoints" 2 "outlast train: --checkpoint: *by=each*a folder each*" \
	"${train[@]}" --durability chain --checkpoint every=5s,by=each
bad "checkpoints of a chain that is not strict" 2 "outlast train: --replicate-every: *only a strict chain*" \
	"${train[@]}" --durability chain --checkpoint every=5s --replicate-every 10
bad "a chain that is resumed without checkpoints" 2 "outlast train: --resume: *needs --durability checkpoint, or chain*" \
	"${train[@]}" --durability chain --resume
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
expect_error "doctor" 4 "outlast doctor: the coordinator cannot be used*$nobody*"
[[ $out == *"-> give a folder of this machine"* ]] || fail "doctor: no remedy for a folder: $out"
bad "no address" 2 "outlast stat: *@nowhere*dir:PATH*zk:*" stat --coordinator @nowhere
bad "views" 4 "outlast stat: *$nobody: there is no such folder*" stat --views --coordinator "$nobody"
bad "views of servers" 2 "outlast stat: --views: *--coordinator alone*" stat --views --servers @a
bad "coord of nothing" 2 "outlast coord: give --coordinator" coord --remove a
bad "coord, and what" 2 "outlast coord: give --remove JOB or --make-root: *stat --views*" coord --coordinator "$nobody"
bad "coord, both" 2 "outlast coord: give --remove JOB or --make-root*" coord --coordinator "$nobody" --remove a --make-root
bad "a node that is none" 2 "outlast stat: *no node of ZooKeeper*" stat --views --coordinator zk:127.0.0.1:9/a//b
bad "a file that is none" 4 "outlast stat: *?auth=$tmp/none: No such file*" \
	stat --views --coordinator "zk:127.0.0.1:9/a?auth=$tmp/none"
mkdir "$tmp/open"
chmod 777 "$tmp/open"
bad "for everybody" 7 "outlast stat: *$tmp/open*chmod go-w*" stat --coordinator "dir:$tmp/open"
mkdir "$tmp/views"
bad "job" 2 "outlast stat: *name*" stat --coordinator "dir:$tmp/views" --job a/b
bad "no such job" 4 "outlast coord: *it keeps no job a" coord --coordinator "dir:$tmp/views" --remove a

# a job of two servers that are killed: shown, not removed while they live, removed when they are gone, begun anew
views=(--coordinator "dir:$tmp/views")
lives() {
	outlast stat --views "${views[@]}"
	[[ $out == *"hand"*" 2 of 2 "*"  $1 "* ]]
}
serve a "$(address)" "${views[@]}" --job hand --replicas 2 --rank 0
a=$pid
serve b "$(address)" "${views[@]}" --job hand --replicas 2 --rank 1
b=$pid
until_true lives 2 || fail "stat --views: $out $err"
[[ $out == *head*tail* ]] || fail "stat --views shows no chain: $out"
outlast coord "${views[@]}" --remove hand
expect_error "a job that lives" 5 "outlast coord: *job hand is in use*"
kill -9 "$a" "$b"
wait "$a" "$b" 2>/dev/null
until_true lives 0 || fail "stat --views after their end: $out $err"
[[ $out == *"head "*", gone"*"no server lives: hand"*"outlast coord --remove"* ]] || fail "no word of what is left: $out"
outlast stat --views "${views[@]}" --json "$tmp/views.json"
[ "$(json "$tmp/views.json" '[(j["job"], j["guarded"], j["live"], [s["role"] for s in j["shards"][0]["servers"]])
	for j in r["jobs"]]')" = "[('hand', 'yes', 0, ['head', 'tail'])]" ] || fail "JSON: $(cat "$tmp/views.json")"
outlast doctor "${views[@]}" --json "$tmp/doctor.json" --coordinator-rounds 3
expect "doctor" 0
[[ $out == *"1 are kept, 1 of them without a live server"*"jobs can use dir:"* ]] || fail "doctor: $out"
[ "$(json "$tmp/doctor.json" '[f["figures"]["median_ms"] > 0 for f in r["findings"] if f["subject"] in ("write", "read")]')" = \
	'[True, True]' ] || fail "doctor has no latencies: $(cat "$tmp/doctor.json")"
outlast coord "${views[@]}" --remove hand
expect "removal" 0
outlast stat --views "${views[@]}"
[[ $out == *"no job is kept"* ]] || fail "after the removal: $out"
serve a "$(address)" "${views[@]}" --job hand --replicas 1
lone() {
	outlast stat --views "${views[@]}"
	[[ $out == *"hand"*" 1 of 1 "*"  1 "* ]]
}
until_true lone || fail "begun anew: $out $err"
verdict
