"""Extensions: what they add, what they change, and that a bad one harms nobody."""

import os
import sys
import threading
from typing import Any

import pytest
from msgspec import Struct, structs

from perdure import AgentSession, AgentToolResult, SessionManager, Tool
from perdure.agent.extensions import Api, Extensions
from perdure.agent.installed import files_in, files_named
from perdure.agent.tools import BUILT_IN
from perdure.errors import PerdureError
from perdure.session.entry import ToolCall
from perdure.testing import ScriptedModel

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def folder(home):
    path = home / ".pi" / "agent" / "extensions"
    path.mkdir(parents=True)
    return path


class Said(Struct):
    text: str


def shout(args: Said, ctx: Any) -> str:
    return args.text.upper()


SHOUT = Tool("shout", "Say it louder.", Said, shout)
SHOUT_FILE = """
from __future__ import annotations
from msgspec import Struct
from perdure import Tool

class Said(Struct):
    text: str

def shout(args, ctx):
    return args.text.upper()

def register(api):
    api.tool(Tool("shout", "Say it louder.", Said, shout))
"""


async def talk(model, text="go", **options):
    async with AgentSession(**options) as agent:
        await agent.start(model=model)
        events = [event async for event in agent.send_message(text)]
        return events, [*agent.notices]


def result_in(events) -> AgentToolResult:
    (end,) = [event for event in events if event.type == "tool_execution_end"]
    result: AgentToolResult = end.result
    return result


def calling(name="shout", **arguments) -> ScriptedModel:
    return ScriptedModel(ToolCall("call", name, arguments), "done")


# --- what they add ------------------------------------------------------------------------------------


async def test_a_file_in_pis_home_adds_a_tool(folder):
    (folder / "shout.py").write_text(SHOUT_FILE)
    model = calling(text="hello")
    events, notices = await talk(model)
    assert result_in(events).text == "HELLO"
    assert notices == []
    assert [tool.name for tool in model.requests[0].tools] == [*BUILT_IN, "shout"]
    assert "- shout: Say it louder." in model.requests[0].system
    assert os.listdir(folder) == ["shout.py"]  # nothing is written beside it


async def test_a_file_is_read_as_python_reads_it(folder):
    """Its annotations are what they are, unless it says otherwise."""
    (folder / "plain.py").write_text(
        "from typing import Literal\nfrom msgspec import Struct\nfrom perdure import Tool\n"
        "def register(api):\n    Kind = Literal['a', 'b']\n    class Args(Struct):\n        kind: Kind\n"
        "    api.tool(Tool('kinds', 'd', Args, lambda args, ctx: args.kind))\n"
    )
    events, notices = await talk(calling("kinds", kind="b"))
    assert (result_in(events).text, notices) == ("b", [])


async def test_what_is_built_in_comes_by_the_same_door():
    found = Extensions(pytest.fail)
    assert found.tools == [*BUILT_IN]
    assert {"compact", "name", "help"} == {*found.commands}
    assert [found.tool(name).name for name in found.tools] == found.tools


async def test_pi_19_prompts_of_extensions_come_before_those_of_the_settings_and_the_call(folder):
    for name in "b", "a":
        (folder / f"{name}.py").write_text(f"def register(api): api.prompt('FROM {name.upper()}')")
    for _ in range(2):
        model = ScriptedModel("done")
        await talk(model, settings={"prompts": ["FROM SETTINGS"]}, append_system_prompt=["FROM CALL"])
        system = model.requests[0].system
        places = [system.index(text) for text in ("FROM A", "FROM B", "FROM SETTINGS", "FROM CALL")]
        assert places == sorted(places)


