"""A conversation that has become too long goes on behind a summary of its beginning.

Nothing is taken away: a compaction is one more entry, and a fork before it has the whole conversation. The
newest messages are kept as they are, and a tool call is never parted from its result. A compaction that
follows another starts from what that one kept. What is kept can be sent: where even the last turn is too
long, nothing is kept as it is, and the user's last request is quoted.

    strategy.is_due(tokens, model)                       whether it is time
    strategy.plan(entries, model, reason)                pure: what to condense and what to keep, or None
    await summarise(plan, model=…)                       the entry's body: see `perdure.agent.summary`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Protocol

from msgspec import Struct

from perdure.agent.events import Reason
from perdure.agent.models import Model, Sent
from perdure.agent.tokens import Counter, of_message, of_text
from perdure.agent.transcript import text_of
from perdure.errors import UsageError
from perdure.session import context
from perdure.session.entry import AnyMessage, Assistant, Compaction, Entry, ToolResult, User

SMALLEST_WINDOW = 1024
"""Tokens. Less is no window of a model that could do this work, but a mistake in its description."""
_LEAST = 100
"""Tokens that are worth a summary."""


# --- when ---------------------------------------------------------------------------------------------


class CompactionStrategy(Protocol):
    @property
    def model(self) -> str:
        """The name of the model that summarises; empty if it is the one that talks."""

    def is_due(self, tokens: int, model: Model) -> bool:
        """Whether a context of so many tokens should be condensed before more is said."""

    def plan(self, entries: Sequence[Entry], model: Model, reason: Reason = "threshold") -> Plan | None:
        """How to condense what `Session.live` gave; None if nothing would be gained."""

    def sent(self, messages: Sequence[Sent], beside: int, model: Model) -> Sequence[Sent]:
        """What of the messages is in a request, in which so many tokens are beside them."""


class NoCompaction(Struct, frozen=True):
    """Never, also not if the model says that it was too much: its error is shown."""

    @property
    def model(self) -> str:
        return ""

    def is_due(self, tokens: int, model: Model) -> bool:
        return False

    def plan(self, entries: Sequence[Entry], model: Model, reason: Reason = "threshold") -> Plan | None:
        if reason == "manual":
            raise UsageError("Not compacted: this session has NoCompaction", "give it SummaryCompaction")
        return None

    def sent(self, messages: Sequence[Sent], beside: int, model: Model) -> Sequence[Sent]:
        return messages


class SummaryCompaction(Struct, frozen=True, kw_only=True):
    threshold: int | float | None = None
    """Tokens; or, as a float up to 1.0, the share of the window. None is all of it but the reserve."""
    reserve_tokens: int = 16_384
    """What is left free for an answer, and for a summary. In a small window it is less."""
    keep_recent_tokens: int = 20_000
    """How much of the newest messages stays as it is. In a small window it is less."""
    instructions: str = ""
    """What summaries should look at in particular."""
    model: str = ""
    """The name of the model that summarises; empty is the one that talks."""
    is_automatic: bool = True
    """Otherwise only if it is asked for: not when the conversation is long, and not when it is too long."""

    def __post_init__(self) -> None:
        limit = self.threshold
        is_share = isinstance(limit, float) and 0 < limit <= 1
        is_count = isinstance(limit, int) and not isinstance(limit, bool) and limit > 0
        if limit is not None and not is_share and not is_count:
            raise UsageError(
                f"Not a threshold for compaction: {limit!r:.40}",
                "give tokens, or a share between 0.0 and 1.0",
            )
        for name in ("reserve_tokens", "keep_recent_tokens"):
            count = getattr(self, name)
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise UsageError(f"{name} is a number of tokens, not {count!r:.40}")

    def is_due(self, tokens: int, model: Model) -> bool:
        return self.is_automatic and tokens > self._room(model.context_window).threshold

    def plan(self, entries: Sequence[Entry], model: Model, reason: Reason = "threshold") -> Plan | None:
        if not self.is_automatic and reason != "manual":
            return None
        sent = context.build(entries)
        before = Counter.of(sent.messages, sent.condensed).total
        window = model.context_window
        if reason == "overflow":
            # It was too much, whatever the window is said to be, and whatever a token is in this language.
            window = min(window, before, sum(map(of_message, sent.messages)))
        return plan(entries, self._room(window), tokens_before=before, instructions=self.instructions)

    def sent(self, messages: Sequence[Sent], beside: int, model: Model) -> Sequence[Sent]:
        return messages

    def _room(self, window: int) -> Room:
        window = max(window, SMALLEST_WINDOW)
        reserve = self.reserve_tokens if self.reserve_tokens <= window // 2 else window // 4
        usable = window - reserve
        if self.threshold is None:
            threshold = usable
        elif isinstance(self.threshold, float):
            threshold = int(self.threshold * window)
        else:
            threshold = self.threshold if self.threshold <= window else usable
        return Room(
            window=window,
            usable=usable,
            threshold=threshold,
            keep=min(self.keep_recent_tokens, threshold // 3),
            summary=max(min(reserve * 4 // 5, threshold // 3), _LEAST),
            turn=max(min(reserve // 2, threshold // 5), _LEAST),
        )


class Room(Struct, frozen=True, kw_only=True):
    """How a window is divided, in tokens. What is kept and the summaries leave the reserve free."""

    window: int
    usable: int
    """The window without the reserve."""
    threshold: int
    keep: int
    """So much of the newest messages is kept."""
    summary: int
    """The most that a summary has,"""
    turn: int
    """and one of a turn that is cut in two."""

    @property
    def longest(self) -> int:
        """The most that is taken of a model that does not stop where it was told to."""
        return (self.summary + self.turn) * 5 // 4

    @property
    def most(self) -> int:
        """What is kept is never more than this."""
        return self.usable - self.longest


# --- what ---------------------------------------------------------------------------------------------


class Plan(Struct, frozen=True, kw_only=True):
    history: Sequence[AnyMessage]
    """What is condensed: whole turns,"""
    turn: Sequence[AnyMessage]
    """and the beginning of the turn that is cut in two, if that is worth a summary of its own."""
    first_kept_entry_id: str
    """Empty if nothing is kept."""
    request: str
    """What the user asked for last, if it is not among what is kept."""
    previous: Compaction | None
    """Its summary is part of what is condensed."""
    replaced: int
    """Tokens, as they are estimated, of all that the summary stands for."""
    tokens_before: int
    room: Room
    instructions: str = ""


def plan(
    entries: Sequence[Entry], room: Room, *, tokens_before: int = 0, instructions: str = ""
) -> Plan | None:
    """How to condense entries as `Session.live` gives them. None if nothing would be gained."""
    spoken = [(entry, message) for entry, message in context.said(entries) if message is not None]
    previous = _previous(entries, [entry for entry, _ in spoken])
    said = [(entry, message) for entry, message in spoken if entry.type != "compaction"]
    messages = [message for _, message in said]
    calls = _calls_of_results(messages)
    weights = [
        0 if isinstance(message, ToolResult) and at not in calls else of_message(message)
        for at, message in enumerate(messages)  # a result whose call is not there is not sent
    ]
    cut = _cut(weights, _places(messages, calls), room)
    condensed = of_text(previous.summary) if previous else 0
    replaced = sum(weights[:cut])
    if replaced + max(condensed - room.longest, 0) < max(room.keep // 4, _LEAST):
        return None
    begin, request = cut, ""
    if cut == len(messages):
        asked = (text_of(message.content) for message in reversed(messages) if isinstance(message, User))
        request = next(asked, "")
    elif not isinstance(messages[cut], User):  # inside a turn
        begin = max((at for at in range(cut) if isinstance(messages[at], User)), default=cut)
        if min(sum(weights[:begin]), sum(weights[begin:cut])) < _LEAST:
            begin = cut  # not worth a request of its own
    return Plan(
        history=messages[:begin],
        turn=messages[begin:cut],
        first_kept_entry_id=said[cut][0].id if cut < len(said) else "",
        request=request,
        previous=previous,
        replaced=replaced + condensed,
        tokens_before=tokens_before,
        room=room,
        instructions=instructions,
    )


def _previous(entries: Sequence[Entry], spoken: Sequence[Entry]) -> Compaction | None:
    """The compaction before this one, unless an edit took it out of what is sent."""
    last = context.last_compaction(entries)
    body = last.body if last is not None and last in spoken else None
    return body if isinstance(body, Compaction) else None


def _cut(weights: Sequence[int], places: Sequence[int], room: Room) -> int:
    """The first message that is kept; their number if none is."""
    end = len(weights)
    reached, kept = end, 0
    while reached and kept < max(room.keep, 1):
        reached -= 1
        kept += weights[reached]
    if kept < room.keep:
        return 0
    cut = next((at for at in places if at >= reached), None)
    if cut is None:
        cut = max((at for at in places if at < reached), default=0)
    left = [*accumulate(reversed(weights), initial=0)][::-1]
    cut = next((at for at in places if at >= cut and left[at] <= room.threshold), cut)
    if left[cut] <= room.most:
        return cut
    return next((at for at in places if at > cut and left[at] <= room.most), end)


def _places(messages: Sequence[AnyMessage], calls: Mapping[int, int]) -> list[int]:
    """Where a conversation can be cut: before anything but a result, with every call and its result on one
    side. A result need not follow its call at once: the user may have said something meanwhile."""
    open_until = dict.fromkeys(calls.values(), 0)
    for result, call in calls.items():
        open_until[call] = max(open_until[call], result)
    places, end = [], -1
    for at, message in enumerate(messages):
        if at > end and not isinstance(message, ToolResult):
            places.append(at)
        end = max(end, open_until.get(at, -1))
    return places


def _calls_of_results(messages: Sequence[AnyMessage]) -> dict[int, int]:
    """For each result that is sent, by its place, where its call is."""
    found: dict[int, int] = {}
    waiting: dict[str, int] = {}
    for at, message in enumerate(messages):
        if isinstance(message, Assistant):
            waiting.update((call.id, at) for call in message.calls)
        elif isinstance(message, ToolResult) and message.tool_call_id in waiting:
            found[at] = waiting.pop(message.tool_call_id)
    return found
