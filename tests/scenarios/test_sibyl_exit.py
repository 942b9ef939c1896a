"""sibyl when it is left: what it says of the disk is what is there, whatever others did to it meanwhile, and
a save that is under way ends first. After each test a Lisp reads what is on disk."""

import shutil
import signal

import pytest

from tests.agent.models.wire_server import wire_server
from tests.needs import needs_tool
from tests.programs.sibyl_talks import (
    damaged,
    ended,
    file_of,
    id_in,
    script,
    texts,
    until_asked,
)
from tests.programs.started import sibyl

__all__ = ["damaged", "sibyl", "wire_server"]
pytestmark = [pytest.mark.process, needs_tool("sbcl")]


# --- what others did to it ------------------------------------------------------------------------------


def test_sib_14_what_was_deleted_while_it_was_open_is_back_when_it_ends(sibyl, wire_server, home):
    """All of it, in its place."""
    sibyl.answers(wire_server, "Hm.")
    with sibyl.piped() as talk:
        talk.say("hello")
        until_asked(talk, 1)
        id = id_in(talk.out)
        shutil.rmtree(file_of(home, id).parent)
        assert talk.leave() == 0
    assert talk.out.endswith(f"sibyl[1]> \n{ended(id)}")
    assert texts(id) == ["hello", "Hm."]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(b"", id="emptied"),
        pytest.param(b'(:repl-session (:session-version 1) :id "x" :messages nil)\n', id="replaced"),
    ],
)
def test_sib_14_saved_is_only_said_of_what_is_in_the_file(sibyl, wire_server, home, damaged, other):
    """Somebody emptied it, or put something else there. Where it is not put back, that is said, and where it
    is kept; and the code is 1."""
    sibyl.answers(wire_server, "Hm.")
    with sibyl.piped() as talk:
        talk.say("hello")
        until_asked(talk, 1)
        id = id_in(talk.out)
        path = file_of(home, id)
        path.write_bytes(other)
        code = talk.leave()
    if path.read_bytes() == other:
        damaged[path] = other
        (aside,) = path.parent.glob("*.displaced")
        assert b'"hello"' in aside.read_bytes()
        assert (code, "Session saved" in talk.out, aside.name in talk.err) == (1, False, True), talk.err
    else:
        assert (code, texts(id)) == (0, ["hello", "Hm."])


def test_sib_14_where_all_of_it_is_gone_nobody_is_told_that_it_is_saved(sibyl, wire_server, home):
    """The lock is gone with it, so it cannot be put back. Each message is refused, in whole sentences."""
    sibyl.answers(wire_server, "Hm.")
    with sibyl.piped() as talk:
        talk.say("hello")
        until_asked(talk, 1)
        shutil.rmtree(home / ".sibyl")
        talk.say("two", "three")
        until_asked(talk, 3)
        assert talk.leave() == 1
    assert len(wire_server.requests) == 1
    assert [line for line in talk.err.splitlines() if not line.startswith("sibyl: ")] == []
    assert "Session saved" not in talk.out
    assert "all that was said is saved" not in talk.err
    assert str(file_of(home, id_in(talk.out))) in talk.err.splitlines()[-1]


# --- in the middle of a save ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("save", "number", "kept"), [(1, signal.SIGHUP, ["hello", ""]), (2, signal.SIGTERM, ["hello", "Hm."])]
)
def test_sib_14_a_signal_in_the_middle_of_a_save_waits_for_it(sibyl, wire_server, home, save, number, kept):
    """That of a message, which is not sent then, or that of an answer. The file is whole."""
    sibyl.answers(wire_server, "Hm.")
    code = f"""
import os, time
from perdure.session.stores import files

replace, saves = files.replace, []

def slow(root, relative, *given, **named):
    saves.extend([relative] * relative.endswith("session.lisp"))
    if len(saves) == {save}:
        os.write(2, b"Saving\\n")
        while not os.path.exists("go"):
            time.sleep(0.005)
    replace(root, relative, *given, **named)

files.replace = slow
raise SystemExit(start_repl())
"""
    with script(sibyl, code) as talk:
        talk.say("hello")
        talk.until(lambda: talk.err.startswith("Saving\n"))
        talk.process.send_signal(number)
        (sibyl.project / "go").touch()
        assert talk.wait() == 128 + number
    id = id_in(talk.out)
    assert talk.out.endswith(ended(id))
    assert texts(id) == kept
    assert (len(wire_server.requests), [*(home / ".sibyl").rglob("*.tmp")]) == (save - 1, [])
    assert "Traceback" not in talk.err
