"""What was said in sibyl is kept: by itself, on a failing disk, after kill -9, while it is condensed, with
others in the same place. After each test a Lisp reads what is on disk."""

import itertools
import re
import threading
import time
from random import Random

import pytest

from perdure.errors import Held
from perdure.programs.sibyl import list_sessions, save_session
from perdure.session.stores import START
from perdure.session.stores.whole_file import WholeFileStore
from perdure.testing import user_entry
from tests.agent.models.wire_server import HANG, events, wire_server
from tests.front.one_prompt import HALF, said
from tests.front.shell_terminal import hang_up
from tests.needs import needs_tool
from tests.programs.sibyl_talks import (
    count,
    damaged,
    ended,
    field,
    file_of,
    fill_disk,
    free_disk,
    gate,
    id_in,
    lisp,
    saved,
    script,
    texts,
)
from tests.programs.started import prompts_of, sibyl

__all__ = ["damaged", "gate", "lisp", "sibyl", "wire_server"]
pytestmark = [pytest.mark.process, needs_tool("sbcl")]


# --- by itself ------------------------------------------------------------------------------------------


def test_sib_15_what_changed_is_saved_by_itself_and_what_is_empty_is_not(sibyl, wire_server, home):
    """The count of commands, which no message has written. Where nothing changed, nothing is written."""
    sibyl.answers(wire_server, "Hm.")
    with script(sibyl, "start_repl(auto_save_interval=0.02)") as talk:
        talk.say("/help", "/nope")
        talk.until("sibyl[2]> ")
        path = file_of(home, id_in(talk.out))
        empty = path.stat().st_ino
        time.sleep(0.2)
        assert path.stat().st_ino == empty
        talk.say("hello", "/help")
        talk.until("sibyl[4]> ")
        talk.until(lambda: count(path) == 4)
        quiet = path.stat().st_ino
        time.sleep(0.2)
        assert path.stat().st_ino == quiet
        assert talk.leave() == 0
    assert talk.err == "sibyl: There is no command /nope; /help lists them\n"


def test_sib_15_the_option_says_after_how_many_seconds_it_is_saved(sibyl, wire_server, home):
    """Without anybody leaving, or asking for it."""
    sibyl.answers(wire_server, "Hm.")
    with sibyl.piped("--auto-save-interval", "1") as talk:
        talk.say("hello", "/help")
        talk.until("sibyl[2]> ")
        talk.until(lambda: count(file_of(home, id_in(talk.out))) == 2)
        talk.process.kill()


def test_sib_15_a_failing_disk_is_told_once_and_tried_again_until_it_works(sibyl, wire_server, gate, home):
    """An answer that arrives meanwhile waits in memory, and is saved as soon as that can be."""
    sibyl.answers(wire_server, "one", gate.then("the answer " * 20))
    with script(sibyl, "start_repl(auto_save_interval=0.05)") as talk:
        talk.say("hello", "and?")
        talk.until(lambda: len(wire_server.requests) == 2)
        id = id_in(talk.out)
        fill_disk(talk)
        gate.set()
        talk.until("sibyl[2]> ")
        before = file_of(home, id).read_bytes()
        talk.until(lambda: "Auto-save failed" in talk.err)
        time.sleep(0.3)
        talk.say("/save", "more")
        talk.until("sibyl[4]> ")
        assert "Session saved" not in talk.out
        assert len(wire_server.requests) == 2  # what could not be saved is not sent
        assert file_of(home, id).read_bytes() == before
        assert talk.err.count("Auto-save") == 1
        assert re.search(r"^Auto-save failed, and is tried again later: Not saved: /", talk.err, re.MULTILINE)
        free_disk(talk)
        talk.until(lambda: "\nAuto-save works again.\n" in talk.err)
        assert texts(id) == ["hello", "one", "and?", "the answer " * 20]
        fill_disk(talk)
        talk.say("/help")
        talk.until(lambda: talk.err.count("Auto-save failed") == 2)
        free_disk(talk)
        talk.until(lambda: talk.err.count("Auto-save works again.") == 2)
        assert talk.leave() == 0
    assert talk.out.endswith(ended(id))
    assert count(file_of(home, id)) == 5


def test_sib_15_what_a_command_printed_while_the_disk_was_full_is_saved(sibyl, home):
    """And shown all the same. Also if it is the first thing in its session, which is empty on disk until
    then."""
    with sibyl.piped() as talk:
        talk.until("sibyl[0]> ")
        id = id_in(talk.out)
        fill_disk(talk)
        talk.say("!echo zebra", "/save")
        talk.until("sibyl[2]> ")
        talk.until(lambda: talk.err.count("sibyl: Not saved: ") == 2)
        assert "! echo zebra\nzebra\n" in talk.out
        free_disk(talk)
        assert talk.leave() == 0
    assert talk.out.endswith(f"sibyl[2]> \n{ended(id)}")
    assert "zebra" in file_of(home, id).read_text()