async def test_settings_name_files_and_folders_beside_the_usual_place(home, folder, tmp_path):
    (home / "one.py").write_text("def register(api): api.prompt('ONE')")
    (home / "more").mkdir()
    (home / "more" / "two.py").write_text("def register(api): api.prompt('TWO')")
    (folder / "three.py").write_text("def register(api): api.prompt('THREE')")
    named = [str(home / "one.py"), "~/more", str(folder / "three.py"), str(home / "original.ts"), "npm:x"]
    model = ScriptedModel("done")
    _, notices = await talk(model, settings={"extensions": named})
    system = model.requests[0].system
    assert [system.count(text) for text in ("ONE", "TWO", "THREE")] == [1, 1, 1]
    assert notices == []


async def test_what_settings_name_and_what_is_not_there_is_noticed():
    agent = AgentSession(settings={"extensions": ["~/none", "~/gone.py"]})
    assert agent.notices == [
        f"~/{name}, named for extensions in the settings, is not there" for name in ("none", "gone.py")
    ]


def test_hidden_files_and_those_with_an_underscore_are_not_extensions(folder):
    for name in ("b.py", "a.py", "_part.py", ".hidden.py", "__init__.py", "readme.md"):
        (folder / name).write_text("")
    assert [os.path.basename(path) for path in files_in(str(folder))] == ["a.py", "b.py"]
    assert files_in(str(folder / "none")) == []
    assert [*files_named([str(folder / "none.ts"), str(folder / "gone.py"), str(folder / "a.py")])] == [
        str(folder / "a.py")
    ]


async def test_functions_of_ones_own_stand_in_for_what_is_installed(folder):
    (folder / "installed.py").write_text("def register(api): api.prompt('INSTALLED')")
    model = calling(text="hi")
    events, _ = await talk(model, extensions=[lambda api: api.tool(SHOUT)])
    assert result_in(events).text == "HI"
    assert "INSTALLED" not in model.requests[0].system
    quiet = ScriptedModel("done")
    await talk(quiet, extensions=())
    assert [tool.name for tool in quiet.requests[0].tools] == [*BUILT_IN]


async def test_tools_are_chosen_by_name_wherever_they_come_from(folder):
    (folder / "shout.py").write_text(SHOUT_FILE)
    model = ScriptedModel("done")
    await talk(model, tools=["shout", "ls"])
    assert [tool.name for tool in model.requests[0].tools] == ["shout", "ls"]
    with pytest.raises(PerdureError, match="There is no tool 'whisper'") as caught:
        AgentSession(tools=["whisper"])
    assert "shout" in caught.value.hint


async def test_a_tool_takes_the_place_of_a_built_in_one_but_not_of_another_extensions(folder):
    (folder / "a.py").write_text(SHOUT_FILE.replace('"shout", ', '"read", '))
    (folder / "b.py").write_text(SHOUT_FILE.replace('"shout", ', '"read", ').replace("upper", "lower"))
    events, notices = await talk(calling("read", text="Hello"))
    assert result_in(events).text == "HELLO"
    (notice,) = notices
    assert notice == (
        "~/.pi/agent/extensions/b.py: there is a tool read already, of ~/.pi/agent/extensions/a.py; "
        "this one is left out"
    )


async def test_two_files_of_one_name_have_types_of_their_own(home, folder):
    """Annotations are looked up by the name of the module, late."""
    (folder / "shout.py").write_text(SHOUT_FILE)
    other = home / "more"
    other.mkdir()
    source = SHOUT_FILE.replace("Said", "Other").replace('"shout"', '"other"').replace("text: str", "n: int")
    (other / "shout.py").write_text(source.replace("args.text.upper()", "str(args.n + 1)"))
    async with AgentSession(settings={"extensions": [str(other)]}) as agent:
        await agent.start(model=ScriptedModel([ToolCall("1", "shout", {"text": "a"})], "done"))
        specs = {tool.name: tool.spec.parameters for tool in agent.agent.bench.tools.values()}
    assert [*specs["shout"]["properties"]] == ["text"]
    assert [*specs["other"]["properties"]] == ["n"]


# --- bad ones -----------------------------------------------------------------------------------------

