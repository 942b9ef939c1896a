"""sibyl, from outside: scenarios SIB-01 to SIB-08, SIB-12, SIB-16 and SIB-18, through its Python names."""

import fcntl
import json
import os
import re
import subprocess
import sys
import threading
import warnings
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from perdure import Session, SessionEntry
from perdure.errors import UsageError
from perdure.programs import sibyl
from perdure.programs.sibyl import (
    generate_session_id,
    list_sessions,
    load_session,
    message_to_sexp,
    save_session,
    session_to_sexp,
    sexp_to_message,
    sexp_to_session,
    sexp_to_tool_call,
    tool_call_to_sexp,
)
from perdure.session import doctor, sexp
from perdure.session.entry import Custom, ToolCall
from perdure.session.stores import open_store, sibyl_index
from perdure.session.stores.sibyl_document import COMMANDS
from perdure.session.stores.sibyl_sexp import SibylStore
from perdure.testing import assistant_entry, tool_call_entry, tool_result_entry, user_entry
from perdure.testing.durable import needs_fork, process
from tests.programs.waited import waits_for
from tests.sibyl_files import GOLDEN, put, read_form

ID = "session-20250220-143022-847291"


def conversation():
    return [
        user_entry("list the files"),
        SessionEntry.message("assistant", "thinking..."),
        tool_call_entry("shell", {"command": "ls"}, call_id="tc_1"),
        tool_result_entry("README.md", call_id="tc_1", name="shell"),
    ]


def texts(loaded):
    messages, _ = loaded
    return [message.text for message in messages]


def said(message):
    return json.loads(message.raw)["message"]


def file_of(folder, id=ID):
    return Path(folder) / id / "session.lisp"


# --- converters -------------------------------------------------------------------------------------


def test_sib_01_a_tool_call_round_trip_with_arguments():
    """Id, name and arguments are restored from the property list."""
    call = ToolCall("tc_42", "read-file", {"path": "/tmp/foo.lisp", "deep": [1, {"a": None}], "n": 0.5})
    form = tool_call_to_sexp(call)
    assert sexp.dumps(form).startswith(
        '(:id "tc_42" :name "read-file" :arguments (("path" . "/tmp/foo.lisp")'
    )
    assert sexp_to_tool_call(sexp.loads(sexp.dumps(form))) == call


def test_sib_01_an_argument_that_no_float_holds_comes_back_as_one():
    """In Python 1e400 is infinite, and JSON has no such number: it is written as one that is too large."""
    call = ToolCall("tc_1", "f", {"n": 1e400, "deep": [{"m": -1e400}], "ok": 1.5})
    text = sexp.dumps(tool_call_to_sexp(call))
    assert "null" not in text
    assert sexp_to_tool_call(sexp.loads(text)) == call
    form = '(:id "tc_1" :name "f" :arguments (("n" :json "-1e400")))'
    assert sexp.dumps(tool_call_to_sexp(sexp_to_tool_call(sexp.loads(form)))) == form


def test_sib_01_a_tool_call_round_trip_without_arguments():
    """None are nil."""
    form = tool_call_to_sexp(ToolCall("tc_99", "no-args", {}))
    assert sexp.dumps(form) == '(:id "tc_99" :name "no-args" :arguments nil)'
    assert sexp_to_tool_call(form) == ToolCall("tc_99", "no-args", {})


@pytest.mark.parametrize("number", range(4))
def test_sib_02_a_message_round_trip(number):
    """The user's, the assistant's, one with tool calls and a tool's result."""
    message = conversation()[number]
    back = sexp_to_message(sexp.loads(sexp.dumps(message_to_sexp(message))))
    assert (back.id, back.role, back.text, back.timestamp) == (
        *(message.id, message.role, message.text, message.timestamp),
    )
    if number == 2:
        assert said(back)["content"] == [
            {"type": "toolCall", "id": "tc_1", "name": "shell", "arguments": {"command": "ls"}}
        ]
    if number == 3:
        assert said(back)["toolCallId"] == "tc_1"


