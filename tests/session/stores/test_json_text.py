"""JSON laid out and put on one line keeps every token; and what is whole in a torn document is found."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.session.record import dumps
from perdure.session.stores.json_text import (
    _TOKEN,
    DEEPEST,
    Walk,
    _laid_out,
    is_sound,
    laid_out,
    on_one_line,
    walked,
)
from perdure.testing.corpus import HOSTILE_TEXT, HOSTILE_VALUES
from tests.generated import json_values

ODD = [
    b"NaN",
    b"-Infinity",
    rb'"\ud800"',
    b'"\xff"',
    b"[" * 300 + b"]" * 300,
    b'{"a":01}',
    b'"\t"',
    b"[1,]",
    b"{",
    b"",
]


@given(json_values)
def test_a_value_is_laid_out_as_every_other_program_does(value):
    """Two spaces a level, a line for each value, brackets with nothing between them together."""
    raw = dumps(value)
    expected = json.dumps(json.loads(raw), indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace")
    assert json.loads(laid_out(raw)) == json.loads(raw)
    assert laid_out(raw).split(b"\n") == laid_out(expected).split(b"\n") or b"." in raw or b"e" in raw


@given(json_values)
def test_both_ways_to_lay_out_are_one(value):
    """The one msgspec has, and the one for what it refuses."""
    raw = dumps(value)
    try:
        expected = msgspec.json.format(raw, indent=2)
    except msgspec.DecodeError:
        return
    assert _laid_out(_TOKEN.findall(raw)) == expected
    assert _laid_out(_TOKEN.findall(expected)) == expected


@pytest.mark.parametrize(
    "raw",
    [
        *HOSTILE_VALUES.values(),
        *(b'"%b"' % make() for name, make in HOSTILE_TEXT.items() if "MB" not in name),
        b"NaN",
        b'"\xff"',
    ],
    ids=lambda raw: ascii(raw[:20]),
)
@pytest.mark.parametrize("depth", [0, 2])
def test_every_token_keeps_its_bytes(raw, depth):
    """Numbers their digits, texts their escapes, also bytes that are no text; there and back."""
    item = b'{"a":[%b,{}],"b":{"c":%b}}' % (raw, raw)
    tokens = _TOKEN.findall(item)
    there = laid_out(item, depth)
    assert _TOKEN.findall(there) == tokens
    assert on_one_line(there) == b"".join(tokens)
    assert laid_out(there, depth) == there


def test_what_is_laid_out_already_is_left_alone():
    """As it stands so many levels deep in a document."""
    there = b'{\n      "a": 1,   "b":\t2\n    }'
    assert laid_out(there, 2) == there
    assert laid_out(there, 1) == b'{\n    "a": 1,\n    "b": 2\n  }'


@given(json_values)
def test_what_json_holds_is_sound(value):
    """Lone surrogates too: they are escapes."""
    assert is_sound(dumps(value))


@pytest.mark.parametrize("raw", [odd for odd in ODD if b"ud800" not in odd], ids=lambda raw: ascii(raw[:12]))
def test_what_not_every_reader_takes_is_not_sound(raw):
    """Constants that JSON has not, bytes that are no text, a tab in a text, what is nested deeply."""
    assert not is_sound(raw)


def test_how_deeply_a_value_is_nested_is_told_apart_from_what_its_texts_say():
    """Brackets in a text nest nothing."""
    assert is_sound(dumps({"code": "[{" * 5000, "list": [[]] * 5000}))
    assert is_sound(b"[" * DEEPEST + b"]" * DEEPEST)
    assert not is_sound(b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1))


# --- a walk through a document ----------------------------------------------------------------------------


def walk(text: str) -> Walk:
    def kind(value: object) -> str:
        return "items" if isinstance(value, dict) and "id" in value else ""

    return walked(text, {"items": "id"}, kind, most=100_000)


def found(seen: Walk) -> list[int | None]:
    """The ids of the items, None where one is torn or has none."""
    values = [piece and json.loads(piece.raw) for piece in seen.lists.get("items", [])]
    return [value.get("id") if isinstance(value, dict) else None for value in values]


ITEMS = [{"id": number, "inner": [{"id": -1}], "text": 'a "quoted" {"id": 99}'} for number in range(6)]


@given(indent=st.sampled_from([None, 1, 2, 4, "\t"]), more=json_values)
def test_a_sound_document_is_walked_through_without_a_word(indent, more):
    """Its members in their order, its items with their places."""
    text = json.dumps({"first": more, "items": ITEMS, "last": 1}, indent=indent)
    seen = walk(text)
    assert seen.damage == []
    assert (list(seen.members), found(seen)) == (["first", "items", "last"], list(range(6)))
    assert all(piece and text.encode()[piece.offset :].startswith(piece.raw) for piece in seen.lists["items"])


HOLES = st.tuples(st.floats(0, 1), st.integers(1, 80), st.sampled_from(["\0", "x", '"', "}"]))


@given(indent=st.sampled_from([2, 4, "\t"]), hole=HOLES)
def test_a_hole_costs_the_items_it_touches(indent, hole):
    """At most a neighbour with them; and none is made up of what is in an item, or in its texts."""
    text = json.dumps({"first": 1, "items": ITEMS, "last": 1}, indent=indent)
    place, length, fill = hole
    begin = text.index("[")  # behind the list's name, without which it is none
    start = begin + int(place * (len(text) - begin))
    holed = text[:start] + fill * length + text[start + length :]
    touched = [
        number
        for number, piece in enumerate(walk(text).lists["items"])
        if piece and start < piece.offset + len(piece.raw) and piece.offset < start + length
    ]
    ids = [number for number in found(walk(holed)) if number is not None]
    assert set(ids) <= set(range(6))
    assert len(set(range(6)) - set(touched) - set(ids)) <= 1


@pytest.mark.parametrize("start", range(0, 130, 5))
def test_a_document_that_lost_its_beginning_costs_what_began_there(start):
    """Whatever the first line that is left looks like."""
    text = json.dumps({"first": 1, "items": ITEMS, "last": 1}, indent=2)
    seen = walk(text[start:])
    assert [number for number in found(seen) if number is not None] in (list(range(6)), list(range(1, 6)))
    assert bool(seen.damage) == (start > 0)


def test_a_document_that_begins_with_an_item_is_what_is_left_of_one():
    """The item is one of its items, and not the document."""
    text = json.dumps({"items": ITEMS, "last": 1}, indent=2)
    seen = walk(text[text.index("{", 1) :])
    assert found(seen) == list(range(6))
    assert ([*seen.members], len(seen.damage)) == (["last"], 1)


def test_an_item_that_swallowed_those_behind_it_gives_them_back():
    """A hole over the brackets that closed it makes them its own; only their lines tell that they are not."""
    text = json.dumps({"items": ITEMS, "last": 1}, indent=2)
    at = text.index('"id": -1', text.index('"id": 2'))
    seen = walk(text[: at + 3] + text[text.index('text"', at) :])
    assert found(seen) == [0, 1, None, 3, 4, 5]
    assert [*seen.members] == ["items", "last"]


def test_an_item_that_ends_the_document_does_not():
    """A hole over what it opened, and the brackets that closed it close the list and all."""
    text = json.dumps({"items": ITEMS, "last": 1}, indent=2)
    at = text.index('": [', text.index('"id": 2'))
    seen = walk(text[:at] + text[text.index('id": -1', at) :])
    assert found(seen) == [0, 1, None, 3, 4, 5]


def test_lines_of_any_kind_are_fine_in_a_document_that_is_sound():
    """Somebody pasted something into it."""
    text = '{\n  "items": [\n    {"id": 1, "inner": [\n    {"id": 2}\n    ]},\n    {"id": 3}\n  ]\n}'
    assert (found(walk(text)), walk(text).damage) == ([1, 3], [])
