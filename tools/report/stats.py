# SPDX-License-Identifier: BSD-3-Clause
"""Means and how sure they are. A value that is not known is nan, and left out."""
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

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


def student(values: Iterable[float], sure: float = 0.95) -> Interval:
    """The mean, by Student's t."""
    m = moments(values)
    half = float(stdtrit(m.count - 1, (1 + sure) / 2)) * m.se if m.count > 1 else NAN
    return Interval(m.mean, m.mean - half, m.mean + half)


def ratio(over: Iterable[float], under: Iterable[float]) -> Interval:
    """Geometric mean of pairs, one over the other."""
    logs = student(math.log(a / b) for a, b in zip(over, under, strict=True))
    return Interval(*(float(np.exp(x)) for x in (logs.mean, logs.low, logs.high)))
