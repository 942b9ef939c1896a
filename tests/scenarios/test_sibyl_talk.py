"""sibyl, driven from outside: its commands, every way in and out, and what it must not have. After each test
a Lisp reads what is on disk."""

import json
import os
import re
import signal
import sys
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from perdure.front.shell import Shell
from perdure.programs.pi import main as pi_main
from perdure.programs.sibyl.talk import Sibyl
from perdure.programs.sibyl.talk import saved as offered
from tests.agent.models.wire_server import HANG, READ, events, wire_server
from tests.front.one_prompt import HALF, HALF_A_LINE, Pi, called, until
from tests.front.piped import Piped
from tests.moments import next_moment
from tests.needs import needs_tool
from tests.programs.sibyl_talks import (
    FORBIDDEN,
    corrupt,
    count,
    damaged,
    ended,
    field,
    file_of,
    gate,
    id_in,
    ids_in,
    lisp,
    move,
    saved,
    script,
    texts,
)
from tests.programs.started import prompts_of, sibyl, system_of

__all__ = ["damaged", "gate", "lisp", "sibyl", "wire_server"]
pytestmark = [pytest.mark.process, needs_tool("sbcl")]


# --- /sessions, /save, /load ----------------------------------------------------------------------------


def test_sib_09_the_list_has_id_date_and_messages_the_last_saved_first(sibyl, wire_server, home, damaged):
    """Each id can be loaded. A damaged one is named apart; one in which nothing was said is not there."""
    sibyl.answers(wire_server, "Hm.")
    with sibyl.piped() as talk:
        talk.say("/sessions")
        talk.until("sibyl[1]> ")
        assert "\nNo saved sessions.\n" in talk.out
        saved("one", "two", "three", id="session-A")
        broken = corrupt(home, damaged, saved("gone", id="session-B"))
        talk.say("hello", "/sessions")
        talk.until("sibyl[3]> ")
        head, first, second = talk.out.splitlines()[-4:-1]
        assert head.split() == ["ID", "DATE", "MESSAGES"]
        assert re.fullmatch(rf"{id_in(talk.out)} \(current\) +\d{{4}}-\d\d-\d\d \d\d:\d\d +2", first)
        assert re.fullmatch(r"session-A +\d{4}-\d\d-\d\d \d\d:\d\d +3", second)
        talk.until(lambda: "1 session damaged; `pi sessions doctor` says more.\n" in talk.err)
        assert f"Damaged: session-B: {broken} line " in talk.err
        talk.say("/load session-A")
        talk.until("Loaded session: session-A (3 messages)\n")
        assert talk.leave() == 0


def test_sib_09_g_4_what_can_be_loaded_is_in_the_list_and_what_is_in_it_can_be_loaded(
    sibyl, wire_server, home, damaged
):
    """Also a session in which only a command was run, and one in a folder that somebody called as they like.
    What is corrupt is named beside them."""
    sibyl.answers(wire_server, "Hm.")
    for id in ("session-A", "session-B"):
        saved("one", "two", id=id)
    move(home, damaged, "session-A", "my talk's")
    corrupt(home, damaged, "session-B")
    with sibyl.piped() as talk:
        talk.say("!echo zebra", "/load my talk's", "/sessions")
        talk.until("Loaded session: my talk's (2 messages)\n")
        talk.until(lambda: "1 session damaged; " in talk.err)
        talk.until(lambda: talk.out.endswith("sibyl[1]> "))
        ran, _ = ids_in(talk.out)
        rows = re.findall(r"^(\S.*?)  +\d{4}-\d\d-\d\d \d\d:\d\d +(\d)$", talk.out, re.MULTILINE)
        assert rows == [(ran, "0"), ("my talk's (current)", "2")]
        assert re.findall(r"^Damaged: (session-.*?): ", talk.err, re.MULTILINE) == ["session-B"]
        talk.say(f"/load {ran}")
        talk.until(f"Loaded session: {ran} (0 messages)\n")
        assert talk.leave() == 0


