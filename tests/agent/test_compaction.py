"""A conversation that has become too long goes on behind a summary, and nothing is lost."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent import compaction
from perdure.agent.compaction import CompactionStrategy, NoCompaction, SummaryCompaction
from perdure.agent.events import Reason
from perdure.agent.models import Cost, Finished, Model, Piece, Usage
from perdure.agent.summary import summarise
from perdure.agent.tokens import of_message, of_text
from perdure.errors import ContextOverflow, ModelError, UsageError
from perdure.session import context
from perdure.session.entry import (
    Assistant,
    BranchSummary,
    ContextEdit,
    CustomMessage,
    Image,
    Message,
    ModelChange,
    Text,
    Thinking,
    ThinkingLevelChange,
    ToolCall,
    ToolResult,
    User,
    new,
)
from perdure.session.session import Session
from perdure.session.stores.pi_jsonl import PiStore
from perdure.testing import ScriptedModel

SUMMARY = "## Goal\nTo count."
DEFAULT = SummaryCompaction()


def model_of(window: int = 128_000, **fields: Any) -> Model:
    return Model(id="m", provider="p", api="scripted", context_window=window, **fields)


def user(size: int, word: str = "u") -> Message:
    return Message(User((word * size)[:size]))


def answer(size: int, word: str = "a") -> Message:
    return Message(Assistant([Text((word * size)[:size])]))


def call(*ids: str, name: str = "bash", **arguments: Any) -> Message:
    return Message(Assistant([ToolCall(id, name, arguments) for id in ids], stop_reason="toolUse"))


def result(id: str, size: int) -> Message:
    return Message(ToolResult(id, "bash", [Text("r" * size)]))


def chain(*bodies):
    made: list[Any] = []
    for body in bodies:
        parent = made[-1].id if made else None
        made.append(new(body, id=f"e{len(made)}", parent_id=parent, timestamp="2026-01-31T09:05:00.123Z"))
    return made


class AtOnce(ScriptedModel):
    """Says the same whatever it is asked, in one piece."""

    def __init__(self, text: str, model: Model) -> None:
        super().__init__(model=model)
        self._text = text

    async def stream(self, request):
        self.requests.append(request)
        yield Piece(0, "text", self._text)
        yield Finished("stop", Usage(1, 1))


def compacted(
    entries,
    *replies,
    strategy: CompactionStrategy = DEFAULT,
    window: int = 128_000,
    reason: Reason = "threshold",
    **options: Any,
):
    """What is sent afterwards, the compaction, and the requests that made it."""
    model = model_of(window)
    at_once = AtOnce(replies[0] if replies else SUMMARY, model)
    scripted = ScriptedModel(*replies, model=model) if len(replies) > 1 else at_once
    plan = strategy.plan(entries, model, reason)
    body = asyncio.run(summarise(plan, model=scripted, **options)) if plan else None
    after = [*entries, new(body, id=f"c{len(entries)}", parent_id=entries[-1].id)] if body else entries
    return context.live(reversed(after)).entries, body, scripted.requests


def planned(model: Model) -> compaction.Plan:
    plan = SummaryCompaction().plan(long_talk(), model)
    assert plan is not None
    return plan


def tokens_of(entries) -> int:
    return sum(map(of_message, context.build(entries).messages))


def prompt_of(request) -> str:
    (message,) = request.messages
    assert isinstance(message.content, str)
    return message.content


# --- laws ---------------------------------------------------------------------------------------------

sizes = st.sampled_from([0, 10, 400, 3000, 20_000, 160_000])


@st.composite
def turns(draw: st.DrawFn) -> list[Any]:
    bodies: list[Any] = []
    for turn in range(draw(st.integers(1, 5))):
        text = "u" * draw(sizes)
        said = [Message(User(text)), CustomMessage("x", text), BranchSummary("b", text)]
        bodies.append(draw(st.sampled_from(said)))
        if draw(st.integers(0, 5)) == 0:
            bodies.append(
                Message(User([Text("see"), *[Image("aGk=", "image/png")] * draw(st.integers(1, 9))]))
            )
        for step in range(draw(st.integers(0, 3))):
            ids = [
                f"{turn}.{step}.{n}" if draw(st.booleans()) else "0" for n in range(draw(st.integers(1, 3)))
            ]
            ids = list(dict.fromkeys(ids))
            bodies.append(call(*ids, name="read", path=f"f{turn}", note="n" * draw(sizes)))
            if draw(st.integers(0, 5)) == 0:
                bodies.append(user(draw(sizes), "meanwhile "))
            bodies += [result(id, draw(sizes)) for id in ids if draw(st.integers(0, 9))]
        if draw(st.booleans()):
            bodies.append(Message(Assistant([Thinking("t" * draw(sizes)), Text("a" * draw(sizes))])))
        if draw(st.integers(0, 5)) == 0:
            bodies.append(ModelChange("p", "m"))
        if draw(st.integers(0, 5)) == 0:
            bodies.append(ContextEdit(f"e{draw(st.integers(0, len(bodies)))}", None))
    return bodies


strategies = st.builds(
    SummaryCompaction,
    threshold=st.sampled_from([None, 0.5, 0.9, 1000, 40_000]),
    reserve_tokens=st.sampled_from([16_384, 500, 0]),
    keep_recent_tokens=st.sampled_from([20_000, 1000, 0]),
    instructions=st.sampled_from(["", "The tests.", "i" * 90_000]),
)
windows = st.sampled_from([1024, 2048, 4096, 32_768, 128_000])
reasons = st.sampled_from(["manual", "threshold", "overflow"])
summaries = st.sampled_from([1, 20, 500_000])


@given(turns(), turns(), strategies, windows, reasons, summaries)
def test_pi_20_whatever_is_condensed_nothing_is_lost_and_it_can_be_sent(
    before, later, strategy, window, reason, length
):
    """Twice, so that the second compaction starts from what the first one left."""
    live = chain(*before)
    more: list[Any]
    for more in (later, []):
        plan = strategy.plan(live, model_of(window), reason)
        after, body, requests = compacted(live, "s" * length, strategy=strategy, window=window, reason=reason)
        assert (plan is None) == (body is None)
        if plan is not None:
            check(live, after, plan, body)
            assert 1 <= len(requests) <= 2
            for request in requests:
                asked = of_text(request.system) + of_message(request.messages[0])
                assert 0 < asked + request.max_tokens <= window
        elif reason == "overflow":
            assert tokens_of(live) <= window
        built = context.build(after)
        well_formed(built.messages)
        assert body is None or tokens_of(after) <= window
        live = chain_on(after, more)


def chain_on(entries, bodies):
    made = list(entries)
    for body in bodies:
        made.append(new(body, id=f"l{len(made)}", parent_id=made[-1].id))
    return made


def check(live, after, plan, body):
    """Condensed and kept make up the whole, in order; kept is unchanged; all together it is less."""
    said = [(e, m) for e, m in context.said(live) if m is not None and e.type != "compaction"]
    cut = len(plan.history) + len(plan.turn)
    assert [*plan.history, *plan.turn, *(message for _, message in said[cut:])] == [m for _, m in said]
    assert body.first_kept_entry_id == (said[cut][0].id if cut < len(said) else "")
    assert [entry.id for entry in after if entry.type != "compaction"] == (
        [entry.id for entry in live[live.index(said[cut][0]) :] if entry.type != "compaction"]
        if cut < len(said)
        else []
    )
    kept = [(e, m) for e, m in context.said(after) if m is not None and e.type != "compaction"]
    assert kept == said[cut:]
    for called, answered in pairs([message for _, message in said]):
        assert (called < cut) == (answered < cut)
    assert tokens_of(after) < tokens_of(live)


def pairs(messages):
    """Where each call stands, and its result."""
    waiting: dict[str, int] = {}
    for at, message in enumerate(messages):
        if isinstance(message, ToolResult) and message.tool_call_id in waiting:
            yield waiting.pop(message.tool_call_id), at
        waiting |= dict.fromkeys(calls_of(message), at)


def calls_of(message) -> list[str]:
    blocks = message.content if isinstance(message, Assistant) else []
    return [block.id for block in blocks if isinstance(block, ToolCall)]


def well_formed(messages):
    waiting: list[str] = []
    for message in messages:
        if waiting:
            assert isinstance(message, ToolResult)
            assert message.tool_call_id == waiting.pop(0)
            continue
        assert not isinstance(message, ToolResult)
        waiting = calls_of(message)
    assert not waiting


# --- when ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "window", "due"),
    [
        (SummaryCompaction(), 128_000, 128_000 - 16_384),
        (SummaryCompaction(reserve_tokens=8000), 100_000, 92_000),
        (SummaryCompaction(threshold=50_000), 128_000, 50_000),
        (SummaryCompaction(threshold=0.5), 128_000, 64_000),
        (SummaryCompaction(threshold=1.0), 128_000, 128_000),
        (SummaryCompaction(), 32_768, 16_384),
        (SummaryCompaction(), 4096, 3072),
        (SummaryCompaction(), 2048, 1536),
        (SummaryCompaction(threshold=50_000), 4096, 3072),
    ],
)
def test_pi_20_it_is_due_at_the_threshold(strategy, window, due):
    """Tokens, a share of the window, or the window less the reserve, which shrinks with a small window."""
    assert not strategy.is_due(due, model_of(window))
    assert strategy.is_due(due + 1, model_of(window))


@pytest.mark.parametrize(
    "bad",
    [
        *({"threshold": limit} for limit in (0, -1, 0.0, 1.5, -0.5, float("nan"), True, "half")),
        *({"reserve_tokens": count} for count in (-1, 0.5, True, None)),
        {"keep_recent_tokens": -1},
    ],
)
def test_pi_20_what_is_no_threshold_is_refused(bad):
    with pytest.raises(UsageError):
        SummaryCompaction(**bad)


def test_pi_21_no_compaction_is_never_due_and_never_planned():
    """Not on overflow either; and whoever asks for it is told."""
    strategy = NoCompaction()
    entries = chain(*[user(100_000), answer(100_000)] * 20)
    assert not strategy.is_due(10**9, model_of())
    for reason in ("threshold", "overflow"):
        assert strategy.plan(entries, model_of(), reason) is None
    with pytest.raises(UsageError, match="NoCompaction"):
        strategy.plan(entries, model_of(), "manual")


def test_pi_20_what_is_not_automatic_is_done_when_asked_for_and_only_then():
    strategy = SummaryCompaction(is_automatic=False)
    entries = long_talk()
    assert not strategy.is_due(10**9, model_of())
    assert strategy.plan(entries, model_of(), "threshold") is None
    assert strategy.plan(entries, model_of(), "overflow") is None
    asked_for = strategy.plan(entries, model_of(), "manual")
    assert asked_for is not None
    assert asked_for == SummaryCompaction().plan(entries, model_of(), "manual")


# --- what ---------------------------------------------------------------------------------------------


def test_the_newest_messages_are_kept_and_a_turn_stays_whole_where_it_can():
    entries = chain(user(400_000), answer(40_000), user(40_000), answer(30_000), user(400), answer(20_000))
    after, body, (request,) = compacted(entries)
    assert body.first_kept_entry_id == "e2"
    assert [entry.id for entry in after] == ["e2", "e3", "e4", "e5", "c6"]
    summary, *kept = context.build(after).messages
    assert isinstance(summary, User)
    assert SUMMARY in summary.content
    assert kept == [entry.body.message for entry in entries[2:]]
    assert "[User]: uuuu" in prompt_of(request)
    assert "Goal" in prompt_of(request)
    assert request.max_tokens == 16_384 * 4 // 5
    assert not request.tools


def test_a_short_conversation_is_not_condensed():
    """It would be longer afterwards."""
    entries = chain(user(4000), answer(4000), user(4000))
    assert compacted(entries, reason="manual")[1:] == (None, [])
    assert compacted(chain(user(10)), reason="overflow")[1:] == (None, [])


def test_a_turn_that_is_cut_has_a_summary_of_its_own():
    steps = [body for n in range(20) for body in (call(f"{n}"), result(f"{n}", 8000))]
    entries = chain(user(40_000, "old "), answer(4000), user(4000, "now "), *steps)
    after, body, (history, turn) = compacted(entries, "ABOUT BEFORE", "ABOUT NOW")
    assert body.summary == "ABOUT BEFORE\n\n---\n\n**Turn Context (split turn):**\n\nABOUT NOW"
    assert "old old" in prompt_of(history)
    assert "now now" not in prompt_of(history)
    assert "now now" in prompt_of(turn)
    assert turn.max_tokens == 16_384 // 2
    assert isinstance(context.build(after).messages[1], Assistant)


def test_a_long_turn_does_not_pile_up_summaries():
    """One prompt and hundreds of steps: each compaction makes one summary of the last and what followed."""
    live = chain(user(400), *[body for n in range(60) for body in (call(f"{n}"), result(f"{n}", 8000))])
    for number in range(3):
        after, body, requests = compacted(live, f"SUMMARY {number}")
        assert body.summary == f"SUMMARY {number}"
        assert (f"<previous-summary>\nSUMMARY {number - 1}\n" in prompt_of(requests[0])) == (number > 0)
        live = chain_on(after, [step for n in range(60) for step in (call(f"{n}"), result(f"{n}", 8000))])


def test_a_second_compaction_keeps_what_the_first_one_kept():
    """pi-mono#2608: what the first one had kept was neither kept nor condensed by the second."""
    live, first, _ = compacted(chain(user(400_000), *[user(4000, f"kept {n:02} ") for n in range(20)]))
    assert first.first_kept_entry_id == "e1"
    after, second, (request,) = compacted(chain_on(live, [user(4000)] * 10))
    assert "<previous-summary>" in prompt_of(request)
    assert ["kept 09 " in prompt_of(request), "kept 10 " in prompt_of(request)] == [True, False]
    assert second.first_kept_entry_id == "e11"
    sent = [message.content for message in context.build(after).messages if isinstance(message, User)]
    assert "kept 10 " in sent[1]
    assert len(sent) == 1 + 20


