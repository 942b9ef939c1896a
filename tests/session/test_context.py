"""What a model is sent: a pure fold of the path."""

from hypothesis import given

from perdure.session import context, tree
from perdure.session.entry import (
    Assistant,
    BashExecution,
    BranchSummary,
    Compaction,
    ContextEdit,
    Custom,
    CustomMessage,
    CustomRole,
    Message,
    ModelChange,
    System,
    Text,
    ThinkingLevelChange,
    ToolCall,
    ToolResult,
    User,
    decode,
    new,
)
from tests.compacted import compacted_sessions
from tests.generated import sessions


def path(*bodies):
    entries = []
    for number, body in enumerate(bodies):
        entries.append(new(body, id=f"e{number}", parent_id=f"e{number - 1}" if number else None))
    return entries


def build(*bodies):
    return context.build(path(*bodies)).messages


def call(*ids):
    return Message(Assistant([ToolCall(id, "bash", {}) for id in ids], stop_reason="toolUse"))


def result(id, text="done"):
    return Message(ToolResult(id, "bash", [Text(text)]))


@given(sessions())
def test_context_after_reload_equals_context_before(entries):
    """The same records, read again, are the same request."""
    folded = tree.fold(entries)
    again = tree.fold([decode(entry.raw) for entry in entries])
    assert context.build(tree.path(again.entries, again.ends.head)) == context.build(
        tree.path(folded.entries, folded.ends.head)
    )


@given(sessions(most=20))
def test_every_call_is_answered_once_right_behind_it(entries):
    """Providers refuse a call without a result and a result without a call; the view never has one."""
    messages = context.build(entries).messages
    at = 0
    while at < len(messages):
        message = messages[at]
        assert not isinstance(message, ToolResult)
        calls = [block.id for block in _blocks(message) if isinstance(block, ToolCall)]
        answers = messages[at + 1 : at + 1 + len(calls)]
        assert [answer.tool_call_id for answer in answers if isinstance(answer, ToolResult)] == calls
        at += 1 + len(calls)


def _blocks(message):
    return message.content if isinstance(message, Assistant) else []


def test_an_unanswered_call_is_answered_interrupted():
    """claude-code#3003, opencode#10616: a kill during a tool call must not break every later request."""
    _, answer, said = build(call("1"), Message(User("go on")))
    assert isinstance(answer, ToolResult)
    assert answer.is_error
    assert answer.content == [Text(context.INTERRUPTED)]
    assert said == User("go on")


def test_a_late_result_is_moved_behind_its_call():
    """A message typed while a tool ran stands after the result, not between call and result."""
    messages = build(call("1", "2"), Message(User("hurry")), result("2", "b"), result("1", "a"))
    assert [type(each).__name__ for each in messages] == ["Assistant", "ToolResult", "ToolResult", "User"]
    assert [each.content for each in messages[1:3]] == [[Text("a")], [Text("b")]]


def test_a_result_without_a_call_is_left_out():
    assert build(result("9"), Message(User("hi"))) == [User("hi")]


def test_a_call_id_used_again_gets_its_own_answer():
    """Some providers number calls from one in every turn."""
    messages = build(call("1"), result("1", "first"), call("1"), result("1", "second"))
    assert [each.content for each in messages[1::2]] == [[Text("first")], [Text("second")]]


def test_the_last_compaction_stands_for_what_came_before():
    bodies = [
        Message(User("one")),
        Compaction("old", "e0"),
        Message(User("two")),
        Message(User("three")),
        Compaction("new", "e3"),
        Message(User("four")),
    ]
    summary, *rest = build(*bodies)
    assert "<summary>\nnew\n</summary>" in summary.content
    assert rest == [User("three"), User("four")]


def test_a_compaction_that_keeps_nothing_known_keeps_what_follows():
    _, *rest = build(Message(User("one")), Compaction("all", "gone"), Message(User("two")))
    assert rest == [User("two")]


def test_sib_12_nothing_before_the_last_reset_is_sent():
    """Neither what was said nor what was condensed; settings made before it hold."""
    bodies = [
        ModelChange("openai", "gpt"),
        Message(User("one")),
        Compaction("old", "e1"),
        call("1"),
        Custom(context.RESET),
        result("1"),
        Message(User("two")),
        Custom(context.RESET),
        Message(User("three")),
        Custom("perdure.status", {"status": "perdure.reset"}),
        Message(User("four")),
    ]
    built = context.build(path(*bodies))
    assert built.messages == [User("three"), User("four")]
    assert built.model == ("openai", "gpt")


