"""Entries: an envelope and its bytes."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import UsageError
from perdure.session.entry import (
    Assistant,
    Entry,
    Message,
    Text,
    ToolCall,
    Unknown,
    User,
    content_of,
    decode,
    meaning,
    new,
    placed,
)
from perdure.session.record import dumps, loads
from tests.generated import bodies, json_values, sessions, texts


@given(sessions())
def test_decode_then_encode_is_the_identity_on_bytes(entries):
    """What comes out of an entry is byte for byte what went in, and its envelope is the record's."""
    for entry in entries:
        again = decode(entry.raw)
        assert again.raw == entry.raw
        assert again == entry
        assert (again.type, again.id, again.parent_id, again.timestamp) == (
            entry.type,
            entry.id,
            entry.parent_id,
            entry.timestamp,
        )


@given(bodies)
def test_a_body_read_back_is_the_body_written(body):
    """Typed bodies survive the codec, lone surrogates, separators and big integers included."""
    assert decode(new(body, id="a", timestamp="t").raw).body == _as_read(body)


@given(st.dictionaries(texts, json_values, max_size=4), texts, st.one_of(st.none(), texts))
def test_a_new_place_changes_nothing_else(fields, id, parent):
    """Giving an entry another id and parent leaves every other member as it was written."""
    entry = decode(json.dumps({"type": "zebra", "id": "old", **fields}).encode())
    moved = placed(entry, id=id, parent_id=parent)
    assert (moved.id, moved.parent_id) == (id, parent)
    assert content_of(moved) == content_of(entry)


@pytest.mark.parametrize("arguments", [b'{"n":1e400}', b'{"n":[-1.5e999],"s":"\\ud800"}'])
@pytest.mark.parametrize(("moment", "is_exact"), [(b"1", True), (b"1e400", False)])
def test_a_tool_call_keeps_the_text_of_a_number_that_no_float_holds(arguments, moment, is_exact):
    """Where the time of its message is such a number too, it is still a number."""
    line = (
        b'{"type":"message","id":"a","parentId":null,"timestamp":"t","message":{"role":"assistant",'
        b'"content":[{"type":"toolCall","id":"c","name":"f","arguments":%b}],"timestamp":%b}}'
    )
    match decode(line % (arguments, moment)).body:
        case Message(message=Assistant(content=[ToolCall() as call])):
            written = arguments if is_exact else re.sub(rb"1e400|1\.5e999", b"1e999", arguments)
            assert dumps(call.arguments) == written
        case other:
            raise AssertionError(other)


def test_a_tool_call_may_be_nested_as_deeply_as_json_is_read():
    arguments = b'{"a":' + b"[" * 700 + b"]" * 700 + b"}"
    line = (
        b'{"type":"message","id":"a","parentId":null,"timestamp":"t","message":{"role":"assistant",'
        b'"content":[{"type":"toolCall","id":"c","name":"f","arguments":%b}]}}'
    )
    assert isinstance(decode(line % arguments).body, Message)


@pytest.mark.parametrize(
    "value",
    [
        "1e400",
        "-1e400",
        "9007199254740993",
        "1.0",
        "1E5",
        "-0.0",
        r'"\ud800"',
        r'"\u00e9"',
        "1" * 5000,
        "[1, 2 ,3]",
        "NaN",
    ],
)
def test_values_keep_the_bytes_they_were_written_with(value):
    """Numbers out of range, escapes and spacing are neither normalised nor lost when an entry is moved."""
    entry = decode(b'{"type":"zebra","id":"a","parentId":null,"x":%b,"y":"z"}' % value.encode())
    assert entry.raw == b'{"type":"zebra","id":"a","parentId":null,"x":%b,"y":"z"}' % value.encode()
    assert b'"x":%b,' % value.encode() in placed(entry, id="b").raw


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "char 0"),
        (b"[]", "not an object"),
        (b'"text"', "not an object"),
        (b'{"type":"x"', "delimiter"),
        (b'{"type":"x"}{"type":"y"}', "Extra data"),
        (b"\0\0\0", "char 0"),
        (b'{"type":"x","v":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}", "nested too deeply"),
    ],
)
def test_what_is_not_a_json_object_is_refused_with_the_reason(line, reason):
    """Only ValueError leaves the codec, whatever the bytes."""
    with pytest.raises(ValueError, match=reason):
        decode(line)


@given(st.binary(max_size=60))
def test_no_bytes_crash_the_codec(line):
    """Arbitrary bytes are an entry or a ValueError, and an entry can always be looked at."""
    try:
        entry = decode(line)
    except ValueError:
        return
    assert isinstance(entry.text, str)
    assert isinstance(entry.role, str)
    assert entry.raw == line


def test_strange_envelopes_are_read_as_text():
    """A number for an id, an object for a time: still an entry, so that nothing of it is lost."""
    entry = decode(b'{"type":7,"id":5,"parentId":4,"timestamp":{"a":1}}')
    assert (entry.type, entry.id, entry.parent_id) == ("7", "5", "4")