@pytest.mark.parametrize(
    "last",
    [
        [user(600_000, "please ")],
        [user(400, "please "), call("1", "2"), result("1", 400_000), result("2", 400_000)],
    ],
)
def test_what_is_too_long_by_itself_is_condensed_with_the_request_quoted(last):
    """Nothing could be kept of it as it is; the session goes on all the same."""
    after, body, requests = compacted(chain(user(4000, "old "), answer(4000), *last))
    assert body.first_kept_entry_id == ""
    assert [entry.type for entry in after] == ["compaction"]
    assert "<request>\nplease please" in body.summary
    assert len(requests) == 1
    assert tokens_of(after) < 30_000


def test_a_long_prompt_that_fits_is_kept():
    """A pasted file behind a long talk: the talk is condensed, not the file."""
    entries = chain(*[user(10_000), answer(10_000)] * 12, user(280_000, "paste "))
    _, body, _ = compacted(entries)
    assert body.first_kept_entry_id == entries[-1].id


def test_what_is_kept_is_below_the_threshold_where_it_can_be():
    """Or it would be due again at once."""
    entries = chain(user(10), answer(3000), user(10))
    _, body, _ = compacted(entries, strategy=SummaryCompaction(threshold=100, keep_recent_tokens=10))
    assert body.first_kept_entry_id == "e2"


