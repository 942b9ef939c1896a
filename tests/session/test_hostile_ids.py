"""No id, no file name, no id inside a file and no symbolic link leads out of a store."""

import ctypes
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure import PerdureError, SessionManager
from perdure.errors import InvalidId
from perdure.session.stores import Found, Header
from perdure.session.stores.pi_jsonl import PiStore
from perdure.testing import user_entry
from tests.needs import needs, needs_tool
from tests.pi_files import HEADER, STAMP, chain, in_memory, store_in, text_of

ROOT = Path(__file__).parents[2]
IDS = 4000
VALID = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
PIECES = [
    *[
        "..",
        ".",
        "/",
        "//",
        "\\",
        "~",
        "\0",
        "\n",
        "\r",
        "\t",
        " ",
        "",
        "-",
        "_",
        ":",
        ";",
        "|",
        "&",
        "$",
        "`",
        "*",
    ],
    *[
        "a",
        "x" * 130,
        "x" * 5000,
        "etc",
        "passwd",
        "C:",
        "con",
        "nul",
        "aux.txt",
        ".jsonl",
        ".lock",
        "trash",
        "locks",
    ],
    *[
        "%2e%2e",
        "%00",
        "\u2028",
        "\u2024",
        "\uff0f",
        "\u202e",
        "é",
        "e\u0301",
        "\ud800",
        "\udcff",
        "\U0001f4a9",
        "\x1b[",
    ],
    *["{", "}", "'", '"', "<", ">", "?", "!", "#", "^", "(", ")", "=", "+", ",", "@", "0", "Z", "00000000"],
]


PATHS = [
    "../x",
    "../../x",
    "a/../../x",
    "/tmp/x",
    "//x",
    "./x",
    "../",
    "..\\..\\x",
    "x/",
    "/",
    "x\0/../../y",
    "../../../../../etc/x",
]


def hostile_ids(seed: int, count: int) -> Iterator[str]:
    """Paths, and pieces that mean something to some file system, shell or server, put together at random."""
    rng = random.Random(seed)
    yield from PATHS
    yield from PIECES
    for _ in range(count - len(PATHS) - len(PIECES)):
        yield "".join(rng.choices(PIECES, k=rng.choice((1, 2, 2, 3, 3, 4, 8))))


def contents(folder: Path) -> dict[str, bytes | str | None]:
    found: dict[str, bytes | str | None] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = (
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        )
    return found


@pytest.fixture
def folder(tmp_path):
    with in_memory(tmp_path) as path:
        yield path


@pytest.fixture
def world(folder):
    """A store with one session in it, in a folder with other things a hostile id might reach."""
    (folder / "outside.jsonl").write_bytes(text_of(HEADER, *chain(1)))
    (folder / "store").mkdir()
    (folder / "store" / "0123456789ab.jsonl").write_bytes(text_of(HEADER, *chain(2)))
    return folder


# --- ids --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_hostile_id_is_refused_or_not_found(world, seed):
    """Loading, saving and deleting it raises an error a user can read, and changes nothing anywhere."""
    before = contents(world)
    manager = SessionManager(world / "store", durability="process")
    answers: Counter[str] = Counter()
    for id in hostile_ids(seed, IDS):
        if "0123456789ab".startswith(id) and id:
            continue  # a good beginning of the one that is there
        for use in (
            manager.load_session,
            lambda id: manager.save(id, [user_entry("x")]),
            manager.delete_session,
        ):
            with pytest.raises(PerdureError) as error:
                use(id)
            answers[type(error.value).__name__] += 1
            assert len(error.value.message) < 300
    assert contents(world) == before
    assert answers.total() > 2.9 * IDS


@pytest.mark.slow
def test_a_hostile_id_is_never_created(world, seed):
    """What is no plain name is refused; what is one makes one file, in the store."""
    outside = {name: data for name, data in contents(world).items() if not name.startswith("store")}
    store = store_in(world / "store")
    made = set()
    for id in hostile_ids(seed, IDS):
        if VALID.fullmatch(id):
            if id not in made:
                store.create(Header(id, STAMP))
                made.add(id)
            continue
        for entries in ([], [user_entry("x")]):
            with pytest.raises(InvalidId):
                store.create(Header(id, STAMP), entries)
    names = {path.name for path in (world / "store").iterdir()}
    assert names == {"0123456789ab.jsonl", *(f"2026-01-31T09-05-00-123Z_{id}.jsonl" for id in made)}
    assert {name: data for name, data in contents(world).items() if not name.startswith("store")} == outside


@pytest.mark.parametrize("time", ["/etc/x", "../../x", "a/b", "x" * 300, "", "\0", "a\nb"])
def test_a_hostile_time_makes_no_file_elsewhere(world, time):
    """A header's time becomes a part of the file's name, so it is held to the same rule."""
    outside = set(os.listdir(world))
    store = store_in(world / "store")
    try:
        ref = store.create(Header("s2", time))
    except PerdureError:
        return
    assert Path(ref.path).parent == world / "store"
    assert set(os.listdir(world)) == outside


