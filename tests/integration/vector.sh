#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vector.sh -- servers hold a vector that no model describes: its first weights come from a file, its last ones are
# exported, by other programs' reading bit for bit, and neither a killed server nor a chain changes a bit of them
# not under asan, tsan: servers and worker are those of every job, which other tests run there
. "$(dirname "$0")/train_lib.bash"

mlp=(--model mlp:64 --dataset synthetic:train=500,test=200)
count=4810

# numbers FILE -- the SHA-256 of its floats, as NumPy reads .npy; .safetensors by the rules of that format
numbers() {
	read_file "$1" | sed -n 1p
}

# tensors FILE -- of a .safetensors file, in the order of their bytes: name, a colon, sizes with commas
tensors() {
	read_file "$1" | sed -n '$p'
}

read_file() {
	"$python" - "$1" <<'END'
import hashlib, json, math, struct, sys
import numpy
name, found = sys.argv[1], []
if name.endswith(".npy"):
    array = numpy.load(name, allow_pickle=False)
    assert array.dtype == numpy.dtype("<f4") and array.ndim == 1
    data = array.tobytes()
else:
    whole = open(name, "rb").read()
    length, = struct.unpack("<Q", whole[:8])
    assert length % 8 == 0
    header = json.loads(whole[8:8 + length])
    meta = header.pop("__metadata__")
    assert all(isinstance(v, str) for v in meta.values()) and int(meta["version"]) >= 0 and int(meta["epoch"]) >= 1
    data, end = whole[8 + length:], 0
    for tensor, about in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        assert about["dtype"] == "F32"
        begin, end = end, end + 4 * math.prod(about["shape"])
        assert about["data_offsets"] == [begin, end]
        found.append(tensor + ":" + ",".join(map(str, about["shape"])))
    assert end == len(data)
print(hashlib.sha256(data).hexdigest())
print(" ".join(found))
END
}

# held NAME ADDRESS WORD... -- a server without a model that listens
held() {
	local name=$1 address=$2

	shift 2
	background "$name" serve --listen "$address" --ready-fd 3 "$@"
	until_true test -s "$tmp/$name.ready" ||
		{ fail "server $name did not come up: $(cat "$tmp/$name.err")"; verdict; }
}

# exported WHAT SHA256 WORD... -- in both formats
exported() {
	local what=$1 want=$2 form

	shift 2
	for form in npy safetensors; do
		outlast export "$@" --out "$tmp/x.$form" --force
		expect "$what: export" 0
		[ "$(numbers "$tmp/x.$form")" = "$want" ] || fail "$what: other bits in x.$form"
	done
}

stop() { # PID...
	local one

	kill "$@"
	for one; do
		ended "$one" 0 "a server"
	done
}

# wrong command lines and files
outlast serve --params 100 --model cnn
expect_error "a vector and a model" 2 '*outlast serve: --model: "cnn" is of a model*'
outlast serve --params 100 --data-shape 28x28x10
expect_error "a vector and a shape" 2 '*outlast serve: --data-shape: *is of a model*'
outlast serve --params 0
expect_error "a vector of nothing" 2 '*outlast serve: --params: "0" is none*'
outlast serve --params 1024 --servers 2
expect_error "too many servers" 2 '*outlast serve: --servers: *too many*'
"$python" - "$tmp" <<'END' || fail "no files could be made"
import json, struct, sys
import numpy
folder = sys.argv[1]
numbers = numpy.random.default_rng(1).standard_normal(4810).astype("<f4")
numpy.save(folder + "/first.npy", numbers.reshape(10, 481))
numpy.save(folder + "/fortran.npy", numpy.asfortranarray(numbers.reshape(10, 481)))
numpy.save(folder + "/big.npy", numbers.astype(">f4"))
numpy.save(folder + "/double.npy", numbers.astype("<f8"))
numbers[4000] = numpy.nan
numpy.save(folder + "/nan.npy", numbers)
whole = open(folder + "/first.npy", "rb").read()
open(folder + "/short.npy", "wb").write(whole[:-1])
header = json.dumps({"b": {"dtype": "F32", "shape": [481, 9], "data_offsets": [1924, 19240]},
    "a": {"dtype": "F32", "shape": [481], "data_offsets": [0, 1924]}}).encode()
