"""Whatever a line holds, reading it neither fails nor costs much, and the lines beside it are read."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.pi_files import HEADER, STAMP, chain

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
LINES = int(os.environ.get("PERDURE_FUZZ_LINES") or 10_000)
PARTS = 4
MOST_MEGABYTES = 200


def read(*arguments: object) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.reader", *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("part", range(PARTS))
def test_damaged_lines_are_reported_and_the_others_read(seed, tmp_path, part):
    """Each line that is no record by its number, each untouched one as it was, the same from both ends."""
    seen = read("lines", seed + part, LINES // PARTS, tmp_path)
    assert seen["lines"] == LINES // PARTS
    assert seen["touched"] > seen["lines"] // 4
    assert seen["megabytes"] < MOST_MEGABYTES


def custom(data: bytes) -> bytes:
    return b'{"type":"custom","id":"big","parentId":"m1","timestamp":"%b","customType":"x","data":%b}' % (
        STAMP.encode(),
        data,
    )


BOMBS: dict[str, Callable[[], bytes]] = {
    "a million open brackets": lambda: b"[" * 1_000_000,
    "a million open objects": lambda: b'{"a":' * 1_000_000,
    "a record nested a million deep": lambda: custom(b"[" * 1_000_000 + b"]" * 1_000_000),
    "a number of 100,000 digits": lambda: custom(b"9" * 100_000),
    "a fraction of 100,000 digits": lambda: custom(b"0." + b"9" * 100_000 + b"e-99999"),
    "a million names": lambda: custom(b"0," + b",".join(b'"%d":0' % n for n in range(1_000_000))),
    "a million names inside": lambda: custom(b"{%b}" % b",".join(b'"%d":0' % n for n in range(1_000_000))),
    "20,000 records on one line": lambda: custom(b"0") * 20_000,
    "a line of 80 MB": lambda: custom(b'"%b"' % (b"x" * (80 * 2**20))),
    "80 MB of NULs": lambda: bytes(80 * 2**20),
    "30 MB that begin like records": lambda: b'{"type":' * (30 * 2**17),
}
HARMLESS = {
    "a number of 100,000 digits",
    "a fraction of 100,000 digits",
    "a million names",
    "a million names inside",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_line_made_to_exhaust_its_reader_costs_that_line_alone(tmp_path, bomb):
    """Read or left out by its number, in bounded memory and time; the lines around it are as they were."""
    before, after = chain(2)
    path = tmp_path / "s1.jsonl"
    path.write_bytes(b"\n".join([HEADER, before, BOMBS[bomb](), after, b""]))
    seen = read("file", path)
    print(seen["megabytes"], seen["seconds"])
    assert seen["loaded"] == ["m1", "m2"]
    assert seen["problems"] == ([] if bomb in HARMLESS else [3])
    assert seen["listed"] == (bomb not in HARMLESS)
    assert seen["megabytes"] < MOST_MEGABYTES
    assert seen["seconds"] < 2