# --- names of files, and ids inside them ------------------------------------------------------------

NAMES = [
    *[
        b"-rf",
        b"--help",
        b" ",
        b"a b",
        b"\n",
        b"a\nb",
        b"\t",
        b"\x1b[2J",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"*",
        b"?",
    ],
    *[
        b"",
        b".",
        b"..",
        b"...",
        b"~",
        b"$HOME",
        b"`id`",
        b"a\\b",
        b"C:x",
        b"con",
        b"a.lock",
        b"trash",
        b"locks",
    ],
    *[
        "é".encode(),
        "\u2028".encode(),
        "\u202e".encode(),
        b"x" * 200,
        b"x" * 249,
        b"2026-01-31T09-05-00-123Z_..",
    ],
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_whatever_a_file_is_called_its_listed_id_is_accepted(world, name):
    """It is loaded, saved to and deleted by the id the listing shows, and nothing else is touched."""
    store = os.fsencode(world / "store")
    with open(os.path.join(store, name + b".jsonl"), "wb") as file:
        file.write(text_of(HEADER, *chain(1)))
    manager = SessionManager(world / "store", durability="process")
    (id,) = {each.id for each in manager.list_sessions()} - {"0123456789ab"}
    assert [entry.text for entry in manager.load_session(id)] == ["text 1"]
    manager.save(id, [user_entry("more")])
    assert [entry.text for entry in manager.load_session(id)] == ["text 1", "more"]
    manager.delete_session(id)
    assert [each.id for each in manager.list_sessions()] == ["0123456789ab"]
    assert sorted(os.listdir(world)) == ["outside.jsonl", "store"]
    assert sorted(os.listdir(world / "store")) == ["0123456789ab.jsonl", "locks", "trash"]


@pytest.mark.parametrize("id", ["../../outside", "/etc/passwd", "..", "outside", "x" * 5000, "a\\u0000b"])
def test_an_id_inside_a_file_redirects_nothing(world, id):
    """A session is where its file is, whatever the header says of it."""
    path = world / "store" / "s1.jsonl"
    path.write_bytes(text_of(HEADER.replace(b'"id":"s1"', b'"id":"%b"' % id.encode()), *chain(1)))
    manager = SessionManager(world / "store", durability="process")
    manager.save("s1", [user_entry("more")])
    assert [entry.text for entry in manager.load_session("s1")] == ["text 1", "more"]
    manager.delete_session("s1")
    assert sorted(os.listdir(world)) == ["outside.jsonl", "store"]
    assert sorted(os.listdir(world / "store")) == ["0123456789ab.jsonl", "locks", "trash"]


# --- what the system sees ---------------------------------------------------------------------------

HOSTILE_RUN = """
import sys
from tests.session.test_hostile_ids import *
folder = Path(sys.argv[1])
store, manager = store_in(folder), SessionManager(folder, durability="process")
for id in hostile_ids(int(sys.argv[2]), 150):
    # A handle comes from a listing, so what it holds is at least what a file system can hold.
    name = id.replace("\\0", "").encode("utf-8", "replace").decode()
    handle, odd = Found(name, f"{folder}/{name}.jsonl"), Found(name, f"{folder}/odd.jsonl")
    (folder / "odd.jsonl").touch()
    for use in (
        lambda: manager.load_session(id),
        lambda: manager.save(id, [user_entry("x")]),
        lambda: manager.delete_session(id),
        lambda: store.create(Header(id, STAMP), [user_entry("x")]),
        lambda: store.read(handle),
        lambda: store.writer(handle, wait=0).release(),
        lambda: store.delete(handle),
        lambda: store.writer(odd, wait=0).release(),
        lambda: store.delete(odd),
    ):
        try:
            use()
        except PerdureError:
            pass
"""

STRACE = ["strace", "-f", "-y", "-s", "20000", "-e", "trace=%file", "-o"]
CHANGING = re.compile(r"\bO_(WRONLY|RDWR|CREAT|TRUNC|APPEND)\b")
CALL = re.compile(r"(?:\d+ +)?(\w+)\((.*)\) += +(-?\d+)")
PLACE = re.compile(r'(?:(AT_FDCWD|\d+)(?:<([^>]*)>)?, )?"((?:[^"\\]|\\.)*)"')
READING = {
    "access",
    "execve",
    "faccessat",
    "faccessat2",
    "getcwd",
    "lstat",
    "newfstatat",
    "readlink",
    "stat",
    "statfs",
    "statx",
}


def changed_places(trace: str) -> Iterator[str]:
    """Every place a traced process opened for writing, made, moved or removed, or tried to."""
    for line in trace.splitlines():
        call = CALL.match(line)
        if (
            call is None
            or call[1] in READING
            or (call[1].startswith("open") and not CHANGING.search(call[2]))
        ):
            continue
        for _, folder, name in PLACE.findall(call[2]):
            path = name.encode().decode("unicode_escape").encode("latin-1", "replace")
            yield os.path.normpath(os.path.join(os.fsencode(folder) or b"/nowhere", path)).decode("latin-1")


@pytest.mark.process
@needs_tool("strace")
def test_nothing_outside_the_store_is_opened_for_writing(world, seed):
    """As the system itself sees it: all calls that could change a file name one in the store."""
    trace = world / "trace"
    done = subprocess.run(
        [*STRACE, trace, sys.executable, "-B", "-c", HOSTILE_RUN, world / "store", str(seed)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    places = Counter(changed_places(trace.read_text(errors="surrogateescape")))
    inside = str(world / "store")
    assert [place for place in places if place != inside and not place.startswith(f"{inside}/")] == []
    assert places.total() > 200


# --- links that come and go -------------------------------------------------------------------------

EXCHANGE = 2  # renameat2: two names change places in one step
SWAP = """
import ctypes, os, sys, time
rename = ctypes.CDLL(None, use_errno=True).renameat2
one, other = map(os.fsencode, sys.argv[1:])
while True:
    rename(-100, one, -100, other, 2)
    time.sleep(0.0001)
"""


@contextmanager
def swapping(one: Path, other: Path) -> Iterator[None]:
    """A process that exchanges the two, over and over, until the block ends. Then they are as they were."""
    before = os.lstat(one).st_ino
    swapper = subprocess.Popen([sys.executable, "-S", "-E", "-c", SWAP, one, other])
    try:
        deadline = time.monotonic() + 30
        while os.lstat(one).st_ino == before:
            assert time.monotonic() < deadline, "this file system cannot exchange two names"
        yield
    finally:
        swapper.kill()
        swapper.wait()
        if os.lstat(one).st_ino != before:
            ctypes.CDLL(None).renameat2(-100, os.fsencode(one), -100, os.fsencode(other), EXCHANGE)


needs_exchange = needs("renameat2 (Linux)", given=hasattr(ctypes.CDLL(None), "renameat2"))


def attempt(answers: Counter[str], use, *arguments) -> None:
    try:
        use(*arguments)
        answers["done"] += 1
    except PerdureError as error:
        answers[type(error).__name__] += 1


@pytest.mark.process
@needs_exchange
@pytest.mark.parametrize(
    "what", ["the session's file", "the session's folder", "the lock", "the locks", "the trash"]
)
def test_a_link_put_in_place_at_any_moment_is_not_followed(folder, what):
    """While one process exchanges a part of the store for a link, another reads, writes, makes and deletes.

    What the link leads to is neither read nor changed, and every refusal is one a program can handle.
    """
    store = PiStore(str(folder / "home"), cwd="/home/me/code", durability="process")
    first = store.create(Header("s1", STAMP), [user_entry("hello")])
    store.delete(store.create(Header("s0", STAMP)))
    with store.writer(first):
        pass
    place = {
        "the session's file": Path(first.path),
        "the session's folder": Path(first.path).parent,
        "the lock": folder / "home" / "locks" / "s1.lock",
        "the locks": folder / "home" / "locks",
        "the trash": folder / "home" / "trash",
    }[what]
    victim = folder / "victim"
    (shutil.copytree if place.is_dir() else shutil.copy)(place, victim)
    for path in [victim, *victim.rglob("*.jsonl")]:
        if path.is_file():
            path.write_bytes(path.read_bytes().replace(b"hello", b"secret"))
    before = contents(folder / "victim") if place.is_dir() else victim.read_bytes()
    link = folder / "link"
    link.symlink_to(victim)
    answers: Counter[str] = Counter()
    seen: set[str] = set()
    with swapping(place, link):
        for number in range(150):
            attempt(answers, lambda: seen.update(entry.text for entry in store.read(first).entries))
            attempt(answers, lambda: seen.update(entry.text for entry in store.read_back(first)))
            attempt(answers, write_once, store, first)
            attempt(answers, make_and_delete, store, f"x{number}")
            attempt(answers, list, store.list())
    print(answers)
    assert (contents(folder / "victim") if place.is_dir() else victim.read_bytes()) == before
    assert "secret" not in seen
    assert "hello" in seen


def write_once(store: PiStore, ref: Found) -> None:
    with store.writer(ref, wait=0, after=None) as writer:
        writer.append([user_entry("more")])


def make_and_delete(store: PiStore, id: str) -> None:
    store.delete(store.create(Header(id, STAMP), [user_entry("short-lived")]))