# --- the count ------------------------------------------------------------------------------------------


def test_sib_16_the_count_goes_on_over_kill_9_resumes_and_loads(sibyl, wire_server, home):
    """Of messages, of commands, and of what is neither. The prompt shows it, and each session has its own."""
    sibyl.answers(wire_server, "Hm.")
    saved("one", "two", id="session-A")
    with sibyl.piped() as talk:
        talk.say("/nope", "hello", "/save", "again")
        talk.until("sibyl[4]> ")
        id = id_in(talk.out)
        talk.process.kill()
    assert count(file_of(home, id)) == 4
    done = sibyl.run("--session-id", id, stdin=f"more\n/load session-A\n/help\nthere\n/load {id}\n")
    assert re.findall(r"^sibyl\[(\d+)\]> $", done.out, re.MULTILINE) == ["4", "5", "0", "1", "2", "6"]
    assert [count(file_of(home, each)) for each in (id, "session-A")] == [6, 3]
    assert "\nsibyl[3]> \n" in sibyl.run("--session-id", "session-A", stdin="").out


def test_sib_16_what_is_saved_while_another_is_loaded_has_its_own_count(sibyl, wire_server, home):
    """A model takes its time to be ready, and the timer goes on."""
    model = {"id": "test", "base_url": f"{wire_server.url}/v1", "api_key": "!sleep 0.4; echo key"}
    sibyl.answers(wire_server, "Hm.", models=[model])
    save_session("session-A", [user_entry(text) for text in "abcdefgh"])
    with script(sibyl, "start_repl(auto_save_interval=0.05)") as talk:
        talk.say("hello", "/load session-A", "/help", "/help", "/help")
        talk.until("sibyl[3]> ")
        assert talk.leave() == 0
    (first,) = (path for path in sibyl.files if path.parent.name != "session-A")
    assert (count(first), count(file_of(home, "session-A"))) == (2, 3)


# --- killed ---------------------------------------------------------------------------------------------


def test_g_3_after_kill_9_in_the_middle_of_a_reply_all_but_the_reply_is_there(sibyl, wire_server, home):
    """The next start goes on: an answer that never came is not waited for."""
    sibyl.answers(wire_server, "Hm.", events(HALF, HANG), "So?")
    with sibyl.piped() as talk:
        talk.say("hello", "more")
        talk.until(lambda: len(wire_server.requests) == 2)
        talk.process.kill()
    id = id_in(talk.out)
    assert (texts(id), count(file_of(home, id))) == (["hello", "Hm.", "more"], 2)
    done = sibyl.run("--session-id", id, stdin="still?\n")
    assert (done.code, done.out.count("sibyl[3]> ")) == (0, 1)
    assert texts(id) == ["hello", "Hm.", "more", "still?", "So?"]


def test_g_3_kill_9_at_any_moment_leaves_all_that_was_acknowledged_in_a_file_that_can_be_read(
    sibyl, wire_server, home, lisp
):
    """Acknowledged is what is above a prompt. Each start goes on with what the one before it left."""
    random, numbers, id = Random(20250220), itertools.count(), ""

    def answer():
        yield from events(said(f"answer {next(numbers)}."))()

    sibyl.answers(wire_server, answer)
    acknowledged: list[str] = []
    for _ in range(6):
        before = count(file_of(home, id)) if id else 0
        with sibyl.piped(*(["--session-id", id] if id else [])) as talk:
            talk.say(*(f"message {number}" for number in range(50)))
            talk.until(f"sibyl[{before + random.randint(1, 6)}]> ")
            time.sleep(random.uniform(0, 0.02))
            talk.process.kill()
        id = id or id_in(talk.out)
        shown, _, _ = talk.out.rpartition("sibyl[")
        acknowledged += [each for each in re.findall(r"answer \d+\.", shown) if each not in acknowledged]
        there = texts(id)
        assert [text for text in there if text in acknowledged] == acknowledged
        assert lisp(file_of(home, id))[1:] == [len(there)] * 2
        assert [row["message_count"] for row in list_sessions()] == [len(there)]
        assert count(file_of(home, id)) == sum(text.startswith("message") for text in there)
    assert len(acknowledged) >= 12


def test_sib_14_when_the_terminal_goes_away_what_arrived_is_saved(sibyl, wire_server):
    """In the middle of an answer, and nobody is there to be told."""
    sibyl.answers(wire_server, events(HALF, HANG))
    with sibyl.terminal() as terminal:
        terminal.until("sibyl[0]> ")
        terminal.send("hello\r")
        terminal.until("half an ans")
        hang_up(terminal)
        assert terminal.wait() == 129
    (path,) = sibyl.files
    assert (texts(path.parent.name), count(path)) == (["hello", "half an ans"], 1)


# --- while it is condensed ------------------------------------------------------------------------------


