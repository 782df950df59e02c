# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch models whose parameters are a job's: Optimizer pushes gradients, DiLoCo what many inner
steps have changed.

A model's parameters, in the order of model.parameters(), are one flat vector, as long as the job's.
Buffers of a model, as a batch norm's averages, stay this process's own.

A parameter of a model under Optimizer lies in the mirror: the library writes there, the program
must not. torch has no read-only tensors, so Optimizer.step() looks whether a parameter was written
in place, and raises Error then: such a change would be lost with the next pull, and a server that
is restored from the mirror would start with it.
"""
import errno
import itertools
import time
import weakref
from collections.abc import Callable, Iterable

import numpy
import torch

from . import _errors, _tensor
from ._handle import deadline_of
from ._job import Job
from ._library import ffi, lib
from ._rule import Group

FLOAT_BYTES = 4
TOKENS_MAX = 1e15  # of an inner step
LOOK_S = 0.002  # between two looks whether a step is made


class Layout:
    """Where a model's parameters lie in the job's vector."""

    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        for parameter in parameters:
            if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
                raise ValueError(f"a parameter is {parameter.dtype} on {parameter.device}: a job "
                                 "holds float32, and reads and writes the memory of the CPU")
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
    parts = [parameter.detach().reshape(-1) for parameter in parameters_of(model)]
    return torch.cat(parts).to(torch.float32).cpu().numpy()


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


class Counters:
    """The version counters of parameters, by which autograd finds that a tensor has changed.

    The library writes weights behind torch's back. A graph of an older step must not be
    differentiated at newer weights: torch then raises as it does after a step of its own.
    """

    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        self.empty = []  # tensors without elements that share the counters
        for parameter in parameters:
            kept, parameter.data = parameter.data, torch.empty(0)
            self.empty.append(parameter.detach())
            parameter.data = kept

    def count(self) -> None:
        for one in self.empty:
            one.zero_()


class Held:
    """A model's parameters while they lie in memory of a job, and the gradient buffer of its optimizer.

    It outlives the optimizer: the model gets memory of its own when the optimizer is gone, or the
    job is closed, and the job gets its buffer back.
    """

    def __init__(self, job: Job, parameters: list[torch.nn.Parameter]) -> None:
        self.job = weakref.ref(job)
        self.pointer: object = None  # the buffer that is lent
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
        with torch.no_grad():
            for reference in self._parameters:
                parameter = reference()
                if parameter is None or parameter.__dict__.get("_outlast_held") is not self:
                    continue
                del parameter._outlast_held
                parameter.grad = None
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
    """A vector of the library as tensors: the flat one, and each parameter's part of it."""

    def __init__(self, job: Job, layout: Layout, pointer: object) -> None:
        self.flat = torch.frombuffer(job._buffer(pointer), dtype=torch.float32)
        self.parts = layout.views(self.flat)
        self.starts = [part.data_ptr() for part in self.parts]


class Places:
    """The mirrors and gradient buffers of a job, by address: tensors are made once."""

    def __init__(self, job: Job, layout: Layout) -> None:
        self.job, self.layout = job, layout
        self.known: dict[int, Place] = {}

    def at(self, pointer: object) -> Place:
        address = int(ffi.cast("uintptr_t", pointer))
        found = self.known.get(address)
        if found is None:
            found = self.known[address] = Place(self.job, self.layout, pointer)
        return found


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
        if grad is None or optimizer._parameters[index].grad is not grad.parts[index]:
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
            lib.ol_grad_ready(optimizer.job._worker(), optimizer._grad_pointer,
                              self._firsts[behind])


