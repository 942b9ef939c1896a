"""What is wrong with a session, told up to a hundred times and counted beyond that.

A file of a million bad lines must not cost a million sentences, and nobody reads them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

MOST = 100


class Rest(str):
    """A sentence that stands for all those that are not told."""

    __slots__ = ("stands_for",)

    stands_for: int

    def __new__(cls, count: int) -> Self:
        made = super().__new__(cls, f"{count:,} more {'is' if count == 1 else 'are'} not told one by one.")
        made.stands_for = count
        return made


def how_many(findings: Iterable[object]) -> int:
    """How many there are, with those that are not told."""
    return sum(getattr(each, "stands_for", 1) for each in findings)


class Notices(list[str]):
    """Sentences of which a hundred are kept; `told` has them, and how many more there are."""

    def __init__(self) -> None:
        super().__init__()
        self._untold = 0

    def add(self, sentence: str) -> None:
        if len(self) < MOST:
            self.append(sentence)
        else:
            self._untold += 1

    def told(self) -> list[str]:
        return [*self, *([Rest(self._untold)] if self._untold else [])]
