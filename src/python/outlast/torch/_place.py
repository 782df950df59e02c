# SPDX-License-Identifier: BSD-3-Clause
"""Where a model's parameters and gradients lie, and who has to give what back."""
import errno
import gc
import weakref
from collections.abc import Callable

import torch

from .. import _errors
from .._handle import Lent
from .._job import Job
from .._library import ffi, lib
from ._lane import FLOAT_BYTES, Lane, is_apart, lane_of
from ._model import Layout


class Counters:
    """The version counters of parameters, by which autograd finds that a tensor has changed.

    The library writes weights behind torch's back. A graph of an older step must not be
    differentiated at newer weights: torch then raises as it does after a step of its own.
    """

    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        self.empty = []  # tensors without elements that share the counters
        for parameter in parameters:
            kept, parameter.data = parameter.data, torch.empty(0, device=parameter.device)
            self.empty.append(parameter.detach())
            parameter.data = kept

    def count(self) -> None:
        for one in self.empty:
            one.zero_()


class Claim:
    """One optimizer or learner has a model and a job: another one would train neither rightly.

    check() before anything is changed, the constructor when all is well. It ends with end(), with the
    trainer, or with the job.
    """

    def __init__(self, trainer: object, job: Job, parameters: list[torch.nn.Parameter]) -> None:
        self.name = type(trainer).__name__
        self._trainer, self._job = weakref.ref(trainer), weakref.ref(job)
        self._active = True
        for one in (job, *parameters):
            one._outlast_claim = self

    def __reduce__(self) -> tuple:
        return type(None), ()  # in a copy of the model, which nobody trains

    def end(self) -> None:
        self._active = False

    def _holds(self) -> bool:
        job = self._job()
        return self._active and self._trainer() is not None and job is not None \
            and job._owner is not None and not job._is_parents()

    @staticmethod
    def check(job: Job, parameters: list[torch.nn.Parameter]) -> None:
        """Raise Error if the job, or a parameter, is another trainer's."""
        for what, one in (("this job", job), *(("this model", one) for one in parameters)):
            claim = one.__dict__.get("_outlast_claim")
            if claim is None or not claim._holds():
                continue
            gc.collect()  # it may be gone but for a circle of references
            if claim._holds():
                raise _errors.Error(f"{what} has a trainer already, outlast.torch.{claim.name}, and two "
                                    "would train wrongly: detach() that one first, or close() its "
                                    "job", -errno.EBUSY)


class Held:
    """A model's parameters while they are a job's, and the gradient buffer of its optimizer.

    It outlives the optimizer: the model gets memory of its own when the optimizer is gone, or the
    job is closed, and the job gets its buffer back.
    """

    def __init__(self, job: Job, lane: Lane, parameters: list[torch.nn.Parameter]) -> None:
        self.job, self.lane = weakref.ref(job), lane
        self.pointer: object = None  # as in Lent
        self.pushed = False
        self.active = True
        self._parameters = [weakref.ref(parameter) for parameter in parameters]
        for parameter in parameters:
            parameter._outlast_held = self  # a later optimizer's takes its place

    def __reduce__(self) -> tuple:
        return type(None), ()  # in a copy of the model, which has memory of its own

    def release(self) -> int:
        """Returns how many bytes were copied."""
        job, copied = self.job(), 0
        if not self.active or (job is not None and job._is_parents()):
            return 0
        self.active = False
        self.lane.finish()
        with torch.no_grad():
            for reference in self._parameters:
                parameter = reference()
                if parameter is None or parameter.__dict__.get("_outlast_held") is not self:
                    continue
                del parameter._outlast_held
                parameter.grad = None
                if not is_apart(parameter.device):
                    parameter.data = parameter.data.clone()
                    copied += FLOAT_BYTES * parameter.numel()
        give_back(job, self)
        return copied


def give_back(job: Job | None, holder: object) -> None:
    """The job gets the gradient buffer that holder.pointer is, if it is open, in its own thread."""
    pointer, holder.pointer = holder.pointer, None
    if pointer is None or job is None or job._owner is None or job._is_parents():
        return
    try:
        job._grad_return(pointer)
    except _errors.Error:
        pass  # a collector in another thread: the buffer stays lent until close()


