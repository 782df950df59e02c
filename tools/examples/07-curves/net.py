# SPDX-License-Identifier: BSD-3-Clause
"""The program's model "cnn" with numpy alone, and the numbers that it draws.

Two convolutions of 3x3 with pooling, a layer of 512 with dropout, one of 10. Parameters are one
vector in PyTorch's order; batches, dropout and first weights are those of `outlast train`, which
draws them from a seed by Philox4x32-10 (tools/learn/rng.h).
"""
import gzip
import pathlib

import numpy

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
SHAPES = [(16, 1, 3, 3), (16,), (32, 16, 3, 3), (32,), (512, 1568), (512,), (10, 512), (10,)]
COUNTS = [int(numpy.prod(shape)) for shape in SHAPES]
PARAMS = sum(COUNTS)
HIDDEN = 512
DROPPED = 64  # of 256
KEPT = numpy.float32(256 / (256 - DROPPED))
BATCH, DROPOUT, INIT = 1, 2, 3  # what is drawn
MASKS = 16  # samples that one draw masks a unit of


def draw(seed: int, step: int, worker: int, purpose: int, index: object) -> numpy.ndarray:
    """128 random bits for each index: uint32, four columns."""
    index = numpy.asarray(index, numpy.uint64)
    low, ones = numpy.uint64(0xFFFFFFFF), numpy.ones(len(index), numpy.uint64)
    words = [index, ones * numpy.uint64(purpose << 24 | worker),
             ones * numpy.uint64(step & 0xFFFFFFFF), ones * numpy.uint64(step >> 32)]
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        first = numpy.uint64(0xD2511F53) * words[0]
        third = numpy.uint64(0xCD9E8D57) * words[2]
        words = [third >> numpy.uint64(32) ^ words[1] ^ numpy.uint64(keys[0]), third & low,
                 first >> numpy.uint64(32) ^ words[3] ^ numpy.uint64(keys[1]), first & low]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return numpy.stack(words, 1).astype(numpy.uint32)


def first_weights(seed: int) -> numpy.ndarray:
    weights = numpy.empty(PARAMS, numpy.float32)
    at = 0
    for layer in range(4):
        count = COUNTS[2 * layer] + COUNTS[2 * layer + 1]
        fan_in = int(numpy.prod(SHAPES[2 * layer][1:]))
        bits = draw(seed, 0, layer, INIT, numpy.arange(count))[:, 0]
        symmetric = (bits >> 8).astype(numpy.float32) * numpy.float32(2**-23) - numpy.float32(1)
        weights[at:at + count] = symmetric * numpy.float32(1 / numpy.sqrt(fan_in))
        at += count
    return weights


def kept_units(seed: int, step: int, worker: int, batch: int) -> numpy.ndarray:
    """Which of the hidden units a step keeps, times the factor that makes up for the others."""
    groups = -(-batch // MASKS)
    bits = draw(seed, step, worker, DROPOUT, numpy.arange(groups * HIDDEN))
    kept = bits.view(numpy.uint8).reshape(groups, HIDDEN, MASKS).transpose(0, 2, 1) >= DROPPED
    return kept.reshape(groups * MASKS, HIDDEN)[:batch] * KEPT


class Data:
    """Fashion-MNIST of Debian's package dataset-fashion-mnist."""

    def __init__(self) -> None:
        self.images, self.labels = self.read("train")
        self.test = self.read("t10k")

    def read(self, name: str) -> tuple[numpy.ndarray, numpy.ndarray]:
        with gzip.open(DATA / f"{name}-images-idx3-ubyte.gz") as file:
            images = numpy.frombuffer(file.read(), numpy.uint8, offset=16).reshape(-1, 1, 28, 28)
        with gzip.open(DATA / f"{name}-labels-idx1-ubyte.gz") as file:
            return images, numpy.frombuffer(file.read(), numpy.uint8, offset=8).astype(int)

    @staticmethod
    def scaled(images: numpy.ndarray) -> numpy.ndarray:
        half = numpy.float32(0.5)
        return (images.astype(numpy.float32) / numpy.float32(255) - half) / half

    def batch(self, seed: int, step: int, worker: int, count: int) -> tuple:
        bits = draw(seed, step, worker, BATCH, numpy.arange(count)).astype(numpy.uint64)
        limit, half = numpy.uint64(len(self.images)), numpy.uint64(32)
        chosen = (bits[:, 0] * limit + (bits[:, 1] * limit >> half)) >> half
        return self.scaled(self.images[chosen]), self.labels[chosen]


def split(vector: numpy.ndarray) -> list[numpy.ndarray]:
    """Each parameter's part of the vector: views."""
    parts = numpy.split(vector, numpy.cumsum(COUNTS)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, SHAPES)]


