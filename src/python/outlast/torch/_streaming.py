# SPDX-License-Identifier: BSD-3-Clause
"""StreamingDiLoCo: fragments of the model go to the servers one after the other."""
import collections
import errno
from collections.abc import Callable, Iterable

import torch

from .. import _errors
from .._handle import deadline_of
from .._job import Job
from ._diloco import Learner, whole
from ._lane import FLOAT_BYTES


class StreamingDiLoCo(Learner):
    """A learner of streaming DiLoCo (Douillard and others 2025, arXiv 2501.18512): as DiLoCo, but the
    model goes out in fragments, each at its own time, so that traffic is even.

    The job's shards are the fragments: start as many servers, with what DiLoCo needs and consistency
    "sync". Each fragment is exchanged every `every` inner steps, `every` by their number after the
    one before it. All learners exchange in that order.

    delay: inner steps that the learner makes while a fragment is under way, fewer than there are
    between two fragments. What they have changed of the fragment is mixed into its new weights:
    mix times the learner's own, and 1 - mix times the new ones. Without delay nothing is mixed.

    One that is started again, as the worker that it was, begins at the fragment that is next: others
    wait for it.

    Each learner has one gradient buffer, and pulls one fragment at a time: a server of another
    fragment that is gone delays nothing. Other pulls of the job read all fragments, which this learner
    then finds newer than it has loaded: read elsewhere (job.reader()).
    """

    _even = False

    def __init__(self, model: torch.nn.Module | Iterable[torch.nn.Parameter],
                 inner: torch.optim.Optimizer, every: int, job: Job,
                 timeout: float | None = None, delay: int = 0, mix: float = 0.5) -> None:
        fragments = len(job.shards)
        every, delay = whole("every", every, 1), whole("delay", delay, 0)
        if every < fragments:
            raise ValueError(f"every {every}: the job has {fragments} fragments, one a step at most")
        if not 0 <= delay < every // fragments:
            raise ValueError(f"delay {delay}: from 0 to {every // fragments - 1}, as {fragments} "
                             f"fragments in {every} steps are {every // fragments} apart")
        if not 0.0 <= mix <= 1.0:
            raise ValueError(f"mix {mix}: from 0 to 1")
        super().__init__(model, inner, every, job, timeout)
        self.delay, self.mix = delay, mix
        self._due = [(at + 1) * every // fragments % every for at in range(fragments)]
        self._owed: collections.deque[int] = collections.deque()  # fragments to push
        self._under_way: int | None = None  # the fragment that was pushed, and is to be loaded
        self._pushed_at = 0  # the inner step after which it was
        self._load_at = 0
        self._tokens = [0.0] * fragments  # of the inner steps since each was pushed
        self._versions = [0] * fragments  # of each in the model
        for fragment in range(fragments):
            self._take(fragment, 0.0)
        # in the middle of a round, others wait at the first fragment that is behind
        behind = [at for at in range(fragments) if self._versions[at] < self._versions[0]]
        if behind:
            self.steps = self._due[behind[0] - 1]

    def step(self, closure: Callable[[], float] | None = None, *, loss: float | None = None,
             samples: int = 1, tokens: float = 0.0) -> float | None:
        """An inner step; at a fragment's turn its exchange, which blocks as DiLoCo.sync() does.

        After Timeout or Ctrl-C the next step goes on with what was not done. loss, samples, tokens:
        as of DiLoCo.
        """
        result = self._inner_step(closure, tokens)
        self._tokens = [before + tokens for before in self._tokens]
        self._owed.extend(fragment for fragment, due in enumerate(self._due)
                          if self.steps % self.every == due)
        if self._under_way is not None and self.steps >= self._load_at:
            self._finish()
        self._exchange(loss if loss is not None else result, samples, self.delay)
        return result

    def sync(self, *, loss: float | None = None, samples: int = 1) -> None:
        """Exchange all fragments now, one after the other: before the end of a job. All learners do
        so after the same inner step. Blocks as DiLoCo.sync() does."""
        self._check()
        self._gather()
        self._owed.extend(range(len(self._due)))
        self._exchange(loss, samples, 0)

    def _exchange(self, loss: float | None, samples: int, delay: int) -> None:
        while self._owed:
            if self._under_way is not None:
                self._finish()
            self._start(self._owed[0], loss, samples, delay)
            if delay == 0:
                self._finish()

    def _part(self, fragment: int) -> slice:
        first, count = self.job.shards[fragment]
        return slice(first, first + count)

    def _start(self, fragment: int, loss: float | None, samples: int, delay: int) -> None:
        """Push what the inner steps have changed of a fragment."""
        job, part = self.job, self._part(fragment)
        self._borrow()
        base = self._places.mirror().flat
        version = job._shard(fragment).version
        if version != self._versions[fragment]:
            raise _errors.Error(f"fragment {fragment} was pulled at version {version}, and the model "
                                f"has version {self._versions[fragment]}: streaming needs "
                                'consistency "sync", and no other pull of this job', -errno.ESTALE)
        grad = self._places.buffer(self._lent.pointer).flat
        with torch.no_grad():
            self.bytes_copied += self._lane.difference(grad[part], base[part], self._local[part])
        self._delay = delay
        job._push_start(self._lent, 0.0 if loss is None else float(loss), samples, [version],
                        self._tokens[fragment] or 1.0, job.shards[fragment])
        self._check()

    def _pushed(self) -> None:
        self._under_way = fragment = self._owed.popleft()
        self._tokens[fragment] = 0.0
        self._pushed_at, self._load_at = self.steps, self.steps + self._delay

    def _finish(self) -> None:
        """Wait until the fragment's outer step is made, and load its new weights."""
        job, fragment = self.job, self._under_way
        deadline = deadline_of(self.timeout)
        if job._push_op.lent:
            self._end(self.timeout)
        # if the wait before was interrupted
        self._wait_while(lambda: job.stat_links()[fragment]["pending"] > 0, deadline,
                         f"the outer step of fragment {fragment}")
        job._pull_until(True, deadline, span=job.shards[fragment])
        self._take(fragment, self.mix if self.delay and self.steps > self._pushed_at else 0.0)
        self._under_way = None

    def _take(self, fragment: int, mix: float) -> None:
        """Bring the fragment's weights that are there now into the model, beside mix of its own."""
        part = self._part(fragment)
        host = self._places.mirror().flat[part]
        with torch.no_grad():
            if mix == 0.0:
                self._lane.bring(self._local[part], host)
            else:
                self._lane.mix(self._local[part], host, mix)
        self._versions[fragment] = self.job._shard(fragment).version
        self._counters.count()
        self.bytes_copied += FLOAT_BYTES * len(host)
