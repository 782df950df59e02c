# SPDX-License-Identifier: BSD-3-Clause
"""What faults.py breaks: jobs, their workers, their exporters, a ZooKeeper, and the Prometheus that looks at them.

All of it is on this machine and ends with this process. Workers are threads of a process of their own,
which is this file, started with the words of a Crew.
"""
import contextlib
import ctypes
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "src" / "python"))

import numpy

import outlast
from outlast._launch import Server, program

HERE = pathlib.Path(__file__).resolve().parent
ZOOKEEPER = pathlib.Path("/usr/share/java/zookeeper.jar")
SCRAPE_S = 2
RACK_SCRAPE_S = 6  # of servers that are gone: longer than --scrape-timeout-ms
LATE_S = 60.0  # until something that was started has to answer
LEASE_MS = 2500  # of the chain: a replica that is killed leaves the view before a scaled minute is over
PARAMS = 1 << 20  # a ring of entries has four slots then
ANSWERS = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def until(what: str, is_true, seconds: float = LATE_S) -> None:
    """Wait until is_true(); what: for the message if it does not become so."""
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.1)


def free_port() -> int:
    """Below those that the kernel gives to clients."""
    for port in range(10000 + os.getpid() * 37 % 20000, 32000):
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            if port not in free_port.given:
                free_port.given.add(port)
                return port
    raise OSError("no free port")


free_port.given = set()


def fetch(url: str, seconds: float = 20.0) -> bytes:
    with ANSWERS.open(url, timeout=seconds) as answer:
        return answer.read()


