#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""torch_compare.py -- the CNN's gradient here and in PyTorch: same numbers, how much time

Compiles tools/learn into a temporary library, gives both the same weights and the same batch, compares loss
and gradient (without dropout, whose masks differ), then times both with dropout on one thread, in turns. Both use
the same OpenBLAS with the kernels that learn_blas_start() chooses, unless OPENBLAS_CORETYPE is set. Prints one line
of JSON: minimum and median of elapsed time, minimum of processor time, which other load disturbs less. Needs
python3-torch, OpenBLAS and a C compiler; exits 77 and says so if torch is missing.

    /usr/bin/python3 tools/learn/torch_compare.py [--batch 32] [--rounds 500] [--cc gcc]
"""

import argparse
import ctypes
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

SHAPE = (28, 28, 784, 10)  # struct learn_shape
PARAMS = 813258
TURN = 10  # steps of one side before it is the other's turn; the first two are not counted


class Opts(ctypes.Structure):
    """struct learn_model_opts"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("batch_max", ctypes.c_uint),
        ("dropout", ctypes.c_float),
        ("final_relu", ctypes.c_bool),
    ]


class Batch(ctypes.Structure):
    """struct learn_batch"""

    _fields_ = [
        ("count", ctypes.c_uint),
        ("count_max", ctypes.c_uint),
        ("features", ctypes.c_uint),
        ("x", ctypes.POINTER(ctypes.c_float)),
        ("labels", ctypes.POINTER(ctypes.c_uint16)),
    ]


class Key(ctypes.Structure):
    """struct learn_key"""

    _fields_ = [("seed", ctypes.c_uint64), ("step", ctypes.c_uint64), ("worker", ctypes.c_uint32)]


def library(cc, folder):
    """tools/learn as a loaded shared library"""
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.path.join(folder, "liblearn.so")
    command = [cc, "-std=c11", "-D_GNU_SOURCE", "-O2", "-fno-trapping-math", "-shared", "-fPIC"]
    command += ["-iquote", os.path.dirname(here), "-o", path]
    command += sorted(glob.glob(os.path.join(here, "*.c"))) + ["-lz", "-lm", "-lopenblas"]
    subprocess.run(command, check=True)
    return ctypes.CDLL(path)


def model_create(lib, batch, dropout):
    opts = Opts()
    model = ctypes.c_void_p()
    err = ctypes.create_string_buffer(400)
    lib.learn_model_opts_init(ctypes.byref(opts))
    opts.batch_max = batch
    opts.dropout = dropout
    shape = (ctypes.c_uint * 4)(*SHAPE)
    rc = lib.learn_model_create(b"cnn", shape, ctypes.byref(opts), ctypes.byref(model), err, 400)
    if rc != 0:
        sys.exit(err.value.decode())
    return model


def torch_model(nn, dropout):
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1568, 512),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(512, 10),
    )


def blas_start(lib):
    """what outlast does first; may execute this script once more, with another environment"""
    words = [os.fsencode(word) for word in sys.orig_argv]
    lib.learn_blas_start((ctypes.c_char_p * (len(words) + 1))(*words, None))


def times(rounds, sides, between):
    """of each side's step: minimum and median of elapsed time, minimum of processor time, in milliseconds"""
    taken = {name: [] for name in sides}
    for first in range(0, rounds, TURN):
        for name, step in sides.items():
            for i in range(first - 2, first + TURN):
                between(max(i, 0))
                start = time.perf_counter(), time.thread_time()
                step()
                end = time.perf_counter(), time.thread_time()
                if i >= first:
                    taken[name].append(((end[0] - start[0]) * 1e3, (end[1] - start[1]) * 1e3))
    result = {}
    for name, pairs in taken.items():
        elapsed = sorted(pair[0] for pair in pairs)
        result[name] = {
            "min_ms": round(elapsed[0], 3),
            "median_ms": round(elapsed[len(elapsed) // 2], 3),
            "cpu_min_ms": round(min(pair[1] for pair in pairs), 3),
        }
    return result


def main():
    parser = argparse.ArgumentParser(description="the CNN's gradient here and in PyTorch")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--cc", default="gcc")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lib = library(args.cc, folder)
    blas_start(lib)
    lib.openblas_get_corename.restype = ctypes.c_char_p
    try:
        import torch
    except ImportError:
        print("torch is missing; apt-get install --no-install-recommends python3-torch", file=sys.stderr)
        return 77

    torch.set_num_threads(1)
    torch.manual_seed(1)

    x = torch.rand(args.batch, 1, 28, 28) * 2 - 1
    y = torch.randint(0, 10, (args.batch,))
    labels = (ctypes.c_uint16 * args.batch)(*y.tolist())
    batch = Batch(args.batch, args.batch, 784)
    batch.x = ctypes.cast(x.data_ptr(), ctypes.POINTER(ctypes.c_float))
    batch.labels = ctypes.cast(labels, ctypes.POINTER(ctypes.c_uint16))
    w = torch.empty(PARAMS)
    grad = torch.empty(PARAMS)
    loss = ctypes.c_double()
    key = Key(1, 0, 0)
    loss_of = torch.nn.CrossEntropyLoss()

    def ours(model):
        rc = lib.learn_model_grad(
            model,
            ctypes.c_void_p(w.data_ptr()),
            ctypes.byref(batch),
            ctypes.byref(key),
            ctypes.c_void_p(grad.data_ptr()),
            ctypes.byref(loss),
        )
        assert rc == 0

    exact = model_create(lib, args.batch, 0)
    lib.learn_model_init(exact, ctypes.c_uint64(1), ctypes.c_void_p(w.data_ptr()))
    ours(exact)
    theirs = torch_model(torch.nn, 0)
    torch.nn.utils.vector_to_parameters(w.clone(), theirs.parameters())
    their_loss = loss_of(theirs(x), y)
    their_loss.backward()
    their_grad = torch.cat([p.grad.reshape(-1) for p in theirs.parameters()])
    worst = (grad - their_grad).abs().max().item()
    scale = their_grad.abs().max().item()
    loss_difference = abs(loss.value - their_loss.item())

    dropping = model_create(lib, args.batch, 0.25)
    theirs = torch_model(torch.nn, 0.25)

    def next_step(i):
        key.step = i
        theirs.zero_grad(set_to_none=True)

    result = {
        "model": "cnn",
        "batch": args.batch,
        "threads": 1,
        "rounds": args.rounds,
        "openblas_core": lib.openblas_get_corename().decode(),
        "loss_difference": loss_difference,
        "grad_difference_max": worst,
        "grad_max": scale,
        "torch_version": torch.__version__,
    }
    sides = {"outlast": lambda: ours(dropping), "torch": lambda: loss_of(theirs(x), y).backward()}
    result.update(times(args.rounds, sides, next_step))
    print(json.dumps(result))
    return 0 if worst < 1e-4 * scale and loss_difference < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
