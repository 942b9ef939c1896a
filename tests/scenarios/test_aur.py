"""aur, from outside: what AUR-01 to AUR-14 ask of its sessions on disk, through the store and the engine.

What they ask of the program itself, its prompts and tables, is tested where the program is.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.errors import Held, NotFound, PerdureError
from perdure.session.entry import Assistant, Text, ToolCall, ToolResult, User
from perdure.session.lifecycle import AURORA, recorded
from perdure.session.session import Session
from perdure.session.stores import Found, Header, Store, open_store
from perdure.testing import assistant_entry, tool_call_entry, tool_result_entry, user_entry
from perdure.testing.durable import holding, needs_fork
from perdure.testing.writing import turns
from tests import processes
from tests.aurora_files import GOLDEN, ID, METADATA, chain, put, text_of
from tests.needs import needs_tool


@pytest.fixture
def store(home) -> Store:
    """Aurora's own, in the user's home."""
    return open_store("aurora")


def lines_of(ref: Found) -> list[bytes]:
    return Path(ref.path).read_bytes().splitlines()


def texts(store: Store, ref: Found) -> list[str]:
    return [entry.text for entry in store.read(ref).entries if entry.text]


def status(store: Store, ref: Found) -> str:
    """As a listing shows it."""
    is_alive = store.holder(ref) is not None
    page = store.read(ref)
    return AURORA.shown(recorded(page.header, page.entries), is_alive=is_alive)


# --- AUR-01 to AUR-03: create, save, load -----------------------------------------------------------


def test_aur_01_a_new_session_has_a_unique_id_and_is_in_the_users_home(store, home):
    """`~/.aurora/spawn/sessions/session-<12 hex>.jsonl`, private, and another one each time."""
    made = [Session.create(store) for _ in range(20)]
    for session in made:
        session.close()
    assert len({session.id for session in made}) == 20
    assert all(re.fullmatch("session-[0-9a-f]{12}", session.id) for session in made)
    folder = home / ".aurora" / "spawn" / "sessions"
    assert {path.name for path in folder.iterdir()} == {f"{session.id}.jsonl" for session in made}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_aur_01_the_metadata_is_on_disk_before_anything_is_said(store, tmp_path, monkeypatch):
    """Id, agent, when it was created, status, and where it was started."""
    monkeypatch.chdir(tmp_path)
    with Session.create(store, facts={"agent": "qa-test"}) as session:
        (line,) = map(json.loads, lines_of(session.ref))
    assert line.pop("created_at") >= "2026"
    assert line == {
        **{"type": "metadata", "session_id": session.id, "agent": "qa-test", "status": "active"},
        "cwd": str(tmp_path),
    }


def test_aur_01_a_session_may_be_given_a_name_that_is_free(store):
    """One that is not is an error, and so is one that could be a path."""
    ref = store.create(Header("login-tests", "2026-01-31T09:05:00.123Z"), [user_entry("mine")])
    for name in ("login-tests", "../login-tests", ""):
        with pytest.raises(PerdureError):
            store.create(Header(name, "2026-01-31T09:05:00.123Z"))
    assert [each.id for each in store.list()] == ["login-tests"]
    assert texts(store, ref) == ["mine"]


def test_aur_01_a_session_in_which_nothing_was_said_is_removed_again(store):
    """On the way out; one in which something was said is not."""
    empty, used = Session.create(store), Session.create(store)
    used.append(user_entry("hello"))
    for session in (empty, used):
        session.close()
    assert [store.remove_empty(session.ref) for session in (empty, used)] == [True, False]
    assert [each.id for each in store.list()] == [used.id]


def test_aur_02_a_turn_is_one_write_of_whole_lines(store, monkeypatch):
    """Of all lines of a call at once, so that no reader ever meets half of them."""
    session = Session.create(store)
    written: list[bytes] = []
    write = os.write

    def noted(descriptor, data):
        if os.fstat(descriptor).st_ino == os.stat(session.ref.path).st_ino:
            written.append(bytes(data))
        return write(descriptor, data)

    with session, monkeypatch.context() as patch:
        patch.setattr(os, "write", noted)
        session.append(user_entry("hello"))
        session.append(tool_call_entry("bash", {"command": "ls"}), tool_result_entry("README.md"))
    assert [data.count(b"\n") for data in written] == [1, 2]
    assert all(data.endswith(b"\n") for data in written)
    assert b"".join(written) == b"".join(line + b"\n" for line in lines_of(session.ref)[1:])


@pytest.mark.process
@needs_tool("strace")
def test_aur_02_the_kernel_sees_one_write_and_one_sync_a_turn(tmp_path):
    """On a descriptor that appends, whatever else the process does."""
    talk = """
