#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# train_usage.sh -- wrong settings and bad data sets get one line that names them, and an exit code
#
# not under asan, tsan: a command line is refused before there is a second thread, by code of which there are unit tests
. "$(dirname "$0")/train_lib.bash"

bad() { # WHAT STATUS PATTERN WORD...
	local what=$1 status=$2 pattern=$3

	shift 3
	outlast "$@"
	expect_error "$what" "$status" "$pattern"
	[ -z "$out" ] || fail "$what: says something on stdout: $out"
}

bad "no such command" 2 "outlast*frobnicate*" frobnicate
for command in train serve work; do
	bad "unknown option of $command" 2 "outlast $command:*frobnicate*" $command --frobnicate 3
	bad "stray word" 2 "outlast $command:*stray*" $command stray
	bad "window" 2 "outlast $command:*window*1 and 64*" $command --window 65
done
for command in train serve work; do
	bad "model" 2 "outlast $command:*resnet*" $command --model resnet --dataset synthetic
	bad "dataset" 2 "outlast $command:*nonsense*" $command --dataset nonsense:x
done
bad "workers" 2 "outlast train:*workers*0*" train --workers 0
bad "lr" 2 "outlast train:*lr*fast*" train --lr fast
bad "lr below" 2 "outlast train:*lr*-1*" train --lr=-1
bad "momentum" 2 "outlast train:*momentum*" train --momentum 1.5
bad "consistency" 2 "outlast train:*consistency*async, sync*" train --consistency maybe
for command in train serve; do
	for wrong in sync:k=0 sync:k=3 sync:k=x sync:k= sync: sync:adasync,k=3 ssp: ssp:-1; do
		bad "consistency" 2 "outlast $command:*--consistency: \"$wrong\" should *" $command --workers 2 --consistency $wrong
	done
	bad "k of too many" 2 "outlast $command:*--consistency: \"sync:k=9\" should not wait for more workers than the 4 *" \
		$command --workers 4 --consistency sync:k=9
	bad "consistency" 2 "outlast $command:*reduce*mean*dbw*" $command --consistency sync:dbw --reduce sum
done
bad "epochs of steps of unknown size" 2 "outlast train:*epochs*--steps or --seconds*" train --epochs 2 --consistency sync:dbw
echo "20 x" >"$tmp/delays"
: >"$tmp/empty"
for command in train work; do
	bad "delay" 2 "outlast $command:*--delay*exp:mean=20ms*" $command "${tiny[@]}" --delay sometimes
	bad "delay" 2 "outlast $command:*--delay*0 and 1*" $command "${tiny[@]}" --delay exp:mean=20ms,alpha=2
	bad "delay" 2 "outlast $command:*$tmp/delays, line 1: is no delay*" $command "${tiny[@]}" --delay "trace:$tmp/delays"
	bad "delay" 2 "outlast $command:*$tmp/empty: holds no delay*" $command "${tiny[@]}" --delay "trace:$tmp/empty"
	bad "on late" 2 "outlast $command:*on-late*wait, pull, interrupt*" $command --on-late never
done
bad "slow ones" 2 "outlast train:*--delay*--workers*" train --workers 2 --delay slow:workers=3,factor=2
bad "more servers than weights" 2 "outlast train:*servers*" train "${tiny[@]}" --servers 16
bad "two lengths" 2 "outlast train:*seconds*" train "${tiny[@]}" --steps 5 --seconds 5
bad "too many servers" 2 "outlast serve:*servers*" serve --model softmax \
	--data-shape 1x1x2 --servers 60 --listen @outlast-test-$$
bad "shape" 2 "outlast serve:*28by28*" serve --data-shape 28by28
bad "shard" 2 "outlast serve: --shard*is not below --servers 2" serve "${tiny[@]}" --shard 2 --servers 2
bad "checked" 2 "outlast train:*--kill*needs --durability chain*" train "${tiny[@]}" --kill head0@1s --check
mkdir -m 700 "$tmp/mine"
for folder in mine new; do # a check leaves folders as they are
	outlast train "${tiny[@]}" --durability checkpoint --checkpoint "dir=$tmp/$folder" --json "$tmp/no.json" --kill server0@5steps --check
	expect "what can be run" 0
	[ -z "$out$err" ] || fail "a check says something: $out $err"