BAD = {
    "does not parse": ("\n\ndef register(api:\n", ":3: SyntaxError: "),
    "fails while it is read": ("import os\nos.no_such_thing\n", ":2: AttributeError: "),
    "imports what is not there": ("x = 1\nimport no_such_module\n", ":2: ModuleNotFoundError: "),
    "fails while it registers": (
        "def deep():\n    raise ValueError('so it is')\n\ndef register(api):\n"
        "    api.prompt('HALF')\n    deep()\n",
        ":2: ValueError: so it is",
    ),
    "has nothing to call": ("registre = 1\n", ": TypeError: it has no function register(api)"),
    "leaves": ("import sys\nsys.exit(3)\n", ":2: SystemExit: 3"),
    "is cancelled": (
        "import asyncio\nraise asyncio.CancelledError\n",
        ":2: CancelledError; ",
    ),
    "leaves in its own way": (
        "class Gone(BaseException): pass\ndef register(api):\n    raise Gone('away')\n",
        ":3: Gone: away",
    ),
    "registers what is no tool": (
        "\ndef register(api):\n    api.tool(print)\n",
        ":3: TypeError: api.tool takes",
    ),
    "gives a name that no provider takes": (
        "from perdure import Tool\ndef register(api):\n    api.tool(Tool('a b', '', {}, print))\n",
        ":3: ValueError: no name for a tool: 'a b'",
    ),
    "names a tool that is not there": (
        "def register(api):\n    api.tool('no_such_module:TOOL', name='x')\n",
        ":2: ModuleNotFoundError: ",
    ),
    "has a tool without a schema": (
        "from perdure import Tool\ndef register(api):\n    api.tool(Tool('x', 'd', object, print))\n",
        ":3: TypeError: ",
    ),
    "has a tool without words": (
        "from perdure import Tool\ndef register(api):\n    api.tool(Tool('x', None, {}, print))\n",
        ":3: TypeError: the description of x is NoneType",
    ),
    "has a schema that is no JSON": (
        "from perdure import Tool\ndef register(api):\n    api.tool(Tool('x', 'd', {'a': object}, print))\n",
        ":3: TypeError: ",
    ),
    "has a schema that is none": (
        "from perdure import Tool\ndef register(api):\n"
        "    api.tool(Tool('x', 'd', {'type': 'object', 'properties': {'a': {'type': 'int'}}}, print))\n",
        ":3: ValueError: no JSON Schema: ",
    ),
    "has a schema of something else": (
        "from perdure import Tool\ndef register(api):\n"
        "    api.tool(Tool('x', 'd', {'type': 'objct'}, print))\n",
        ":3: ValueError: no JSON Schema of an object",
    ),
    "has a tool that is no function": (
        "from perdure import Tool\ndef register(api):\n"
        "    api.tool(Tool('x', 'd', {'type': 'object'}, 'f'))\n",
        ":3: TypeError: a Tool takes a function, not str",
    ),
    "registers a name": (
        "def register(api):\n    api.tool('roll')\n",
        ":2: TypeError: api.tool takes a Tool",
    ),
    "registers a tool twice": (
        "from perdure import Tool\ndef register(api):\n    t = Tool('x', 'd', {'type': 'object'}, print)\n"
        "    api.tool(t)\n    api.tool(t)\n",
        ":5: ValueError: there are two tools x",
    ),
    "mistypes": (
        "def register(api):\n    api.tools(1)\n",
        ":2: AttributeError: there is no api.tools; did you mean api.tool?",
    ),
    "is async": ("async def register(api):\n    pass\n", ": TypeError: register(api) is async"),
    "listens to what never happens": (
        "def register(api):\n    api.on('tool_end', print)\n",
        ":2: ValueError: no event is called 'tool_end'; they are agent_start, ",
    ),
    "has a command nobody can type": (
        "def register(api):\n    api.command('a b', print)\n",
        ":2: ValueError: no name for a command: 'a b'",
    ),
    "hooks what is no function": (
        "def register(api):\n    api.before_tool(None)\n",
        ":2: TypeError: api.before_tool takes a function",
    ),
    "is a pipe": (None, ": OSError: "),
}