def test_sib_17_a_session_that_is_condensed_is_whole_whenever_somebody_looks(sibyl, wire_server, gate, home):
    """While the timer runs, and if it is killed in the middle. Then the summary is in the file, and for how
    many messages it stands; all of these are there, too, and a resumed session sends it in their place."""
    stripes = "a long answer about zebras " * 30
    settings = {"compact_threshold": 200, "compaction": {"keep_recent_tokens": 10}}
    sibyl.answers(wire_server, stripes, events(HANG), **settings)
    with script(sibyl, "start_repl(auto_save_interval=0.01)") as talk:
        talk.say("one", "two")
        talk.until(lambda: len(wire_server.requests) == 2)
        id = id_in(talk.out)
        path = file_of(home, id)
        assert (texts(id), field(path, "summary")) == (["one", stripes, "two"], "nil")
        talk.process.kill()
    sibyl.answers(wire_server, gate.then("They spoke of zebras."), "Hm.", **settings)
    seen: list[int] = []
    with script(sibyl, f"start_repl(auto_save_interval=0.01, session_id={id!r})") as talk:
        talk.say("three")
        talk.until(lambda: len(wire_server.requests) == 3)
        for _ in range(30):
            seen.append(len(texts(id)))
            time.sleep(0.005)
        gate.set()
        while "sibyl[3]> " not in talk.out:
            seen.append(len(texts(id)))
        assert talk.leave() == 0
    assert (sorted(seen), seen[0]) == (seen, 4)
    assert texts(id) == ["one", stripes, "two", "three", "Hm."]
    assert field(path, "summary").startswith('"They spoke of zebras.')
    summarized = int(field(path, "summarized"))
    assert 2 <= summarized < 4
    sibyl.answers(wire_server, "So?")
    sibyl.run("--session-id", id, stdin="four\n")
    sent = "\n".join(text for _, text in prompts_of(wire_server))
    kept = "".join(f".*^{text}$" for text in [*texts(id)[summarized:5], "four"])
    assert re.search(rf"They spoke of zebras\.{kept}", sent, re.DOTALL | re.MULTILINE), sent
    assert stripes not in sent
    assert field(path, "message-count") == "7"


# --- several at once ------------------------------------------------------------------------------------


def test_sib_13_a_session_that_another_process_talks_in_is_refused_and_it_is_told_who(sibyl, wire_server):
    """4; in a conversation, which goes on. The other one is not disturbed."""
    sibyl.answers(wire_server, "Hm.")
    saved("one", "two", id="session-A")
    with sibyl.piped("--session-id", "session-A") as talk:
        talk.until("sibyl[0]> ")
        told = f"sibyl: Session session-A is held by process {talk.process.pid}; leave it there first\n"
        assert sibyl.run("--session-id", "session-A", stdin="hello\n") == (4, "", told)
        done = sibyl.run(stdin="hello\n/load session-A\nstill?\n")
        assert (done.code, done.err) == (0, told)
        assert texts(id_in(done.out)) == ["hello", "Hm.", "still?", "Hm."]
        talk.say("three")
        talk.until("sibyl[1]> ")
        assert talk.leave() == 0
    assert (talk.err, texts("session-A")) == ("", ["one", "two", "three", "Hm."])


def test_sib_08_two_processes_in_two_sessions_update_one_index(sibyl, wire_server, home, lisp):
    """At once; each row is there, as its file is, before anybody lists them."""
    sibyl.answers(wire_server, "Hm.")
    saved("one", id="session-A")
    with sibyl.piped() as one, sibyl.piped() as two:
        for talk in (one, two):
            talk.say(*["hello"] * 15)
        for talk in (one, two):
            talk.until("sibyl[15]> ")
        assert (one.leave(), two.leave()) == (0, 0)
    rows = dict(map(tuple, lisp(home / ".sibyl" / "sessions" / "index.lisp")))
    assert rows == {"session-A": 1, id_in(one.out): 30, id_in(two.out): 30}


def test_sib_18_a_script_waits_for_the_program_that_talks_in_a_session(sibyl, wire_server, monkeypatch):
    """Not for ever: then it is told who has it. What it saves stands behind what was said."""
    sibyl.answers(wire_server, "Hm.")
    with sibyl.piped() as talk:
        talk.say("hello")
        talk.until("sibyl[1]> ")
        id = id_in(talk.out)
        with monkeypatch.context() as patch:
            patch.setattr(WholeFileStore.writer, "__defaults__", (0.05, START))  # seconds; else they are 10
            with pytest.raises(Held, match=f"is held by process {talk.process.pid}\\b"):
                save_session(id, [user_entry("from a script")])
        waiting = threading.Thread(target=save_session, args=(id, [user_entry("from a script")]))
        waiting.start()
        time.sleep(0.1)
        assert waiting.is_alive()
        assert talk.leave() == 0
        waiting.join()
    assert texts(id) == ["hello", "Hm.", "from a script"]
