"""Messages out of what a program prints: lines of any length, cut anywhere, and what is no message at all."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.mcp.program import LONGEST_MESSAGE, Lines, TooLong, message_of


@given(
    st.lists(st.binary(max_size=60).map(lambda line: line.replace(b"\n", b""))), st.lists(st.integers(1, 40))
)
def test_lines_are_the_same_however_they_are_cut(lines, cuts):
    data = b"".join(line + b"\n" for line in lines) + b"unfinished"
    reader, found = Lines(20), list[bytes | TooLong]()
    for size in [*cuts, len(data)]:
        piece, data = data[:size], data[size:]
        found += reader.feed(piece)
    assert [isinstance(each, TooLong) for each in found] == [len(line) > 20 for line in lines]
    for line, each in zip(lines, found, strict=True):
        assert each == line if isinstance(each, bytes) else line.startswith(each.start[:20])


def test_a_line_without_end_takes_no_memory():
    reader = Lines(1000)
    for _ in range(1000):
        assert [*reader.feed(b"x" * 10_000)] == []
    assert len(reader._open) <= 1000
    assert [*reader.feed(b"tail\nnext\n")][1] == b"next"


def answer(id: int, text: str, *, id_is_last: bool) -> bytes:
    result = {"content": [{"type": "text", "text": text}], "structuredContent": {"id": 99}}
    whole = {"jsonrpc": "2.0", "id": id, "result": result}
    return json.dumps({"result": result, "jsonrpc": "2.0", "id": id} if id_is_last else whole).encode()


@pytest.mark.slow
@pytest.mark.parametrize("id_is_last", [True, False])
def test_an_answer_that_is_too_long_fails_its_own_call(id_is_last):
    """Wherever a server writes what it answers; ids inside the answer do not count."""
    line = answer(7, '"id": 5}' + "x" * LONGEST_MESSAGE + '{"jsonrpc":"2.0","id":5,', id_is_last=id_is_last)
    (found,) = Lines(LONGEST_MESSAGE).feed(line + b"\n")
    message = message_of(found)
    assert message is not None
    assert message.model_dump()["id"] == 7
    assert "longer than 16 MB" in message.model_dump()["error"]["message"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":3,"result":[]}',
        b'{"result":{"a":1e,"jsonrpc":"2.0","id":3}',
        b'{"jsonrpc":"2.0","id":3,"result":' + b'{"a":' * 5000,
    ],
)
def test_an_answer_that_cannot_be_read_fails_its_own_call(line):
    """Or it would be waited for."""
    message = message_of(line)
    assert message is not None
    assert (message.model_dump()["id"], message.model_dump()["error"]["message"]) == (
        3,
        "the answer cannot be read",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [b"", b"hello", b"[]", b"null", b"{}", b'{"id":3}', b'{"level":30,"id":3}', b"\xff\xfe", b"{" * 99_999],
)
def test_what_is_no_message_is_passed_over(line):
    assert message_of(line) is None


def test_bytes_and_escapes_that_are_no_characters_are_replaced():
    for text in (b"a\xffb", rb"a\ud800b"):
        message = message_of(b'{"jsonrpc":"2.0","id":3,"result":{"text":"%s"}}' % text)
        assert message is not None
        assert message.model_dump()["result"] == {"text": "a\ufffdb"}


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_line_is_a_message_or_none(line):
    message_of(line.replace(b"\n", b""))
