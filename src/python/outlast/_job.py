# SPDX-License-Identifier: BSD-3-Clause
"""A worker's and a reader's view of a job, with numpy arrays."""
import errno
import numbers
import os
import select
import stat
import time
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy

from . import _errors
from ._handle import SLICE_MS, Handle, Lent, Op, deadline_of
from ._library import ffi, lib, text
from ._rule import Rule, fault, pack, unpack
from ._tensor import Tensor, is_model, of_array, of_model, others_of, table_of

KEY_BYTES_MAX = 255
OUTAGES = {"end": "OL_OUTAGE_END", "wait": "OL_OUTAGE_WAIT", "continue": "OL_OUTAGE_CONTINUE"}
QUEUES = {"fold": "OL_QUEUE_FOLD", "drop-oldest": "OL_QUEUE_DROP_OLDEST", "wait": "OL_QUEUE_WAIT"}
WEIGHT_MIN, WEIGHT_MAX = 1e-18, 1e18
VERSION_MAX = 2**56 - 1
NOT_TAKEN = 2  # ol_op.local: ol_push() sets 0 or 1 when it takes the buffer
FORMATS = {"fp32": "OL_FORMAT_FP32", "bf16": "OL_FORMAT_BF16", "fp16": "OL_FORMAT_FP16",
           "int8": "OL_FORMAT_INT8"}


@dataclass(frozen=True)
class Weights:
    """The whole weights of one version.

    array: float32, read-only, param_count long: a view of the mirror, into which the library reads
    them. It is valid until the pull after the next one starts; then its memory is overwritten.
    Copy it to keep it.
    """

    array: numpy.ndarray
    version: int
    local: bool = False  # a server is gone (outage "continue"): the last weights, not new ones
    age: float = 0.0  # seconds since the oldest shard of them was read; 0: just now
    tensors: tuple[Tensor, ...] = ()  # what the parameters are, if the job says so

    def __getitem__(self, name: object) -> numpy.ndarray:
        """A tensor by its name, in its shape; or what array has there. A view, valid as array is."""
        if not isinstance(name, str):
            return self.array[name]
        for one in self.tensors:
            if name == one.name or name in one.others:
                return self.array[one.first:one.first + one.count].reshape(one.shape)
        raise KeyError(name)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> numpy.ndarray:
        if dtype is not None and dtype != self.array.dtype:
            return self.array.astype(dtype)
        return self.array.copy() if copy else self.array

    def __len__(self) -> int:
        return len(self.array)

    def copy(self) -> numpy.ndarray:
        """A copy that stays as it is."""
        return self.array.copy()


def read_only(buffer: object) -> numpy.ndarray:
    """Over a read-only memoryview, numpy refuses to make it writeable later."""
    return numpy.frombuffer(memoryview(buffer).toreadonly(), dtype=numpy.float32)


def counters(struct: object) -> dict[str, float]:
    """The fields of the struct at a pointer: numbers, and of a struct ol_latency sum_ns and buckets."""
    return {name: plain(getattr(struct, name)) for name, _ in ffi.typeof(struct).item.fields}


def plain(value: object) -> object:
    if not isinstance(value, ffi.CData):
        return value
    return types.SimpleNamespace(sum_ns=value.sum_ns, buckets=list(value.buckets))


def read_key(path: str) -> str:
    """The key in a file that nobody else can read; `outlast keygen` makes one."""
    with open(path, "rb") as file:
        found = os.fstat(file.fileno())
        if found.st_uid not in (os.geteuid(), 0):
            raise PermissionError(f"{path}: the job key is no secret: user {found.st_uid} owns it")
        if stat.S_IMODE(found.st_mode) & 0o066:
            raise PermissionError(f"{path}: the job key is no secret: chmod 600")
        key = file.read(KEY_BYTES_MAX + 2).rstrip(b"\r\n")
    if not 1 <= len(key) <= KEY_BYTES_MAX or b"\0" in key:
        raise ValueError(f"{path}: not a job key: it is to hold 1 to {KEY_BYTES_MAX} bytes of text")
    return key.decode("ascii", "surrogateescape")


