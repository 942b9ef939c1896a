"""How much of something is tried: some of it in `make test`, all of it in `make crash` and `make fuzz`.

    @pytest.mark.long
    def test_…():
        for number in range(some(7, everything=100)):

The mark is for tests that are not in tests/crash or tests/fuzz: `make fuzz` runs those that have it, too.
"""

import os
from collections.abc import Sequence

from hypothesis import settings

KILLS = int(os.environ.get("PERDURE_KILLS") or 200)
DEFAULT_KILLS, ALL_KILLS = 200, 10_000
IS_LONG = KILLS > DEFAULT_KILLS or bool(os.environ.get("PERDURE_FUZZ_LINES"))


def some(usual: int, *, everything: int) -> int:
    return everything if IS_LONG else usual


def some_sizes(text: bytes, step: int) -> list[int]:
    """Lengths to cut a text to, from all to nothing: each `step`th, and those beside the end of a line."""
    if IS_LONG:
        return [*range(len(text), -1, -1)]
    ends = [0, len(text), *(at for at, byte in enumerate(text) if byte == 10)]
    beside = {end + behind for end in ends for behind in (-1, 0, 1, 2)}
    return sorted(({*range(0, len(text), step)} | beside) & {*range(len(text) + 1)}, reverse=True)


def some_bits(at: int, *, step: int = 1) -> Sequence[int]:
    """Of the byte at this place: one, another one in the next byte; or each `step`th."""
    return range(0, 8, step) if IS_LONG else (at % 8,)


FEW = settings(max_examples=settings().max_examples // 5 or 1)
"""For a law whose examples are slow. Laws have no numbers of their own, so that the long runs try more."""