def test_sib_09_a_hundred_broken_sessions_of_a_thousand_hide_no_other(sibyl, home, damaged):
    """900 are listed, 100 are named, and none is changed."""
    sound = file_of(home, saved("one", "two", id="session-0000")).read_bytes()
    paths = [file_of(home, f"session-{number:04}") for number in range(1000)]
    for number, path in enumerate(paths):
        path.parent.mkdir(exist_ok=True)
        data = sound.replace(b"session-0000", path.parent.name.encode())
        path.write_bytes(data[: -number - 1] if number % 10 == 3 else data)
    before = {path: path.read_bytes() for path in paths}
    damaged |= {path: data for path, data in before.items() if not data.endswith(b"\n)\n")}
    done = sibyl.run(stdin="/sessions\n")
    listed = re.findall(r"^(session-\d{4}) .* 2$", done.out, re.MULTILINE)
    named = re.findall(r"^Damaged: (session-\d{4}): ", done.err, re.MULTILINE)
    assert (done.code, len(listed), len(named), len({*listed, *named})) == (0, 900, 100, 1000)
    assert {file_of(home, id) for id in named} == damaged.keys()
    assert {path: path.read_bytes() for path in paths} == before


@pytest.mark.parametrize("damage", [None, b"(:session-index (:entry", b"(1 2)"])
def test_sib_08_the_list_is_right_whatever_became_of_the_index(sibyl, home, lisp, damage):
    """Which is whole again then."""
    saved("one", "two", id="session-A")
    saved("three", id="session-B")
    index = home / ".sibyl" / "sessions" / "index.lisp"
    index.unlink() if damage is None else index.write_bytes(damage)
    done = sibyl.run(stdin="/sessions\n")
    rows = re.findall(r"^(session-[AB]) .* (\d)$", done.out, re.MULTILINE)
    assert (done.code, rows) == (0, [("session-B", "1"), ("session-A", "2")])
    assert sorted(lisp(index)) == [["session-A", 2], ["session-B", 1]]


def test_sib_10_save_confirms_with_the_id_and_all_is_in_the_file(sibyl, wire_server, home):
    """The count of the commands, too. What is empty is not saved, and that is said."""
    sibyl.answers(wire_server, "Hm.")
    with sibyl.piped() as talk:
        talk.say("/save")
        talk.until("sibyl[1]> ")
        id = id_in(talk.out)
        talk.until(lambda: talk.err == "sibyl: There is nothing to save yet; say something first\n")
        talk.say("hello", "/help", "/save")
        talk.until(f"\nSession saved: {id}\nsibyl[4]> ")
        assert (texts(id), count(file_of(home, id))) == (["hello", "Hm."], 4)
        assert talk.leave() == 0


def test_sib_11_load_saves_the_current_session_and_goes_on_with_another(sibyl, wire_server, home):
    """By its id, or any beginning of it. The model is sent what was said there, what is said next comes
    there, and the way back is said."""
    saved("the zebra", "It has stripes.", id="session-A")
    sibyl.answers(wire_server, "Hm.")
    with sibyl.piped() as talk:
        talk.say("hello", "/help")
        talk.until("sibyl[2]> ")
        first = id_in(talk.out)
        assert count(file_of(home, first)) == 1
        talk.say("/load session-A")
        talk.until("> the zebra\nIt has stripes.\nLoaded session: session-A (2 messages)\nsibyl[0]> ")
        assert (texts(first), count(file_of(home, first))) == (["hello", "Hm."], 3)
        talk.until(lambda: f"Left {first}; /load {first} goes back.\n" in talk.err)
        talk.say("And a giraffe?", f"/load {first[:-2]}", "again")
        talk.until(f"Loaded session: {first} (2 messages)\nsibyl[3]> ")
        assert talk.leave() == 0
    assert talk.out.endswith(f"sibyl[4]> \n{ended(first)}")
    assert [text for _, text in prompts_of(wire_server, 1)] == [
        *("the zebra", "It has stripes.", "And a giraffe?")
    ]
    assert prompts_of(wire_server) == [("user", "hello"), ("assistant", "Hm."), ("user", "again")]
    assert texts("session-A") == ["the zebra", "It has stripes.", "And a giraffe?", "Hm."]


