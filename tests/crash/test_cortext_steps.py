"""A save in Cortext's layout writes three files. Killed, or refused, at any call it makes, it loses nothing.

A child ends itself with SIGKILL before its k-th call to the operating system, or in the middle of its k-th
write, for every k there is with `make crash`. Or that call fails, once, and it lives on.
"""

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import PerdureError
from perdure.session import lifecycle
from perdure.session.lifecycle import CORTEXT
from perdure.session.session import Session
from perdure.session.stores import Found, open_store
from perdure.session.stores.cortext_folder import CortextStore
from perdure.testing import assistant_entry, user_entry
from tests.cortext_files import check_complete, folder_of, golden, put, state_of, transcript_of
from tests.crash.killing import Child, Report, alone, die
from tests.effort import ALL_KILLS, KILLS
from tests.pi_files import in_memory

pytestmark = pytest.mark.process

EVERY = 1 if KILLS >= ALL_KILLS else 6
"""Of the calls: every sixth by default, all of them with `make crash`."""
CALLS = [
    *("open", "write", "pwrite", "fdatasync", "fsync", "ftruncate"),
    *("rename", "replace", "link", "unlink", "mkdir", "rmdir"),
]
LOOKS = ["pread", "stat", "lstat", "fstat", "scandir", "listdir"]
"""What a call that only looks finds cannot be changed by a kill, but it can fail."""
USERS_WORDS = "\nMy own note, not to be touched.\n"


@pytest.fixture
def folder(tmp_path):
    with in_memory(tmp_path) as path:
        yield path


@pytest.mark.parametrize("how", ["before", "torn"])
@pytest.mark.parametrize("begun", ["new", "ours", "edited", "foreign"])
def test_killed_at_any_call_a_conversation_opens_right_and_the_next_save_completes_it(folder, begun, how):
    """All that was acknowledged is there, the status is right, and afterwards each message is shown once."""
    tried = alone(kill_at_each_call, home=str(folder), begun=begun, how=how)
    assert tried > (15 if how == "torn" else 60)


@pytest.mark.parametrize("begun", ["new", "ours", "foreign"])
def test_an_append_whose_call_fails_is_saved_or_refused_and_it_says_which(folder, begun):
    """What was refused is not there, also not in session.json; what was acknowledged is there in the log, and
    a status also in session.json. The next save completes what could not be done."""
    tried = alone(fail_at_each_call, home=str(folder), begun=begun)
    assert tried > 100


# --- a life ---------------------------------------------------------------------------------------


def begin(home: str, begun: str) -> tuple[CortextStore, Found | None]:
    """A workspace in which there is no conversation yet, or one of three kinds."""
    if begun == "new":
        os.mkdir(home)
        store = open_store("cortext", home)
        assert isinstance(store, CortextStore)
        return store, None
    store, ref = put(Path(home), golden("foreign" if begun == "foreign" else "ours"))
    store = CortextStore(home)
    if begun == "edited":
        (path,) = folder_of(ref).glob("*.md")
        path.write_text(path.read_text() + USERS_WORDS)
    return store, ref


def live(store: CortextStore, ref: Found | None, report: Callable[[Any], None]) -> None:
    """Every kind of save: messages, a status, both at once, and a new conversation."""
    if ref is None:
        session = Session.create(store, facts={"conversation_type": "brainstorm", "title": "API design"})
        report({"made": session.ref.id})
    else:
        session = Session.open(store, ref)
    with session:
        for bodies in steps():
            session.append(*bodies)
            report({"saved": [text_of(body) for body in bodies]})


def steps() -> Iterator[list[Any]]:
    yield [lifecycle.body("active")]
    yield [user_entry("first question")]
    yield [assistant_entry("first answer"), user_entry("second question")]
    yield [assistant_entry("second answer"), lifecycle.body("paused")]
    yield [lifecycle.body("active")]
    yield [user_entry("third question")]
    yield [lifecycle.body("completed")]


def text_of(body: Any) -> str:
    return body.text if hasattr(body, "text") else body.data["status"]


def attempted() -> list[str]:
    return [text_of(body) for bodies in steps() for body in bodies]


def said_in(store: CortextStore, ref: Found) -> list[str]:
    """The texts and statuses of a life, in the order of the log."""
    return [entry.text or lifecycle.status_of(entry) for entry in store.read(ref).entries]


# --- kills ----------------------------------------------------------------------------------------


@contextmanager
def broken(number: int, calls: list[str], act: Callable[[Any, tuple[Any, ...]], Any]) -> Iterator[list[str]]:
    """The call of this number is not made, but handed to `act`. Yields the names of all that came before."""
    made: list[str] = []
    originals = {name: getattr(os, name) for name in calls}

    def breaking(name: str) -> Callable[..., Any]:
        original = originals[name]

        def call(*arguments: Any, **options: Any) -> Any:
            made.append(name)
            if len(made) == number:
                return act(original, arguments)
            return original(*arguments, **options)

        return call

    for name in calls:
        setattr(os, name, breaking(name))
    try:
        yield made
    finally:
        for name, original in originals.items():
            setattr(os, name, original)


def kill_at_each_call(home: str, begun: str, how: str) -> int:
    calls = ["write"] if how == "torn" else CALLS
    for number in count(1, EVERY):
        workspace = f"{home}/{number}"
        store, ref = begin(workspace, begun)
        before = said_in(store, ref) if ref else []
        status = state_of(ref)["status"] if ref else "active"

        with Child(partial(live_and_die, store, ref, number, calls, how)) as child:
            child.wait()
            reports = child.heard()
        try:
            check_found(workspace, ref, before, status, reports, begun)
        except BaseException as error:
            error.add_note(f"killed at call {number}, after {reports}")
            raise
        shutil.rmtree(workspace)
        if child.status == 0:
            return number - 1
    raise AssertionError("unreachable")


