"""AUR-12: a session with lines that cannot be read, when somebody wants to go on with it."""

import re
from pathlib import Path

import pytest

from perdure.session.stores import open_store
from tests.agent.models.wire_server import wire_server
from tests.aurora_files import METADATA, chain, text_of
from tests.programs.started import Program, aur

__all__ = ["aur", "wire_server"]

QUESTION = "recover / delete / leave? [r/d/L]"
ID = "session-0a1b2c3d4e5f"
BAD = b'{"type":"turn","role":"us'


@pytest.fixture
def damaged(aur) -> Path:
    """Two good turns, a bad line between them and one behind."""
    return put(aur, text_of(METADATA, *chain(1), BAD, *chain(1, start=2), b"17"))


def put(aur: Program, data: bytes, id: str = ID) -> Path:
    folder = aur.home / ".aurora" / "spawn" / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{id}.jsonl"
    path.write_bytes(data)
    return path


def resumed(aur: Program, stdin: str):
    return aur.within("spawn", "--resume", ID, stdin=stdin)


def test_aur_12_the_question_shows_once_what_would_be_kept_and_what_set_aside(aur, wire_server, damaged):
    """With the numbers of the lines; what is no answer is asked again. Recovered, it goes on."""
    aur.answers(wire_server, "go on")
    data = damaged.read_bytes()
    done = resumed(aur, "x\nyes\nr\nhello\n")
    assert done.code == 0
    assert done.out.count(QUESTION) == 3
    told = done.err.splitlines()
    assert told[:4] == [
        f"~/.aurora/spawn/sessions/{ID}.jsonl is damaged in 2 lines:",
        "  line 3: not a record (Unterminated string starting); left out",
        "  line 5: not a record (no object); left out",
        "Recovering keeps 2 turns and all else that can be read, leaves out what cannot be, and sets the "
        "file aside as it is now.",
    ]
    (aside,) = re.findall(r"2 good lines kept; the file as it was: (.+)$", done.out, re.MULTILINE)
    assert Path(aside).read_bytes() == data
    assert damaged.read_bytes().startswith(text_of(METADATA, *chain(2)))
    assert [text for _, text in aur.said()] == ["text 1", "text 2", "hello", "go on"]
    assert QUESTION not in resumed(aur, "").out


@pytest.mark.parametrize("answer", ["", "L\n", "leave\n", "\n"])
def test_aur_12_who_leaves_it_or_gives_no_answer_finds_it_unchanged(aur, damaged, answer):
    """1, and the command that recovers it without asking."""
    data = damaged.read_bytes()
    done = resumed(aur, answer)
    assert (done.code, done.out) == (1, f"{QUESTION} \n")
    assert done.err.splitlines()[-1] == (
        f"aur: Session {ID} is damaged, and was left as it is; `aur spawn --recover {ID}` keeps what can be "
        "read of it"
    )
    assert [*damaged.parent.iterdir()] == [damaged]
    assert damaged.read_bytes() == data


def test_aur_12_of_very_many_bad_lines_ten_are_named_in_the_question_and_by_the_repair(aur):
    put(aur, text_of(METADATA, *chain(1), *[BAD] * 25))
    asked = resumed(aur, "").err.splitlines()
    assert (len(asked), asked[11]) == (14, "  … and 15 more")
    told = aur.within("spawn", "--recover", ID).err.splitlines()
    assert (len(told), told[10]) == (11, "… and 15 more")


def test_aur_12_a_deleted_one_can_be_restored_as_it_was(aur, damaged):
    data = damaged.read_bytes()
    done = resumed(aur, "d\nhello\n")
    assert done.code == 0
    assert done.out == f"{QUESTION} \nDeleted session {ID}; restore: pi sessions restore {ID}\n"
    assert aur.files == []
    open_store("aurora").restore(ID)
    assert damaged.read_bytes() == data


def test_aur_12_an_unterminated_last_line_is_a_notice_and_is_never_asked_about(aur, wire_server):
    """Not the next time either, when more stands behind it; and its bytes are kept."""
    aur.answers(wire_server, "go on")
    data = text_of(METADATA, *chain(2)) + BAD
    path = put(aur, data)
    done = resumed(aur, "hello\n")
    assert done.code == 0
    assert done.err.splitlines()[0] == (
        f"Line 4: the last line is unfinished ({len(BAD)} bytes); left out; it is kept in "
        f"~/.aurora/spawn/sessions/{path.name}.damaged"
    )
    assert path.with_name(f"{path.name}.damaged").read_bytes() == data
    assert [text for _, text in aur.said()] == ["text 1", "text 2", "hello", "go on"]
    again = resumed(aur, "")
    assert (again.code, again.out.count(QUESTION)) == (0, 0)
    assert "unfinished" not in again.err


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 5000, b"\xff\xfe", b"{", b"[]\n7\n", b"\n\n", b'{"type":"metadata"', bytes(range(256)) * 9],
    ids=["empty", "NULs", "bytes", "brace", "no objects", "blank", "half a first line", "everything"],
)
def test_aur_12_a_file_without_a_line_that_can_be_read_is_asked_about_and_never_a_crash(
    aur, wire_server, data
):
    """It can be left, and recovered to an empty session that is talked in."""
    aur.answers(wire_server, "ok")
    path = put(aur, data)
    left = resumed(aur, "")
    assert (left.code, left.out, path.read_bytes()) == (1, f"{QUESTION} \n", data)
    assert "Recovering keeps 0 turns" in left.err
    done = resumed(aur, "r\nhello\n")
    assert done.code == 0, done.err
    assert [text for _, text in aur.said()] == ["hello", "ok"]
    assert any(each.read_bytes() == data for each in path.parent.iterdir())