@pytest.mark.parametrize("kind", BAD)
async def test_a_failing_extension_is_one_warning_with_its_file_and_line_and_stops_nothing_else(folder, kind):
    source, said = BAD[kind]
    if source is None:
        os.mkfifo(folder / "bad.py")
    else:
        (folder / "bad.py").write_text(source)
    (folder / "shout.py").write_text(SHOUT_FILE)
    model = calling(text="hello")
    events, notices = await talk(model)
    assert result_in(events).text == "HELLO"
    (notice,) = notices
    assert notice.startswith(f"~/.pi/agent/extensions/bad.py{said}")
    assert notice.endswith("; the extension is left out")
    assert "HALF" not in model.requests[0].system  # all of it or nothing


async def test_what_extensions_print_while_they_load_is_not_on_stdout(folder, capsys):
    (folder / "loud.py").write_text("print('reading')\ndef register(api):\n    print('registering')\n")
    await talk(ScriptedModel("done"))
    seen = capsys.readouterr()
    assert (seen.out, seen.err) == ("", "reading\nregistering\n")


# --- before and after tools, and events -----------------------------------------------------------------


async def test_before_tool_changes_a_call_and_what_is_recorded_stays_as_the_model_made_it():
    def louder(call: ToolCall) -> ToolCall:
        call.arguments["text"] += "!"  # in place: the hook has a copy of its own
        return call

    async def later(call: ToolCall) -> ToolCall:
        return structs.replace(call, arguments={"text": f"{call.arguments['text']}?"})

    def register(api: Api) -> None:
        api.tool(SHOUT)
        api.before_tool(louder)
        api.before_tool(later)
        api.before_tool(lambda call: None)  # nothing to say is nothing to change

    model = calling(text="a")
    events, _ = await talk(model, extensions=[register])
    assert result_in(events).text == "A!?"
    (start,) = [event for event in events if event.type == "tool_execution_start"]
    assert start.args == {"text": "a"}
    (call,) = model.requests[1].messages[1].calls  # type: ignore[union-attr]
    assert call.arguments == {"text": "a"}


async def test_before_tool_answers_in_place_of_the_tool():
    def forbid(call: ToolCall) -> AgentToolResult:
        return AgentToolResult("not today", is_error=True)

    def never(args, ctx):
        pytest.fail("it was forbidden")

    def register(api: Api) -> None:
        api.tool(Tool("shout", "", Said, never))
        api.before_tool(forbid)
        api.before_tool(lambda call: pytest.fail("it was answered"))

    events, _ = await talk(calling(text="a"), extensions=[register])
    assert (result_in(events).text, result_in(events).is_error) == ("not today", True)


async def test_a_call_that_was_changed_is_checked_like_any_other():
    def register(api: Api) -> None:
        api.tool(SHOUT)
        api.before_tool(lambda call: structs.replace(call, arguments={"text": 1.5}))

    events, _ = await talk(calling(text="a"), extensions=[register])
    assert result_in(events).text.startswith("Bad arguments for shout:")


@pytest.mark.parametrize("answer", [ValueError("broken"), 7])
async def test_a_failing_guard_lets_nothing_through_and_is_told_of_once(answer):
    def guard(call):
        if isinstance(answer, Exception):
            raise answer
        return answer

    def never(args, ctx):
        pytest.fail("nobody allowed it")

    def register(api: Api) -> None:
        api.tool(Tool("shout", "", Said, never))
        api.before_tool(guard)

    calls = [ToolCall(str(number), "shout", {"text": "a"}) for number in range(3)]
    model = ScriptedModel([*calls], "done")
    events, notices = await talk(model, extensions=[register])
    results = [event.result for event in events if event.type == "tool_execution_end"]
    assert [result.is_error for result in results] == [True] * 3
    assert all(result.text.startswith("shout was not run: the extension ") for result in results)
    (notice,) = notices
    assert __file__ in notice or "test_extensions" in notice
    assert notice.endswith("the tools it stands before are not run")


