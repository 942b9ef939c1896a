"""Writers that are killed, and what may be found of their work: the machinery of all crash tests.

Forking wants a process without threads, and pytest's has some. So a test that forks hands its body to
`alone`, which runs it in a process of its own; there `Child` forks workers from warm memory, in milliseconds.

What a writer attempts follows from a seed, so that its parent can tell, for every entry found later,
whether it was attempted, whether it is whole and where it belongs, without having been told.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any, Self
from zlib import crc32

import pytest

from perdure.errors import PerdureError
from perdure.session.entry import Entry, Message, User
from perdure.session.session import Session
from perdure.session.stores import Durability, Found, Store
from perdure.session.stores.file_store import FileStore
from tests import layouts
from tests.effort import ALL_KILLS, DEFAULT_KILLS, KILLS
from tests.processes import call

LAYOUTS = layouts.ALL if KILLS > DEFAULT_KILLS else ["pi", "soleur", "sibyl", "cortext"]
"""By default without aurora's, whose lines are appended by the code that appends pi's; all with `make crash`,
however many kills it is asked for."""


def share(least: int, everything: int, layout: str = "pi") -> int:
    """How many of `everything` to try: `least` by default, all with `make crash`, some more in between.

    Of the other layouts, which share most of their code with pi's, fewer; but all of them with `make crash`.
    """
    if KILLS >= ALL_KILLS:
        return everything
    least = least if layout == "pi" else max(2, least // 8)
    return min(everything, int(least * max(1, KILLS / DEFAULT_KILLS) ** 0.5))


def spread(possible: Sequence[Any], count: int, seed: int) -> list[Any]:
    """So many of these, at equal distances, so that no seed takes all of them from one end."""
    first = Random(seed).random()
    return [possible[int((first + number) * len(possible) / count)] for number in range(count)]


def store_in(home: str, layout: str, durability: Durability = "power") -> Store:
    return layouts.store_of(layout, home, durability)


SLOW = {"soleur": 4.0, "sibyl": 4.0, "cortext": 4.0}
"""How much longer than a JSONL line one append takes where a document is replaced, or more than one file."""


def lock_of(store: Store, ref: Found) -> Path:
    assert isinstance(store, FileStore)
    return Path(*store._lock_place(ref.id, store.relative(ref)))


# --- processes ----------------------------------------------------------------------------------


def alone(body: Callable[..., Any], **arguments: Any) -> Any:
    """Run `body` in a process of its own that may fork, and return what it returns. Both ways as JSON."""
    if not hasattr(os, "fork"):
        pytest.skip("needs a system that forks")
    ended = call(body, arguments)
    if ended.code:
        pytest.fail(f"{body.__name__} ended with {ended.code}\n{ended.err}", pytrace=False)
    return json.loads(ended.out)


Report = Callable[[Any], None]


class Child:
    """A forked process that does `work(report)`. Its reports arrive here; a `with` block ends it."""

    def __init__(self, work: Callable[[Report], None]) -> None:
        self.pipe, theirs = os.pipe()
        self._unread = b""
        self.status: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            _do(work, theirs)
        os.close(theirs)
        os.set_blocking(self.pipe, False)

    def heard(self) -> list[Any]:
        """What it reported since the last call. After its end: all that is left."""
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self.pipe, 2**16):
                self._unread += piece
        *whole, self._unread = self._unread.split(b"\n")
        reports = [json.loads(each) for each in whole]
        for report in reports:
            if isinstance(report, dict) and "failed" in report:
                raise AssertionError(f"process {self.pid} failed\n{report['failed']}")
        return reports

    def next(self, reports: int = 1, within: float = 30.0) -> list[Any]:
        """Its next reports. It makes no more than these and waits."""
        heard = self.at_least(reports, within)
        assert len(heard) == reports, f"{reports} reports expected from process {self.pid}, not {heard}"
        return heard

    def at_least(self, reports: int, within: float = 30.0) -> list[Any]:
        """Its next reports, and what it made meanwhile. It goes on."""
        heard: list[Any] = []
        while len(heard) < reports and select.select([self.pipe], [], [], within)[0]:
            before = len(heard)
            heard += self.heard()
            if len(heard) == before:
                break  # it has ended
        assert len(heard) >= reports, f"{reports} reports expected from process {self.pid}, not {heard}"
        return heard

    def signal(self, number: int) -> None:
        if self.status is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """With SIGKILL, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self.wait()

    def ended(self) -> bool:
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def wait(self, within: float = 60.0) -> int:
        """Its exit code, or minus the signal that ended it."""
        deadline = time.monotonic() + within
        while not self.ended():
            assert time.monotonic() < deadline, f"process {self.pid} did not end within {within} s"
            time.sleep(0.0005)
        assert self.status is not None
        return self.status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()
        os.close(self.pipe)


def _do(work: Callable[[Report], None], pipe: int) -> None:
    def report(value: Any) -> None:
        os.writev(pipe, [json.dumps(value).encode() + b"\n"])  # `write` is what tests break

    status = 1
    try:
        work(report)
        status = 0
    except BaseException:
        with contextlib.suppress(OSError):
            report({"failed": traceback.format_exc()})
    finally:
        os._exit(status)


