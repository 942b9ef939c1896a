"""A tool: what a model may call, described to it and checked by one definition.

`parameters` is a msgspec Struct, from which the JSON Schema is made and into which arguments are converted;
or a JSON Schema of your own, and then `run` gets the arguments as a plain dict. A failure is a result with
`is_error`, which the model reads; what `run` raises becomes one, and never ends the conversation.

    class Add(Struct):
        a: int
        b: int

    async def add(args: Add, ctx: ToolContext) -> AgentToolResult:
        return AgentToolResult(str(args.a + args.b))

    Tool("add", "Add two numbers.", Add, add)

When a call is cancelled, `run` is cancelled: it ends what it started and lets CancelledError through. A plain
function is run in a thread, and nobody waits for it any more then.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct, field

from perdure import config
from perdure.agent.models import UNPARSED, ToolSpec
from perdure.agent.supervisor import Supervisor, of_this_program
from perdure.errors import PerdureError
from perdure.session.entry import Image, Text
from perdure.session.record import dumps, without_huge_numbers

if TYPE_CHECKING:
    from perdure.agent.extensions import Api

MOST_BESIDE = 16 * 2**20
"""Bytes of details, and of images, in one result: a session could not hold much more."""
BUILT_IN = {
    name: f"perdure.agent.tools.{name}:{name.upper()}"
    for name in ("read", "bash", "edit", "write", "grep", "find", "ls")
}


def register(api: Api) -> None:
    for name, tool in BUILT_IN.items():
        api.tool(tool, name=name)


class AgentToolResult(Struct, frozen=True, rename="camel"):
    content: str | Sequence[Text | Image]
    """What the model reads. Text may be given as it is, and is kept as a block of it."""
    details: Any = UNSET
    """For programs that show the result: kept in the session, never sent to a model."""
    is_error: bool = False

    def __post_init__(self) -> None:
        blocks = [Text(self.content)] if isinstance(self.content, str) else [*self.content]
        msgspec.structs.force_setattr(self, "content", blocks)

    @property
    def blocks(self) -> list[Text | Image]:
        return [*self.content]  # text was made a block of above

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.blocks if isinstance(block, Text))


class ToolContext(Struct, frozen=True):
    """Where a call runs."""

    cwd: str
    call_id: str = ""
    environment: Mapping[str, str] = {}
    """For processes it starts: the user's, without secrets."""
    update: Callable[[AgentToolResult], None] = lambda _: None
    """Shows what there is so far; it is not kept."""
    supervisor: Supervisor = field(default_factory=of_this_program)
    """Starts processes that end with the conversation, or with the program if there is none."""
    own_paths: Sequence[str] = ()
    """The conversation's own files and folders. A search of a folder around them leaves them out: it would
    find its own question."""

    def path(self, text: str) -> str:
        """A path as a model writes one: relative to the working directory, `~` and a leading `@` allowed. The
        `@` is a part of it where something is there that begins with one."""
        return self._absolute(self.without_at(text))

    def without_at(self, text: str) -> str:
        """What `text` calls a file: without the `@` before it, if that is no part of its name."""
        without = text.removeprefix("@")
        if without == text or os.path.lexists(self._absolute(text)):
            return text
        is_new = not os.path.lexists(self._absolute(without))
        first = text.partition("/")[0]
        return text if is_new and os.path.lexists(os.path.join(self.cwd, first)) else without

    def _absolute(self, text: str) -> str:
        return os.path.normpath(os.path.join(self.cwd, config.expanded(text)))


class Tool(Struct, frozen=True):
    name: str
    description: str
    parameters: type[Struct] | Mapping[str, Any]
    run: Callable[[Any, ToolContext], Any]
    """Returns an AgentToolResult or text, or what gives one when it is awaited."""
    prepare: Callable[[dict[str, Any]], dict[str, Any]] = lambda given: given
    """Arguments that are not as the schema says but cannot be misread, as they are meant."""
    is_read_only: bool = False
    """Whether a call changes nothing that another call could see. Such calls may run at the same time; any
    other runs alone, when those before it have ended."""

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, schema_of(self.parameters))