def test_sib_12_a_compaction_after_a_reset_stands_for_what_came_after_it():
    """Even if it says that it keeps something from before."""
    summary, *rest = build(
        Message(User("one")), Custom(context.RESET), Message(User("two")), Compaction("s", "e0"), call("1")
    )
    assert "<summary>\ns\n</summary>" in summary.content
    assert [type(each) for each in rest] == [Assistant, ToolResult]


def test_summaries_and_programs_messages_are_the_users():
    branch, injected, role = build(
        BranchSummary("e0", "went there"),
        CustomMessage("ext", "note this"),
        Message(CustomRole("ext", "aside")),
    )
    assert "<summary>\nwent there\n</summary>" in branch.content
    assert injected == User("note this")
    assert role.content == "aside"


def test_state_and_old_prompts_are_never_sent():
    assert build(Custom("perdure.status", {"status": "active"}), Message(System("be brief"))) == []


def test_a_command_the_user_ran_is_described_unless_excluded():
    ran = BashExecution("make", "ok\n", exit_code=2, truncated=True, full_output_path="/log")
    (message,) = build(Message(ran), Message(BashExecution("secret", "x", exclude_from_context=True)))
    for part in ("make", "ok", "code 2", "/log"):
        assert part in message.content


def test_failed_and_empty_answers_are_not_sent_again():
    assert build(Message(Assistant([])), Message(Assistant([Text("half")], stop_reason="error"))) == []
    assert len(build(Message(Assistant([Text("half")], stop_reason="aborted")))) == 1


def test_an_edited_entry_is_sent_as_edited():
    bodies = [
        Message(User("a")),
        Message(User("b")),
        ContextEdit("e0", None),
        ContextEdit("e1", {"content": "B"}),
    ]
    assert build(*bodies) == [User("B")]


def test_model_and_thinking_are_the_last_on_the_whole_path():
    built = context.build(
        path(
            ModelChange("openai", "gpt"),
            ThinkingLevelChange("high"),
            Message(Assistant([Text("hi")], provider="anthropic", model="claude")),
            Compaction("all", "gone"),
        )
    )
    assert (built.model, built.thinking_level) == (("anthropic", "claude"), "high")
    assert context.build([]) == context.Context([], None, "off")


@given(compacted_sessions())
def test_what_is_read_from_the_end_is_what_the_whole_path_says(entries):
    """Entries and settings, told anew from the beginning of the path; so is what is a compaction's."""
    folded = tree.fold(entries)
    path = tree.path(folded.entries, folded.ends.head)
    found = context.live(reversed(path))
    assert found.entries == _since_the_last_compaction(path)
    model, thinking = None, "off"
    for entry in path:
        match entry.body:
            case ModelChange(provider, name) | Message(Assistant(provider=provider, model=name)) if (
                name or entry.type == "model_change"
            ):
                model = (provider, name)
            case ThinkingLevelChange(level):
                thinking = level
    assert (found.model, found.thinking_level) == (model, thinking)
    built = context.build(path)
    assert built.messages == context.build(found.entries).messages
    compactions = [at for at, entry in enumerate(found.entries) if isinstance(entry.body, Compaction)]
    last = max(compactions, default=-1)
    edits = [entry for entry in found.entries[last + 1 :] if entry.type == "context_edit"]
    assert built.condensed == len(context.build([*found.entries[: last + 1], *edits]).messages)


def _since_the_last_compaction(path):
    for at, entry in enumerate(path):
        if context.is_reset(entry):
            return _since_the_last_compaction(path[at + 1 :])
    compactions = [at for at, entry in enumerate(path) if isinstance(entry.body, Compaction)]
    if not compactions:
        return path
    last = compactions[-1]
    kept = [at for at in range(last) if path[at].id == path[last].body.first_kept_entry_id]
    return path[min([last, *kept]) :]


def test_reading_stops_where_nothing_more_is_sent_and_the_settings_are_known():
    """A compaction that stands beside its settings: nothing before what it keeps is looked at."""
    entries = path(
        *[Message(User(str(number))) for number in range(100)],
        ModelChange("openai", "gpt"),
        ThinkingLevelChange("high"),
        Compaction("so far", "e98"),
        Message(User("on")),
    )
    newest_first = iter(reversed(entries))
    found = context.live(newest_first)
    assert [entry.id for entry in found.entries] == [f"e{number}" for number in range(98, 104)]
    assert (found.model, found.thinking_level) == (("openai", "gpt"), "high")
    assert next(newest_first).id == "e97"


def test_an_edit_is_of_what_was_said_before_it():
    """One that names a later entry, which only a damaged file holds, changes nothing."""
    assert build(ContextEdit("e1", None), Message(User("said"))) == [User("said")]
