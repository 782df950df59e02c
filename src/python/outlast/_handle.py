# SPDX-License-Identifier: BSD-3-Clause
"""One connection to the servers of a job: opened, waited with, viewed, closed.

A handle belongs to the thread that opened it. What waits does so in slices of SLICE_MS without
Python's lock: between two slices Python sees signals, so Ctrl-C ends a wait.
"""
import errno
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import _errors, _tensor
from ._library import ffi, lib, text

if TYPE_CHECKING:
    from typing import Self

SLICE_MS = 100
ERR_BYTES = 512


class Op:
    """One push, pull or flush. Its memory is lent to the library until it is done."""

    def __init__(self, owner: "Owner") -> None:
        self.c = ffi.new("struct ol_op *")
        self.lent = False
        owner.keep.append(self.c)


class Lent:
    """A gradient buffer of the library. Calls of it set both when they are over, also by Ctrl-C."""

    def __init__(self, pointer: object = None) -> None:
        self.pointer = pointer  # None: none is lent
        self.pushed = False  # one was; whoever has looked at it sets it back


class Owner:
    """The worker of the library. It is closed when nobody sees its memory any more."""

    def __init__(self, worker: object, cancel_fd: int) -> None:
        self.worker, self.cancel_fd = worker, cancel_fd
        self.views = 0
        self.closing = False
        self.keep: list[object] = []  # ol_worker_close() writes to ops in flight
        self.ends: dict[int, Callable[[], None] | None] = {}
        self.lock = threading.RLock()  # a view may go while another one is made

    def view(self, pointer: object, count: int) -> object:
        """A writable buffer of `count` float32 at pointer; while it lives, so does the memory."""
        floats = ffi.gc(ffi.cast("float *", pointer), self.view_ended)
        with self.lock:
            self.views += 1
        return ffi.buffer(floats, 4 * count)

    def view_ended(self, _pointer: object) -> None:
        with self.lock:
            self.views -= 1
            self.close_if_unseen()

    def at_end(self, address: int, call: Callable[[], None] | None) -> None:
        """Call it, if anything, right before the memory at this address is unmapped."""
        self.ends[address] = call

    def is_at_end(self, address: int) -> bool:
        return address in self.ends

    def close(self) -> None:
        with self.lock:
            self.closing = True
            self.close_if_unseen()

    def close_if_unseen(self) -> None:
        if not self.closing or self.views > 0 or self.worker is None:
            return
        worker, self.worker = self.worker, None
        for call in filter(None, self.ends.values()):
            call()
        lib.ol_worker_adopt(worker)  # the last view may have gone in another thread
        lib.ol_worker_close(worker)
        os.close(self.cancel_fd)


def deadline_of(timeout: float | None) -> float:
    return float("inf") if timeout is None else time.monotonic() + timeout


def open_worker(options: object) -> Owner:
    """ol_worker_open() in a thread of its own, so that Ctrl-C can cancel it."""
    worker = ffi.new("struct ol_worker **")
    err = ffi.new("char[]", ERR_BYTES)
    cancel = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    done: list[int] = []

    def target() -> None:
        done.append(lib.ol_worker_open(options, worker, err, ERR_BYTES))

    options.cancel_fd = cancel
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(SLICE_MS / 1000)
    except BaseException:
        os.eventfd_write(cancel, 1)
        thread.join()
        if done == [0]:
            Owner(worker[0], cancel).close()
        raise
    if done[0] != 0:
        os.close(cancel)
        raise _errors.make(done[0], text(err))
    rc = lib.ol_worker_adopt(worker[0])
    if rc != 0:
        raise _errors.make(rc)
    return Owner(worker[0], cancel)