def test_a_message_with_one_unknown_block_keeps_the_others_typed():
    """One block of a future kind does not make the rest of the message unreadable."""
    body = Entry.message("assistant", [{"type": "text", "text": "hi"}, {"type": "hologram", "x": 1}]).body
    assert isinstance(body, Message)
    assert isinstance(body.message, Assistant)
    assert body.message.content == [Text("hi"), {"type": "hologram", "x": 1}]


def test_a_message_keeps_the_fields_it_was_given():
    """Members this version does not know are written too, after the ones it does."""
    entry = Entry.message("user", "hi", mood="calm", timestamp=5)
    assert loads(entry.raw)["message"] == {"role": "user", "content": "hi", "timestamp": 5, "mood": "calm"}
    assert entry.body == Message(User("hi", 5))


def test_a_message_of_an_unknown_role_is_kept():
    entry = Entry.message("oracle", "so be it")
    assert entry.role == "oracle"
    assert isinstance(entry.body, Unknown)


def test_invalid_utf8_is_shown_replaced_and_kept_as_it_is():
    """Bytes in, bytes out; what is shown has the replacement character."""
    line = b'{"type":"message","id":"a","message":{"role":"user","content":"caf\xe9"}}'
    entry = decode(line)
    assert entry.raw == line
    assert entry.text == "caf\ufffd"


def test_two_records_that_say_the_same_are_the_same():
    """Spacing and escapes do not make another record; another value does."""
    one = meaning(decode(b'{"type":"zebra","id":"a","x":"\\u00e9","y":1.0}'))
    assert one == meaning(decode('{"id":"a", "type":"zebra", "x":"é", "y":1}'.encode()))
    assert one != meaning(decode(b'{"type":"zebra","id":"a","x":"e","y":1}'))
    assert one != meaning(decode('{"type":"zebra","id":"a","x":"é","y":true}'.encode()))


def _as_read(body):
    """An unknown kind comes back with its whole record, place included."""
    if not isinstance(body, Unknown):
        return body
    place = {"type": body.type, "id": "a", "parentId": None, "timestamp": "t"}
    return Unknown(body.type, {**place, **{k: v for k, v in body.fields.items() if k not in place}})


def test_no_member_of_a_record_is_taken_for_something_about_it():
    """Whatever a record's members are called, its bytes stay its bytes."""
    line = '{"type":"zebra","id":"a","\ufffdseal":9,"\ufffdline":"aGk=","v":"important"}'.encode()
    assert decode(line).raw == line


@pytest.mark.parametrize(
    ("arguments", "fields", "said"),
    [
        (("toolResult", "42"), {"toolCallId": "c"}, "toolResult message needs toolName"),
        (("assistant", None), {}, "text or a list of blocks"),
        (("user", b"bytes"), {}, "text or a list of blocks"),
        (("user", "x"), {"details": object()}, "JSON cannot hold"),
    ],
)
def test_a_message_that_cannot_be_one_is_refused_in_a_sentence(arguments, fields, said):
    """Before it is anywhere near a file, and with what is missing."""
    with pytest.raises(UsageError, match=said):
        Entry.message(*arguments, **fields)


def test_an_answer_has_all_that_the_original_counts_on():
    """Whatever part of its usage was given; and no two answers share their defaults."""
    first = loads(Entry.message("assistant", "ok", usage={"input": 3, "cost": {"total": 1}}).raw)["message"]
    assert first["usage"]["input"] == 3
    assert first["usage"]["output"] == 0
    assert first["usage"]["cost"] == {"total": 1, "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    second = loads(Entry.message("assistant", "ok").raw)["message"]
    assert second["usage"]["cost"]["total"] == 0
    assert Assistant([]).usage == second["usage"]


@pytest.mark.parametrize("content", ["so be it", [{"type": "text", "text": "so be it"}, {"type": "odd"}]])
def test_the_text_of_a_message_of_any_role_can_be_read(content):
    assert Entry.message("oracle", content).text == "so be it"


def test_the_tools_that_an_answer_calls_can_be_read():
    """In their order, also beside a block that this version does not know; and nothing else calls any."""
    calls = [
        {"type": "toolCall", "id": str(number), "name": "bash", "arguments": {"x": number}}
        for number in (1, 2)
    ]
    expected = [ToolCall("1", "bash", {"x": 1}), ToolCall("2", "bash", {"x": 2})]
    for others in ([], [{"type": "text", "text": "let me see"}], [{"type": "from_the_future"}]):
        assert Entry.message("assistant", [calls[0], *others, calls[1]]).tool_calls == expected
    for entry in (
        Entry.message("assistant", "done"),
        Entry.message("user", "go"),
        Entry.message("toolResult", "42", toolCallId="1", toolName="bash"),
        Entry.message("oracle", calls),
        decode(b'{"type":"message","id":"a","message":{"role":"assistant","content":"text"}}'),
        decode(b'{"type":"compaction","id":"a","summary":"short"}'),
    ):
        assert entry.tool_calls == []


def test_entries_that_say_the_same_are_equal_and_not_unequal():
    """Wherever they were read; a checksum behind one makes no difference."""
    one, other = decode(b'{"type":"x","id":"a"}'), decode(b'{"type":"x","id":"a","crc":"00000000"}', 18)
    assert one == other
    assert not one != other  # noqa: SIM202
    assert one != decode(b'{"type":"y","id":"a"}')
