"""pi's agent, from outside: the scenarios PI-05 to PI-22, through the public names and the program itself."""

import asyncio
import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import (
    AgentSession,
    AgentToolResult,
    Model,
    ModelRegistry,
    ModelResolver,
    NoCompaction,
    PerdureError,
    SessionManager,
    Settings,
    SummaryCompaction,
    Tool,
)
from perdure.errors import ContextOverflow
from perdure.session.entry import Image, Thinking, ToolCall
from perdure.testing import ScriptedModel
from tests import processes
from tests.front.one_prompt import running

pytestmark = pytest.mark.anyio

TOOLS = ("read", "bash", "edit", "write", "grep", "find", "ls")
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
"""A picture of one dot."""


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def project(tmp_path, monkeypatch):
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


async def talk(model, *texts, **options):
    """What was told, and the id of the session."""
    events = []
    async with AgentSession(**options) as agent:
        id = await agent.start(model=model)
        for text in texts:
            events += [event async for event in agent.send_message(text)]
    return events, id


async def used(project, name, **arguments):
    """The result of one built-in tool, called by a model through the whole agent."""
    model = ScriptedModel(ToolCall("call", name, arguments), "done")
    events, _ = await talk(model, "go")
    (end,) = [event for event in events if event.type == "tool_execution_end"]
    return end.result


