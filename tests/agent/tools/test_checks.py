"""Checks made of a JSON Schema: compiled once, of a copy, and without fetching what the schema refers to."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fastjsonschema
import pytest

from perdure.agent.loop import Bench, _called
from perdure.agent.tools import AgentToolResult, BadArguments, Tool, ToolContext, checked
from perdure.errors import PerdureError
from perdure.session.entry import ToolCall


async def run(args: Any, ctx: ToolContext) -> AgentToolResult:
    return AgentToolResult(repr(args))


def tool(**properties: Any) -> Tool:
    return Tool("own", "", {"type": "object", "properties": properties, "required": [*properties]}, run)


class Watch:
    """What this process opens or connects to, as the interpreter itself reports it."""

    def __init__(self) -> None:
        self.seen: list[str] | None = None
        sys.addaudithook(self)  # for good: hooks cannot be removed

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.seen is not None and (event.startswith(("socket.", "urllib.")) or event == "open"):
            self.seen.append(f"{event} {arguments}")

    @contextmanager
    def watching(self) -> Iterator[list[str]]:
        seen: list[str] = []
        self.seen = seen
        try:
            yield seen
        finally:
            self.seen = None


WATCH = Watch()


def test_a_check_is_compiled_once(monkeypatch):
    """Also for another tool with the same schema."""
    compiled = []
    real = fastjsonschema.compile

    def compile(schema, **options):
        compiled.append(schema)
        return real(schema, **options)

    monkeypatch.setattr(fastjsonschema, "compile", compile)
    for number in range(5):
        assert checked(tool(only_here={"type": "integer"}), {"only_here": number}) == {"only_here": number}
        with pytest.raises(BadArguments):
            checked(tool(only_here={"type": "integer"}), {"only_here": None})
    assert len(compiled) == 2  # the other one asks what may be null


def test_a_schema_stays_as_it_is():
    """Its references too, which the library would write in full; the model is shown it again."""
    own = Tool(
        "own", "", {"$id": "http://a/b", "properties": {"x": {"$ref": "#/$defs/y"}}, "$defs": {"y": {}}}, run
    )
    before = repr(own.parameters)
    checked(own, {"x": 1})
    assert repr(own.parameters) == before


@pytest.mark.parametrize(
    "reference",
    [
        "http://127.0.0.1:{port}/a",
        "https://127.0.0.1:{port}/a",
        "file://{file}",
        "{file}",
        "ftp://127.0.0.1:{port}/a",
        "other.json#/a",
        "//127.0.0.1:{port}/a",
        "jar:x",
    ],
)
@pytest.mark.parametrize("base", ["", "http://127.0.0.1:{port}/", "file:///etc/"])
@pytest.mark.parametrize("value", [1, None])
def test_nothing_is_fetched_that_a_schema_refers_to(reference, base, value, tmp_path):
    """No connection is made and no file opened, also where `$id` makes a reference lead elsewhere."""
    file = tmp_path / "a.json"
    file.write_text("{}")
    where = {"port": 9, "file": file}
    own = Tool(
        "own",
        "",
        {"$id": base.format(**where), "properties": {"x": {"allOf": [{"$ref": reference.format(**where)}]}}},
        run,
    )
    checked(tool(warm=True), {"warm": 1})  # what is imported is opened, too
    with WATCH.watching() as seen, pytest.raises(PerdureError, match="nothing is fetched"):
        checked(own, {"x": value})
    assert seen == []


@pytest.mark.anyio
async def test_a_call_of_such_a_tool_fails_with_words():
    own = tool(x={"$ref": "http://127.0.0.1:9/a"})
    call = ToolCall("1", "own", {"x": 1})
    result = await _called(call, Bench({"own": own}, "/", {}).tools, ToolContext("/"))
    assert result.is_error
    assert "refers to http://127.0.0.1:9/a, and nothing is fetched" in result.text
