"""Decisions about folders: which counts, what the file looks like, and that nothing in it is ever lost."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent import trust as module
from perdure.agent.trust import Decision, Trust
from perdure.errors import NotSaved, PerdureError
from perdure.session.holder import try_to_lock
from tests.interop.original_pi import INSTALLED, PEERS
from tests.needs import needs

DAMAGED = {
    "empty": b"",
    "half": b'{"/a": tr',
    "no JSON": b"hello",
    "a list": b'["/a"]',
    "null": b"null",
    "a number": b'{"/a": true, "/b": 1}',
    "a word": b'{"/a": true, "/b": "yes"}',
    "not a number": b'{"/a": NaN}',
    "digits": b'{"/a": ' + b"1" * 5000 + b"}",
    "no UTF-8": b'{"/a\xff": true}',
    "deep": b"[" * 100_000,
}


@pytest.fixture
def pi(home) -> Path:
    """pi's own folder, which is not there yet."""
    return home / ".pi" / "agent"


@pytest.fixture
def folder(tmp_path) -> str:
    path = tmp_path / "one" / "two" / "three"
    path.mkdir(parents=True)
    return str(path)


def above(folder: str, steps: int) -> str:
    return str(Path(folder).parents[steps - 1])


def test_g_10_nobody_is_trusted_by_default(pi, folder):
    """And asking makes no file."""
    trust = Trust()
    assert (trust.decision(folder), trust.is_trusted(folder), trust.all(), trust.trouble) == (
        None,
        False,
        {},
        "",
    )
    assert not pi.exists()


def test_g_10_a_decision_holds_below_until_there_is_a_nearer_one(folder):
    """Whether that is a yes or a no; taken back, the one above holds again."""
    trust = Trust()
    trust.decide(above(folder, 2), True)
    assert trust.decision(folder) == Decision(above(folder, 2), True)
    assert not trust.is_trusted(above(folder, 3))
    trust.decide(above(folder, 1), False)
    assert trust.decision(folder) == Decision(above(folder, 1), False)
    assert trust.is_trusted(above(folder, 2))
    trust.decide(folder, True)
    assert trust.is_trusted(folder)
    assert trust.all() == {above(folder, 2): True, above(folder, 1): False, folder: True}
    trust.decide(folder, None)
    trust.decide(above(folder, 1), None)
    assert trust.decision(folder) == Decision(above(folder, 2), True)


def test_the_root_can_be_decided(folder):
    """There the search ends."""
    Trust().decide("/", True)
    assert Trust().decision(folder) == Decision("/", True)


def test_a_name_that_begins_alike_is_another_folder(tmp_path):
    """`/src/thing2` is not in `/src/thing`."""
    for name in ("thing", "thing2"):
        (tmp_path / name).mkdir()
    Trust().decide(str(tmp_path / "thing"), True)
    assert not Trust().is_trusted(str(tmp_path / "thing2"))


def test_a_folder_is_its_real_path(tmp_path, folder, monkeypatch):
    """By whatever name it is asked for; and a link in a trusted folder is not trusted with it."""
    trust = Trust()
    link = tmp_path / "link"
    link.symlink_to(folder)
    trust.decide(str(link), True)
    assert trust.all() == {folder: True}
    assert Trust().is_trusted(str(link))
    monkeypatch.chdir(folder)
    assert trust.is_trusted(".")
    assert trust.is_trusted(os.path.join("..", "three"))
    outside = tmp_path / "outside"
    outside.mkdir()
    (Path(folder) / "in").symlink_to(outside)
    assert not trust.is_trusted(os.path.join(folder, "in"))


def test_the_file_is_the_original_pis_and_private(pi, tmp_path):
    """Sorted, two spaces, a newline at the end; what others wrote stays, the values they took back too."""
    pi.mkdir(parents=True)
    before = '\N{BYTE ORDER MARK}{"/z": null, "relative": true, "/b": false}'
    (pi / "trust.json").write_text(before, encoding="utf-8")
    Trust().decide(str(tmp_path), True)
    entries = {"/b": False, str(tmp_path): True, "/z": None, "relative": True}
    assert (pi / "trust.json").read_text() == json.dumps(entries, indent=2) + "\n"
    assert (pi / "trust.json").stat().st_mode & 0o777 == 0o600
    assert os.listdir(pi) == ["trust.json"]
    assert Trust().all() == {"/b": False, str(tmp_path): True, "relative": True}


