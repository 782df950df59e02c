#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# import.sh -- a job's weights go through a file, and on with another number of servers: the same bits, names and
# version, and the same end as that of a job that was never stopped
# not under asan, tsan: servers and worker are those of every job, which other tests run there
. "$(dirname "$0")/train_lib.bash"

mlp=(--model mlp:64 --dataset synthetic:train=500,test=200)
sync=(--consistency sync --lr 0.05)
count=4810

# held SERVERS SHARD FOLDER WORD... -- a server of so many that writes checkpoints there, at ${at[SHARD]}
held() {
	local name=s$2-of-$1 servers=$1 shard=$2 folder=$3

	shift 3
	rm -f "$tmp/$name.ready"
	background "$name" serve --listen "${at[shard]}" --ready-fd 3 --servers "$servers" --shard "$shard" \
		"${sync[@]}" --lease-ms 4000 --durability checkpoint --checkpoint "every=1steps,keep=1000,dir=$tmp/$folder" "$@"
	until_true test -s "$tmp/$name.ready" ||
		{ fail "server $name did not come up: $(cat "$tmp/$name.err")"; verdict; }
}

# all_held SERVERS FOLDER WORD... -- all of them; their addresses in $job, their processes in ${held_pids[@]}
all_held() {
	local servers=$1 folder=$2 shard

	shift 2
	held_pids=()
	at=()
	for ((shard = 0; shard < servers; shard++)); do
		at[shard]=$(address)
		held "$servers" "$shard" "$folder" "$@"
		held_pids[shard]=$pid
	done
	job=$(IFS=,; echo "${at[*]}")
}

all_end() {
	local one

	kill "${held_pids[@]}"
	for one in "${held_pids[@]}"; do
		ended "$one" 0 "a server"
	done
}

# exported FILE... -- of the servers that run
exported() {
	local file

	for file; do
		outlast export --connect "$job" --out "$tmp/$file" --force
		expect "export to $file" 0
	done
}

# same WHAT FILE OTHER -- their weights, and of .safetensors the tensors and the version
same() {
	"$python" - "$tmp/$2" "$tmp/$3" <<'END' || fail "$1: $2 and $3 differ"
import json, sys
def read(name):
    data = open(name, "rb").read()
    if name.endswith(".npy"):
        return data, None
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header["__metadata__"].pop("epoch")
    return data[end:], header
sys.exit(read(sys.argv[1]) != read(sys.argv[2]))
END
}

steps() { # COUNT
	outlast work --connect "$job" "${mlp[@]}" --steps "$1" --lease-ms 4000
	expect "a worker" 0
}

# what is wrong with a file, or with a command line, is one line, and leaves no folder
"$python" - "$tmp" <<'END' || fail "no files could be made"
import json, struct, sys
import numpy
folder = sys.argv[1]
numbers = numpy.random.default_rng(1).standard_normal(4810).astype("<f4")
def tensors(name, said, header):
    header = dict(header, __metadata__=said)
    text = json.dumps(header).encode()
    open(folder + "/" + name + ".safetensors", "wb").write(struct.pack("<Q", len(text)) + text + numbers.tobytes())
whole = {"w": {"dtype": "F32", "shape": [481, 10], "data_offsets": [0, 19240]}}
tensors("other", {"format": "pt", "version": "1.0"}, whole)
tensors("lying", {"format": "outlast", "version": "8"}, {"w": {"dtype": "F32", "shape": [481, 10], "data_offsets": [0, 19244]}})
tensors("words", {"format": "outlast", "version": "eight"}, whole)
tensors("late", {"format": "outlast", "version": str(2**60)}, whole)
numpy.save(folder + "/first.npy", numbers)
numpy.save(folder + "/double.npy", numbers.astype("<f8"))
open(folder + "/short.npy", "wb").write(open(folder + "/first.npy", "rb").read()[:-1])
numbers[4000] = numpy.nan
numpy.save(folder + "/nan.npy", numbers)
END
to=(--checkpoint "$tmp/none")
outlast import "${to[@]}"
expect_error "no file" 2 "outlast import: name a file of weights"
outlast import "$tmp/first.npy"
expect_error "no folder" 2 "outlast import: give --checkpoint"
outlast import "$tmp/first.npy" "$tmp/other.safetensors" "${to[@]}"
expect_error "two files" 2 "outlast import: unexpected argument *"
outlast import "$tmp/first.npy" "${to[@]}" --servers 6
expect_error "too many servers" 2 'outlast import: --servers: "6" is too many: a server holds at least 1024 parameters'
outlast import "$tmp/nowhere.npy" "${to[@]}"
expect_error "nothing there" 3 "outlast import: FILE: $tmp/nowhere.npy: *No such file*"
outlast import "$tmp/first.npz" "${to[@]}"
expect_error "no form" 3 "outlast import: FILE: *neither in .npy nor*"
outlast import "$tmp/double.npy" "${to[@]}"
expect_error "doubles" 3 "outlast import: FILE: $tmp/double.npy: *<f8*"
outlast import "$tmp/short.npy" "${to[@]}"
expect_error "a file that was cut off" 3 "outlast import: FILE: $tmp/short.npy: *cut off*"
outlast import "$tmp/lying.safetensors" "${to[@]}"
expect_error "a file that lies" 3 "outlast import: FILE: $tmp/lying.safetensors: *reaches beyond the file's end*"
for file in words late; do
	outlast import "$tmp/$file.safetensors" "${to[@]}"
	expect_error "a version that cannot be" 3 "outlast import: FILE: $tmp/$file.safetensors: *no version that can be*"
