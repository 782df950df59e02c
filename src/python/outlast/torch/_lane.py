# SPDX-License-Identifier: BSD-3-Clause
"""How weights and gradients come from the job's memory to where a model lies, and back.

What lies on the CPU is in the job's memory, or beside it: Lane. A device reads and writes the job's
memory by itself, if that is page-locked, on streams of its own: DeviceLane.
"""
import contextlib
import functools
import os
import warnings
from collections.abc import Iterator

import torch

from .._job import Job

FLOAT_BYTES = 4
PIECE = 1 << 22  # floats that a stage holds
PORTABLE = 1  # cudaHostRegisterPortable: locked for all contexts
LOCKED = (0, 712)  # cudaSuccess, cudaErrorHostMemoryAlreadyRegistered


def is_apart(device: torch.device) -> bool:
    """Its memory is not the CPU's."""
    return device.type != "cpu"


class Lane:
    """Everything lies in memory of the CPU."""

    def lock(self, job: Job, host: torch.Tensor) -> None:
        """The host's vector is read and written by the device, for as long as the job has it."""

    def bring(self, near: torch.Tensor, host: torch.Tensor) -> None:
        """Copy the host's vector to where the model lies; it is read when this returns."""
        near.copy_(host)

    def difference(self, out: torch.Tensor, base: torch.Tensor, near: torch.Tensor) -> int:
        """out = base - near, the first two the host's. Returns how many bytes were copied."""
        torch.sub(base, near, out=out)
        return 0

    def subtract(self, near: torch.Tensor, host: torch.Tensor) -> int:
        """near -= host. Returns how many bytes were copied."""
        near.sub_(host)
        return 0

    def mix(self, near: torch.Tensor, host: torch.Tensor, share: float) -> None:
        """near = share * near + (1 - share) * host"""
        near.mul_(share).add_(host, alpha=1.0 - share)

    def finish(self) -> None:
        """Wait until no copy is under way."""


def unlock(cudart: object, address: int, process: int) -> None:
    if os.getpid() == process:  # a child of a fork has no context
        cudart.cudaHostUnregister(address)


class DeviceLane(Lane):
    """The model lies on a device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stages: list[torch.Tensor] = []
        if device.type == "cuda":
            self._cudart = torch.cuda.cudart()
            self._streams = [torch.cuda.Stream(device), torch.cuda.Stream(device)]
        else:
            self._streams = [None, None]

    def lock(self, job: Job, host: torch.Tensor) -> None:
        owner, address = job._owner, host.data_ptr()
        if self.device.type != "cuda" or owner.is_at_end(address):
            return
        code = int(self._cudart.cudaHostRegister(address, FLOAT_BYTES * len(host), PORTABLE))
        if code != 0:
            self._forget_error()
        if code not in LOCKED:
            warnings.warn(f"outlast: {FLOAT_BYTES * len(host)} bytes of the job's memory cannot be "
                          f"page-locked (CUDA error {code}): copies to and from {self.device} are "
                          "slower", ResourceWarning, stacklevel=2)
        owner.at_end(address, functools.partial(unlock, self._cudart, address, os.getpid())
                     if code == 0 else None)

    def _forget_error(self) -> None:
        """CUDA keeps the error of a call for the next kernel to raise, which has no part in it."""
        try:
            torch.zeros(1, device=self.device)
        except RuntimeError:
            pass

    @contextlib.contextmanager
    def _beside(self, stream: object) -> Iterator[None]:
        """On a stream of this lane, behind what the current one was given up to now."""
        if stream is None:
            yield
            return
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            yield

    def fetch(self, host: torch.Tensor, near: torch.Tensor) -> object:
        """Begin to copy to the host. Returns the event that it is done; None: it is done."""
        stream = self._streams[0]
        with self._beside(stream):
            host.copy_(near, non_blocking=True)
        return None if stream is None else stream.record_event()

    def bring(self, near: torch.Tensor, host: torch.Tensor) -> None:
        with self._beside(self._streams[0]):
            near.copy_(host, non_blocking=True)
        self.finish()

    def _pieces(self, count: int) -> Iterator[tuple[slice, torch.Tensor]]:
        """Parts of a vector, each with its stage, on alternating streams: one reads, one writes."""
        size = min(PIECE, count)
        if not self._stages or len(self._stages[0]) < size:
            self._stages = [torch.empty(size, device=self.device) for _ in self._streams]
        for index, first in enumerate(range(0, count, PIECE)):
            part = slice(first, min(first + PIECE, count))
            with self._beside(self._streams[index % 2]):
                yield part, self._stages[index % 2][:part.stop - part.start]

    def difference(self, out: torch.Tensor, base: torch.Tensor, near: torch.Tensor) -> int:
        for part, stage in self._pieces(len(near)):
            stage.copy_(base[part], non_blocking=True)
            torch.sub(stage, near[part], out=stage)
            out[part].copy_(stage, non_blocking=True)
        self.finish()
        return 2 * FLOAT_BYTES * len(near)

    def subtract(self, near: torch.Tensor, host: torch.Tensor) -> int:
        for part, stage in self._pieces(len(near)):
            stage.copy_(host[part], non_blocking=True)
            near[part].sub_(stage)
        self.finish()
        return FLOAT_BYTES * len(near)

    def mix(self, near: torch.Tensor, host: torch.Tensor, share: float) -> None:
        for part, stage in self._pieces(len(near)):
            stage.copy_(host[part], non_blocking=True)
            near[part].mul_(share).add_(stage, alpha=1.0 - share)
        self.finish()

    def finish(self) -> None:
        for stream in self._streams:
            if stream is not None:
                stream.synchronize()


def lane_of(device: torch.device) -> Lane:
    return DeviceLane(device) if is_apart(device) else Lane()
