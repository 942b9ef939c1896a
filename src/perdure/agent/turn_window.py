"""A conversation that has become too long is sent without its middle: its first turns, a word about what is
left out, and its last turns. What is stored is never touched, and no model is asked for a summary.

A turn is a message of the user's or the agent's, with the results of the tools that it calls: a call is never
parted from its result. What the user asked for last is always sent, however many tools were called since.
Whether it is too long follows from the messages alone, each by what its provider counted for it or by its
characters, so that what was left out does not come back with the next request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain

from msgspec import Struct

from perdure.agent.compaction import Plan
from perdure.agent.events import Reason
from perdure.agent.models import Model, Sent
from perdure.agent.tokens import of_message, used
from perdure.errors import UsageError
from perdure.session.entry import AnyMessage, Assistant, Entry, ToolResult, User

FIRST = 2
LAST = 10
_RESERVE = 16_384
"""Tokens of a model's window that are left for its answer; of a small window a quarter."""

Turn = list[Sent]


class LeftOut(User, frozen=True, gc=False, tag="user", tag_field="role"):
    """Stands for turns that are not sent. `tokens` are theirs, where they are not even in memory."""

    turns: int = 0
    tokens: int = 0


class TurnWindow(Struct, frozen=True):
    max_tokens: int

    @property
    def model(self) -> str:
        return ""

    def is_due(self, tokens: int, model: Model) -> bool:
        return False

    def plan(self, entries: Sequence[Entry], model: Model, reason: Reason = "threshold") -> Plan | None:
        if reason == "manual":
            raise UsageError("Not compacted: here the middle of a long conversation is not sent instead")
        return None

    def limit(self, model: Model) -> int:
        """Tokens from which on the middle is not sent."""
        return min(self.max_tokens, _usable(model))

    def kept(self, newest_first: Iterable[AnyMessage]) -> list[AnyMessage]:
        """Of a conversation that is read from its end, what may ever be sent: as long as it is not beyond the
        limit of any model all of it, else its first turns, a word about its middle, and its end."""
        last: list[AnyMessage] = []
        first: deque[AnyMessage] = deque()  # the earliest turns so far, and like `last` the newest first
        tokens = turns = first_turns = left_out = tokens_left_out = 0
        is_asked = is_enough = False
        for message in newest_first:
            begins = not isinstance(message, ToolResult)
            if not is_enough:
                last.append(message)
                tokens += _tokens(message)
                turns += begins
                is_asked |= isinstance(message, User)
                is_enough = begins and tokens > self.max_tokens and turns >= LAST and is_asked
                continue
            first.append(message)
            first_turns += begins
            while first_turns > FIRST:
                dropped = first.popleft()
                tokens_left_out += _tokens(dropped)
                if not isinstance(dropped, ToolResult):  # which its results are before
                    first_turns -= 1
                    left_out += 1
        middle = [_left_out(left_out, tokens_left_out)] if left_out else []
        return [*reversed(first), *middle, *reversed(last)]

    def sent(self, messages: Sequence[Sent], beside: int, model: Model) -> Sequence[Sent]:
        if beside + estimated(messages) <= self.limit(model):
            return messages
        turns = turns_of(messages)
        asked = max((at for at, turn in enumerate(turns) if isinstance(turn[0], User)), default=len(turns))
        room = _usable(model) - beside
        for first, last in [*((FIRST, last) for last in range(LAST, 0, -1)), (0, 1)]:
            view = _without_middle(turns, first, last, asked)
            if sum(map(of_message, view)) <= room:
                break
        return view


def estimated(messages: Iterable[Sent]) -> int:
    """Tokens: a turn's own, as its provider counted it or else by its characters, and those of results."""
    return sum(map(_tokens, messages))


def turns_of(messages: Sequence[Sent]) -> list[Turn]:
    turns: list[Turn] = []
    for message in messages:
        if isinstance(message, ToolResult) and turns:
            turns[-1].append(message)
        else:
            turns.append([message])
    return turns


def _tokens(message: AnyMessage) -> int:
    if isinstance(message, LeftOut):
        return message.tokens
    counted = used(message, "output") if isinstance(message, Assistant) else 0
    return counted or of_message(message)


def _usable(model: Model) -> int:
    window = model.context_window
    return window - min(_RESERVE, window // 4)


def _without_middle(turns: Sequence[Turn], first: int, last: int, asked: int) -> list[Sent]:
    """`asked` is where the user's last words are."""
    after = len(turns) - last
    if after <= first:
        return [*chain.from_iterable(turns)]
    kept = [turns[asked]] if first <= asked < after else []
    left_out = after - first - len(kept)
    if not left_out:
        return [*chain.from_iterable(turns)]
    before = sum(turn[0].turns - 1 for turn in turns[first:after] if isinstance(turn[0], LeftOut))
    marker: Turn = [_left_out(before + left_out)]
    return [*chain.from_iterable([*turns[:first], marker, *kept, *turns[after:]])]


def _left_out(turns: int, tokens: int = 0) -> LeftOut:
    what = "1 turn of this conversation is" if turns == 1 else f"{turns} turns of this conversation are"
    text = f"[… {what} left out here, because it has become too long …]"
    return LeftOut(text, turns=turns, tokens=tokens)