FIELDS = {name: field.type for name, field in ffi.typeof("struct ol_worker_opts").fields
          if name not in ("size", "init", "init_tensors")}  # the last two are of connect(init=)


SAID = {"outage_timeout_ms": "outage_timeout", "connect_timeout_ms": "connect_timeout",
        "op_timeout_ms": "timeout", "servers": "address"}  # fields that connect() and reader() have
SAID_OF = {"connect": {**SAID, "gradient_format": "gradients"},  # words of their own for
           "reader": {**SAID, "weights_format": "weights"}}


def other_word(call: str, options: dict[str, object]) -> None:
    for name, word in SAID_OF[call].items():
        if name in options:
            raise ValueError(f"option {name}: give {word}=")


def milliseconds(name: str, seconds: float, least: int = 0) -> int:
    if isinstance(seconds, str) or not isinstance(seconds, numbers.Real) or not 0 <= seconds <= 4e6:
        raise ValueError(f"{name} {seconds!r}: seconds, from 0 to 4000000")
    return max(least, int(1000 * seconds))


def worker_of(variable: str) -> int:
    said = os.environ.get(variable, "0")
    if not said.isdecimal():
        raise ValueError(f"${variable} {said!r}: a worker's id, a whole number from 0")
    return int(said)


def taken(kind: object) -> str:
    """What a field of the options takes, in words."""
    if kind.kind == "pointer":
        return "a text"
    if kind.kind == "enum":
        return f"of {', '.join(QUEUES)}"
    bits = 8 * ffi.sizeof(kind) - (kind.cname == "int")
    return f"a whole number from {-2**bits if kind.cname == 'int' else 0} to {2**bits - 1}"


class Options:
    """struct ol_worker_opts, and the strings that it points to."""

    def __init__(self, **words: object) -> None:
        self.c = ffi.new("struct ol_worker_opts *")
        self.keep: list[object] = []
        lib.ol_worker_opts_init_sized(self.c, ffi.sizeof("struct ol_worker_opts"))
        for name, value in words.items():
            self.set(name, value)

    def set(self, name: str, value: object) -> None:
        if value is None:
            return
        if name not in FIELDS:
            raise ValueError(f"option {name}: there is none; struct ol_worker_opts of outlast.h has "
                             f"{', '.join(sorted(FIELDS))}")
        given = value
        if FIELDS[name].kind == "enum" and isinstance(value, str) and value in QUEUES:
            value = getattr(lib, QUEUES[value])
        elif isinstance(value, str) and FIELDS[name].kind == "pointer":
            value = ffi.new("char[]", value.encode("utf-8", "surrogateescape"))
            self.keep.append(value)
        try:
            setattr(self.c, name, value)
        except (OverflowError, TypeError):
            raise ValueError(f"option {name} {given!r}: {taken(FIELDS[name])}") from None

    def begin_with(self, init: object) -> None:
        """The job's first weights, of a model or a vector. The library copies them."""
        if is_model(init):
            named = of_model(init)
            self.tensors = ffi.new("char[]", table_of(named, others_of(init)).encode())
            self.c.init_tensors = self.tensors
            vector = of_array(numpy.concatenate([array.reshape(-1) for _, array in named]))
        else:
            vector = of_array(init)
        self.set("param_count", len(vector))
        self.first = ffi.from_buffer("float[]", vector)
        self.c.init = self.first

    def forget_first(self) -> None:
        self.first = self.c.init = self.c.init_tensors = ffi.NULL


