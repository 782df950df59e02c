# SPDX-License-Identifier: BSD-3-Clause
"""The declarations of the headers of NAMES, in the form that cffi reads.

The headers are the only description of the interface: nothing is declared twice, so nothing can
drift. A struct that grew since travels with its size, as the header's comment SIZES says.
"""
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ("outlast.h", "outlast_counters.h", "outlast_rule.h", "outlast_span.h", "outlast_tensor.h")
PLACES = (HERE, HERE.parents[1] / "include")  # in an installed package; in the source tree


def folder() -> pathlib.Path:
    for place in PLACES:
        if (place / NAMES[0]).is_file():
            return place
    raise ImportError(f"{NAMES[0]} is neither in {' nor in '.join(map(str, PLACES))}")


def read() -> str:
    return "".join((folder() / name).read_text(encoding="utf-8") for name in NAMES)


def version(text: str) -> str:
    """"1.0.0": of the header."""
    found = dict(re.findall(r"^#define OL_VERSION_(MAJOR|MINOR|PATCH)\s+(\d+)$", text, re.M))
    return ".".join(found[part] for part in ("MAJOR", "MINOR", "PATCH"))


def codes(text: str) -> dict[str, int]:
    """Name and number of each line of OL_STATUS_MAP, without OL_E_."""
    found = re.search(r"#define OL_STATUS_MAP\(X\)(.*?[^\\])\n", text, re.S)
    if found is None:
        raise ImportError("outlast.h has no OL_STATUS_MAP")
    return {name: int(number) for name, number in re.findall(r"X\((\w+), (-\d+),", found[1])}


def declarations(text: str) -> str:
    """Without comments, preprocessor lines, inline functions and attributes."""
    status = ", ".join(f"OL_E_{name} = {number}" for name, number in codes(text).items())
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#endif", "", text, flags=re.S | re.M)
    text = text.replace("\\\n", " ")
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    text = re.sub(r"^enum ol_status \{.*?\};", f"enum ol_status {{ {status} }};", text,
                  flags=re.S | re.M)
    text = re.sub(r"^static inline .*?^\}", "", text, flags=re.S | re.M)
    return text.replace("OL_API ", "")
