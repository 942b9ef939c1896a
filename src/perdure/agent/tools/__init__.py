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
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Struct, field

from perdure.agent.models import UNPARSED, ToolSpec
from perdure.agent.supervisor import Supervisor, of_this_program
from perdure.errors import PerdureError
from perdure.session.entry import Image, Text
from perdure.session.record import dumps

if TYPE_CHECKING:
    from perdure.agent.extensions import Api

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

    def path(self, text: str) -> str:
        """A path as a model writes one: relative to the working directory, `~` and a leading `@` allowed."""
        return os.path.normpath(os.path.join(self.cwd, os.path.expanduser(text.removeprefix("@"))))


class Tool(Struct, frozen=True):
    name: str
    description: str
    parameters: type[Struct] | Mapping[str, Any]
    run: Callable[[Any, ToolContext], Any]
    """Returns an AgentToolResult or text, or what gives one when it is awaited."""
    prepare: Callable[[dict[str, Any]], dict[str, Any]] = lambda given: given
    """Arguments that are not as the schema says but cannot be misread, as they are meant."""

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
    if given.details is not UNSET:
        dumps(given.details)  # what cannot be kept is no result
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
    left out, where null is none of its values; a number in quotes.
    """
    if not isinstance(arguments, dict) or arguments.keys() == {UNPARSED}:
        raise BadArguments("the arguments are not a JSON object, perhaps because the message was cut off")
    left_out = _left_out(tool.parameters, [name for name, value in arguments.items() if value is None])
    given = tool.prepare({name: value for name, value in arguments.items() if name not in left_out})
    if isinstance(tool.parameters, type):
        try:
            return msgspec.convert(given, tool.parameters, strict=False)
        except msgspec.ValidationError as error:
            raise BadArguments(str(error)) from None
    import fastjsonschema

    try:
        return _check(tool.parameters)(given)
    except fastjsonschema.JsonSchemaValueException as error:
        raise BadArguments(str(error)) from None


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
