"""R17: clean-up in random homes, with clocks ten years off, live writers, bad settings and faults. How often,
PERDURE_KILLS says; PERDURE_SEED repeats a run."""

from collections import Counter
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from tests.crash.cleaning import EVENTS, FAULTS, World
from tests.crash.clocks import Months
from tests.crash.killing import alone
from tests.effort import ALL_KILLS, KILLS, some

pytestmark = pytest.mark.process


def test_r17_no_session_is_removed_wrongly_and_every_removed_one_comes_back(tmp_path, seed):
    """None that is live, held, of unknown age, just born, damaged or young; all that are old go or are named;
    nothing is orphaned."""
    counted = alone(clean_many, folder=str(tmp_path), seed=seed, runs=some(60, everything=KILLS))
    print(counted)
    often = ("removed", "held", "undated", "damaged", "problems")
    seldom = (*EVENTS, *FAULTS, "bad days", "two at once")
    for kind in often if KILLS < ALL_KILLS else (*often, *seldom):
        assert counted[kind] > 0, f"no world had this in it: {kind}"


def test_r17_no_clock_alone_removes_anything_for_good(tmp_path, seed):
    """What the trash has had for long goes only by a clock that has not leapt since a start of an earlier
    day; at the first start of all, by one that a session's file agrees with. Each leap is told once, before
    that. By a right clock it goes at last."""
    counted = alone(start_many, folder=str(tmp_path), seed=seed, runs=some(60, everything=KILLS))
    print(counted)
    for kind in ("gone", "kept by a clock alone", "leaps told", "leaps left to be told"):
        assert counted[kind] > 0, f"no world had this in it: {kind}"


def start_many(folder: str, seed: int, runs: int) -> dict[str, int]:
    return _run_many(Months, folder, seed, runs)


def clean_many(folder: str, seed: int, runs: int) -> dict[str, int]:
    return _run_many(World, folder, seed, runs)


def _run_many(kind: type[World] | type[Months], folder: str, seed: int, runs: int) -> dict[str, int]:
    counted: Counter[str] = Counter()
    random = Random(seed)
    with patch("os.fsync"), patch("os.fdatasync"):  # no power is cut here
        for _ in range(runs):
            number = random.getrandbits(32)
            world = kind(Path(folder, "home"), number)
            try:
                counted.update(world.run())
            except BaseException as error:
                raise AssertionError(f"in the world of {number}") from error
    return {"runs": runs, **counted}