def live_and_die(
    store: CortextStore, ref: Found | None, number: int, calls: list[str], how: str, report: Report
) -> None:
    with broken(number, calls, kill if how == "before" else tear):
        live(store, ref, report)


def kill(call: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    die()


def tear(write: Callable[..., int], arguments: tuple[Any, ...]) -> None:
    descriptor, data = arguments
    write(descriptor, bytes(data)[: len(data) // 2])
    die()


def check_found(
    workspace: str, ref: Found | None, before: list[str], status: str, reports: list[Any], begun: str
) -> None:
    store = CortextStore(workspace)
    made = [each["made"] for each in reports if "made" in each]
    saved = [text for each in reports for text in each.get("saved", [])]
    found = list(store.list())
    if not found:
        assert not made
        return
    (one,) = found
    assert one.id == (ref.id if ref else made[0] if made else one.id)
    said = said_in(store, one)
    assert said[: len(before)] == before
    said = said[len(before) :]
    assert said[: len(saved)] == saved, "what was acknowledged is lost"
    assert said == attempted()[: len(said)], "something is there that nobody said"
    expected = ([status] + [text for text in said if text in CORTEXT.after])[-1]
    page = store.read(one)
    assert lifecycle.recorded(page.header, page.entries) == expected
    assert all("unfinished" in problem.reason for problem in page.problems), page.problems
    is_torn = bool(page.problems)

    with Session.open(store, one, wait=0) as session:
        session.append(user_entry("afterwards"))
    if is_torn:
        assert said_in(store, one) == [*before, *said, "afterwards"]
        mend(one)
    check_complete(one, shown=len(golden_messages()) if begun == "foreign" else 0)
    assert state_of(one)["status"] == expected
    page = store.read(one)
    assert page.problems == []
    assert lifecycle.recorded(page.header, page.entries) == expected
    if begun == "edited":
        assert transcript_of(one).count(USERS_WORDS) == 1
    if begun == "foreign":
        assert transcript_of(one).startswith(golden("foreign")["brainstorm.md"].decode())


def mend(ref: Found) -> None:
    """Without the line that was torn, which a reader leaves out."""
    assert CortextStore(str(folder_of(ref).parents[2])).repair(ref)


def golden_messages() -> list[Any]:
    return [json.loads(line) for line in golden("foreign")[".session/messages.jsonl"].splitlines()]


# --- refusals -------------------------------------------------------------------------------------


def fail_at_each_call(home: str, begun: str) -> int:
    for number in count(1, EVERY):
        workspace = f"{home}/{number}"
        store, ref = begin(workspace, begun)
        try:
            with broken(number, [*CALLS, *LOOKS], refuse) as made:
                one, saved, refused = live_on(store, ref)
            check_saved(CortextStore(workspace), one, saved, refused, begun)
        except BaseException as error:
            error.add_note(f"call {number}, {made[number - 1 : number]}, had failed")
            raise
        shutil.rmtree(workspace)
        if len(made) < number:
            return number - 1
    raise AssertionError("unreachable")


def refuse(call: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def live_on(store: CortextStore, ref: Found | None) -> tuple[Found, list[str], list[str]]:
    """Each step once, whether or not it is refused. A status that is acknowledged is looked for at once."""
    facts = {"conversation_type": "brainstorm", "title": "API design"}

    def opened() -> Session:
        return Session.open(store, ref) if ref else Session.create(store, facts=facts)

    try:
        session = opened()
    except PerdureError:
        session = opened()
    saved, refused, told = [], [], []
    with session:
        for bodies in steps():
            texts = [text_of(body) for body in bodies]
            try:
                session.append(*bodies)
            except PerdureError as error:
                told.append(error.message)
                refused += texts
                session.reload()
            else:
                saved += texts
                if texts[-1] in CORTEXT.after:
                    assert state_of(session.ref)["status"] == texts[-1], (
                        "acknowledged, and not in session.json"
                    )
    assert all(str(store.home) in message for message in told), told
    return session.ref, saved, refused


def check_saved(store: CortextStore, ref: Found, saved: list[str], refused: list[str], begun: str) -> None:
    assert said_in(store, ref) == [*said_before(begun), *saved], f"refused: {refused}"
    statuses = [text for text in saved if text in CORTEXT.after]
    page = store.read(ref)
    assert page.problems == []
    assert lifecycle.recorded(page.header, page.entries) == statuses[-1]
    assert state_of(ref)["status"] == statuses[-1]
    with Session.open(store, ref, wait=0) as session:
        session.append(user_entry("afterwards"))
    check_complete(ref, shown=len(golden_messages()) if begun == "foreign" else 0)
    assert state_of(ref)["status"] == statuses[-1]
    others = [each for each in store.list() if each.id != ref.id]
    assert all(store.read(each).entries == [] for each in others)  # made, and then refused for a sync


def said_before(begun: str) -> list[str]:
    if begun == "new":
        return []
    lines = golden("foreign" if begun == "foreign" else "ours")[".session/messages.jsonl"].splitlines()
    records = [json.loads(line) for line in lines]
    return [each["entry"]["data"]["status"] if "entry" in each else each["content"] for each in records]
