# SPDX-License-Identifier: BSD-3-Clause
"""DiLoCo: what many inner steps have changed goes to the servers, which make an outer step."""
import errno
import numbers
import time
import weakref
from collections.abc import Callable, Iterable

import torch

from .. import _errors
from .._handle import Lent, deadline_of
from .._job import Job
from .._library import lib
from ._lane import FLOAT_BYTES
from ._model import Layout, parameters_of
from ._place import Claim, Counters, Place, Places, give_back, give_back_to

TOKENS_MAX = 1e15  # of an inner step
LOOK_S = 0.002  # between two looks whether a step is made


def whole(name: str, value: int, least: int) -> int:
    """A whole number of steps."""
    if not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} {value!r}: a whole number of steps, at least {least}")
    return int(value)


class Learner:
    """What learners of DiLoCo have in common: a model that the inner optimizer writes, in memory of
    its own, and one gradient buffer of the job."""

    _even = True  # it pushes to all shards at once

    def __init__(self, model: torch.nn.Module | Iterable[torch.nn.Parameter],
                 inner: torch.optim.Optimizer, every: int, job: Job,
                 timeout: float | None) -> None:
        every = whole("every", every, 1)
        if job.outage != "wait":
            raise ValueError('DiLoCo needs connect(outage="wait"): an outer step is made of all '
                             "learners' inner steps, or waits")
        self.inner, self.every, self.job, self.timeout = inner, every, job, timeout
        self.steps = 0  # inner ones
        self.late = 0  # pseudo-gradients that came after their step, and were dropped
        self.bytes_copied = 0
        parameters = parameters_of(model)
        if {id(one) for one in parameters_of(inner.param_groups)} - {id(one) for one in parameters}:
            raise ValueError("inner: an optimizer of this model's parameters, not of others")
        layout = Layout(parameters)
        layout.fit(job)
        Claim.check(job, parameters)
        job.pull(newest=True, timeout=timeout, even=self._even)
        layout.match(model, job)
        self._counters = Counters(parameters)
        self._places = Places(job, layout)
        self._lane = self._places.lane
        self._local = torch.empty(layout.count, device=layout.device)
        self._parameters = parameters
        self._place = Place(self._local, layout)
        for parameter, part in zip(parameters, self._place.parts):
            parameter.data = part
        self._lent = Lent()
        weakref.finalize(self, give_back_to, weakref.ref(job), self._lent).atexit = False
        job._on_close(self._forget)
        self._claim: Claim | None = Claim(self, job, parameters)

    def detach(self) -> None:
        """The job and the model are free for another optimizer or learner. close() of the job does it,
        and so does the end of this object. The model keeps what it has."""
        if self.job._is_parents():
            raise _errors.make(lib.OL_E_THREAD)
        if self._claim is not None:
            give_back(self.job, self._lent)
            self._forget()

    def _check(self) -> None:
        if self._claim is None:
            raise _errors.Closed("the learner was detached from its job: make another one")
        if self._lent.pushed:
            self._pushed()
            self._lent.pushed = False

    def _pushed(self) -> None:
        """The library has the buffer of _lent; called once for each, Ctrl-C or not."""

    @property
    def outer_steps(self) -> int:
        """Outer steps that are in the model: the version of the job's weights."""
        return self.job.version

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.inner.zero_grad(set_to_none=set_to_none)

    def _inner_step(self, closure: Callable[[], float] | None, tokens: float) -> float | None:
        self._check()
        if not 0.0 <= tokens <= TOKENS_MAX:
            raise ValueError(f"tokens {tokens}: from 0 to {TOKENS_MAX:g}")
        result = self.inner.step(closure)
        self._gather()
        self.steps += 1
        self.job.poll()  # a server that was restored meanwhile finds this learner
        return result

    def _gather(self) -> None:
        """Bring parameters that the program has moved to other memory back to where they were."""
        for index, (parameter, start) in enumerate(zip(self._parameters, self._place.starts)):
            if parameter.data_ptr() == start:
                continue
            part, found = self._place.part(index), parameter.detach()
            if (found.dtype, found.device, found.shape) != (part.dtype, part.device, part.shape):
                raise _errors.Error(f"parameter {index} has become {found.dtype} on {found.device}: "
                                    f"it was {part.dtype} on {part.device} when the job got it",
                                    -errno.EPERM)
            part.copy_(found)
            parameter.data = part
            self.bytes_copied += FLOAT_BYTES * part.numel()

    def _borrow(self) -> None:
        self.job._grad_borrow(self._lent, self.timeout, self._end_of_job)

    def _end_of_job(self) -> None:
        """While the learner waits: look whether the job is where it ends."""

    def _wait_while(self, waits: Callable[[], bool], deadline: float, what: str) -> None:
        while waits():
            self._end_of_job()
            if time.monotonic() >= deadline:
                raise _errors.Timeout(f"{what} is not made yet", -errno.ETIMEDOUT)
            time.sleep(LOOK_S)
            self.job.poll()

    def _end(self, timeout: float | None) -> None:
        try:
            self.job._push_end(timeout, self._end_of_job)
        except _errors.Late:
            self.late += 1

    def _forget(self) -> None:
        """At close() of the job: the model has memory of its own already."""
        if self._claim is not None:
            self._claim.end()
        self._claim = None
        self._lane.finish()
        self._places.known = {}
        self._lent.pointer = None