class Gate:
    """What children wait at until their parent lets one, or all of them, through."""

    def __init__(self) -> None:
        self._out, self._in = os.pipe()

    def wait(self) -> None:
        os.read(self._out, 1)

    def is_open(self, within: float) -> bool:
        return select.select([self._out], [], [], within)[0] != []

    def open(self, children: int = 1) -> None:
        os.writev(self._in, [b"x" * children])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._in)
        os.close(self._out)


# --- kills that are aimed: a process ends itself at a chosen step -----------------------------------


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def tear_a_write(random: Random, among: int = 4) -> None:
    """One of the next `among` writes stores a part of its bytes, and then the process is dead."""
    write, calls = os.write, random.randrange(among)

    def torn(descriptor: int, data: bytes) -> int:
        nonlocal calls
        if calls == 0:
            write(descriptor, data[: random.randrange(len(data))])
            die()
        calls -= 1
        return write(descriptor, data)

    os.write = torn  # type: ignore[assignment]


def die_at_sync(random: Random, *, before: bool) -> None:
    """One of the next four syncs is the last thing the process does, or would have done."""
    sync, calls = os.fdatasync, random.randrange(4)

    def deadly(descriptor: int) -> None:
        nonlocal calls
        if calls == 0 and before:
            die()
        sync(descriptor)
        if calls == 0:
            die()
        calls -= 1

    os.fdatasync = deadly  # type: ignore[assignment]


# --- what writers say -----------------------------------------------------------------------------

_LETTERS = 'abcdefghijklmnopqrstuvwxyz     "\\\n\t\u00e9\u2028\U0001f600{}'
_FILLER = "".join(Random(0).choices(_LETTERS, k=2**12)) * 2**4


def said(serial: str, size: int) -> str:
    """The text named `serial`: always the same, with `size` characters behind its name."""
    start = crc32(serial.encode()) % 2**12
    filler = _FILLER if start + size <= len(_FILLER) else _FILLER * ((start + size) // len(_FILLER) + 1)
    return f"{serial} {size}:{filler[start : start + size]}"


def serial_of(entry: Entry) -> str:
    """The name of an entry's text, which must be whole."""
    text = entry.text
    serial, _, size = text.partition(":")[0].partition(" ")
    whole = size.isdigit() and text == said(serial, int(size))
    assert whole, f"entry {entry.id} is not whole: {text[:80]!r}"
    return serial


def message(text: str) -> Message:
    return Message(User(text))


def size_up_to(random: Random, most: int) -> int:
    """1 to `most`, each order of magnitude alike."""
    return int(most ** random.random())


def batches(seed: int, life: int | str, *, most: int = 2**16, together: int = 4) -> Iterator[list[str]]:
    """The texts one writer says in its life, in the groups it appends: endless, and always the same."""
    random = Random(f"{seed}/{life}")
    for number in count():
        yield [
            said(f"{life}.{number}.{place}", size_up_to(random, most))
            for place in range(random.randint(1, together))
        ]


# --- what may be found ----------------------------------------------------------------------------


def check_found(
    found: Sequence[Entry], acknowledged: Sequence[Sequence[str]], texts: Iterable[list[str]]
) -> None:
    """Acknowledged groups are there, whole and in order; behind them is at most a beginning of what follows.

    `acknowledged` has the ids of each group, `texts` the groups that were attempted, in order.
    """
    attempts = iter(texts)
    ids = [id for group in acknowledged for id in group]
    kept = [text for group in islice(attempts, len(acknowledged)) for text in group]
    assert [entry.id for entry in found[: len(ids)]] == ids, "an acknowledged entry is lost or out of order"
    assert [entry.text for entry in found[: len(kept)]] == kept, "an acknowledged entry says something else"
    more = (text for group in attempts for text in group)
    for entry in found[len(kept) :]:
        assert entry.text == next(more, None), f"entry {entry.id} was never attempted: {entry.text[:80]!r}"


def check_chain(entries: Sequence[Entry]) -> None:
    """Every id once, every entry the child of the one before it."""
    ids = [entry.id for entry in entries]
    assert len(set(ids)) == len(ids), "an entry is there twice"
    assert [entry.parent_id for entry in entries] == [None, *ids][: len(ids)], "the chain is broken"


def texts_in(store: Store, ref: Found) -> list[str]:
    """What a new reading finds, which must be without a problem; but for what only says that a transcript or
    a count beside the messages is not up to date."""
    page = store.read(ref)
    assert [each for each in page.problems if not each.reason.startswith("what was said is saved")] == []
    return [entry.text for entry in page.entries]


def check_told(error: PerdureError, path: str, number: int) -> None:
    """The message names the file and the cause, the hint says what to do."""
    assert path in error.message, error.message
    assert os.strerror(number) in error.message, error.message
    assert error.hint


def append_in_a_new_process(store: Store, ref: Found) -> None:
    """Another process opens the session at once and appends "from a new process"."""

    def work(report: Report) -> None:
        with Session.open(store, ref, wait=0) as session:
            session.append(message("from a new process"))

    with Child(work) as child:
        assert child.wait() == 0, child.heard()