done
[ ! -e "$tmp/none" ] || fail "a folder was made: $(ls -la "$tmp/none")"
outlast import "$tmp/nan.npy" "${to[@]}" --servers 2
expect_error "a NaN" 3 "outlast import: FILE: $tmp/nan.npy: parameter 4000 is a NaN*"
! compgen -G "$tmp/none/*ckpt-*" >/dev/null || fail "a NaN left files: $(ls -a "$tmp/none")"
outlast import "$tmp/first.npy" --checkpoint "$tmp/no/where"
expect_error "no place" 1 "outlast import: --checkpoint: checkpoint folder $tmp/no/where: No such file*"
outlast import "$tmp/nan.npy" "${to[@]}" --nonfinite apply
expect "a NaN that is wanted" 0
outlast import "$tmp/other.safetensors" "${to[@]}"
expect_error "checkpoints that are there" 2 "outlast import: --checkpoint: $tmp/none has checkpoints of this job already: *--force"
outlast import "$tmp/other.safetensors" "${to[@]}" --force --optimizer adam
expect_error "another job's" 2 "outlast import: --checkpoint: $tmp/none has checkpoints of another job*"
outlast import "$tmp/other.safetensors" "${to[@]}" --force
expect "over them" 0
outlast export "${to[@]}" --out "$tmp/x.safetensors"
grep -aq '"version":"0","epoch":"2".*"w"' "$tmp/x.safetensors" || fail "another program's version: $(head -c 300 "$tmp/x.safetensors")"

# a job that is never stopped, of one server
outlast train "${mlp[@]}" --workers 1 --steps 1 --lr 0 --save "$tmp/first.safetensors"
expect "first weights with names" 0
all_held 1 whole --init "$tmp/first.safetensors"
steps 100
exported whole.npy whole.safetensors
all_end

# the same job of two servers; then of three, which know no more than how many parameters there are; then of one
all_held 2 two --init "$tmp/first.safetensors"
steps 20
exported two.npy two.safetensors
all_end
outlast import "$tmp/two.safetensors" --checkpoint "$tmp/three" --servers 3
expect "import for three" 0
[[ $err == "$count parameters of version 20 are in $tmp/three. "*"--servers 3 --shard K --optimizer sgd"* ]] || fail "it says: $err"
all_held 3 three --params $count --restore checkpoint
exported three.npy three.safetensors
same "from two to three" two.npy three.npy
same "from two to three" two.safetensors three.safetensors
background w work --connect "$job" "${mlp[@]}" --steps 60 --pace 15 --lease-ms 4000
worker=$pid
version() { # of the second server, now
	outlast stat --servers "${at[1]}" --once --json "$tmp/stat.json" >/dev/null
	json "$tmp/stat.json" "r['shards'][0]['replicas'][0].get('version', 0)" 2>/dev/null || echo 0
}
past() {
	[ "$(version)" -ge "$1" ]
}
until_true past 23 || fail "no steps: $(cat "$tmp/w.err")"
kill -9 "${held_pids[1]}"
ended "${held_pids[1]}" 137 "the server that was killed"
held 3 1 three --params $count --restore mirror
held_pids[1]=$pid
ended "$worker" 0 "the worker"
grep -q "goes on from version [2-7][0-9] of a mirror" "$tmp/s1-of-3.err" ||
	fail "from a mirror: $(cat "$tmp/s1-of-3.err")"
exported three.npy three.safetensors
all_end
outlast import "$tmp/three.npy" --checkpoint "$tmp/one" --version 80
expect "import of .npy for one" 0
all_held 1 one --init "$tmp/first.safetensors" --restore checkpoint # names of this file, weights of the checkpoint
steps 20
exported one.npy one.safetensors
all_end
same "one that was stopped twice" whole.npy one.npy
same "one that was stopped twice" whole.safetensors one.safetensors

# servers of a folder take what was imported over their checkpoints, though its version is lower
outlast import "$tmp/two.safetensors" --checkpoint "$tmp/one" --force
expect "import over checkpoints" 0
all_held 1 one --params $count --restore checkpoint
exported back.safetensors
same "an older version" two.safetensors back.safetensors
all_end

# a signal ends it, and nothing is left
"$python" - "$tmp" <<'END'
import sys, numpy
numpy.save(sys.argv[1] + "/large.npy", numpy.zeros(12000000, "<f4"))
END
background i import "$tmp/large.npy" --checkpoint "$tmp/large" --servers 60 --optimizer adam
until_true compgen -G "$tmp/large/.ckpt-*-s1-*" >/dev/null || fail "it did not begin: $(cat "$tmp/i.err")"
kill "$pid"
wait "$pid"
rc=$?
case $rc in
143) ! compgen -G "$tmp/large/*ckpt-*.olc" >/dev/null && ! compgen -G "$tmp/large/.ckpt-*" >/dev/null ||
	fail "a signal left $(ls -a "$tmp/large" | head)" ;;
0) [ "$(compgen -G "$tmp/large/ckpt-*.olc" | wc -l)" = 60 ] || fail "it was done, with $(ls "$tmp/large" | wc -l) files" ;;
*) fail "a signal: exit status $rc: $(cat "$tmp/i.err")" ;;
esac
verdict