import sys
from perdure.session.session import Session
from perdure.session.stores import open_store
from perdure.testing import user_entry
with Session.create(open_store("aurora", sys.argv[1])) as session:
    session.append(user_entry("the first turn"))
    session.append(user_entry("the second turn"))
"""
    trace = tmp_path / "trace"
    calls = "trace=openat,write,writev,pwrite64,fsync,fdatasync"
    command = ["strace", "-f", "-y", "-s", "4096", "-e", calls, "-o", str(trace)]
    subprocess.run([*command, sys.executable, "-c", talk, str(tmp_path / "home")], check=True)
    done = [line for line in trace.read_text(errors="replace").splitlines() if ".jsonl>" in line]
    behind = done[next(at for at, line in enumerate(done) if "the first turn" in line) :]
    kinds = [re.findall(r"\b(write|writev|pwrite64|fsync|fdatasync)\(", line) for line in behind]
    assert [kind for line in kinds for kind in line] == ["write", "fdatasync"] * 2
    assert any("O_APPEND" in line for line in done)


@pytest.mark.process
def test_aur_02_another_process_reads_each_turn_as_soon_as_it_is_saved(store):
    """With nothing but the file and JSON, while the session is open."""
    reading = "import json,sys; print(*[json.loads(line).get('content') for line in open(sys.argv[1])])"
    with Session.create(store) as session:
        for number in range(3):
            session.append(user_entry(f"turn-{number}"))
            done = processes.run(
                [sys.executable, "-c", reading, session.ref.path], capture_output=True, text=True, check=True
            )
            assert done.stdout.split() == ["None", *(f"turn-{each}" for each in range(number + 1))]


def test_aur_03_a_session_comes_back_with_its_turns_in_order_its_agent_and_its_context(store):
    """Also what tools were asked and answered, in what a model would be sent."""
    with Session.create(store, facts={"agent": "qa-test"}) as session:
        session.append(user_entry("list the files"))
        session.append(tool_call_entry("bash", {"command": "ls"}, call_id="c1"))
        session.append(tool_result_entry("README.md", call_id="c1"))
        session.append(assistant_entry("There is one.", model="m", provider="p"))
        said = session.context()
        AURORA.change(session, "completed")
    (ref,) = open_store("aurora").list()
    with Session.open(open_store("aurora"), ref) as resumed:
        assert AURORA.resume(resumed) == "completed"
        assert resumed.header.facts["agent"] == "qa-test"
        assert resumed.context() == said
        assert said.model == ("p", "m")
        asked, called, answered, told = said.messages
        assert isinstance(asked, User)
        assert isinstance(called, Assistant)
        assert isinstance(told, Assistant)
        assert called.content == [ToolCall("c1", "bash", {"command": "ls"})]
        assert isinstance(answered, ToolResult)
        assert answered.content == [Text("README.md")]
        resumed.append(user_entry("and now?"))
    assert texts(store, ref) == ["list the files", "README.md", "There is one.", "and now?"]


def test_aur_03_a_file_as_the_document_shows_one_is_resumed(tmp_path):
    """Written by another program: it is shown, and one goes on in it."""
    store, ref = put(tmp_path, (GOLDEN / "document.jsonl").read_bytes())
    with Session.open(store, ref) as session:
        AURORA.resume(session)
        assert [type(message) for message in session.context().messages] == [User, Assistant]
        session.append(user_entry("Now for an e-mail address."))
    assert Session.view(store, ref).path()[-1].text == "Now for an e-mail address."
    assert lines_of(ref)[:3] == (GOLDEN / "document.jsonl").read_bytes().splitlines()


# --- AUR-06, AUR-07: status, deleting ---------------------------------------------------------------


def test_aur_06_a_session_ends_completed_and_is_active_again_when_it_is_resumed(store):
    """Each change is a line of its own, and the last one wins."""
    with Session.create(store) as session:
        AURORA.resume(session)
        session.append(user_entry("hello"))
        assert status(store, session.ref) == "active"
        AURORA.change(session, "completed")
    assert status(store, session.ref) == "completed"
    with Session.open(store, session.ref) as resumed:
        assert AURORA.resume(resumed) == "completed"
        assert status(store, session.ref) == "active"
        AURORA.change(resumed, "interrupted")
    assert status(store, session.ref) == "interrupted"
    changes = [json.loads(line)["status"] for line in lines_of(session.ref) if b'"type":"status"' in line]
    assert changes == ["completed", "active", "interrupted"]


@pytest.mark.process
@needs_fork
def test_aur_06_a_dead_process_is_found_out_at_reading_and_recorded_at_the_next_opening(store):
    """Nothing is written by looking."""
    with Session.create(store) as session:
        session.append(user_entry("hello"))
    ref = session.ref
    with holding(lambda: open_store("aurora").writer(ref)) as pid:
        assert status(store, ref) == "active"
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        before = lines_of(ref)
        assert status(store, ref) == "interrupted"
        assert lines_of(ref) == before
    with Session.open(store, ref) as resumed:
        assert AURORA.resume(resumed) == "interrupted"
    assert [json.loads(line)["status"] for line in lines_of(ref)[-2:]] == ["interrupted", "active"]


def test_aur_07_a_deleted_session_is_gone_from_the_listing_and_can_be_restored(store, home):
    """It is in the trash of Aurora's home, and comes back under its id with all its bytes."""
    with Session.create(store) as session, Session.create(store) as other:
        session.append(user_entry("hello"))
    before = Path(session.ref.path).read_bytes()
    store.delete(session.ref)
    assert [each.id for each in store.list()] == [other.id]
    assert (home / ".aurora" / "trash" / session.id / f"{session.id}.jsonl").read_bytes() == before
    with pytest.raises(PerdureError):
        store.read(session.ref)
    assert store.restore(session.id[:12]).id == session.id
    assert Path(session.ref.path).read_bytes() == before
    with pytest.raises(NotFound):
        store.restore(session.id)


