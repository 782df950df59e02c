# SPDX-License-Identifier: BSD-3-Clause
"""What a report is: files of text, pictures, one JSON object, and the summary on a terminal."""
import json
import math
import pathlib
from dataclasses import dataclass, field
from typing import Any, Callable

Draw = Callable[[pathlib.Path], None]  # a picture as .svg and .png, given the path without either


@dataclass
class Report:
    summary: str
    files: dict[str, str]
    pictures: dict[str, Draw]
    tables: dict[str, Any]  # of --json
    begin: str = ": begin with README.md there"
    status: int = 0

    def write(self, folder: pathlib.Path, json_name: str | None) -> None:
        for name, text in self.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        if json_name is not None:
            text = json.dumps(known(self.tables), indent=2, allow_nan=False)
            pathlib.Path(json_name).write_text(text, encoding="utf-8")
        if self.pictures:
            (folder / "plots").mkdir(exist_ok=True)
        for name, draw in self.pictures.items():
            draw(folder / "plots" / name)


def known(value: Any) -> Any:
    """The same with null for every number that is not known, as JSON has no other word for it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: known(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [known(one) for one in value]
    return value


@dataclass
class Table:
    """Rows of words; `words` columns from the left are words, the others numbers."""
    head: list[str]
    rows: list[list[str]] = field(default_factory=list)
    words: int = 2

    def text(self) -> str:
        """For a terminal: words to the left, numbers to the right."""
        lines = [self.head, *self.rows]
        widths = [max(len(line[c]) for line in lines) for c in range(len(self.head))]
        return "".join(
            "  ".join(cell.ljust(width) if c < self.words else cell.rjust(width)
                      for c, (cell, width) in enumerate(zip(line, widths))) + "\n"
            for line in lines)

    def markdown(self) -> str:
        under = ["---" if c < self.words else "---:" for c in range(len(self.head))]
        return "".join(f"| {' | '.join(line)} |\n" for line in [self.head, under, *self.rows])
