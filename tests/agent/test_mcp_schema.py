"""A foreign schema made plain: it compiles, it is bounded, and refuses nothing that its server would take."""

import contextlib
import json
from typing import Any

import fastjsonschema
import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from referencing.exceptions import Unresolvable

from perdure.agent.mcp.schema import Unusable, parameters, plain
from perdure.agent.tools import BadArguments, Tool, checked

# --- whatever a server sends --------------------------------------------------------------------------

WORDS = [
    *("type", "properties", "required", "items", "prefixItems", "additionalItems", "additionalProperties"),
    *("patternProperties", "anyOf", "oneOf", "allOf", "not", "enum", "const", "default", "format", "pattern"),
    *("$ref", "$id", "id", "$defs", "definitions", "$schema", "$anchor", "description", "title", "minimum"),
    *("maximum", "exclusiveMinimum", "multipleOf", "minLength", "maxItems", "minProperties", "variable", "a"),
]
HOSTILE = [
    *("object", "array", "string", "#", "#/$defs/a", "#/properties/a", "#a", "date-time", "^(a+)+$", "["),
    *('"', "'", "\\", "{}", "{variable}", "{0}", "\n", "\\N{BULLET}", '")\nimport os\n("', "é\u2028", ""),
]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(HOSTILE)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS + HOSTILE), inner, max_size=5)
    ),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(WORDS + HOSTILE), ANYTHING, max_size=8), ANYTHING)
def test_any_schema_is_refused_or_made_one_that_compiles(schema, value):
    """And then a value is taken or refused by it; never is there another error."""
    try:
        plain, names = parameters(schema)
    except Unusable:
        return
    assert plain["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "enum", "not"} & plain.keys()
    assert '"$ref"' not in json.dumps(plain)
    assert names.keys() <= plain["properties"].keys()
    check = fastjsonschema.compile(json.loads(json.dumps(plain)))
    for each in (value, dict.fromkeys(plain["properties"], value)):
        with contextlib.suppress(fastjsonschema.JsonSchemaValueException):
            check(each)


# --- what a server would take -------------------------------------------------------------------------

NAMES = st.sampled_from("abc")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from([0.5, 1.0, "", "a", "ab"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
TYPES = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])


def schemas(inner):
    several = st.lists(inner, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": inner,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=1),
            "items": inner,
            "prefixItems": several,
            "anyOf": several,
            "oneOf": several,
            "allOf": several,
            "not": inner,
            "enum": st.lists(VALUES, min_size=1, max_size=3),
            "const": VALUES,
            "minimum": st.integers(-1, 2),
            "exclusiveMaximum": st.integers(0, 3),
            "multipleOf": st.integers(1, 2),
            "minLength": st.integers(0, 2),
            "maxItems": st.integers(0, 2),
            "maxProperties": st.integers(0, 2),
            "pattern": st.sampled_from(["a", "^b"]),
            "uniqueItems": st.booleans(),
            "default": VALUES,
            "$ref": st.sampled_from(["#", "#/$defs/a", "#/$defs/b"]),
        },
    )


SCHEMAS: st.SearchStrategy[Any] = st.recursive(st.booleans() | st.just({}), schemas, max_leaves=6)
TOP = st.fixed_dictionaries(
    {"type": st.just("object"), "$defs": st.fixed_dictionaries({"a": SCHEMAS, "b": SCHEMAS})},
    optional={
        "properties": st.dictionaries(NAMES, SCHEMAS, max_size=3),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": SCHEMAS,
        "allOf": st.lists(SCHEMAS, min_size=1, max_size=2),
    },
)


@given(TOP, st.dictionaries(NAMES, VALUES, max_size=3))
def test_what_a_server_takes_is_never_refused(schema, arguments):
    """By the rules of JSON Schema itself, of which ours keeps only some."""
    try:
        is_valid = jsonschema.Draft202012Validator(schema).is_valid(arguments)
    except (RecursionError, Unresolvable):
        return
    if is_valid:
        fastjsonschema.compile(plain(schema))(json.loads(json.dumps(arguments)))


# --- single shapes ------------------------------------------------------------------------------------


def taken(**schema):
    return parameters({"type": "object", **schema}).schema


def of_x(**schema):
    """What a parameter of this schema is told as."""
    return taken(properties={"x": schema})["properties"]["x"]


def test_references_are_replaced_by_what_they_refer_to():
    definitions = {"point": {"type": "object", "properties": {"x": {"$ref": "#/$defs/number"}}}}
    definitions["number"] = {"type": "number", "description": "how far"}
    schema = taken(
        properties={
            "at": {"$ref": "#/$defs/point"},
            "by": {"$ref": "#/$defs/number", "description": "how much"},
            "odd": {"$ref": "#/properties/at~1or~0%20so/items/0"},
            "at/or~ so": {"items": [{"type": "null"}]},
            "gone": {"$ref": "#/$defs/nothing"},
        },
        **{"$defs": definitions, "$schema": "https://json-schema.org/draft/2020-12/schema"},
    )
    number = {"type": "number", "description": "how far"}
    assert schema["properties"]["at"] == {"type": "object", "properties": {"x": number}}
    assert schema["properties"]["by"] == {"type": "number", "description": "how much"}
    assert schema["properties"]["odd"] == {"type": "null"}
    assert schema["properties"]["gone"] == {}
    assert schema.keys() == {"type", "properties"}


def test_a_schema_within_itself_ends_in_anything():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    schema = taken(properties={"list": {"$ref": "#/$defs/node"}}, **{"$defs": {"node": node}})
    assert schema["properties"]["list"] == {"type": "object", "properties": {"next": {}}}