def test_aur_07_a_session_somebody_is_in_is_not_deleted(store):
    """Whoever asks is told which process."""
    with Session.create(store) as session:
        with pytest.raises(Held, match=f"held by process {os.getpid()}"):
            store.delete(session.ref)
        session.append(user_entry("still here"))
    assert texts(store, session.ref) == ["still here"]


# --- AUR-10 to AUR-12: the file ---------------------------------------------------------------------


def test_aur_10_a_session_of_two_turns_looks_as_the_document_shows(store):
    """One JSON object a line: the metadata, then the turns, each with the document's members first."""
    with Session.create(store, facts={"agent": "qa-test"}) as session:
        session.append(user_entry("Write a test."), assistant_entry("Here it is.", usage={"output": 412}))
    metadata, asked, answered = map(json.loads, lines_of(session.ref))
    assert list(metadata)[:4] == ["type", "session_id", "agent", "created_at"]
    for line in (asked, answered):
        assert list(line)[:5] == ["type", "role", "content", "timestamp", "tokens"]
    assert [line["type"] for line in (metadata, asked, answered)] == ["metadata", "turn", "turn"]
    assert (asked["role"], asked["content"], asked["tokens"]) == ("user", "Write a test.", 4)
    assert (answered["role"], answered["content"], answered["tokens"]) == ("assistant", "Here it is.", 412)


def test_aur_11_what_cannot_be_parsed_is_told_with_file_and_line(tmp_path):
    """In one sentence each, beside every turn that can be."""
    store, ref = put(tmp_path, text_of(METADATA, *chain(1), b"{not json}", *chain(1, start=2), b"17"))
    page = store.read(ref)
    assert [entry.text for entry in page.entries] == ["text 1", "text 2"]
    for line, problem in zip((3, 5), page.problems, strict=True):
        assert str(problem).startswith(f"{ref.path} line {line}: not a record")


