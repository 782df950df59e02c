# SPDX-License-Identifier: BSD-3-Clause
"""Optimizer: gradients go to the servers, which make the steps."""
import errno
import itertools
import weakref
from collections.abc import Callable

import torch

from .. import _errors
from .._job import Job
from .._library import lib
from .._rule import Group
from ._lane import FLOAT_BYTES
from ._model import Layout, Model
from ._place import Claim, Counters, Held, Place, places_of

GROUP_WORDS = ("lr", "momentum", "weight_decay", "clip_value", "clip_norm")


class Rates:
    """param_groups as the servers' rule: what changes in them goes there with the next gradient."""

    def __init__(self, job: Job, groups: list[dict], defaults: dict) -> None:
        self.job, self.groups = job, groups
        self.rule = job.rule()
        self.first = [0]
        for group in groups[:-1]:
            self.first.append(self.first[-1] + sum(one.numel() for one in group["params"]))
        now = self.rule.groups
        for index, group in enumerate(groups):
            server = now[index if len(now) == len(groups) else 0]
            words = {word: getattr(server, word) for word in GROUP_WORDS}
            words |= {"betas": (server.beta1, server.beta2), "eps": server.epsilon}
            unknown = set(group) - set(words) - {"params", "param_names"}
            if unknown:
                raise ValueError(f"parameter group {index}: {', '.join(sorted(unknown))}: the "
                                 f"servers know {', '.join(words)}")
            for word, value in words.items():
                group.setdefault(word, defaults.get(word, value))

    def defaults(self) -> dict:
        """As torch's optimizer of that kind has them: betas, or momentum."""
        first = self.groups[0]
        last = "betas" if any(first["betas"]) else "momentum"
        return {word: first[word] for word in ("lr", "weight_decay", last)}

    def wanted(self) -> list[Group]:
        return [Group(first, *(float(group[word]) for word in GROUP_WORDS[:3]),
                      *(float(beta) for beta in group["betas"]), float(group["eps"]),
                      *(float(group[word]) for word in GROUP_WORDS[3:]))
                for first, group in zip(self.first, self.groups)]

    def tell(self) -> None:
        """If a number has changed since the last call."""
        wanted = self.wanted()
        if wanted == self.rule.groups:
            return
        self.rule.groups = wanted
        self.job.set_rule(self.rule)


class Overlap:
    """Tells the library which gradients are whole, while backward() computes the others."""

    def __init__(self, optimizer: "Optimizer") -> None:
        parameters = optimizer._parameters
        self._optimizer = weakref.ref(optimizer)
        self._nodes: list[object] = []  # autograd holds them weakly
        here = weakref.ref(self)  # Python's collector does not see what autograd holds
        for index, parameter in enumerate(parameters):
            wanted = parameter.requires_grad
            parameter.requires_grad_(True)  # one that is frozen may be trained later
            with torch.enable_grad():
                node = parameter.view_as(parameter).grad_fn.next_functions[0][0]
            parameter.requires_grad_(wanted)
            node.register_hook(lambda *_, index=index: here() and here()._added(index))
            self._nodes.append(node)
        self._firsts = [0, *itertools.accumulate(one.numel() for one in parameters)]
        self.begin()

    def begin(self) -> None:
        """The buffer is new, and holds zeros."""
        self.missing = [True] * len(self._nodes)
        self._behind = len(self.missing)  # from this parameter on all are whole
        self.count = 0  # gradients that backward() has added

    @property
    def sent(self) -> bool:
        """The servers may have read a part."""
        return self._behind < len(self.missing)

    def _added(self, index: int) -> None:
        """Autograd has added a parameter's gradient, in the thread of backward()."""
        optimizer = self._optimizer()
        grad = optimizer._grad
        if grad is None or grad.is_moved(index) \
                or optimizer._parameters[index].grad is not grad.parts[index]:
            return  # it lies elsewhere: step() brings it into the buffer
        if self.count == 0:  # backward() has begun: what is frozen now stays 0
            self.missing = [parameter.requires_grad for parameter in optimizer._parameters]
        if not self.missing[index]:
            raise _errors.Error(f"the gradient of parameter {index} was whole, and is added to: "
                                "overlap=True wants one backward() a step", -errno.EPERM)
        if self.count == 0:  # what was zeroed or added before backward() is part of it
            optimizer._clean = grad.flat._version - 1
        self.missing[index] = False
        self.count += 1
        behind = self._behind
        while behind > 0 and not self.missing[behind - 1]:
            behind -= 1
        if behind < self._behind:
            self._behind = behind
            optimizer._places.ready(self._firsts[behind])


