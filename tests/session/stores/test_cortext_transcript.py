"""`<type>.md` of Cortext's layout: only added to, each message in it once; and people may write in it."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.session import lifecycle
from perdure.session.entry import BashExecution, Entry, Message, decode
from perdure.session.session import Session
from perdure.session.stores import Header
from perdure.session.stores.cortext_transcript import blocks, is_shown, mark
from perdure.testing import assistant_entry, tool_call_entry, tool_result_entry, user_entry
from tests.cortext_files import (
    MARK,
    check_complete,
    folder_of,
    golden,
    marks_of,
    put,
    store_in,
    transcript_of,
)
from tests.effort import some_sizes
from tests.generated import sessions
from tests.pi_files import in_memory

OURS, FOREIGN = golden("ours"), golden("foreign")
MD = "brainstorm.md"


def append(store, ref, *entries) -> list[Entry]:
    with Session.open(store, ref) as session:
        return session.append(*entries)


def block(id: str, who: str, text: str) -> str:
    return f"\n<!-- {id} -->\n## {who}\n\n{text}\n"


# --- what it looks like -----------------------------------------------------------------------------


def test_a_new_conversation_has_a_transcript_with_its_title(tmp_path):
    """Named after its type."""
    facts = {"conversation_type": "debug", "title": "Auth Token Expiry"}
    with Session.create(store_in(tmp_path), facts=facts) as session:
        pass
    assert (folder_of(session.ref) / "debug.md").read_text() == "# Auth Token Expiry\n"


def test_each_message_stands_behind_its_mark(tmp_path):
    """Who said it, and what; entries that are no messages are left out."""
    store, ref = put(tmp_path, OURS)
    one, _, two = append(
        store, ref, user_entry("And now?"), lifecycle.body("active"), assistant_entry("Go.\n")
    )
    expected = block(one.id, "User", "And now?") + block(two.id, "Assistant", "Go.")
    assert transcript_of(ref) == OURS[MD].decode() + expected


def test_tool_calls_and_their_results_are_short(tmp_path):
    """A call on one line, and of an answer its beginning, in a block it cannot leave."""
    store, ref = put(tmp_path, OURS)
    answer = "```\n# not a heading\n" + "x\n" * 100
    call, result = append(
        store, ref, tool_call_entry("bash", {"command": "echo `date`"}), tool_result_entry(answer)
    )
    shown = transcript_of(ref).removeprefix(OURS[MD].decode())
    assert shown.startswith(block(call.id, "Assistant", '*bash* `` {"command":"echo `date`"} ``'))
    rest = shown.partition(f"<!-- {result.id} -->\n")[2]
    assert rest.startswith("## Tool: bash\n\n````\n```\n# not a heading\nx\n")
    assert rest.endswith("more characters)\n````\n")
    assert len(rest.splitlines()) < 30


def test_a_command_the_user_ran_is_shown_with_its_output(tmp_path):
    """In a block of its own, too."""
    store, ref = put(tmp_path, OURS)
    append(store, ref, Message(BashExecution("ls", "README.md\n")))
    assert transcript_of(ref).endswith("## Command\n\n```\n$ ls\nREADME.md\n```\n")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("<!-- a1b2c3d4e5f6 -->", " <!-- a1b2c3d4e5f6 -->"),
        ("before\n<!-- x -->\nafter", "before\n <!-- x -->\nafter"),
        ("```python\nprint(1)", "```python\nprint(1)\n```"),
        ("~~~~\n```\n", "~~~~\n```\n~~~~"),
        ("```\nclosed\n```", "```\nclosed\n```"),
        ("\x1b[31mred\x07\x9b", "[31mred"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("a\ud800b", "a?b"),
        ("\n\n  indented\n\n", "  indented"),
    ],
)
def test_what_is_said_stays_in_its_block(tmp_path, said, shown):
    """It is no mark, ends no block, leaves none open, and does nothing to a terminal."""
    store, ref = put(tmp_path, OURS)
    for entry in append(store, ref, user_entry(said)):
        assert transcript_of(ref) == OURS[MD].decode() + block(entry.id, "User", shown)


def test_a_message_may_say_that_it_does_not_belong_into_the_transcript(tmp_path):
    """And a prompt of a program's is none of the conversation."""
    store, ref = put(tmp_path, OURS)
    hidden = decode(user_entry("Resumed.").raw[:-1] + b',"transcript":false}')
    prompt = Entry.message("system", "Be brief.")
    unseen, seen = (
        Entry.message("custom", text, customType="reminder", display=text == "seen")
        for text in ("unseen", "seen")
    )
    append(store, ref, hidden, prompt, unseen)
    assert transcript_of(ref) == OURS[MD].decode()
    assert [entry.text for entry in store.read(ref).entries][3:] == ["Resumed.", "Be brief.", "unseen"]
    for entry in append(store, ref, seen):
        assert transcript_of(ref) == OURS[MD].decode() + block(entry.id, "reminder", "seen")