def test_sib_07_sib_11_what_cannot_be_loaded_is_told_and_the_conversation_goes_on(
    sibyl, wire_server, home, damaged
):
    """Missing, corrupt, ambiguous, no id at all, a path, this one itself; and one for which there is no model
    any more. Nothing changes."""
    for id in ("session-A1", "session-A2", "broken"):
        saved("one", "two", id=id)
    corrupt(home, damaged, "broken")
    others = {path: path.read_bytes() for path in home.rglob("session.lisp")}
    sibyl.answers(wire_server, "Hm.")
    with sibyl.piped() as talk:
        talk.say("hello")
        talk.until("sibyl[1]> ")
        id = id_in(talk.out)
        names = ["", "zzz", "session-A", "broken", "../sessions/session-A1", id]
        talk.say(*(f"/load {name}" for name in names))
        talk.until("sibyl[7]> ")
        sibyl.use(wire_server, default_model="nosuch")
        talk.say("/load session-A1", "still there?")
        talk.until("sibyl[9]> ")
        assert talk.leave() == 0
    assert "\nUsage: /load <session-id>\nsibyl[2]> " in talk.out
    assert "Loaded session" not in talk.out
    missing, ambiguous, first, second, unreadable, path, same, no_model = talk.err.splitlines()
    assert missing.startswith("sibyl: Session not found: zzz; ")
    assert ambiguous == "sibyl: 2 sessions match 'session-A':"
    assert (first, second) == ("  session-A1", "  session-A2")
    assert unreadable.startswith(f"sibyl: Cannot read {file_of(home, 'broken')}: line ")
    assert path.startswith("sibyl: Session not found: ../sessions/session-A1; ")
    assert same == "That is this session."
    assert "nosuch" in no_model
    assert [text for _, text in prompts_of(wire_server)] == ["hello", "Hm.", "still there?"]
    assert (texts(id)[2:], count(file_of(home, id))) == (["still there?", "Hm."], 9)
    assert {path: path.read_bytes() for path in others} == others


def test_sib_04_whatever_is_said_lisp_reads_it_and_it_comes_back(sibyl, wire_server):
    """What would be code, a comment, the end of a string or of a list; by its user and by the model."""
    hostile = [
        '"',
        "\\",
        '\\"',
        "#.(run)",
        "(",
        "))",
        "; x",
        "#|",
        "|x|",
        "nil",
        "é漢\u2028",
        "\0",
        "\x1b[31m",
    ]
    sibyl.answers(wire_server, *hostile)
    done = sibyl.run(stdin="".join(f"{text}\n" for text in hostile))
    assert (done.code, done.err) == (0, "")
    assert texts(id_in(done.out)) == [text for text in hostile for _ in range(2)]
    assert "\x1b" not in done.out
    sibyl.answers(wire_server, "Hm.")
    sibyl.run("--session-id", id_in(done.out), stdin="so?\n")
    assert [text for _, text in prompts_of(wire_server)][::2] == [*hostile, "so?"]


# --- /reset ---------------------------------------------------------------------------------------------


def test_sib_12_reset_begins_anew_and_nothing_is_lost(sibyl, wire_server, home):
    """In the same session: all messages are in the file, and none of before is sent. So it is after kill -9,
    and after a resume, as often as it is done."""
    sibyl.answers(wire_server, "Hm.")
    with sibyl.piped() as talk:
        talk.say("/reset", "one", "two", "/reset")
        talk.until("sibyl[4]> ")
        id = id_in(talk.out)
        path = file_of(home, id)
        assert f"\nSession saved before reset: {id}\n" in talk.out
        talk.until(lambda: talk.err.startswith("sibyl: There is nothing to reset yet; say something first\n"))
        assert (field(path, "message-count"), field(path, "context-start")) == ("4", "4")
        talk.process.kill()
    done = sibyl.run("--session-id", id, stdin="three\n/reset\n/reset\n")
    assert f"\nLoaded session: {id} (4 messages, none since the reset)\n" in done.out
    assert "> two" not in done.out
    assert prompts_of(wire_server) == [("user", "three")]
    assert done.out.count(f"Session saved before reset: {id}\n") == 2
    assert (field(path, "message-count"), field(path, "context-start")) == ("6", "6")
    sibyl.run("--session-id", id, stdin="four\n")
    sibyl.run("--session-id", id, stdin="five\n")
    assert prompts_of(wire_server) == [("user", "four"), ("assistant", "Hm."), ("user", "five")]
    lines = ["one", "two", "three", "four", "five"]
    assert texts(id) == [text for line in lines for text in (line, "Hm.")]
    assert (field(path, "message-count"), field(path, "context-start")) == ("10", "6")


# --- which session --------------------------------------------------------------------------------------