class Reader(Handle):
    """An observer: it reads whole weights, and changes nothing. reader() and Job.reader() open one.

    It belongs to the thread that opened it, and takes one of the servers' observers_max places.
    """

    def __init__(self, options: Options, timeout: float | None) -> None:
        options.set("observer", lib.OL_OBSERVER_READS)
        options.set("mirror_state", 0)
        super().__init__(options.c, timeout)
        self._last = -1

    def pull(self, newest: bool = True, timeout: float | None = None) -> Weights:
        """The weights of one version, never older than those of the pull before.

        If a server was restored from older weights than this reader has seen, the call waits
        until the job has come that far again.

        Blocks: for a round trip; while a server is gone; at most timeout seconds (None: that of
        connect()), then Timeout.
        """
        deadline = deadline_of(self.timeout if timeout is None else timeout)
        while True:
            self._pull_until(newest, deadline)
            pointer, version = self._weights()
            if version >= self._last:
                break
            newest = True
            if time.monotonic() >= deadline:
                raise _errors.Timeout(f"the servers were restored at version {version}; version "
                                      f"{self._last} is not reached again", -errno.ETIMEDOUT)
        self._last = version
        op = self._pull_op.c
        return Weights(read_only(self._buffer(pointer)), version, bool(op.local), op.age_ns / 1e9,
                       self.tensors())

    def wait_for(self, version: int, timeout: float | None = None) -> int:
        """Wait until this version or a later one is published, of all shards; its number.

        It asks by reading a line of each server's memory, about eight times a step, and takes no
        part of their processors. It never goes back: if a server was restored from older weights
        than this reader has seen, it waits until the job has come that far again.

        Blocks: until then, while a server is gone too; at most timeout seconds (None: that of the
        reader): then Timeout, or HistoryChanged while the job is behind what this reader has seen.
        """
        if not 0 <= version <= VERSION_MAX:
            raise _errors.Error(f"wait_for({version}): versions are from 0 to 2**56 - 1",
                                -errno.EINVAL)
        deadline = deadline_of(self.timeout if timeout is None else timeout)
        while (rc := lib.ol_wait_version(self._worker(), version, self._slice(deadline))) != 0:
            waits = rc in (-errno.ETIMEDOUT, lib.OL_E_HISTORY)
            if not waits or time.monotonic() >= deadline:
                raise _errors.make(rc)
        return max(version, self._last, self.newest())