async def test_after_tool_changes_results_of_all_kinds_and_a_failing_one_changes_nothing():
    def broken(call, result):
        raise KeyError("x")

    async def sign(call: ToolCall, result: AgentToolResult) -> AgentToolResult:
        return structs.replace(result, content=f"{result.text} ({call.name})")

    def register(api: Api) -> None:
        api.tool(SHOUT)
        api.after_tool(broken)
        api.after_tool(sign)
        api.after_tool(lambda call, result: None)

    calls = [ToolCall("1", "shout", {"text": "a"}), ToolCall("2", "shout", {}), ToolCall("3", "nothing", {})]
    events, notices = await talk(ScriptedModel([*calls], "done"), extensions=[register])
    results = [event.result for event in events if event.type == "tool_execution_end"]
    assert results[0].text == "A (shout)"
    assert results[1].text.startswith("Bad arguments")
    assert results[1].is_error
    assert results[2].text.endswith("(nothing)")
    assert results[2].is_error
    assert len(notices) == 1
    assert notices[0].endswith("results stay as they are")


async def test_listeners_are_told_in_order_before_anybody_else_and_after_it_is_saved():
    seen: list[tuple[str, int]] = []
    agents: list[AgentSession] = []

    async def listen(event):
        seen.append((event.type, len(agents[0].session.entries)))

    def register(api: Api) -> None:
        for kind in ("agent_start", "message_end", "agent_end"):
            api.on(kind, listen)
        api.on("message_end", lambda event: 1 / 0)

    async with AgentSession(extensions=[register]) as agent:
        agents.append(agent)
        await agent.start(model=ScriptedModel("one"))
        told = []
        async for event in agent.send_message("go"):
            if event.type in ("agent_start", "message_end", "agent_end"):
                told.append(event.type)
                assert [kind for kind, _ in seen] == told
        assert told == ["agent_start", "message_end", "message_end", "agent_end"]
        saved = [count for _, count in seen]
        assert saved[0] == 0
        assert saved[1] < saved[2] == saved[3]
        (notice,) = agent.notices
        assert "ZeroDivisionError" in notice
        assert notice.endswith("the conversation goes on")


async def test_a_plain_function_that_waits_can_be_stopped_and_tells_how_far_it_is():
    """It runs in a thread: nothing else waits for it, not even the end of the process."""
    begun, over = threading.Event(), threading.Event()

    def wait(args, ctx):
        ctx.update(AgentToolResult("half"))
        begun.set()
        over.wait(60)

    async with AgentSession(extensions=[lambda api: api.tool(Tool("shout", "", Said, wait))]) as agent:
        await agent.start(model=calling(text="a"))
        events = []
        async for event in agent.send_message("go"):
            events.append(event)
            if event.type == "tool_execution_update":
                assert begun.wait(10)
                agent.abort()
    over.set()
    assert result_in(events).text.startswith("half")
    assert result_in(events).is_error
    assert events[-1].type == "agent_end"


async def test_a_tool_that_fails_says_in_which_line_of_its_file(folder):
    (folder / "shout.py").write_text(SHOUT_FILE.replace("args.text.upper()", "args.none"))
    events, _ = await talk(calling(text="a"))
    assert result_in(events).text.endswith("has no attribute 'none' (shout.py:10)")


async def test_on_is_a_decorator_too():
    heard = []

    def register(api: Api) -> None:
        @api.on("agent_end")
        def listen(event):
            heard.append(event.type)

    await talk(ScriptedModel("done"), extensions=[register])
    assert heard == ["agent_end"]


@pytest.mark.parametrize("content", [{"a": 1}, ["x", 3], [None]])
async def test_a_result_that_is_no_text_is_an_error_that_says_so(content):
    def odd(args, ctx):
        return AgentToolResult(content)

    events, _ = await talk(calling(text="a"), extensions=[lambda api: api.tool(Tool("shout", "", Said, odd))])
    assert "the content of a result is text, or a list of Text and Image" in result_in(events).text


