"""The lines at the foot of the screen that are redrawn: what of an answer is still open, what runs, and what
is queued. What is finished leaves them for good."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from perdure.front.face import Running
from perdure.front.laid_out import Layout
from perdure.front.output import Styled, painted
from perdure.front.streaming import Block, Blocks
from perdure.front.visible import fit, one_line, width

SPIN = 0.12
"""Seconds until the spinner turns."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_MOST_QUEUED = 5
_MOST_THOUGHT = 2000
"""Characters of a thought that are kept: its end is shown while it lasts, its beginning when it is over."""
_FEWEST = 3


_PATIENCE = 5
"""Times what a layout took, before the same block is laid out again as it grows."""


class _Open(NamedTuple):
    """A block, as it was last laid out."""

    markdown: str
    layout: Layout
    lines: list[str]
    until: float
    """When a few more words are worth another layout."""


class Foot:
    def __init__(self, *, has_colour: bool) -> None:
        self._has_colour = has_colour
        self._blocks: Blocks | None = None
        """Of the answer under way."""
        self._thought = ""
        self._doing = ""
        self._since = 0.0
        self._running: Sequence[Running] = ()
        self._queue: Sequence[str] = ()
        self._open: _Open | None = None

    @property
    def is_busy(self) -> bool:
        return bool(self._doing)

    @property
    def has_answer(self) -> bool:
        """Whether one has begun."""
        return self._blocks is not None

    def answer(self, delta: str) -> list[Block]:
        """More of it; those of its blocks that are finished."""
        if self._blocks is None:
            self._blocks = Blocks()
        return self._blocks.add(delta)

    def end_of_answer(self) -> list[Block]:
        """The rest of it."""
        blocks, self._blocks = self._blocks, None
        return blocks.end() if blocks is not None else []

    def think(self, delta: str) -> None:
        self._thought += delta
        if len(self._thought) > 2 * _MOST_THOUGHT:
            self._thought = self._thought[:200] + self._thought[-_MOST_THOUGHT:]

    def end_of_thought(self) -> str:
        """What it began with, on one line."""
        thought, self._thought = self._thought.strip(), ""
        return one_line(thought.partition("\n")[0])

    def doing(self, what: str) -> None:
        if bool(what) != bool(self._doing):
            self._since = time.monotonic()
        self._doing = what

    def running(self, every: Sequence[Running]) -> None:
        self._running = every

    def queued(self, steering: Sequence[str], follow_ups: Sequence[str]) -> None:
        self._queue = [
            *(f"queued: {one_line(text)}" for text in steering),
            *(f"queued for later: {one_line(text)}" for text in follow_ups),
        ]

    def lines(self, layout: Layout, columns: int, rows: int) -> list[str]:
        """What there is space for, the end of it."""
        now = time.monotonic()
        lines: list[str] = []
        if self._thought.strip():
            end = one_line(self._thought[-4 * columns :])
            lines.append(self._fitted(f"(thinking) …{end[-columns + 12 :]}", columns, "dim"))
        if self._blocks is not None and (block := self._blocks.open).source.strip():
            lines += ([""] if block.is_apart else []) + self._laid_out(block, layout, now)
        for each in self._running:
            end = f"  {now - each.since:.0f} s"
            what = fit(each.what, columns - width(end) - 2)
            lines.append(painted(["▸ ", what, Styled(end, "dim")], self._has_colour))
            if printed := each.printed.rstrip().rpartition("\n")[2]:
                lines.append(self._fitted(f"    {one_line(printed)}", columns, "dim"))
        if self._doing:
            lines += [""] if lines and lines[-1] else []
            spinner = _SPINNER[int(now / SPIN) % len(_SPINNER)]
            doing = f"{one_line(self._doing)}  {now - self._since:.0f} s  Esc stops it"
            parts = [Styled(f"{spinner} ", "cyan"), Styled(fit(doing, columns - 2), "dim")]
            lines.append(painted(parts, self._has_colour))
        lines += [self._fitted(f"  {text}", columns, "yellow") for text in self._queue[:_MOST_QUEUED]]
        if (more := len(self._queue) - _MOST_QUEUED) > 0:
            lines.append(self._fitted(f"  … and {more:,} more", columns, "yellow"))
        return lines[-max(_FEWEST, rows) :]

    def _laid_out(self, block: Block, layout: Layout, now: float) -> list[str]:
        """Anew only if it has changed, and what takes long to lay out not every time."""
        known = self._open
        if known is not None and known.layout is layout:
            if known.markdown == block.markdown:
                return known.lines
            if block.markdown.startswith(known.markdown) and now < known.until:
                return known.lines
        begun = time.perf_counter()
        lines = layout.lines(block.markdown)
        until = now + _PATIENCE * (time.perf_counter() - begun)
        self._open = _Open(block.markdown, layout, lines, until)
        return lines

    def _fitted(self, text: str, columns: int, style: str) -> str:
        return painted([Styled(fit(text, columns), style)], self._has_colour)
