"""soleur when things go wrong: it is killed, a disk is full, a ledger cannot be written, others are there."""

import itertools
import json
import re
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from perdure.session.stores.lock import Lock
from tests.agent.models.wire_server import HANG, events, refuse, wire_server
from tests.front.one_prompt import said
from tests.front.shell_terminal import say, text_of, until_edited, until_idle
from tests.needs import needs
from tests.programs.started import MODEL, document, prompts_of, soleur, system_of
from tests.small_disk import BALLAST, fill, make_room, needed_disk

__all__ = ["soleur", "wire_server"]

pytestmark = pytest.mark.process

linux = needs("limits of another process", given=sys.platform == "linux")


def ledger(soleur) -> Path:
    return soleur.home / ".soleur" / "decisions" / "acme.md"


def in_ledger(soleur) -> list[str]:
    """The texts of its lines."""
    lines = ledger(soleur).read_text().splitlines() if ledger(soleur).exists() else []
    return [re.sub(r"^- \[[^]]*\] \[\w+\] ", "", line) for line in lines if line.startswith("- ")]


def decided(soleur) -> list[str]:
    """In the session that was saved last."""
    return [each["content"] for each in document(soleur.files[0])["decisions"]]


def until_asked(talk) -> None:
    """Until it waits for the next line."""
    talk.until(lambda: talk.out.endswith("> "))


@pytest.fixture
def held(soleur):
    """The ledger's lock, by somebody who is slow."""
    place = soleur.home / ".soleur"
    place.mkdir(mode=0o700)
    lock = Lock(str(place), "locks/decisions/acme.lock", "acme", 0)
    yield lock
    lock.release()


def limit(pid: int, size: int | None) -> None:
    """How large a file may become that it writes: as a disk does that is full."""
    import resource

    _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most if size is None else size, most))


# --- killed ---------------------------------------------------------------------------------------------


def test_g_3_sol_12_after_kill_9_an_answer_is_there_with_its_decision_or_not_at_all(soleur, wire_server):
    """At any moment. What was shown as decided is there; the next start has all of it in the ledger, once."""
    numbers = itertools.count(1)
    soleur.answers(
        wire_server,
        lambda: events(said(f"[DECISION: Number {next(numbers)}.] Why?\n"))(),
        retry={"max_retries": 0},
    )
    for kill_after in (1, 3, 4):
        words = ["--fresh"] if kill_after == 1 else ["load", soleur.files[0].stem]
        with soleur.piped(*words) as talk:
            talk.say(*(f"say {each}" for each in range(40)))
            talk.until(lambda shown=talk, most=kill_after: shown.err.count("Decided: ") >= most)
            talk.process.kill()
            talk.wait()
        told = re.findall(r"^Decided: (Number \d+\.)$", talk.err, re.MULTILINE)
        messages = document(soleur.files[0])["messages"]
        marked = [text for each in messages for text in re.findall(r"DECISION: (.*)\]", each["content"])]
        assert decided(soleur) == marked
        assert {*told} <= {*marked}
    soleur.answers(wire_server, "And then?")
    done = soleur.run("load", soleur.files[0].stem, stdin="So?\n")
    assert done.code == 0
    assert in_ledger(soleur) == decided(soleur)
    assert system_of(wire_server).count("Number ") == len(decided(soleur))


def test_sol_12_killed_between_the_session_and_the_ledger_the_next_start_completes_it_once(
    soleur, wire_server, held
):
    """The ledger is somebody else's at that moment. Starts that follow change nothing any more."""
    soleur.answers(wire_server, "Good. [DECISION: We charge per seat.] Why?")
    with soleur.piped("--fresh") as talk:
        talk.say("Per seat, that is settled.")
        talk.until(lambda: "Decided: We charge per seat." in talk.err)
        assert (decided(soleur), in_ledger(soleur)) == (["We charge per seat."], [])
        talk.process.kill()
    held.release()
    for _ in range(2):
        assert soleur.run(stdin="y\n").code == 0
        assert in_ledger(soleur) == ["We charge per seat."]
    assert soleur.run("decisions").out.count("We charge per seat.") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_g_6_sol_12_a_signal_while_it_saves_lets_it_finish(soleur, wire_server, held, number):
    """With its exit code, and with everything in its place."""
    soleur.answers(wire_server, "Good. [DECISION: We charge per seat.] Why?")
    with soleur.piped("--fresh") as talk:
        talk.say("Per seat.")
        talk.until(lambda: "Decided: " in talk.err)
        for _ in range(4 if number == signal.SIGINT else 1):  # those that come at once are one
            talk.process.send_signal(number)
            time.sleep(0.2)
        assert talk.process.poll() is None
        held.release()
        assert talk.wait() == 128 + number
    assert in_ledger(soleur) == decided(soleur) == ["We charge per seat."]
    assert talk.out.rstrip().endswith(f"load {soleur.files[0].stem}")
    assert "Not in the ledger" not in talk.err