@pytest.mark.parametrize(
    ("content", "shown"), [("text", '"text"'), ([], "nil"), ([{"type": "x"}], '((("type" . "x")))')]
)
def test_sib_02_content_is_text_or_blocks_or_nil(content, shown):
    """Each comes back as it was."""
    message = SessionEntry.message("assistant", content)
    form = message_to_sexp(message)
    assert f":content {shown} " in sexp.dumps(form)
    assert sexp_to_message(form).text == message.text


def test_sib_02_thinking_is_not_written():
    """The rest of the message is."""
    thought = {"type": "thinking", "thinking": "hm", "thinkingSignature": "x"}
    form = message_to_sexp(SessionEntry.message("assistant", [thought, {"type": "text", "text": "so"}]))
    assert "hm" not in sexp.dumps(form)
    assert sexp_to_message(form).text == "so"


def test_sib_03_a_session_round_trip_with_summary():
    """All kinds of messages, in order, and the summary; the form is the document's."""
    form = session_to_sexp("test-id", conversation(), "old context summary")
    text = sexp.dumps(form)
    assert text.startswith('(:repl-session (:session-version 1) :id "test-id" :created-at "')
    messages, summary = sexp_to_session(sexp.loads(text))
    assert summary == "old context summary"
    assert [(message.role, message.text) for message in messages] == [
        ("user", "list the files"),
        ("assistant", "thinking..."),
        ("assistant", ""),
        ("toolResult", "README.md"),
    ]


def test_sib_03_system_messages_are_left_out():
    """They are made anew at every start."""
    messages = [SessionEntry.message("system", "You are Sibyl."), *conversation()]
    form = session_to_sexp("test-id", messages)
    assert "You are Sibyl" not in sexp.dumps(form)
    assert len(sexp_to_session(form)[0]) == 4
    with pytest.raises(UsageError):
        message_to_sexp(messages[0])


@pytest.mark.parametrize("text", ["nil", "(:role :user)", "12", '"x"'])
def test_sib_18_what_is_no_such_form_is_refused(text):
    """With an error a program can show."""
    value = sexp.loads(text)
    for convert in (sexp_to_tool_call, sexp_to_message, sexp_to_session):
        if (convert, text) == (sexp_to_tool_call, "(:role :user)"):
            continue  # a call without a name is one
        with pytest.raises(UsageError):
            convert(value)


@pytest.mark.parametrize("damage", ["#.(run)", "'run", "#S(run)", "run"])
def test_sib_04_nothing_in_a_file_is_evaluated(tmp_path, damage):
    """It is an error with a place, and the file is as it was."""
    save_session(ID, conversation(), directory=tmp_path)
    path = file_of(tmp_path)
    text = path.read_text().replace('"README.md"', damage)
    path.write_text(text)
    with pytest.warns(UserWarning, match=rf"session\.lisp line \d+: {re.escape(damage[:1])}"):
        assert load_session(ID, directory=tmp_path) is None
    assert path.read_text() == text


# --- files ------------------------------------------------------------------------------------------


