"""What an agent tells those who watch it. Every face of the program reads these and nothing else.

One prompt, in order:

    agent_start
      turn_start                                    a turn is one answer of the model and the tools it calls
        message_start, message_end                  the user's message, as it was saved
        message_start, message_update…, message_end the model's answer
        tool_execution_start                        a call starts: those that only read together, as many as
                                                    may, any other when all before it have ended
        tool_execution_update…                      as they come, from all that run
        tool_execution_end                          one for each call, in their order: its result is saved
        message_start, message_end                  and that result, as a message
      turn_end
      turn_start … turn_end                         until an answer calls no tool
    agent_end

`message_end` and `tool_execution_end` come after the message is on disk: what they tell of is kept. All other
events tell of what is under way. A call that was never run, because the turn was stopped before it started
or the answer made more calls than it may, has its result as a message, and neither `tool_execution_start` nor
`tool_execution_end`.

`agent_end` comes last, also when the turn was aborted, failed or reached a limit; the last answer then has
the stop reason `aborted` or `error`, and `error_message` says why. Only where something could not be saved
there is none: that raises. Before an answer there may be `compaction_start` and `compaction_end`, and
`queue_update` comes at any point.

A model that fails is asked again where that may help. An attempt that broke off ends with a `message_update`
whose event is an `error`. If `auto_retry_start` or `compaction_start` follows, that attempt is given up: it
has no `message_end`, and the next one begins with a `message_start` of its own.
`auto_retry_end` says how the retries ended. If they failed, or were stopped, the last attempt of which
something arrived is kept, and its `message_end` says so; where it had been given up, another `message_start`
comes before that.

Events are values. Their JSON has pi's names, in camel case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from perdure.agent.draft import Draft
from perdure.agent.tools import AgentToolResult
from perdure.session.entry import Assistant, ToolResult, User
from perdure.session.record import dumps

EventMessage = User | Assistant | ToolResult
Reason = Literal["manual", "threshold", "overflow"]
"""Why a conversation is condensed."""


class _Event(Struct, frozen=True, gc=False, tag_field="type", rename="camel"):
    @property
    def type(self) -> str:
        return str(self.__struct_config__.tag)


class AgentStart(_Event, frozen=True, tag="agent_start"):
    pass


class AgentEnd(_Event, frozen=True, tag="agent_end"):
    messages: Sequence[EventMessage]
    """All that were added since `agent_start`."""


class TurnStart(_Event, frozen=True, tag="turn_start"):
    pass


class TurnEnd(_Event, frozen=True, tag="turn_end"):
    message: Assistant
    tool_results: Sequence[ToolResult]


class MessageStart(_Event, frozen=True, tag="message_start"):
    message: EventMessage
    """Of an answer what is known before its first word."""


class AnswerEvent(Struct, frozen=True, gc=False, rename="camel"):
    """What happened in an answer: `text_start`, `text_delta`, `text_end`, and the same with `thinking` and
    `toolcall`; `start` first of all, and `done` or `error` last."""

    type: str
    content_index: int | UnsetType = UNSET
    """Which block of the answer."""
    delta: str | UnsetType = UNSET
    """What was added to it."""
    content: str | UnsetType = UNSET
    """With the end of text and thinking, all of it."""
    tool_call: Any = UNSET
    """With the end of a tool call, the call."""
    reason: str | UnsetType = UNSET
    """With `done` and `error`, the stop reason."""
    message: Any = UNSET
    """With `done`, the answer."""
    error: Any = UNSET
    """With `error`, as much of it as came."""


class MessageUpdate(_Event, frozen=True, tag="message_update"):
    assistant_message_event: AnswerEvent
    draft: Draft
    """The answer, as it grows."""
    extent: int
    """How much of it there was."""

    @property
    def message(self) -> Assistant:
        """The answer as far as it had come. Made when it is asked for: in a long answer it is long."""
        return self.draft.message(self.extent)


class MessageEnd(_Event, frozen=True, tag="message_end"):
    message: EventMessage
    entry_id: str
    """What it is called in the session."""


class ToolExecutionStart(_Event, frozen=True, tag="tool_execution_start"):
    tool_call_id: str
    tool_name: str
    args: Any


class ToolExecutionUpdate(_Event, frozen=True, tag="tool_execution_update"):
    tool_call_id: str
    tool_name: str
    args: Any
    partial_result: AgentToolResult


class ToolExecutionEnd(_Event, frozen=True, tag="tool_execution_end"):
    tool_call_id: str
    tool_name: str
    result: AgentToolResult
    is_error: bool


class CompactionStart(_Event, frozen=True, tag="compaction_start"):
    reason: Reason


class CompactionEnd(_Event, frozen=True, tag="compaction_end"):
    reason: Reason
    result: Any = UNSET
    """`summary`, `firstKeptEntryId` and `tokensBefore`; absent if there was none."""
    aborted: bool = False
    will_retry: bool = False
    error_message: str | UnsetType = UNSET


class AutoRetryStart(_Event, frozen=True, tag="auto_retry_start"):
    attempt: int
    max_attempts: int
    delay_ms: int
    error_message: str


class AutoRetryEnd(_Event, frozen=True, tag="auto_retry_end"):
    success: bool
    attempt: int
    final_error: str | UnsetType = UNSET


class QueueUpdate(_Event, frozen=True, tag="queue_update"):
    steering: Sequence[str]
    follow_up: Sequence[str]


AgentEvent = (
    AgentStart
    | AgentEnd
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
    | CompactionStart
    | CompactionEnd
    | AutoRetryStart
    | AutoRetryEnd
    | QueueUpdate
)


class _Update(Struct, tag="message_update", tag_field="type", rename="camel"):
    assistant_message_event: AnswerEvent


def to_json(event: AgentEvent) -> bytes:
    """One line. A `message_update` has what was added and not the message so far, which would be said again
    with every word: `message_end` has all of it."""
    if isinstance(event, MessageUpdate):
        return dumps(_Update(event.assistant_message_event))
    return dumps(event)
