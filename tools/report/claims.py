# SPDX-License-Identifier: BSD-3-Clause
"""Published claims, what was measured of each, and verdicts."""
import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

TRIALS_MIN = 5  # fewer decide no claim about what is usual
NEARLY_EVERY = 0.9  # of trials


class Verdict(enum.Enum):
    CONFIRMED = "confirmed"
    NOT_CONFIRMED = "not confirmed"
    CANNOT_JUDGE = "cannot be judged here"


@dataclass
class Claim:
    id: str
    claim: str
    criterion: str  # fixed beforehand
    numbers: str = ""
    verdict: Verdict = Verdict.CANNOT_JUDGE
    because: str = ""  # CANNOT_JUDGE: why

    def add(self, text: str, between: str = "") -> None:
        """To what was measured; `between` it and what is there already."""
        self.numbers += (between if self.numbers else "") + text

    def decide(self, confirmed: bool) -> None:
        self.verdict = Verdict.CONFIRMED if confirmed else Verdict.NOT_CONFIRMED

    def cannot(self, because: str) -> None:
        self.verdict, self.because = Verdict.CANNOT_JUDGE, because

    def enough(self, count: int, of: str, least: int = TRIALS_MIN) -> bool:
        """False, with the reason: too few trials to say what is usual."""
        if count >= least:
            return True
        self.cannot(f"{of}: {count}, and a verdict takes {least}")
        return False

    def json(self) -> dict[str, str]:
        return {"id": self.id, "verdict": self.verdict.value, "numbers": self.numbers,
                "because": self.because}


Subject = TypeVar("Subject")  # what an experiment has measured


def judge_all(table: Iterable[tuple[str, str, str, Callable[[Subject, Claim], None]]],
              subject: Subject) -> list[Claim]:
    """Of (id, claim, criterion, judge), in order."""
    claims = []
    for name, claim, criterion, judge in table:
        claims.append(Claim(name, claim, criterion))
        judge(subject, claims[-1])
    return claims


def markdown(claims: list[Claim], source: str, command: str) -> str:
    """claims.md, of what was published as `source`. One line names what is not judged."""
    text = (f"# Published claims\n\nOf {source}. The criteria are part of the program and were "
            f"fixed beforehand.\n\nMade by `{command}`.\n")
    judged = [c for c in claims if c.verdict is not Verdict.CANNOT_JUDGE]
    others = [c.id for c in claims if c.verdict is Verdict.CANNOT_JUDGE]
    if judged:
        text += "\n| | claim | criterion | numbers | verdict |\n| --- | --- | --- | --- | --- |\n"
    for c in judged:
        text += f"| {c.id} | {c.claim} | {c.criterion} | {c.numbers or '-'} | {c.verdict.value} |\n"
    if others:
        text += (f"\nNot judged from these runs: {'; '.join(others)}. `--json` has the reason of "
                 "each.\n")
    return text
