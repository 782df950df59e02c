# SPDX-License-Identifier: BSD-3-Clause
"""One drill: its folder, the processes that it starts one after another, signals, progress, the record."""
import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .errors import CHILD, FAILED, RESOURCES, SIGNAL, USAGE, Failure
from .settings import Settings

TICK_S = 0.25
LATE_S = 180  # that a run may take beyond twice its time: reading data, evaluations
END_S = 30  # for it to report once it has been told to end
START_GUESS_S = 3.0  # of each run: processes up, data read
LINE_MAX = 255
LAST_MAX = 191  # of what a run said last
PLAIN = re.compile(r"[A-Za-z0-9_=./:,+@%-]+")
# What shapes a run; which runs there are may change from one --resume to the next.
RUN_SETTINGS = ("preset", "seconds", "kill_at", "down", "again", "pace", "scale", "eval_seconds",
                "checkpoint_every", "model", "final_relu", "dataset", "lr", "batch", "transport")
PYTHONS = ("python3", "/usr/bin/python3")  # the second where PATH leads to none
PYTHON_IS_MISSING = 127  # exit status, as of a shell: a script that has none to call
PACKAGES = "python3-numpy python3-scipy python3-matplotlib"


def quoted(word: str) -> str:
    return word if PLAIN.fullmatch(word) else "'" + word.replace("'", "'\\''") + "'"


def duration(seconds: float) -> str:
    """1 h 20 min, 4 min 05 s"""
    s = int(max(0.0, seconds) + 0.5)
    if s >= 3600:
        return f"{s // 3600} h {s // 60 % 60:02} min"
    return f"{s // 60} min {s % 60:02} s" if s >= 60 else f"{s} s"


def known(value: float) -> float | None:
    """null in a record: not known"""
    return value if math.isfinite(value) else None


def signed(seed: int) -> int:
    """64 bits as JSON's readers in C take them"""
    return (seed + 2**63) % 2**64 - 2**63


def settings_lines(text: str) -> list[str]:
    """name = value, without the word on where a value is from"""
    return [line.partition("#")[0].rstrip(" ") for line in text.split("\n")]