def test_sol_11_killed_before_the_partner_had_opened_it_opens_when_the_session_is_loaded(soleur, wire_server):
    """So does it after an attempt that failed, here and there; and never when something was said."""
    (soleur.project / "README.md").write_text("# Acme\n\nShovels as a service.")
    soleur.answers(wire_server, events(HANG))
    with soleur.piped("--fresh") as talk:
        talk.say("y")
        talk.until(lambda: wire_server.requests)
        talk.process.kill()
    id = soleur.files[0].stem
    assert document(soleur.files[0])["messages"] == []
    soleur.answers(wire_server, refuse(500, b"{}"), "Who digs?", "Hm.", retry={"max_retries": 0})
    assert "Failed: " in soleur.run("load", id, stdin="").err
    assert "Who digs?" in soleur.run("load", id, stdin="").out
    assert "Shovels as a service." in system_of(wire_server)
    asked = len(wire_server.requests)
    assert soleur.run("load", id, stdin="/context README.md\n").code == 0
    assert len(wire_server.requests) == asked
    assert soleur.said()[-1] == ("assistant", "Who digs?")


# --- a disk that refuses --------------------------------------------------------------------------------


@linux
def test_sol_03_on_a_full_disk_it_says_so_at_once_and_goes_on_when_there_is_space(soleur, wire_server):
    """What was not saved was not said: the prompt is not sent. An answer that arrived waits for space, with
    what it decided, and is saved with whatever is recorded next."""
    soleur.answers(wire_server, "First.", f"Second. [DECISION: We go to Mars.] {'Why? ' * 400}", "Third.")
    with soleur.piped("--fresh") as talk:
        talk.say("one")
        talk.until("First.")
        until_asked(talk)
        (file,) = soleur.files
        before = file.read_bytes()
        limit(talk.process.pid, len(before) - 1)
        talk.say("two")
        talk.until(lambda: "Not saved: " in talk.err)
        until_asked(talk)
        assert (file.read_bytes(), len(wire_server.requests)) == (before, 1)

        limit(talk.process.pid, len(before) + 600)
        talk.say("three")
        talk.until(lambda: talk.err.count("Not saved: ") == 2)
        until_asked(talk)
        assert "what arrived is kept in memory" in talk.err
        talk.say("/decide And back.")
        talk.until(lambda: talk.err.count("Not saved: ") == 3)
        until_asked(talk)
        assert "what arrived before it is kept in memory" in talk.err  # and the decision is not
        assert (soleur.said()[-1], decided(soleur)) == (("user", "three"), [])
        assert "Decided: " not in talk.err
        assert not ledger(soleur).exists()

        limit(talk.process.pid, None)
        talk.say("/decide And back.", "/decisions")
        talk.until("And back.")
        talk.until(lambda: talk.err.count("Decided: ") == 2)
        assert re.findall(r"Decided: (.*)", talk.err) == ["We go to Mars.", "And back."]
        assert decided(soleur) == in_ledger(soleur) == ["We go to Mars.", "And back."]
        talk.say("four")
        talk.until("Third.")
        assert talk.leave() == 1  # a line of the input was not taken
    texts = [text.split(" [")[0] for _, text in soleur.said()]
    assert texts == ["one", "First.", "three", "Second.", "four", "Third."]
    assert [text.split(" [")[0] for _, text in prompts_of(wire_server)] == texts[:-1]
    assert list(file.parent.iterdir()) == [file]


