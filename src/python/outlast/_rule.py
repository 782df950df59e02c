# SPDX-License-Identifier: BSD-3-Clause
"""The rule that servers update weights by: struct ol_rule of outlast.h."""
from dataclasses import dataclass, field

from ._library import ffi, lib

NOW = 2**64 - 1  # OL_RULE_NOW
MOST = 3e38
SCHEDULES = ("constant", "cosine", "step", "polynomial")  # in the order of enum ol_schedule
GROUP_FIELDS = ("first", "lr", "momentum", "weight_decay", "beta1", "beta2", "epsilon",
                "clip_value", "clip_norm")
RULE_FIELDS = ("begin", "warmup", "length", "warmup_from", "floor", "gamma", "power")


@dataclass
class Group:
    """The numbers for the floats from `first` up to the next group's first."""

    first: int = 0
    lr: float = 0.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    beta1: float = 0.0
    beta2: float = 0.0
    epsilon: float = 0.0
    clip_value: float = 0.0  # each element of the gradient is cut to it; 0: not
    clip_norm: float = 0.0  # the group's gradient is scaled down to it; 0: not; one shard only


@dataclass
class Rule:
    """Of a version of the weights: Job.rule(). To change it, change a copy, and Job.set_rule().

    The step from version v on is made with group.lr * factor(v). schedule: "constant", "cosine" and
    "polynomial" (down to `floor` in `length` steps), "step" (times `gamma` each `length` steps);
    before it `warmup` steps, from `warmup_from` up to 1. It begins at version `begin`; NOW: with the
    step that brings the rule.
    """

    version: int = 0  # changes until now; 0: what the servers' options say
    begin: int = 0
    schedule: str = "constant"
    warmup: int = 0
    length: int = 0
    warmup_from: float = 0.0
    floor: float = 0.0
    gamma: float = 0.0
    power: int = 0
    groups: list[Group] = field(default_factory=lambda: [Group()])

    def lr(self, version: int, group: int = 0) -> float:
        """A group's learning rate for the step from `version` on."""
        return lib.ol_rule_lr(pack(self), group, version)


def fault(rule: Rule) -> str:
    """Which number no server takes, if that can be told from the rule alone."""
    for index, group in enumerate(rule.groups):
        for name in GROUP_FIELDS[1:]:
            value = getattr(group, name)
            below_one = name in ("momentum", "beta1", "beta2")
            if not 0 <= value <= (1 if below_one else MOST):
                bound = "1" if below_one else f"{MOST:.0e}"
                return f"parameter group {index}: {name} is {value}, not from 0 to {bound}"
        if index > 0 and group.first <= rule.groups[index - 1].first:
            return f"parameter group {index} begins at {group.first}, not behind the one before"
    if any(group.momentum > 0 for group in rule.groups):
        return ("momentum: the servers' optimizer has none, or the rule has another number out of "
                'range: launch(rule="momentum") or "nesterov"')
    if any(group.beta1 > 0 or group.beta2 > 0 for group in rule.groups):
        return ('betas: the servers\' optimizer has none, or they are 1: launch(rule="adam") or '
                '"adamw"')
    return f"a number of its schedule is out of range: {rule}"


def pack(rule: Rule) -> object:
    """As struct ol_rule *. Raises ValueError for what is none."""
    made = ffi.new("struct ol_rule *")
    if rule.schedule not in SCHEDULES:
        raise ValueError(f"schedule {rule.schedule!r}: of {', '.join(SCHEDULES)}")
    if not 1 <= len(rule.groups) <= len(made.groups):
        raise ValueError(f"a rule has 1 to {len(made.groups)} groups, not {len(rule.groups)}")
    made.schedule = SCHEDULES.index(rule.schedule)
    made.group_count = len(rule.groups)
    try:
        for name in RULE_FIELDS:
            setattr(made, name, getattr(rule, name))
        for into, group in zip(made.groups, rule.groups):
            for name in GROUP_FIELDS:
                setattr(into, name, getattr(group, name))
    except (OverflowError, TypeError) as error:
        raise ValueError(f"rule: {name}: {error}") from None
    return made


def unpack(made: object) -> Rule:
    return Rule(version=made.version, schedule=SCHEDULES[made.schedule],
                groups=[Group(**{name: getattr(made.groups[i], name) for name in GROUP_FIELDS})
                        for i in range(made.group_count)],
                **{name: getattr(made, name) for name in RULE_FIELDS})
