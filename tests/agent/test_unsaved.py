"""What arrived is not lost to a disk that refuses it: it waits in memory, and is written before all else."""

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.compaction import SummaryCompaction
from perdure.agent.events import MessageUpdate
from perdure.agent.memory import Memory
from perdure.errors import Conflict, ModelError, NotSaved, PerdureError
from perdure.session.entry import (
    Assistant,
    BashExecution,
    Custom,
    CustomMessage,
    Message,
    ModelChange,
    Text,
    ToolCall,
    User,
)
from perdure.session.session import Session
from perdure.session.stores.memory import MemoryStore
from perdure.testing import ScriptedModel
from tests.agent.echo import ECHO
from tests.agent.refusing import LAYOUTS, Disk, on_disk, session_in, talking, texts, told, view
from tests.layouts import store_of

pytestmark = pytest.mark.anyio

DECIDED = Custom("perdure.decision", {"content": "yes"})


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return request.param


@pytest.fixture
def session(layout, home):
    with session_in(layout, home / "kept") as session:
        yield session


@pytest.fixture
def disk(session):
    return Disk(session)


def by_thread(monkeypatch):
    """The disk is never quick enough to be written to without a thread."""
    monkeypatch.setattr("perdure.agent.memory._QUICK", 0)


# --- what waits ---------------------------------------------------------------------------------------------


async def test_a_refused_answer_is_told_at_once_and_saved_with_the_next_prompt(session, disk):
    """In one append with it, before it; and the model is sent both."""
    model = ScriptedModel("one", "two")
    async with await talking(session, model) as agent:
        disk.refusals = [2]
        with pytest.raises(NotSaved, match="No space left on device") as refused:
            await told(agent.send_message("hello"))
        assert refused.value.hint.endswith("kept in memory, and is saved with what is said next")
        assert "free some disk space" in refused.value.hint
        assert (on_disk(session), agent.has_unsaved) == (["hello"], True)
        await told(agent.send_message("again"))
        assert on_disk(session) == ["hello", "one", "again", "two"]
        assert ["one", "again"] in disk.written
        assert texts(model.requests[1].messages) == ["hello", "one", "again"]
        assert not agent.has_unsaved


@pytest.mark.parametrize("refused_at", [2, 3, 4, 5])
async def test_wherever_the_disk_fills_up_in_a_tool_turn_nothing_that_was_kept_is_missing(
    session, disk, refused_at
):
    """What arrived before the refusal, and what was refused, is on disk after a save; once, in its order."""
    calls = [ToolCall("a", "echo", {"text": "x"}), ToolCall("b", "echo", {"text": "y"})]
    async with await talking(session, ScriptedModel(calls, "done", "more"), tools=[ECHO]) as agent:
        disk.refusals = [refused_at]
        with pytest.raises(NotSaved):
            await told(agent.send_message("hello"))
        assert await agent.save() == (refused_at != 3)  # the other result has taken the first one with it
        whole = ["hello", "", "said x", "said y", "done"]
        said = whole[: {3: 4}.get(refused_at, refused_at)]
        assert on_disk(session) == said
        assert not await agent.save()
        await told(agent.send_message("go on"))
        assert on_disk(session) == [*said, "go on", "more" if refused_at == 5 else "done"]


async def test_a_prompt_that_is_refused_stays_with_its_user(session, disk):
    """It is not said behind their back later."""
    async with await talking(session, ScriptedModel("one")) as agent:
        disk.refusals = [1]
        with pytest.raises(NotSaved) as refused:
            await told(agent.send_message("hello"))
        assert "kept" not in refused.value.hint
        assert not agent.has_unsaved
        assert not await agent.save()
        await told(agent.send_message("hello"))
        assert on_disk(session) == ["hello", "one"]


async def test_it_waits_for_as_long_as_it_takes(session, disk):
    """Each refusal is told, of a save and of a prompt; and says that what arrived is still there."""
    async with await talking(session, ScriptedModel("one", "two")) as agent:
        disk.refusals = [2]
        with pytest.raises(NotSaved):
            await told(agent.send_message("hello"))
        disk.is_full = True
        for attempt in (agent.save, lambda: told(agent.send_message("lost")), agent.save):
            with pytest.raises(NotSaved) as refused:
                await attempt()
            assert "kept in memory" in refused.value.hint
        assert (on_disk(session), agent.has_unsaved) == (["hello"], True)
        disk.is_full = False
        assert await agent.save()
        assert on_disk(session) == ["hello", "one"]


