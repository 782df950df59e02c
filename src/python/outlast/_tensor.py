# SPDX-License-Identifier: BSD-3-Clause
"""What a job's parameters are: tensors with names and shapes, one behind the other in its vector."""
import errno
import json
import pathlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy

from . import _errors
from ._library import ffi, lib, text

WHY_BYTES = 512
ALIGN = 8


@dataclass(frozen=True)
class Tensor:
    """A part of the job's vector: array[first:first + count], in this shape."""

    name: str
    shape: tuple[int, ...]
    first: int
    count: int


def read(table: object) -> tuple[Tensor, ...]:
    """The tensors of a table of the library, a C string or NULL. Raises Error if it is none."""
    found: list[Tensor] = []
    at = ffi.new("const char **", table)
    one = ffi.new("struct ol_tensor *")
    while table != ffi.NULL and (rc := lib.ol_tensor_next(at, one)) != 0:
        if rc < 0:
            raise _errors.Error(f"line {len(found) + 1} of the job's table of tensors is none: its "
                                "servers are not to be trusted", rc)
        found.append(Tensor(text(one.name), tuple(one.shape[0:one.dims]), one.first, one.count))
    return tuple(found)


def table_of(named: Iterable[tuple[str, object]]) -> str:
    """The table of tensors (or arrays) with names; as outlast_tensor.h says."""
    lines = (f"F32 {','.join(str(size) for size in one.shape) or '-'} {name}\n"
             for name, one in named)
    return "".join(lines)


def differ(mine: str, theirs: object) -> str | None:
    """The first difference between a table and the one of a job, a C string."""
    why = ffi.new("char[]", WHY_BYTES)
    if lib.ol_tensor_differ(mine.encode(), theirs, why, WHY_BYTES) == 0:
        return None
    return text(why)


def write(path: pathlib.Path, named: list[tuple[str, numpy.ndarray]]) -> None:
    """A .safetensors file of float32."""
    header, end = {}, 0
    for name, array in named:
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [begin, end]}
    said = json.dumps(header).encode()
    said += b" " * (-len(said) % ALIGN)
    with open(path, "wb") as file:
        file.write(len(said).to_bytes(8, "little") + said)
        for _, array in named:
            file.write(array.tobytes())


def check(named: list[tuple[str, object]], count: int) -> None:
    """Raise Error if no job can have these."""
    why = ffi.new("char[]", WHY_BYTES)
    if lib.ol_tensor_fault(table_of(named).encode(), count, why, WHY_BYTES) != 0:
        raise _errors.Error(text(why), -errno.EINVAL)