done
[ -d "$tmp/mine" ] && [ ! -e "$tmp/new" ] && [ ! -e "$tmp/no.json" ] || fail "a check leaves something: $(ls "$tmp")"
bad "json" 2 "outlast train:*json*/nowhere/*" train "${tiny[@]}" --json /nowhere/r.json
bad "key file" 2 "outlast work:*$tmp/nokey*" work "${tiny[@]}" --job-key-file "$tmp/nokey"
echo short >"$tmp/key"
chmod 600 "$tmp/key"
for command in serve work stat; do
	words=("${tiny[@]}")
	[ $command != stat ] || words=(--servers @outlast-test-$$)
	bad "short key" 2 "outlast $command:*$tmp/key*128 bits*outlast keygen*" $command "${words[@]}" --job-key-file "$tmp/key"
	OUTLAST_JOB_KEY=short bad "short key" 2 "outlast $command:*OUTLAST_JOB_KEY*128 bits*" $command "${words[@]}"
done
OUTLAST_JOB_KEY=short bad "short key" 2 "outlast train:*OUTLAST_JOB_KEY*128 bits*" train "${tiny[@]}" --durability chain
OUTLAST_JOB_KEY=short bad "short key" 2 "outlast doctor:*OUTLAST_JOB_KEY*128 bits*" doctor
printf '%s\n' "$OUTLAST_JOB_KEY" >"$tmp/key"
chmod 644 "$tmp/key"
bad "key that others read" 2 "outlast work:*$tmp/key*chmod 600*" work "${tiny[@]}" --job-key-file "$tmp/key"
mkdir -m 775 "$tmp/open"
bad "folder that others write" 2 "outlast train:*write the folder of --checkpoint*$tmp/open*chmod go-w*" \
	train "${tiny[@]}" --durability checkpoint --checkpoint "dir=$tmp/open"
bad "folder that others write" 7 "outlast serve:*$tmp/open*" \
	serve "${tiny[@]}" --listen @outlast-test-$$ --durability checkpoint --checkpoint "dir=$tmp/open"
bad "report fd" 2 "outlast work:*report-fd*" work "${tiny[@]}" --report-fd 9
bad "model of another shape" 2 "outlast train:*cnn*" train --model cnn --dataset synthetic

# data sets
bad "no files" 3 "outlast train:*$tmp/none*" train --dataset "idx:$tmp/none"
bad "no libsvm file" 3 "outlast train:*$tmp/none.svm*" train --dataset "libsvm:$tmp/none.svm"
echo "1 2:what" >"$tmp/words.svm"
bad "libsvm with words" 3 "outlast train:*$tmp/words.svm*" train --dataset "libsvm:$tmp/words.svm"

"$python" - "$tmp" <<'PYTHON'
import os, struct, sys
def idx(path, magic, dims, data):
    with open(path, "wb") as f:
        f.write(struct.pack(">I" + "I" * len(dims), magic, *dims) + data)
def make(name, image_magic=0x803, cut=0):
    d = os.path.join(sys.argv[1], name)
    os.mkdir(d)
    for part, n in (("train", 20), ("t10k", 10)):
        images = bytes(n * 16)
        idx(f"{d}/{part}-images-idx3-ubyte", image_magic, (n, 4, 4), images[: len(images) - cut])
        idx(f"{d}/{part}-labels-idx1-ubyte", 0x801, (n,), bytes(i % 10 for i in range(n)))
make("good")
make("magic", image_magic=0x1234)
make("cut", cut=7)
PYTHON
outlast train --model softmax --dataset "idx:$tmp/good" --steps 3
expect "a good set" 0
bad "wrong magic" 3 "outlast train:*$tmp/magic/*" train --model softmax --dataset "idx:$tmp/magic"
bad "truncated" 3 "outlast train:*$tmp/cut/*" train --model softmax --dataset "idx:$tmp/cut"
bad "truncated, for a worker" 3 "outlast work:*$tmp/cut/*" work --model softmax --dataset "idx:$tmp/cut"

# verbs without a device
if [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
	bad "no device" 6 "outlast train:*RDMA device*" train "${tiny[@]}" --transport verbs
	bad "no device, serve" 6 "*outlast serve:*device*" serve "${tiny[@]}" --listen 127.0.0.1:0
	bad "no device, work" 6 "*outlast work:*device*" work "${tiny[@]}" --connect 127.0.0.1:1
fi
verdict
