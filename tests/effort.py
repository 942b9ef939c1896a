"""How much of something is tried: some of it in `make test`, all of it in `make crash` and `make fuzz`.

    @pytest.mark.long
    def test_…():
        for size in range(0, len(text), some(7, everything=1)):

The mark is for tests that are not in tests/crash or tests/fuzz: `make fuzz` runs those that have it, too.
"""

import os
from collections.abc import Sequence

from hypothesis import settings

KILLS = int(os.environ.get("PERDURE_KILLS") or 60)
DEFAULT_KILLS, ALL_KILLS = 60, 10_000
IS_LONG = KILLS > DEFAULT_KILLS or bool(os.environ.get("PERDURE_FUZZ_LINES"))


def some(usual: int, *, everything: int) -> int:
    return everything if IS_LONG else usual


def some_bits(at: int, *, step: int = 1) -> Sequence[int]:
    """Of the byte at this place: one, another one in the next byte; or each `step`th."""
    return range(0, 8, step) if IS_LONG else (at % 8,)


FEW = settings(max_examples=settings().max_examples // 5 or 1)
"""For a law whose examples are slow. No law has a number of its own: the long runs are to try more."""