def result_of(given: Any) -> AgentToolResult:
    """What somebody's function returned, as a result that can be kept: text is one."""
    if isinstance(given, str):
        return AgentToolResult(given)
    if not isinstance(given, AgentToolResult):
        raise TypeError(f"a tool returns an AgentToolResult or text, not {type(given).__name__}")
    if not all(isinstance(block, Text | Image) for block in given.content):
        raise TypeError("the content of a result is text, or a list of Text and Image")
    if given.details is not UNSET and len(dumps(given.details)) > MOST_BESIDE:  # or no result: it raises
        return msgspec.structs.replace(given, details=UNSET)
    return given


class BadArguments(ValueError):
    """What is wrong with a call, in words for the model that made it."""


def schema_of(parameters: type[Struct] | Mapping[str, Any]) -> Mapping[str, Any]:
    """A JSON Schema without references, titles or anything else that some provider refuses."""
    return _schema(parameters) if isinstance(parameters, type) else parameters


@functools.cache
def _schema(parameters: type[Struct]) -> Mapping[str, Any]:
    (schema,), shared = msgspec.json.schema_components([parameters], ref_template="{name}")

    def inlined(schema: Mapping[str, Any]) -> dict[str, Any]:
        if "$ref" in schema:
            return inlined(shared[schema["$ref"]])
        plain = {key: value for key, value in schema.items() if key not in ("title", "default")}
        if "properties" in plain:
            plain["properties"] = {name: inlined(each) for name, each in plain["properties"].items()}
        if isinstance(plain.get("items"), dict):
            plain["items"] = inlined(plain["items"])
        return plain

    return inlined(schema)


def checked(tool: Tool, arguments: Any) -> Any:
    """A call's arguments as `run` takes them; BadArguments if they are not what the schema asks for.

    What models commonly get wrong and cannot be misread is taken as it is meant: null for a parameter that is
    left out, where null is none of its values; a number in quotes; `ignore_case` for `ignoreCase`, and the
    other way round.
    """
    if not isinstance(arguments, dict) or arguments.keys() == {UNPARSED}:
        raise BadArguments("the arguments are not a JSON object, perhaps because the message was cut off")
    arguments = respell(arguments, tool.parameters)
    left_out = _left_out(tool.parameters, [name for name, value in arguments.items() if value is None])
    given = tool.prepare({name: value for name, value in arguments.items() if name not in left_out})
    if isinstance(tool.parameters, type):
        _refuse_unknown_fields(given, tool.parameters)
        try:
            return msgspec.convert(without_huge_numbers(given), tool.parameters, strict=False)
        except msgspec.ValidationError as error:
            raise BadArguments(str(error)) from None
    import fastjsonschema

    try:
        return _check(tool.parameters)(given)
    except fastjsonschema.JsonSchemaValueException as error:
        known = ""
        if error.rule == "additionalProperties" and isinstance(error.definition, Mapping):
            known = f"; {_list_fields(error.definition.get('properties', ()))}"
        raise BadArguments(f"{error}{known}") from None


# --- names of parameters ----------------------------------------------------------------------------------


def respell(given: Any, parameters: type[Struct] | Mapping[str, Any]) -> Any:
    """Arguments by the names that the schema has, where they are written with capitals in place of
    underscores or the other way round; also inside of them. One that may have any name keeps its own."""
    if isinstance(given, list):
        return [respell(each, parameters) for each in given]
    if not isinstance(given, dict):
        return given
    known = _parameters_inside(parameters)
    spellings = {_without_case(name): name for name in known}
    found: dict[str, Any] = {}
    for name, value in given.items():
        meant: str = name
        if name not in known:
            meant = spellings.get(_without_case(name)) or name
            if meant in given or meant in found:
                meant = name  # both are there: one is unknown, and refused
        inside = known.get(meant)
        found[meant] = value if inside is None else respell(value, inside)
    return found


def _parameters_inside(
    parameters: type[Struct] | Mapping[str, Any],
) -> Mapping[str, type[Struct] | None]:
    """The names of all parameters, each with what those inside of it are, if there are any. Of a schema that
    allows other names, none."""
    if isinstance(parameters, type):
        return _fields(parameters)
    names = parameters.get("properties")
    allows_others = parameters.get("additionalProperties") is not False or "patternProperties" in parameters
    return {} if allows_others or not isinstance(names, Mapping) else dict.fromkeys(names)


@functools.cache
def _fields(parameters: type[Struct]) -> Mapping[str, type[Struct] | None]:
    tag = parameters.__struct_config__.tag_field
    fields = {field.encode_name: _struct_in(field.type) for field in msgspec.structs.fields(parameters)}
    return {tag: None, **fields} if tag is not None else fields


