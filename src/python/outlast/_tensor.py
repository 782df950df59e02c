# SPDX-License-Identifier: BSD-3-Clause
"""What a job's parameters are: tensors with names and shapes, one behind the other in its vector."""
import dataclasses
import errno
import json
import pathlib
import reprlib
from collections.abc import Iterable

import numpy

from . import _errors
from ._library import ffi, lib, text

WHY_BYTES = 512
ALIGN = 8


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A part of the job's vector: array[first:first + count], in this shape."""

    name: str
    shape: tuple[int, ...]
    first: int
    count: int
    others: tuple[str, ...] = ()  # its names where a model uses it again: tied parameters


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
    if table != ffi.NULL:
        others_read(at, found)
    return tuple(found)


def others_read(at: object, found: list[Tensor]) -> None:
    """The other names, behind the tensors."""
    number, name = ffi.new("uint64_t *"), ffi.new("char[]", lib.OL_TENSOR_NAME_MAX)
    while (rc := lib.ol_tensor_other_next(at, number, name)) != 0:
        if rc < 0 or number[0] >= len(found):
            raise _errors.Error("the other names in the job's table of tensors are none: its servers "
                                "are not to be trusted", rc)
        one = found[number[0]]
        found[number[0]] = dataclasses.replace(one, others=(*one.others, text(name)))


def table_of(named: Iterable[tuple[str, object]], others: dict[str, str] | None = None) -> str:
    """The table of tensors (or arrays) with names, and other names of these; as outlast_tensor.h says."""
    names, lines = {}, []
    for name, one in named:
        names[name] = len(lines)
        lines.append(f"F32 {','.join(str(size) for size in one.shape) or '-'} {name}\n")
    lines += [f"= {names[kept]} {other}\n" for other, kept in (others or {}).items()]
    return "".join(lines)


def others_of(model: object) -> dict[str, str]:
    """Of parameters that a model of PyTorch uses again: other name, and the one that it has first."""
    first: dict[int, str] = {}
    found: dict[str, str] = {}
    for prefix, module in model.named_modules(remove_duplicate=False):
        for name, one in module._parameters.items():
            if one is not None:
                whole = f"{prefix}.{name}" if prefix else name
                if first.setdefault(id(one), whole) != whole:
                    found[whole] = first[id(one)]
    return found


def differ(mine: str, theirs: object) -> str | None:
    """The first difference between a table and the one of a job, a C string."""
    why = ffi.new("char[]", WHY_BYTES)
    if lib.ol_tensor_differ(mine.encode(), theirs, why, WHY_BYTES) == 0:
        return None
    return text(why)


def write(path: pathlib.Path, named: list[tuple[str, numpy.ndarray]],
          others: dict[str, str] | None = None) -> None:
    """A .safetensors file of float32; other names as safetensors.torch.save_model() has them."""
    header, end = {"__metadata__": others} if others else {}, 0
    for name, array in named:
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [begin, end]}
    said = json.dumps(header).encode()
    said += b" " * (-len(said) % ALIGN)
    with open(path, "wb") as file:
        file.write(len(said).to_bytes(8, "little") + said)
        for _, array in named:
            file.write(array.tobytes())


def is_model(init: object) -> bool:
    """A model of PyTorch, and not the class of one."""
    return hasattr(init, "named_parameters") and not isinstance(init, type)


def of_model(model: object) -> list[tuple[str, numpy.ndarray]]:
    """The parameters of a model of PyTorch, with their names. Raises ValueError if no job can hold them."""
    for name, one in model.named_parameters():
        if str(one.dtype) != "torch.float32" or one.is_sparse or one.is_meta:
            raise ValueError(f'init: parameter "{name}" is {one.dtype} on {one.device}: a job '
                             "holds float32; model.float() makes it so")
    named = [(name, numpy.asarray(one.detach().cpu().numpy(), order="C"))
             for name, one in model.named_parameters()]
    check(table_of(named, others_of(model)), sum(array.size for _, array in named))
    return named


def of_array(array: object) -> numpy.ndarray:
    """A vector of float32."""
    try:
        return numpy.ascontiguousarray(array, dtype=numpy.float32).reshape(-1)
    except (TypeError, ValueError):
        raise TypeError(f"init {reprlib.repr(array)}: a model of PyTorch, a vector of float32, as "
                        "outlast.torch.vector(model) makes it, or a file") from None


def check(table: str, count: int) -> None:
    """Raise Error if no job can have this table."""
    why = ffi.new("char[]", WHY_BYTES)
    if lib.ol_tensor_fault(table.encode(), count, why, WHY_BYTES) != 0:
        raise _errors.Error(text(why), -errno.EINVAL)
