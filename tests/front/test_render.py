"""A session as parts to read: every kind of entry has a speaker and something to show, and nothing raises."""

import base64
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given

from perdure.front import render
from perdure.front.render import Call, Command, Note, Picture, Prose, Result, Thought
from perdure.session.entry import Assistant, Entry, Message, Text, User
from perdure.session.session import Session
from perdure.session.stores import Header, Store
from perdure.testing import assistant_entry, tool_call_entry, tool_result_entry, user_entry
from perdure.testing.corpus import HOSTILE_TEXT, HOSTILE_VALUES, KINDS, message_record, record
from perdure.testing.writing import child, turns
from tests.generated import sessions
from tests.layouts import store_of

STAMP = "2026-01-31T09:05:00.123Z"


def png(width: int = 96, height: int = 48) -> str:
    """A picture that browsers show: a slope of blue, in base64."""
    rows = b"".join(
        b"\0" + bytes(c for x in range(width) for c in (40, 90 + y, 120 + x)) for y in range(height)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    made = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows))
    return base64.b64encode(made + chunk(b"IEND", b"")).decode()


ANSWER = """\
The race is in `refresh()`: **two requests** that start together both see an old token, and *both* renew it.

| request | sees | does | ms |
|:--------|:----:|------|---:|
| first | old token | renews | 120 |
| second | old token | renews **again** | 240 |

```python
async def refresh(self) -> Token:
    # Only one of them renews; the other waits for it.
    async with self._lock:
        if self.token.age < LIMIT and not self._stale("refresh"):
            return self.token
        self.token = await self._renew(retries=3)
    return self.token
```

## What is left

1. A test that starts both at once
2. The same in `logout()`:
   - see [the RFC](https://www.rfc-editor.org/rfc/rfc6749 "OAuth 2.0"), section 6
   - ![a diagram](https://example.org/race.png)

> Tokens are renewed at most once a minute.

~~No lock is needed.~~ Done.
"""

EDIT = {
    "path": "src/auth/session.py",
    "oldText": "def refresh(self):\n    return self._renew()\n",
    "newText": "async def refresh(self):\n    async with self._lock:\n        return await self._renew()\n",
}


def conversation() -> list[Entry]:
    """All there is in a conversation, each entry behind the one before it."""
    thinking = {
        "type": "thinking",
        "thinking": "Two requests, one token.\n\nWhich one wins? *Both*, it seems.",
    }
    call = {
        "type": "toolCall",
        "id": "a",
        "name": "bash",
        "arguments": {"command": "rg -n 'def refresh' src"},
    }
    more = {"type": "toolCall", "id": "b", "name": "edit", "arguments": EDIT}
    picture = {"type": "image", "data": png(), "mimeType": "image/png"}
    said = [
        record("model_change", b',"provider":"scripted","modelId":"scripted-1"'),
        message_record(b'"You are a careful engineer."', b"system"),
        Entry.message("user", [{"type": "text", "text": "The auth bug is back.\nSee the log:"}, picture]),
        Entry.message(
            "assistant", [thinking, {"type": "text", "text": "I look."}, call, more], model="scripted-1"
        ),
        tool_result_entry("\x1b[32msrc/auth/session.py\x1b[0m:41:def refresh(self):", call_id="a"),
        tool_result_entry("oldText was not found", call_id="b", name="edit", is_error=True),
        assistant_entry(ANSWER, model="scripted-1"),
        message_record(b'""', b"bashExecution", b',"command":"make test","output":"12 passed","exitCode":1'),
        user_entry("Now the same in logout()"),
        record("compaction", b',"summary":"**Auth**: a lock in `refresh()`.","firstKeptEntryId":"a"'),
        record("custom_message", b',"customType":"lint","content":"2 warnings left","display":true'),
        record("from_the_future", b',"list":[1,{"two":null}]'),
        Entry.message("assistant", "I was", model="scripted-2", stopReason="aborted"),
    ]
    chained: list[Entry] = []
    for entry in said:
        chained.append(child(entry, chained[-1] if chained else None))
    return chained


def kept(store: Store, entries: Sequence[Entry], **facts: object) -> Session:
    """A new session with these entries, to be read."""
    header = Header("", STAMP, cwd="/home/me/api", facts=facts)
    return Session.view(store, store.create(header._replace(id=store.new_id(header)), entries))