@linux
def test_sol_03_g_5_what_stays_unsaved_is_told_last_and_the_exit_code_is_1(soleur, wire_server):
    """If there is space by then, it is saved, and all is well."""
    for size, code in ((None, 0), (600, 1)):
        soleur.answers(wire_server, "First.", f"Second. [DECISION: Mars, {code}.] {'Why? ' * 400}")
        with soleur.piped("--fresh") as talk:
            talk.say("one")
            talk.until("First.")
            until_asked(talk)
            room = soleur.files[0].stat().st_size + 600
            limit(talk.process.pid, room)
            talk.say("two")
            talk.until(lambda shown=talk: "Not saved: " in shown.err)
            limit(talk.process.pid, None if size is None else room)
            assert talk.leave() == code
        is_saved = code == 0
        assert (decided(soleur) == [f"Mars, {code}."]) == is_saved
        assert ("what is shown above and not saved is lost" in talk.err) == (not is_saved)
        assert in_ledger(soleur) == ["Mars, 0."]
        assert talk.out.rstrip().endswith(f"load {soleur.files[0].stem}")


@linux
def test_sol_12_g_5_through_a_pipe_a_decision_that_was_not_saved_is_not_made_and_the_exit_code_is_1(
    soleur, wire_server
):
    """As with a message: who sent it has it, and nothing claims to."""
    soleur.answers(wire_server, "First.")
    with soleur.piped("--fresh") as talk:
        talk.say("one")
        talk.until("First.")
        until_asked(talk)
        limit(talk.process.pid, 100)
        talk.say("/decide We go.")
        talk.until(lambda: "Not saved: " in talk.err)
        until_asked(talk)
        limit(talk.process.pid, None)
        assert talk.leave() == 1
    (told,) = talk.err.splitlines()
    assert told.startswith(f"soleur: Not saved: {soleur.files[0]}: ")
    assert "kept" not in told
    assert (decided(soleur), ledger(soleur).exists()) == ([], False)


@linux
def test_sol_03_save_says_that_all_is_saved_only_when_it_is(soleur, wire_server):
    """Not while the last message was refused by a full disk."""
    soleur.answers(wire_server, "First.", "Second.")
    with soleur.piped("--fresh") as talk:
        talk.say("one")
        talk.until("First.")
        until_asked(talk)
        limit(talk.process.pid, 100)
        talk.say("two", "/save")
        talk.until(lambda: "Not all is saved: " in talk.err)
        assert "Session saved" not in talk.out
        limit(talk.process.pid, None)
        talk.say("two", "/save")
        talk.until("Session saved: ")
        assert talk.leave() == 1  # a line of its input was refused
    assert [text for _, text in soleur.said()] == ["one", "First.", "two", "Second."]


def test_sol_03_save_puts_back_a_session_that_was_deleted_before_it_says_that_it_is_saved(
    soleur, wire_server
):
    """What it says is there is looked for on the disk."""
    soleur.answers(wire_server, "First.")
    with soleur.piped("--fresh") as talk:
        talk.say("one")
        talk.until("First.")
        until_asked(talk)
        (path,) = soleur.files
        path.unlink()
        talk.say("/save")
        talk.until("Session saved: ")
        assert path.exists()
        assert talk.leave() == 0


@linux
def test_sol_03_sol_12_at_a_terminal_what_could_not_be_saved_is_given_back(soleur, wire_server):
    """A message and a decision: to be sent again with one key, when there is space."""
    soleur.answers(wire_server, "First.", "Second.")
    with soleur.terminal("--fresh") as terminal:
        terminal.until(MODEL)
        say(terminal, "one")
        terminal.until("First.")
        until_idle(terminal)
        limit(terminal.pid, 100)
        say(terminal, "two")
        terminal.until("Not saved: ")
        until_edited(terminal, "two")
        assert len(wire_server.requests) == 1
        limit(terminal.pid, None)
        terminal.keys("enter")
        terminal.until("Second.")
        until_idle(terminal)

        limit(terminal.pid, 100)
        say(terminal, "/decide We go.")
        terminal.until(lambda: text_of(terminal).count("Not saved:") == 2)
        until_edited(terminal, "/decide We go.")
        shown = text_of(terminal).rpartition("Not saved:")[2]
        assert "kept" not in shown
        assert "Decided: " not in shown
        limit(terminal.pid, None)
        terminal.keys("enter")
        terminal.until("Decided: We go.")
        until_idle(terminal)
        terminal.keys("c-d")
        assert terminal.wait() == 0
    assert [text for _, text in soleur.said()] == ["one", "First.", "two", "Second."]
    assert decided(soleur) == in_ledger(soleur) == ["We go."]