async def test_pi_05_starting_resolves_the_model_and_returns_the_sessions_id(project, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    async with AgentSession() as agent:
        id = await agent.start(model="gpt-4o")
        assert (agent.model.provider, agent.model.id) == ("openai", "gpt-4o")
        assert agent.session.id == id
        assert {*agent.agent._bench.tools} == {"bash", "read", "write", "edit", "grep", "find", "ls"}
    assert SessionManager().list_sessions() == []  # nothing was said in it


async def test_pi_05_with_an_id_it_goes_on_with_the_history(project):
    _, id = await talk(ScriptedModel([Thinking("hmm"), "one"]), "hello")
    async with AgentSession() as agent:
        second = ScriptedModel("two")
        assert await agent.start(model=second, session_id=id) == id
        assert [event async for event in agent.send_message("again")]
    assert [message.text for message in second.requests[0].messages] == ["hello", "one", "again"]
    assert [entry.text for entry in SessionManager().load_session(id)] == ["hello", "one", "again", "two"]


async def test_pi_05_the_sessions_model_and_thinking_are_restored(project):
    """Also where another model is the default by now: then that is said."""
    async with AgentSession() as agent:
        id = await agent.start(model="offline", thinking="low")
        assert [event async for event in agent.send_message("hello")]
    async with AgentSession(settings={"default_model": "gpt-4o"}) as agent:
        await agent.start(session_id=id)
        assert agent.model.reference == "offline/offline"
        assert agent.agent.voice.thinking == "low"
        assert [notice for notice in agent.notices if "openai/gpt-4o" in notice]
    async with AgentSession() as agent:
        await agent.start(session_id=id)
        assert agent.notices == []


async def test_pi_05_a_model_that_is_gone_is_replaced_and_that_is_said(project):
    _, id = await talk(ScriptedModel("one"), "hello")
    async with AgentSession() as agent:
        await agent.start(session_id=id)
        assert agent.model.reference == "offline/offline"
        assert "scripted/scripted" in agent.notices[0]


async def test_pi_05_all_arguments_have_defaults_and_a_second_start_is_refused(project):
    async with AgentSession() as agent:
        await agent.start()
        with pytest.raises(PerdureError, match="already"):
            await agent.start()
    with pytest.raises(PerdureError, match="not been started"):
        AgentSession().abort()


async def test_pi_05_an_unknown_session_is_an_error_and_makes_none(project):
    async with AgentSession() as agent:
        with pytest.raises(PerdureError, match="Session not found"):
            await agent.start(model=ScriptedModel(), session_id="nothing")
    assert SessionManager().list_sessions() == []


async def test_pi_06_events_come_as_an_async_generator_in_the_documented_order(project):
    events, _ = await talk(ScriptedModel(ToolCall("a", "ls", {}), "done"), "hello")
    types = [event.type for event in events if event.type != "message_update"]
    one = ["message_start", "message_end"]
    assert types == [
        *("agent_start", "turn_start", *one, *one),
        *("tool_execution_start", "tool_execution_end", *one, "turn_end"),
        *("turn_start", *one, "turn_end", "agent_end"),
    ]


async def test_pi_06_the_model_can_change_in_the_middle_of_a_session(project):
    """The change is in the session, and the other model is sent what was said. Thoughts go back to none but
    the model that had them: the tests of the protocols see to that."""
    other = ScriptedModel("two", model=Model(id="other", provider="else", api="scripted"))
    async with AgentSession() as agent:
        await agent.start(model=ScriptedModel([Thinking("hmm", "signed"), "one"]))
        assert [event async for event in agent.send_message("hello")]
        agent.set_model(other)
        assert [event async for event in agent.send_message("again")]
        changes: Any = [entry for entry in agent.session.entries if entry.type == "model_change"]
        assert [entry.body.model_id for entry in changes] == ["scripted", "other"]
    assert [message.text for message in other.requests[0].messages] == ["hello", "one", "again"]


@pytest.mark.process
async def test_pi_07_bash(project):
    result = await used(project, "bash", command="echo out; echo err >&2; exit 3")
    assert (result.is_error, result.text.split("\n")[:2]) == (True, ["out", "err"])
    assert "code 3" in result.text


@pytest.mark.process
async def test_pi_07_bash_is_bounded_in_time_and_in_what_it_gives(project):
    """The end of a long output, and all of it in a file; a command that takes too long ends, with its own."""
    result = await used(project, "bash", command="seq 1 5000")
    assert "\n5000" in result.text
    assert "\n2500\n" not in result.text
    (path,) = [word.strip("[].,") for word in result.text.split() if word.startswith("/")]
    assert Path(path).read_text().startswith("1\n2\n")
    result = await used(project, "bash", command="sleep 61.75 & echo begun; sleep 60", timeout=3)
    assert result.is_error
    assert "begun" in result.text
    assert "timed out" in result.text
    assert running("sleep 61.75") == 0


async def test_pi_08_read(project):
    (project / "test.txt").write_text("one\ntwo\nthree\n")
    result = await used(project, "read", path=str(project / "test.txt"), offset=2, limit=1)
    assert result.text.startswith("two")
    assert "three" not in result.text


async def test_pi_08_read_shows_pictures_and_says_what_it_cannot(project):
    (project / "dot.png").write_bytes(base64.b64decode(DOT))
    (project / "data.bin").write_bytes(bytes(range(256)))
    assert isinstance((await used(project, "read", path="dot.png")).blocks[-1], Image)
    for path, said in [("data.bin", "binary"), ("dot.pgn", "dot.png"), (".", "directory")]:
        result = await used(project, "read", path=path)
        assert result.is_error, path
        assert said in result.text


async def test_pi_09_write(project):
    await used(project, "write", path="new/test.txt", content="hello")
    assert (project / "new" / "test.txt").read_text() == "hello"


async def test_pi_10_edit_replaces_the_first_occurrence(project):
    """And says that there are more. Line ends and a mark at the beginning stay as they are."""
    (project / "a.txt").write_bytes(b"\xef\xbb\xbfx\r\nx x\r\n")
    result = await used(project, "edit", path="a.txt", oldText="x\nx", newText="y\nz")
    assert (project / "a.txt").read_bytes() == b"\xef\xbb\xbfy\r\nz x\r\n"
    (project / "a.txt").write_text("x x x")
    result = await used(project, "edit", path="a.txt", old_text="x", new_text="y")
    assert (project / "a.txt").read_text() == "y x x"
    assert "first of 3" in result.text
    result = await used(project, "edit", path="a.txt", old_text="y x z", new_text="")
    assert result.is_error
    assert "y x x" in result.text  # what comes nearest


@pytest.mark.process
async def test_pi_11_grep(project):
    (project / "a.py").write_text("first\n# TODO later\n")
    (project / ".gitignore").write_text("made.py\n")
    (project / "made.py").write_text("TODO\n")
    result = await used(project, "grep", pattern="TODO", path=".")
    assert "a.py:2: # TODO later" in result.text
    assert "made.py" not in result.text
    wrong = await used(project, "grep", pattern="(", path=".")
    assert wrong.is_error
    assert "not a regular expression" in wrong.text


@pytest.mark.process
async def test_pi_12_find(project):
    (project / "src").mkdir()
    (project / "src" / "a.py").write_text("")
    (project / ".gitignore").write_text("made.py\n")
    (project / "made.py").write_text("")
    assert (await used(project, "find", pattern="*.py", path=".")).text.split() == ["src/a.py"]


async def test_pi_13_ls(project):
    (project / "src").mkdir()
    (project / ".hidden").write_text("")
    assert (await used(project, "ls", path=".")).text.split() == [".hidden", "src/"]


async def test_pi_14_a_tool_of_ones_own_with_a_json_schema(project):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def double(args, ctx):
        return AgentToolResult(str(args["n"] * 2))

    model = ScriptedModel([ToolCall("a", "double", {"n": 2}), ToolCall("b", "double", {"n": "x"})], "done")
    events, _ = await talk(model, "go", tools=[Tool("double", "Twice as much.", schema, double)])
    good, bad = [event.result for event in events if event.type == "tool_execution_end"]
    assert (good.text, good.is_error) == ("4", False)
    assert bad.is_error
    assert model.requests[0].tools[0].parameters == schema


async def test_pi_14_every_tool_has_a_schema_and_a_call_that_fits_none_is_an_error(project):
    calls = [ToolCall("a", "no_such_tool", {}), ToolCall("b", "read", {}), ToolCall("c", "read", {"path": 1})]
    model = ScriptedModel(calls, "done")
    events, _ = await talk(model, "go")
    assert all(event.result.is_error for event in events if event.type == "tool_execution_end")
    assert [tool.name for tool in model.requests[0].tools] == [*TOOLS]
    for tool in model.requests[0].tools:
        assert tool.parameters["type"] == "object"
        assert all(each.get("description") for each in tool.parameters["properties"].values())


def test_pi_15_a_model_is_found_by_its_id():
    resolver = ModelResolver(ModelRegistry())
    for name in ("gpt-4o", "openai/gpt-4o"):
        model = resolver.resolve(name)
        assert (model.provider, model.id) == ("openai", "gpt-4o")
        assert model.base_url.startswith("https://")
        assert 0 < model.cost.input < model.cost.output
        assert model.context_window == 128_000


def test_pi_16_a_model_of_ones_own_is_found_with_its_settings():
    settings = Settings.of({"models": [{"id": "local-llama", "base_url": "http://localhost:8080/v1"}]})
    model = ModelResolver(ModelRegistry(settings)).resolve("local-llama")
    assert (model.id, model.base_url) == ("local-llama", "http://localhost:8080/v1")


def test_pi_16_a_model_of_pis_own_file_is_found(home):
    own = {"baseUrl": "http://localhost:8080/v1", "api": "openai-completions", "models": [{"id": "llama"}]}
    (home / ".pi" / "agent").mkdir(parents=True)
    (home / ".pi" / "agent" / "models.json").write_text(json.dumps({"providers": {"mine": own}}))
    model = ModelResolver(ModelRegistry()).resolve("mine/llama")
    assert (model.provider, model.base_url) == ("mine", "http://localhost:8080/v1")


def test_pi_17_without_an_argument_the_settings_decide():
    settings = Settings.of({"default_model": "gpt-4o"})
    assert ModelResolver(ModelRegistry(settings)).resolve(None).id == "gpt-4o"
    assert ModelResolver(ModelRegistry(settings)).resolve("gpt-4o-mini").id == "gpt-4o-mini"
    with pytest.raises(PerdureError, match="gpt-4oo") as raised:
        ModelResolver(ModelRegistry(settings)).resolve("gpt-4oo")
    assert "openai/gpt-4o" in raised.value.hint
    assert raised.value.exit_code == 1
    assert ModelResolver(ModelRegistry()).resolve(None).provider == "offline"


async def test_pi_18_the_system_prompt_has_the_directory_every_tool_and_the_projects_words(project):
    (project / "AGENTS.md").write_text("Use tabs.")
    await talk(model := ScriptedModel("ok"), "hello")
    system = model.requests[0].system
    assert str(project) in system
    assert "Use tabs." in system
    for tool in model.requests[0].tools:
        assert tool.name in system
        assert tool.description in system


async def test_pi_19_prompts_of_the_settings_and_of_the_call_come_in_this_order(project):
    model = ScriptedModel("ok")
    await talk(model, "hello", settings={"prompts": ["FROM SETTINGS"]}, append_system_prompt=["FROM CALL"])
    system = model.requests[0].system
    assert 0 < system.index("FROM SETTINGS") < system.index("FROM CALL")


async def test_pi_20_a_long_history_is_condensed_and_the_file_keeps_all_of_it(project):
    """`compact_threshold` tokens; a fork before the compaction has the full history."""
    settings = {"auto_compact": True, "compact_threshold": 300, "compaction": {"keep_recent_tokens": 50}}

    def reply(request):
        return "what was said" if "<conversation>" in request.messages[-1].text else "a" * 800

    model = ScriptedModel(*[reply] * 9)
    async with AgentSession(settings=settings) as agent:
        await agent.start(model=model)
        for text in ("one " * 100, "two " * 100, "three"):
            assert [event async for event in agent.send_message(text)]
        session = agent.session
        compaction, *_ = [entry for entry in session.path() if entry.type == "compaction"]
        assert "what was said" in compaction.text
        sent = model.requests[-1].messages
        assert "what was said" in sent[0].text
        assert all("one one" not in message.text for message in sent[1:])
        assert "one one" in "".join(entry.text for entry in session.path())
        fork: Any = type(session).view(session.store, session.fork(compaction.parent_id))
        assert fork.context().messages[0].text == "one " * 100


async def test_pi_20_it_is_looked_at_between_the_tool_turns_of_one_prompt_too(project):
    """And no call is parted from its result."""

    def reply(request):
        if "<conversation>" in request.messages[-1].text:
            return "what was said"
        return ToolCall(f"call{len(model.requests)}", "ls", {}) if len(model.requests) < 8 else "done"

    for at in range(60):
        (project / f"a-file-with-a-long-name-{at}").write_text("")
    model = ScriptedModel(*[reply] * 20)
    strategy = SummaryCompaction(threshold=1500, keep_recent_tokens=600)
    events, _ = await talk(model, "list it again and again", compaction=strategy)
    types = [event.type for event in events]
    assert "compaction_end" in types[: types.index("agent_end")]
    assert types.count("agent_start") == 1
    for request in model.requests:
        calls = [call.id for message in request.messages for call in getattr(message, "calls", ())]
        results = [each.tool_call_id for each in request.messages if hasattr(each, "tool_call_id")]
        assert calls == results


async def test_pi_20_a_strategy_may_be_given(project):
    with pytest.raises(PerdureError, match="threshold"):
        SummaryCompaction(threshold=2.5)
    model = ScriptedModel(
        "one", "two", model=Model(id="m", provider="p", api="scripted", context_window=4000)
    )
    strategy = SummaryCompaction(threshold=0.01, keep_recent_tokens=0)
    events, _ = await talk(model, "a " * 400, "b", compaction=strategy)
    assert "compaction_start" in [event.type for event in events]


async def test_pi_20_where_it_is_not_automatic_it_can_be_asked_for(project):
    model = ScriptedModel("a" * 4000, "what was said")
    async with AgentSession(settings={"auto_compact": False, "compact_threshold": 10}) as agent:
        await agent.start(model=model)
        events = [event.type async for event in agent.send_message("one " * 30_000)]
        assert "compaction_start" not in events
        assert [event.type async for event in agent.compact()][-1] == "compaction_end"
        assert agent.session.path()[-1].text.startswith("what was said")


async def test_pi_21_no_compaction_never_condenses(project):
    """Not on overflow either: what the provider said is shown."""
    model = ScriptedModel(*["a" * 4000] * 4, ContextOverflow("it was too much"))
    events, _ = await talk(model, *["one " * 1000] * 5, compaction=NoCompaction())
    assert not any(event.type.startswith("compaction") for event in events)
    assert len(model.requests[-1].messages) == 9
    assert events[-1].messages[-1].error_message.startswith("it was too much")


@pytest.mark.process
def test_pi_22_print_mode_answers_on_a_fresh_machine(project):
    """With no key and no settings, in a folder with a program in it."""
    (project / "greet.py").write_text('"""Greets."""\n\n\ndef greet(name):\n    """Say hello."""\n')
    command = [sys.executable, "-m", "perdure", "--print", "explain this code"]
    done = processes.run(command, capture_output=True, text=True, cwd=project, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert "greet.py:4" in done.stdout
    assert "Python" in done.stdout
    (summary,) = SessionManager().list_sessions()
    assert done.stdout.strip() == SessionManager().load_session(summary.id)[-1].text.strip()
    assert summary.id in done.stderr
    failed = processes.run([*command, "-m", "no/such"], capture_output=True, text=True, cwd=project, input="")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "no/such" in failed.stderr


async def test_g_3_a_prompt_is_there_for_another_process_while_the_model_thinks(project):
    seen = []

    def look(request):
        (summary,) = SessionManager().list_sessions()
        seen.append([entry.text for entry in SessionManager().load_session(summary.id)])
        return "yes"

    await talk(ScriptedModel(look), "hello")
    assert seen == [["hello"]]


async def test_g_3_every_finished_message_is_there_before_the_next_step(project):
    """The answer before its tools run, their results before the model is asked again."""
    seen = []

    async def look(args, ctx):
        (summary,) = SessionManager().list_sessions()
        seen.append(len(SessionManager().load_session(summary.id)))
        return AgentToolResult("looked")

    def ask(request):
        (summary,) = SessionManager().list_sessions()
        seen.append(len(SessionManager().load_session(summary.id)))
        return "done"

    tool = Tool("look", "Looks.", {"type": "object", "properties": {}}, look)
    await talk(ScriptedModel(ToolCall("a", "look", {}), ask), "hello", tools=[tool])
    assert seen == [2, 3]


@pytest.mark.process
async def test_keys_are_in_no_session_and_in_no_commands_environment(project, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
    monkeypatch.setenv("MY_SECRET_TOKEN", "canary-token")
    result = await used(project, "bash", command="env; cat /proc/self/environ | tr '\\0' '\\n'")
    assert "PATH=" in result.text
    assert "canary" not in result.text
    files = [path for path in Path(os.environ["HOME"]).rglob("*") if path.is_file()]
    assert files
    assert not any(b"canary" in path.read_bytes() for path in files)


@pytest.mark.slow
async def test_a_5000_message_session_resumes_by_what_is_sent(project):
    """Of a compacted session nothing older than the kept messages is read into memory."""
    import tracemalloc

    from perdure.session.entry import Assistant, Compaction, Message, User
    from perdure.session.session import Session
    from perdure.session.stores import open_store

    with Session.create(open_store("pi", durability="process")) as session:
        for _ in range(50):
            pair = (Message(User("x" * 2000)), Message(Assistant("y" * 2000)))
            made = session.append(*pair * 50)
        session.append(Compaction("what was said", made[-2].id, 1000))
        id = session.id
    tracemalloc.start()
    try:
        model = ScriptedModel("ok")
        async with AgentSession(tools=[]) as agent:
            await agent.start(model=model, session_id=id)
            assert [event async for event in agent.send_message("go on")]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(model.requests[0].messages) == 4
    assert peak < 4_000_000  # the file has 10 MB


def test_everything_runs_in_a_loop_of_ones_own(project):
    assert asyncio.run(talk(ScriptedModel("ok"), "hello"))[0][-1].type == "agent_end"