class Job(Handle):
    """A worker's connection to a job. connect() opens one.

    It belongs to the thread that opened it: in another thread, and in a child of a fork, its
    methods raise WrongThread. A DataLoader's processes do not use it, so they may be forks.
    """

    def __init__(self, options: Options, timeout: float | None) -> None:
        self._options = options
        self.outage = {getattr(lib, name): word for word, name in OUTAGES.items()}[options.c.outage]
        self._lent: dict[int, object] = {}
        self._grads: dict[int, numpy.ndarray] = {}
        self._used = 0  # version of the weights that the caller has last seen
        self._joined = False  # a push of this process has been applied
        super().__init__(options.c, timeout)
        self._bases = ffi.new("uint64_t[]", self.shard_count)  # … and of each shard in them
        self._said = ffi.new("uint64_t[]", self.shard_count)
        options.forget_first()
        self._push_op, self._flush_op = Op(self._owner), Op(self._owner)
        self._info = ffi.new("struct ol_push_info *")
        self._grad_out = ffi.new("float **")
        self._borrowed = Lent()  # by a grad() that Ctrl-C ended

    def __repr__(self) -> str:
        return (f"<outlast.Job: worker {self._options.c.worker}, {self.param_count} parameters in "
                f"{self.shard_count} shards over {self.transport}>")

    def close(self) -> None:
        self._lent, self._grads = {}, {}
        super().close()

    close.__doc__ = Handle.close.__doc__

    def reader(self, timeout: float | None = None, weights: str = "fp32") -> Reader:
        """A reader of the same job, with a connection of its own; weights: as of reader().

        Blocks as connect() does.
        """
        again = Options()
        ffi.memmove(again.c, self._options.c, ffi.sizeof("struct ol_worker_opts"))
        again.keep = self._options.keep
        again.c.worker = 0
        again.c.outage = lib.OL_OUTAGE_WAIT
        again.c.weights_format = weights_format(weights)
        return Reader(again, self.timeout if timeout is None else timeout)

    def grad(self, timeout: float | None = None) -> numpy.ndarray:
        """Borrow a gradient buffer: float32, param_count long, writable.

        On shm it is the server's own memory (zero_copy): what is computed in it moves no more. It
        holds old data: write all of it. It belongs to the library again after push() or
        release(); then the array is read-only, and is not to be used.

        Blocks: until a buffer is free, at most timeout seconds.
        """
        self._grad_borrow(self._borrowed, timeout)
        pointer = self._borrowed.pointer
        address = int(ffi.cast("uintptr_t", pointer))
        array = self._grads.get(address)
        if array is None:
            array = numpy.frombuffer(self._buffer(pointer), dtype=numpy.float32)
            self._grads[address] = array
        array.flags.writeable = True
        self._lent[id(array)], self._borrowed.pointer = pointer, None
        return array

    def _grad_borrow(self, lent: Lent, timeout: float | None,
                     between: Callable[[], None] | None = None) -> None:
        """Let lent.pointer be a buffer, if it is not one from a call that Ctrl-C ended."""
        if lent.pointer is not None:
            return
        worker, out = self._worker(), self._grad_out
        out[0] = ffi.NULL
        try:
            rc = self._repeat(lambda: lib.ol_grad_acquire(worker, out),
                              deadline_of(self.timeout if timeout is None else timeout), between)
        finally:  # Ctrl-C is raised as the call returns
            lent.pointer = out[0] or None
        if rc == -errno.EBUSY:
            raise _errors.Error("all gradient buffers of this job are lent: push or release() what "
                                "grad() gave, detach() an optimizer that is done, or "
                                "connect(window=...) with more (launch(window=...) allows them)", rc)
        if rc != 0:
            raise _errors.make(rc)

    def release(self, grad: numpy.ndarray) -> None:
        """Give a gradient buffer back unpushed."""
        pointer = self._lent.get(id(grad))
        if pointer is None:
            raise ValueError("release() takes the array that grad() returned")
        self._grad_return(pointer)
        del self._lent[id(grad)]
        grad.flags.writeable = False

    def _grad_return(self, pointer: object) -> None:
        while (rc := lib.ol_grad_release(self._worker(), pointer)) == -errno.EAGAIN:
            self.poll()
        if rc != 0:
            raise _errors.make(rc)

    def push(self, grad: numpy.ndarray, *, loss: float = 0.0, samples: int = 1,
             weight: float = 1.0, base: int | Sequence[int] | None = None,
             span: tuple[int, int] | None = None, until: int | None = None,
             timeout: float | None = None) -> int:
        """Push the gradient in an array of grad(), and wait until it is in the servers' weights.

        loss: mean over the gradient's samples, for policies that look at it. weight: how much the
        gradient counts beside others of its step, as tokens or samples: a step is their weighted
        mean. base: version of the weights at which it was computed, or versions, one for each shard
        that is pushed; None: of those that pull() or weights() returned last.

        span: (first, count): push these floats of the array alone, which are one of `shards` or
        several that follow each other. The other shards are not touched. Workers of a job with
        consistency "sync" push the spans in one order, or they wait for each other.

        until: the version that the job ends with: the gradient is of no step behind it, but late.

        Returns the version that it made, of the first shard. With consistency "sync" that is when
        all workers have pushed theirs.

        Blocks: until it is applied; while a server is gone (outage "wait"); at most timeout
        seconds: then Timeout, and the gradient still takes effect, once. The same after Ctrl-C. With
        consistency "sync" the next gradient is then to be of newer weights: one of the same weights
        is late, as this one is of their step.
        Raises Late or NonFinite if the servers dropped it, Lost, NoServer.
        """
        pointer = self._lent.get(id(grad))
        if pointer is None:
            raise ValueError("push() takes the array that grad() returned, once")
        lent = Lent(pointer)
        try:
            self._push_start(lent, loss, samples, base, weight, span, until)
        finally:
            if lent.pointer is None:  # else it stays lent
                del self._lent[id(grad)]
                grad.flags.writeable = False
        return self._push_end(timeout)

    def _bases_of(self, base: int | Sequence[int] | None, shards: range) -> object:
        """The versions of these shards that a gradient was computed at; NULL: base alone tells."""
        if isinstance(base, int | numpy.integer):
            return ffi.NULL
        if base is None:
            return self._bases + shards.start
        if len(base) != len(shards):
            raise ValueError(f"{len(base)} base versions of {len(shards)} shards")
        self._said[0:len(shards)] = base
        return self._said

    def _push_start(self, lent: Lent, loss: float, samples: int,
                    base: int | Sequence[int] | None, weight: float = 1.0,
                    span: tuple[int, int] | None = None, until: int | None = None) -> None:
        """Push the buffer lent.pointer. Once the library has it, lent says so, whatever is raised."""
        if not WEIGHT_MIN <= weight <= WEIGHT_MAX:
            raise _errors.Error(f"weight {weight}: from {WEIGHT_MIN:g} to {WEIGHT_MAX:g}",
                                -errno.EINVAL)
        info = self._info
        info.base_versions = self._bases_of(base, self._shards_of(span))
        info.base_version = base if isinstance(base, int | numpy.integer) else 0
        info.loss = loss
        info.samples = samples
        info.weight = weight
        info.last_version = until or 0
        first, count = (0, self.param_count) if span is None else span
        worker, op = self._worker(), self._fresh(self._push_op)
        op.local = NOT_TAKEN
        try:
            rc = lib.ol_push_span_sized(worker, lent.pointer, first, count, info,
                                        ffi.sizeof("struct ol_push_info"), op)
        finally:  # Ctrl-C is raised as the call returns; here is nothing that it could come between
            if op.local != NOT_TAKEN:
                lent.pointer, lent.pushed = None, True
            else:
                self._push_op.lent = False
        if rc == -errno.EINVAL:
            raise _errors.Error(
                f"push() does not take base={base}: a base is the version of one of "
                "the last two pulls, or a list of one for each shard that is pushed; versions end "
                "at 2**56 - 1", rc)
        if rc == -errno.EOPNOTSUPP:
            raise _errors.Error("push() of a span: where a step is not one of all workers, servers "
                                "of several shards make it of whole gradients", rc)
        if rc != 0:
            raise _errors.make(rc)

    def _push_end(self, timeout: float | None,
                  between: Callable[[], None] | None = None) -> int:
        rc = self._wait(self._push_op, deadline_of(self.timeout if timeout is None else timeout),
                        between)
        if rc != 0:
            raise _errors.make(rc)
        self._joined = self._joined or not self._push_op.c.local
        return self._push_op.c.version

    def pull(self, newest: bool = False, timeout: float | None = None,
             span: tuple[int, int] | None = None, even: bool = True) -> Weights:
        """Read the weights of all shards. Never older than what this worker was told is applied.

        newest: first ask the servers for the newest version: one more round trip. span: (first,
        count), as for push(): read these alone. The array holds all weights, the others as they
        were; the first pull is one of all.

        even: of a synchronous job all shards of one version, until a push of this process has been
        applied: its last process may have died between its pushes to two shards. What is computed
        at these weights completes that step, and is Late where it was made. False: each shard at
        its newest, where workers push spans.

        Blocks: for a round trip; while a server (of the span) is gone (outage "wait"); at most
        timeout seconds.
        """
        self._pull_until(newest, deadline_of(self.timeout if timeout is None else timeout),
                         span=span, even=even and not self._joined)
        op = self._pull_op.c
        found = self.weights()
        return Weights(found.array, found.version, bool(op.local), op.age_ns / 1e9, found.tensors)

    def weights(self) -> Weights:
        """The weights that this process has: those of the last pull. Never blocks."""
        pointer = self._mirror()
        return Weights(read_only(self._buffer(pointer)), self._used, tensors=self.tensors())

    def _mirror(self) -> object:
        """Where the weights are now; gradients are computed at them from here on."""
        pointer, version = self._weights()
        if pointer == ffi.NULL:
            self.stat_links()  # raises what is wrong with the handle
            raise _errors.Error("no weights yet: call pull() first", -errno.ENODATA)
        self._used = version
        self._bases[0:self.shard_count] = [self._shard(shard).version
                                           for shard in range(self.shard_count)]
        return pointer

    @property
    def version(self) -> int:
        """Of the weights that pull() or weights() returned last; of the shard furthest behind."""
        return self._used

    @property
    def versions(self) -> list[int]:
        """Of each shard in the weights that pull() or weights() returned last."""
        return list(self._bases)

    def rule(self) -> Rule:
        """What the servers updated the weights of the last pull by, and go on with: pull() first.

        Never blocks.
        """
        self._mirror()
        made = ffi.new("struct ol_rule *")
        rc = lib.ol_rule_get_sized(self._worker(), made, ffi.sizeof("struct ol_rule"))
        if rc != 0:
            raise _errors.make(rc)
        return unpack(made)

    def set_rule(self, rule: Rule) -> None:
        """Change the rule: the next push takes it to the servers; its step is the first one by it.

        It is kept, pushed again and queued as the gradient is. If a gradient that takes it is
        dropped, the next one takes it. Never blocks. ValueError: a number is out of range; Error:
        more groups than the servers have room for (groups= of launch()), clip_norm with several
        shards.
        """
        rc = lib.ol_rule_set_sized(self._worker(), pack(rule), ffi.sizeof("struct ol_rule"))
        if rc == -errno.EINVAL:
            raise ValueError(fault(rule))
        if rc == -errno.ENOSPC:
            raise _errors.Error(f"the rule has {len(rule.groups)} groups, and the servers have no "
                                "room for so many: launch(groups=…), or outlast serve --groups", rc)
        if rc == -errno.EOPNOTSUPP:
            raise _errors.Error("clip_norm with several shards: no server has the whole gradient; "
                                "clip it before the push, or by clip_value", rc)
        if rc != 0:
            raise _errors.make(rc)

    def finish(self, version: int | None = None, timeout: float | None = None) -> bool:
        """At the end of a job: wait until every gradient of this worker is applied or dropped, and
        the servers that have them are there.

        version: where a synchronous job ends. Gradients for steps behind it are withdrawn, since
        other workers push none. False: a server came back with older weights, so there is more to
        compute.

        After it, close() takes this worker's mirror away. If a server may still die, stay until
        another worker has finished, too: stay().

        Blocks: until then, while a server is gone too, at most timeout seconds. Raises NoServer if one
        was gone for longer than outage_timeout.
        """
        deadline = deadline_of(self.timeout if timeout is None else timeout)
        while True:
            self._flush(deadline, lambda: self._withdraw_at(version))
            self._pull_until(True, deadline)
            self.poll()
            local = bool(self._pull_op.c.local)  # a server died between the two: wait for it
            if not local and not any(link["down"] for link in self.stat_links()):
                break
        self._mirror()
        return version is None or self._used >= version

    def _flush(self, deadline: float, between: Callable[[], None]) -> None:
        """Until all servers are connected, and every gradient is applied, dropped or lost."""
        rc = lib.ol_flush(self._worker(), self._fresh(self._flush_op))
        if rc == 0:
            between()
            rc = self._wait(self._flush_op, deadline, between)
        self._flush_op.lent = False
        error = None if rc == 0 else _errors.make(rc)
        if error is not None and not isinstance(error, _errors.Dropped | _errors.Lost):
            raise error

    def stay(self, until: object) -> None:
        """After finish(): keep this worker's mirror for servers that come back.

        until: a file, as sys.stdin of a process that is told to end by its parent. Blocks: until it
        can be read, or is at its end.
        """
        while not select.select([until], [], [], SLICE_MS / 1e3)[0]:
            self.poll()

    def _withdraw_at(self, version: int | None) -> None:
        """If the job is there, where it ends: take back gradients for steps that nobody makes."""
        if version is not None and self.newest() >= version \
                and not any(link["down"] for link in self.stat_links()):
            lib.ol_withdraw(self._worker())

    def stat_links(self) -> list[dict[str, float]]:
        """What became of this worker's gradients, one dict a shard: struct ol_link_stat."""
        found = []
        for shard in range(self.shard_count):
            link = ffi.new("struct ol_link_stat *")
            rc = lib.ol_link_get_stat_sized(self._worker(), shard, link,
                                            ffi.sizeof("struct ol_link_stat"))
            if rc != 0:
                raise _errors.make(rc)
            found.append(counters(link))
        return found

    def _times(self, shard: int) -> dict[str, object]:
        """How long this worker's pushes and pulls took at a shard: struct ol_link_times."""
        times = ffi.new("struct ol_link_times *")
        rc = lib.ol_link_get_times_sized(self._worker(), shard, times,
                                         ffi.sizeof("struct ol_link_times"))
        if rc != 0:
            raise _errors.make(rc)
        return counters(times)

    def stat(self, timeout: float | None = None) -> list[types.SimpleNamespace]:
        """The counters of each shard's server: struct ol_server_stat of outlast.h.

        Read from its memory with one RDMA read; its processor takes no part. `link` holds what
        became of this worker's gradients there: struct ol_link_stat. link.push and link.pull are how
        long its pushes and pulls took: struct ol_link_times.

        Blocks: for a round trip a shard, at most timeout seconds.
        """
        deadline = deadline_of(self.timeout if timeout is None else timeout)
        return list(self._stat_each(deadline))

    def _stat_each(self, deadline: float) -> Iterator[types.SimpleNamespace]:
        server = ffi.new("struct ol_server_stat *")
        size = ffi.sizeof("struct ol_server_stat")
        for shard, link in enumerate(self.stat_links()):
            rc = self._repeat(lambda at=shard: lib.ol_stat_sized(self._worker(), at, server, size),
                              deadline)
            if rc != 0:
                raise _errors.make(rc)
            link |= self._times(shard)
            yield types.SimpleNamespace(**counters(server), link=types.SimpleNamespace(**link))