def test_sol_12_at_a_terminal_a_decision_that_meets_what_others_did_is_given_back(soleur, wire_server):
    """They deleted the session's file, which is put back; one key more, and it is decided."""
    soleur.answers(wire_server, "First.")
    with soleur.terminal("--fresh") as terminal:
        terminal.until(MODEL)
        say(terminal, "one")
        terminal.until("First.")
        until_idle(terminal)
        soleur.files[0].unlink()
        say(terminal, "/decide We go.")
        terminal.until("send it again")
        until_edited(terminal, "/decide We go.")
        terminal.keys("enter")
        terminal.until("Decided: We go.")
        until_idle(terminal)
        terminal.keys("c-d")
        assert terminal.wait() == 0
    assert decided(soleur) == in_ledger(soleur) == ["We go."]
    assert soleur.said() == [("user", "one"), ("assistant", "First.")]


@pytest.fixture
def disk(soleur):
    """A real one of 64 KB, in memory, where its home is."""
    with needed_disk(soleur.home / ".soleur", "64k") as place:
        yield place


def test_sol_03_g_5_on_a_disk_that_is_full_nothing_is_begun(soleur, wire_server, disk):
    """One sentence, 1, and no file is left; when there is space, there is nothing to be mended."""
    soleur.answers(wire_server, "First.")
    fill(disk)
    done = soleur.run("--fresh", stdin="one\n")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert done.err.startswith(f"soleur: Not saved: {disk}/sessions/")
    assert "No space left on device; free some disk space" in done.err
    assert [path.name for path in disk.rglob("*") if path.is_file()] == [BALLAST]
    assert wire_server.requests == []
    make_room(disk)
    assert soleur.run("--fresh", stdin="one\n").code == 0
    assert soleur.said() == [("user", "one"), ("assistant", "First.")]


def test_sol_03_sol_12_an_answer_that_meets_a_full_disk_is_saved_when_there_is_space(
    soleur, wire_server, disk
):
    """With its decision, at the latest when its user leaves; and then all is well."""

    def answer():
        fill(disk)
        yield from events(said(f"Second. [DECISION: We go.] {'Why? ' * 1000}"))()

    soleur.answers(wire_server, "First.", answer)
    with soleur.piped("--fresh") as talk:
        talk.say("one")
        talk.until("First.")
        talk.say("two")
        talk.until(lambda: "No space left on device" in talk.err)
        until_asked(talk)
        assert [text for _, text in soleur.said()] == ["one", "First.", "two"]
        assert "Decided: " not in talk.err
        make_room(disk)
        assert talk.leave() == 0
    assert [text.split(" [")[0] for _, text in soleur.said()] == ["one", "First.", "two", "Second."]
    assert decided(soleur) == in_ledger(soleur) == ["We go."]
    assert [path.name for path in disk.rglob("*.tmp")] == []


def test_g_5_a_home_that_is_moved_away_during_a_talk_is_told_and_no_session_is_named(soleur, wire_server):
    """1, and no traceback: there is none to resume. All that was saved is where it was moved to."""
    place, moved = soleur.home / ".soleur", soleur.home / "moved"

    def answer():
        place.rename(moved)
        yield from events(said("Second."))()

    soleur.answers(wire_server, "First.", answer)
    with soleur.piped("--fresh") as talk:
        talk.say("one")
        talk.until("First.")
        path = soleur.files[0]
        talk.say("two", "/decide We go.")
        talk.until("Second.")
        assert talk.leave() == 1
    assert "Traceback" not in talk.err
    assert "what is shown above and not saved is lost" in talk.err.splitlines()[-1]
    assert path.stem not in talk.out
    assert not place.exists()
    messages = document(moved / "sessions" / path.name)["messages"]
    assert [each["content"] for each in messages] == ["one", "First.", "two"]


