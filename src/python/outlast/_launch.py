# SPDX-License-Identifier: BSD-3-Clause
"""The servers of a job on this machine, as processes of the program `outlast`."""
import errno
import json
import numbers
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
import weakref

import numpy

from . import _errors, _tensor
from ._library import BUILDS, installed, lib

LOOK_S = 0.05  # between two looks for a head
STOP_S = 5.0  # until a server that was asked to end is killed
LOG_BYTES = 2000
WORKER = "worker"  # an init: that of worker 0; "./worker" is a file
OWN = {"shard", "epoch", "ready_fd", "life_fd", "optimizer"}  # options that are launch()'s own


def program() -> str:
    """$OUTLAST_BIN, or the program beside the library, or the one in PATH."""
    said = os.environ.get("OUTLAST_BIN")
    if said:
        return said
    for folder in installed() or BUILDS:
        if os.access(folder / "outlast", os.X_OK):
            return str(folder / "outlast")
    found = shutil.which("outlast")
    if found is None:
        raise FileNotFoundError("the program outlast is neither beside the library nor in PATH; "
                                "OUTLAST_BIN can name its file")
    return found


def variables() -> dict[str, str]:
    """This process's, for the program: what OUTLAST_JOB says is another job."""
    return {name: value for name, value in os.environ.items()
            if name not in ("OUTLAST_JOB", "OUTLAST_JOB_NAME")}


class Life:
    """A pipe that servers read: they end when this process has, however it ends."""

    def __init__(self) -> None:
        self.reads, self._writes = os.pipe()

    def close(self) -> None:
        if self.reads is not None:
            os.close(self.reads)
            os.close(self._writes)
        self.reads = None


