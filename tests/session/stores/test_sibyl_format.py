"""Entries, tool calls and JSON values as Lisp data: the same again when they are read, ours or others'."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.session import sexp
from perdure.session.entry import Entry, decode, meaning
from perdure.session.record import canonical, dumps, loads
from perdure.session.sexp import Keyword, Pair
from perdure.session.stores import sibyl_rules
from perdure.session.stores.sibyl_format import (
    call_form,
    call_json,
    entry_of,
    json_of,
    message_form,
    value_of,
)
from perdure.testing.corpus import HOSTILE_TEXT, HOSTILE_VALUES, KINDS, message_record
from tests.generated import json_values, sessions, texts

JSON = Keyword("json")
CALLED = ':timestamp "2026-01-31T09:05:00.123Z" :tool-calls ((:id "1" :name "n" :arguments nil))'


def through_lisp(form):
    return sexp.loads(sexp.dumps(form))


def same(raw: bytes) -> bytes:
    return canonical(loads(b'{"value":%b}' % raw))


# --- values -----------------------------------------------------------------------------------------


@given(json_values)
def test_sib_01_any_json_value_comes_back_from_lisp(value):
    """The same value, whatever it is."""
    raw = dumps(value)
    assert same(json_of(through_lisp(value_of(raw)))) == same(raw)


@pytest.mark.parametrize("name", HOSTILE_VALUES)
def test_sib_01_a_number_keeps_its_digits_and_an_object_its_members(name):
    """Byte for byte, whether it is a number in Lisp or not."""
    assert json_of(through_lisp(value_of(HOSTILE_VALUES[name]))) == HOSTILE_VALUES[name]


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'"a"', "a"),
        (b'"\\u0041\\/\\n\\"\\\\"', 'A/\n"\\'),
        (b"0", 0),
        (b"-7", -7),
        (b"18446744073709551617", 18446744073709551617),
        (b"0.5", 0.5),
        (b"-1.25e-7", -1.25e-7),
        (b"1e22", 1e22),
        (b"true", [JSON, "true"]),
        (b"false", [JSON, "false"]),
        (b"null", [JSON, "null"]),
        (b"[1]", [JSON, "[1]"]),
        (b"{}", [JSON, "{}"]),
        (b"-0", [JSON, "-0"]),
        (b"0.10", [JSON, "0.10"]),
        (b"1E5", [JSON, "1E5"]),
        (b"1e400", [JSON, "1e400"]),
        (b'"\\ud800"', [JSON, '"\\ud800"']),
        (b'"a\\u0000"', [JSON, '"a\\u0000"']),
    ],
)
def test_sib_01_what_is_the_same_in_lisp_is_written_plainly(raw, value):
    """Text, and numbers Lisp gives back to the last digit; anything else as the JSON it is."""
    assert repr(value_of(raw)) == repr(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("t", True),
        (":fast", "fast"),
        ('(1 "a" nil)', [1, "a", None]),
        ('(("a" . 1) ("b" 2 3) ("c"))', {"a": 1, "b": [2, 3], "c": None}),
        ('((:a . 1) (:b . ((:c . "d"))))', {"a": 1, "b": {"c": "d"}}),
        ('(("a" . 1) ("a" . 2))', {"a": 1}),
        ('(("a" "b") ("c" "d"))', [["a", "b"], ["c", "d"]]),
        ("(1 2 . 3)", None),
    ],
)
def test_sib_04_other_programs_data_is_read_as_what_it_most_likely_is(text, value):
    """An association list is an object if a dot says that it is one; a chain of pairs is nothing in JSON."""
    if value is None and text != "nil":
        with pytest.raises(ValueError, match="name"):
            json_of(sexp.loads(text))
    else:
        assert json.loads(json_of(sexp.loads(text))) == value


@pytest.mark.parametrize("text", ["", "{", "1 2", '{"a":1},"b":2', "tru", "]", "[" * 10_000, '"\\ud800'])
def test_sib_04_what_only_calls_itself_json_is_refused(text):
    """It must not break the record it would become part of."""
    with pytest.raises(ValueError, match=r"."):
        json_of([JSON, text])


# --- tool calls -------------------------------------------------------------------------------------


@given(texts, texts, json_values, st.dictionaries(texts, json_values, max_size=3))
def test_sib_01_a_tool_call_comes_back(id, name, arguments, extras):
    """Id, name, arguments that are an object or anything else, and members nobody knows."""
    call = {**extras, "type": "toolCall", "id": id, "name": name, "arguments": arguments}
    back = call_json(through_lisp(call_form(dumps(call))))
    assert same(back) == same(dumps(call))


def test_sib_01_a_tool_call_looks_as_the_document_shows_it():
    """A property list whose arguments are an association list; nil for none."""
    call = b'{"type":"toolCall","id":"tc_42","name":"read-file","arguments":{"path":"/tmp/foo.lisp","n":5}}'
    assert sexp.dumps(call_form(call)) == (
        '(:id "tc_42" :name "read-file" :arguments (("path" . "/tmp/foo.lisp") ("n" . 5)))'
    )
    call = b'{"type":"toolCall","id":"tc_99","name":"no-args","arguments":{}}'
    assert sexp.dumps(call_form(call)) == '(:id "tc_99" :name "no-args" :arguments nil)'


@pytest.mark.parametrize(
    ("form", "arguments"),
    [
        ('(:id "1" :name "n")', {}),
        ('(:ID "1" :NAME "n" :ARGUMENTS NIL)', {}),
        ('(:id "1" :name "n" :arguments (("a" . "b")))', {"a": "b"}),
        ('(:id "1" :name "n" :arguments (("a" "b" "c")))', {"a": ["b", "c"]}),
        ('(:id "1" :name "n" :arguments ((:a . 1) (:b)))', {"a": 1, "b": None}),
        ('(:id "1" :name "n" :arguments (:a 1 :b "c"))', {"a": 1, "b": "c"}),
        ('(:id "1" :name "n" :arguments "{\\"a\\": 1}")', {"a": 1}),
        ('(:id "1" :name "n" :arguments "{a")', "{a"),
        ('(:id "1" :name "n" :arguments (1 2))', [1, 2]),
    ],
)
def test_sib_01_other_programs_tool_calls_are_read(form, arguments):
    """However they write a mapping."""
    call = json.loads(call_json(sexp.loads(form)))
    assert call == {"type": "toolCall", "id": "1", "name": "n", "arguments": arguments}


# --- messages ---------------------------------------------------------------------------------------


def comes_back(entry: Entry) -> bool:
    form = message_form(entry)
    return form is None or meaning(entry_of(through_lisp(form))) == meaning(entry)


@given(sessions())
def test_sib_02_a_message_comes_back(entries):
    """What is said, to the last member, in every kind of content."""
    for entry in entries:
        left = sibyl_rules.stripped(entry)
        assert left is None or comes_back(left)


@pytest.mark.parametrize("kind", KINDS)
def test_sib_02_each_kind_of_message_comes_back(kind):
    """Or it is none, and stands elsewhere."""
    left = sibyl_rules.stripped(KINDS[kind]())
    assert left is None or comes_back(left)


@pytest.mark.parametrize("text", [name for name in HOSTILE_TEXT if "MB" not in name])
@pytest.mark.parametrize(
    "content",
    [
        b'"%b"',
        b'[{"type":"text","text":"%b"}]',
        b'[{"type":"text","text":"%b"},{"type":"toolCall","id":"%b","name":"%b","arguments":{"%b":"%b"}}]',
        b'[{"type":"toolCall","id":"1","name":"n","arguments":{}},{"type":"text","text":"%b"}]',
        b'[{"type":"%b","%b":{"%b":"%b"}},{},7,null,[]]',
    ],
)
@pytest.mark.parametrize("role", [b"user", b"assistant"])
def test_sib_02_hostile_text_comes_back_from_every_place(text, content, role):
    """As text, in blocks, in calls, and as a name."""
    raw = content.replace(b"%b", HOSTILE_TEXT[text]())
    assert message_form(message_record(raw, role)) is not None
    assert comes_back(message_record(raw, role))


@pytest.mark.parametrize("text", [name for name in HOSTILE_TEXT if "MB" not in name])
def test_sib_02_a_hostile_id_parent_or_time_comes_back(text):
    """Whoever gave it."""
    raw = HOSTILE_TEXT[text]()
    entry = decode(
        b'{"type":"message","id":"%b","parentId":"%b","timestamp":"%b","message":{"role":"user","content":""}}'
        % (raw, raw, raw)
    )
    assert message_form(entry) is not None
    assert comes_back(entry)


@pytest.mark.parametrize(
    ("content", "role", "shown"),
    [
        (b'"hi"', b"user", ':content "hi"'),
        (b'""', b"user", ':content ""'),
        (b'[{"type":"text","text":"hi"}]', b"user", ':content ((("type" . "text") ("text" . "hi")))'),
        (b'[{"type":"text","text":"hi"}]', b"assistant", ':content "hi"'),
        (b"[]", b"assistant", ":content nil"),
        (
            b'[{"type":"toolCall","id":"1","name":"n","arguments":{}}]',
            b"assistant",
            f":content nil {CALLED}",
        ),
        (
            b'[{"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"toolCall","id":"1","name":"n","arguments":{}}]',
            b"assistant",
            f':content ((("type" . "image") ("data" . "aGk=") ("mimeType" . "image/png"))) {CALLED}',
        ),
        (
            b'[{"type":"toolCall","id":"1","name":"n","arguments":{}},{"type":"text","text":"hi"}]',
            b"assistant",
            f':content "hi" {CALLED}',
        ),
    ],
)
def test_sib_02_content_is_a_string_a_list_of_blocks_or_nil(content, role, shown):
    """The calls behind it; where they stand between blocks, they are shown all the same."""
    text = sexp.dumps(message_form(message_record(content, role)))
    assert text.startswith(f"(:role :{role.decode()} {shown}")


def test_sib_02_a_tool_result_says_which_call_it_answers():
    """As the document has it, and then the name and whether it failed."""
    members = b',"toolCallId":"tc_1","toolName":"shell","isError":true'
    form = message_form(message_record(b'[{"type":"text","text":"ok"}]', b"toolResult", members))
    text = sexp.dumps(form)
    assert text.startswith(
        '(:role :tool :content "ok" :timestamp "2026-01-31T09:05:00.123Z" :tool-call-id "tc_1"'
    )
    assert ':name "shell" :is-error (:json "true")' in text


@pytest.mark.parametrize(
    ("text", "message", "timestamp"),
    [
        (
            '(:ROLE :USER :CONTENT "hi" :TIMESTAMP "2025-02-20T14:30:22Z" :TOOL-CALLS NIL :TOOL-CALL-ID NIL)',
            {"role": "user", "content": "hi", "timestamp": 1740061822000},
            "2025-02-20T14:30:22Z",
        ),
        (
            '(:role :user :content ((("type" . "text") ("text" . "hi"))) :timestamp 3949050622)',
            {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 1740061822000},
            "2025-02-20T14:30:22.000Z",
        ),
        (
            '(:role :user :content ((:type "text" :text "hi")) :timestamp 1740061822)',
            {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 1740061822000},
            "2025-02-20T14:30:22.000Z",
        ),
        (
            '(:role "assistant" :content nil :timestamp 1740061822123 :tool-calls ((:id "1" :name "n")))',
            {
                "role": "assistant",
                "content": [{"type": "toolCall", "id": "1", "name": "n", "arguments": {}}],
                "timestamp": 1740061822123,
            },
            "2025-02-20T14:30:22.123Z",
        ),
        (
            '(:role :tool :content "ok" :tool-call-id "1")',
            {
                "role": "toolResult",
                "content": [{"type": "text", "text": "ok"}],
                "toolCallId": "1",
                "toolName": "",
                "isError": False,
            },
            "",
        ),
        (
            '(:role :assistant :content "so" :thinking "hm" :model "m")',
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "so"}],
                "model": "m",
            },
            "",
        ),
    ],
)
def test_sib_02_other_programs_messages_are_read(text, message, timestamp):
    """In either case, with times that are numbers, blocks that are lists, and fields that are nil."""
    entry = entry_of(sexp.loads(text), "r1", None)
    assert json.loads(entry.raw)["message"] == message
    assert (entry.id, entry.parent_id, entry.timestamp) == ("r1", None, timestamp)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(:role :user)", "content"),
        ('(:content "hi")', "role"),
        ("(:role :user :content)", "property list"),
        ('(:role :user :content "hi" . 1)', "property list"),
        ('("role" "user")', "keyword"),
        ('"hi"', "property list"),
        ("nil", "property list"),
        ('(:role 1 :content "hi")', "role"),
        ('(:role :assistant :content "hi" :tool-calls "x")', "tool calls"),
        ('(:role :user :content (:json "{"))', "char"),
    ],
)
def test_sib_02_what_is_no_message_is_refused_with_a_reason(text, why):
    """Whoever reads a file says where it stands."""
    with pytest.raises(ValueError, match=why):
        entry_of(sexp.loads(text))


def test_sib_02_what_another_program_keeps_in_a_message_is_a_member_of_the_entry():
    """So that it goes with it to any layout."""
    entry = entry_of(sexp.loads('(:role :user :content "hi" :mood (("level" . 1.5)) :seen t :gone nil)'))
    record = json.loads(entry.raw)
    assert (record["mood"], record["seen"], "gone" in record) == ({"level": 1.5}, True, False)
    assert comes_back(decode(entry.raw))


def test_sib_01_a_name_twice_is_not_made_one():
    """An association list would keep the first, and JSON the last."""
    call = b'{"type":"toolCall","id":"1","name":"n","arguments":{"a":1,"a":2}}'
    assert call_form(call)[-1] == [JSON, '{"a":1,"a":2}']
    assert call_form(call.replace(b',"a":2', b" "))[-1] == [Pair("a", 1)]