def test_sib_13_a_session_is_resumed_by_the_beginning_of_its_id(sibyl, wire_server):
    """The banner has its id, and the last exchange is shown. Who leaves without a word changes nothing."""
    sibyl.answers(wire_server, "Hm.")
    saved("the zebra", "It has stripes.", id="session-A")
    (path,) = sibyl.files
    before = path.read_bytes()
    done = sibyl.run("--session-id", "session-", stdin="")
    lines = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert lines[:3] == ["Session: session-A", "> the zebra", "It has stripes."]
    last = f"Loaded session: session-A (2 messages)\nsibyl[0]> \n{ended('session-A')}"
    assert done.out.endswith(last)
    assert path.read_bytes() == before
    assert sibyl.run("--session-id", "sibyl:session-A", stdin="And?\n").code == 0
    assert [text for _, text in prompts_of(wire_server)] == ["the zebra", "It has stripes.", "And?"]
    assert len(sibyl.files) == 1


@pytest.mark.parametrize("wrong", ["missing", "corrupt", "a path"])
def test_sib_07_sib_13_one_that_cannot_be_is_a_warning_and_a_new_session(
    sibyl, wire_server, home, damaged, wrong
):
    """Under an id of its own. What was named is never written, nor anything beside it."""
    sibyl.answers(wire_server, "Hm.")
    named = {"missing": "session-B", "corrupt": "session-A", "a path": "../sessions/session-A"}[wrong]
    path = file_of(home, saved("one", "two", id="session-A"))
    if wrong == "corrupt":
        corrupt(home, damaged, named)
    before = path.read_bytes()
    done = sibyl.run("--session-id", named, stdin="hello\n")
    new = id_in(done.out)
    assert done.code == 0
    assert done.err.count("\n") == 1
    assert done.err.endswith(". This is a new session instead.\n")
    cause = f"Cannot read {path}: line " if wrong == "corrupt" else f"Session not found: {named}; "
    assert done.err.startswith(cause)
    assert ("`pi sessions doctor --repair sibyl:" in done.err) == (wrong == "corrupt")
    assert done.out.endswith(ended(new))
    assert (texts(new), prompts_of(wire_server)) == (["hello", "Hm."], [("user", "hello")])
    assert {each.parent.name for each in sibyl.files} == {"session-A", new}
    assert (path.read_bytes(), [each.name for each in path.parent.iterdir()]) == (before, ["session.lisp"])


def test_sib_13_a_session_of_a_later_version_is_refused_by_its_version_and_never_written(
    sibyl, wire_server, home, capsys
):
    """As an argument it is a warning and a new session; behind `/load` an error. It is called no damaged one,
    and is listed like any other; `pi sessions doctor` says that it can only be read."""
    sibyl.answers(wire_server, "Hm.")
    path = file_of(home, saved("one", "two", id="session-A"))
    later = path.read_bytes().replace(b"(:session-version 1)", b"(:session-version 2)")
    path.write_bytes(later)
    done = sibyl.run("--session-id", "session-A", stdin="hello\n/load session-A\n/sessions\n")
    new = id_in(done.out)
    warning, refusal = done.err.splitlines()
    for each in (warning, refusal):
        assert f"{path} is in version 2 of its format, and this program writes version 1" in each
    assert warning.endswith("This is a new session instead.")
    assert "damaged" not in done.err.lower()
    assert texts(new) == ["hello", "Hm."]
    assert re.search(r"^session-A .* 2$", done.out, re.MULTILINE)
    assert pi_main(["sessions", "doctor", "--repair", "sibyl:session-A"]) == 0
    told = capsys.readouterr().out
    assert f"{path} is in version 2 of its format" in told
    assert told.endswith("Looked at 1 session: 1 can only be read.\n")
    assert (path.read_bytes(), [each.name for each in path.parent.iterdir()]) == (later, ["session.lisp"])


def test_sib_04_g_2_a_ratio_in_a_field_nobody_knows_is_kept_byte_for_byte(sibyl, wire_server, home):
    """Of the session, of a message, and among a call's arguments: it is a number to Lisp, and stays one."""
    sibyl.answers(wire_server, "Hm.")
    path = file_of(home, saved("one", "two", id="session-A"))
    calls = '((:id "c" :name "f" :arguments (("n" . 22/7))))'
    message = f"(:role :assistant :content nil :tempo -3/4 :tool-calls {calls})"
    text = path.read_text().replace("\n )\n", f"\n{message}\n )\n", 1)
    text = text.replace(":message-count 2", ":message-count 3")
    path.write_text(text.replace(":command-count", ":tempo 1/2\n :command-count"))
    done = sibyl.run("--session-id", "session-A", stdin="hello\n")
    assert (done.code, done.err) == (0, "")
    assert texts("session-A")[-2:] == ["hello", "Hm."]
    after = path.read_text()
    assert "\n :tempo 1/2\n" in after
    assert message[:-1] in after