def connect(address: object = None, *, coordinator: str | None = None, job: str | None = None,
            worker: int | None = None, job_key: str | None = None,
            job_key_file: str | None = None, outage: str | None = None,
            outage_timeout: float = 60.0, timeout: float | None = None,
            connect_timeout: float = 10.0, mirror_state: bool = True, gradients: str = "fp32",
            own_buffers: bool = False, transport: str | None = None, device: str | None = None,
            init: object = None, **options: object) -> Job:
    """Connect to the servers of a job as one of its workers.

    address: "10.0.0.1:7471", "@name" (shm), several with commas between, one a shard; or what
    launch() returned; or a coordinator, "dir:PATH" or "zk:HOST:PORT,...". None: $OUTLAST_JOB, as
    `outlast launch` sets it.
    worker: this worker's id, from 0, unique in the job; None: $OUTLAST_WORKER, or 0.
    job: the job's name at its coordinator; None: $OUTLAST_JOB_NAME, with $OUTLAST_JOB. job_key_file: as `outlast keygen` makes it.
    outage: what calls do while a server is gone: "wait" for it (the default), "continue" with the
    last weights, or "end" with NoServer.
    outage_timeout: seconds until "wait" and "continue" end, too; 0: never.
    timeout: seconds that a call waits, None: for ever; Ctrl-C ends any wait.
    mirror_state: pulls bring the optimizer's state (momentum, Adam), so that an empty server can
    be restored from this worker; costs their bytes with each pull.
    gradients: their elements on the way to the servers: "fp32"; "bf16" or "fp16", half the bytes;
    "int8", a quarter: what it rounds off goes into this worker's next push.
    own_buffers: gradient buffers are this process's own memory on shm, too, so that a model on a
    CUDA device is copied to page-locked memory; they are else the servers'.
    init: for servers that wait for them, launch(init="worker"): the job's first weights, a model of
    PyTorch, whose names and shapes then travel with the job, or a vector of float32. Worker 0's are
    taken; every worker may give some. A job that has weights keeps its own: pull() them.
    options: further fields of struct ol_worker_opts, by name.

    Blocks: until all servers are connected, at most connect_timeout seconds.
    Raises NoServer, Refused, or Error, with the library's line: at which server, and what to do.
    """
    if outage is None:
        outage = getattr(address, "outage", "wait")
    if not isinstance(outage, str) or outage not in OUTAGES:
        raise ValueError(f"outage {outage!r}: of {', '.join(OUTAGES)}")
    if not isinstance(gradients, str) or gradients not in FORMATS:
        raise ValueError(f"gradients {gradients!r}: of {', '.join(FORMATS)}")
    if worker is None:
        worker = worker_of("OUTLAST_WORKER")
    other_word("connect", options)
    made = found_options(address, "connect", coordinator=coordinator, job=job, worker=worker,
                         job_key=job_key, job_key_file=job_key_file,
                         outage=getattr(lib, OUTAGES[outage]),
                         outage_timeout_ms=milliseconds("outage_timeout", outage_timeout),
                         connect_timeout_ms=milliseconds("connect_timeout", connect_timeout, 1),
                         transport=transport, device=device, mirror_state=int(mirror_state),
                         gradient_format=getattr(lib, FORMATS[gradients]),
                         own_buffers=int(own_buffers), **options)
    if init is not None:
        made.begin_with(init)
    return Job(made, timeout)


