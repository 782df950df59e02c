# SPDX-License-Identifier: BSD-3-Clause
"""Exit codes, as of tools/cmd/cmd.h, and what ends a drill with one of them."""
import contextlib
import sys

FAILED, USAGE, DATA, RESOURCES, CHILD, SIGNAL = 1, 2, 3, 7, 8, 128


class Failure(Exception):
    """Ends the drill with an exit code and one line; without a line, somebody has said it already."""

    def __init__(self, code: int, *words: str) -> None:
        super().__init__(": ".join(words))
        self.code = code

    def said(self) -> int:
        if str(self):
            with contextlib.suppress(OSError):
                print(f"outlast drill: {self}", file=sys.stderr, flush=True)
        return self.code