def test_an_overflow_counts_more_than_what_is_said_of_the_window():
    """A local server that reads 4,000 tokens while its model is described with 128,000."""
    entries = chain(*[user(1000), answer(1000)] * 10)
    assert SummaryCompaction().plan(entries, model_of(), "threshold") is None
    after, _, requests = compacted(entries, reason="overflow")
    assert tokens_of(after) < tokens_of(entries) / 2
    for request in requests:
        assert of_message(request.messages[0]) + request.max_tokens < tokens_of(entries)


def test_what_was_edited_out_is_not_told_to_whoever_summarises():
    entries = chain(user(400_000), user(40, "secret "), answer(400_000), ContextEdit("e1", None), user(100))
    _, _, (request,) = compacted(entries)
    assert "secret" not in prompt_of(request)


def test_pi_20_the_whole_history_stays_in_the_file(tmp_path):
    """Bytes before the compaction are as they were, and a fork before it sends everything again."""
    store = PiStore(str(tmp_path), durability="process")
    steps = [step for n in range(30) for step in (call(f"{n}", path="a.py"), result(f"{n}", 12_000))]
    with Session.create(store) as session:
        session.append(ModelChange("p", "m"), user(400), *steps, answer(400), user(400))
        whole, head = session.context(), session.head
        with open(session.ref.path, "rb") as file:
            before = file.read()
        _, body, _ = compacted(session.live())
        session.append(ModelChange("p", "m"), ThinkingLevelChange("off"), body)
        less = session.context()
        assert len(less.messages) < len(whole.messages)
        with open(session.ref.path, "rb") as file:
            assert file.read().startswith(before)
        assert Session.view(store, session.fork(head)).context() == whole
    again = Session.view(store, session.ref)
    assert again.context() == less
    well_formed(less.messages)