class Optimizer(torch.optim.Optimizer):
    """Trains a model through a job: the servers hold its parameters, and make the steps.

    model: a Module, its parameters, or torch's parameter groups; float32, on the CPU. job: of
    outlast.connect(). defaults: lr=, weight_decay= and the like of groups that do not say them.

    The optimizer is the servers' (launch(rule=…)), and so is what neither a group nor defaults say.
    Groups have lr, momentum, weight_decay, betas, eps, clip_value and clip_norm; schedulers of torch
    change them. A change goes to the servers with the next step(), which is made by it, and is kept
    there as weights are: a server that is killed or replaced goes on by it. If workers want different
    numbers in one step, those of the largest worker id are taken.

    Nothing is copied: parameters are views of the job's mirror, and their .grad are views of the
    gradient buffer that backward() adds to and that the servers read. Each pull writes the other
    one of two mirrors, so step() points the parameters at new memory (data_ptr() changes); tensors
    that a program made of a parameter's .data before do not follow.

    bytes_copied counts the exceptions: gradients that the program put elsewhere (zero_grad() of a
    model with set_to_none=True, autograd of gradients) and close(), which gives a model memory of
    its own. late counts gradients that the servers dropped as late.

    overlap: gradients go to the servers, which begin to apply them, while backward() computes those
    of the layers before. Then each step has one backward(), and nobody changes .grad after it:
    step() raises Error if somebody did (by torch's version counter: a write through .grad.data is
    not seen, as that of torch.nn.utils.clip_grad_value_(), which does not clip then). To clip, give
    groups clip_value or clip_norm.

    A model gets memory of its own when its optimizer is gone, or detach() or close() of the job is
    called. An optimizer has one of the job's gradient buffers for as long as it lives.
    """

    def __init__(self, model: Model, job: Job, timeout: float | None = None,
                 overlap: bool = False, **defaults: object) -> None:
        groups = model.parameters() if isinstance(model, torch.nn.Module) else model
        super().__init__(groups, {})
        self.job, self.timeout = job, timeout
        self.bytes_copied = 0
        self.late = 0
        self._parameters = [one for group in self.param_groups for one in group["params"]]
        layout = Layout(self._parameters)
        layout.fit(job)
        self._counters = Counters(self._parameters)
        self._places = Places(job, layout)
        self._grad: Place | None = None  # the buffer that is lent to this process
        self._grad_pointer: object = None
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
        self._held = Held(job, self._parameters)
        self._end = weakref.finalize(self, self._held.release)
        self._end.atexit = False
        job._on_close(self.detach)
        self._borrow()
        self._point()

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
        place = self._places.at(self.job._mirror())
        self._base, self._starts = self.job.version, place.starts
        for parameter, part in zip(self._parameters, place.parts):
            parameter.data = part
        self._counters.count()
        self._versions = [parameter._version for parameter in self._parameters]

    def _borrow(self) -> None:
        """A gradient buffer of zeros, which .grad are views of."""
        self._grad_pointer = self._held.pointer = self.job._grad_borrow(self.timeout)
        self._grad = self._places.at(self._grad_pointer)
        self._grad.flat.zero_()
        self._clean = self._grad.flat._version
        if self._overlap is not None:
            self._overlap.begin()
        self._attach()

    def _attach(self) -> None:
        for parameter, part in zip(self._parameters, self._grad.parts):
            if parameter.requires_grad:
                parameter.grad = part

    def _drop(self) -> None:
        """.grad must not show memory that the library has."""
        self._grad = None
        for parameter in self._parameters:
            parameter.grad = None

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Set all gradients to zero, in place: set_to_none changes nothing."""
        if self._grad is None:  # the last step was interrupted, or the optimizer detached
            self._drop()
            return
        if self._overlap is not None and self._overlap.sent:  # the servers may have read it
            self._drop()
            self.job._grad_return(self._grad_pointer)
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
        for parameter, part in zip(self._parameters, self._grad.parts):
            found = parameter.grad
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
        same = [parameter.grad is part for parameter, part, missing in
                zip(self._parameters, self._grad.parts, self._overlap.missing)
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
        """
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._check()
        with torch.no_grad():
            if self._grad is None:  # an earlier step was interrupted
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
        self.job._push_start(self._grad_pointer, loss, samples, self._base, weight)
        self._held.pointer = None
        self._drop()
        try:
            self.job._push_end(self.timeout)
        except _errors.Late:
            self.late += 1
        self.job.pull(timeout=self.timeout)

    def detach(self) -> None:
        """Give the model memory of its own, with the last weights; close() of the job does it."""
        if self.job._is_parents():
            raise _errors.make(lib.OL_E_THREAD)
        if self._held.active:
            self._grad = None
            self.bytes_copied += self._held.release()
            self._places.known = {}


class Lent:
    """A gradient buffer, which the job gets back when its DiLoCo is gone."""

    pointer: object = None


def give_back_to(job: Callable[[], Job | None], lent: Lent) -> None:
    give_back(job(), lent)