open(folder + "/first.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + whole[-19240:])
END
outlast serve --init "$tmp/first.npy" --params 4811
expect_error "two lengths" 2 '*outlast serve: --params: "4811" is not the 4810 *'
outlast serve --init worker
expect_error "worker 0's, of unknown length" 2 '*outlast serve: --init: *give --params*'
outlast serve --init ./worker
expect_error "a file with that name" 3 '*outlast serve: --init: ./worker: *'
outlast serve --init worker --params 4810 --model mlp
expect_error "worker 0's, and a model" 2 '*outlast serve: --model: *'
outlast serve --init "$tmp/fortran.npy"
expect_error "Fortran order" 3 "*outlast serve: --init: $tmp/fortran.npy: *Fortran order*"
outlast serve --init "$tmp/big.npy"
expect_error "big-endian" 3 "*outlast serve: --init: $tmp/big.npy: *>f4*"
outlast serve --init "$tmp/double.npy"
expect_error "doubles" 3 "*outlast serve: --init: $tmp/double.npy: *<f8*"
outlast serve --init "$tmp/short.npy"
expect_error "a file that was cut off" 3 "*outlast serve: --init: $tmp/short.npy: *cut off*"
outlast serve --init "$tmp/nan.npy"
expect_error "a NaN" 3 "*outlast serve: --init: $tmp/nan.npy: parameter 4000 is a NaN*"
outlast serve --init "$tmp/nowhere.npy"
expect_error "no file" 3 "*outlast serve: --init: $tmp/nowhere.npy: *No such file*"
outlast export --connect @x --coordinator dir:/x --out "$tmp/x.npy"
expect_error "two places" 2 "outlast export: give one of *"
outlast export --connect @x
expect_error "nowhere to write" 2 "outlast export: give --out"
outlast export --connect @x --out "$tmp/first.npy"
expect_error "a file that is there" 2 "outlast export: --out: $tmp/first.npy: is there: *--force*"
outlast export --connect @x --out "$tmp/x.npz"
expect_error "no form" 2 "outlast export: --out: *neither in .npy nor*"
outlast export --connect "$(address)" --out "$tmp/x.npy" --timeout-ms 200
expect_error "no server" 4 "outlast export: *"

# what is put in comes out, whatever its shape and the order of its header; without a file it is zeros
a=$(address) b=$(address)
declare -A names=([npy]="weights:4810" [safetensors]="a:481 b:481,9")
for form in npy safetensors; do
	held a "$a" --init "$tmp/first.$form" --servers 2
	servers=("$pid")
	held b "$b" --init "$tmp/first.$form" --servers 2 --shard 1
	servers+=("$pid")
	exported "from $form" "$(tail -c 19240 "$tmp/first.npy" | sha256sum | cut -d ' ' -f 1)" --connect "$a,$b"
	[ "$(tensors "$tmp/x.safetensors")" = "${names[$form]}" ] || fail "from $form: $(tensors "$tmp/x.safetensors")"
	stop "${servers[@]}"
done
held a "$a" --params 5000
exported "zeros" "$(head -c 20000 /dev/zero | sha256sum | cut -d ' ' -f 1)" --connect "$a"
stop "$pid"

# training begins with a model's first weights, though the servers do not know them from a model
sync=(--consistency sync --optimizer momentum --lr 0.05)
outlast train "${mlp[@]}" "${sync[@]}" --servers 2 --workers 1 --steps 60 --save "$tmp/t.safetensors" --json "$tmp/t.json"
expect "train" 0
want=$(json "$tmp/t.json" 'r["weights_sha256"]')
[ "$(numbers "$tmp/t.safetensors")" = "$want" ] || fail "train --save has other bits"
[ "$(tensors "$tmp/t.safetensors")" = "dense1.weight:64,64 dense1.bias:64 dense2.weight:10,64 dense2.bias:10" ] ||
	fail "train --save: $(tensors "$tmp/t.safetensors")"
outlast train "${mlp[@]}" --steps 1 --save "$tmp/t.safetensors"
expect_error "train: a file that is there" 2 "outlast train: --save: $tmp/t.safetensors: is there: *"
background a serve --listen "$a" --ready-fd 3 "${mlp[@]}"
until_true test -s "$tmp/a.ready" || fail "a server with a model: $(cat "$tmp/a.err")"
outlast export --connect "$a" --out "$tmp/model.npy"
expect "the model's first weights" 0
stop "$pid"

# a server is killed in mid-training, and goes on from the worker's mirror
vector() { # NAME ADDRESS SHARD WORD...
	local name=$1 address=$2 shard=$3

	shift 3
	held "$name" "$address" --init "$tmp/model.npy" --params $count --servers 2 --shard "$shard" --lease-ms 1000 \
		"${sync[@]}" "$@"
}
version() { # ADDRESS: of its server, now
	outlast stat --servers "$1" --once --json "$tmp/stat.json" >/dev/null
	json "$tmp/stat.json" "r['shards'][0]['replicas'][0].get('version', 0)" 2>/dev/null || echo 0
}
past() { # ADDRESS VERSION
	[ "$(version "$1")" -ge "$2" ]
}
saved() { # SHARD VERSION
	compgen -G "$tmp/c/ckpt-*-s$1-e*-v$(printf %020d "$2").olc" >/dev/null
}
durable=(--durability checkpoint --checkpoint "every=1steps,keep=1000,dir=$tmp/c")
vector a "$a" 0 "${durable[@]}"
servers=("$pid")
vector b "$b" 1 "${durable[@]}"
victim=$pid
background w work --connect "$a,$b" "${mlp[@]}" --steps 60 --pace 8 --lease-ms 1000 --mirror-state
worker=$pid
until_true past "$b" 10 || fail "no steps: $(cat "$tmp/w.err")"
kill -9 "$victim"
ended "$victim" 137 "the server that was killed" # its address is free from here on
vector b "$b" 1 "${durable[@]}" --restore mirror --epoch 2
servers+=("$pid")
ended "$worker" 0 "the worker"
grep -q "goes on from version [1-9][0-9]* of a mirror" "$tmp/b.err" || fail "from a mirror: $(cat "$tmp/b.err")"
exported "after a kill" "$want" --connect "$a,$b"
# both end, and nobody else has the weights: what is restored is what was exported
stop "${servers[@]}"
saved 0 60 && saved 1 60 || fail "no last checkpoints: $(ls "$tmp/c")"
vector a "$a" 0 "${durable[@]}" --restore checkpoint --epoch 3
servers=("$pid")
vector b "$b" 1 "${durable[@]}" --restore checkpoint --epoch 3
servers+=("$pid")
exported "the checkpoints, while servers run on" "$want" --checkpoint "$tmp/c"
exported "after both had ended" "$want" --connect "$a,$b"
stop "${servers[@]}"

exported "the checkpoints" "$want" --checkpoint "$tmp/c"
outlast export --checkpoint "$tmp/views" --out "$tmp/none.npy"
expect_error "no folder" 1 "outlast export: --checkpoint: *$tmp/views*"
rm "$tmp"/c/ckpt-*-s1-*
outlast export --checkpoint "$tmp/c" --out "$tmp/none.npy"
expect_error "a shard is missing" 1 "outlast export: --checkpoint: $tmp/c has no full checkpoint of shard 1*"
[ ! -e "$tmp/none.npy" ] || fail "half of the weights were written"

# names and shapes are kept in checkpoints; a job of another model does not take them up
named=(--durability checkpoint --checkpoint "every=1steps,dir=$tmp/n" --restore freshest)
held a "$a" --init "$tmp/t.safetensors" "${named[@]}"
outlast work --connect "$a" "${mlp[@]}" --steps 5
expect "a worker of a job with names" 0
stop "$pid"
outlast export --checkpoint "$tmp/n" --out "$tmp/x.safetensors" --force
expect "export of a checkpoint with names" 0
[ "$(tensors "$tmp/x.safetensors")" = "$(tensors "$tmp/t.safetensors")" ] ||
	fail "names of a checkpoint: $(tensors "$tmp/x.safetensors")"
held a "$a" --init "$tmp/first.safetensors" "${named[@]}"
stop "$pid"
grep -q 'other tensors: tensor "a" is wanted, and "dense1.weight" is there' "$tmp/a.err" || fail "another model: $(cat "$tmp/a.err")"

# a chain: a worker trains, the head dies, its successor has the same bits
mkdir "$tmp/views"
chain=(--coordinator "dir:$tmp/views" --job any-vector)
for rank in 0 1; do
	held "r$rank" "$(address)" --params $count "${chain[@]}" --replicas 2 --rank $rank --lease-ms 1000
	servers[rank]=$pid
done
outlast work "${mlp[@]}" "${chain[@]}" --steps 30
expect "a worker of a chain" 0
outlast export "${chain[@]}" --out "$tmp/before.safetensors"
expect "export from a chain" 0
grep -aq '"version":"30".*"job":"any-vector"' "$tmp/before.safetensors" || fail "metadata: $(head -c 200 "$tmp/before.safetensors")"
kill -9 "${servers[0]}"
exported "after the head was killed" "$(numbers "$tmp/before.safetensors")" "${chain[@]}"
! compgen -G "$tmp/.*x.*" >/dev/null || fail "files under other names are left: $(ls -a "$tmp")"
verdict