@pytest.mark.process
async def test_a_command_that_ran_and_a_summary_that_was_paid_for_wait_too(session, disk):
    model = ScriptedModel("a" * 3000, "b" * 3000, "the summary", "four")
    compaction = SummaryCompaction(is_automatic=False, keep_recent_tokens=10)
    async with await talking(session, model, compaction=compaction) as agent:
        await told(agent.send_message("one"))
        await told(agent.send_message("two"))
        disk.is_full = True
        with pytest.raises(NotSaved):
            await agent.run_command("echo three")
        with pytest.raises(NotSaved):
            await told(agent.compact())
        disk.is_full = False
        await told(agent.send_message("four"))
        last: Any = view(session).path()
        kinds = [entry.role or entry.type for entry in last if "change" not in entry.type]
        assert kinds[4:] == ["bashExecution", "compaction", "user", "assistant"]
        assert "the summary" in model.requests[-1].messages[0].text
        assert any("echo three" in text for text in texts(model.requests[-1].messages))


async def test_an_answer_that_breaks_off_on_a_full_disk_waits_too(session, disk):
    """Whoever closes is told, can still see that there is something, save it, and close."""
    agent = await talking(session, ScriptedModel(["half", asyncio.Event()]))
    async for event in (turn := agent.send_message("hello")):
        if isinstance(event, MessageUpdate) and event.extent:
            break
    disk.is_full = True
    with pytest.raises(NotSaved):
        await agent.close()
    assert agent.has_unsaved
    disk.is_full = False
    assert await agent.save()
    await agent.close()
    assert not agent.has_unsaved
    assert on_disk(session) == ["hello", "half"]
    await turn.aclose()


@pytest.mark.parametrize("defect", ["no entry", "no JSON", "raised"])
async def test_what_belongs_to_an_answer_does_not_take_it_along(session, disk, defect):
    """A defect of a program is its own error; the answer is on disk, and so is what is said later."""
    bodies: Any = {"no entry": [object()], "no JSON": [Custom("x", {"o": object()})], "raised": None}[defect]

    def alongside(_: object) -> Any:
        return [*bodies]  # of None that is a TypeError

    async with await talking(session, ScriptedModel("one", "two"), alongside=alongside) as agent:
        with pytest.raises(PerdureError, match="What belongs to the answer was not recorded"):
            await told(agent.send_message("hello"))
        assert not agent.has_unsaved
        bodies = []
        await told(agent.send_message("again"))
        assert on_disk(session) == ["hello", "one", "again", "two"]


# --- what belongs to an answer ------------------------------------------------------------------------------


async def test_what_belongs_to_an_answer_is_on_disk_with_it_or_neither_is(session, disk):
    """In one append, behind it; also if that is refused at first."""
    model = ScriptedModel("one", "two")
    async with await talking(session, model, alongside=lambda answer: [DECIDED]) as agent:
        events = await told(agent.send_message("hello"))
        ids = [event.entry_id for event in events if event.type == "message_end"]
        assert on_disk(session) == ["hello", "one", "perdure.decision"]
        assert [entry.id for entry in view(session).path()[-2:]] == ids
        disk.refusals = [disk.count + 2]
        with pytest.raises(NotSaved):
            await told(agent.send_message("again"))
        assert on_disk(session)[3:] == ["again"]
        await agent.save()
        assert on_disk(session)[3:] == ["again", "two", "perdure.decision"]
        assert disk.written[-1] == ["two", "custom"]
        assert texts(view(session).context().messages) == ["hello", "one", "again", "two"]


async def test_only_a_whole_answer_has_something_alongside(session):
    """Not one that was aborted, nor one that failed. Tools that it calls make it no less whole."""
    model = ScriptedModel(
        ["one", ToolCall("a", "echo", {})], ["half", asyncio.Event()], ["broken", ModelError("failed")]
    )
    async with await talking(session, model, alongside=lambda _: [DECIDED], tools=[ECHO]) as agent:
        async for event in agent.send_message("hello"):
            if isinstance(event, MessageUpdate) and event.extent and len(model.requests) == 2:
                agent.abort()
        await told(agent.send_message("again"))
        said = ["hello", "one", "perdure.decision", "said ", "half", "again", "broken"]
        assert on_disk(session) == said


async def test_what_is_alongside_may_be_for_the_model_too(session):
    """It is sent what the session says."""
    model = ScriptedModel("one", "two")
    note = CustomMessage("perdure.note", "a word of the program's")
    async with await talking(session, model, alongside=lambda answer: [note]) as agent:
        await told(agent.send_message("hello"))
        await told(agent.send_message("again"))
        assert texts(model.requests[1].messages) == ["hello", "one", "a word of the program's", "again"]


# --- settings, and a program's state ------------------------------------------------------------------------