class DiLoCo(Learner):
    """A learner of DiLoCo (Douillard and others 2023): many inner steps, then one outer one.

    inner: the optimizer of the model's parameters, in this process (AdamW); its state stays here.
    every: inner steps between two outer ones. The servers make the outer step: start them with
    rule "nesterov", lr 0.7, momentum 0.9, consistency "sync" and as many workers as learners. job:
    of outlast.connect() with outage "wait" and mirror_state, so that an outer step is never lost
    and the outer momentum survives the servers.

    An outer step pushes the pseudo-gradient, which is the weights of the last outer step less this
    learner's. It is computed in the gradient buffer, of weights that are read in the mirror: no
    copy. Then the new weights are copied into the model once, since the inner optimizer writes its
    parameters, and the mirror must not be written: bytes_copied. A model on a CUDA device reads the
    old weights, and writes the pseudo-gradient, in pieces: two copies more, at the same time.

    Learners that compute different amounts say so: the sum of the inner steps' tokens is the weight
    of the pseudo-gradient in the mean of all learners.

    Learners of different speed need not wait for each other: consistency "sync:quorum,k=N,grace=MS,
    late=next" makes an outer step of N or more, and takes those that come later into the next one;
    without late=next these are dropped, and `late` counts them. With follow=True a learner keeps up
    with such steps: as soon as others have made an outer step, it brings what its inner steps have
    changed onto the newest weights, and makes the rest of its inner steps from there. So what it
    pushes is of the newest weights, or one outer step old. Each pseudo-gradient is of `every` inner
    steps, however slow its learner is: if learners pushed fewer when others are ahead, a step would
    call forth the next, ever faster. With follow=False it makes all inner steps at the weights of
    the last outer step that it knows: they are as old as it is slow.

    until: the outer step that the job ends with, the same for all learners: each of them ends with its
    weights. A pseudo-gradient that comes too late for it is dropped, and counted in `late`: no step
    behind it is made, however many such ones come. Without until such a learner waits for that step.
    """

    def __init__(self, model: torch.nn.Module | Iterable[torch.nn.Parameter],
                 inner: torch.optim.Optimizer, every: int, job: Job,
                 timeout: float | None = None, follow: bool = False,
                 until: int | None = None) -> None:
        self.follow, self.until = follow, None if until is None else whole("until", until, 0)
        super().__init__(model, inner, every, job, timeout)
        self.since = 0  # inner steps since the last outer one
        self.tokens = 0.0  # of these
        self._pushes = False  # what the inner steps change is to be pushed
        self._stranded = False  # on weights that the job has no more
        try:
            self._load()
        except BaseException:  # who looks at the exception keeps this object
            self.detach()
            raise

    def _load(self) -> None:
        """Borrow the buffer for the next outer step, then take the weights that are there now."""
        if not self._is_over(self.job._weights()[1]):
            self._borrow()
        self._take()
        self._begin()

    def _is_over(self, version: int) -> bool:
        """No outer step follows these weights."""
        return self.until is not None and version >= self.until

    def _take(self) -> None:
        """Copy the weights that are there now into the model."""
        self._base = self._places.mirror().flat
        self._base_version, self._stranded = self.job.version, False
        self._lane.bring(self._local, self._base)
        self._counters.count()
        self.bytes_copied += FLOAT_BYTES * len(self._local)

    def _begin(self) -> None:
        self._pushes, self.since, self.tokens = True, 0, 0.0

    def _changed(self) -> torch.Tensor:
        """What the inner steps have changed, as a gradient, in the buffer of the next push."""
        grad = self._places.buffer(self._lent.pointer).flat
        with torch.no_grad():
            self.bytes_copied += self._lane.difference(grad, self._base, self._local)
        return grad

    def step(self, closure: Callable[[], float] | None = None, *, loss: float | None = None,
             samples: int = 1, tokens: float = 0.0) -> float | None:
        """An inner step; each `every` of them an outer one, which blocks as sync() does.

        tokens: that it was computed from (or samples): all learners say so, or none does.
        """
        result = self._inner_step(closure, tokens)
        self.since += 1
        self.tokens += tokens
        if self.since >= self.every:
            self.sync(loss=loss if loss is not None else result, samples=samples)
        elif self._is_behind():
            self._follow()
        return result

    def _is_behind(self) -> bool:
        """Others have made an outer step since this learner's weights, which it follows."""
        return (self.follow and not self._is_over(self._base_version)
                and self.job.newest() > self._base_version)

    def _follow(self) -> None:
        """Bring what this learner has changed onto the newest weights."""
        if not self._pushes:  # what it has changed was pushed, or is lost
            self.sync()
            return
        changed = self._changed()  # of the old weights: pulls write over them
        try:
            self.job._pull_until(True, deadline_of(self.timeout), self._end_of_job)
        except BaseException:
            self._base = self._base.clone()  # that pull may still come, and another after it
            self._stranded = True
            raise
        with torch.no_grad():
            self._take()
            if self._is_over(self._base_version):
                self._begin()  # no step follows that could take what it has changed
            else:
                self.bytes_copied += self._lane.subtract(self._local, changed)

    def sync(self, *, loss: float | None = None, samples: int = 1,
             weight: float | None = None) -> None:
        """An outer step now: push the pseudo-gradient, wait for the step, load its weights.

        weight: of the pseudo-gradient beside those of other learners; None: the tokens since the
        last outer step; without any 1.

        Blocks: until all learners have pushed theirs (with follow: until somebody's step is made);
        while a server is gone; at most timeout seconds. After Timeout or Ctrl-C the pseudo-gradient
        still takes effect, once: the next call only loads the weights. After Lost (the servers went
        back in history) it is gone, and the next call only loads their weights, too.
        """
        self._check()
        self._gather()
        job = self.job
        deadline = deadline_of(self.timeout)
        if self._pushes and self.follow:
            self._end_last()
            if self._stranded:
                self._follow()
        if self._pushes and self._is_over(max(job.newest(), self._base_version)):
            self.late += self.since > 0
            self._pushes = False  # a push would be of a step that nobody is to make
        if self._pushes:
            self._borrow()
            self._changed()
            job._push_start(self._lent, 0.0 if loss is None else float(loss), samples,
                            self._base_version, weight or self.tokens or 1.0, until=self.until)
            self._check()
            if not self.follow:
                self._end(self.timeout)
        # with follow False: the push before was interrupted
        self._wait_while(self._waits, deadline, "the outer step")
        job._pull_until(True, deadline, self._end_of_job, even=not job._joined)
        if self._is_over(job._weights()[1]):
            self._end_at_last(deadline)
        with torch.no_grad():
            self._load()

    def _pushed(self) -> None:
        self._pushes, self.since, self.tokens = False, 0, 0.0

    def _end_of_job(self) -> None:
        self.job._withdraw_at(self.until)

    def _end_at_last(self, deadline: float) -> None:
        """The job is where it ends: what is still under way comes to its end, too."""
        if self.job._push_op.lent:
            self._end_of_job()
            self._end(max(0.0, deadline - time.monotonic()))

    def _end_last(self) -> None:
        """With follow: what became of the push before, if that is known already."""
        op = self.job._push_op
        if op.lent and op.c.done:
            try:
                self._end(0.0)
            except _errors.Lost:
                self._pushes = False
                raise

    def _waits(self) -> bool:
        """Until the weights that follow this learner's are there."""
        if self.follow:
            self._end_last()
            return self.job._push_op.lent and not self._is_behind()
        return any(link["pending"] for link in self.job.stat_links())

    def _forget(self) -> None:
        super()._forget()
        self._base = None
        self._pushes = False
