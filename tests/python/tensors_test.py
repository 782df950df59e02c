# SPDX-License-Identifier: BSD-3-Clause
"""Names and shapes travel with a job: to its workers and readers, into files and checkpoints, through
killed servers; and a model with other ones is refused by name."""
import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import unittest
import unittest.mock
from collections.abc import Iterator

import numpy
import torch

import outlast
from outlast._launch import program, variables


def make(width: int = 3) -> torch.nn.Module:
    torch.manual_seed(width)
    return torch.nn.Sequential(torch.nn.Linear(5, width), torch.nn.ReLU(),
                               torch.nn.Linear(width, 2))


def read(path: str) -> dict[str, numpy.ndarray]:
    """A .safetensors file by its layout's rules, without any of our code."""
    data = pathlib.Path(path).read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    found, end = {}, 0
    for name, one in header.items():
        begin, after = one["data_offsets"]
        assert (begin, one["dtype"]) == (end, "F32"), header
        array = numpy.frombuffer(data[8 + length + begin:8 + length + after], "<f4")
        found[name], end = array.reshape(one["shape"]), after
    assert 8 + length + end == len(data)
    return found


@contextlib.contextmanager
def log_of_the_library() -> Iterator[pathlib.Path]:
    """What it writes on this process's stderr."""
    with tempfile.NamedTemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield pathlib.Path(file.name)
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def export(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run([program(), "export", *words], env=variables(), check=False,
                          capture_output=True, text=True, timeout=60)


class TensorsTest(unittest.TestCase):
    def same(self, found: dict[str, numpy.ndarray], model: torch.nn.Module) -> None:
        self.assertEqual(list(found), [name for name, _ in model.named_parameters()])
        for name, parameter in model.named_parameters():
            numpy.testing.assert_array_equal(found[name], parameter.detach().numpy())

    def test_a_model_brings_its_names(self):
        model = make()
        with outlast.launch(init=model, servers=1) as servers, \
                outlast.connect(servers, timeout=20) as job, job.reader() as reader:
            self.assertEqual(job.tensors(), ())  # nothing was pulled
            for weights in (job.pull(), reader.pull()):
                self.same({one.name: weights[one.name] for one in weights.tensors}, model)
                self.assertFalse(weights["0.weight"].flags.writeable)
                with self.assertRaises(KeyError):
                    weights["1.weight"]
            self.assertEqual(job.tensors()[1], outlast.Tensor("0.bias", (3,), 15, 3))
            del weights

    def test_shards_have_the_whole_table(self):
        model = make(400)
        with outlast.launch(init=model, servers=3) as servers, \
                outlast.connect(servers, timeout=20) as job:
            weights = job.pull()
            self.same({one.name: weights[one.name] for one in weights.tensors}, model)
            del weights

    def test_files_have_the_names(self):
        model = make()
        with tempfile.TemporaryDirectory() as folder:
            durable = {"durability": "checkpoint", "checkpoint": f"every=2steps,dir={folder}/ckpt"}
            with outlast.launch(init=model, **durable) as servers, \
                    outlast.connect(servers, timeout=20) as job:
                optimizer = outlast.torch.Optimizer(model, job)
                for _ in range(4):
                    optimizer.zero_grad()
                    model(torch.ones(1, 5)).sum().backward()
                    optimizer.step()
                for name in ("run.safetensors", "run.npy"):
                    done = export("--connect", str(servers), "--out", f"{folder}/{name}")
                    self.assertEqual(done.returncode, 0, done.stderr)
                self.same(read(f"{folder}/run.safetensors"), model)
                numpy.testing.assert_array_equal(numpy.load(f"{folder}/run.npy"),
                                                 outlast.torch.vector(model))
            done = export("--checkpoint", f"{folder}/ckpt", "--out", f"{folder}/saved.safetensors")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.same(read(f"{folder}/saved.safetensors"), model)
            with outlast.launch(init=f"{folder}/saved.safetensors") as servers, \
                    outlast.connect(servers, timeout=20) as job:
                outlast.torch.Optimizer(model, job)  # the names again
            self.refuses_another(folder, durable)

    def refuses_another(self, folder: str, durable: dict[str, str]) -> None:
        """A job of as many parameters, and with other names, does not go on from the checkpoints."""
        other = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.Linear(3, 2))
        with self.assertRaisesRegex(outlast.Error, '"1.weight" is wanted, and "2.weight" is there'):
            outlast.launch(init=other, restore="checkpoint", **durable)

    def test_names_outlive_servers(self):
        model = make()
        for replicas in (1, 3):
            with self.subTest(replicas=replicas), \
                    outlast.launch(init=model, replicas=replicas, consistency="sync") as servers, \
                    outlast.connect(servers, timeout=30) as job:
                job.pull()
                for _ in range(3):
                    for _ in range(5):
                        grad = job.grad()
                        grad[:] = 0.0
                        job.push(grad)
                        job.pull()
                    with unittest.mock.patch.dict(os.environ, OUTLAST_JOB="@elsewhere"):
                        victim = servers.head()
                    victim.kill()
                    victim.restart()
                del grad
                job.pull(newest=True)  # the last one has found this worker
                with outlast.reader(servers, timeout=30) as reader:
                    weights = reader.pull()
                    self.same({one.name: weights[one.name] for one in weights.tensors}, model)
                    del weights
                self.assertEqual(job.stat_links()[0]["applied"], 15)

    def test_another_model_is_refused_by_name(self):
        model = make()
        turned = torch.nn.Sequential(torch.nn.Linear(3, 5, bias=False), torch.nn.Identity(),
                                     torch.nn.Linear(2, 3), torch.nn.Linear(1, 1, bias=False),
                                     torch.nn.Linear(0, 1))
        self.assertEqual(sum(one.numel() for one in turned.parameters()), 26)
        with outlast.launch(init=model) as servers, outlast.connect(servers, timeout=20) as job:
            with self.assertRaisesRegex(outlast.Error, r'"0.weight" is \(3,5\), and \(5,3\) is'):
                outlast.torch.Optimizer(turned, job)
            with self.assertRaisesRegex(outlast.Error, '"0.weight"'):
                outlast.torch.DiLoCo(turned, torch.optim.SGD(turned.parameters(), lr=1.0), 1, job)
            with self.assertRaisesRegex(outlast.Error, "parameter 0 has the shape"):
                outlast.torch.Optimizer(turned.parameters(), job)
            named = torch.nn.ModuleDict({"other": make()})
            with self.assertRaisesRegex(outlast.Error, '"0.weight"'):
                outlast.torch.Optimizer(named, job)
            outlast.torch.Optimizer(named.parameters(), job)  # no names, no question

    def test_a_server_of_other_names_is_refused(self):
        """Its table is as long as the job's, and its parameters are as many. The worker waits, and goes
        on with what it had when the right one is there; a chain does not let it in."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        other = pathlib.Path(folder, "other.safetensors")
        layer = torch.nn.Linear(5, 3)
        outlast._tensor.write(other, [(f"b.{name}", one.detach().numpy())
                                      for name, one in layer.named_parameters()])
        for replicas in (1, 2):
            with self.subTest(replicas=replicas), \
                    outlast.launch(init=torch.nn.ModuleDict({"a": layer}),
                                   replicas=replicas) as servers, \
                    outlast.connect(servers, timeout=20) as job:
                grad = job.grad()
                grad[:] = 1.0
                job.push(grad)
                del grad
                before = job.pull().copy()
                victim = servers.head()
                victim.kill()
                own = victim._words[victim._words.index("--init") + 1]
                victim._words[victim._words.index("--init") + 1] = str(other)
                if replicas == 2:
                    with self.assertRaisesRegex(outlast.Error, "is of another job"):
                        victim.restart()
                    self.assertEqual(job.pull(newest=True).version, 1)
                    continue
                with log_of_the_library() as log:
                    victim.restart()
                    while "another table of tensors" not in log.read_text():
                        job.poll()
                self.assertTrue(job.stat_links()[0]["down"])
                self.assertNotIn("worker 0", victim.log.read_text())  # no word of a mirror
                victim.kill()
                victim._words[victim._words.index("--init") + 1] = own
                victim.restart()
                weights = job.pull(newest=True)
                self.assertEqual((weights.version, weights.tensors[0].name), (1, "a.weight"))
                numpy.testing.assert_array_equal(weights.array, before)
                self.assertEqual(job.stat_links()[0]["lost"], 0)

    def test_groups_in_another_order_are_refused(self):
        """Parameters without names have the job's shapes, in its order."""
        model = torch.nn.Linear(5, 3)
        with outlast.launch(init=model) as servers, outlast.connect(servers, timeout=20) as job:
            groups = [{"params": [model.bias]}, {"params": [model.weight]}]
            with self.assertRaisesRegex(outlast.Error,
                                        r'parameter 0 has the shape \(3,\), .*"weight"'):
                outlast.torch.Optimizer(groups, job)
            with self.assertRaisesRegex(outlast.Error, "parameter 0 has the shape"):
                outlast.torch.Optimizer([torch.nn.Parameter(torch.zeros(18))], job)
            outlast.torch.Optimizer(groups[::-1], job)

    def test_a_name_that_no_table_can_have(self):
        model = torch.nn.ParameterDict({"a\nb": torch.zeros(2)})
        with self.assertRaisesRegex(outlast.Error, "of the table of tensors"):
            outlast.launch(init=model)


