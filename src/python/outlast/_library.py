# SPDX-License-Identifier: BSD-3-Clause
"""Finds liboutlast and loads it: `ffi`, `lib`.

cffi gives up Python's lock for each call into the library, so other threads run meanwhile.
"""
import os
import pathlib

from . import _header

try:
    import cffi
except ImportError as error:
    raise ImportError("the package outlast needs cffi: apt-get install python3-cffi") from error

NAME = "liboutlast.so.1"
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]  # of the source tree, if the package lies there
BUILDS = [ROOT / "build" / name for name in ("release", "dev")]


def installed() -> list[pathlib.Path]:
    """Where CMake put the library and the program, seen from an installed package."""
    try:
        from . import _installed
    except ImportError:
        return []
    return [HERE / _installed.LIBRARY_DIR, HERE / _installed.PROGRAM_DIR]


def places() -> list[str]:
    """Files to try, in order; a name without a folder is for the loader's own list."""
    said = os.environ.get("OUTLAST_LIBRARY")
    if said:
        return [said]
    folders = installed() or BUILDS
    return [str(path / NAME) for path in folders if (path / NAME).is_file()] + [NAME]


def load() -> tuple[cffi.FFI, object, str]:
    reader = cffi.FFI()
    reader.cdef(_header.declarations(header))
    said = []
    for place in places():
        try:
            return reader, reader.dlopen(place), place
        except OSError as error:
            said.append(str(error))
    raise ImportError(f"cannot load {NAME}; OUTLAST_LIBRARY can name its file: {'; '.join(said)}")


header = _header.read()
STATUS = _header.codes(header)  # "NO_SERVER": -1010
ffi, lib, path = load()


def text(pointer: object) -> str:
    """A C string of the library."""
    return ffi.string(pointer).decode("utf-8", "replace")
