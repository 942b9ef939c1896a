"""Whatever happened to a file of Sibyl's layout, what is whole in it is shown, and what is not is named.

The files are in `tests/golden/sibyl/damaged`: four turns, and one kind of damage each.
"""

import os
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import NewerFormat, PerdureError
from perdure.session import doctor
from perdure.session.entry import meaning
from perdure.session.session import Session
from perdure.session.stores.sibyl_document import text_of
from perdure.session.stores.sibyl_reader import document_of
from perdure.testing import user_entry
from tests.effort import some, some_sizes
from tests.layouts import Seen
from tests.pi_files import in_memory
from tests.sibyl_files import DAMAGED, GOLDEN, WHOLE, put

FOUR_TURNS = ["one", "two", "three", "four"]
WITHOUT_TWO = ["one", "three", "four"]


def damaged(name: str) -> bytes:
    return (GOLDEN / "damaged" / f"{name}.lisp").read_bytes()


@pytest.mark.parametrize(
    ("name", "path", "problems"),
    [
        ("torn-tail", FOUR_TURNS[:3], [(12, "the text ends inside a list")]),
        ("torn-between-messages", FOUR_TURNS[:3], [(12, "it ends too early")]),
        ("torn-in-the-header", [], [(3, "the string does not end")]),
        ("nul-tail", FOUR_TURNS, [(16, "512 NUL bytes")]),
        ("nul-file", [], [(1, "nothing but NUL bytes")]),
        ("nul-over-a-message", WITHOUT_TWO, [(10, "NUL bytes")]),
        ("nul-in-a-text", ["one", "t\0o", "three", "four"], [(10, "1 NUL byte")]),
        ("garbage-in-a-message", WITHOUT_TWO, [(10, "#< is not read here")]),
        ("garbage-between-messages", FOUR_TURNS, [(11, "%&/ is neither a number nor a keyword")]),
        ("reader-macro", WITHOUT_TWO, [(10, "#. is not read here")]),
        ("reader-macro-in-the-header", FOUR_TURNS, [(7, "#. is not read here")]),
        ("lost-quote", WITHOUT_TWO, [(10, "two is neither a number nor a keyword")]),
        ("lost-parenthesis", WITHOUT_TWO, [(10, "neither a message nor an entry")]),
        ("one-parenthesis-more", FOUR_TURNS, [(14, "more behind the end of the session")]),
        ("half-then-whole", FOUR_TURNS, [(10, "two is neither a number nor a keyword")]),
        ("stale-end", [*FOUR_TURNS, "five"], [(16, "more behind the end of the session")]),
        ("bad-text", ["one", "t\ufffd\ufffdo", "three", "four"], [(10, "bytes that are no text")]),
        ("no-header", FOUR_TURNS, [(1, "no session begins here"), (5, "it ends too early")]),
        ("words-between-messages", FOUR_TURNS, [(11, "neither a message nor an entry")]),
        ("broken-entry", FOUR_TURNS, [(15, "neither a message nor an entry")]),
        ("not-lisp", [], [(1, "no session begins here")]),
    ],
)
def test_sib_07_every_complete_message_of_a_damaged_file_is_read(tmp_path, name, path, problems):
    """Those behind the damage too; the problem names the file and the line."""
    store, ref = put(tmp_path, damaged(name))
    seen = Seen(store, ref)
    assert seen.path == path
    assert seen.lines == [line for line, _ in problems]
    for reason, (_, expected) in zip(seen.reasons, problems, strict=True):
        assert reason.startswith(expected)
    assert {problem.path for problem in store.read(ref).problems} == {ref.path}
    assert store.parse(ref, Path(ref.path).read_bytes()).is_damaged


@pytest.mark.parametrize(
    ("name", "problems", "notices"),
    [
        ("glued", 0, 0),
        ("blank-lines", 0, 0),
        ("crlf", 0, 0),
        ("byte-order-mark", 0, 0),
        ("not-messages", 0, 0),
        ("same-id-twice", 0, 1),
        ("dangling-parent", 0, 1),
        ("another-id", 1, 0),
        ("newer-version", 0, 0),
    ],
)
def test_sib_07_what_is_only_unusual_is_read_whole(tmp_path, name, problems, notices):
    """Silently where nothing could be meant otherwise; and no byte of it is in danger."""
    store, ref = put(tmp_path, damaged(name))
    seen = Seen(store, ref)
    assert list(filter(None, seen.path)) == FOUR_TURNS  # a form of another program's says nothing here
    assert (len(seen.reasons), len(seen.notices)) == (problems, notices)
    assert not store.parse(ref, Path(ref.path).read_bytes()).is_damaged


def test_sib_07_every_damaged_file_is_in_a_table_here():
    """Otherwise nobody would look at it."""
    named = set(re.findall(r'\("([a-z-]+)", ', Path(__file__).read_text())) | {"empty"}
    assert {path.stem for path in DAMAGED} <= named