class Tied(torch.nn.Module):
    """Its last layer's weight is the first one's; and it has one layer twice."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.wte = torch.nn.Embedding(12, 6)
        self.block = torch.nn.Linear(6, 6)
        self.again = self.block
        self.lm_head = torch.nn.Linear(6, 12, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.lm_head(self.again(self.block(self.wte(words))))


OTHERS = {"again.weight": "block.weight", "again.bias": "block.bias", "lm_head.weight": "wte.weight"}


class TiedTest(unittest.TestCase):
    """Both names of a parameter come through servers, checkpoints and files, as the library safetensors has
    them: the metadata say which tensor the other name is of."""

    def metadata(self, path: str) -> dict[str, str]:
        data = pathlib.Path(path).read_bytes()
        return json.loads(data[8:8 + int.from_bytes(data[:8], "little")])["__metadata__"]

    def found(self, path: str) -> None:
        said = {name: kept for name, kept in self.metadata(path).items() if "." in name}
        self.assertEqual(said, OTHERS)
        self.assertEqual(list(read(path)), ["wte.weight", "block.weight", "block.bias"])

    def named(self, weights: outlast.Weights, model: torch.nn.Module) -> None:
        for name, one in model.state_dict().items():
            numpy.testing.assert_array_equal(weights[name], one.numpy())
        self.assertEqual([one.others for one in weights.tensors],
                         [("lm_head.weight",), ("again.weight",), ("again.bias",)])

    def test_both_names_are_there(self):
        model = Tied()
        folder = self.enterContext(tempfile.TemporaryDirectory())
        durable = {"durability": "checkpoint", "checkpoint": f"every=1steps,dir={folder}/ckpt"}
        with outlast.launch(init=model, lr=0.5, **durable) as servers, \
                outlast.connect(servers, timeout=20) as job:
            optimizer = outlast.torch.Optimizer(model, job)
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.arange(12)).square().mean().backward()
                optimizer.step()
            with job.reader() as reader:
                weights = reader.pull()
                self.named(weights, model)
                outlast.torch.load(Tied(), weights)
                del weights
            done = export("--connect", str(servers), "--out", f"{folder}/run.safetensors")
            self.assertEqual(done.returncode, 0, done.stderr)
        self.found(f"{folder}/run.safetensors")
        done = export("--checkpoint", f"{folder}/ckpt", "--out", f"{folder}/saved.safetensors")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.found(f"{folder}/saved.safetensors")
        done = subprocess.run([program(), "import", f"{folder}/run.safetensors", "--checkpoint",
                               f"{folder}/other"], env=variables(), check=False,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ({"init": f"{folder}/run.safetensors"},
                      {"params": 12 * 6 + 42, "durability": "checkpoint", "restore": "checkpoint",
                       "checkpoint": f"dir={folder}/other"}):
            with outlast.launch(**words) as servers, \
                    outlast.connect(servers, timeout=20) as job:
                weights = job.pull()
                self.named(weights, model)
                del weights
                twin = Tied()
                optimizer = outlast.torch.Optimizer(twin, job)
                self.assertIs(twin.lm_head.weight, twin.wte.weight)
                self.assertTrue(torch.equal(twin.wte.weight, model.wte.weight))
                optimizer.detach()

    def test_worker_0_brings_them(self):
        model = Tied()
        with outlast.launch(params=12 * 6 + 42, init="worker") as servers, \
                outlast.connect(servers, init=model, timeout=20) as job:
            weights = job.pull()
            self.named(weights, model)
            del weights


class RefusedTest(unittest.TestCase):
    def test_no_job_begins_over_a_checkpoint_that_is_refused(self):
        """Unless it is told to; then its rule is its own."""
        one = make()
        first = numpy.zeros(2048, numpy.float32)
        for model in (one, first):
            with tempfile.TemporaryDirectory() as folder:
                saved = {"durability": "checkpoint", "checkpoint": f"every=1steps,dir={folder}"}
                more = {} if isinstance(model, torch.nn.Module) else {"groups": 4}
                with outlast.launch(init=model, lr=0.875, **saved, **more) as run, \
                        outlast.connect(run, timeout=60) as job:
                    job.pull()
                    rule = job.rule()
                    if more:
                        rule.groups = [outlast.Group(256 * at, 0.5 + at) for at in range(4)]
                        job.set_rule(rule)
                    grad = job.grad()
                    grad[:] = 0
                    job.push(grad)
                    while job.stat()[0].checkpoints == 0:
                        job.poll()
                    del grad
                again = model
                if not more:
                    again = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.Tanh(),
                                                torch.nn.ReLU(), torch.nn.Linear(3, 2))
                    again.load_state_dict({"0.weight": one[0].weight, "0.bias": one[0].bias,
                                           "3.weight": one[2].weight, "3.bias": one[2].bias})
                more = {"groups": 1} if more else {}
                there = {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}
                with outlast.launch(init=again, lr=0.125, restore="freshest", **saved, **more) as run, \
                        self.assertRaises(outlast.NoServer):
                    outlast.connect(run, timeout=5)
                for name, content in there.items():
                    self.assertEqual((pathlib.Path(folder) / name).read_bytes(), content)
                with outlast.launch(init=again, lr=0.125, restore="none", **saved, **more) as run, \
                        outlast.connect(run, timeout=60) as job:
                    begun = job.pull().copy()
                    for _ in range(3):
                        grad = job.grad()
                        grad[:] = 1
                        job.push(grad)
                        self.assertAlmostEqual(job.pull().array[0] - begun[0], -0.125, 5)
                        self.assertEqual(job.rule().groups[0].lr, 0.125)
                        begun = job.pull().copy()
                    del grad


if __name__ == "__main__":
    unittest.main()