@pytest.mark.parametrize(
    "reference",
    [
        *(
            "http://127.0.0.1:9/a",
            "https://example.com/a#/b",
            "file:///etc/passwd",
            "ftp://a/b",
            "other.json",
        ),
        *("//host/a", "/etc/passwd", "urn:uuid:1", "?a", "data:application/json,{}"),
    ],
)
@pytest.mark.parametrize("place", ["parameter", "definition", "under a base"])
def test_a_reference_to_somewhere_else_makes_a_tool_unusable(reference, place):
    """Nothing is fetched, whatever `$id` says that a schema is called."""
    schema = {"type": "object", "properties": {"x": {"$ref": reference}}}
    if place == "definition":
        schema = {
            "type": "object",
            "properties": {"x": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {"$ref": reference}},
        }
    if place == "under a base":
        schema |= {"$id": "http://127.0.0.1:9/", "id": "file:///etc/"}
    with pytest.raises(Unusable, match="nothing is fetched"):
        parameters(schema)


def test_a_base_changes_nothing_of_what_is_within():
    schema = taken(
        properties={"x": {"$id": "http://127.0.0.1:9/x", "$ref": "#/$defs/a"}},
        **{"$id": "http://127.0.0.1:9/", "$defs": {"a": {"$id": "file:///etc/passwd", "type": "string"}}},
    )
    assert schema == {"type": "object", "properties": {"x": {"type": "string"}}}


@pytest.mark.parametrize(
    "schema", [{"type": "string"}, {"type": ["array", "null"]}, {"$ref": "#/x", "x": {"type": "null"}}]
)
def test_what_takes_no_object_is_unusable(schema):
    with pytest.raises(Unusable, match="object"):
        parameters(schema)


def test_without_parameters_there_is_an_empty_object():
    assert parameters({}).schema == {"type": "object", "properties": {}}


def test_a_union_at_the_top_is_one_object():
    """Which OpenAI and Anthropic want there. Required is what all of it requires."""
    schema = taken(
        required=["a"],
        properties={"a": {"type": "string"}},
        oneOf=[
            {"properties": {"a": {"const": "x"}, "b": {"type": "integer"}}, "required": ["b"]},
            {"properties": {"b": {"type": "null"}, "c": {"type": "string"}}},
        ],
    )
    assert schema == {
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"type": "string"},
            "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "c": {"type": "string"},
        },
    }


def test_what_providers_miss_or_refuse_is_said_otherwise():
    assert of_x(type="array") == {"type": "array", "items": {}}
    assert of_x(type="array", items=[{"type": "string"}, {"type": "null"}], additionalItems=False) == {
        "type": "array",
        "items": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    }
    assert of_x(const="a") == {"enum": ["a"]}
    assert of_x(oneOf=[{"type": "string"}, False]) == {"anyOf": [{"type": "string"}]}
    assert of_x(allOf=[{"properties": {"a": {}}}, {"properties": {"b": {}}, "required": ["b"]}]) == {
        "properties": {"b": {}, "a": {}},
        "required": ["b"],
    }
    assert taken(required=["x", "x", 1]) == {"type": "object", "properties": {"x": {}}, "required": ["x"]}
    assert of_x(type="string", format="uri", pattern=r"^\p{L}+$", default="ü", description="Where.") == {
        "type": "string",
        "description": r"Where. (format: uri; pattern: ^\p{L}+$; default: ü)",
    }


def test_a_default_is_told_and_not_filled_in():
    """The server knows it; one that is not what its own schema says would be refused here."""
    tool = Tool("t", "", taken(properties={"x": {"type": "string", "default": 3}}), lambda args, ctx: "")
    assert checked(tool, {}) == {}
    with pytest.raises(BadArguments):
        checked(tool, {"x": 3})


def test_parameters_have_names_that_providers_take():
    """Anthropic refuses a request with any other. Ours lead back to theirs."""
    long = "x" * 70
    schema, names = parameters(
        {
            "properties": {"$filter": {}, "@type": {}, "_filter_1": {}, "ok.a-b_C9": {}, long: {}, "": {}},
            "required": ["$filter"],
        }
    )
    assert all(
        len(name) <= 64 and name.isascii() and not set(name) & {*"$@ "} for name in schema["properties"]
    )
    assert sorted(names.values()) == sorted(["$filter", "@type", long, ""])
    assert len(schema["properties"]) == 6
    assert [names[name] for name in schema["required"]] == ["$filter"]


TWICE = {
    f"d{n}": {"properties": {each: {"$ref": f"#/$defs/d{n - 1}"} for each in "lr"}} for n in range(1, 50)
}
CHAIN = {f"c{n}": {"$ref": f"#/$defs/c{n + 1}"} for n in range(3000)}
DEEP: Any = {}
for _ in range(500):
    DEEP = {"items": [DEEP], "anyOf": [{"type": "string"}]}


@pytest.mark.parametrize("schema", [{"$ref": "#/$defs/c0"}, DEEP], ids=["chain", "deep"])
def test_a_schema_is_cut_off_where_it_is_too_deep(schema):
    fastjsonschema.compile(taken(properties={"x": schema}, **{"$defs": CHAIN}))


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"anyOf": [{"$ref": f"#/$defs/d{n}"} for n in range(6, 50)]}, id="doubling"),
        pytest.param({"properties": {f"p{number}": {} for number in range(100_000)}}, id="wide"),
        pytest.param({"anyOf": [{"description": "x" * 10_000}] * 50}, id="long"),
        pytest.param({"enum": [*range(100_000)]}, id="many values"),
    ],
)
def test_a_schema_that_is_too_large_is_refused(schema):
    """Also one that only grows when references are replaced."""
    with pytest.raises(Unusable, match="too large"):
        taken(properties={"x": schema}, **{"$defs": TWICE})
