# SPDX-License-Identifier: BSD-3-Clause
"""Errors of the library as exceptions. Each carries the library's own line."""
import errno

from ._library import STATUS, lib, text


class Error(RuntimeError):
    """A call of the library failed, or a server did not start.

    code: what the C function returned: -errno, or an OL_E_* code of outlast.h; 0: no function did.
    status: the code's name: "NO_SERVER", "ETIMEDOUT"; "": none.
    """

    def __init__(self, line: str, code: int = 0) -> None:
        super().__init__(line)
        self.code = code
        self.status = status_name(code)


class NoServer(Error, ConnectionError):
    """A server is not reachable, or was gone for longer than outage_timeout."""


class Refused(Error, ConnectionError):
    """A server, or its coordinator, does not take this worker: key, id, geometry, limits."""


class Dropped(Error):
    """The servers dropped the gradient and counted it. The job goes on: pull, then compute anew."""


class Late(Dropped):
    """The gradient came after its step was made."""


class NonFinite(Dropped):
    """The gradient holds a NaN or an infinity."""


class Lost(Error):
    """A server came back with weights that lack this gradient."""


class Torn(Error):
    """Weights kept changing while they were read."""


class HistoryChanged(Error):
    """A server came back with older weights than this reader has seen, and the job has not come
    that far again. To go on from there, open another reader."""


class WrongThread(Error):
    """The handle belongs to another thread, or this process is a child of a fork."""


class Timeout(Error, TimeoutError):
    """A wait took longer than its timeout. The work goes on: see Job.push()."""


class Closed(Error):
    """The handle was closed by close()."""


CLASSES: dict[str, type[Error]] = {
    "NO_SERVER": NoServer, "LATE": Late, "NONFINITE": NonFinite, "LOST": Lost, "TORN": Torn,
    "HISTORY": HistoryChanged,
    "THREAD": WrongThread, "ETIMEDOUT": Timeout,
    **dict.fromkeys(("AUTH", "WORKER_ID", "FULL", "GEOMETRY", "WIRE", "RESOURCES", "EACCES",
                     "EPERM"), Refused),
}
NAMES = {number: name for name, number in STATUS.items()}


def status_name(code: int) -> str:
    if code == 0:
        return ""
    return NAMES.get(code) or errno.errorcode.get(-code, str(code))


def make(code: int, line: str = "") -> Error:
    """The exception of a code; without a line, the library's text of the code."""
    return CLASSES.get(status_name(code), Error)(line or text(lib.ol_strerror(code)), code)