class Program:
    """A process that is killed with this one, and can be started again."""

    def __init__(self, words: list[str], log: pathlib.Path, **how: object) -> None:
        self.words, self.log, self.how = words, log, how
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *self.words],
                                            stdout=log, stderr=log, start_new_session=True,
                                            **{"stdin": subprocess.DEVNULL, **self.how})

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class ZooKeeper(Program):
    def __init__(self, folder: pathlib.Path) -> None:
        self.port = free_port()
        folder.mkdir()
        (folder / "cfg").write_text(
            f"tickTime=500\nminSessionTimeout=100\nmaxSessionTimeout=60000\nmaxClientCnxns=0\n"
            f"admin.enableServer=false\n4lw.commands.whitelist=srvr\ndataDir={folder}\n"
            f"clientPortAddress=127.0.0.1\nclientPort={self.port}\n")
        super().__init__(["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                          "-Dzookeeper.root.logger=WARN,CONSOLE", "-cp",
                          f"/etc/zookeeper/conf:{ZOOKEEPER}",
                          "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                          str(folder / "cfg")], folder / "log")

    def serves(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as one:
            one.sendall(b"srvr")
            return b"Mode: " in one.recv(4096)
        return False

    def start(self) -> None:
        super().start()
        until("ZooKeeper serves", self.serves)


class Exporter(Program):
    """`outlast stat --listen`, with an observer's credential."""

    def __init__(self, job: str, where: list[str], folder: pathlib.Path, key: pathlib.Path,
                 port: int = 0) -> None:
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}/metrics"
        super().__init__([program(), "stat", *where, "--job", job, "--job-key-file", str(key),
                          "--listen", f"127.0.0.1:{self.port}"], folder / f"exporter-{job}.log")

    def start(self) -> None:
        super().start()
        until(f"{self.log.name}: it listens", self.listens)

    def listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def page(self) -> str:
        return fetch(self.url).decode()

    def value(self, name: str) -> float:
        """The largest of a metric; 0 where it has none."""
        found = re.findall(rf"^{name}{{.*}} (\S+)$", self.page(), re.MULTILINE)
        return max(map(float, found), default=0.0)


class Crew(Program):
    """Workers of a job. say(): pause=S between pushes, pause1=S of worker 1, hold=True, nan=True."""

    def __init__(self, folder: pathlib.Path, **words: object) -> None:
        super().__init__([sys.executable, str(pathlib.Path(__file__).resolve()), json.dumps(words)],
                         folder / f"workers-{words['job']}.log", stdin=subprocess.PIPE)

    def say(self, **words: object) -> None:
        self.process.stdin.write(json.dumps(words).encode() + b"\n")
        self.process.stdin.flush()


class Job:
    """Servers, workers and exporter of one job."""

    def __init__(self, name: str, folder: pathlib.Path, workers: int, pause: float,
                 coordinator: str = "", port: int = 0, restore: str = "freshest",
                 **options: object) -> None:
        """port: the exporter's; restore: of servers that are started again."""
        self.name, self.folder, self.restore = name, folder, restore
        job_key, self.keys = folder / f"{name}.key", {}
        keygen("--out", str(job_key))
        for role in ("server", "observer", *range(8)):
            self.keys[role] = folder / f"{name}-{role}.key"
            keygen("--from", str(job_key), *(["--worker", str(role)] if isinstance(role, int)
                                             else [f"--{role}"]), "--out", str(self.keys[role]))
        if coordinator:
            options.update(coordinator=coordinator, job=name)
        self.run = outlast.launch(workers=workers, job_key_file=str(self.keys["server"]), log="info",
                                  log_format="full", **options)
        self.servers, self.down = self.run.servers, set()
        where = ["--coordinator", coordinator] if coordinator else ["--servers", self.run.address]
        self.exporter = Exporter(name, where, folder, self.keys["observer"], port)
        self.exporter.start()
        self.crew = Crew(folder, job=name, address=self.run.address, coordinator=bool(coordinator),
                         keys=str(folder / f"{name}-%d.key"), workers=workers, pause=pause)
        self.crew.start()

    def add_spare(self) -> None:
        first = self.servers[0]
        spare = Server(0, f"{first.address}-spare", first._words, first.log.parent, first._life,
                       len(self.servers))
        spare.start()
        self.servers.append(spare)

    def kill(self, server: Server) -> None:
        self.down.add(server)
        server.kill()

    def start(self, server: Server, restore: str = "") -> None:
        server.restart(restore or self.restore)
        self.down.discard(server)

    def replicas(self) -> list[Server]:
        """Of a chain, from head to tail."""
        said = subprocess.run(self.run._stat, capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL)
        rows = json.loads(said.stdout)["shards"][0]["replicas"] if said.stdout else []
        order = {"head": 0, "only": 0, "middle": 1, "tail": 2}
        found = sorted((order[row["role"]], row["address"]) for row in rows if row.get("role") in order)
        by_address = {server.address: server for server in self.servers}
        return [by_address[address] for _, address in found if address in by_address]

    def close(self) -> None:
        self.crew.kill()
        self.exporter.kill()
        self.run.close()


def keygen(*words: str) -> None:
    subprocess.run([program(), "keygen", *words], check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL)


class Prometheus(Program):
    def __init__(self, folder: pathlib.Path, rules: str, targets: dict[str, tuple[int, int]]) -> None:
        """targets: by name, port and seconds between two scrapes."""
        self.port = free_port()
        folder.mkdir()
        (folder / "alerts.yml").write_text(rules)
        scrapes = [{"job_name": f"outlast-{name}", "honor_labels": True, "scrape_interval": f"{every}s",
                    "scrape_timeout": f"{every}s",
                    "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
                   for name, (port, every) in targets.items()]
        (folder / "prometheus.yml").write_text(json.dumps(  # JSON is YAML
            {"global": {"evaluation_interval": f"{SCRAPE_S}s"}, "rule_files": ["alerts.yml"],
             "scrape_configs": scrapes}))
        super().__init__(["prometheus", f"--config.file={folder}/prometheus.yml",
                          f"--storage.tsdb.path={folder}/data",
                          f"--web.listen-address=127.0.0.1:{self.port}"], folder / "log")

    def start(self) -> None:
        super().start()
        until("Prometheus is ready", self.ready)

    def ready(self) -> bool:
        with contextlib.suppress(OSError):
            return bool(fetch(f"http://127.0.0.1:{self.port}/-/ready"))
        return False

    def ask(self, what: str, **words: object) -> dict:
        return json.loads(fetch(f"http://127.0.0.1:{self.port}/api/v1/{what}?"
                                + urllib.parse.urlencode(words)))["data"]

    def firing(self) -> set[tuple[str, str]]:
        """Alerts as (name without "Outlast", job)."""
        return {(one["labels"]["alertname"].removeprefix("Outlast"), one["labels"].get("job", ""))
                for one in self.ask("alerts")["alerts"] if one["state"] == "firing"}


DURATION_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}


def scale(rules: str, factor: float) -> str:
    """Alert rules whose waiting is shorter by a factor: `for:`, windows, and the age of a checkpoint.

    What compares with how long the system itself takes stays: a turn, a push, a scrape.
    """
    def shorter(number: str, unit: str) -> str:
        return f"{round(float(number) * DURATION_S[unit] / factor * 1000)}ms"

    rules = re.sub(r"for: (\d+)(ms|[smh])\b", lambda m: f"for: {shorter(m[1], m[2])}", rules)
    rules = re.sub(r"\[(\d+)(ms|[smh])\]", lambda m: f"[{shorter(m[1], m[2])}]", rules)
    rules, count = re.subn(r"(_age_seconds\)? > )(\d+)", lambda m: f"{m[1]}{float(m[2]) / factor:g}", rules)
    if count == 0:
        raise SystemExit("alerts.yml: no age of a checkpoint is compared with a number that can be scaled")
    return rules


class Worker(threading.Thread):
    """Walks from zero towards a random vector, and pauses after each push."""

    def __init__(self, number: int, words: dict, orders: dict) -> None:
        super().__init__(daemon=True)
        self.number, self.words, self.orders = number, words, orders
        self.target = numpy.zeros(0, dtype=numpy.float32)

    def run(self) -> None:
        where = {"job": self.words["job"]} if self.words["coordinator"] else {}
        while True:
            try:
                with outlast.connect(self.words["address"], worker=self.number, outage="wait",
                                     outage_timeout=0, connect_timeout=3600,
                                     job_key_file=self.words["keys"] % self.number, **where) as job:
                    while True:
                        self.step(job)
            except outlast.Error as error:
                print(f"{time.strftime('%T')} worker {self.number}: {error!r}", flush=True)
                time.sleep(0.2)

    def step(self, job: outlast.Job) -> None:
        weights = job.pull()
        grad = job.grad()
        if len(self.target) != len(grad):
            self.target = numpy.random.default_rng(1).standard_normal(len(grad), dtype=numpy.float32)
        numpy.subtract(weights.array, self.target, out=grad)
        loss = float(numpy.dot(grad, grad)) / len(grad)
        if self.number == 0 and self.orders.pop("nan", False):
            grad[:] = numpy.nan
        try:
            job.push(grad, loss=loss, samples=32)
        except (outlast.Dropped, outlast.Lost) as error:
            print(f"{time.strftime('%T')} worker {self.number}: {error!r}", flush=True)
        began = time.monotonic()
        while self.orders.get("hold") or time.monotonic() - began < self.pause():
            job.poll()
            time.sleep(0.02)

    def pause(self) -> float:
        return self.orders.get(f"pause{self.number}") or self.orders["pause"]


def header_of(grad: numpy.ndarray) -> int:
    """Where the header behind a gradient lies: in another mapping of the same memory, which is the server's."""
    maps = [line.split() for line in open("/proc/self/maps", encoding="utf-8") if "memfd" in line]
    maps = [(*(int(end, 16) for end in words[0].split("-")), int(words[2], 16), words[4], words[1])
            for words in maps]
    own = next(one for one in maps if one[0] <= grad.ctypes.data < one[1])
    whole = next(one for one in maps if one[3] == own[3] and one[2] == 0 and one[4] == "rw-s")
    return whole[0] + own[2] + grad.ctypes.data - own[0] + grad.nbytes


def scribble(words: dict) -> None:
    """A worker whose memory is broken: the headers of its gradients change once they are written."""
    with outlast.connect(words["address"], worker=words["worker"], outage="end",
                         job_key_file=words["key"], connect_timeout=30) as job:
        job.pull()
        grad = job.grad()
        grad[:] = 0.0
        header = header_of(grad)

        def spoil() -> None:
            while True:
                ctypes.memset(header, 0xff, 16)

        threading.Thread(target=spoil, daemon=True).start()
        with contextlib.suppress(outlast.Error):
            while True:  # until it is cut off: most headers are read before they change
                job.push(grad, timeout=5)
                grad = job.grad()
                header = header_of(grad)
                time.sleep(0.01)
        os._exit(0)


def work(words: dict) -> None:
    """The process of a Crew: it ends when nobody can say anything to it any more."""
    orders = {"pause": words["pause"]}
    for number in range(words["workers"]):
        Worker(number, words, orders).start()
    for line in sys.stdin:
        orders.update(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    said = json.loads(sys.argv[1])
    (scribble if said.get("scribble") else work)(said)