class Server:
    """One process of `outlast serve`: it holds one shard."""

    def __init__(self, shard: int, address: str, words: list[str], folder: pathlib.Path,
                 life: Life, replica: int | None = None) -> None:
        self._life = life
        self.shard, self.address, self.replica = shard, address, replica
        self.log = folder / (f"server{shard}.log" if replica is None
                             else f"server{shard}-{replica}.log")
        self._words = words
        self._epoch = 0
        self._process: subprocess.Popen | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, restore: str = "none") -> None:
        """Blocks until it listens."""
        if self.alive:
            raise _errors.Error("the server runs; kill() it first")
        if self._life.reads is None:
            raise _errors.Closed("the servers of this launch() were ended: launch() others")
        self._epoch += 1
        reads, writes = os.pipe()
        command = [*self._words, "--listen", self.address, "--epoch", str(self._epoch),
                   "--restore", restore, "--ready-fd", str(writes),
                   "--life-fd", str(self._life.reads)]
        try:
            with open(self.log, "ab") as log:
                self._process = subprocess.Popen(
                    command, pass_fds=[writes, self._life.reads], env=variables(),
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=True)  # Ctrl-C is the notebook's
        finally:
            os.close(writes)
        with os.fdopen(reads, encoding="utf-8") as ready:
            found = ready.readline().strip()
        if not found:
            self._process.wait()
            raise _errors.Error(f"a server did not start (exit status {self._process.returncode}): "
                                f"{self.last_line()}")
        self.address = found

    def last_line(self) -> str:
        """What it said last, and the last warning before that, which may be the cause."""
        lines = self.log.read_bytes()[-LOG_BYTES:].decode("utf-8", "replace").splitlines()
        warnings = [line for line in lines[:-1] if " warn " in line]
        return "; ".join(warnings[-1:] + lines[-1:]) or f"no word in {self.log}"

    def kill(self) -> None:
        """As kill -9: its memory is gone."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def restart(self, restore: str = "mirror") -> None:
        """Start an empty server in the place of one that ended, at the same address.

        restore: where its weights come from: "mirror", the workers' memory; "none", the first ones.
        A server of a chain joins it again, and has them from there.
        Blocks until it listens; it has its weights when the workers, or the chain, have found it.
        """
        self.start(restore)

    def stop(self) -> None:
        """Ask it to end; kill it if it does not."""
        if not self.alive:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()


def end(servers: list[Server], folder: str, life: Life, pid: int) -> None:
    """At the end of the block, or of the process; not in a child of a fork."""
    if os.getpid() != pid:
        return
    for server in servers:
        server.stop()
    life.close()
    shutil.rmtree(folder, ignore_errors=True)


class Launch:
    """Servers that run until close(), the end of a `with` block, or the end of this process.

    They end too when nothing refers to this object: neither a variable nor a connected Job. A process
    that is killed takes them along; then their logs stay behind, in the folder for temporary files.

    str() of it, and `address`, is what connect() takes, in this process or in others. servers: one
    a shard, of a chain as many as it has replicas, with kill() and restart().
    """

    def __init__(self, servers: list[Server], folder: str, life: Life, outage: str,
                 coordinator: str | None = None, stat: list[str] | None = None,
                 job: str | None = None) -> None:
        self.servers, self.outage, self.job = servers, outage, job
        self._coordinator, self._stat = coordinator, stat
        self._end = weakref.finalize(self, end, servers, folder, life, os.getpid())

    @property
    def address(self) -> str:
        return self._coordinator or ",".join(server.address for server in self.servers)

    def head(self, shard: int = 0, timeout: float = 30.0) -> Server:
        """The server that takes a shard's gradients: of a chain its head, which changes.

        Blocks: while a chain has none, as its head was killed; at most timeout seconds.
        """
        if self._stat is None:
            if not 0 <= shard < len(self.servers):
                raise ValueError(f"shard {shard}: there are {len(self.servers)}")
            if not self.servers[shard].alive:
                raise _errors.NoServer(f"the only server of shard {shard} is gone: restart() it",
                                       lib.OL_E_NO_SERVER)
            return self.servers[shard]
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            said = subprocess.run(self._stat, env=variables(), capture_output=True, text=True,
                                  check=False)
            shards = json.loads(said.stdout)["shards"] if said.stdout else []
            heads = [one["address"] for one in shards[shard]["replicas"]
                     if one.get("role") in ("head", "only")] if len(shards) > shard else []
            for server in self.servers:
                if server.address in heads and server.alive:
                    return server
            time.sleep(LOOK_S)
        raise _errors.Error(f"the chain of shard {shard} has no head", -errno.ETIMEDOUT)

    def __str__(self) -> str:
        return self.address

    def __repr__(self) -> str:
        return f"<outlast.Launch: {len(self.servers)} servers at {self.address}>"

    def __enter__(self) -> "Launch":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the servers. Their weights are gone; pull them before."""
        self._end()


def option(name: str, value: object) -> list[str]:
    """job_key_file=… is --job-key-file …; True is the word alone."""
    word = "--" + name.replace("_", "-")
    if value is None or value is False:
        return []
    return [word] if value is True else [word, str(value)]


def first_words(params: int | None, init: object, folder: str) -> list[str]:
    """Options of `outlast serve`: what it begins with."""
    if init is None:
        return ["--params", str(params)]
    if isinstance(init, str) and init == WORKER:
        return ["--params", str(params), "--init", WORKER]
    if isinstance(init, (str, os.PathLike)):
        return ["--init", os.path.abspath(init)]
    if _tensor.is_model(init):
        file = os.path.join(folder, "init.safetensors")
        _tensor.write(pathlib.Path(file), _tensor.of_model(init), _tensor.others_of(init))
        return ["--init", file]
    vector = _tensor.of_array(init)
    file = os.path.join(folder, "init.npy")
    numpy.save(file, vector)
    return ["--init", file]


