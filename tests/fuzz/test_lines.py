"""Whatever a line holds, reading it neither fails nor costs much, and the lines beside it are read."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.session.stores import Header
from perdure.testing.writing import turns
from tests.effort import some
from tests.layouts import store_of
from tests.pi_files import HEADER, STAMP, chain

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
LINES = int(os.environ.get("PERDURE_FUZZ_LINES") or 10_000)
PARTS = 4
MOST_MEGABYTES = 200
MOST_OVER_BASE = 66
"""Megabytes more than the process had before it read: a line of 64 may be one, and so much is kept of it."""


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


DEEP = b"[" * 1_000_000 + b"]" * 1_000_000
NAMES = b",".join(b'"%d":0' % number for number in range(1_000_000))
BOMBS: dict[str, Callable[[], bytes]] = {
    "a million open brackets": lambda: b"[" * 1_000_000,
    "a million open objects": lambda: b'{"a":' * 1_000_000,
    "a record nested a million deep": lambda: custom(DEEP),
    "a number of 100,000 digits": lambda: custom(b"9" * 100_000),
    "a fraction of 100,000 digits": lambda: custom(b"0." + b"9" * 100_000 + b"e-99999"),
    "a million names": lambda: custom(b"0," + NAMES),
    "a million names inside": lambda: custom(b"{%b}" % NAMES),
    "a million names inside, and half a character": lambda: custom(b'{"\\ud800":0,%b}' % NAMES),
    "a million names inside, and no end": lambda: custom(b"{%b" % NAMES),
    "quotes in a string that does not end": lambda: custom(b'{"x":{%b,"%b' % (NAMES, rb"\"" * 1_000_000)),
    "20,000 records on one line": lambda: custom(b"0") * 20_000,
    "a line of 80 MB": lambda: custom(b'"%b"' % (b"x" * (80 * 2**20))),
    "80 MB of NULs": lambda: bytes(80 * 2**20),
    "30 MB that begin like records": lambda: b'{"type":' * (30 * 2**17),
}
HARMLESS = {
    "a number of 100,000 digits",
    "a fraction of 100,000 digits",
    "a million names inside",
    "a million names inside, and half a character",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_line_made_to_exhaust_its_reader_costs_that_line_alone(tmp_path, bomb):
    """Read or left out by its number, in bounded memory and time; the lines around it are as they were."""
    before, after = chain(2)
    path = tmp_path / "s1.jsonl"
    path.write_bytes(b"\n".join([HEADER, before, BOMBS[bomb](), after, b""]))
    seen = read("file", path)
    print(seen["over_base"], seen["seconds"])
    assert seen["loaded"] == ["m1", "m2"]
    assert seen["problems"] == ([] if bomb in HARMLESS else [3])
    assert seen["listed"] == (bomb not in HARMLESS)
    assert seen["over_base"] < MOST_OVER_BASE
    assert seen["seconds"] < 2


def test_r14_a_line_of_a_gigabyte_costs_no_more_than_one_that_is_read(tmp_path):
    """It is left out by its number, and the lines around it are as they were."""
    before, after = chain(2)
    path = tmp_path / "s1.jsonl"
    with path.open("wb") as file:
        file.write(HEADER + b"\n" + before + b"\n" + b'{"type":')
        file.truncate(some(2**27, everything=2**30))  # a hole, which takes no room on the disk
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + after + b"\n")
    with path.open("rb") as file:  # what a system does to have it in memory is not the reader's time
        while file.read(2**20):
            pass
    seen = read("file", path)
    print(seen["over_base"], seen["seconds"])
    assert seen["loaded"] == ["m1", "m2"]
    assert seen["problems"] == [3]
    assert seen["listed"]
    assert seen["over_base"] < MOST_OVER_BASE
    assert seen["seconds"] < 2


VALUES = {
    "deep": b'"x":%b' % DEEP,
    "digits": b'"x":%b' % (b"9" * 100_000),
    "names": NAMES,
    "names inside": b'"x":{%b}' % NAMES,
}


@pytest.mark.parametrize("layout", ["aurora", "cortext", "soleur", "sibyl"])
def test_r14_what_is_made_to_exhaust_a_reader_costs_itself_alone_in_every_layout(layout, tmp_path):
    """In the middle one of three messages: the others are read, in bounded memory and time."""
    are_told = []
    for name, value in VALUES.items():
        home = tmp_path / name
        store = store_of(layout, home)
        header = Header("", "2026-01-31T09:05:00.123Z", cwd="/home/me/api")
        ref = store.create(header._replace(id=store.new_id(header)), turns(3, word="turn"))
        path = Path(ref.path)
        first, said, rest = path.read_bytes().partition(b"turn 1")
        assert said
        if layout == "sibyl":
            value = value.translate(bytes.maketrans(b"[]{}:,", b"()()  "))
            given = said + b'" :x (' + value.replace(b'"x"', b"") + b') :y "'
        else:
            given = said + b'",' + value + b',"y":"'
        path.write_bytes(first + given + rest)
        seen = read("home", layout, home)
        print(name, seen["over_base"], seen["seconds"], seen["told"])
        ((*texts,),) = seen["texts"]
        assert {"turn 0", "turn 2"} <= {*texts}
        assert seen["over_base"] < MOST_OVER_BASE
        assert seen["seconds"] < 2
        are_told += seen["told"]
    assert any(are_told)