def test_an_id_that_is_no_name_has_another_mark(tmp_path):
    """Whatever a program calls its entries, the mark is one line that Markdown does not show."""
    store, ref = put(
        tmp_path, {**OURS, ".session/messages.jsonl": b'{"role":"user","content":"x","id":"-->\\n"}\n'}
    )
    (path,) = folder_of(ref).glob("*.md")
    path.unlink()
    append(store, ref, user_entry("y"))
    assert len(marks_of(ref)) == 2
    assert marks_of(ref)[0].startswith("x-")


# --- what people do with it -----------------------------------------------------------------------------


def rewritten(text: str) -> str:
    return text.replace("REST, for its simplicity.", "I changed this answer.")


EDITS = {
    "behind it": lambda text: text + "\nA note.\n",
    "without a line end": lambda text: text + "\nA note",
    "before it": lambda text: "---\ntags: [api]\n---\n" + text,
    "a comment at the end": lambda text: text + "\n<!-- TODO -->\n",
    "in a message": rewritten,
    "with other line ends": lambda text: text.replace("\n", "\r\n"),
    "the last line end": lambda text: text.rstrip("\n"),
    "another order": lambda text: text.replace("# API Design\n", "") + "\n# API Design\n",
    "the first message": lambda text: text.replace("REST or GraphQL?", ""),
}


@pytest.mark.parametrize("how", EDITS)
def test_what_people_change_stays_and_new_messages_follow(tmp_path, how):
    """Every byte of theirs, whether or not a writer was open meanwhile; no message is there twice."""
    store, ref = put(tmp_path, OURS)
    path = folder_of(ref) / MD
    with Session.open(store, ref) as session:
        (first,) = session.append(user_entry("before the edit"))
        edited = EDITS[how](path.read_bytes().decode())
        path.write_bytes(edited.encode())
        (second,) = session.append(user_entry("after the edit"))
    (third,) = append(store, ref, user_entry("later"))
    shown = path.read_bytes().decode()
    assert shown.startswith(edited)
    expected = block(second.id, "User", "after the edit") + block(third.id, "User", "later")
    assert shown.removeprefix(edited).lstrip("\n") == expected.lstrip("\n")
    assert shown.count("before the edit") == 1
    assert first.id in shown


def test_what_an_editor_overwrote_is_added_again(tmp_path):
    """It had the file open since before two messages, and saved what it knew."""
    store, ref = put(tmp_path, OURS)
    append(store, ref, user_entry("one"), assistant_entry("two"))
    (folder_of(ref) / MD).write_bytes(OURS[MD] + b"\nfrom the editor\n")
    append(store, ref, user_entry("three"))
    check_complete(ref)
    assert "\nfrom the editor\n" in transcript_of(ref)


def test_a_deleted_transcript_is_made_again_with_everything(tmp_path):
    """And with the title the conversation has now."""
    store, ref = put(tmp_path, OURS)
    with Session.open(store, ref) as session:
        session.rename("Better title")
        (folder_of(ref) / MD).unlink()
        session.append(user_entry("go on"))
    assert transcript_of(ref).startswith("# Better title\n")
    check_complete(ref)


def test_a_transcript_of_another_program_gets_only_what_is_new(tmp_path):
    """What was said before is in it already, in that program's way."""
    store, ref = put(tmp_path, FOREIGN)
    append(store, ref, user_entry("one"))
    append(store, ref, user_entry("two"))
    assert transcript_of(ref).startswith(FOREIGN[MD].decode() + "\n<!-- ")
    check_complete(ref, shown=2)


