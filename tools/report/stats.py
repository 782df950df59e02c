# SPDX-License-Identifier: BSD-3-Clause
"""Means and how sure they are. A value that is not known is nan, and left out."""
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

NAN = math.nan


@dataclass(frozen=True)
class Moments:
    count: int  # of values that are known
    mean: float
    sd: float  # of the sample; nan below two values
    low: float
    high: float

    @property
    def se(self) -> float:
        """Standard error of the mean."""
        return self.sd / math.sqrt(self.count) if self.count > 0 else NAN


def moments(values: Iterable[float]) -> Moments:
    x = np.array([value for value in values if not math.isnan(value)], dtype=float)
    if x.size == 0:
        return Moments(0, NAN, NAN, NAN, NAN)
    sd = float(x.std(ddof=1)) if x.size > 1 else NAN
    return Moments(x.size, float(x.mean()), sd, float(x.min()), float(x.max()))


def quantile(values: Iterable[float], q: float) -> float:
    """Nearest rank: one of the values."""
    return float(np.quantile(np.array(list(values)), q, method="inverted_cdf"))


@dataclass(frozen=True)
class Interval:
    """A figure and its confidence interval; bounds that are not known are nan."""
    mean: float
    low: float
    high: float

    @property
    def half(self) -> float:
        return self.high - self.mean

    @property
    def shown(self) -> float:
        """Half of it in a picture, where what is not known has no length."""
        return 0.0 if math.isnan(self.half) else self.half


def student(values: Iterable[float], sure: float = 0.95) -> Interval:
    """The mean, by Student's t."""
    m = moments(values)
    half = float(stdtrit(m.count - 1, (1 + sure) / 2)) * m.se if m.count > 1 else NAN
    return Interval(m.mean, m.mean - half, m.mean + half)


def prediction(values: Iterable[float], sure: float = 0.95) -> Interval:
    """The mean, and where one value more of the same kind is."""
    m = moments(values)
    if m.count < 2:
        return Interval(m.mean, NAN, NAN)
    half = float(stdtrit(m.count - 1, (1 + sure) / 2)) * m.sd * math.sqrt(1 + 1 / m.count)
    return Interval(m.mean, m.mean - half, m.mean + half)


def ratio(over: Iterable[float], under: Iterable[float]) -> Interval:
    """Geometric mean of pairs, one over the other."""
    logs = student(math.log(a / b) for a, b in zip(over, under, strict=True))
    return Interval(*(float(np.exp(x)) for x in (logs.mean, logs.low, logs.high)))


def normal(values: Iterable[float], sure: float = 0.95) -> Interval:
    """The mean, with an interval as of many values."""
    m = moments(values)
    half = float(ndtri((1 + sure) / 2)) * m.se
    return Interval(m.mean, m.mean - half, m.mean + half)


def reduction(values: Iterable[float], of: Iterable[float]) -> Interval:
    """1 - mean(values) / mean(of), pair by pair; the interval is that of values - ratio * of,
    divided by the mean of `of` (delta method)."""
    a, b = np.array(list(values), dtype=float), np.array(list(of), dtype=float)
    quotient = a.mean() / b.mean()
    less, half = float(1 - quotient), float(normal(a - quotient * b).half / b.mean())
    return Interval(less, less - half, less + half)
