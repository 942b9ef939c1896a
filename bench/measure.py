"""Contenders take turns in small blocks, so that whatever the machine does meanwhile happens to all of them.

A figure is a ratio to another contender of the same run: round by round the median of one's block is
divided by that of the other's, and the median of these counts. A time alone says little on a shared machine.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from statistics import median, quantiles
from typing import Any, NamedTuple

Clock = Callable[[], float]


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


class Figure(NamedTuple):
    name: str
    seconds: float
    """The median of all calls."""
    against: str | None
    ratio: float
    low: float
    """Half of the rounds' ratios lie between this and `high`."""
    high: float
    at_most: float | None


def compare(contenders: Sequence[Contender], rounds: int, clock: Clock = time.perf_counter) -> list[Figure]:
    samples: dict[str, list[list[float]]] = {each.name: [] for each in contenders}
    if len(samples) < len(contenders):
        raise ValueError(f"two contenders have one name: {[each.name for each in contenders]}")
    for each in contenders:
        _block(each, clock)  # first pages, caches and imports are nobody's figure
    for number in range(rounds):
        gc.collect()
        # Every other round in reverse: nobody always runs behind the same neighbour.
        for each in contenders if number % 2 == 0 else reversed(contenders):
            samples[each.name].append(_block(each, clock))
    return [_figure(each, samples) for each in contenders]


def _block(contender: Contender, clock: Clock) -> list[float]:
    if contender.before is not None:
        contender.before()
    spent = []
    for _ in range(contender.calls):
        start = clock()
        result = contender.work()
        spent.append(clock() - start)
        if contender.after is not None:
            contender.after(result)
        del result  # before the next call, and not in its time
    return spent


def _figure(contender: Contender, samples: dict[str, list[list[float]]]) -> Figure:
    own = samples[contender.name]
    beside = samples[contender.against or contender.name]
    ratios = [median(one) / (median(other) or math.inf) for one, other in zip(own, beside, strict=True)]
    low, middle, high = quantiles(ratios, n=4, method="inclusive")
    seconds = median(each for block in own for each in block)
    return Figure(contender.name, seconds, contender.against, middle, low, high, contender.at_most)