def said(*entries: Entry) -> list[render.Turn]:
    return render.turns(entries)


def texts(turn: render.Turn) -> str:
    """All there is to read in a turn."""
    found = [turn.speaker, turn.detail, turn.label]
    for part in turn.parts:
        match part:
            case Prose(text=text) | Thought(text=text) | Note(text=text) | Result(text=text):
                found.append(text)
            case Call(name=name, arguments=arguments, result=result):
                found += [name, render.as_json(arguments), result.text if result else ""]
            case Command(command=command, output=output, outcome=outcome):
                found += [command, output, outcome]
            case Picture(media_type=media_type):
                found.append(media_type)
    return "\n".join(found)


# --- every kind ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_entry_has_a_speaker_and_something_to_read(kind):
    """Known or not; and in a line too."""
    turn = render.turn(KINDS[kind]())
    assert turn.speaker
    assert texts(turn).strip() != turn.speaker or kind == "usage"
    assert "\n" not in render.gist(turn)


@pytest.mark.parametrize("kind", ["unknown kind", "unknown block", "unknown role"])
def test_what_nobody_knows_is_named_and_not_dumped(kind):
    """The kind of an entry or of a block, or the role of a message; nothing of what is in it."""
    shown = texts(render.turn(KINDS[kind]()))
    name = {"unknown kind": "from_the_future", "unknown block": "hologram", "unknown role": "oracle"}[kind]
    assert name in shown
    assert "does not know" in shown
    assert "two" not in shown
    assert "depth" not in shown


def test_a_message_of_an_unknown_role_is_read_all_the_same():
    """What it says is in the usual place."""
    turn = render.turn(KINDS["unknown role"]())
    assert turn.speaker == "oracle"
    assert turn.parts[0] == Prose("said")


def test_who_speaks_in_a_whole_conversation():
    """One turn an entry, but results are with their calls."""
    found = said(*conversation())
    assert [(turn.speaker, turn.detail) for turn in found] == [
        ("note", ""),
        ("system", ""),
        ("user", ""),
        ("assistant", "scripted-1"),
        ("assistant", "scripted-1"),
        ("bash", ""),
        ("user", ""),
        ("summary", "of what was said before"),
        ("program", "lint"),
        ("note", ""),
        ("assistant", "scripted-2"),
    ]
    assert found[2].parts == [Prose("The auth bug is back.\nSee the log:"), Picture("image/png", png())]
    assert found[5].parts == [Command("make test", "12 passed", "exit code 1")]
    assert found[-1].parts == [Prose("I was"), Note("interrupted", is_error=True)]


def test_an_answer_that_failed_says_why():
    """An error of the provider's is a part of the turn."""
    turn = render.turn(Entry.message("assistant", [], stopReason="error", errorMessage="overloaded"))
    assert turn.parts == [Note("failed: overloaded", is_error=True)]


def test_thinking_its_provider_keeps_to_itself_is_empty():
    """A redacted block has text, but not for us."""
    block = {"type": "thinking", "thinking": "cipher", "redacted": True}
    assert render.turn(Entry.message("assistant", [block])).parts == [Thought("")]


def test_a_picture_knows_its_size():
    """In bytes, not in the characters of its base64."""
    for count in range(8):
        assert Picture("image/png", base64.b64encode(b"x" * count).decode()).size == count


def test_colours_a_tool_printed_are_no_content():
    """And Windows' line ends are line ends."""
    assert render.printed("\x1b[1;31mred\x1b[0m \x1b[38:5:9mmore\x1b[m\r\nend") == "red more\nend"
    assert render.printed("\x1b[2J\x1b]0;title\x07") == "\x1b[2J\x1b]0;title\x07"


def test_labels_are_where_they_hang_and_no_turns_of_their_own():
    """A labelled result has its label in the call."""
    call, result = tool_call_entry("bash", {"command": "ls"}), tool_result_entry("a.py")
    label = record("label", b',"targetId":"%b","label":"look"' % result.id.encode())
    (turn,) = render.turns([call, result, label], {result.id: "look", call.id: "start"})
    assert turn.label == "start"
    (part,) = turn.parts
    assert isinstance(part, Call)
    assert part.result == Result(result.id, result.timestamp, "a.py", [], False, "look")