class Optimizer(torch.optim.Optimizer):
    """Trains a model through a job: the servers hold its parameters, and make the steps.

    model: a Module, its parameters, or torch's parameter groups; float32, on the CPU or on one CUDA
    device. job: of outlast.connect(). defaults: lr=, weight_decay= and the like of groups that do
    not say them.

    The optimizer is the servers' (launch(rule=…)), and so is what neither a group nor defaults say.
    Groups have lr, momentum, weight_decay, betas, eps, clip_value and clip_norm; schedulers of torch
    change them. A change goes to the servers with the next step(), which is made by it, and is kept
    there as weights are: a server that is killed or replaced goes on by it. If workers want different
    numbers in one step, those of the largest worker id are taken.

    On the CPU nothing is copied: parameters are views of the job's mirror, and their .grad are views
    of the gradient buffer that backward() adds to and that the servers read. Each pull writes the
    other one of two mirrors, so step() points the parameters at new memory (data_ptr() changes);
    tensors that a program made of a parameter's .data before do not follow.

    On a CUDA device parameters and their .grad are views of two vectors there. A step copies the
    gradients to the job's page-locked memory and the new weights back, on a stream of its own; with
    overlap gradients are copied beside backward().

    bytes_copied counts these, and the exceptions: gradients that the program put elsewhere
    (zero_grad() of a model with set_to_none=True, autograd of gradients, .grad.data = …), and on the
    CPU close(), which gives a model memory of its own. late counts gradients that the servers dropped as late.

    overlap: gradients go to the servers, which begin to apply them, while backward() computes those
    of the layers before; of a device they are copied meanwhile, and go when it has returned. Then
    each step has one backward(), and nobody changes .grad after it: step() raises Error if somebody
    did (by torch's version counter: a write through .grad.data is not seen, as that of
    torch.nn.utils.clip_grad_value_(), which does not clip then). To clip, give groups clip_value or
    clip_norm.

    A model gets memory of its own when its optimizer is gone, or detach() or close() of the job is
    called. An optimizer has one of the job's gradient buffers for as long as it lives, and the job and
    the model for itself: another one, or a learner of DiLoCo, is refused until then.
    """

    def __init__(self, model: Model, job: Job, timeout: float | None = None,
                 overlap: bool = False, **defaults: object) -> None:
        groups = model.parameters() if isinstance(model, torch.nn.Module) else model
        super().__init__(groups, {})
        self.job, self.timeout = job, timeout
        self.bytes_copied = 0
        self._late_before = self._late_now = self._late_ever(job)
        self._parameters = [one for group in self.param_groups for one in group["params"]]
        layout = Layout(self._parameters)
        layout.fit(job)
        Claim.check(job, self._parameters)
        self._claim: Claim | None = None
        self._counters = Counters(self._parameters)
        self._places = places_of(job, layout)
        self._grad: Place | None = None  # the buffer that is lent to this process
        self._clean = -1  # version counter of the buffer's tensor when it held zeros
        self._versions: list[int] = []
        self._base = 0  # version of the weights that the parameters are, and where these lie
        self._starts: list[int] = []
        job.pull(newest=True, timeout=timeout)
        layout.match(model, job)
        self._rates = Rates(job, self.param_groups, defaults)
        self._rates.tell()
        self.defaults.update(self._rates.defaults())  # schedulers of momentum look there
        self._overlap = Overlap(self) if overlap else None
        self._held = Held(job, self._places.lane, self._parameters)
        self._end = weakref.finalize(self, self._held.release)
        self._end.atexit = False
        job._on_close(self.detach)
        try:
            self._borrow()
            self._point()
        except BaseException:  # who looks at the exception keeps this object
            self.detach()
            raise
        self._claim = Claim(self, job, self._parameters)

    @staticmethod
    def _late_ever(job: Job) -> list[int]:
        return [int(link["late"]) for link in job.stat_links()]

    @property
    def late(self) -> int:
        """Gradients that the servers dropped as late, also while nobody waited for them."""
        if self._held.active:
            self._late_now = self._late_ever(self.job)
        return max(now - before for now, before in zip(self._late_now, self._late_before))

    def load_state_dict(self, state_dict: dict) -> None:
        """Learning rates and the like; what the servers keep, momentum for one, is not in it."""
        super().load_state_dict(state_dict)
        self._rates.groups = self.param_groups  # torch has made new ones

    def __getstate__(self) -> dict:
        raise TypeError("an Optimizer cannot be copied: its parameters lie in the memory of a job; "
                        "state_dict() has its numbers")

    def add_param_group(self, param_group: dict) -> None:
        """Only the constructor makes groups: they are where parameters lie in the job's vector."""
        if hasattr(self, "_rates"):
            raise _errors.Error("a parameter group after the others: the job's vector has no place "
                                "for it; give all groups to Optimizer()", -errno.EPERM)
        super().add_param_group(param_group)

    def _point(self) -> None:
        """Parameters are views of where the last weights are."""
        place = self._places.weights()
        self._base, self._starts = self.job.version, place.starts
        for parameter, part in zip(self._parameters, place.parts):
            parameter.data = part
        self._counters.count()
        self._versions = [parameter._version for parameter in self._parameters]

    def _borrow(self) -> None:
        """A gradient buffer of zeros, which .grad are views of."""
        self.job._grad_borrow(self._held, self.timeout)
        self._grad = self._places.gradients(self._held.pointer)
        self._grad.flat.zero_()
        self._clean = self._grad.flat._version
        if self._overlap is not None:
            self._overlap.begin()
        self._attach()

    def _attach(self) -> None:
        for index, parameter in enumerate(self._parameters):
            if parameter.requires_grad:
                parameter.grad = self._grad.part(index)

    def _drop(self) -> None:
        """.grad must not show memory that the library has."""
        self._grad = None
        for parameter in self._parameters:
            parameter.grad = None

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Set all gradients to zero, in place: set_to_none changes nothing."""
        if self._grad is None or self._held.pointer is None:  # interrupted, or detached
            self._drop()
            return
        if self._overlap is not None and self._overlap.sent:  # the servers may have read it
            self._drop()
            self._places.lane.finish()
            self.job._grad_return(self._held.pointer)
            self._held.pointer = None
            self._borrow()
        elif self._grad.flat._version != self._clean or self._overlap is not None:
            self._grad.flat.zero_()
            self._clean = self._grad.flat._version
            if self._overlap is not None:
                self._overlap.begin()
        self._attach()

    def _gather(self) -> None:
        """Bring gradients that lie elsewhere into the buffer."""
        for index, parameter in enumerate(self._parameters):
            found, part = parameter.grad, self._grad.part(index)
            if found is part or not parameter.requires_grad:
                continue
            if found is None:
                part.zero_()
            else:
                part.copy_(found.detach())
                self.bytes_copied += FLOAT_BYTES * part.numel()

    def _judge(self) -> None:
        """What was sent while backward() ran is what lies there now."""
        if self._overlap is None or not self._overlap.sent:
            return
        same = [parameter.grad is self._grad.parts[index] and not self._grad.is_moved(index)
                for index, (parameter, missing) in
                enumerate(zip(self._parameters, self._overlap.missing))
                if parameter.requires_grad and not missing]
        if not all(same) or self._grad.flat._version != self._clean + self._overlap.count:
            raise _errors.Error("a gradient was changed after backward() had sent it: overlap=True "
                                "wants .grad as backward() leaves it; zero_grad() begins again",
                                -errno.EPERM)

    def _check(self) -> None:
        if not self._held.active:
            raise _errors.Closed("the optimizer was detached from its job: make another one")
        for index, parameter in enumerate(self._parameters):
            if parameter._version != self._versions[index]:
                what = "written in place"
            elif parameter.data_ptr() != self._starts[index]:
                what = "moved to other memory"
            else:
                continue
            self._point()  # the servers' weights again, where they were not written
            raise _errors.Error(
                f"parameter {index} was {what}: it is the servers', and lies in the mirror, from "
                "which a server may be restored; give other weights to launch()", -errno.EPERM)

    def step(self, closure: Callable[[], float] | None = None, *, loss: float | None = None,
             samples: int = 1, weight: float = 1.0) -> float | None:
        """Push the gradients, wait until they are in the servers' weights, and pull these.

        loss, samples: what the gradient was computed of, for policies that look at them. weight: as
        of Job.push(). The gradients are zero afterwards.

        Blocks: until then: with consistency "sync" for the other workers, with outage "wait" while
        a server is gone; at most timeout seconds. Ctrl-C ends it; the gradient still takes effect.
        After Timeout or Ctrl-C the next gradient is of the same weights: with consistency "sync" it
        is dropped, and counted in `late`.
        """
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._check()
        with torch.no_grad():
            if self._grad is None or self._held.pointer is None:  # an earlier step was interrupted
                elsewhere = [parameter.grad for parameter in self._parameters]
                self._borrow()
                for parameter, grad in zip(self._parameters, elsewhere):
                    parameter.grad = grad
            self._judge()
            self._gather()
            self._exchange(0.0 if loss is None else float(loss), samples, weight)
            self._borrow()
            self._point()
        return loss

    def _exchange(self, loss: float, samples: int, weight: float) -> None:
        self._rates.tell()
        self._places.land()
        self.bytes_copied += self._places.step_bytes
        try:
            self.job._push_start(self._held, loss, samples, self._base, weight)
        finally:
            if self._held.pointer is None:
                self._drop()
        try:
            self.job._push_end(self.timeout)
        except _errors.Late:
            pass  # it is counted
        self.job.pull(timeout=self.timeout)

    def detach(self) -> None:
        """Give the model memory of its own, with the last weights; close() of the job does it."""
        if self.job._is_parents():
            raise _errors.make(lib.OL_E_THREAD)
        if self._claim is not None:
            self._claim.end()
        if self._held.active:
            self._grad = None
            if self.job._owner is not None:
                self._late_now = self._late_ever(self.job)
            self.bytes_copied += self._held.release()
            self._places.known = {}