def test_sib_07_an_empty_file_is_a_session_without_messages(tmp_path):
    """A power cut can leave one, from another program. It is said, and can be written to."""
    store, ref = put(tmp_path, damaged("empty"))
    assert store.read(ref).entries == []
    assert [problem.reason for problem in store.read(ref).problems] == ["it is empty"]
    with Session.open(store, ref) as session:
        session.append(user_entry("one").body)
    assert Seen(store, ref).path == ["one"]
    assert store.read(ref).problems == []


def test_sib_13_a_file_of_a_later_version_is_read_and_never_written(tmp_path):
    """Its version is named to whoever wants to write. It is not damaged: nothing is to be repaired, and what
    can be read of it is."""
    before = damaged("newer-version")
    store, ref = put(tmp_path, before)
    assert len(Session.view(store, ref).entries) == len(store.read(ref).entries) > 0
    with pytest.raises(NewerFormat, match=r"version 7 .* version 1"):
        store.writer(ref)
    with pytest.raises(NewerFormat):
        Session.open(store, ref)
    diagnosis = doctor.examine(store, ref)
    (finding,) = diagnosis.findings
    assert "is in version 7 of its format" in finding
    assert "update this program" in diagnosis.remedy
    assert diagnosis.is_only_read
    assert not diagnosis.is_repairable
    assert doctor.repair(store, ref) is None
    assert Path(ref.path).read_bytes() == before
    assert os.listdir(Path(ref.path).parent) == [Path(ref.path).name]


def test_sib_13_a_file_that_a_later_version_wrote_meanwhile_is_not_written_over(tmp_path):
    """While a session is open here, another program saves it in its own version."""
    store, ref = put(tmp_path, damaged("newer-version").replace(b"-version 7", b"-version 1"))
    with store.writer(ref) as writer:
        writer.catch_up()
        later = Path(ref.path).read_bytes().replace(b"(:session-version 1)", b"(:session-version 2)")
        Path(ref.path).write_bytes(later)
        with pytest.raises(PerdureError):
            writer.append([user_entry("five")])
        with pytest.raises(NewerFormat):
            writer.catch_up()
        with pytest.raises(PerdureError):
            writer.append([user_entry("five")])
    assert Path(ref.path).read_bytes() == later


@pytest.mark.parametrize(
    "path", [path for path in DAMAGED if path.stem != "newer-version"], ids=lambda path: path.stem
)
def test_sib_07_a_damaged_file_is_set_aside_before_it_is_written(tmp_path, path):
    """The session goes on with all that is complete, without a problem, and no byte is lost."""
    store, ref = put(tmp_path, path.read_bytes())
    before = [entry.id for entry in store.read(ref).entries]
    damage = store.parse(ref, path.read_bytes()).is_damaged
    with store.writer(ref, after=None) as writer:
        writer.append([user_entry("five")])
    after = store.read(ref)
    assert [entry.id for entry in after.entries[:-1]] == before
    assert after.entries[-1].text == "five"
    assert after.problems == []
    asides = [each.read_bytes() for each in Path(ref.path).parent.glob("*.damaged")]
    assert asides == [path.read_bytes()] * damage


@pytest.mark.parametrize("path", DAMAGED, ids=lambda path: path.stem)
def test_sib_07_a_repair_makes_a_new_session_of_what_is_complete(tmp_path, path):
    """The damaged one stays as it is; a second repair finds nothing to do."""
    store, ref = put(tmp_path, path.read_bytes())
    document = store.parse(ref, path.read_bytes())
    repaired = store.repair(ref)
    assert Path(ref.path).read_bytes() == path.read_bytes()
    assert (repaired is not None) == bool(document.is_damaged and document.entries)
    if repaired:
        assert re.fullmatch(r"session-\d{8}-\d{6}-\d{6}", repaired.ref.id)
        page = store.read(repaired.ref)
        assert [entry.id for entry in page.entries] == [entry.id for entry in document.entries]
        assert (page.problems, page.header.parent_session) == ([], ref.path)
        assert len(list(store.list())) == 2
    assert store.repair(ref) is None


# --- cut anywhere -----------------------------------------------------------------------------------


def ends(text: str) -> list[int]:
    """Where each message and each entry of a sound file ends, found by counting parentheses."""
    found: list[int] = []
    starts: list[int] = []
    in_text = is_escaped = False
    for at, char in enumerate(text):
        if in_text:
            in_text = is_escaped or char != '"'
            is_escaped = char == "\\" and not is_escaped
        elif char == '"':
            in_text = True
        elif char == "(":
            starts.append(at)
        elif char == ")" and re.match(r"\((?i::role|:after)\s", text[starts.pop() :]):
            found.append(at + 1)
    return found


