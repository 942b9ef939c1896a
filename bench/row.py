"""What a row is: the work, the limit on it, and everybody who does it; and how much of it is measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from bench.ground import Ground
from bench.measure import Clock, Contender


class Scale(NamedTuple):
    """How much is measured: to be published, for a look, or to see that it runs at all."""

    rounds: int
    """Of the short rows; the long ones take a share of it."""
    calls: int = 10
    """In a block of a short row."""
    divisor: int = 1
    sessions: int = 10_000
    """On the machine of the rows that list and search."""

    def of(self, size: int) -> int:
        return max(2, size // self.divisor)


SCALES = {"full": Scale(200), "quick": Scale(60, 5, sessions=1_000), "smoke": Scale(2, 2, 1000, 20)}


class Row(NamedTuple):
    name: str
    title: str
    """{sessions} in it is how many there are on the machine that is measured."""
    contenders: Callable[[Ground, Scale, ExitStack], list[Contender]]
    share: float = 1.0
    """Of the scale's rounds."""
    clock: Clock = time.perf_counter
    unit: str = "seconds"
    """Or bytes."""
