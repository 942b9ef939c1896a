"""What a model is told of the built-in tools, and what is done with whatever it sends."""

import contextlib
import json
import re
from typing import Any

import fastjsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from perdure.agent.models import UNPARSED
from perdure.agent.tools import BUILT_IN, BadArguments, Tool, checked, respell
from perdure.registry import load
from tests.effort import FEW

TOOLS: dict[str, Tool] = {name: load(spec) for name, spec in BUILT_IN.items()}

PARAMETERS = {
    "read": ("path", ["path", "offset", "limit"]),
    "bash": ("command", ["command", "timeout"]),
    "edit": ("path oldText newText", ["path", "oldText", "newText", "edits"]),
    "write": ("path content", ["path", "content"]),
    "grep": ("pattern", ["pattern", "path", "glob", "ignoreCase", "literal", "context", "limit"]),
    "find": ("pattern", ["pattern", "path", "limit"]),
    "ls": ("", ["path", "limit"]),
}
VALUES = {
    **dict.fromkeys(("path", "oldText", "newText", "content", "pattern", "glob", "command"), "x"),
    **dict.fromkeys(("offset", "limit", "context", "timeout"), 1),
    **dict.fromkeys(("ignoreCase", "literal"), True),
    "edits": [{"oldText": "a", "newText": "b"}],
}


@pytest.mark.parametrize("name", TOOLS)
def test_pi_14_each_schema_is_plain(name):
    """Types, descriptions and bounds, as every provider takes them; it is JSON, and a schema."""
    spec = TOOLS[name].spec
    required, properties = PARAMETERS[name]
    assert spec.name == name
    assert spec.parameters["type"] == "object"
    assert list(spec.parameters["properties"]) == properties
    assert spec.parameters.get("required", []) == required.split()
    text = json.dumps(spec.parameters)
    for word in ("$ref", "anyOf", "oneOf", "allOf", "title", "default", "null"):
        assert f'"{word}"' not in text
    for parameter in spec.parameters["properties"].values():
        assert parameter["description"]
        assert isinstance(parameter["type"], str)
    fastjsonschema.compile(dict(spec.parameters))


@pytest.mark.parametrize("name", TOOLS)
def test_pi_14_what_the_schema_allows_is_accepted(name):
    """All of the parameters, and only those that are required; null is the same as nothing."""
    required, properties = PARAMETERS[name]
    validate = fastjsonschema.compile(dict(TOOLS[name].spec.parameters))
    for names in (properties, required.split()):
        given = {each: VALUES[each] for each in names}
        validate(given)
        checked(TOOLS[name], given)
    nothing = dict.fromkeys(set(properties) - set(required.split()))
    checked(TOOLS[name], {each: VALUES[each] for each in required.split()} | nothing)


@pytest.mark.parametrize("name", TOOLS)
def test_pi_14_what_it_does_not_allow_is_refused(name):
    """Something missing, something of another type, no object at all."""
    required, properties = PARAMETERS[name]
    given = {each: VALUES[each] for each in properties}
    wrong = [{**given, each: {}} for each in properties]
    missing = [{other: given[other] for other in properties if other != each} for each in required.split()]
    if name == "edit":  # then its first edit is the one
        missing = [each for each in missing if "path" not in each]
    bad: object
    for bad in (*wrong, *missing, {UNPARSED: "{"}, None, [], "x"):
        with pytest.raises(BadArguments):
            checked(TOOLS[name], bad)


@pytest.mark.parametrize("name", TOOLS)
def test_pi_14_a_parameter_that_does_not_exist_is_refused(name):
    """A model that invents one would believe that it was obeyed."""
    given = {each: VALUES[each] for each in PARAMETERS[name][0].split()}
    with pytest.raises(BadArguments, match="invented"):
        checked(TOOLS[name], given | {"invented": 1})


MAY_BE_NULL: list[Any] = [
    {},
    True,
    {"type": "null"},
    {"type": ["string", "null"]},
    {"enum": ["a", None]},
    {"$ref": "#/$defs/maybe"},
    {"anyOf": [{"type": "integer"}, {"type": "null"}]},
]
MAY_NOT: list[Any] = [False, {"type": "string"}, {"enum": ["a"]}, {"$ref": "#/$defs/text"}]
DEFINITIONS = {"text": {"type": "string"}, "maybe": {"type": ["string", "null"]}}
PROPERTIES = st.dictionaries(st.sampled_from("abcde"), st.sampled_from(MAY_BE_NULL + MAY_NOT), min_size=1)


async def nothing(args, ctx):
    raise AssertionError(args)


@given(PROPERTIES, st.sets(st.sampled_from("abcde")), st.sets(st.sampled_from("abcde")), st.booleans())
def test_pi_14_a_null_is_a_value_where_the_schema_has_it_and_nothing_elsewhere(
    properties, required, sent, others_allowed
):
    """Whatever else is required. One that stands for nothing is left out, and missed if it must be there."""
    required &= properties.keys()
    tool = Tool(
        "own",
        "",
        {
            "type": "object",
            "properties": properties,
            "required": sorted(required),
            "additionalProperties": others_allowed,
            "$defs": DEFINITIONS,
        },
        nothing,
    )
    kept = {name for name in sent if properties.get(name, others_allowed) in MAY_BE_NULL}
    if required <= kept:
        assert checked(tool, dict.fromkeys(sent)) == dict.fromkeys(kept)
    else:
        with pytest.raises(BadArguments):
            checked(tool, dict.fromkeys(sent))