@pytest.fixture
def folder(tmp_path):
    """Files are replaced here thousands of times."""
    with in_memory(tmp_path) as path:
        yield path


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_sib_07_every_complete_message_of_a_file_cut_anywhere_is_read(folder, path):
    """Each that is there to its last parenthesis; a notice if, and only if, the session's own is not."""
    golden = path.read_bytes()
    store, ref = put(folder, golden)
    complete = ends(golden.decode())
    named = re.findall(r':entry-id "(\w+)"|"{\\"type\\":\\"\w+\\",\\"id\\":\\"(\w+)\\"', golden.decode())
    in_file = ["".join(names) for names in named] or [f"r{number + 1}" for number in range(len(complete))]
    in_order = [entry.id for entry in store.read(ref).entries]
    assert len(in_file) == len(complete)
    for size in some_sizes(golden, step=7)[1:]:
        os.truncate(ref.path, size)
        page = store.read(ref)
        there = in_file[: sum(end <= size for end in complete)]
        found = [entry.id for entry in page.entries if entry.id != "summary"]
        assert found == [id for id in in_order if id in there], size
        assert bool(page.problems) == (size < len(golden.rstrip())), size


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_sib_07_the_append_after_a_cut_is_clean(folder, path):
    """What was complete and the new message are read, without a problem; the cut file is beside it."""
    golden = path.read_bytes()
    store, ref = put(folder, golden)
    aside = Path(f"{ref.path}.damaged")
    for size in range(0, len(golden), some(29, everything=7)):
        Path(ref.path).write_bytes(golden[:size])
        before = [entry.text for entry in store.read(ref).entries]
        with store.writer(ref, after=None) as writer:
            writer.append([user_entry("after the cut")])
        page = store.read(ref)
        assert [entry.text for entry in page.entries] == [*before, "after the cut"], size
        assert page.problems == [], size
        if 0 < size < len(golden.rstrip()):
            assert aside.read_bytes() == golden[:size]
            aside.unlink()


# --- anything at all --------------------------------------------------------------------------------

OURS = (GOLDEN / "ours.lisp").read_bytes()


@given(st.data())
def test_sib_07_a_spoilt_file_is_read_without_an_error(data):
    """Bytes are lost, doubled and replaced. What the file then says can be written, and read again."""
    text = OURS
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 60)))
        noise = data.draw(
            st.sampled_from(
                [b"", b"(", b")", b'"', b"\0" * 30, b"\xff", b"(:role ", text[start : start + 300]]
            )
        )
        text = text[:start] + noise + text[end:]
    document = document_of("a file", "s1", text)
    assert document.entries or document.problems
    assert all(b"\n" not in entry.line and entry.line.startswith(b"{") for entry in document.entries)
    assert all(1 <= problem.line <= text.count(b"\n") + 1 for problem in document.problems)
    again = document_of("a file", "s1", text_of(document, "2026-01-31T09:09:00.000Z").encode())
    assert list(map(meaning, again.entries)) == list(map(meaning, document.entries))
    assert not again.is_damaged or "\0" in text.decode("utf-8", "replace")


@given(st.binary(max_size=200))
def test_sib_07_any_bytes_are_read_without_an_error(data):
    """And if they are no session, that is said."""
    assert document_of("a file", "s1", data).problems


MANY = some(8_000, everything=20_000)


@pytest.mark.slow
@pytest.mark.parametrize(
    "bomb",
    [
        pytest.param("(:role " * MANY, id="messages in messages"),
        pytest.param('(:role "' * MANY, id="texts without an end"),
        pytest.param('(:role :user :content "' * MANY, id="messages without an end"),
        pytest.param("(:repl-session :messages (" + '(:role :user :content "x" ' * MANY, id="nothing closed"),
        pytest.param("(" * MANY, id="open"),
        pytest.param(")" * MANY, id="closed"),
        pytest.param("(:repl-session " + "())" * MANY, id="closed too often"),
        pytest.param("(:repl-session :messages (" + "(:role) " * MANY, id="messages without content"),
        pytest.param(
            "(:repl-session :messages (" + '#.(quit) (:role :user :content "x") ' * MANY, id="macros"
        ),
        pytest.param("(:repl-session " + ":a 1 " * MANY, id="fields"),
        pytest.param("(:repl-session :messages (" + "(" * 999 + ")" * 999, id="deep"),
        pytest.param(
            "(:repl-session :messages ((:role :user :content " + "(" * 990 + ")" * 990 + "))",
            id="deep content",
        ),
        pytest.param(
            "(:repl-session :entries (" + '(:after 1 :entry (:json "{")) ' * MANY, id="broken entries"
        ),
    ],
)
def test_sib_07_a_bomb_is_read_in_time_that_grows_with_its_size(bomb):
    """Nothing is tried again and again; the bound is far from what a slow machine needs."""
    start = time.process_time()
    document = document_of("a file", "s1", bomb.encode())
    assert document.problems
    assert time.process_time() - start < 30