def test_another_home_can_be_named(tmp_path, folder, monkeypatch):
    """As an argument, or as the original pi's variable."""
    Trust(str(tmp_path / "mine")).decide(folder, True)
    assert not Trust().is_trusted(folder)
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "mine"))
    assert Trust().is_trusted(folder)


def test_what_is_decided_already_is_not_written_again(pi, folder):
    """Not even in another order."""
    pi.mkdir(parents=True)
    text = json.dumps({folder: True, "/a": False})
    (pi / "trust.json").write_text(text)
    Trust().decide(folder, True)
    Trust().decide(above(folder, 1), None)
    assert (pi / "trust.json").read_text() == text


def test_a_link_stays_one(pi, tmp_path, folder):
    """Whoever keeps such files elsewhere keeps them there."""
    pi.mkdir(parents=True)
    elsewhere = tmp_path / "dotfiles" / "trusted.json"
    elsewhere.parent.mkdir()
    (pi / "trust.json").symlink_to(elsewhere)
    Trust().decide(folder, True)
    assert (pi / "trust.json").is_symlink()
    assert json.loads(elsewhere.read_text()) == {folder: True}


@given(
    st.text(alphabet=st.characters(exclude_characters="\0/"), min_size=1).filter(lambda it: it not in "...")
)
def test_any_name_of_a_folder_is_found_again(name):
    """Controls, emoji, and what is no character: a name that is not UTF-8."""
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return  # no system has a folder of this name
    entries: dict[str, bool | None] = {f"/nowhere/{name}": True, "/nowhere": None}
    data = module._text(entries)
    assert json.loads(data.decode()) == entries


# --- what cannot be read ------------------------------------------------------------------------------


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_g_10_a_damaged_file_trusts_nobody_and_stays_as_it_is(data, pi):
    """What is wrong is told; a decision is refused, for it could not be kept beside the others."""
    pi.mkdir(parents=True)
    (pi / "trust.json").write_bytes(data)
    trust = Trust()
    assert (trust.is_trusted("/a"), trust.decision("/a"), trust.all()) == (False, None, {})
    assert trust.trouble.startswith("~/.pi/agent/trust.json is damaged")
    with pytest.raises(PerdureError, match="is damaged") as refused:
        trust.decide("/a", True)
    assert "correct that file, or remove it" in refused.value.hint
    assert (pi / "trust.json").read_bytes() == data
    assert os.listdir(pi) == ["trust.json"]


def test_a_folder_in_the_place_of_the_file(pi):
    """Is no file, and trusts nobody."""
    (pi / "trust.json").mkdir(parents=True)
    assert not Trust().is_trusted("/")
    assert "cannot be read" in Trust().trouble
    with pytest.raises(PerdureError, match="cannot be read"):
        Trust().decide("/", True)


def test_a_home_that_cannot_be_made_is_an_error_that_names_the_file(home):
    """And asking still answers no."""
    (home / ".pi").write_text("no folder")
    assert (Trust().is_trusted("/"), Trust().trouble) == (False, "")
    with pytest.raises(NotSaved, match=r"trust\.json"):
        Trust().decide("/", True)


def test_what_is_half_written_is_read_when_it_is_whole(pi, folder, monkeypatch):
    """The original pi writes into the file itself, under its lock; a reader takes none."""
    pi.mkdir(parents=True)
    (pi / "trust.json").write_bytes(b'{"/a"')
    (pi / "trust.json.lock").mkdir()
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            (pi / "trust.json").write_text(json.dumps({folder: True}))

    monkeypatch.setattr(time, "sleep", pause)
    assert Trust().is_trusted(folder)
    assert len(pauses) == 3


# --- several at once ----------------------------------------------------------------------------------


def test_a_lock_that_is_held_is_waited_for_and_told_of(pi, folder, monkeypatch):
    """The file is not touched meanwhile."""
    (pi / "trust.json.lock").mkdir(parents=True)
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    with pytest.raises(PerdureError, match="is being written by another process") as refused:
        Trust().decide(folder, True)
    assert "trust.json.lock" in refused.value.hint
    assert os.listdir(pi) == ["trust.json.lock"]
    assert not Trust().is_trusted(folder)


def test_a_forgotten_lock_is_removed(pi, folder):
    """As the original pi does: after ten seconds without a sign of life."""
    lock = pi / "trust.json.lock"
    lock.mkdir(parents=True)
    os.utime(lock, (time.time() - 11, time.time() - 11))
    Trust().decide(folder, True)
    assert os.listdir(pi) == ["trust.json"]


