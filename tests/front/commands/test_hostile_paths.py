"""Whatever stands in a session's file where a path belongs, every command and program goes on.

A path with a NUL or a lone surrogate makes calls of the system fail with errors that are no OSError; one that
is too long or too deep makes others call themselves too often; and JSON has more types than text.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import config
from perdure.session.entry import placed
from perdure.session.stores import Found, Header
from perdure.testing import assistant_entry, user_entry
from tests.effort import IS_LONG
from tests.front.commands.machine import STAMP, Machine
from tests.layouts import ALL, store_of

NUL, HALF, BYTE = "/a\0b", "/a\ud800", "/a\udcff"
OFTEN: tuple[object, ...] = (NUL, HALF, "/" + "x" * 100_000, 7)
SELDOM: tuple[object, ...] = (
    *("\0", "\ud800", BYTE, "/" + "a/" * 50_000, "~root/..", "~\0", "", ".", "..", "/a\nb", "/\u202eab"),
    *(None, True, 1e300, ["a", None], {"a": {}}),
)
VALUES = (*OFTEN, *SELDOM) if IS_LONG else OFTEN

FIELDS = {
    "pi": ["cwd", "parentSession"],
    "aurora": ["cwd", "parent_session", "agent"],
    "soleur": ["cwd", "parent_session", "project_root", "project_name"],
    "sibyl": ["cwd", "parent-session"],
    "cortext": ["cwd", "parent_session", "transcript", "conversation_type", "title"],
}
"""What of a session's own file is a path, or becomes a part of one."""

pytestmark = [pytest.mark.process, pytest.mark.long]


class Hostile:
    """A machine with one session of a layout for each value, and one that is sound."""

    def __init__(self, machine: Machine, layout: str) -> None:
        self.machine, self.layout = machine, layout
        (machine.user / "acme").mkdir()
        self.sound = self._add("sound zebra")
        self.refs: dict[str, Found] = {}
        for value in VALUES:
            for field in FIELDS[layout] if IS_LONG else ["all"]:
                ref = self.refs[f"{field} {value!a:.20}"] = self._add("hostile zebra")
                put(layout, ref, field, value)

    def _add(self, text: str) -> Found:
        store = store_of(*self.machine.homes[self.layout])
        there = str(self.machine.user / "acme")
        facts = {
            "soleur": {"project_name": "acme", "project_root": there},
            "cortext": {"title": "The launch", "conversation_type": "plan"},
        }.get(self.layout, {})
        header = Header("", STAMP, there, f"{there}/other", facts)
        first = placed(user_entry(text), parent_id=None, timestamp=STAMP)
        answer = placed(assistant_entry("yes"), parent_id=first.id, timestamp=STAMP)
        return store.create(header._replace(id=store.new_id(header)), [first, answer])


def put(layout: str, ref: Found, field: str, value: object) -> None:
    """Another value in the file itself, as anybody can write one there."""
    path = Path(ref.path)
    fields = FIELDS[layout] if field == "all" else [field]
    if layout == "sibyl":
        text = path.read_bytes().decode()
        said = f'"{value}"' if isinstance(value, str) else "7" if value is not None else "nil"
        for each in fields:
            text = re.sub(rf'(:{each} )"[^"]*"', lambda found: found[1] + said, text)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return
    if layout == "cortext":
        path = path.with_name("session.json")
    first, line_break, rest = (
        path.read_text().partition("\n") if layout in ("pi", "aurora") else (path.read_text(), "", "")
    )
    path.write_text(json.dumps(json.loads(first) | dict.fromkeys(fields, value)) + line_break + rest)


@pytest.fixture(params=ALL)
def hostile(request, machine) -> Hostile:
    return Hostile(machine, request.param)


def outside(hostile: Hostile) -> dict[str, tuple[object, ...]]:
    found = hostile.machine.outside()
    return {name: facts for name, facts in found.items() if name.split("/")[0] != "copy"}


def own_calls(hostile: Hostile, ref: Found) -> Iterator[tuple[str, ...]]:
    """How its own program lists and resumes it."""
    match hostile.layout:
        case "aurora":
            yield "aur", "spawn", "--list-sessions"
            yield "aur", "spawn", "-m", "offline", "--resume", ref.id
        case "soleur":
            yield "soleur", "sessions"
            yield "soleur", "decisions"
            yield "soleur", "load", ref.id, "-m", "offline"
        case "sibyl":
            yield "sibyl", "--session-id", ref.id, "-m", "offline"
        case "cortext":
            yield "cortext", "list"
            yield "cortext", "resume", ref.id, "-m", "offline"


