# SPDX-License-Identifier: BSD-3-Clause
"""A model's parameters as one flat vector."""
import errno
from collections.abc import Iterable

import numpy
import torch

from .. import _errors, _tensor
from .._job import Job
from .._library import ffi, lib


DEVICES = ("cpu", "cuda")


class Layout:
    """Where a model's parameters lie in the job's vector."""

    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        self.device = parameters[0].device if parameters else torch.device("cpu")
        for parameter in parameters:
            if parameter.dtype != torch.float32 or parameter.device.type not in DEVICES:
                raise ValueError(f"a parameter is {parameter.dtype} on {parameter.device}: a job "
                                 f"holds float32, and its models lie on {' or '.join(DEVICES)}")
            if parameter.device != self.device:
                raise ValueError(f"a parameter is on {parameter.device}, the first is on "
                                 f"{self.device}: a process trains on one device")
        self.shapes = [parameter.shape for parameter in parameters]
        self.counts = [parameter.numel() for parameter in parameters]
        self.count = sum(self.counts)

    def fit(self, job: Job) -> None:
        if self.count != job.param_count:
            raise _errors.Error(f"the model has {self.count} parameters, the job "
                                f"{job.param_count}", -errno.EINVAL)

    def match(self, model: "Model", job: Job) -> None:
        """The model is of the names and shapes that the job has, if it has them; after a pull.

        Parameters that come without a Module have no names: then their shapes, in this order.
        """
        table = lib.ol_worker_tensors(job._worker())
        if table == ffi.NULL:
            return
        if not isinstance(model, torch.nn.Module):
            self._match_shapes(job)
            return
        difference = _tensor.differ(_tensor.table_of(model.named_parameters()), table)
        if difference is not None:
            raise _errors.Error(f"the job is of another model: {difference} (with "
                                "model.parameters() in place of model only shapes are looked at)",
                                -errno.EINVAL)

    def _match_shapes(self, job: Job) -> None:
        tensors = job.tensors()
        shapes = [tuple(shape) for shape in self.shapes]
        for index, (shape, tensor) in enumerate(zip(shapes, tensors)):
            if shape != tensor.shape:
                raise _errors.Error(f"parameter {index} has the shape {shape}, and the job's tensor "
                                    f'"{tensor.name}", which is the next in its order, has '
                                    f"{tensor.shape}: give parameters in the order that the job "
                                    "began with, or begin it with "
                                    "init=outlast.torch.vector(groups)", -errno.EINVAL)
        if len(shapes) != len(tensors):
            raise _errors.Error(f"there are {len(shapes)} parameters, and the job has "
                                f"{len(tensors)} tensors", -errno.EINVAL)

    def views(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """Each parameter's part of a flat vector, in its shape."""
        parts = torch.split(flat, self.counts)
        return [part.view(shape) for part, shape in zip(parts, self.shapes)]


Model = torch.nn.Module | Iterable[torch.nn.Parameter] | Iterable[dict]


def parameters_of(model: Model) -> list[torch.nn.Parameter]:
    """Of a module, an iterable of parameters or of torch's parameter groups, in this order."""
    found = model.parameters() if isinstance(model, torch.nn.Module) else model
    flat: list[torch.nn.Parameter] = []
    for one in found:
        params = one["params"] if isinstance(one, dict) else one
        flat += [params] if isinstance(params, torch.Tensor) else list(params)
    return flat


def vector(model: Model) -> numpy.ndarray:
    """A copy of a model's parameters as one float32 vector: init= of outlast.launch().

    Parameters in groups have the order of the groups: give vector() what Optimizer gets.
    """
    parts = [parameter.detach().reshape(-1).to("cpu", torch.float32)
             for parameter in parameters_of(model)]
    return torch.cat(parts).numpy()


def load(model: Model, weights: object) -> None:
    """Copy a vector (of reader.pull(), for example) into a model of this process's own memory.

    Of weights that have names and shapes a Module with other ones is refused.
    """
    parameters = parameters_of(model)
    tensors = getattr(weights, "tensors", ())
    if isinstance(model, torch.nn.Module) and tensors:
        table = _tensor.table_of((one.name, one) for one in tensors)
        difference = _tensor.differ(_tensor.table_of(model.named_parameters()),
                                    ffi.new("char[]", table.encode()))
        if difference is not None:
            raise _errors.Error(f"the weights are of another model: {difference}", -errno.EINVAL)
    flat = torch.from_numpy(numpy.array(weights, dtype=numpy.float32).reshape(-1))
    layout = Layout(parameters)
    if len(flat) != layout.count:
        raise _errors.Error(f"the model has {layout.count} parameters, the weights {len(flat)}",
                            -errno.EINVAL)
    with torch.no_grad():
        for parameter, view in zip(parameters, layout.views(flat)):
            parameter.copy_(view)