def reader(address: object = None, *, coordinator: str | None = None, job: str | None = None,
           job_key: str | None = None, job_key_file: str | None = None,
           outage_timeout: float = 0.0, timeout: float | None = None,
           connect_timeout: float = 10.0, weights: str = "fp32", transport: str | None = None,
           device: str | None = None, **options: object) -> Reader:
    """Read the weights of a job, or of a relay, without being one of its workers.

    address, coordinator, job, job_key_file, transport, device, options: as of connect(). An
    observer's key will do (`outlast keygen --observer`).
    outage_timeout: seconds without a server until calls end with NoServer; 0: never.
    timeout: seconds that a call waits, None: for ever; Ctrl-C ends any wait.
    weights: as they come from the servers: "fp32"; "bf16", rounded, half the bytes, of servers that
    hold them so (launch(weights_bf16=True), outlast serve --weights-bf16). Arrays are float32.

    Blocks: until all servers are connected, at most connect_timeout seconds.
    Raises NoServer, Refused, or Error, with the library's line: at which server, and what to do.
    """
    other_word("reader", options)
    return Reader(found_options(address, "reader", coordinator=coordinator, job=job,
                                job_key=job_key, job_key_file=job_key_file,
                                outage=lib.OL_OUTAGE_WAIT,
                                outage_timeout_ms=milliseconds("outage_timeout", outage_timeout),
                                connect_timeout_ms=milliseconds("connect_timeout",
                                                                connect_timeout, 1),
                                transport=transport, weights_format=weights_format(weights), device=device, **options),
                  timeout)