async def test_a_save_writes_changes_only_where_something_was_said(session, disk):
    """And only once, the last of each kind."""
    async with await talking(session, ScriptedModel("one")) as agent:
        for count in (1, 2):
            agent.agent.note_change(Custom("perdure.commands", {"count": count}))
            agent.agent.note_change(Custom("perdure.other", {"count": count}))
        assert (await agent.save(), agent.has_unsaved, disk.count) == (False, False, 0)
        await told(agent.send_message("hello"))
        states = [e.body.data for e in view(session).entries if isinstance(e.body, Custom)]
        assert states == [{"count": 2}] * 2
        assert not await agent.save()
        agent.agent.note_change(Custom("perdure.commands", {"count": 3}))
        assert not agent.has_unsaved
        assert await agent.save()
        assert on_disk(session)[-1] == "perdure.commands"
        count = disk.count
        assert (await agent.save(), disk.count) == (False, count)


async def test_what_a_layout_forbids_is_no_reason_to_write(home):
    """Sibyl keeps no model: resuming a session changes nothing in it."""
    with session_in("sibyl", home / "kept") as session:
        session.append(Message(User("hello")))
        async with await talking(session, ScriptedModel()) as agent:
            agent.agent.note_change(ModelChange("some", "other"))
            before = Path(session.ref.path).read_bytes()
            assert not await agent.save()
            assert Path(session.ref.path).read_bytes() == before


async def test_what_a_program_records_is_on_disk_at_once_behind_what_waits(session, disk):
    """Also in a turn, and in an empty session, which stays one. What is refused is the program's again."""
    model = ScriptedModel(ToolCall("a", "echo", {}), "one", "two")
    async with await talking(session, model, tools=[ECHO]) as agent:
        await agent.record(DECIDED)
        assert (on_disk(session), session.is_empty) == (["perdure.decision"], True)
        async for event in agent.send_message("hello"):
            if event.type == "tool_execution_start":
                await agent.record(DECIDED)
                assert on_disk(session)[-1] == "perdure.decision"
        said = ["perdure.decision", "hello", "", "perdure.decision", "said ", "one"]
        assert on_disk(session) == said
        assert texts(model.requests[1].messages) == ["hello", "", "said "]
        disk.is_full = True
        with pytest.raises(NotSaved):
            await agent.record(DECIDED)
        assert not agent.has_unsaved
        disk.is_full, disk.refusals = False, [disk.count + 2]
        with pytest.raises(NotSaved):
            await told(agent.send_message("again"))
        await agent.record(DECIDED)
        assert on_disk(session) == [*said, "again", "two", "perdure.decision"]


# --- others who write ---------------------------------------------------------------------------------------


def write_behind(session: Session, layout: str, home: Path) -> None:
    """As another program does that takes no lock: it adds a message to a copy, and puts that in its place."""
    copy = shutil.copytree(home / "kept", home / "copy")
    (ref,) = (store := store_of(layout, copy)).list()
    with Session.open(store, ref) as other:
        other.append(Message(User("from elsewhere")))
    Path(session.ref.path).write_bytes(Path(ref.path).read_bytes())


async def test_after_a_conflict_what_waits_follows_what_others_wrote(session, layout, home):
    def answer_late(_):
        write_behind(session, layout, home)
        return "two"

    model = ScriptedModel("one", answer_late, "three")
    async with await talking(session, model) as agent:
        await told(agent.send_message("hello"))
        with pytest.raises(Conflict) as conflict:
            await told(agent.send_message("again"))
        assert "kept in memory" in conflict.value.hint
        with pytest.raises(Conflict):
            await agent.save()
        session.reload()
        await agent.move(session.head)
        assert agent.has_unsaved
        await told(agent.send_message("more"))
        said = ["hello", "one", "again", "from elsewhere", "two", "more"]
        assert on_disk(session) == [*said, "three"]
        assert texts(model.requests[-1].messages) == said


async def test_who_moves_on_leaves_nothing_behind_that_waits(session, disk):
    """It is saved where it was said; if it cannot be, nobody moves."""
    model = ScriptedModel("one", "two", "three")
    async with await talking(session, model) as agent:
        await told(agent.send_message("hello"))
        there = session.head
        disk.refusals = [disk.count + 2, disk.count + 3]
        with pytest.raises(NotSaved):
            await told(agent.send_message("again"))
        stands = session.head
        with pytest.raises(NotSaved):
            await agent.move(there)
        assert (session.head, agent.is_busy) == (stands, False)
        await agent.move(there)
        assert texts_of_path(view(session)) == ["hello", "one", "again", "two"]
        await told(agent.send_message("instead"))
        assert texts_of_path(view(session)) == ["hello", "one", "instead", "three"]
        assert texts(model.requests[-1].messages) == ["hello", "one", "instead"]


def texts_of_path(session: Session) -> list[str]:
    return [entry.text for entry in session.path() if entry.type == "message"]


# --- at the same time ---------------------------------------------------------------------------------------