def test_a_hostile_path_in_a_session_hides_no_session(hostile):
    """All are listed, found and looked through, with the sound one; nothing outside the stores is touched."""
    before = outside(hostile)
    everyone = {hostile.sound.id, *(ref.id for ref in hostile.refs.values())}
    rows = hostile.machine.call("pi", "sessions", "ls", "--all", "--limit", "0", "--json").data
    assert {row["id"] for row in rows} == everyone
    hits = hostile.machine.call("pi", "sessions", "search", "zebra", "--all", "--limit", "0", "--json").data
    assert {hit["id"] for hit in hits} == everyone
    for words in (["ls"], ["ls", "--all"], ["stats"]):
        assert hostile.machine.call("pi", "sessions", *words).code == 0
    assert hostile.machine.call("pi", "sessions", "doctor").code in (0, 1)
    assert outside(hostile) == before


def test_a_hostile_path_in_a_session_keeps_no_command_from_it(hostile):
    """It is shown, exported, converted, resumed, forked, deleted and brought back, as one is whose directory
    is gone."""
    before = outside(hostile)
    copy = hostile.machine.user / "copy"
    copy.mkdir()
    for name, ref in hostile.refs.items():
        path = ref.path
        shown = hostile.machine.call("pi", "sessions", "show", path)
        assert (shown.code, "hostile zebra" in shown.out) == (0, True), name
        assert hostile.machine.call("pi", "sessions", "show", path, "--tree").code == 0, name
        assert "hostile zebra" in hostile.machine.call("pi", "sessions", "export", path).out, name
        for layout in ALL:
            made = copy / f"{ref.id.replace('/', '-')} {layout}"
            done = hostile.machine.call("pi", "sessions", "export", path, "--to", layout, "-o", str(made))
            assert done.code == 0, (name, layout, done.err)
        fork = hostile.machine.call("pi", "sessions", "fork", path, "--json")
        assert fork.code == 0, (name, fork.err)
        went_on = hostile.machine.call("pi", "-m", "offline", "--session", path, "-p", "more")
        assert (went_on.code, "I can answer" in went_on.out) == (0, True), (name, went_on.err)
        assert (
            hostile.machine.call("pi", "-m", "offline", "--session", path, stdin="more\n/session\n").code == 0
        ), name
        assert hostile.machine.call("pi", "sessions", "rename", path, "x").code in (0, 2), name
        for words in own_calls(hostile, ref):
            done = hostile.machine.call(*words, stdin="more\n")
            assert done.code in (0, 2), (name, words, done.err)  # 2: cortext knows no such type
        assert hostile.machine.call("pi", "sessions", "rm", path).code == 0, name
        assert hostile.machine.call("pi", "sessions", "trash").code == 0, name
        deleted = f"{hostile.layout}:{ref.id}"
        assert hostile.machine.call("pi", "sessions", "restore", deleted).code == 0, name
        assert os.path.exists(path), name
        assert hostile.machine.call("pi", "sessions", "doctor", path, "--repair").code in (0, 1), name
    assert outside(hostile) == before


@pytest.mark.parametrize("cwd", [NUL, HALF, BYTE, "/" + "x" * 5_000, "relative", "."])
def test_where_a_session_belongs_is_named_once_also_if_nobody_can_go_there(machine, cwd):
    """It goes on where its user is."""
    hostile = Hostile(machine, "pi")
    put("pi", hostile.sound, "cwd", cwd)
    done = hostile.machine.call("pi", "-m", "offline", "--session", hostile.sound.path, "-p", "more")
    assert done.code == 0
    assert done.err.count("This session belongs to ") == 1


@pytest.mark.parametrize(
    ("given", "path"),
    [
        *(("/a", "/a"), ("/ä€😀", "/ä€😀"), (BYTE, BYTE), ("/" + "x" * 4094, "/" + "x" * 4094)),
        *(
            (each, "")
            for each in (*OFTEN, "/" + "x" * 4095, "", ".", "a/b", "~", "~root", None, ["/a"], b"/a")
        ),
    ],
    ids=lambda each: f"{each!a:.20}",
)
def test_a_checked_path_is_one_that_the_system_takes(given, path):
    """Any call may be made with it; what is none is empty."""
    assert config.checked_path(given) == path
    if path:
        assert os.path.lexists(path) in (True, False)
        assert config.real_path(path)


def test_a_path_from_a_directory_that_is_gone_leads_nowhere_else(tmp_path, monkeypatch):
    """Nothing tells what it is relative to, and that is no error of who asks."""
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert config.real_path("a/b") == "a/b"
    assert config.real_path(str(tmp_path)) == os.path.realpath(tmp_path)