class Handle:
    """What Job and Reader have in common."""

    def __init__(self, options: object, timeout: float | None) -> None:
        self.timeout = timeout
        self._closers: list[Callable[[], None]] = []
        self._views: dict[int, object] = {}
        self._version_out = ffi.new("uint64_t *")
        self._tensors: tuple[_tensor.Tensor, ...] = ()
        self._shard_info = ffi.new("struct ol_shard_info *")
        self._owner: Owner | None = None  # what follows may fail
        self._owner = open_worker(options)
        self._thread, self._pid = threading.get_ident(), os.getpid()
        self._pull_op = Op(self._owner)
        info = ffi.new("struct ol_job_info *")
        lib.ol_worker_info_sized(self._worker(), info, ffi.sizeof("struct ol_job_info"))
        self.param_count: int = info.param_count
        self.shard_count: int = info.shard_count
        self.transport: str = text(info.transport)
        self.zero_copy: bool = info.zero_copy != 0
        found = map(self._shard, range(self.shard_count))
        self.shards: list[tuple[int, int]] = [(shard.first, shard.count) for shard in found]

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        owner = getattr(self, "_owner", None)
        if owner is not None:
            self._views = {}
            owner.close()

    def close(self) -> None:
        """End the connection. Models trained through it get memory of their own.

        If a view of its memory is still referred to, the connection ends with the last such view,
        and a ResourceWarning says so: memory that is seen is never unmapped. In a child of a fork
        it does nothing: the connection is the parent's.
        """
        owner = self._owner
        if owner is None or self._is_parents():
            return
        self._check_thread()
        self._owner = None
        closers, self._closers = self._closers, []
        for closer in closers:
            closer()
        self._views = {}
        owner.close()
        if owner.views > 0:
            warnings.warn(f"outlast: {owner.views} arrays of this handle's memory are in use; "
                          "it closes with the last of them", ResourceWarning, stacklevel=3)

    def adopt(self) -> None:
        """The handle belongs to the calling thread from now on.

        The former thread must be in no call of it, and make none afterwards: nothing checks that.
        """
        rc = lib.ol_worker_adopt(self._worker())
        if rc != 0:
            raise _errors.make(rc)
        self._thread = threading.get_ident()

    def _on_close(self, method: Callable[[], None]) -> None:
        """Call a bound method at close(), unless its object is gone by then."""
        reference = weakref.WeakMethod(method)

        def call() -> None:
            found = reference()
            if found is not None:
                found()

        self._closers.append(call)

    def _check_thread(self) -> None:
        """For calls whose C function does nothing in a thread, or a child of a fork, that is not its
        own."""
        if threading.get_ident() != self._thread or self._is_parents():
            raise _errors.make(lib.OL_E_THREAD)

    def _is_parents(self) -> bool:
        """This process is a child of the one that opened it, where its memory is not mapped."""
        return os.getpid() != self._pid

    def _worker(self) -> object:
        if self._owner is None:
            raise _errors.Closed("the handle was closed")
        return self._owner.worker

    def _buffer(self, pointer: object) -> object:
        """The vector at a pointer of the library, as a buffer; the same one each time."""
        address = int(ffi.cast("uintptr_t", pointer))
        found = self._views.get(address)
        if found is None:
            self._worker()
            found = self._views[address] = self._owner.view(pointer, self.param_count)
        return found

    def _shard(self, shard: int) -> object:
        """Place and versions of a shard, until the next such call."""
        rc = lib.ol_shard_info_sized(self._worker(), shard, self._shard_info,
                                     ffi.sizeof("struct ol_shard_info"))
        if rc != 0:
            raise _errors.make(rc)
        return self._shard_info

    def _shards_of(self, span: tuple[int, int] | None) -> range:
        """The shards that a span is made of; None: all. ValueError: it is no whole shards."""
        if span is None:
            return range(self.shard_count)
        first, count = span
        within = [shard for shard, (begin, size) in enumerate(self.shards)
                  if first <= begin and begin + size <= first + count]
        if not within or sum(self.shards[shard][1] for shard in within) != count:
            raise ValueError(f"span {span}: it is one of the job's shards, or several that follow "
                             f"each other, as (first, count): {self.shards}")
        return range(within[0], within[-1] + 1)

    def _weights(self) -> tuple[object, int]:
        """Pointer to the mirror, NULL before the first pull, and its version."""
        pointer = lib.ol_weights(self._worker(), self._version_out)
        return pointer, self._version_out[0]

    def tensors(self) -> tuple[_tensor.Tensor, ...]:
        """What the job's parameters are: names and shapes, in the order of its vector.

        Empty before the first pull, or if nobody said so: the servers' init= names them. Never
        changes. Never blocks.
        """
        if not self._tensors:
            self._tensors = _tensor.read(lib.ol_worker_tensors(self._worker()))
        return self._tensors

    def _fresh(self, op: Op) -> object:
        """The op's memory, ready for a call; what a Ctrl-C left of its last use is given up."""
        if op.lent:
            self._give_up(op)
        op.lent = True
        return op.c

    def _give_up(self, op: Op) -> None:
        """Take an op back. Its push, pull or flush goes on."""
        if not op.c.done:
            lib.ol_worker_wait(self._worker(), op.c)
        op.lent = False

    def _wait(self, op: Op, deadline: float,
              between: Callable[[], None] | None = None) -> int:
        """The op's status; -ETIMEDOUT if it was given up at the deadline.

        After a Ctrl-C the op stays in flight; _fresh() gives it up.
        """
        worker = self._worker()
        status = lib.ol_worker_wait_for(worker, op.c, self._slice(deadline))
        while not op.c.done:
            if status != -errno.EAGAIN:
                self._give_up(op)
                return status
            if time.monotonic() >= deadline:
                self._give_up(op)
                return -errno.ETIMEDOUT
            if between is not None:
                between()
            status = lib.ol_worker_wait_for(worker, op.c, self._slice(deadline))
        op.lent = False
        return op.c.status

    def _slice(self, deadline: float) -> int:
        if deadline == float("inf"):
            return SLICE_MS
        return max(1, min(SLICE_MS, int(1000 * (deadline - time.monotonic()))))

    def _repeat(self, call: Callable[[], int], deadline: float,
                between: Callable[[], None] | None = None) -> int:
        """A function of the library that waits for op_timeout_ms, which is one slice here."""
        while (rc := call()) == -errno.ETIMEDOUT and time.monotonic() < deadline:
            if between is not None:
                between()
        return rc

    def poll(self) -> None:
        """Make progress without waiting: answer servers, reconnect. Costs about a microsecond.

        A program that computes for seconds between two calls should call it now and then.
        """
        self._check_thread()
        lib.ol_worker_poll(self._worker())

    def newest(self, span: tuple[int, int] | None = None) -> int:
        """The newest version that the servers are known to have, of a span or (None) of all shards.
        Asks them again; the answer comes with a later call. Never blocks."""
        self._check_thread()
        found = lib.ol_newest(self._worker())
        if span is None:
            return found
        return min(self._shard(shard).newest for shard in self._shards_of(span))

    def _pull_until(self, newest: bool, deadline: float,
                    between: Callable[[], None] | None = None,
                    span: tuple[int, int] | None = None, even: bool = False) -> None:
        flags = (lib.OL_PULL_NEWEST if newest else 0) | (lib.OL_PULL_EVEN if even else 0)
        if span is None:
            rc = lib.ol_pull(self._worker(), flags, self._fresh(self._pull_op))
        else:
            self._shards_of(span)  # it is one
            rc = lib.ol_pull_span(self._worker(), flags, *span, self._fresh(self._pull_op))
        if rc == -errno.ENODATA:
            self._pull_op.lent = False
            raise _errors.Error("no weights yet: pull() all of them before a span", rc)
        if rc == 0:
            rc = self._wait(self._pull_op, deadline, between)
        self._pull_op.lent = False
        if rc != 0:
            raise _errors.make(rc)
