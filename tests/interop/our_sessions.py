"""Sessions as Perdure writes them, one for each thing a session can hold."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from perdure.session.entry import (
    Assistant,
    BashExecution,
    Body,
    BranchSummary,
    Compaction,
    ContextEdit,
    Custom,
    CustomMessage,
    Entry,
    Image,
    Message,
    ModelChange,
    Text,
    Thinking,
    ThinkingLevelChange,
    ToolCall,
    ToolResult,
    Unknown,
    User,
    decode,
)
from perdure.session.session import Session


def user(text: str) -> Message:
    return Message(User(text, 1_763_000_000_000))


def assistant(*blocks: Any, stop_reason: str = "stop") -> Message:
    content = [Text(block) if isinstance(block, str) else block for block in blocks]
    return Message(
        Assistant(content, "api", "maker", "m-1", stop_reason=stop_reason, timestamp=1_763_000_001)
    )


def call(id: str, name: str = "bash", **arguments: Any) -> ToolCall:
    return ToolCall(id, name, arguments)


def result(id: str, *blocks: Any, name: str = "bash", is_error: bool = False) -> Message:
    return Message(
        ToolResult(id, name, [Text(b) if isinstance(b, str) else b for b in blocks], is_error=is_error)
    )


PIXEL = Image("iVBORw0KGgo=", "image/png")
HOSTILE = (
    "line\nend\r\n separators \u2028\u2029\u0085\x0b\x0c\x1c, NUL \0, DEL \x7f, controls \x01\x1f\b, "
    'quotes "\\/, lone \ud800 and \udfff, astral \U0001f600, combining e\u0301, BOM \ufeff, '
    '"}\n{"type":"session","id":"x"}'
)

Build = Callable[[Session], object]
OURS: dict[str, Build] = {}


def case(build: Build) -> Build:
    OURS[getattr(build, "__name__", "").replace("_", " ")] = build
    return build


@case
def a_prompt_only(session):
    session.append(user("Hello?"))


@case
def a_plain_talk(session):
    session.append(user("Hello?"))
    session.append(assistant("Hello."))
    session.append(user("How are you?"), assistant("Fine.", "And you?"))


@case
def tool_calls_and_results(session):
    session.append(user("List, then look."))
    session.append(assistant("Two at once.", call("c1", command="ls", n=1.5), call("c2", "read", path="é")))
    session.append(result("c1", "a\nb\n"), result("c2", "no such file", name="read", is_error=True))
    session.append(assistant(call("c3", deep={"a": [1, None, True, {"b": ""}]})), result("c3", "seen", PIXEL))
    session.append(assistant("Done."))


@case
def an_unanswered_call(session):
    session.append(user("Run it."), assistant(call("c1"), call("c2")), result("c2", "one came back"))
    session.append(user("What happened?"))


@case
def an_answer_that_failed(session):
    session.append(
        user("One."), assistant("Half an ans", stop_reason="error"), user("Again."), assistant("1")
    )


@case
def thinking_with_signatures(session):
    hidden = Thinking("", "b3BhcXVl", redacted=True)
    thought = ToolCall("c1", "bash", {}, thought_signature="dGhvdWdodA==")
    session.append(user("Think."))
    session.append(assistant(Thinking("Hm.", "c2lnbmVk"), hidden, Text("Well.", "bXNnXzE="), thought))
    session.append(result("c1", "ok"))


@case
def images(session):
    session.append(
        Message(User([PIXEL])), Message(User([Text("What is it?"), PIXEL, Text("And this?"), PIXEL]))
    )
    session.append(assistant("A pixel, twice."))


@case
def settings_that_change(session):
    session.append(ModelChange("maker", "m-0"), ThinkingLevelChange("high"), user("One."), assistant("1"))
    session.append(ModelChange("other", "m-2"), user("Two."))
    session.append(ThinkingLevelChange("minimal"))


@case
def an_offline_that_was_chosen(session):
    session.append(ModelChange("offline", "offline", True), user("One."), assistant("1"), user("Two."))


@case
def names_and_labels(session):
    session.rename("first")
    one, two = session.append(user("One."), assistant("1"))
    session.label(one.id, "start")
    session.label(two.id, "wrong")
    session.rename("  The name, at last \n")
    session.append(user("Two."))
    session.label(two.id, None)
    session.label(one.id, "the very start")


@case
def a_name_taken_back(session):
    session.append(user("One."))
    session.rename("a name")
    session.rename("")


@case
def a_compaction(session):
    session.append(user("One."), assistant("1"))
    kept, *_ = session.append(user("Two."), assistant("2"), ModelChange("maker", "m-3"))
    session.append(Compaction("They counted.", kept.id, 50_000, details={"readFiles": ["a"]}))
    session.append(user("Three."), assistant("3"))


@case
def a_second_compaction_keeping_the_first(session):
    one, *_ = session.append(user("One."), assistant("1"), user("Two."))
    session.append(Compaction("Older.", one.id, 10), assistant("2"), user("Three."))
    session.append(Compaction("Newer.", one.id, 20, usage={"input": 1}, from_hook=True), assistant("3"))


@case
def a_compaction_that_keeps_nothing(session):
    session.append(user("One."), assistant("1"), Compaction("All of it.", "no such entry", 10), user("Two."))


@case
def branches(session):
    first, answer = session.append(user("One."), assistant("1"))
    session.append(user("Two."), assistant("2"))
    session.move(answer.id)
    session.append(user("Two, otherwise."), assistant("2b"))
    session.move(None)
    session.append(user("All anew."), assistant("0"))
    session.move(first.id)
    session.append(assistant("1, said again"))


@case
def a_branch_summary(session):
    _, answer, *_, last = session.append(user("One."), assistant("1"), user("A detour."), assistant("Lost."))
    session.move(answer.id)
    session.append(BranchSummary(last.id, "Nothing was found there.", {"files": []}), user("Back again."))
    session.move(None)
    session.append(BranchSummary("root", ""), user("And from the top."))


@case
def our_own_kinds(session):
    session.append(Custom("perdure.status", {"status": "active"}), user("One."))
    session.append(Custom("perdure.decision", {"text": "No.", "tags": []}), Custom("perdure.empty"))
    session.append(CustomMessage("perdure.context", "Attached: notes.", display=False, details=[1]))
    session.append(CustomMessage("perdure.context", [Text("And a picture."), PIXEL]), assistant("Seen."))
    session.append(Custom("perdure.status", None))


@case
def kinds_nobody_knows(session):
    session.append(user("One."), Unknown("active_tools_change", {"activeToolNames": ["bash"]}))
    session.append(Unknown("from the future", {"deep": {"er": [{}]}, "type": "x", "n": None}))
    session.append(Unknown("message", {"message": {"role": "observer", "content": "silent", "timestamp": 1}}))
    odd = [{"type": "hologram", "at": [1, 2]}, {"type": "text", "text": "beside it", "new": True}]
    session.append(Unknown("message", {"message": {"role": "user", "content": odd, "timestamp": 1}}))
    session.append(Unknown("", {}))


@case
def commands_of_the_user(session):
    session.append(user("One."), Message(BashExecution("ls", "a\n", 0)))
    session.append(
        Message(BashExecution("false", "", 1)), Message(BashExecution("x", "…", None, cancelled=True))
    )
    session.append(Message(BashExecution("yes", "y", 0, truncated=True, full_output_path="/tmp/y")))
    session.append(Message(BashExecution("env", "secret", 0, exclude_from_context=True)), assistant("1"))


@case
def messages_edited_for_the_model(session):
    long, answer, _ = session.append(user("Long."), assistant("Bad."), user("Good."))
    session.append(ContextEdit(long.id, {"content": "Too short."}), ContextEdit(answer.id, None))
    session.append(ContextEdit(long.id, {"content": [{"type": "text", "text": "Short."}]}), assistant("Now."))


@case
def a_call_edited_for_the_model(session):
    _, called, *_ = session.append(
        user("Look."), assistant("Let me see.", call("c1", n="x" * 9)), result("c1", "ok")
    )
    shorter = [{"type": "toolCall", "id": "c1", "name": "bash", "arguments": {}}]
    session.append(ContextEdit(called.id, {"content": shorter}), user("On."))


@case
def a_message_of_a_program_edited_for_the_model(session):
    _, noise = session.append(user("Look."), CustomMessage("ext", "Too much."))
    session.append(ContextEdit(noise.id, {"content": "Enough."}), user("On."))


@case
def hostile_text(session):
    session.append(user(HOSTILE), assistant(HOSTILE, call("c1", **{HOSTILE: HOSTILE})), result("c1", HOSTILE))
    session.rename(HOSTILE)
    session.append(Custom("perdure." + HOSTILE, {HOSTILE: [HOSTILE], "__proto__": {"a": 1}, "": ""}))


@case
def a_line_longer_than_any_buffer(session):
    session.append(user("é\u2028\U0001f600" * 120_000), assistant("Long."))


@case
def numbers_of_all_kinds(session):
    """As a program in another language might write them; not all of them fit into JavaScript's."""
    session.append(user("One."))
    head = b'{"type":"custom","id":"%s","parentId":"%s","timestamp":"2026-01-01T00:00:00.000Z",'
    data = b'"customType":"n","data":{"2":1e400,"1":9007199254740993,"a":1.0,"b":-0.0,"c":1e2,"c":1E-7}}'
    session.close()
    with session.store.writer(session.ref, after=None) as writer:
        writer.append([decode(head % (b"n1", session.head.encode()) + data)])


