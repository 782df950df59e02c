# SPDX-License-Identifier: BSD-3-Clause
"""Parameter groups and schedulers of torch drive the servers' rule, as torch.optim does and whoever
is killed."""
import unittest
import warnings

import torch
from exact_test import STEPS, backward, make_mlp
from learners import SameBits
from torch.optim import lr_scheduler

import outlast

LONG = 1000
WARM = 100
FROM = 0.125


def make_model() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))


def two_groups(model: torch.nn.Module, lr: float) -> list[dict]:
    """Biases do not decay, and learn half as fast."""
    weights = [one for one in model.parameters() if one.dim() > 1]
    biases = [one for one in model.parameters() if one.dim() == 1]
    return [{"params": weights, "lr": lr, "weight_decay": 0.01},
            {"params": biases, "lr": lr / 2, "weight_decay": 0.0}]


def warmed_cosine(optimizer: torch.optim.Optimizer, steps: int, warm: int) -> object:
    return lr_scheduler.SequentialLR(
        optimizer, [lr_scheduler.LinearLR(optimizer, FROM, total_iters=warm),
                    lr_scheduler.CosineAnnealingLR(optimizer, steps - warm)], [warm])


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, scheduler: object) -> None:
    for step in range(LONG):
        random = torch.Generator().manual_seed(step)
        inputs = torch.randn(32, 8, generator=random)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), inputs[:, :4].argmax(1)).backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


def scheduled(job, tell, number):
    """As sync_of(), with groups and a scheduler of torch."""
    model = make_mlp()
    optimizer = outlast.torch.Optimizer(two_groups(model, 0.25), job)
    scheduler = warmed_cosine(optimizer, STEPS, 8)
    while job.version < STEPS:
        loss = backward(model, number, job.version)
        tell()
        optimizer.step(loss=loss)
        scheduler.step()


class RuleTest(SameBits, unittest.TestCase):
    def setUp(self):
        warnings.filterwarnings("ignore", message="The epoch parameter")

    def difference(self, rule: str, lr: float, theirs, server: bool) -> float:
        """Largest one of the weights after LONG steps, against an optimizer of torch."""
        model = make_model()
        optimizer = theirs(two_groups(model, lr))
        train(model, optimizer, warmed_cosine(optimizer, LONG, WARM))
        ours = make_model()
        groups = two_groups(ours, lr)
        schedule = f"cosine:steps={LONG - WARM},warmup={WARM},from={FROM}"
        with outlast.launch(init=outlast.torch.vector(groups), rule=rule, lr=7.0,
                            schedule=schedule if server else None) as servers, \
                outlast.connect(servers) as job:
            optimizer = outlast.torch.Optimizer(groups, job)
            scheduler = None if server else warmed_cosine(optimizer, LONG, WARM)
            train(ours, optimizer, scheduler)
            self.assertEqual(job.rule().version, 1 if server else LONG)
            self.assertEqual(optimizer.bytes_copied, 0)
        return max((one - two).abs().max().item()
                   for one, two in zip(model.parameters(), ours.parameters()))

    def test_groups_and_schedulers_do_what_torch_does(self):
        def momentum(groups):
            return torch.optim.SGD(groups, momentum=0.9)

        for rule, lr, theirs, server, bound in (
                ("momentum", 0.1, momentum, False, 1e-6), ("momentum", 0.1, momentum, True, 1e-6),
                ("adam", 0.01, torch.optim.Adam, False, 1e-6),
                ("adamw", 0.01, torch.optim.AdamW, False, 2e-5)):  # it rounds in another order
            found = self.difference(rule, lr, theirs, server)
            print(f"{rule}, schedule of {'the server' if server else 'torch'}: {found:.1e}")
            self.assertLess(found, bound)

    def test_bits_with_a_scheduler_and_kills(self):
        self.ends_the_same(make_groups, scheduled, STEPS,
                           {"rule": "momentum", "lr": 1.0, "momentum": 0.9},
                           [((1, None),), ((2, None), (9, 0.0), (10, 0.0005), (30, None))])

    def test_a_rule_is_set_by_hand(self):
        with outlast.launch(4, lr=0.5) as servers, outlast.connect(servers) as job:
            job.pull()
            rule = job.rule()
            self.assertEqual((rule.version, rule.schedule, rule.groups[0].lr),
                             (0, "constant", 0.5))
            rule.groups = [outlast.Group(lr=1.0), outlast.Group(first=3, lr=2.0, clip_value=0.5)]
            rule.schedule, rule.length, rule.gamma, rule.begin = "step", 2, 0.5, outlast.NOW
            job.set_rule(rule)
            for expected in ([-1, -1], [-2, -2], [-2.5, -2.5], [-3, -3]):
                grad = job.grad()
                grad[:] = 1
                job.push(grad)
                weights = job.pull().copy()
                self.assertEqual([weights[0], weights[3]], expected)
            found = job.rule()
            self.assertEqual((found.version, found.begin, found.lr(3)), (1, 0, 0.5))

    def test_what_no_server_takes_is_refused(self):
        with outlast.launch(8, groups=2) as servers, outlast.connect(servers) as job:
            job.pull()
            rule = job.rule()
            rule.groups = [outlast.Group(first=i) for i in range(3)]
            with self.assertRaisesRegex(outlast.Error, "3 groups.*--groups"):
                job.set_rule(rule)
            for field, value, said in (("lr", float("nan"), "group 0: lr is nan"),
                                       ("momentum", 2.0, "group 0: momentum is 2.0"),
                                       ("momentum", 0.5, 'launch.rule="momentum"'),
                                       ("first", 1, "out of range")):
                rule = job.rule()
                setattr(rule.groups[0], field, value)
                with self.assertRaisesRegex(ValueError, said):
                    job.set_rule(rule)
            rule = job.rule()
            rule.schedule = "cosinus"
            with self.assertRaisesRegex(ValueError, "cosinus"):
                job.set_rule(rule)
        groups = two_groups(make_model(), 0.1)
        groups[1]["amsgrad"] = True
        with outlast.launch(init=outlast.torch.vector(groups)) as servers, \
                outlast.connect(servers) as job:
            with self.assertRaisesRegex(ValueError, "group 1: amsgrad"):
                outlast.torch.Optimizer(groups, job)
            optimizer = outlast.torch.Optimizer(two_groups(make_model(), 0.1), job)
            with self.assertRaisesRegex(outlast.Error, "a parameter group after the others"):
                optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(3))]})
        for word, value in (("epoch", 2), ("shard", 1)):
            with self.assertRaisesRegex(ValueError, word):
                outlast.launch(4, **{word: value})
        with self.assertRaisesRegex(TypeError, "outlast.torch.vector"):
            outlast.launch(init=object())

    def test_schedulers_of_momentum(self):
        for rule in ("momentum", "adamw"):
            groups = two_groups(make_model(), 0.1)
            with outlast.launch(init=outlast.torch.vector(groups), rule=rule) as servers, \
                    outlast.connect(servers) as job:
                optimizer = outlast.torch.Optimizer(groups, job)
                lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10)
                optimizer.step()


def make_groups() -> list[dict]:
    return two_groups(make_mlp(), 0.25)


if __name__ == "__main__":
    unittest.main()
