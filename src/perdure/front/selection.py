"""A screen on which one of many is chosen: a line to type in, rows, and what the highlighted one is about.

It is drawn on the alternate screen, so that the terminal is as it was when it ends. Rows are made only for
the lines there are: it does not matter how many there could be. What is chosen from, and how it looks, is the
word of a subclass.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Generic, TypeVar

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Container,
    DynamicContainer,
    HSplit,
    Layout,
    UIContent,
    VSplit,
    Window,
)
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.utils import get_cwidth

from perdure.front.cells import Fragments, cut, fitted, folded, padded, steady
from perdure.front.drawn import Drawn, content
from perdure.front.visible import one_line

T = TypeVar("T")

MARK = "▸ "
_WIDE = 100  # columns from which on the other half is beside the rows
_TALL = 16  # lines from which on it is below them, where it is not beside them
_PROMPT = "> "
_NARROWEST = 10  # columns of what is typed


class Selection(ABC, Generic[T]):
    title = ""
    keys = ""
    """What they do, for the foot of the screen."""
    has_aside = False
    """Whether there is more to say of a row than it has space for."""

    def __init__(
        self,
        items: Sequence[T] = (),
        *,
        at: int = 0,
        query: str = "",
        can_type: bool = True,
        has_colour: bool = True,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self.items = items
        self.at = at
        self.is_over = False
        self._told = ""
        self._made: dict[tuple[int, int], Fragments] = {}
        """Rows that were drawn, by their number and their width."""
        self._line = Buffer(document=Document(one_line(query)), multiline=False)
        self._line.on_text_changed += lambda _: self.typed(self._line.text)
        self._rows = Window(Drawn(self._draw_rows))
        self._beside, self._below = self._halves()
        self._app: Application[T | None] = Application(
            Layout(self._screen(can_type), self._line if can_type else self._rows),
            key_bindings=self._bindings(),
            full_screen=True,
            color_depth=None if has_colour else ColorDepth.DEPTH_1_BIT,
            input=input,
            output=output,
        )
        self._app.timeoutlen = self._app.ttimeoutlen = 0.05  # for a bare Esc, with which other keys begin
        self._app.key_processor.before_key_press += lambda _: self.say("")
        self._app.after_render += lambda _: self.drawn()

    async def run(self) -> T | None:
        """What was chosen; None if somebody left, or their terminal is gone."""
        try:
            return await self._app.run_async(handle_sigint=False)
        except EOFError:
            return None
        finally:
            self.is_over = True

    # --- what a subclass says -------------------------------------------------------------------------

    @abstractmethod
    def row(self, item: T, columns: int) -> Fragments:
        """On at most so many columns."""

    def aside(self, item: T, columns: int, lines: int) -> Iterable[Fragments]:
        """What there is to say of it; no more lines are taken than there is space for."""
        return ()

    @abstractmethod
    def count(self) -> str:
        """How many there are."""

    @abstractmethod
    def nothing(self) -> str:
        """Why there are none."""

    @abstractmethod
    def typed(self, text: str) -> None:
        """This is what is typed now."""

    def drawn(self) -> None:
        """All that was done is on the screen."""

    def moved(self) -> None:
        """Another one is highlighted."""

    def switched(self) -> None:
        """Tab was pressed."""

    def entered(self) -> None:
        if self.highlighted is not None:
            self.end(self.highlighted)

    # --- what a subclass does -------------------------------------------------------------------------

    @property
    def query(self) -> str:
        return self._line.text

    @property
    def highlighted(self) -> T | None:
        return self.items[self.at] if self.items else None

    def in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Ended when the screen is, if not before."""
        return self._app.create_background_task(work)

    def show(self, items: Sequence[T], at: int = 0) -> None:
        self.items = items
        self._made.clear()
        self._go(at)
        self.redraw()

    def say(self, text: str) -> None:
        """At the foot, until the next key."""
        self._told = one_line(text)
        self.redraw()

    def redraw(self) -> None:
        self._app.invalidate()

    def end(self, item: T | None, error: BaseException | None = None) -> None:
        if self._app.is_running and not self._app.is_done:
            if error is None:
                self._app.exit(result=item)
            else:
                self._app.exit(exception=error)

    # --- the screen -----------------------------------------------------------------------------------

    def _screen(self, can_type: bool) -> Container:
        typing = [
            Window(Drawn(lambda *_: content([[("bold", _PROMPT)]])), width=len(_PROMPT)),
            Window(BufferControl(self._line), width=lambda: self._line_columns()[0]),
            Window(Drawn(self._draw_count), width=lambda: self._line_columns()[1]),
        ]
        title = Window(Drawn(self._draw_title, is_measured=True), dont_extend_height=True)
        return HSplit(
            [
                ConditionalContainer(title, Condition(lambda: bool(self.title))),
                ConditionalContainer(VSplit(typing, height=1), Condition(lambda: can_type)),
                DynamicContainer(self._body),
                Window(Drawn(self._draw_foot, is_measured=True), dont_extend_height=True),
            ]
        )

    def _halves(self) -> tuple[Container, Container]:
        """The rows and what the highlighted one is about, beside one another and below one another. Widths
        are given: prompt_toolkit would take its time to find them."""
        size = self._size
        bar = [Window(width=1), Window(char="│", width=1, style="dim"), Window(width=1)]
        rows = HSplit([self._rows], width=lambda: size().columns - len(bar) - size().columns * 2 // 5)
        beside = Window(Drawn(self._draw_aside), width=lambda: size().columns * 2 // 5)
        below = Window(Drawn(self._draw_aside), height=lambda: size().rows // 3)
        return (
            VSplit([rows, *bar, beside]),
            HSplit([self._rows, Window(char="─", height=1, style="dim"), below]),
        )

    def _body(self) -> Container:
        """The rows alone, where there is no space for more."""
        if self.has_aside and self._size().columns >= _WIDE:
            return self._beside
        return self._below if self.has_aside and self._size().rows >= _TALL else self._rows

    def _size(self) -> Size:
        return get_app().output.get_size()

    def _draw_title(self, columns: int, _: int) -> UIContent:
        return content(folded([("bold", one_line(self.title))], columns))

    def _line_columns(self) -> tuple[int, int]:
        """Of what is typed, and of how many there are."""
        room = self._size().columns - len(_PROMPT)
        count = max(0, min(get_cwidth(one_line(self.count())) + 1, room - _NARROWEST))
        return room - count, count

    def _draw_count(self, columns: int, _: int) -> UIContent:
        text = cut(one_line(self.count()), columns)
        return content([[("dim", " " * (columns - get_cwidth(text)) + text)]])

    def _draw_rows(self, columns: int, _: int) -> UIContent:
        if not self.items:
            text = self.nothing()
            return content([[], *folded([("dim", one_line(text))], columns)] if text else [])

        def line(at: int) -> StyleAndTextTuples:
            made = self._made.get((at, columns))
            if made is None:
                room = columns - len(MARK)
                made = self._made[at, columns] = fitted(self.row(self.items[at], room), room)
            if at != self.at:
                return steady([("", " " * len(MARK)), *made])
            return steady([("reverse", padded(MARK + "".join(text for _, text in made), columns))])

        return UIContent(line, len(self.items), Point(0, self.at), show_cursor=False)

    def _draw_aside(self, columns: int, lines: int) -> UIContent:
        item = self.highlighted
        made = self.aside(item, columns, lines) if item is not None else ()
        return content(fitted(line, columns) for line, _ in zip(made, range(lines), strict=False))

    def _draw_foot(self, columns: int, _: int) -> UIContent:
        if self._told:
            return content(folded([("ansiyellow", self._told)], columns))
        return content([[("dim", cut(self.keys, columns))]])

    # --- the keys -------------------------------------------------------------------------------------

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()

        def bind(names: str, does: Callable[[], None]) -> None:
            for name in names.split():
                keys.add(name)(lambda _: does())

        bind("up c-p", lambda: self._move(self.at - 1))
        bind("down c-n", lambda: self._move(self.at + 1))
        bind("pageup", lambda: self._move(self.at - self._page))
        bind("pagedown", lambda: self._move(self.at + self._page))
        bind("home", lambda: self._move(0))
        bind("end", lambda: self._move(len(self.items)))
        bind("tab", self.switched)
        bind("enter c-j", self.entered)
        bind("escape c-c c-g", lambda: self.end(None))
        bind("c-u", lambda: self._line.set_document(Document()))
        keys.add("c-d", filter=Condition(lambda: not self._line.text))(lambda _: self.end(None))

        @keys.add(Keys.BracketedPaste)
        def paste(event: KeyPressEvent) -> None:
            self._line.insert_text(one_line(event.data))

        return keys

    @property
    def _page(self) -> int:
        drawn = self._rows.render_info
        return max(1, drawn.window_height - 1) if drawn else 1

    def _move(self, at: int) -> None:
        self._go(at)
        self.moved()

    def _go(self, at: int) -> None:
        self.at = max(0, min(at, len(self.items) - 1))
