# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers by what they are for: Philox4x32-10, whose counter is stream, trial and index (model.c)."""
import math

import numpy

PURPOSE = 64  # above those of tools/learn
LOW = (1 << 32) - 1


def philox(counter, key: tuple[int, int]):
    """Counter and result: four words, each an array of 32 bits in uint64."""
    a, b, c, d = (numpy.asarray(word, numpy.uint64) for word in counter)
    low, half = numpy.uint64(LOW), numpy.uint64(32)
    for turn in range(10):
        p0, p1 = numpy.uint64(0xD2511F53) * a, numpy.uint64(0xCD9E8D57) * c
        key0 = numpy.uint64(key[0] + turn * 0x9E3779B9 & LOW)
        key1 = numpy.uint64(key[1] + turn * 0xBB67AE85 & LOW)
        a, b, c, d = p1 >> half ^ b ^ key0, p1 & low, p0 >> half ^ d ^ key1, p0 & low
    return a, b, c, d


class Draw:
    def __init__(self, seed: int, trial: int, stream: int) -> None:
        self.key = seed & LOW, seed >> 32 & LOW
        self.counter = PURPOSE << 24 | stream, trial & LOW, trial >> 32
        self.used = 0

    def words(self, count: int):
        """The next draws, high and low half of 64 bits each."""
        index = numpy.arange(self.used, self.used + count, dtype=numpy.uint64)
        self.used += count
        return philox((index, *self.counter), self.key)[:2]

    def uniforms(self, count: int):
        """In (0, 1)."""
        high, low = self.words(count)
        return ((high << numpy.uint64(20) | low >> numpy.uint64(12)) + 0.5) * 2.0**-52

    def uniform(self) -> float:
        return float(self.uniforms(1)[0])

    def normals(self, count: int):
        """By the C library's functions, as numpy's own differ in a last bit."""
        pairs = self.uniforms(2 * count).reshape(count, 2).tolist()
        return numpy.array([math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * v)
                            for u, v in pairs])

    def belows(self, limits):
        """Each in 0 .. limit - 1."""
        limits = numpy.asarray(limits, numpy.uint64)
        high, low = self.words(len(limits))
        half = numpy.uint64(32)
        return high * limits + (low * limits >> half) >> half

    def below(self, limit: int) -> int:
        return int(self.belows([limit])[0])

    def shuffle(self, count: int):
        """0 .. count - 1 in any order."""
        order = list(range(count))
        for last, at in zip(range(count - 1, 0, -1),
                            self.belows(numpy.arange(count, 1, -1)).tolist()):
            order[last], order[at] = order[at], order[last]
        return numpy.array(order)

    def geometric(self, mean: float, most: int) -> int:
        """Of a mean, drawn again until it is in 1 .. most."""
        if mean <= 1.0:
            return 1
        per = math.log1p(-1.0 / mean)
        while True:
            step = math.floor(math.log(self.uniform()) / per) + 1
            if step <= most:
                return step