def test_sib_05_ids_are_a_local_time_and_a_number_and_never_the_same():
    """`session-YYYYMMDD-HHMMSS-NNNNNN`, in one thread and in many."""
    made: list[str] = []

    def generate():
        made.extend(generate_session_id() for _ in range(500))

    threads = [threading.Thread(target=generate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == len(made) == 2000
    assert all(re.fullmatch(r"session-\d{8}-\d{6}-\d{6}", id) for id in made)


def test_sib_06_a_saved_session_is_a_file_in_its_folder_and_loads_again(tmp_path):
    """No temporary file is left; messages, calls and summary are what was saved."""
    save_session("test-001", conversation(), "old summary", directory=tmp_path)
    assert file_of(tmp_path, "test-001").is_file()
    assert [path.name for path in (tmp_path / "test-001").iterdir()] == ["session.lisp"]
    loaded = load_session("test-001", directory=tmp_path)
    assert loaded is not None
    messages, summary = loaded
    assert summary == "old summary"
    assert [message.role for message in messages] == ["user", "assistant", "assistant", "toolResult"]
    assert said(messages[2])["content"][0]["arguments"] == {"command": "ls"}


def test_sib_06_the_default_place_is_in_the_home_and_can_be_moved(home, monkeypatch, tmp_path):
    """`~/.sibyl/sessions`, or in SIBYL_HOME."""
    save_session(ID, conversation())
    assert file_of(home / ".sibyl" / "sessions").is_file()
    monkeypatch.setenv("SIBYL_HOME", str(tmp_path / "moved"))
    assert list_sessions() == []
    save_session(ID, conversation()[:1])
    assert file_of(tmp_path / "moved" / "sessions").is_file()
    assert texts(load_session(ID)) == ["list the files"]


def test_sib_06_what_is_made_is_for_its_owner_only(tmp_path):
    """Folders 0700, files 0600."""
    folder = tmp_path / "new" / "sessions"
    save_session(ID, conversation(), directory=folder)
    modes = {path.stat().st_mode & 0o777 for path in folder.parent.rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert file_of(folder).parent.stat().st_mode & 0o777 == 0o700


def test_sib_06_threads_that_save_at_once_lose_nothing(tmp_path):
    """As a timer and a user do: each message is there, once."""
    said = [[user_entry(f"{thread} {turn}") for turn in range(8)] for thread in range(4)]

    def save(messages):
        for count in range(1, len(messages) + 1):
            save_session(ID, messages[:count], directory=tmp_path)

    threads = [threading.Thread(target=save, args=(messages,)) for messages in said]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = texts(load_session(ID, directory=tmp_path))
    assert sorted(found) == sorted(message.text for messages in said for message in messages)


@pytest.mark.process
@needs_fork
def test_sib_06_processes_that_save_at_once_lose_nothing(tmp_path):
    """The first save of a session too, which makes it."""

    def save():
        for turn in range(5):
            save_session(ID, [user_entry(f"{os.getpid()} {turn}")], directory=tmp_path)

    with process(save), process(save), process(save):
        pass
    assert len(texts(load_session(ID, directory=tmp_path))) == 15
    assert [row["message_count"] for row in list_sessions(directory=tmp_path)] == [15]


def test_sib_07_a_missing_session_is_a_warning(tmp_path):
    """And nothing is made."""
    with pytest.warns(UserWarning, match="Session not found: nonexistent-session-999"):
        assert load_session("nonexistent-session-999", directory=tmp_path) is None
    with pytest.warns(UserWarning, match="Not a session id"):
        assert load_session("../../etc/passwd", directory=tmp_path) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "damage", [b"", b"((((", bytes(64), b"\xff\xfe", b"(:repl-session", b'{"id":1}', None]
)
def test_sib_07_a_corrupt_session_is_a_warning_that_names_the_remedy(tmp_path, damage):
    """If there is something that it could save. The file stays as it is."""
    save_session(ID, conversation(), directory=tmp_path)
    cut = file_of(tmp_path).read_bytes()[:-20]
    file_of(tmp_path).write_bytes(cut if damage is None else damage)
    remedy = (
        "pi sessions doctor --repair .* saves every complete message of it"
        if damage is None
        else ("nothing complete is in it")
    )
    with pytest.warns(UserWarning, match=remedy):
        assert load_session(ID, directory=tmp_path) is None
    assert file_of(tmp_path).read_bytes() == (cut if damage is None else damage)


def test_sib_07_every_complete_message_of_a_corrupt_session_is_salvaged(home):
    """Into a new session, which is listed and loads; the corrupt one stays."""
    save_session(ID, conversation(), "before")
    path = file_of(home / ".sibyl" / "sessions")
    text = path.read_text()
    path.write_text(text[: text.index("README.md")])
    store = open_store("sibyl")
    (diagnosis,) = doctor.examine_all(store)
    assert diagnosis.messages == 3
    repaired = doctor.repair(store, diagnosis.ref)
    assert repaired is not None
    assert texts(load_session(repaired.ref.id)) == ["list the files", "thinking...", ""]
    assert {row["id"] for row in list_sessions()} == {ID, repaired.ref.id}
    assert doctor.repair(store, diagnosis.ref) is None


def test_sib_08_the_sessions_are_listed_with_what_the_document_asks_for(tmp_path):
    """Id, both times and the number of messages; the last saved first."""
    save_session("session-A", conversation()[:3], directory=tmp_path)
    save_session("session-B", [*conversation(), assistant_entry("There is one.")], directory=tmp_path)
    rows = list_sessions(directory=tmp_path)
    assert [(row["id"], row["message_count"]) for row in rows] == [("session-B", 5), ("session-A", 3)]
    for row in rows:
        assert row.keys() == {"id", "created_at", "last_modified", "message_count"}
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", row["created_at"])
        assert row["last_modified"] >= row["created_at"]


@pytest.mark.parametrize("how", ["missing", "stale", "corrupt", "a bare list"])
def test_sib_08_the_index_is_rebuilt(tmp_path, how):
    """The listing is the same, and the index is there again."""
    index = tmp_path / "index.lisp"
    save_session("session-A", conversation(), directory=tmp_path)
    old = index.read_text()
    save_session("session-B", conversation(), directory=tmp_path)
    expected = list_sessions(directory=tmp_path)
    match how:
        case "missing":
            index.unlink()
        case "stale":
            index.write_text(old)
        case "corrupt":
            index.write_text("(:session-index (:entry")
        case "a bare list":
            index.write_text('((:id "session-A" :message-count 1) (:id "gone" :message-count 2))')
    assert list_sessions(directory=tmp_path) == expected
    assert len(read_form(index.read_text())) == 3


def test_sib_08_a_broken_session_is_listed_with_its_problem(tmp_path):
    """And hides no other."""
    save_session("session-A", conversation(), directory=tmp_path)
    save_session("session-B", conversation(), directory=tmp_path)
    file_of(tmp_path, "session-A").write_text("(:repl-session")
    problems = {row["id"]: row.get("problem") for row in list_sessions(directory=tmp_path)}
    assert problems["session-B"] is None
    assert "session.lisp line 1" in str(problems["session-A"])


@pytest.mark.slow
def test_sib_08_a_hundred_broken_sessions_of_a_thousand_hide_no_other(tmp_path, monkeypatch):
    """900 are listed, and 100 with what is wrong with them. A second listing reads none of them again."""
    save_session(ID, conversation(), directory=tmp_path)
    sound = file_of(tmp_path).read_bytes()
    file_of(tmp_path).unlink()
    file_of(tmp_path).parent.rmdir()
    damages = [
        b"",
        sound[:40],
        sound[: len(sound) // 2],
        sound[:-3],
        sound.replace(b"README", b"\xff\xfe"),
        sound.replace(b'"README.md"', b"#.(run)"),
        b'{"id": 1}',
        b"(:session-index)",
        bytes(512),
        sound + sound,
    ]
    broken = set()
    for number in range(1000):
        path = file_of(tmp_path, f"session-{number:04d}")
        path.parent.mkdir()
        data = sound.replace(ID.encode(), path.parent.name.encode())
        if number % 10 == 3:
            data = damages[number // 10 % len(damages)]
            broken.add(path.parent.name)
        path.write_bytes(data)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    reads: Counter[str] = Counter()
    bytes_of = SibylStore.bytes_of

    def counted(self, ref):
        reads[ref.id] += 1
        return bytes_of(self, ref)

    monkeypatch.setattr(SibylStore, "bytes_of", counted)
    rows = list_sessions(directory=tmp_path)
    assert len(rows) == 1000
    assert {row["id"] for row in rows if "problem" in row} == broken
    assert all("session.lisp line " in row["problem"] for row in rows if "problem" in row)
    assert {row["message_count"] for row in rows if "problem" not in row} == {4}
    assert set(reads.values()) == {1}
    assert list_sessions(directory=tmp_path) == rows
    assert reads.total() == 1000


def test_sib_08_without_sessions_the_list_is_empty(tmp_path):
    """Whether there is a folder for them or not."""
    assert list_sessions(directory=tmp_path) == []
    assert list_sessions(directory=tmp_path / "none") == []


# --- nothing is lost --------------------------------------------------------------------------------


def test_sib_12_a_session_is_never_overwritten_by_fewer_messages(tmp_path):
    """What a save does not name stays; what is new in it follows."""
    talk = conversation()
    save_session(ID, talk, directory=tmp_path)
    save_session(ID, talk[:1], directory=tmp_path)
    save_session(ID, [], directory=tmp_path)
    assert texts(load_session(ID, directory=tmp_path)) == [message.text for message in talk]
    save_session(ID, [talk[3], user_entry("and now?")], directory=tmp_path)
    assert texts(load_session(ID, directory=tmp_path)) == [*(message.text for message in talk), "and now?"]


def test_sib_12_a_save_of_the_same_changes_nothing(tmp_path):
    """Of what is kept of it: a thought that was left out does not make it another message."""
    thought = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "so"}]
    said = [user_entry("why?"), SessionEntry.message("assistant", thought, model="m", usage={"input": 3})]
    save_session(ID, said, "past", directory=tmp_path)
    before = file_of(tmp_path).read_bytes()
    save_session(ID, said, "past", directory=tmp_path)
    assert file_of(tmp_path).read_bytes() == before
    loaded = load_session(ID, directory=tmp_path)
    assert loaded is not None
    save_session(ID, loaded[0], loaded[1], directory=tmp_path)
    assert file_of(tmp_path).read_bytes() == before


def test_sib_12_a_new_summary_says_what_it_stands_for(tmp_path):
    """The messages before those it is saved with; they stay in the file."""
    talk = conversation()
    save_session(ID, talk, directory=tmp_path)
    save_session(ID, talk[2:], "they spoke of files", directory=tmp_path)
    loaded = load_session(ID, directory=tmp_path)
    assert loaded is not None
    assert (len(loaded[0]), loaded[1]) == (4, "they spoke of files")
    assert ":summarized 2\n" in file_of(tmp_path).read_text()
    save_session(ID, talk, None, directory=tmp_path)
    assert load_session(ID, directory=tmp_path) == loaded


def test_sib_12_a_message_that_was_changed_is_another_one(tmp_path):
    """Both are kept."""
    first, second = user_entry("one"), user_entry("two")
    save_session(ID, [first, second], directory=tmp_path)
    form = sexp.dumps(message_to_sexp(second)).replace('"two"', '"two, or three"')
    save_session(ID, [first, sexp_to_message(sexp.loads(form))], directory=tmp_path)
    assert texts(load_session(ID, directory=tmp_path)) == ["one", "two", "two, or three"]


def test_sib_16_the_command_count_goes_on_with_each_prompt(home):
    """Once the program has said where it stands, what anybody saves is counted."""
    with Session.create(open_store("sibyl")) as session:
        session.append(Custom(COMMANDS, {"count": 5}))
    talk = conversation()
    save_session(session.id, talk)
    save_session(session.id, [*talk, assistant_entry("One."), user_entry("Thanks.")])
    assert ":command-count 7\n" in file_of(home / ".sibyl" / "sessions", session.id).read_text()
    assert texts(load_session(session.id))[4:] == ["One.", "Thanks."]


@pytest.mark.process
def test_sib_18_importing_it_loads_none_of_it():
    """What a name needs is imported when the name is used."""
    script = "import sys; before = set(sys.modules); import perdure.programs.sibyl as sibyl; "
    script += "print(sorted(set(sys.modules) - before)); sibyl.nothing"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "['perdure', 'perdure.programs', 'perdure.programs.sibyl']"
    assert "has no attribute 'nothing'" in done.stderr


def test_sib_18_sib_19_the_names_are_the_documents_and_no_others():
    """None to delete, rename, search, tag or export anything."""
    assert sibyl.__all__ == [
        "generate_session_id",
        "list_sessions",
        "load_session",
        "message_to_sexp",
        "save_session",
        "session_to_sexp",
        "sexp_to_message",
        "sexp_to_session",
        "sexp_to_tool_call",
        "start_auto_save_timer",
        "start_repl",
        "stop_auto_save_timer",
        "tool_call_to_sexp",
    ]
    public = {name: getattr(sibyl, name) for name in dir(sibyl) if not name.startswith("_")}
    modules = {name for name, value in public.items() if isinstance(value, ModuleType)}
    assert sorted(public.keys() - modules - {"TYPE_CHECKING"}) == sibyl.__all__
    assert all(callable(public[name]) for name in sibyl.__all__)


def test_sib_18_each_id_of_the_list_is_one_to_save_and_to_load(tmp_path):
    """Also that of a folder which somebody called as they like; what is said next stands behind it."""
    save_session(ID, conversation()[:1], directory=tmp_path)
    file_of(tmp_path).parent.rename(tmp_path / "my talk's")
    save_session("session-A", conversation()[:1], directory=tmp_path)
    ids = [row["id"] for row in list_sessions(directory=tmp_path)]
    assert ids == ["session-A", "my talk's"]
    for id in ids:
        save_session(id, [user_entry("and now?")], directory=tmp_path)
        assert texts(load_session(id, directory=tmp_path)) == ["list the files", "and now?"]
    assert sorted(path.name for path in tmp_path.glob("*/")) == ["locks", "my talk's", "session-A"]


def test_sib_18_a_save_of_nothing_makes_no_file(tmp_path):
    """Nor a folder, a lock or an index."""
    save_session(ID, [], directory=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_sib_06_a_process_that_never_lets_go_of_the_index_delays_one_save_and_not_each(tmp_path, monkeypatch):
    """What is saved meanwhile is in a list all the same, and in the index with the next save after it."""
    monkeypatch.setattr(sibyl_index, "_WAIT", 0.05)
    store = SibylStore(str(tmp_path))
    (tmp_path / "locks").mkdir()
    with Session.create(store) as session, (tmp_path / "locks" / "index~.lock").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waited = waits_for(sibyl_index, monkeypatch)
        for number in range(3):
            session.append(user_entry(f"{number}"))
        assert waited == [0.05, 0, 0]
        assert [row.message_count for row in store.listing()] == [3]
        assert ":message-count 0 " in (tmp_path / "sessions" / "index.lisp").read_text()
        fcntl.flock(held, fcntl.LOCK_UN)
        session.append(user_entry("3"))
    assert ":message-count 4 " in (tmp_path / "sessions" / "index.lisp").read_text()


def test_sib_18_a_session_of_another_program_is_loaded_and_saved_to(tmp_path):
    """The document's own form, as its Lisp prints it."""
    file_of(tmp_path, "s1").parent.mkdir()
    file_of(tmp_path, "s1").write_bytes((GOLDEN / "document.lisp").read_bytes())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = load_session("s1", directory=tmp_path)
    assert loaded is not None
    messages, summary = loaded
    assert (len(messages), summary) == (4, None)
    save_session("s1", [*messages, user_entry("Thanks.")], directory=tmp_path)
    assert texts(load_session("s1", directory=tmp_path))[3:] == [
        *('There is a "README.md", and C:\\src.', "Thanks.")
    ]
    assert ":command-count 3\n" in file_of(tmp_path, "s1").read_text()


def test_sib_08_a_bare_list_is_read_as_an_index_and_the_files_are_believed(tmp_path):
    """Of its two sessions one is gone, and the other has fewer messages than it says."""
    store, ref = put(tmp_path, (GOLDEN / "document.lisp").read_bytes(), "s1")
    index = Path(ref.path).parents[1] / "index.lisp"
    index.write_bytes((GOLDEN / "index" / "bare-list.lisp").read_bytes())
    (row,) = store.listing()
    assert (row.id, row.message_count) == ("s1", len(store.read(ref).entries))
    assert index.read_text().startswith("(:session-index")