class DiLoCo:
    """A learner of DiLoCo (Douillard and others 2023): many inner steps, then one outer one.

    inner: the optimizer of the model's parameters, in this process (AdamW); its state stays here.
    every: inner steps between two outer ones. The servers make the outer step: start them with
    rule "nesterov", lr 0.7, momentum 0.9, consistency "sync" and as many workers as learners. job:
    of outlast.connect() with outage "wait" and mirror_state, so that an outer step is never lost
    and the outer momentum survives the servers.

    An outer step pushes the pseudo-gradient, which is the weights of the last outer step less this
    learner's. It is computed in the gradient buffer, of weights that are read in the mirror: no
    copy. Then the new weights are copied into the model once, since the inner optimizer writes its
    parameters, and the mirror must not be written: bytes_copied.

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

    until: the outer step that the job ends with. A pseudo-gradient that comes too late for it is
    taken back, and counted in `late`: nobody makes the step that it would be of, unless a quorum of
    learners have all pushed such ones before any of them was told that the last step is made.
    Without until such a learner waits for that step.
    """

    def __init__(self, model: torch.nn.Module | Iterable[torch.nn.Parameter],
                 inner: torch.optim.Optimizer, every: int, job: Job,
                 timeout: float | None = None, follow: bool = False,
                 until: int | None = None) -> None:
        if every < 1:
            raise ValueError("every: at least 1 inner step")
        if job.outage != "wait":
            raise ValueError('DiLoCo needs connect(outage="wait"): an outer step is made of all '
                             "learners' inner steps, or waits")
        self.inner, self.every, self.job, self.timeout = inner, every, job, timeout
        self.follow, self.until = follow, until
        self.steps = 0  # inner ones
        self.since = 0  # of these, since the last outer one
        self.late = 0  # pseudo-gradients that came after their step, and were dropped
        self.tokens = 0.0  # of the inner steps since the last outer one
        self.bytes_copied = 0
        parameters = parameters_of(model)
        if {id(one) for one in parameters_of(inner.param_groups)} - {id(one) for one in parameters}:
            raise ValueError("inner: an optimizer of this model's parameters, not of others")
        layout = Layout(parameters)
        layout.fit(job)
        job.pull(newest=True, timeout=timeout)
        layout.match(model, job)
        self._counters = Counters(parameters)
        self._places = Places(job, layout)
        self._local = torch.empty(layout.count)
        for parameter, part in zip(parameters, layout.views(self._local)):
            parameter.data = part
        self._lent = Lent()
        self._pushes = False  # what the inner steps change is to be pushed
        self._stranded = False  # on weights that the job has no more
        weakref.finalize(self, give_back_to, weakref.ref(job), self._lent).atexit = False
        self._load()
        job._on_close(self._forget)

    @property
    def outer_steps(self) -> int:
        """Outer steps that are in the model: the version of the job's weights."""
        return self.job.version

    def _load(self) -> None:
        """Borrow the buffer for the next outer step, then take the weights that are there now."""
        if not self._is_over(self.job._weights()[1]):
            self._borrow()
        self._take()
        self._begin()

    def _borrow(self) -> None:
        if self._lent.pointer is None:
            self._lent.pointer = self.job._grad_borrow(self.timeout, self._end_of_job)

    def _is_over(self, version: int) -> bool:
        """No outer step follows these weights."""
        return self.until is not None and version >= self.until

    def _take(self) -> None:
        """Copy the weights that are there now into the model."""
        self._base = self._places.at(self.job._mirror()).flat
        self._base_version, self._stranded = self.job.version, False
        self._local.copy_(self._base)
        self._counters.count()
        self.bytes_copied += FLOAT_BYTES * len(self._local)

    def _begin(self) -> None:
        self._pushes, self.since, self.tokens = True, 0, 0.0

    def _changed(self) -> torch.Tensor:
        """What the inner steps have changed, as a gradient, in the buffer of the next push."""
        grad = self._places.at(self._lent.pointer).flat
        with torch.no_grad():
            return torch.sub(self._base, self._local, out=grad)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.inner.zero_grad(set_to_none=set_to_none)

    def step(self, closure: Callable[[], float] | None = None, *, loss: float | None = None,
             samples: int = 1, tokens: float = 0.0) -> float | None:
        """An inner step; each `every` of them an outer one, which blocks as sync() does.

        tokens: that it was computed from (or samples): all learners say so, or none does.
        """
        if not 0.0 <= tokens <= TOKENS_MAX:
            raise ValueError(f"tokens {tokens}: from 0 to {TOKENS_MAX:g}")
        result = self.inner.step(closure)
        self.steps += 1
        self.since += 1
        self.tokens += tokens
        self.job.poll()  # a server that was restored meanwhile finds this learner
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
                self._local.sub_(changed)

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
            job._push_start(self._lent.pointer, 0.0 if loss is None else float(loss), samples,
                            self._base_version, weight or self.tokens or 1.0)
            self._lent.pointer, self._pushes, self.since, self.tokens = None, False, 0, 0.0
            if not self.follow:
                self._end(self.timeout)
        while self._waits():  # with follow False: the push before was interrupted
            self._end_of_job()
            if time.monotonic() >= deadline:
                raise _errors.Timeout("the outer step is not made yet", -errno.ETIMEDOUT)
            time.sleep(LOOK_S)
            job.poll()
        job._pull_until(True, deadline, self._end_of_job)
        if self._is_over(job._weights()[1]):
            self._end_at_last(deadline)
        with torch.no_grad():
            self._load()

    def _end_of_job(self) -> None:
        self.job._withdraw_at(self.until)

    def _end_at_last(self, deadline: float) -> None:
        """The job is where it ends: what is still under way comes to its end, too."""
        if self.job._push_op.lent:
            self._end_of_job()
            self._end(max(0.0, deadline - time.monotonic()))

    def _end(self, timeout: float | None) -> None:
        try:
            self.job._push_end(timeout, self._end_of_job)
        except _errors.Late:
            self.late += 1

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
        """At close() of the job: the model has memory of its own already."""
        self._places.known = {}
        self._base = self._lent.pointer = None
        self._pushes = False
