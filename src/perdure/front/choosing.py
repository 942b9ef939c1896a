"""One of a few things, or of some hundred: a list that words make shorter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from prompt_toolkit.input import Input
from prompt_toolkit.output import Output
from prompt_toolkit.utils import get_cwidth

from perdure.front.cells import Fragments, cut, padded
from perdure.front.selection import Selection
from perdure.front.visible import one_line

_CURRENT = "✓ "
_GAP = "  "


class Choice(NamedTuple):
    value: str
    text: str
    detail: str = ""


async def choose(
    title: str,
    choices: Sequence[Choice],
    *,
    current: str = "",
    can_filter: bool = True,
    has_colour: bool = True,
    input: Input | None = None,
    output: Output | None = None,
) -> str | None:
    """The value of the one that was chosen; None if somebody left. The list begins at the `current` one."""
    screen = _Choices(
        title, choices, current, can_type=can_filter, has_colour=has_colour, input=input, output=output
    )
    chosen = await screen.run()
    return None if chosen is None else chosen.value


def matching(choices: Sequence[Choice], query: str) -> list[Choice]:
    """Those in which every word occurs, wherever that is."""
    words = query.casefold().split()
    return [each for each in choices if all(word in "\n".join(each).casefold() for word in words)]


class _Choices(Selection[Choice]):
    keys = "↑↓ move · Enter choose · Esc leave"

    def __init__(self, title: str, choices: Sequence[Choice], current: str, **terminal: Any) -> None:
        at = next((at for at, each in enumerate(choices) if each.value == current), 0)
        super().__init__(choices, at=at, **terminal)
        self.title = title
        self._every = choices
        self._current = current
        self._widest = max((get_cwidth(one_line(each.text)) for each in choices), default=0)
        """Details stand below one another."""

    def row(self, item: Choice, columns: int) -> Fragments:
        mark = _CURRENT if item.value == self._current else " " * len(_CURRENT)
        if not item.detail:
            return [("ansigreen", mark), ("", one_line(item.text))]
        room = min(self._widest, columns * 2 // 3)
        text = padded(cut(one_line(item.text), room), room)
        return [("ansigreen", mark), ("", text), ("dim", _GAP + one_line(item.detail))]

    def count(self) -> str:
        shown, every = len(self.items), len(self._every)
        return f"{every:,}" if shown == every else f"{shown:,} of {every:,}"

    def nothing(self) -> str:
        return "Nothing like that." if self._every else "There is nothing to choose from."

    def typed(self, text: str) -> None:
        self.show(matching(self._every, text))