async def test_a_hook_that_waits_ends_with_the_turn():
    """Stopping reaches a tool call also while an extension thinks about it."""
    import asyncio

    agents: list[AgentSession] = []

    async def wait(call):
        agents[0].abort()
        await asyncio.sleep(60)

    def register(api: Api) -> None:
        api.tool(SHOUT)
        api.before_tool(wait)

    async with AgentSession(extensions=[register]) as agent:
        agents.append(agent)
        await agent.start(model=calling(text="a"))
        events = [event async for event in agent.send_message("go")]
    assert result_in(events).is_error
    assert events[-1].type == "agent_end"


@pytest.mark.slow
async def test_a_listener_that_waits_ends_with_the_turn_and_keeps_nobody_from_closing(monkeypatch):
    """Also at the last event of all; and one that closes the session itself."""
    import asyncio

    monkeypatch.setattr("perdure.agent.hooks._PATIENCE", 0.3)

    agents: list[AgentSession] = []

    async def wait(event):
        await asyncio.sleep(600)

    async def leave(event):
        await agents[-1].close()

    for kind, listener in (
        ("message_end", wait),
        ("agent_end", wait),
        ("agent_start", wait),
        ("turn_end", leave),
    ):

        def register(api: Api, kind: str = kind, listener: Any = listener) -> None:
            api.on(kind, listener)

        agent = AgentSession(extensions=[register])
        agents.append(agent)
        id = await agent.start(model=ScriptedModel("one"))
        events: list[Any] = []

        async def watch(agent=agent, events=events):
            async for event in agent.send_message("go"):
                events.append(event)

        watching = asyncio.create_task(watch())
        async with asyncio.timeout(20):
            while not agent.is_busy:
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)
            await agent.close()
            await watching
        assert events[-1].type == "agent_end", kind
        assert [entry.text for entry in SessionManager().load_session(id)][:1] == ["go"]


@pytest.mark.parametrize("leaving", [SystemExit(3), KeyError("x")])
async def test_a_hook_that_leaves_does_not_end_the_conversation(leaving):
    def leave(*arguments):
        raise leaving

    def register(api: Api) -> None:
        api.tool(Tool("shout", "", Said, leave))
        api.after_tool(leave)
        api.on("message_end", leave)

    events, notices = await talk(calling(text="a"), extensions=[register])
    assert result_in(events).text.startswith(f"shout failed: {type(leaving).__name__}")
    assert len(notices) == 2


async def test_what_is_registered_under_another_name_is_called_by_that():
    model = calling("loud", text="a")
    events, _ = await talk(model, extensions=[lambda api: api.tool(SHOUT, name="loud")])
    assert result_in(events).text == "A"
    assert "loud" in [tool.name for tool in model.requests[0].tools]


# --- commands -----------------------------------------------------------------------------------------


async def test_a_command_says_something_or_shows_something(folder):
    (folder / "c.py").write_text(
        "def ask(arguments, ctx):\n    '''ask something'''\n    return f'please {arguments}'\n"
        "async def show(arguments, ctx):\n    ctx.show(f'in {ctx.cwd}: {arguments}')\n"
        "def register(api):\n    api.command('ask', ask)\n    api.command('/show', show, 'show it')\n"
    )
    shown: list[str] = []
    async with AgentSession() as agent:
        await agent.start(model=ScriptedModel())
        assert await agent.typed("/ask  nicely  now ", shown.append) == "please nicely  now"
        assert await agent.typed("/ask") == "please "
        assert await agent.typed("/show x", shown.append) is None
        assert shown == [f"in {os.getcwd()}: x"]
        for text in ("hello", "/unknown x", "/usr/bin is full", "/", "ask me", "tell /ask"):
            assert await agent.typed(text, pytest.fail) == text
        assert (agent.commands["ask"].description, agent.commands["show"].description) == (
            "ask something",
            "show it",
        )