# --- the summary --------------------------------------------------------------------------------------


def long_talk():
    return chain(user(400_000), answer(4000), user(90_000))


def test_files_are_listed_and_carried_on():
    """Those changed are not also among those read; a third list would have both of the first two."""

    def working(*calls):
        return [body for each in calls for body in (each, result("1", 10))]

    live = chain(
        user(400_000),
        *working(call("1", name="read", path="a.py"), call("1", name="read", path="b.py")),
        *working(call("1", name="edit", path="b.py"), call("1", name="bash", path="no.py")),
        user(90_000),
    )
    live, first, _ = compacted(live)
    assert first.details == {"readFiles": ["a.py"], "modifiedFiles": ["b.py"]}
    assert "<read-files>\na.py\n</read-files>" in first.summary
    assert "<modified-files>\nb.py\n</modified-files>" in first.summary
    more = working(call("1", name="write", path="a.py"), call("1", name="read", path="c.py"))
    _, second, (request,) = compacted(chain_on(live, [*more, user(90_000)]))
    assert second.details == {"readFiles": ["c.py"], "modifiedFiles": ["b.py", "a.py"]}
    assert second.summary.count("<modified-files>") == 1
    assert "<modified-files>" not in prompt_of(request)


@pytest.mark.slow
def test_many_files_do_not_push_the_summary_out():
    calls = [call("1", name="read", path=f"{'x' * 50}/{n}") for n in range(3000)]
    _, body, _ = compacted(chain(user(10), *calls, user(90_000)))
    assert body.summary.startswith(SUMMARY)
    assert "more)" in body.summary
    assert "/2999" in body.summary
    assert len(body.details["readFiles"]) == 3000