# --- any session ----------------------------------------------------------------------------------


def at_random(session: Session, chance: random.Random) -> None:
    """Anything, in any order, on any branch."""
    for step in range(chance.randrange(1, 30)):
        known = [entry.id for entry in session.entries]
        path = session.path()
        if known and chance.random() < 0.2:
            session.move(chance.choice([None, *known]))
            session.append(user(f"Elsewhere, {step}."))  # a label there would not take us along
        elif known and chance.random() < 0.2:
            session.label(chance.choice(known), chance.choice([None, "mark", f"mark {step}"]))
        elif chance.random() < 0.1:
            session.rename(chance.choice(["", f"name {step}"]))
        else:
            session.append(*_bodies(step, path, chance))


def _bodies(step: int, path: list[Entry], chance: random.Random) -> list[Body]:
    some = chance.choice(path).id if path else "none"
    prompt = chance.choice([entry.id for entry in path if entry.role == "user"] or ["none"])
    choices: list[list[Body]] = [
        [user(f"Prompt {step}.")],
        [assistant(f"Answer {step}.")],
        [assistant(call(f"c{step}")), result(f"c{step}", "done")],
        [assistant(call(f"c{step}"), call(f"d{step}")), result(f"d{step}", "done"), user("Stop.")],
        [assistant("", stop_reason="error"), user("Again.")],
        [ModelChange("maker", f"m-{step}")],
        [ThinkingLevelChange(chance.choice(["off", "low", "high"]))],
        [Compaction(f"Until {step}.", some, step)],
        [BranchSummary(some, chance.choice(["", f"Branch {step}."]))],
        [Custom("perdure.any", {"step": step})],
        [CustomMessage("any", f"Program {step}.")],
        [Message(BashExecution(f"run {step}", "", 0))],
        [ContextEdit(prompt, chance.choice([None, {"content": f"Edited {step}."}]))],
        [Unknown("any kind", {"step": step})],
    ]
    return chance.choice(choices)