# --- calls and results --------------------------------------------------------------------------------


def test_each_result_is_with_the_last_call_before_it_that_has_its_id():
    """Programs count their calls from one again."""
    first, second = tool_call_entry("bash", {"command": "a"}), tool_call_entry("bash", {"command": "b"})
    found = said(first, tool_result_entry("of a"), second, tool_result_entry("of b"))
    answers = [
        part.result.text for turn in found for part in turn.parts if isinstance(part, Call) and part.result
    ]
    assert answers == ["of a", "of b"]
    assert len(found) == 2


def test_a_result_without_a_call_stands_alone():
    """Also one that comes before its call, or a second one."""
    result, call = tool_result_entry("early"), tool_call_entry("bash", {})
    early, called = said(result, call)
    assert (early.speaker, early.detail, texts(early).split()[-1]) == ("tool", "bash", "early")
    assert called.parts[0] == Call("call-1", "bash", {}, None)
    _, again = said(call, tool_result_entry("one"), tool_result_entry("two"))
    assert again.speaker == "tool"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"timeout": 5, "command": "ls -la\nrm x"}, "ls -la …"),
        ({"content": "text", "path": "a.py"}, "a.py"),
        ({"what": "  \n\n words\n"}, "words"),
        ({"n": 5}, '{"n": 5}'),
        ({}, ""),
        (None, ""),
        ("half of a", "half of a"),
        ([1, 2], "[1, 2]"),
        ({"command": ""}, '{"command": ""}'),
    ],
)
def test_the_line_of_a_call_is_what_people_look_at_first(arguments, line):
    """Its command or its file; else the first text; else all of it."""
    assert render.glance(arguments) == line


def test_the_arguments_of_a_call_know_what_they_are_written_in():
    """A command, the text of a file, JSON; and are one line or a block."""
    fields = render.fields(
        {"command": "ls", "path": "a.py", "content": "x = 1\n", "edits": [{"a": 1}], "n": 5}
    )
    assert [(field.name, field.hint, field.is_long) for field in fields] == [
        ("command", "bash", False),
        ("path", "", False),
        ("content", "a.py", True),
        ("edits", "json", True),
        ("n", "json", False),
    ]
    assert render.fields(None) == []
    assert render.fields("half") == [render.Field("", "half", "json")]


@pytest.mark.slow
def test_arguments_nested_beyond_reason_are_said_to_be():
    """A stack that ends is no answer."""
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]
    assert render.as_json(deep) == "(nested too deeply to be shown)"
    assert render.glance({"x": deep}) == "(nested too deeply to be shown)"
    while isinstance(deep, list):
        deep = deep.pop()  # or the interpreter itself ends with the stack


@pytest.mark.parametrize(
    ("timestamp", "shown"),
    [
        (STAMP, "2026-01-31 09:05 UTC"),
        ("2026-01-31T10:05:00+01:00", "2026-01-31 09:05 UTC"),
        ("yesterday", "yesterday"),
        ("", ""),
        ("9999-99-99T00:00:00Z", "9999-99-99T00:00:00Z"),
    ],
)
def test_a_time_is_shown_the_same_to_all_readers(timestamp, shown):
    """What is no time is shown as it stands."""
    assert render.clock(timestamp) == shown


# --- nothing raises -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in HOSTILE_TEXT if "MB" not in name])
def test_hostile_text_is_read_in_every_place(name):
    """As it is: to make it fit to be seen is what a face does."""
    text = HOSTILE_TEXT[name]()
    for entry in (
        message_record(b'"%b"' % text),
        message_record(b'[{"type":"text","text":"%b"}]' % text, b"assistant"),
        message_record(b'[{"type":"thinking","thinking":"%b"}]' % text, b"assistant"),
        message_record(
            b'[{"type":"toolCall","id":"c","name":"%b","arguments":{"%b":"%b"}}]' % (text, text, text),
            b"assistant",
        ),
        record("compaction", b',"summary":"%b"' % text),
        record("custom", b',"customType":"%b","data":{"status":"%b"}' % (text, text)),
        record("session_info", b',"name":"%b"' % text),
    ):
        assert texts(render.turn(entry)).strip()