class Drill:
    PATH_MAX = 1024

    def __init__(self, story: dict[str, Any]) -> None:
        self.settings = Settings(story["settings"])
        self.outlast: str = story["outlast"]
        self.words: list[str] = story["words"]  # handed on to train
        self.file: str = story["file"]  # the settings, as a file has them
        self.command = " ".join(["outlast drill", *map(quoted, story["command"])])
        self.out = ""
        self.tty = sys.stderr is not None and sys.stderr.isatty()
        self.signal = 0  # that ends the drill early; 0: none
        self.child: subprocess.Popen[bytes] | None = None
        self.told_s: float | None = None  # when the child was told to end
        self.run_count = 0
        self.run_s = 0.0  # that a run is to take
        self.busy_s = 0.0  # that runs have taken so far
        self.ran = 0
        for name in [name for name in os.environ if name.startswith("OUTLAST_")]:
            del os.environ[name]  # settings of the drill are not those of a run

    # the folder

    def experiment_check(self) -> None:
        self.settings.common_check()
        if self.words:
            raise Failure(USAGE, "no run of train is made", self.words[0],
                          "give it to --experiment kills")

    def folder_make(self) -> None:
        """Also its file `settings`."""
        kills = self.settings.text("experiment") == "kills"
        resume = self.settings.flag("resume")
        self.out = self.settings.text("out") or time.strftime("outlast-drill-%Y-%m-%d-%H%M%S")
        if resume and not os.access(f"{self.out}/settings", os.R_OK):
            raise Failure(USAGE, "there is no drill to resume in", self.out,
                          "give the folder of one that was begun")
        for path in [self.out, f"{self.out}/runs"][:2 if kills or self.settings.flag("live") else 1]:
            try:
                os.mkdir(path, 0o755)
            except FileExistsError:
                if not resume:
                    raise Failure(USAGE, "the folder is there already", path,
                                  "give another one with --out"
                                  + (", or --resume" if kills else "")) from None
            except OSError as error:
                raise Failure(FAILED, "cannot make the folder", path, error.strerror) from error
        if resume:
            self.settings_compare()
        self.write("settings", self.file)

    def settings_compare(self) -> None:
        """--resume: runs of other settings than those that are there would be compared with them."""
        path = f"{self.out}/settings"
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                before = settings_lines(file.read())
        except OSError as error:
            raise Failure(FAILED, "cannot read", path, error.strerror) from error
        now = settings_lines(self.file)
        for line in before:
            if line.partition(" ")[0] in RUN_SETTINGS and line not in now:
                raise Failure(USAGE, "the runs in the folder were made with", line,
                              "give --resume the same")

    def write(self, name: str, text: str) -> None:
        path = f"{self.out}/{name}"
        try:
            with open(path, "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
        except OSError as error:
            raise Failure(FAILED, "cannot write", path, error.strerror) from error

    def record(self, experiment: str, what: dict[str, Any]) -> None:
        """drill.json: with the files in runs/ it is all that a report is made from."""
        self.write("drill.json", json.dumps({"experiment": experiment, "command": self.command,
                                             "folder": self.out, **what},
                                            indent=1, ensure_ascii=False))

    # progress

    def say(self, line: str, stays: bool = True) -> None:
        """On stderr: a line that stays, or on a terminal one that the next overwrites."""
        line = line[:LINE_MAX]
        if self.tty:
            try:
                width = os.get_terminal_size(2).columns
            except OSError:
                width = 0
            line = "\r\033[K" + (line + "\n" if stays else line[:(width if width > 1 else 80) - 1])
        elif stays:
            line += "\n"
        else:
            return
        with contextlib.suppress(OSError):
            sys.stderr.write(line)
            sys.stderr.flush()

    def left(self, index: int, gone_s: float) -> str:
        """Until the last run ends, when run `index` has been going for gone_s"""
        each = self.busy_s / self.ran if self.ran > 0 else self.run_s + START_GUESS_S
        return duration(max(each - gone_s, 0.0) + (self.run_count - index - 1) * each)

    def of(self, index: int, name: str) -> str:
        return f"run {index + 1} of {self.run_count}, {name}"

    # processes

    def signals_take(self) -> None:
        """From now on SIGINT, SIGTERM, and SIGHUP unless it is ignored (nohup), end the process at
        hand, and then the drill."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self.on_signal)

    def on_signal(self, number: int, _frame: object) -> None:
        self.signal = number
        self.child_end()

    def child_end(self) -> None:
        if self.child is not None:
            self.child.send_signal(signal.SIGTERM)
            self.told_s = time.monotonic()

    @contextlib.contextmanager
    def started(self, words: list[str], **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
        """A process of this program. In a session of its own: Ctrl-C reaches the drill only, which
        passes it on once."""
        self.told_s = None
        with subprocess.Popen(["outlast", *words], executable=self.outlast, start_new_session=True,
                              **streams) as self.child:
            try:
                if self.signal != 0:
                    self.child_end()  # it came before there was a child
                yield self.child
            except BaseException:
                self.child.kill()
                raise
            finally:
                child, self.child = self.child, None
                child.wait()

    @contextlib.contextmanager
    def trial_started(self, experiment: str, name: str, of: dict[str, Any],
                      fds: tuple[int, ...] = ()) -> Iterator[subprocess.Popen[bytes]]:
        """`outlast trial`, to which this description has been given."""
        with contextlib.ExitStack() as stack:
            try:
                child = stack.enter_context(self.started(["trial"], stdin=subprocess.PIPE,
                                                         stdout=subprocess.PIPE, pass_fds=fds))
            except OSError as error:
                raise Failure(RESOURCES, "cannot start a trial", name, error.strerror) from error
            self.tell(child, {"experiment": experiment, "name": name, **of}, end=b"")
            yield child

    @staticmethod
    def tell(child: subprocess.Popen[bytes], order: Any, end: bytes = b"\n") -> None:
        """What a trial that has ended does not hear, its exit status explains."""
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(json.dumps(order).encode() + end)
            child.stdin.flush()

    @staticmethod
    def tell_end(child: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()

    def trial_check(self, child: subprocess.Popen[bytes], name: str) -> None:
        """It has ended."""
        code = child.wait()
        if self.signal != 0:
            raise Failure(SIGNAL + self.signal)
        if code < 0:
            raise Failure(CHILD, "a trial was killed by signal", str(-code), name)
        if code > 0:
            raise Failure(code)

    def trial(self, experiment: str, name: str, **of: Any) -> Iterator[Any]:
        """Its records."""
        with self.trial_started(experiment, name, of) as child:
            self.tell_end(child)
            for line in child.stdout:
                if line.endswith(b"\n"):  # else it was cut short
                    yield json.loads(line)
            self.trial_check(child, name)

    @contextlib.contextmanager
    def talk(self, experiment: str, name: str, fds: tuple[int, ...],
             **of: Any) -> Iterator[tuple[Callable[[Any], Any], Any]]:
        """What gives it an order and returns the answer; its first answer."""
        with self.trial_started(experiment, name, of, fds) as child:
            def answer() -> Any:
                line = child.stdout.readline()
                if line.endswith(b"\n") and self.signal == 0:
                    return json.loads(line)
                self.tell_end(child)
                self.trial_check(child, name)
                raise Failure(CHILD, "a trial ended too soon", name)

            def ask(order: Any) -> Any:
                self.tell(child, order)
                return answer()

            yield ask, answer()
            self.tell_end(child)
            self.trial_check(child, name)

    def refusal(self, words: list[str]) -> Failure | None:
        """Why `outlast train` makes no run with these words, in a line of its own"""
        try:
            with self.started(["train", *words, "--check"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
                said = child.stderr.read().decode(errors="replace")
        except OSError as error:
            raise Failure(RESOURCES, "cannot start a run", error.strerror) from error
        if self.signal != 0:
            raise Failure(SIGNAL + self.signal)
        if child.returncode == 0:
            return None
        return Failure(child.returncode if child.returncode > 0 else CHILD, "no run can be made",
                       said_last(said.split("\n")).removeprefix("outlast train: "))

    def run(self, index: int, name: str, words: list[str]) -> str:
        """`outlast train` with these words, watched until it ends; why it failed, or nothing."""
        log = f"{self.out}/runs/{name}.log"
        begin, late = time.monotonic(), False
        try:
            with (open(log, "wb") as file,
                  self.started(["train", *words], stdin=subprocess.DEVNULL, stdout=file,
                               stderr=subprocess.STDOUT) as child):
                while child.returncode is None:
                    now = time.monotonic()
                    self.say(f"{self.of(index, name)}: {now - begin:.0f} s of {self.run_s:.0f}; about "
                             f"{self.left(index, now - begin)} left", stays=False)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        child.wait(TICK_S)
                    if self.told_s is None and now - begin > 2.0 * self.run_s + LATE_S:
                        late = True
                        self.child_end()
                    if self.told_s is not None and now - self.told_s > END_S:
                        child.kill()
        except OSError as error:
            raise Failure(RESOURCES, "cannot start a run", name, error.strerror) from error
        self.busy_s += time.monotonic() - begin
        self.ran += 1
        if self.signal != 0 or child.returncode == 0:
            return ""
        why = "did not end in its time" if late else \
            f"killed by signal {-child.returncode}" if child.returncode < 0 else \
            f"exit status {child.returncode}"
        return f"{why}; {log_last(log)[:LAST_MAX]}"

    def report(self) -> int:
        """Every file of the folder but drill.json and runs, and the summary on stdout; an exit
        code, where it has said why: CHILD if a run failed."""
        program = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "report")
        json_name = self.settings.text("json")
        words = [program, *([] if json_name is None else [f"--json={json_name}"]), "--", self.out]
        if not os.access(program, os.X_OK):
            raise self.no_report("its program is not there", "install all of outlast")
        for python in PYTHONS:
            try:
                with subprocess.Popen([python, *words]) as self.child:
                    status = self.child.wait()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise self.no_report(python, error.strerror) from error
            finally:
                self.child = None
            if status != PYTHON_IS_MISSING:
                return status if status >= 0 else SIGNAL - status
        raise self.no_report("there is no python3", f"apt-get install {PACKAGES}")

    def no_report(self, what: str, remedy: str) -> Failure:
        return Failure(FAILED, "no report", what, f"{remedy}; the runs are kept, and outlast drill "
                                                  f"--report {self.out} makes the report")


def said_last(lines: Iterable[str]) -> str:
    """The last line of train's own errors, or else the last that says anything"""
    own, last = False, ""
    for text in lines:
        is_own = text.startswith("outlast train: ")
        text = re.split("[\r\n]", text, maxsplit=1)[0]
        if text and (is_own or not own):
            own, last = own or is_own, text
    return last


def log_last(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
            return said_last(file)
    except OSError:
        return ""