def test_of_our_own_processes_one_at_a_time_looks_at_the_lock(pi, folder, monkeypatch):
    """Or the second to find it forgotten would remove what the first has just made."""
    lock = pi / "trust.json.lock"
    lock.mkdir(parents=True)
    os.utime(lock, (1, 1))
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    other = os.open(pi, os.O_RDONLY)
    try:
        assert try_to_lock(other)
        with pytest.raises(PerdureError, match="is being written by another process"):
            Trust().decide(folder, True)
        assert lock.stat().st_mtime == 1
    finally:
        os.close(other)
    Trust().decide(folder, True)
    assert Trust().is_trusted(folder)


DECIDING = """
import sys
from perdure.agent.trust import Trust

ready = sys.stdin.readline()
for each in sys.argv[1:]:
    Trust().decide(each, each[-1] in "02468")
print(sorted(name for name in ("msgspec", "asyncio") if name in sys.modules))
"""


@pytest.mark.process
def test_g_10_many_processes_decide_at_once_and_lose_nothing(pi):
    """Also where all of them find a lock that somebody forgot. What it takes is light."""
    lock = pi / "trust.json.lock"
    lock.mkdir(parents=True)
    os.utime(lock, (1, 1))
    folders = [f"/nowhere/{number}" for number in range(30)]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", DECIDING, *folders[first::6]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for first in range(6)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate(timeout=60)[0] for process in started] == ["[]\n"] * 6
    assert Trust().all() == {path: path[-1] in "02468" for path in folders}
    assert os.listdir(pi) == ["trust.json"]


ORIGINAL = PEERS / "node_modules/@earendil-works/pi-coding-agent/dist/core/trust-manager.js"
STEPS = """
const { ProjectTrustStore } = await import(process.argv[1]);
const store = new ProjectTrustStore(process.argv[2]);
const answers = [];
for (const [verb, ...rest] of JSON.parse(process.argv[3])) {
  for (;;) {
    try { answers.push(store[verb](...rest) ?? null); break; }
    catch (error) { if (error.code !== "ELOCKED") throw error; }
  }
}
console.log(JSON.stringify(answers));
"""


def command(pi: Path, steps: list[list[object]]) -> list[str]:
    node = str(PEERS / "node_modules" / ".bin" / "node")
    return [node, "--input-type=module", "-e", STEPS, str(ORIGINAL), str(pi), json.dumps(steps)]


@pytest.mark.process
@needs("the original pi (make peers)", given=INSTALLED)
@pytest.mark.xdist_group("original pi")
def test_g_10_the_original_pi_and_we_keep_the_same_decisions(pi, tmp_path):
    """What one decides holds for the other, and both write the same bytes."""
    names = [
        "plain",
        "with space",
        'qu"ote',
        "new\nline",
        "zoë",
        "\N{GRINNING FACE}",
        "\ufb01",
        "esc\x1b[31m",
    ]
    folders = [str(tmp_path / name) for name in names]
    for each in folders:
        os.makedirs(os.path.join(each, "below"))
    for each in folders[::2]:
        Trust().decide(each, True)
    steps: list[list[object]] = [["get", os.path.join(each, "below")] for each in folders]
    steps += [["set", each, False] for each in folders[1::2]]
    steps.append(["set", folders[0], None])
    said = json.loads(subprocess.run(command(pi, steps), capture_output=True, check=True).stdout)
    assert said[: len(names)] == [True, None] * 4
    expected: dict[str, bool] = {each: not at % 2 for at, each in enumerate(folders)}
    del expected[folders[0]]
    assert Trust().all() == expected
    assert not Trust().is_trusted(os.path.join(folders[1], "below"))

    written = (pi / "trust.json").read_bytes()
    Trust().decide(folders[0], True)
    Trust().decide(folders[0], None)
    assert (pi / "trust.json").read_bytes() == written


@pytest.mark.process
@needs("the original pi (make peers)", given=INSTALLED)
@pytest.mark.xdist_group("original pi")
def test_g_10_the_original_pi_and_we_take_turns(pi):
    """Both at once, and every decision of both is there."""
    steps: list[list[object]] = [["set", f"/nowhere/theirs/{number}", True] for number in range(40)]
    with subprocess.Popen(command(pi, steps), stdout=subprocess.DEVNULL) as theirs:
        number = 0
        while theirs.poll() is None or number < 10:
            Trust().decide(f"/nowhere/ours/{number}", True)
            number += 1
    assert theirs.returncode == 0
    assert Trust().all() == dict.fromkeys(
        [
            *(f"/nowhere/theirs/{each}" for each in range(40)),
            *(f"/nowhere/ours/{each}" for each in range(number)),
        ],
        True,
    )