@pytest.mark.parametrize("value", HOSTILE_VALUES.values(), ids=HOSTILE_VALUES)
def test_any_value_in_any_member_is_read(value):
    """Numbers where a text should be, lists where an object should: named at worst."""
    members = ["content", "summary", "name", "label", "data", "customType", "modelId", "targetId", "message"]
    for kind in (
        "message",
        "compaction",
        "custom",
        "custom_message",
        "label",
        "session_info",
        "model_change",
        "x",
    ):
        for member in members:
            entry = record(kind, b',"%b":%b' % (member.encode(), value))
            assert render.turn(entry).speaker
            json_of(render.entry_data(entry, is_on_path=True))
    for member in ("content", "role", "model", "toolCallId", "command", "output", "exitCode", "stopReason"):
        for role in (b"user", b"assistant", b"toolResult", b"bashExecution", b"custom", b"x"):
            entry = message_record(b'"said"', role, b',"%b":%b' % (member.encode(), value))
            assert render.turn(entry).speaker


@given(entries=sessions())
def test_no_session_raises_and_nothing_said_is_missing(entries):
    """Every text of every message is in one of the turns."""
    shown = "\n".join(map(texts, render.turns(entries)))
    for entry in entries:
        match entry.body:
            case Message(message=User(content=content) | Assistant(content=content)):
                blocks = [Text(content)] if isinstance(content, str) else content
                for said in (block.text for block in blocks if isinstance(block, Text)):
                    assert said.replace("\r\n", "\n").strip("\n") in shown


# --- the whole ----------------------------------------------------------------------------------------


def json_of(value: object) -> object:
    """Through the strictest of readers."""
    import json

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    return json.loads(json.dumps(value, indent=2), parse_constant=refuse)


def test_a_session_for_programs_has_every_entry_and_which_are_its_path(tmp_path):
    """Of every branch, in the order they were written, with the record itself."""
    ask, *rest = turns(3)
    left = child(user_entry("left"), ask)
    label = child(record("label", b',"targetId":"%b","label":"start"' % ask.id.encode()), left)
    session = kept(store_of("pi", tmp_path), [ask, left, label, *rest], mood=3)
    found = render.data(session)
    assert json_of(found) == found
    assert found["program"] == "pi"
    assert found["path"] == session.ref.path
    assert found["header"]["facts"] == {"mood": 3}
    assert found["labels"] == {ask.id: "start"}
    assert found["head"] == rest[-1].id
    assert found["status"] == "interrupted"
    assert [(each["id"], each["on_path"]) for each in found["entries"]] == [
        (ask.id, True),
        (left.id, False),
        (label.id, False),
        *((entry.id, True) for entry in rest),
    ]
    assert found["entries"][0]["record"]["message"]["content"] == "turn 0"


@pytest.mark.parametrize("value", [b"1e400", b"[" * 900 + b"]" * 900], ids=["out of range", "deep"])
def test_a_record_not_every_reader_takes_is_given_as_its_text(value):
    """So that the whole is JSON for all of them, and nothing is lost."""
    entry = record("zebra", b',"stripes":%b' % value)
    found = render.entry_data(entry, is_on_path=True)
    assert found["record"] == entry.raw.decode()
    assert json_of(found) == found


def test_a_document_says_what_it_leaves_out(tmp_path):
    """Other branches, and damage."""
    ask, *rest = turns(3)
    session = kept(store_of("pi", tmp_path), [ask, child(user_entry("left"), ask), *rest])
    path = Path(session.ref.path)
    path.write_bytes(path.read_bytes() + b'{"torn')
    facts = dict(render.document(Session.view(session.store, session.ref)).facts)
    assert facts["other branches"] == "1, not shown here"
    assert facts["damage"].startswith("line 6: ")
    assert facts["messages"] == "3"
    assert facts["directory"] == "/home/me/api"


def test_a_branch_is_another_one_wherever_the_conversation_stands(tmp_path):
    """Also if nothing was said since it was left, and the conversation ends in the middle of it."""
    first, second, third = turns(3)
    session = kept(store_of("pi", tmp_path), [first, second, third])
    assert render.other_branches(session, session.path()) == 0
    assert render.other_branches(session, [first, second]) == 1


def test_a_session_in_which_nothing_was_said_is_a_document_too(tmp_path):
    """Named by its id."""
    session = kept(store_of("pi", tmp_path), [])
    found = render.document(session)
    assert found.title == session.id
    assert found.turns == []