def launch(params: int | None = None, *, init: object = None, servers: int = 1, workers: int = 1,
           consistency: str = "async", rule: str = "sgd", lr: float = 0.01,
           listen: list[str] | None = None, outage: str = "wait", restore: str = "none",
           replicas: int = 1, **options: object) -> Launch:
    """Start the servers of a job on this machine.

    params: how many float32 the job holds, from zeros; or init: their first values: a model of
    PyTorch, or a .safetensors file (then names and shapes travel with the job: Job.tensors()), a
    vector, as outlast.torch.vector(model) makes it, or a .npy file. Both, with init="worker": the
    values, names and shapes are those that worker 0 brings, connect(init=…); until then all wait.
    servers: shards, each a process.
    replicas: servers that hold each shard, a chain: all but one may be lost. Then servers times
    replicas processes run, whose views are in a folder of their own.
    workers: how many there will be; a step of consistency "sync" takes a gradient of each.
    consistency: "async", "sync", "sync:k=N", "sync:dbw", "sync:quorum,k=N,grace=MS,late=next",
    "ssp:N" and the others of `outlast serve`.
    rule: "sgd", "momentum", "nesterov", "adam", "adamw"; lr: its learning rate.
    listen: an address for each process; None: shm, for processes of this user on this machine.
    restore: where the first weights come from instead, with durability="checkpoint" and
    checkpoint="every=100steps,dir=…": "checkpoint", or "freshest".
    outage: what connect() to this object does while a server is gone, if it is not told otherwise.
    A connect() to the address as text, in another process, does not know it.
    options: further ones of `outlast serve`: momentum=0.9, weight_decay=, job_key_file=, lease_ms=.

    Blocks: until all listen. Raises Error with what the server said last.
    """
    own = OWN & set(options)
    if own:
        raise ValueError(f"{', '.join(sorted(own))}: launch() gives this to each server itself")
    if isinstance(init, str) and init == WORKER:
        if params is None:
            raise ValueError('launch(init="worker") needs params: how many worker 0 has')
    elif (params is None) == (init is None):
        raise ValueError("launch() needs params, or init")
    for word, value in (("servers", servers), ("replicas", replicas), ("workers", workers)):
        if not isinstance(value, numbers.Integral) or value < 1:
            raise ValueError(f"{word} {value!r}: a whole number, at least 1")
    if outage not in ("end", "wait", "continue"):
        raise ValueError(f"outage {outage!r}: of end, wait, continue")
    if isinstance(lr, str) or not isinstance(lr, numbers.Real):
        raise ValueError(f"lr {lr!r}: a number")
    lr = float(lr)
    if listen is not None and len(listen) != servers * replicas:
        raise ValueError(f"listen: an address for each of {servers * replicas} servers")
    name = f"@outlast-{os.getpid()}-{secrets.token_hex(4)}"
    folder = tempfile.mkdtemp(prefix="outlast-")
    words = [program(), "serve", "--servers", str(servers), "--workers", str(workers),
             "--consistency", consistency, "--optimizer", rule, "--lr", repr(lr)]
    try:
        words += first_words(params, init, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if replicas > 1 and "coordinator" not in options:
        os.mkdir(os.path.join(folder, "views"), 0o700)
        options["coordinator"] = f"dir:{folder}/views"
    coordinator, stat = options.get("coordinator"), None
    if coordinator is not None:
        options["replicas"] = replicas
        stat = [program(), "stat", "--once", "--json", "-"]
        for key in ("coordinator", "job", "job_key_file"):
            stat += option(key, options.get(key))
    for key, value in options.items():
        words += option(key, value)
    started: list[Server] = []
    life = Life()
    try:
        for at in range(servers * replicas):
            shard, replica = divmod(at, replicas)
            address = listen[at] if listen is not None else f"{name}-{at}"
            server = Server(shard, address, [*words, "--shard", str(shard)], pathlib.Path(folder),
                            life, replica if coordinator is not None else None)
            started.append(server)
            server.start(restore)
    except BaseException:
        end(started, folder, life, os.getpid())
        raise
    return Launch(started, folder, life, outage, coordinator, stat, options.get("job"))