def test_sol_06_g_5_sessions_that_cannot_be_looked_for_are_not_said_to_be_none(soleur):
    """1, and the cause."""
    place = soleur.home / ".soleur" / "sessions"
    place.parent.mkdir()
    place.write_text("")
    for words in (["sessions"], ["sessions", "--json"]):
        assert soleur.within(*words) == (1, "", f"soleur: Cannot read {place}: Not a directory\n")


def test_sol_12_a_ledger_that_cannot_be_written_is_told_and_gets_all_of_it_when_it_can(soleur, wire_server):
    """The session has each decision all the same. It is tried again with the next one, and at the end."""
    ledger(soleur).mkdir(parents=True)
    soleur.answers(wire_server, "[DECISION: One.] Why?", "Hm.", "[DECISION: Three.] Why?", "Hm.")
    with soleur.piped("--fresh") as talk:
        talk.say("a", "/decide Two.", "b", "/decisions")
        talk.until("Two.")
        assert decided(soleur) == ["One.", "Two."]
        (told,) = re.findall(r"^Not in the ledger: (.*)$", talk.err, re.MULTILINE)  # once
        assert told.startswith(f"{ledger(soleur)}: ")
        assert told.endswith("; the session has it")
        ledger(soleur).rmdir()
        talk.say("c")
        talk.until(lambda: "Decided: Three." in talk.err)
        talk.until(lambda: in_ledger(soleur) == ["One.", "Two.", "Three."])
        until_asked(talk)
        ledger(soleur).unlink()
        ledger(soleur).mkdir()
        talk.say("/decide Four.", "d")
        talk.until(lambda: talk.err.count("Not in the ledger") == 2)
        ledger(soleur).rmdir()
        assert talk.leave() == 0
    assert talk.err.count("Not in the ledger") == 2
    everything = ["One.", "Two.", "Three.", "Four."]
    assert decided(soleur) == in_ledger(soleur) == everything  # a file that is gone is nobody's edit
    assert [each["content"] for each in json.loads(soleur.run("decisions", "--json").out)] == everything


def test_sol_12_what_the_ledger_refused_comes_there_when_the_session_is_opened_again(soleur, wire_server):
    """Whatever was said since, and whatever is there meanwhile."""
    ledger(soleur).mkdir(parents=True)
    soleur.answers(wire_server, "Hm.")
    assert soleur.run("--fresh", stdin="Hello\n/decide From A.\nAnd more\n").code == 0
    (first,) = soleur.files
    ledger(soleur).rmdir()
    ledger(soleur).write_text(f"# Ours\n<!-- project root: {soleur.project} -->\n- By hand.\n")
    soleur.run("--fresh", stdin="/decide From B.\nHello\n")
    assert in_ledger(soleur) == ["- By hand.", "From B."]
    rows = json.loads(soleur.run("decisions", "--json").out)
    assert [each["content"] for each in rows] == ["By hand.", "From B.", "From A."]
    soleur.run("load", first.stem, stdin="/quit\n")
    assert in_ledger(soleur) == ["- By hand.", "From B.", "From A."]


def test_sol_12_a_ledger_that_is_gone_is_made_anew_from_what_the_sessions_decided(soleur, wire_server):
    """With the next decision, of any session: nobody's edit is to delete everything."""
    soleur.answers(wire_server, "Hm.")
    soleur.run("--fresh", stdin="/decide From A.\nHello\n")
    ledger(soleur).unlink()
    soleur.run("--fresh", stdin="/decide From B.\nHello\n")
    assert in_ledger(soleur) == ["From A.", "From B."]