async def test_saves_at_any_moment_of_a_turn_write_nothing_twice(session, disk, monkeypatch):
    """Also while the disk writes, and while it refuses."""
    by_thread(monkeypatch)
    calls = [ToolCall("a", "echo", {"text": "x"})]
    async with await talking(session, ScriptedModel(calls, "done", "more"), tools=[ECHO]) as agent:
        disk.refusals = [4]
        is_over = False

        async def save_all_the_time() -> None:
            while not is_over:
                await agent.save()
                await asyncio.sleep(0)

        saving = [asyncio.create_task(save_all_the_time()) for _ in range(3)]
        with pytest.raises(NotSaved):
            await told(agent.send_message("hello"))
        await told(agent.send_message("again"))
        is_over = True
        await asyncio.gather(*saving)
        assert on_disk(session) == ["hello", "", "said x", "done", "again", "more"]


async def test_who_is_cancelled_while_another_writes_is_written_all_the_same(session, monkeypatch):
    """An answer that waits for its turn is not lost with the task that brings it."""
    by_thread(monkeypatch)
    memory = Memory(session, 0)
    await memory.keep(User("hello"))
    is_writing, may_write = threading.Event(), threading.Event()
    real = session.append

    def slowly(*bodies):
        is_writing.set()
        assert may_write.wait(10)
        return real(*bodies)

    monkeypatch.setattr(session, "append", slowly)
    recording = asyncio.create_task(memory.record(DECIDED))
    await asyncio.to_thread(is_writing.wait, 10)
    keeping = asyncio.create_task(memory.keep(Assistant([Text("one")])))
    for _ in range(3):
        await asyncio.sleep(0)
        keeping.cancel()
    may_write.set()
    await asyncio.wait([recording, keeping])
    assert on_disk(session) == ["hello", "perdure.decision", "one"]
    assert texts(await memory.sent()) == ["hello", "one"]


# --- a real disk --------------------------------------------------------------------------------------------


async def test_a_file_that_may_not_grow_loses_no_answer(session):
    """RLIMIT_FSIZE: a real write that is refused half way, and room again later."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(_):
        room = Path(session.ref.path).stat().st_size + 200
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
        return long

    long = "one " * 2000
    async with await talking(session, ScriptedModel(fill, "two"), alongside=lambda _: [DECIDED]) as agent:
        try:
            with pytest.raises(NotSaved, match="File too large"):
                await told(agent.send_message("hello"))
            with pytest.raises(NotSaved):
                await agent.save()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert on_disk(session) == ["hello"]
        await told(agent.send_message("again"))
        assert on_disk(session) == ["hello", long, "perdure.decision", "again", "two", "perdure.decision"]
        assert view(session).problems == []


# --- the law ------------------------------------------------------------------------------------------------

arriving = st.one_of(
    st.builds(Assistant, st.just([Text("an answer")]), stop_reason=st.sampled_from(["stop", "aborted"])),
    st.builds(BashExecution, st.just("ls"), st.just("a file")),
)
steps = st.one_of(st.just(User("a prompt")), arriving, st.sampled_from(["save", "record", "note", "reset"]))


@given(st.lists(st.tuples(steps, st.booleans()), max_size=12))
def test_all_that_arrived_is_on_disk_in_its_order_as_soon_as_it_can_be(taken):
    """Whatever is refused: nothing but prompts, and what a program can bring again, is missing then; and what
    is remembered is what the session says."""

    async def live() -> None:
        with Session.create(MemoryStore()) as session:
            disk = Disk(session)
            memory = Memory(session, 0, lambda answer: [Custom("belongs to it")])
            expected: list[str] = []
            for step, disk.is_full in taken:
                is_refused = False
                try:
                    await do(step, memory)
                except NotSaved:
                    is_refused = True
                match step:
                    case User() if not is_refused:
                        expected.append("a prompt")
                    case Assistant():
                        expected += ["an answer", *["belongs to it"] * (not step.is_broken_off)]
                    case BashExecution():
                        expected.append("a file")
                    case "record" if not is_refused:
                        expected.append("on its own")
                    case "reset" if not is_refused and set(expected) - {"on its own"}:
                        expected.append("perdure.reset")
                assert changes_left_out(session) == expected[: len(changes_left_out(session))]
                assert is_refused or step == "note" or not memory.has_unsaved
            disk.is_full = False
            await memory.save()
            assert changes_left_out(session) == expected
            await memory.keep(User("the end"))
            assert await memory.sent() == session.context().messages
            assert Session.view(session.store, session.ref).context() == session.context()

    asyncio.run(live())


async def do(step: Any, memory: Memory) -> None:
    match step:
        case User() | Assistant():
            await memory.keep(step)
        case BashExecution():
            await memory.keep_command(step)
        case "save":
            await memory.save()
        case "record":
            await memory.record(Custom("on its own"))
        case "note":
            memory.note(Custom("a change"))
        case "reset":
            await memory.reset()


def changes_left_out(session: Session) -> list[str]:
    return [text for text in on_disk(session) if text != "a change"]
