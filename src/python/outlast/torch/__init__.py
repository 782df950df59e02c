# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch models whose parameters are a job's: Optimizer pushes gradients, DiLoCo what many inner
steps have changed.

A model's parameters, in the order of model.parameters(), are one flat vector, as long as the job's.
Buffers of a model, as a batch norm's averages, stay this process's own.

A model on the CPU lies in the job's memory: a parameter under Optimizer is in the mirror, which the
library writes and the program must not. torch has no read-only tensors, so Optimizer.step() looks
whether a parameter was written in place, and raises Error then: such a change would be lost with
the next pull, and a server that is restored from the mirror would start with it.

A model on a CUDA device lies there, and is copied from and to the job's memory, which is
page-locked for the device. Such copies run on streams of their own, and are the only ones.
"""
from ._diloco import DiLoCo
from ._model import load, vector
from ._optimizer import Optimizer
from ._streaming import StreamingDiLoCo

__all__ = ["DiLoCo", "Optimizer", "StreamingDiLoCo", "load", "vector"]