def test_a_link_is_not_followed_and_the_message_is_saved_all_the_same(tmp_path):
    """Whoever reads the session is told, until a save succeeds in showing all of it."""
    store, ref = put(tmp_path, OURS)
    outside = tmp_path / "outside.md"
    outside.write_text("mine")
    path = folder_of(ref) / MD
    path.unlink()
    path.symlink_to(outside)
    append(store, ref, user_entry("one"))
    assert outside.read_text() == "mine"
    assert [problem.reason for problem in store.read(ref).problems] == [
        f"what was said is saved, but not all is up to date with it: Not saved: {path}: it is a symbolic link"
    ]
    path.unlink()
    path.write_bytes(OURS[MD])
    append(store, ref, user_entry("two"))
    check_complete(ref)
    assert store.read(ref).problems == []


@pytest.mark.parametrize("kind", ["../../outside", "a/b", "", ".hidden", "x" * 300, "nul\0"])
def test_a_type_that_is_no_name_does_not_become_a_path(tmp_path, kind):
    """The transcript is then called what the folder's name says."""
    facts = {"conversation_type": kind, "title": "t"}
    store = store_in(tmp_path / "workspace")
    with Session.create(store, facts=facts) as session:
        session.append(user_entry("hello"))
    assert session.header.facts["conversation_type"] == kind
    written = {path.parent for path in tmp_path.rglob("*.md")}
    assert written == {folder_of(session.ref)}
    check_complete(session.ref)


# --- exactly once ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.long
def test_a_transcript_cut_anywhere_is_completed_by_the_next_save(tmp_path):
    """To the byte, as if it had never been cut; each cut is one a killed process can leave."""
    with in_memory(tmp_path) as folder:
        store, ref = put(folder, OURS)
        append(store, ref, user_entry("é" * 5), tool_result_entry("x\n```\n"), assistant_entry("a\n\nb"))
        path = folder_of(ref) / MD
        whole = path.read_bytes()
        saved = Path(ref.path).read_bytes(), (folder_of(ref) / ".session/session.json").read_bytes()
        for size in some_sizes(whole, step=5):
            path.write_bytes(whole[:size])
            Path(ref.path).write_bytes(saved[0])
            (folder_of(ref) / ".session/session.json").write_bytes(saved[1])
            (entry,) = append(store, ref, user_entry("next"))
            assert path.read_bytes() == whole + block(entry.id, "User", "next").encode(), size


@given(entries=sessions(), place=st.integers(0, 12))
def test_whatever_is_said_each_shown_message_has_one_mark(entries, place, tmp_path_factory):
    """Whether it was there when the conversation was made, or added to it."""
    place = min(place, len(entries))
    with in_memory(tmp_path_factory.mktemp("workspace")) as folder:
        store = store_in(folder)
        header = Header("2026-01-31/001-a-b", "2026-01-31T09:05:00.123Z", facts={"conversation_type": "a"})
        ref = store.create(header, entries[:place])
        for entry in entries[place:]:
            with store.writer(ref, after=None) as writer:
                writer.append([entry])
        text = (folder_of(ref) / "a.md").read_bytes()
        shown = list({mark(entry): entry for entry in entries if is_shown(entry)}.values())
        assert MARK.findall(text.decode()) == [mark(entry) for entry in shown]
        assert text.partition(b"\n")[2] == blocks(shown)


# --- what it costs --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_append_reads_neither_the_log_nor_the_transcript(tmp_path, monkeypatch):
    """Some blocks at their ends, however long they are; with a new writer for each, or one for all."""
    store = store_in(tmp_path)
    said = [user_entry("x" * 1000) for _ in range(2000)]
    ref = store.create(Header("2026-01-31/001-a-b", "2026-01-31T09:05:00.123Z"), said)
    read: list[int] = []
    pread = os.pread

    def counted(descriptor, length, offset):
        data = pread(descriptor, length, offset)
        read.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counted)
    with store.writer(ref, after=None) as writer:
        for _ in range(5):
            writer.append([user_entry("more")])
    assert sum(read) < 100_000
    read.clear()
    for _ in range(5):
        with store.writer(ref, after=None) as writer:
            writer.append([user_entry("more")])
    assert sum(read) < 300_000
    monkeypatch.undo()
    check_complete(ref)