def test_sib_01_a_number_that_no_float_holds_is_kept_and_sent_as_the_model_wrote_it(
    sibyl, wire_server, home, lisp
):
    """`1e400` is a number in JSON and none in Lisp, which reads its text."""
    call = called(("c", "read", {"path": "x", "n": float("inf")})).replace(b"Infinity", b"-1e400")
    sibyl.answers(wire_server, events(call), "Hm.")
    done = sibyl.run(stdin="hello\n")
    path = file_of(home, id_in(done.out))
    assert '("n" :json "-1e400")' in path.read_text()
    assert lisp(path)[0] == id_in(done.out)
    resumed = sibyl.run("--session-id", id_in(done.out), stdin="and?\n")
    assert resumed.code == 0
    for request in wire_server.requests[1:]:
        (sent,) = [each for each in request.body["messages"] if each.get("tool_calls")]
        assert sent["tool_calls"][0]["function"]["arguments"] == '{"path":"x","n":-1e400}'
    assert len(wire_server.requests) == 3


def test_sib_09_the_list_and_that_of_all_programs_count_the_same(sibyl, wire_server, home, capsys):
    """What `:message-count` says: the messages of the conversation, and not what a command printed or what
    another program keeps between them."""
    sibyl.answers(wire_server, "Hm.")
    done = sibyl.run(stdin="hello\n!echo zebra\nand?\n/reset\n/sessions\n")
    (ours,) = re.findall(r"^session-\S+ \(current\) .* (\d+)$", done.out, re.MULTILINE)
    assert pi_main(["sessions", "ls", "--all", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    written = field(file_of(home, id_in(done.out)), "message-count")
    assert ours == str(row["messages"]) == written == "4"


def test_sib_11_the_newest_is_offered_first_behind_load(sibyl, home):
    """Of all that begin like what was typed."""
    for id in ("session-B", "session-A", "other", "session-C"):
        saved("one", id=id)
        next_moment()
    profile = Sibyl(SimpleNamespace(model="", session_id=None, auto_save_interval=0))
    shell = cast(Shell, SimpleNamespace(profile=profile))
    assert [*offered(shell, "session-")] == ["session-C", "session-A", "session-B"]


def test_g_4_an_ambiguous_id_lists_the_candidates_and_is_3(sibyl):
    """And no session is begun."""
    saved("one", id="session-A1")
    saved("two", id="session-A2")
    told = "sibyl: 2 sessions match 'session-A':\n  session-A1\n  session-A2\n"
    assert sibyl.run("--session-id", "session-A", stdin="hello\n") == (3, "", told)
    assert len(sibyl.files) == 2


# --- every way out --------------------------------------------------------------------------------------


def quit(talk: Piped) -> None:
    talk.say("/quit")


def end_input(talk: Piped) -> None:
    assert talk.process.stdin is not None
    talk.process.stdin.close()


def interrupt_twice(talk: Piped) -> None:
    talk.process.send_signal(signal.SIGINT)
    talk.until(lambda: "Ctrl+C again leaves" in talk.err)
    talk.process.send_signal(signal.SIGINT)


def terminate(talk: Piped) -> None:
    talk.process.send_signal(signal.SIGTERM)


def hang_up(talk: Piped) -> None:
    talk.process.send_signal(signal.SIGHUP)


WAYS = [(quit, 0), (end_input, 0), (interrupt_twice, 130), (terminate, 143), (hang_up, 129)]


@pytest.mark.parametrize(("leave", "code"), WAYS)
@pytest.mark.parametrize("is_said", [True, False], ids=["said", "nothing said"])
def test_sib_14_g_7_every_way_out_saves_and_says_how_to_go_on(sibyl, wire_server, home, leave, code, is_said):
    """With the count of the commands. Where nothing was said, there is no file, and no such line."""
    sibyl.answers(wire_server, "Hm.")
    with sibyl.piped() as talk:
        talk.say("hello" if is_said else "/nope", "/help")
        talk.until("sibyl[2]> ")
        leave(talk)
        assert talk.wait() == code
    id = id_in(talk.out)
    assert "Traceback" not in talk.err
    if is_said:
        assert talk.out.endswith(f"sibyl[2]> \n{ended(id)}")
        assert talk.out.count("Session saved") == 1
        assert (texts(id), count(file_of(home, id))) == (["hello", "Hm."], 2 + (leave is quit))
    else:
        assert talk.out.endswith("sibyl[2]> \n")
        assert (sibyl.files, [*(home / ".sibyl" / "sessions").glob("*/")]) == ([], [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sib_14_a_signal_in_the_middle_of_a_reply_keeps_what_arrived(sibyl, wire_server, number):
    """And nothing else is said of it than that it was interrupted."""
    sibyl.answers(wire_server, "Hm.", events(HALF_A_LINE, READ, HANG))
    with sibyl.piped() as talk:
        talk.say("hello", "more")
        talk.until(lambda: wire_server.reads)
        talk.process.send_signal(number)
        assert talk.wait() == 128 + number
    id = id_in(talk.out)
    assert talk.out.endswith(f"half an answer\n{ended(id)}")
    assert (talk.err, texts(id)) == ("Interrupted\n", ["hello", "Hm.", "more", "half an answer\n"])


def test_sib_14_the_timer_is_stopped_before_the_last_save_which_is_one(sibyl, wire_server):
    """As a script sees it that looks at both."""
    sibyl.answers(wire_server, "Hm.")
    code = """
from perdure.front.autosave import Timer
from perdure.session.stores import files

seen, stop, replace = [], Timer.stop, files.replace

def stopped(self, *given):
    is_ended = stop(self, *given)
    seen.append(f"stopped {is_ended}")
    return is_ended

def replaced(root, relative, *given, **named):
    replace(root, relative, *given, **named)
    if relative.endswith("session.lisp"):
        seen.append("saved")

Timer.stop, files.replace = stopped, replaced
print(start_repl(), seen)
"""
    with script(sibyl, code) as talk:
        talk.say("hello", "/quit")
        assert talk.wait() == 0
    assert talk.out.splitlines()[-1] == "0 ['saved', 'saved', 'stopped True', 'saved']"


def test_sib_14_g_7_the_printed_command_resumes_the_session(sibyl, wire_server, monkeypatch, home, damaged):
    """Copied into a shell, also where somebody named the session as they like."""
    monkeypatch.setenv("PATH", os.pathsep.join([os.path.dirname(sibyl.command[0]), os.environ["PATH"]]))
    sibyl.answers(wire_server, "Hm.")
    done = sibyl.run(stdin="one\n")
    move(home, damaged, id_in(done.out), "$(my) talk's")
    sibyl.run("--session-id", "$(my) talk's", stdin="two\n")
    command = "sibyl --session-id '$(my) talk'\"'\"'s'"
    sibyl.command = ["sh", "-c", command]
    done = sibyl.run(stdin="three\n")
    assert done.out.endswith(f"Session saved: $(my) talk's\nResume with: {command}\n")
    assert "Loaded session: $(my) talk's (4 messages)\n" in done.out
    assert field(sibyl.files[0], "message-count") == "6"


# --- from Python ----------------------------------------------------------------------------------------


def test_sib_18_start_repl_talks_until_its_user_leaves(sibyl, wire_server, home):
    """With the model, the directory and the prompt that it is given; what it prints last resumes it."""
    models = [{"id": id, "base_url": f"{wire_server.url}/v1"} for id in ("test", "other")]
    sibyl.answers(wire_server, "Hm.", models=models)
    code = """
code = start_repl(model="other", directory="mine", system_prompt="You are an oracle.", auto_save_interval=60)
print(code, [row["message_count"] for row in list_sessions(directory="mine")], list_sessions())
"""
    with script(sibyl, code) as talk:
        talk.say("hello", "/sessions")
        talk.until("sibyl[2]> ")
        assert talk.leave() == 0
    id, folder = id_in(talk.out), str(sibyl.project / "mine")
    last, resume, returned = talk.out.splitlines()[-3:]
    assert (last, returned) == (f"Session saved: {id}", "0 [2] []")
    assert resume == f"Resume with: start_repl(session_id={id!r}, directory={folder!r})"
    assert wire_server.requests[0].body["model"] == "other"
    assert system_of(wire_server).startswith("You are an oracle.")
    with script(sibyl, f"raise SystemExit({resume.removeprefix('Resume with: ')})") as talk:
        talk.say("again")
        talk.until("sibyl[3]> ")
        talk.process.send_signal(signal.SIGTERM)
        assert talk.wait() == 143
    assert f"Loaded session: {id} (2 messages)\n" in talk.out
    assert [text for _, text in prompts_of(wire_server)] == ["hello", "Hm.", "again"]
    assert not (home / ".sibyl").exists()


def test_sib_18_what_start_repl_cannot_do_it_raises_and_nothing_goes_on_behind_it(sibyl, wire_server):
    """A session that is held, a model that there is not. In a thread that is not the main one it talks as
    ever."""
    sibyl.answers(wire_server, "Hm.")
    saved("one", "two", id="session-A")
    code = """
import threading
from perdure.errors import Held, ModelError
from perdure.session.stores import open_store

store = open_store("sibyl")
with store.writer(next(iter(store.list()))):
    for error, given in ((Held, {"session_id": "session-A"}), (ModelError, {"model": "nosuch"})):
        try:
            start_repl(auto_save_interval=0.01, **given)
        except error:
            print("raised", [thread.name for thread in threading.enumerate() if "save" in thread.name])
talking = threading.Thread(target=lambda: print("left", start_repl(session_id="session-A")))
talking.start()
talking.join()
"""
    with script(sibyl, code) as talk:
        talk.say("hello", "/sessions")
        talk.until("sibyl[2]> ")
        assert talk.leave() == 0
    assert (talk.err, talk.out.count("raised []\n")) == ("", 2)
    assert talk.out.endswith(f"{ended('session-A')}left 0\n")
    assert (texts("session-A"), len(sibyl.files)) == (["one", "two", "hello", "Hm."], 1)


# --- what is sent ---------------------------------------------------------------------------------------


def test_the_agent_is_told_what_pis_is_and_has_the_same_tools(sibyl, wire_server):
    """In the same directory, the project's own instructions among it."""
    sibyl.answers(wire_server, "Hm.")
    (sibyl.project / "AGENTS.md").write_text("Always mention gnus.")
    assert sibyl.run(stdin="hello\n").code == 0
    assert Pi(sibyl.home, sibyl.project)("-p", "hello").returncode == 0
    one, other = (request.body for request in wire_server.requests)
    assert (system_of(wire_server, 0), one["tools"]) == (system_of(wire_server, 1), other["tools"])
    assert "gnus" in system_of(wire_server)
    assert {"read", "bash"} <= {tool["function"]["name"] for tool in one["tools"]}


# --- what there must not be -----------------------------------------------------------------------------

OTHERS = "name export search delete tags compact resume tree fork new session expand rename merge diff"


def test_sib_19_there_are_seven_commands_and_no_other(sibyl, wire_server):
    """Whatever is installed: any other is refused, and does nothing."""
    sibyl.answers(wire_server, "Hm.")
    templates = sibyl.home / ".pi" / "agent" / "prompts"
    templates.mkdir()
    (templates / "mine.md").write_text("Say hello.")
    names = [*OTHERS.split(), "mine", "skill:x"]
    done = sibyl.run(stdin="".join(f"/{name} x\n" for name in names) + "/help\n")
    listed = re.findall(r"^/(\S+)", done.out, re.MULTILINE)
    assert listed == ["help", "load", "model", "quit", "reset", "save", "sessions"]
    refused = re.findall(r"^sibyl: There is no command /(\w+(?::\w+)?)", done.err, re.MULTILINE)
    assert (done.code, refused) == (0, names)
    assert (wire_server.requests, sibyl.files) == ([], [])


def test_sib_19_the_program_takes_no_other_options(sibyl):
    done = sibyl.run("--help")
    options = {*re.findall(r"(?<![\w-])--?[a-z][a-z-]*", done.out)}
    assert options == {"--session-id", "--auto-save-interval", "-m", "--model", "-h", "--help", "--version"}


def test_sib_19_nothing_that_is_written_has_a_model_a_price_a_list_of_tools_a_thought_or_a_prompt(
    sibyl, wire_server, home
):
    """After a talk with all of it. What tools were called with, and returned, is there."""
    chunks: list[Any] = [
        {"choices": [{"index": 0, "delta": {"reasoning_content": "pondering quietly"}}]},
        {"choices": [{"index": 0, "delta": {"content": "Stripes, " * 100}}]},
        {"model": "okapi-9000", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 987001, "completion_tokens": 987002}},
    ]
    thought = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks)
    model = {"id": "okapi-9000", "base_url": f"{wire_server.url}/v1", "context_window": 8000}
    (sibyl.project / "AGENTS.md").write_text("Always mention gnus.")
    (sibyl.project / "lions.txt").write_text("roar")
    sibyl.answers(
        wire_server,
        events(called(("c1", "ls", {"path": "."}))),
        events(thought + b"data: [DONE]\n\n"),
        *("They spoke of stripes.", "Hm."),
        models=[{**model, "reasoning": True, "cost": {"input": 3.0, "output": 7.0}}],
        default_model="okapi-9000:high",
        compact_threshold=150,
        compaction={"keep_recent_tokens": 10},
    )
    lines = ["one", "two", "/save", "/sessions", "!echo antelope", "/reset", "three", "/help"]
    done = sibyl.run(stdin="".join(f"{line}\n" for line in lines))
    assert (done.code, len(wire_server.requests)) == (0, 5), done
    assert "gnus" in system_of(wire_server)
    assert wire_server.requests[0].body["reasoning_effort"] == "high"
    text = file_of(home, id_in(done.out)).read_text()
    assert all(word in text for word in ("lions.txt", "antelope", "They spoke of stripes.", ':name "ls"'))
    files = [path for path in (home / ".sibyl").rglob("*") if path.is_file() and path.name != "session.lisp"]
    for data in [text.encode(), *(path.read_bytes() for path in files)]:
        secret = (b"okapi", b"98700", b"pondering", b"gnus", b"custom/", *FORBIDDEN)
        assert [word for word in secret if word in data.lower()] == []


def test_sib_19_a_session_has_no_name(sibyl, wire_server):
    """Whoever asks `pi` to give it one is told why: from outside, with a prompt, and in a conversation, which
    goes on. Nothing is written, and nothing is sent."""
    sibyl.answers(wire_server, "Hm.")
    saved("one", id="session-A")
    before = sibyl.files[0].read_bytes()
    why = "sibyl:session-A cannot be named: sessions of sibyl have no name; "
    sibyl.command = [sys.executable, "-m", "perdure"]
    named = ("--session", "sibyl:session-A", "-n", "Zebras")
    for words in (["sessions", "rename", "session-A", "Zebras"], ["-p", *named, "hello"]):
        done = sibyl.run(*words)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert why in done.err
    done = sibyl.run(*named, stdin="/name Zebras\n")
    assert (done.code, done.err.count(why)) == (0, 2)
    assert (sibyl.files[0].read_bytes(), wire_server.requests) == (before, [])


# --- at a terminal --------------------------------------------------------------------------------------


def test_sib_16_at_a_terminal_what_is_typed_while_it_works_is_counted_once(sibyl, wire_server, gate, home):
    """Also if the timer saves meanwhile, and kill -9 is what comes next."""
    sibyl.answers(wire_server, gate.then("one"), events(HALF, HANG))
    with sibyl.terminal("--auto-save-interval", "1") as terminal:
        terminal.until("sibyl[0]> ")
        terminal.send("hello\r")
        until(lambda: len(wire_server.requests) == 1)
        terminal.send("and this\r")
        terminal.until(lambda: any("queued" in line.lower() for line in terminal.screen))
        time.sleep(1.1)
        gate.set()
        until(lambda: len(wire_server.requests) == 2)
        terminal.until("sibyl[2]> ")
        id = sibyl.files[0].parent.name
        terminal.kill()
    assert (texts(id), count(file_of(home, id))) == (["hello", "one", "and this"], 2)


def test_sib_13_sib_14_at_a_terminal_a_session_is_resumed_and_ctrl_c_twice_leaves(sibyl, wire_server):
    """The prompt has the count, and the last lines are what the next start needs."""
    sibyl.answers(wire_server, "Hm.")
    saved("the zebra", "It has stripes.", id="session-A")
    with sibyl.terminal("--session-id", "session-A") as terminal:
        terminal.until("Loaded session: session-A (2 messages)")
        terminal.send("hello\r")
        terminal.until("Hm.")
        terminal.until("sibyl[1]> ")
        terminal.send("/reset\r")
        terminal.until("Session saved before reset: session-A")
        terminal.until("From here on it is a new conversation")  # else Ctrl+C stops the command
        terminal.until("sibyl[2]> ")
        terminal.keys("c-c")
        terminal.until("again leaves")
        terminal.keys("c-c")
        assert terminal.wait() == 130
        shown = [line for line in terminal.scrollback if line]
    assert shown[-2:] == ended("session-A").splitlines()
    assert sum("Session: session-A" in line for line in shown) == 1
    assert count(sibyl.files[0]) == 2