async def test_a_failing_command_is_an_error_with_its_place_and_the_session_goes_on(folder):
    (folder / "c.py").write_text(
        "def bad(arguments, ctx):\n    return 1 / 0\n"
        "def odd(arguments, ctx):\n    return 7\n"
        "def register(api):\n    api.command('bad', bad)\n    api.command('odd', odd)\n"
    )
    async with AgentSession() as agent:
        await agent.start(model=ScriptedModel("fine"))
        with pytest.raises(PerdureError, match=r"/bad failed: ~/.pi/agent/extensions/c.py:2: ZeroDivision"):
            await agent.typed("/bad")
        with pytest.raises(PerdureError, match="a command returns text or None, not int"):
            await agent.typed("/odd")
        assert [event async for event in agent.send_message("go")][-1].type == "agent_end"


async def test_a_built_in_command_keeps_its_name(folder):
    (folder / "c.py").write_text("def register(api):\n    api.command('help', print)\n")
    async with AgentSession() as agent:
        await agent.start(model=ScriptedModel())
        shown: list[str] = []
        await agent.typed("/help", shown.append)
        assert "/compact  condense the conversation" in shown[0]
        assert shown[-1] == f"\nTools: {', '.join(BUILT_IN)}"
        (notice,) = agent.notices
        assert notice.endswith("there is a command /help already, built in; this one is left out")


async def test_name_and_compact_do_their_work():
    shown: list[str] = []
    async with AgentSession() as agent:
        await agent.start(model=ScriptedModel("one", "two", "a summary"))
        await agent.typed("/name before anything", shown.append)
        assert [event async for event in agent.send_message("go " * 9000)]
        assert agent.session.name == "before anything"
        assert await agent.typed("/name the zebra", shown.append) is None
        assert agent.session.name == "the zebra"
        assert [event async for event in agent.send_message("more " * 40_000)]
        await agent.typed("/compact keep the names", shown.append)
        assert any(entry.type == "compaction" for entry in agent.session.entries)
        assert shown[-1].startswith("Condensed: it was about ")
        with pytest.raises(PerdureError, match="needs a name"):
            await agent.typed("/name")


# --- installed packages ---------------------------------------------------------------------------------


def package(folder, name, value, group="perdure"):
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    known = {*sys.modules}
    yield folder
    for name in {*sys.modules} - known:
        if name.startswith("packaged_"):
            del sys.modules[name]


async def test_packages_register_by_a_function_or_a_module_in_the_order_of_their_names(site):
    (site / "packaged_a.py").write_text("def go(api): api.prompt('FROM A')")
    (site / "packaged_b.py").write_text("def register(api): api.prompt('FROM B')")
    package(site, "zebra", "packaged_b")
    package(site, "ant", "packaged_a:go")
    package(site, "other", "packaged_none:x", group="other.perdure")
    model = ScriptedModel("done")
    _, notices = await talk(model)
    system = model.requests[0].system
    assert 0 < system.index("FROM A") < system.index("FROM B")
    assert notices == []


async def test_a_failing_package_is_one_warning_with_its_file_and_line(site):
    (site / "packaged_c.py").write_text("def register(api):\n    api.nothing()\n")
    package(site, "broken", "packaged_c:register")
    package(site, "gone", "packaged_gone:register")
    _, notices = await talk(ScriptedModel("done"))
    first, second = notices
    assert "packaged_c:register (broken)" in first
    assert "packaged_c.py:2: AttributeError" in first
    assert "packaged_gone:register (gone)" in second
    assert "ModuleNotFoundError" in second


async def test_g_10_a_package_in_the_current_directory_is_not_installed(tmp_path, monkeypatch):
    """`python -m perdure` has it on its path."""
    package(tmp_path, "evil", "packaged_evil:register")
    (tmp_path / "packaged_evil.py").write_text("raise SystemExit('it ran')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend("")
    _, notices = await talk(ScriptedModel("done"))
    assert notices == []
    assert "packaged_evil" not in sys.modules
