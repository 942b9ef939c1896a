"""Contenders take turns in small blocks, so that whatever the machine does meanwhile happens to all of them.

A figure is a ratio to another contender of the same run: round by round the median of one's block is
divided by that of the other's, and the median of these counts. A time alone says little on a shared machine.
"""

from __future__ import annotations

import gc
import math
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median, quantiles
from typing import Any, NamedTuple

Clock = Callable[[], float]
Blocks = dict[int, list[float]]
"""What was measured, by the number of the round."""


class Contender(NamedTuple):
    name: str
    work: Callable[[], Any]
    against: str | None = None
    """The contender its ratio is to; None for a limit."""
    at_most: float | None = None
    """The ratio we allow ourselves."""
    calls: int = 1
    """In one block, each timed by itself."""
    before: Callable[[], Any] | None = None
    """Before each block, untimed."""
    after: Callable[[Any], Any] | None = None
    """With what each call of `work` returned, untimed."""
    reports: bool = False
    """`work` is a whole block and returns its figures: what another process measured of itself."""
    every: int = 1
    """It takes part in one of so many rounds: one that is slow would take most of the run."""


class Lost(Exception):
    """A contender that cannot go on. It is left out; the others are measured."""


class Figure(NamedTuple):
    name: str
    median: float
    """Of all calls, in the row's unit."""
    against: str | None
    ratio: float
    low: float
    """Half of the rounds' ratios lie between this and `high`."""
    high: float
    at_most: float | None


def compare(contenders: Sequence[Contender], rounds: int, clock: Clock = time.perf_counter) -> list[Figure]:
    measured: dict[str, Blocks] = {each.name: {} for each in contenders}
    if len(measured) < len(contenders):
        raise ValueError(f"two contenders have one name: {[each.name for each in contenders]}")

    def take_turns(order: Sequence[Contender], number: int) -> None:
        for each in order:
            if each.name in measured and number % min(each.every, rounds // 2 or 1) == 0:
                try:
                    measured[each.name][number] = _block(each, clock)
                except Lost as lost:
                    del measured[each.name]
                    print(f"left out: {each.name}: {lost}", file=sys.stderr)

    take_turns(contenders, 0)  # first pages, caches and imports are nobody's figure: round 0 comes once more
    for number in range(rounds):
        gc.collect()
        # Every other round in reverse: nobody always runs behind the same neighbour.
        take_turns(contenders if number % 2 == 0 else contenders[::-1], number)
    return [
        _figure(each, measured[each.name], measured[each.against or each.name])
        for each in contenders
        if each.name in measured and (each.against or each.name) in measured
    ]


def _block(contender: Contender, clock: Clock) -> list[float]:
    if contender.before is not None:
        contender.before()
    if contender.reports:
        figures: list[float] = contender.work()
        return figures
    spent = []
    for _ in range(contender.calls):
        start = clock()
        result = contender.work()
        spent.append(clock() - start)
        if contender.after is not None:
            contender.after(result)
        del result  # before the next call, and not in its time
    return spent


def _figure(contender: Contender, own: Blocks, beside: Blocks) -> Figure:
    ratios = [median(own[number]) / (median(beside[number]) or math.inf) for number in own.keys() & beside]
    low, middle, high = quantiles(ratios, n=4, method="inclusive")
    return Figure(
        contender.name,
        median(each for block in own.values() for each in block),
        contender.against,
        middle,
        low,
        high,
        contender.at_most,
    )