def test_tokens_and_cost_of_the_summary_are_kept():
    used = Usage(1000, 100, 10, 1)
    scripted = ScriptedModel([SUMMARY, Finished("stop", used)], model=model_of(cost=Cost(1.0, 2.0)))
    body = asyncio.run(summarise(planned(scripted.model), model=scripted))
    assert body.usage["totalTokens"] == 1111
    assert body.usage["cost"]["total"] == pytest.approx(0.0012)
    assert body.tokens_before == tokens_of(long_talk())


def test_instructions_of_the_settings_and_of_the_user_are_both_told():
    strategy = SummaryCompaction(instructions="The tests.")
    _, _, (request,) = compacted(long_talk(), strategy=strategy, instructions="And the names.")
    assert "The tests.\nAnd the names." in prompt_of(request)


@pytest.mark.parametrize("reply", ["", " \n", Thinking("hm"), ToolCall("1", "bash", {})])
def test_an_empty_summary_is_an_error_and_never_a_compaction(reply):
    with pytest.raises(ModelError, match="p/m: the summary is empty"):
        compacted(long_talk(), [reply], SUMMARY)


def test_a_summary_that_broke_off_is_an_error():
    class Silent(ScriptedModel):
        async def stream(self, request):
            async for piece in super().stream(request):
                if not isinstance(piece, Finished):
                    yield piece

    with pytest.raises(ModelError, match="broke off"):
        asyncio.run(summarise(planned(model_of()), model=Silent("so", model=model_of())))
    with pytest.raises(ModelError, match="gone"):
        compacted(long_talk(), ["so", ModelError("gone")], SUMMARY)


def test_a_model_that_reads_less_than_it_is_said_to_is_asked_with_less():
    """Until it can; only if it cannot read even a little is that an error."""
    refusal = ContextOverflow("too long")
    _, body, requests = compacted(long_talk(), refusal, refusal, refusal, SUMMARY)
    assert body.summary == SUMMARY
    lengths = [of_message(request.messages[0]) for request in requests]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] < 16_000
    with pytest.raises(ContextOverflow):
        compacted(long_talk(), *[refusal] * 20)


def test_another_model_summarises_within_its_own_window():
    """What is kept is measured by the window of the model that talks."""
    scripted = ScriptedModel(SUMMARY, model=model_of(8192, max_tokens=300))
    talking = Model(id="big", provider="p", api="scripted", context_window=128_000)
    body = asyncio.run(summarise(planned(talking), model=scripted, talking=talking))
    assert body.first_kept_entry_id == "e2"
    (request,) = scripted.requests
    assert request.max_tokens == 300
    assert of_message(request.messages[0]) < 8192