class Note(Struct, rename="camel"):
    about_whom: str | None
    text: str | None = "none"
    size: int = 1


def test_pi_14_the_same_holds_for_a_struct():
    """By the types of its fields, under the names that a model is shown."""
    tool = Tool("note", "", Note, nothing)
    given = {"aboutWhom": None, "text": None, "size": None, "other": None}
    assert checked(tool, given) == Note(None, None, 1)
    assert checked(tool, {"aboutWhom": None}) == Note(None)
    with pytest.raises(BadArguments, match="aboutWhom"):
        checked(tool, {"text": None})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = sorted({*VALUES, "old_text", "new_text"})
EDITS = st.lists(st.dictionaries(st.sampled_from([*NAMES, "x"]), JSON, max_size=3) | JSON, max_size=3)
ARGUMENTS = st.fixed_dictionaries({}, optional={**dict.fromkeys(NAMES, JSON), "edits": EDITS | st.text()})


@given(st.sampled_from(sorted(TOOLS)), ARGUMENTS | JSON)
@FEW
def test_pi_14_whatever_is_sent_is_accepted_or_refused(name, arguments):
    """Never another error."""
    with contextlib.suppress(BadArguments):
        checked(TOOLS[name], arguments)


@pytest.mark.parametrize("name", TOOLS)
def test_pi_14_an_unknown_field_is_named_and_so_are_the_known_ones(name):
    tool = TOOLS[name]
    known = tool.spec.parameters["properties"]
    given = dict.fromkeys(tool.spec.parameters["required"], "1")
    with pytest.raises(BadArguments) as caught:
        checked(tool, {**given, "recursive": True})
    assert "no such field: `recursive`" in str(caught.value)
    assert all(f"`{each}`" in str(caught.value) for each in known)


@pytest.mark.parametrize("name", TOOLS)
def test_pi_14_each_name_may_be_written_in_camel_or_snake_case(name):
    """One rule for all tools, built in or not."""
    tool = TOOLS[name]
    for each in tool.spec.parameters["properties"]:
        snake = re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", each)
        assert respell({snake: 1}, tool.parameters) == {each: 1}


def test_pi_14_names_inside_a_field_follow_the_same_rules():
    edits = [{"old_text": "a", "new_text": "b"}, {"oldText": "c", "newText": "d", "x": "1"}]
    given = {"path": "f", "edits": edits}
    with pytest.raises(
        BadArguments, match=r"no such field in edits\[0\]: `x`; the fields are `oldText`, `newText`"
    ):
        checked(TOOLS["edit"], given)
    del edits[1]["x"]
    found = checked(TOOLS["edit"], given)
    assert (found.old_text, found.edits[0].new_text) == ("a", "d")


def test_pi_14_both_spellings_at_once_are_refused():
    """Nobody can tell which was meant."""
    with pytest.raises(BadArguments, match="no such field: `old_text`"):
        checked(TOOLS["edit"], {"path": "f", "oldText": "a", "old_text": "b", "newText": "c"})


def test_pi_14_a_schema_of_somebody_elses_follows_them_where_it_allows_no_other_names():
    properties = {"maxResults": {"type": "integer"}, "query": {"type": "string"}}
    closed = {"type": "object", "properties": properties, "additionalProperties": False}
    assert checked(Tool("own", "", closed, print), {"max_results": 3}) == {"maxResults": 3}
    with pytest.raises(BadArguments, match=r"the fields are `maxResults`, `query`"):
        checked(Tool("own", "", closed, print), {"limit": 3})
    opened = {"type": "object", "properties": properties}
    assert checked(Tool("own", "", opened, print), {"max_results": 3}) == {"max_results": 3}
    patterned = {**closed, "patternProperties": {"^max_": {"type": "integer"}}}
    assert checked(Tool("own", "", patterned, print), {"max_results": 3}) == {"max_results": 3}


class Inner(Struct, forbid_unknown_fields=True):
    old_text: str


class One(Struct, forbid_unknown_fields=True, tag="one"):
    x: int


class Other(Struct, forbid_unknown_fields=True, tag="other"):
    y: int


class Pair(Struct, array_like=True):
    inner: Inner
    rest: dict[str, int]


class Outer(Struct, forbid_unknown_fields=True):
    by_name: dict[str, Inner] = {}
    either: One | Other | None = None
    one: One | None = None
    pair: Pair | None = None
    both: tuple[Inner, dict[str, int]] | None = None
    rows: list[list[Inner]] = []


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"by_name": {"oldText": {"old_text": "a"}}}, Outer(by_name={"oldText": Inner("a")})),
        ({"either": {"type": "other", "y": 1}}, Outer(either=Other(1))),
        ({"one": {"type": "one", "x": 1}}, Outer(one=One(1))),
        ({"pair": [{"old_text": "a"}, {"oldText": 1}]}, Outer(pair=Pair(Inner("a"), {"oldText": 1}))),
        ({"both": [{"old_text": "a"}, {"oldText": 1}]}, Outer(both=(Inner("a"), {"oldText": 1}))),
        ({"rows": [[{"oldText": "a"}]]}, Outer(rows=[[Inner("a")]])),
    ],
)
def test_pi_14_a_name_that_is_no_field_is_neither_refused_nor_changed(given, found):
    """The keys of a mapping are data; a tag tells which of several structs it is."""
    assert checked(Tool("own", "", Outer, print), given) == found
