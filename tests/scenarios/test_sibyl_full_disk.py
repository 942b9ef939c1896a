"""sibyl on a disk that is full: what it says is true, and what arrived is saved as soon as that can be. On a
real disk, where one may be mounted; else no file that the program writes may grow. After each test a Lisp
reads what is on disk."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.programs.sibyl import save_session
from perdure.testing import user_entry
from tests.agent.models.wire_server import WireServer, wire_server
from tests.front.piped import Piped
from tests.needs import needs_tool
from tests.programs.sibyl_talks import (
    codes_in,
    count,
    damaged,
    ended,
    field,
    file_of,
    fill_disk,
    free_disk,
    gate,
    id_in,
    talks,
    texts,
    until_asked,
)
from tests.programs.started import Program, prompts_of, sibyl
from tests.small_disk import fill, make_room, small_disk

__all__ = ["damaged", "gate", "sibyl", "wire_server"]
pytestmark = [pytest.mark.process, needs_tool("sbcl")]


class Disk:
    """On which the sessions are."""

    def __init__(self, place: Path, *, is_real: bool) -> None:
        self.is_real = is_real
        self.reason = "No space left on device" if is_real else "File too large"
        self._place = place

    def fill(self, talk: Piped) -> None:
        if self.is_real:
            fill(self._place)
        else:
            fill_disk(talk)

    def free(self, talk: Piped) -> None:
        if self.is_real:
            make_room(self._place)
        else:
            free_disk(talk)

    def fill_before(self, program: Program) -> None:
        if self.is_real:
            fill(self._place)
        else:
            program.command = ["sh", "-c", 'ulimit -f 0; exec "$0" "$@"', *program.command]


@pytest.fixture
def disk(home: Path) -> Iterator[Disk]:
    place = home / ".sibyl"
    with small_disk(place, "256k") as is_real:
        yield Disk(place, is_real=is_real)


def until_sent(talk: Piped, server: WireServer, requests: int) -> None:
    talk.until(lambda: len(server.requests) == requests)


def until_kept(talk: Piped, id: str, said: list[str]) -> None:
    talk.until(lambda: texts(id) == said)


def test_sib_06_who_starts_on_a_full_disk_is_told_in_one_sentence(disk, sibyl, wire_server, home):
    """And nothing is left behind."""
    sibyl.answers(wire_server, "Hm.")
    disk.fill_before(sibyl)
    done = sibyl.run(stdin="hello\n")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert done.err.startswith(f"sibyl: Not saved: {home / '.sibyl' / 'sessions'}/session-")
    assert f"/session.lisp: {disk.reason}; " in done.err
    assert [*(home / ".sibyl" / "sessions").glob("*")] == []
    assert wire_server.requests == []


def test_sib_14_g_5_a_message_that_a_full_disk_refuses_is_told_once_and_the_code_is_1(
    disk, sibyl, wire_server, home
):
    """Also if it is the first one: it is not sent, and of the new session there is no file."""
    sibyl.answers(wire_server, "Hm.")
    with sibyl.piped() as talk:
        until_asked(talk, 0)
        disk.fill(talk)
        talk.say("hello")
        until_asked(talk, 1)
        assert talk.leave() == 1
    assert talk.out.endswith("sibyl[1]> \n")
    assert talk.err.count("\n") == 1
    assert talk.err.startswith(f"sibyl: Not saved: {file_of(home, id_in(talk.out))}: {disk.reason}; ")
    assert (wire_server.requests, sibyl.files) == ([], [])


@pytest.mark.parametrize(("number", "code"), [(None, 1), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_sib_14_who_leaves_when_the_disk_is_full_is_told_what_is_lost(
    disk, sibyl, wire_server, gate, number, code
):
    """It became so in the middle of a reply. However they leave: what was saved before it is there."""
    sibyl.answers(wire_server, "one", gate.then("two"))
    with sibyl.piped() as talk:
        talk.say("hello", "and?")
        until_sent(talk, wire_server, 2)
        disk.fill(talk)
        gate.set()
        until_asked(talk, 2)
        if number is None:
            talk.leave()
        else:
            talk.process.send_signal(number)
        assert talk.wait() == code
    id = id_in(talk.out)
    assert talk.out.endswith(f"two\nsibyl[2]> \nResume with: sibyl --session-id {id}\n")
    *_, last = talk.err.splitlines()
    assert last.startswith(f"sibyl: Not saved: {sibyl.files[0]}: {disk.reason}; ")
    assert "is lost" in last
    assert texts(id) == ["hello", "one", "and?"]


def test_sib_12_a_reset_on_a_full_disk_resets_nothing(disk, sibyl, wire_server, home):
    """And says so. When there is room again, it is done, and all that was said is there."""
    sibyl.answers(wire_server, "Hm.")
    with sibyl.piped() as talk:
        talk.say("one")
        until_asked(talk, 1)
        id = id_in(talk.out)
        before = file_of(home, id).read_bytes()
        disk.fill(talk)
        talk.say("/reset")
        until_asked(talk, 2)
        assert "Session saved" not in talk.out
        talk.until(lambda: talk.err.endswith("\n"))
        assert talk.err.startswith(f"sibyl: Not saved: {file_of(home, id)}: ")
        assert (talk.err.count("\n"), file_of(home, id).read_bytes()) == (1, before)
        disk.free(talk)
        talk.say("two", "/reset", "three")
        until_asked(talk, 5)
        assert f"Session saved before reset: {id}\n" in talk.out
        assert talk.leave() == 0
    assert prompts_of(wire_server, 1) == [("user", "one"), ("assistant", "Hm."), ("user", "two")]
    assert prompts_of(wire_server) == [("user", "three")]
    assert (texts(id), count(file_of(home, id))) == (["one", "Hm.", "two", "Hm.", "three", "Hm."], 5)
    assert field(file_of(home, id), "context-start") == "4"


def test_sib_14_sib_15_an_answer_that_waits_is_saved_behind_what_others_wrote(
    disk, sibyl, wire_server, gate, home, tmp_path
):
    """When its user leaves, and by itself: the disk was full when it came, and then another program has put
    the session back with more in it."""
    with talks(sibyl, "", "auto_save_interval=0.05") as talk:
        for number in (1, 2):
            gate.clear()
            sibyl.answers(wire_server, "one", gate.then("two"))
            talk.say("hello", "and?")
            until_sent(talk, wire_server, 2 * number)
            id = id_in(talk.out)
            shutil.copytree(file_of(home, id).parent, tmp_path / id)
            save_session(id, [user_entry("from elsewhere")], directory=tmp_path)
            longer = shutil.copy(tmp_path / id / "session.lisp", home / ".sibyl")
            disk.fill(talk)
            gate.set()
            until_asked(talk, 2)
            os.replace(longer, file_of(home, id))
            disk.free(talk)
            if number == 1:
                talk.say("/quit")
                talk.until(lambda: codes_in(talk.out) == [0])
                assert ended(id) in talk.out
            until_kept(talk, id, ["hello", "one", "and?", "from elsewhere", "two"])
        assert talk.leave() == 0
    assert codes_in(talk.out) == [0, 0]
    assert talk.err.count("was changed by another program") == 2