# ---- forwards and backwards; images are [sample][channel][row][column] ----

def patches(images: numpy.ndarray) -> numpy.ndarray:
    """[sample, row, column][channel, tap]: each pixel's neighbours."""
    padded = numpy.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = numpy.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, 9 * images.shape[1])


def patches_back(found: numpy.ndarray, shape: tuple[int, ...]) -> numpy.ndarray:
    """The gradient of the images of these patches."""
    count, channels, rows, columns = shape
    found = found.reshape(count, rows, columns, channels, 3, 3).transpose(0, 3, 4, 5, 1, 2)
    padded = numpy.zeros((count, channels, rows + 2, columns + 2), numpy.float32)
    for y in range(3):
        for x in range(3):
            padded[:, :, y:y + rows, x:x + columns] += found[:, :, y, x]
    return padded[:, :, 1:-1, 1:-1]


class Convolution:
    """With ReLU, and pooling of 2x2."""

    def forward(self, images: numpy.ndarray, weights: numpy.ndarray,
                bias: numpy.ndarray) -> numpy.ndarray:
        count, _, rows, columns = images.shape
        self.shape, self.weights = images.shape, weights.reshape(len(weights), -1)
        self.found = patches(images)
        out = (self.found @ self.weights.T + bias).reshape(count, rows // 2, 2, columns // 2, 2, -1)
        windows = out.transpose(0, 5, 1, 3, 2, 4).reshape(count, len(bias), rows // 2, -1, 4)
        self.place = windows.argmax(-1)[..., None]
        pooled = numpy.take_along_axis(windows, self.place, -1)[..., 0]
        self.alive = pooled > 0
        return pooled * self.alive

    def backward(self, grad: numpy.ndarray, weights: numpy.ndarray, bias: numpy.ndarray,
                 images: bool) -> numpy.ndarray | None:
        """Writes the gradients of weights and bias; returns that of the images, if wanted."""
        count, channels, rows, columns = grad.shape
        windows = numpy.zeros((*grad.shape, 4), numpy.float32)
        numpy.put_along_axis(windows, self.place, (grad * self.alive)[..., None], -1)
        out = windows.reshape(count, channels, rows, columns, 2, 2).transpose(0, 2, 4, 3, 5, 1)
        out = out.reshape(-1, channels)
        weights[...] = (out.T @ self.found).reshape(weights.shape)
        bias[...] = out.sum(0)
        return patches_back(out @ self.weights, self.shape) if images else None


def log_softmax(logits: numpy.ndarray) -> numpy.ndarray:
    logits = logits - logits.max(1, keepdims=True)
    return logits - numpy.log(numpy.exp(logits).sum(1, keepdims=True))


class Net:
    def __init__(self) -> None:
        self.first, self.second = Convolution(), Convolution()

    def forward(self, weights: numpy.ndarray, images: numpy.ndarray,
                kept: object = 1) -> numpy.ndarray:
        w = self.weights = split(weights)
        self.features = self.second.forward(self.first.forward(images, *w[:2]), *w[2:4])
        self.flat = self.features.reshape(len(images), -1)
        hidden = self.flat @ w[4].T + w[5]
        self.slope = (hidden > 0) * kept
        self.hidden = (hidden * self.slope).astype(numpy.float32)
        return self.hidden @ w[6].T + w[7]

    def backward(self, weights: numpy.ndarray, images: numpy.ndarray, labels: numpy.ndarray,
                 kept: object, grad: numpy.ndarray) -> float:
        """Writes the gradient of the mean loss into grad, and returns the loss."""
        logs = log_softmax(self.forward(weights, images, kept))
        rows = numpy.arange(len(labels))
        g, w = split(grad), self.weights
        out = numpy.exp(logs)
        out[rows, labels] -= 1
        out /= len(labels)
        g[6][...] = out.T @ self.hidden
        g[7][...] = out.sum(0)
        hidden = (out @ w[6] * self.slope).astype(numpy.float32)
        g[4][...] = hidden.T @ self.flat
        g[5][...] = hidden.sum(0)
        features = (hidden @ w[4]).reshape(self.features.shape)
        self.first.backward(self.second.backward(features, g[2], g[3], True), g[0], g[1], False)
        return float(-logs[rows, labels].mean())

    def score(self, weights: numpy.ndarray, images: numpy.ndarray,
              labels: numpy.ndarray) -> float:
        """Mean loss without dropout."""
        total = 0.0
        for at in range(0, len(labels), 500):
            logs = log_softmax(self.forward(weights, Data.scaled(images[at:at + 500])))
            total -= float(logs[numpy.arange(len(logs)), labels[at:at + 500]].sum())
        return total / len(labels)