def _struct_in(kind: Any) -> type[Struct] | None:
    """What a value is, or each in a list. None where it may be one of several, and where the names inside are
    no fields: the keys of a mapping are data."""
    if isinstance(kind, type):
        return kind if issubclass(kind, Struct) and not kind.__struct_config__.array_like else None
    origin, inside = get_origin(kind), get_args(kind)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return None
    if origin is tuple and inside[-1:] != (...,):
        return None
    found = {*filter(None, map(_struct_in, inside))}
    return found.pop() if len(found) == 1 else None


def _without_case(name: str) -> str:
    return name.replace("_", "").lower()


def _refuse_unknown_fields(given: Any, parameters: type[Struct], where: str = "") -> None:
    if isinstance(given, list):
        for number, each in enumerate(given):
            _refuse_unknown_fields(each, parameters, f"{where}[{number}]")
    elif isinstance(given, dict):
        known = _fields(parameters)
        unknown = [f"`{name}`" for name in given if name not in known]
        if unknown and parameters.__struct_config__.forbid_unknown_fields:
            there = f" in {where}" if where else ""
            raise BadArguments(f"no such field{there}: {', '.join(unknown)}; {_list_fields(known)}")
        for name, inside in known.items():
            if inside is not None and name in given:
                _refuse_unknown_fields(given[name], inside, f"{where}.{name}".removeprefix("."))


def _list_fields(names: Iterable[str]) -> str:
    return f"the fields are {', '.join(f'`{name}`' for name in names)}" if names else "there are none"


# --- other people's schemas -------------------------------------------------------------------------------


def check_schema(schema: Mapping[str, Any]) -> None:
    """ValueError, if it is no JSON Schema of an object, which parameters are."""
    import fastjsonschema

    if schema.get("type") != "object":
        raise ValueError('no JSON Schema of an object: its "type" has to be "object"')
    try:
        _check(schema)
    except (fastjsonschema.JsonSchemaDefinitionException, PerdureError) as error:
        raise ValueError(f"no JSON Schema: {error}") from None


def _check(schema: Mapping[str, Any]) -> Callable[[Any], Any]:
    return _compiled(json.dumps(dict(schema)))


@functools.lru_cache(maxsize=1024)
def _compiled(schema: str) -> Callable[[Any], Any]:
    """Compiling one takes as long as some hundred checks. It is made of a copy: the library writes into what
    it reads."""
    import fastjsonschema

    check: Callable[[Any], Any] = fastjsonschema.compile(json.loads(schema), handlers=_Nowhere())
    return check


class _Nowhere(dict[str, Callable[[str], Any]]):
    """Who fetches what a schema refers to outside of itself: nobody, from nowhere. Whoever wrote it may not
    even have a file of ours opened."""

    def __contains__(self, scheme: object) -> bool:
        return True

    def __getitem__(self, scheme: str) -> Callable[[str], Any]:
        return _refuse


def _refuse(address: str) -> Any:
    raise PerdureError(
        f"The schema of this tool refers to {address:.100}, and nothing is fetched",
        "put what it refers to into the schema",
    )


_OF_ONE_PROPERTY = {
    *("properties", "patternProperties", "additionalProperties"),
    *("$schema", "$defs", "definitions"),
}
"""What a schema says of a property whatever the others are, and where that may refer to."""


def _left_out(parameters: type[Struct] | Mapping[str, Any], nulls: Collection[str]) -> set[str]:
    """Those of the parameters that may not be null, so that null can only mean that there is none."""
    if not nulls:
        return set()
    if isinstance(parameters, type):
        types = {field.encode_name: field.type for field in msgspec.structs.fields(parameters)}
        return {name for name in nulls if name not in types or not _may_be_null(types[name])}
    import fastjsonschema

    allow = _check({key: value for key, value in parameters.items() if key in _OF_ONE_PROPERTY})
    left_out = set()
    for name in nulls:
        try:
            allow({name: None})
        except fastjsonschema.JsonSchemaValueException:
            left_out.add(name)
    return left_out


def _may_be_null(kind: Any) -> bool:
    try:
        msgspec.convert(None, kind)
    except msgspec.ValidationError:
        return False
    return True