def weights_format(weights: str) -> int:
    if weights not in ("fp32", "bf16"):
        raise ValueError(f"weights {weights!r}: of fp32, bf16")
    return getattr(lib, FORMATS[weights])


def found_options(address: object, call: str, *, coordinator: str | None, job_key: str | None,
                  job: str | None, job_key_file: str | None, **options: object) -> Options:
    """Where the job is, with which key, and what else its caller gave."""
    launched = address
    job = getattr(address, "job", None) if job is None else job
    if address is None and coordinator is None:
        address = os.environ.get("OUTLAST_JOB")
        job = os.environ.get("OUTLAST_JOB_NAME") if job is None else job
    address = None if address is None else str(address)
    if address is not None and address.startswith(("dir:", "zk:")):
        address, coordinator = None, address
    if address is None and coordinator is None:
        raise ValueError(f"{call}() needs an address, coordinator=, or $OUTLAST_JOB")
    if job_key is not None and job_key_file is not None:
        raise ValueError("give job_key or job_key_file, not both")
    if job_key_file is not None:
        job_key = read_key(job_key_file)
    elif job_key is None:
        job_key = os.environ.get("OUTLAST_JOB_KEY")
    made = Options(servers=address, coordinator=coordinator, job=job, job_key=job_key, **options)
    made.keep.append(launched)  # its servers run while it is referred to
    made.set("op_timeout_ms", SLICE_MS)  # the wait that lasts is Python's
    return made


def library_version() -> str:
    """"1.0.0": of the library in use."""
    return text(lib.ol_version(ffi.NULL))