def test_sol_12_a_decision_in_an_answer_outlives_a_file_that_others_changed(soleur, wire_server):
    """The answer waits, and comes behind what they wrote; its decision is told, filed and there once."""
    mark = "[DECISION: We go.] Why now?"

    def answer():
        path = soleur.files[0]
        path.write_text(path.read_text().replace("Shall we?", "Shall we not?"))
        yield from events(said(mark))()

    soleur.answers(wire_server, answer, events(said(mark)))
    with soleur.piped("--fresh") as talk:
        talk.say("Shall we?", "Once more.")
        talk.until(lambda: len(wire_server.requests) == 2)
        talk.until(lambda: talk.out.count("Why now?") == 2)
        talk.say("/decisions")
        assert talk.leave() == 0
    assert decided(soleur) == in_ledger(soleur) == ["We go."]
    assert talk.err.count("Decided: We go.") == 1
    assert "We go." in talk.out.rpartition("DECISION\n")[2]


def test_g_5_a_message_that_others_were_quicker_than_is_told_and_the_exit_code_is_1(soleur, wire_server):
    """It is not said; what comes after it is. A lock that somebody removed is no reason to say that."""
    soleur.answers(wire_server, "Hm.")
    with soleur.piped("--fresh") as talk:
        talk.say("Shall we?")
        talk.until("Hm.")
        until_asked(talk)
        (path,) = soleur.files
        path.write_text(path.read_text().replace("Shall we?", "Shall we not?"))
        talk.say("Not taken.")
        talk.until(lambda: "was replaced while in use; what was saved is kept in " in talk.err)
        talk.say("And now?")
        talk.until(lambda: talk.out.count("Hm.") == 2)
        until_asked(talk)
        assert talk.leave() == 1
    assert [text for _, text in soleur.said()] == ["Shall we not?", "Hm.", "And now?", "Hm."]
    with soleur.piped("load", path.stem) as talk:
        talk.say("More.")
        talk.until(lambda: talk.out.count("Hm.") == 2)
        until_asked(talk)
        next((soleur.home / ".soleur" / "locks").glob("*.lock")).unlink()
        assert (talk.leave(), talk.err.count("Not saved")) == (0, 0)


# --- others ---------------------------------------------------------------------------------------------


def test_g_5_a_session_that_another_process_talks_in_is_not_opened(soleur, wire_server):
    """4, and who has it; in a conversation the same is said, and it goes on. All can be listed."""
    soleur.answers(wire_server, "ok")
    with soleur.piped("--fresh") as talk:
        talk.say("/decide Go.", "hello")
        talk.until("ok")
        id = soleur.files[0].stem
        before = soleur.files[0].read_bytes()
        says = f"soleur: Session {id} is held by process {talk.process.pid}; "
        assert "Resume last session?" not in soleur.run(stdin="").out  # it cannot be
        for words in (["load", id], ["spar", "-s", id[:8]]):
            done = soleur.run(*words, stdin="x\n")
            assert (done.code, done.err.count("\n")) == (4, 1)
            assert done.err.startswith(says)
        assert soleur.files[0].read_bytes() == before
        assert id in soleur.run("sessions").out
        assert "Go." in soleur.run("decisions").out
        done = soleur.run("--fresh", stdin=f"/load {id}\nstill here\n")
        assert (done.code, says in done.err) == (0, True)
        assert soleur.said() == [("user", "still here"), ("assistant", "ok")]
        assert talk.leave() == 0


def test_sol_12_sessions_of_one_project_that_decide_at_once_have_each_in_the_ledger_once(soleur, wire_server):
    """What only one decided, and what all did."""
    soleur.answers(wire_server, "ok")
    names = ("a", "b", "c")

    def decide(name: str) -> None:
        lines = (f"/decide {name} {number}\n/decide All: {number}\n" for number in range(15))
        assert soleur.run("--fresh", stdin="".join(lines)).code == 0

    threads = [threading.Thread(target=decide, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = Counter(in_ledger(soleur))
    wanted = [*(f"{name} {at}" for name in names for at in range(15)), *(f"All: {at}" for at in range(15))]
    assert counts == Counter(wanted)
    assert [len(document(path)["decisions"]) for path in soleur.files] == [30, 30, 30]
    for name in names:
        mine = [line for line in in_ledger(soleur) if line.startswith(f"{name} ")]
        assert mine == [f"{name} {at}" for at in range(15)]