class Place:
    """A vector as tensors: the flat one, and each parameter's part of it."""

    def __init__(self, flat: torch.Tensor, layout: Layout) -> None:
        self.flat, self._layout = flat, layout
        self.parts = layout.views(flat)
        self.starts = [part.data_ptr() for part in self.parts]

    def is_moved(self, index: int) -> bool:
        """A program has given the tensor of this part other memory: part.data = …, part.set_()"""
        return self.parts[index].data_ptr() != self.starts[index]

    def part(self, index: int) -> torch.Tensor:
        """The tensor of this part: another one if the program has moved it."""
        if self.is_moved(index):
            self.parts[index] = self._layout.views(self.flat)[index]
        return self.parts[index]


class Places:
    """The mirrors and gradient buffers of a job as tensors, which are made once.

    A model on the CPU has its parameters and gradients there: nothing is copied.
    """

    def __init__(self, job: Job, layout: Layout) -> None:
        self.job, self.layout = job, layout
        self.lane = lane_of(layout.device)
        self.known: dict[int, Place] = {}
        self._pointer: object = None  # the gradient buffer in use

    def _at(self, pointer: object, locked: bool) -> Place:
        address = int(ffi.cast("uintptr_t", pointer))
        found = self.known.get(address)
        if found is None:
            flat = torch.frombuffer(self.job._buffer(pointer), dtype=torch.float32)
            if locked:
                self.lane.lock(self.job, flat)
            found = self.known[address] = Place(flat, self.layout)
        return found

    def mirror(self) -> Place:
        """Where the weights are now."""
        return self._at(self.job._mirror(), True)

    def buffer(self, pointer: object) -> Place:
        """A gradient buffer that is lent. A server's own memory is another's after its death: what
        a device has locked would be the dead one's."""
        return self._at(pointer, not self.job.zero_copy)

    def weights(self) -> Place:
        """Where the model's parameters are to be now: they are the weights of the last pull."""
        return self.mirror()

    def gradients(self, pointer: object) -> Place:
        """Where the gradients of the next push are to be, which goes out of this buffer."""
        self._pointer = pointer
        return self.buffer(pointer)

    def ready(self, first: int) -> None:
        """All gradients from this float on are whole. In the thread that runs backward()."""
        lib.ol_grad_ready(self.job._worker(), self._pointer, first)

    def land(self) -> None:
        """All gradients are whole, and in the buffer when this returns."""

    @property
    def step_bytes(self) -> int:
        """That a step copies."""
        return 0


class DevicePlaces(Places):
    """The model lies on a device. Its parameters and gradients are copied from and to the job's."""

    def __init__(self, job: Job, layout: Layout) -> None:
        super().__init__(job, layout)
        self._weights, self._gradients = (
            Place(torch.zeros(layout.count, device=layout.device), layout) for _ in range(2))
        self._begin()

    def _begin(self) -> None:
        self._behind = self.layout.count  # floats from here on are copied, or on their way
        self._copies: list[tuple[object, int]] = []  # the event of each, and its first float

    def weights(self) -> Place:
        self.lane.bring(self._weights.flat, self.mirror().flat)
        return self._weights

    def gradients(self, pointer: object) -> Place:
        self._landing = super().gradients(pointer).flat
        self._begin()
        return self._gradients

    def ready(self, first: int) -> None:
        part = slice(first, self._behind)
        event = self.lane.fetch(self._landing[part], self._gradients.flat[part])
        self._copies.append((event, first))
        self._behind = first

    def land(self) -> None:
        """Servers are told of each part that was copied beside backward() as soon as it is here."""
        early = len(self._copies)
        if self._behind > 0:
            self.ready(0)
        for event, first in self._copies[:early]:
            if event is not None:
                event.synchronize()
            super().ready(first)
        self.lane.finish()
        self._begin()  # if the push is refused, the next one is of what is there then

    @property
    def step_bytes(self) -> int:
        return 2 * FLOAT_BYTES * self.layout.count


def places_of(job: Job, layout: Layout) -> Places:
    return DevicePlaces(job, layout) if is_apart(layout.device) else Places(job, layout)


def give_back_to(job: Callable[[], Job | None], lent: Lent) -> None:
    give_back(job(), lent)