def test_aur_12_a_corrupted_session_opens_and_is_recovered(tmp_path):
    """Every good line is kept byte for byte, and the file as it was stays beside it."""
    good = [METADATA, *chain(3)]
    data = text_of(*good[:2], b'{"type":"turn","role":"us', *good[2:])
    store, ref = put(tmp_path, data)
    assert texts(store, ref) == ["text 1", "text 2", "text 3"]
    repaired = store.repair(ref)
    assert repaired is not None
    assert Path(ref.path).read_bytes() == text_of(*good)
    assert Path(repaired.aside).parent == Path(ref.path).parent
    assert Path(repaired.aside).read_bytes() == data
    assert store.repair(ref) is None


def test_aur_12_an_unterminated_last_line_is_a_notice_and_never_a_crash(tmp_path):
    """A turn that was being saved when the power went: what came before it opens and goes on."""
    store, ref = put(tmp_path, text_of(METADATA, *chain(2)) + b'{"type":"turn","role":"assi')
    with Session.open(store, ref) as session:
        assert ["unfinished" in problem.reason for problem in session.problems] == [True]
        session.append(user_entry("again"))
    assert texts(store, ref) == ["text 1", "text 2", "again"]


# --- AUR-13, AUR-14: several processes --------------------------------------------------------------


@pytest.mark.process
@needs_fork
def test_aur_13_a_second_opener_waits_and_is_then_told_who_holds_the_session(store):
    """By the process's number, with the exit code for it; what the holder had saved is untouched."""
    with Session.create(store) as session:
        session.append(user_entry("hello"))
    with holding(lambda: open_store("aurora").writer(session.ref)) as pid:
        with pytest.raises(Held, match=f"held by process {pid}") as held:
            Session.open(store, session.ref, wait=0.2)
        assert held.value.exit_code == 4
        assert texts(store, session.ref) == ["hello"]
    with Session.open(store, session.ref, wait=10) as resumed:
        resumed.append(user_entry("my turn"))
    assert texts(store, session.ref) == ["hello", "my turn"]


@pytest.mark.process
@needs_fork
@pytest.mark.parametrize("is_stopped", [False, True], ids=["running", "stopped"])
def test_aur_14_reading_never_waits_for_a_writer_and_sees_every_saved_turn(store, is_stopped):
    """Listing, loading and a look at the end, also while the writing process is stopped in its tracks."""
    with Session.create(store) as session, Session.create(store) as other:
        session.append(user_entry("one"))
        (said,) = session.entries
    ref = session.ref
    more = turns(2, said, word="turn")

    def talk():
        writer = open_store("aurora").writer(ref)
        writer.catch_up()
        writer.append(more)
        return writer

    with holding(talk) as pid:
        if is_stopped:
            os.kill(pid, signal.SIGSTOP)
            os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        assert {each.id for each in store.list()} == {session.id, other.id}
        assert texts(store, ref) == ["one", "turn 0", "turn 1"]
        assert next(store.read_back(ref)).text == "turn 1"
        assert [entry.text for entry in Session.view(store, ref).tail(2)] == ["turn 0", "turn 1"]
        assert status(store, ref) == "active"
        assert store.holder(ref) == pid


def test_aur_14_a_reader_follows_a_session_while_it_grows(store):
    """From where it last was, without reading again what it has seen."""
    with Session.create(store) as session:
        cursor = store.read(session.ref).cursor
        for number in range(5):
            session.append(user_entry(f"turn {number}"))
            page = open_store("aurora").read(session.ref, cursor)
            assert [entry.text for entry in page.entries] == [f"turn {number}"]
            cursor = page.cursor


def test_aur_01_an_override_of_the_home_is_honoured(tmp_path, monkeypatch):
    """`AURORA_HOME`: sessions, locks and trash are all in there."""
    monkeypatch.setenv("AURORA_HOME", str(tmp_path / "elsewhere"))
    store = open_store("aurora")
    with Session.create(store) as session:
        session.append(user_entry("hello"))
    store.delete(session.ref)
    assert {path.name for path in (tmp_path / "elsewhere").iterdir()} == {"spawn", "locks", "trash"}
    assert ID not in session.id
