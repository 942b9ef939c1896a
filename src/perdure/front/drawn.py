"""A part of a screen that a function draws, from the columns and lines that there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prompt_toolkit.layout import UIContent, UIControl

from perdure.front.cells import Fragments, steady


class Drawn(UIControl):
    """`is_measured` is for what takes as many lines as it needs."""

    def __init__(self, draw: Callable[[int, int], UIContent], *, is_measured: bool = False) -> None:
        self._draw = draw
        self._is_measured = is_measured

    def is_focusable(self) -> bool:
        return True  # something has to be, where nothing is typed

    def preferred_height(self, width: int, max_available_height: int, *_: object) -> int | None:
        return self._draw(width, max_available_height).line_count if self._is_measured else None

    def create_content(self, width: int, height: int) -> UIContent:
        return self._draw(width, height)


def content(lines: Iterable[Fragments]) -> UIContent:
    drawn = [steady(line) for line in lines]
    return UIContent(drawn.__getitem__, len(drawn), show_cursor=False)
