#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# train_exact.sh -- a synchronous run is a function of its seed: the same weights, bit for bit, run after
# run and for one server or two, with 1 to 4 workers
. "$(dirname "$0")/train_lib.bash"

sha_of() {
	outlast train --model mlp:16 --dataset synthetic:train=1000,test=200 --consistency sync \
		--eval-every 0 --steps 200 --json "$tmp/r.json" "$@"
	expect "train $*" 0
	json "$tmp/r.json" 'r["weights_sha256"], r["version"]'
}

declare -A seen=()
for workers in 1 2 3 4; do
	first=$(sha_of --seed 7 --workers "$workers")
	[[ $first == *200\) ]] || fail "$workers workers: not at version 200: $first"
	for servers in 1 2; do
		again=$(sha_of --seed 7 --workers "$workers" --servers "$servers")
		[ "$again" = "$first" ] ||
			fail "$workers workers, $servers servers: $again, before: $first"
	done
	[ -z "${seen[$first]-}" ] || fail "$workers workers: the weights of another number of workers"
	seen[$first]=yes
done
[ "$(sha_of --seed 8)" != "$(sha_of --seed 7)" ] || fail "the seed makes no difference"
# large enough that an update is cut into pieces
wide=(--model mlp:512 --dataset synthetic:shape=28x28,train=1000,test=200 --steps 30 --optimizer adam --workers 2)
first=$(sha_of --seed 7 "${wide[@]}")
[[ $first == *30\) ]] || fail "512 units: not at version 30: $first"
again=$(sha_of --seed 7 "${wide[@]}" --threads 3)
[ "$again" = "$first" ] || fail "three threads: $again, one: $first"
verdict
