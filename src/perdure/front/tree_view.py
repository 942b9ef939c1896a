"""`/tree`: all branches of a session on one screen, to look around in and to choose where to go on.

Looking moves nothing. What is chosen is returned, and whoever asked goes there; the file is as it was until
something is said there. A label is the one thing that is written, by whoever gave `label`.

Where all entries stand is found once. What they say is read for the lines on the screen alone, so that a key
is answered as quickly in a session of a hundred thousand entries as in a short one.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, Filter, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Container,
    Dimension,
    HSplit,
    Layout,
    ScrollOffsets,
    UIContent,
    VSplit,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import ColorDepth, Output

from perdure.errors import PerdureError
from perdure.front import branches, cells, tree_lines
from perdure.front.cells import Fragments
from perdure.front.drawn import Drawn, content
from perdure.front.visible import one_line, visible, width
from perdure.session import tree
from perdure.session.entry import Entry
from perdure.session.session import Session

_WIDE = 120  # columns from which on a preview stands beside the branches
_TALL = 14  # lines from which on it stands below them, where it does not stand beside them
_PREVIEW_LINES = 5
_PORTION = 0.003  # seconds of searching between two looks at the keyboard
_KEYS = "Enter go there · l label · f fork · / search · ←→ branches · Esc leave"


class Move(NamedTuple):
    """Go on behind this entry; None is before the first."""

    entry_id: str | None
    text: str = ""
    """What the user had said there, as it was written, to be said differently."""


class Fork(NamedTuple):
    """A new session up to this entry; None is before the first: a session in which nothing was said."""

    entry_id: str | None
    text: str = ""
    """What the user had said there, as it was written, to be said differently."""


Chosen = Move | Fork | None


async def show_tree(
    session: Session,
    *,
    label: Callable[[str, str], Awaitable[None]],
    has_colour: bool = True,
    input: Input | None = None,
    output: Output | None = None,
) -> Chosen:
    """What the user chose; None if they left, or chose where the conversation stands.

    A user's message is chosen to be said differently: one goes before it. Who chooses a call of tools goes on
    behind what they answered. `label` is given an entry and its new label, empty to take it away; if it
    raises a PerdureError, that is shown and the label is as it was.
    """
    shown = await asyncio.to_thread(_Tree, session)
    return await _View(shown, label, has_colour, input, output).chosen()


class _Tree:
    """A session as it was when somebody asked for it, but for the labels."""

    def __init__(self, session: Session) -> None:
        entries = list(session.entries)
        below = tree.children(entries)
        self._next = {id: following[0] for id, following in below.items() if len(following) == 1}
        """What follows in line."""
        self._above = {entry.id: entry.parent_id for entry in entries if entry.type in tree.METADATA}
        self.labels = tree.labels(entries)
        self.head = self._said(session.head)
        self.places = branches.places(below, self.head, self.labels)
        self.here = next((at for at, place in enumerate(self.places) if place.is_head), 0)
        self.bends = [at for at, place in enumerate(self.places) if place.ways != 1]
        """Where branches part or end."""

    def move(self, at: int) -> Move | None:
        target, text = self._target(at)
        is_here = self.places[at].is_head or (not text and self._said(target) == self.head)
        return None if is_here else Move(target, text)

    def fork(self, at: int) -> Fork:
        return Fork(*self._target(at))

    def with_results(self, at: int) -> list[Entry]:
        """An entry, and what the tools that it called answered, where that follows in line."""
        found = [self.places[at].entry]
        if found[0].role == "assistant":
            while (following := self._next.get(found[-1].id)) and following.role == "toolResult":
                found.append(following)
        return found

    def says(self, at: int, sought: str) -> bool:
        """Whether it is in what was said there, in its line or in its label."""
        if sought in self.places[at].entry.text.casefold():
            return True
        row = branches.row(self.places[at], self.labels, deepest=0)
        return sought in row.text.casefold() or sought in row.label.casefold()

    def _target(self, at: int) -> tuple[str | None, str]:
        entry = self.places[at].entry
        return (entry.parent_id, entry.text) if entry.role == "user" else (self.with_results(at)[-1].id, "")

    def _said(self, id: str | None) -> str | None:
        """The entry itself, or where it is metadata what was said before it."""
        while id in self._above:
            id = self._above[id]
        return id


class _View:
    """The screen, and what the keys do there."""

    def __init__(
        self,
        shown: _Tree,
        label: Callable[[str, str], Awaitable[None]],
        has_colour: bool,
        input: Input | None,
        output: Output | None,
    ) -> None:
        self._tree = shown
        self._save = label
        self._at = shown.here
        self._told = ""
        """Said at the foot until a key is pressed."""
        self._labelled = ("", "")
        """The entry that is given a label, and the one it had."""
        self._is_saving = False
        self._leaving: list[Chosen] = []
        """What was chosen while a label was being kept: one leaves when it is, and stays if it cannot be."""
        self._sought = ""
        self._origin = 0
        """Where a search began, and where giving it up leads back to."""
        self._searching: asyncio.Task[None] | None = None
        self._line = lru_cache(maxsize=1000)(self._read_line)
        self._preview = lru_cache(maxsize=1)(self._read_preview)

        self._list = Window(Drawn(self._draw_list), scroll_offsets=ScrollOffsets(3, 3))
        self._label_line = Buffer(multiline=False, on_text_changed=_clean)
        self._search_line = Buffer(multiline=False, on_text_changed=self._search_anew)
        self._app: Application[Chosen] = Application(
            Layout(self._layout(), focused_element=self._list),
            key_bindings=self._keys(),
            full_screen=True,
            max_render_postpone_time=0,  # else a search would be waited for
            color_depth=ColorDepth.DEPTH_4_BIT if has_colour else ColorDepth.DEPTH_1_BIT,
            input=input,
            output=output,
        )
        self._app.timeoutlen = self._app.ttimeoutlen = 0.05  # for a bare Esc, with which other keys begin
        self._app.key_processor.before_key_press += lambda _: self._tell("")

    async def chosen(self) -> Chosen:
        try:
            return await self._app.run_async(handle_sigint=False)
        except EOFError:  # the terminal is gone
            return None

    # --- the screen -----------------------------------------------------------------------------------

    def _layout(self) -> Container:
        is_wide = Condition(lambda: _size().columns >= _WIDE)
        is_tall = Condition(lambda: _size().rows >= _TALL)
        is_asking = has_focus(self._label_line) | has_focus(self._search_line)

        preview = Window(Drawn(self._draw_preview), width=lambda: _size().columns * 2 // 5)
        beside = VSplit([Window(width=1), Window(char="│", width=1, style="dim"), Window(width=1), preview])
        preview = Window(Drawn(self._draw_preview), height=_PREVIEW_LINES)
        below = HSplit([Window(char="─", height=1, style="dim"), preview])
        told = Window(Drawn(self._draw_told), height=1, width=self._told_width)
        return HSplit(
            [
                VSplit([self._list, ConditionalContainer(beside, is_wide)]),
                ConditionalContainer(below, is_tall & ~is_wide),
                _asked("Label: ", self._label_line),
                _asked("/", self._search_line, told),
                ConditionalContainer(Window(Drawn(self._draw_foot), height=1), ~is_asking),
            ]
        )

    def _draw_list(self, columns: int, _: int) -> UIContent:
        def line(at: int) -> StyleAndTextTuples:
            drawn = self._line(at, columns)
            return cells.steady(tree_lines.chosen(drawn, columns) if at == self._at else drawn)

        if not self._tree.places:
            return content([[("dim", cells.cut("Nothing was said yet.", columns))]])
        return UIContent(line, len(self._tree.places), Point(0, self._at), show_cursor=False)

    def _read_line(self, at: int, columns: int) -> Fragments:
        row = branches.row(self._tree.places[at], self._tree.labels, deepest=columns // 8)
        return tree_lines.line(row, columns)

    def _draw_preview(self, columns: int, lines: int) -> UIContent:
        return content(self._preview(self._at, columns, lines) if self._tree.places else ())

    def _read_preview(self, at: int, columns: int, lines: int) -> list[Fragments]:
        entries = self._tree.with_results(at)
        return list(tree_lines.preview(entries, self._tree.labels, columns, lines))

    def _draw_foot(self, columns: int, _: int) -> UIContent:
        where = f"  {self._at + 1:,} of {len(self._tree.places):,}" if self._tree.places else ""
        style, text = ("ansired", self._told) if self._told else ("dim", _KEYS)
        if self._is_searching:
            style, text = "dim", "searching …"
        room = columns - len(where)
        said = cells.padded(cells.cut(text, room), room)
        return content([cells.fitted([(style, said), ("dim", where)], columns)])

    def _draw_told(self, columns: int, _: int) -> UIContent:
        return content([[("dim", cells.cut(self._told, columns))]])

    def _told_width(self) -> Dimension:
        columns = width(self._told)
        return Dimension(preferred=columns, max=columns)

    def _tell(self, text: str) -> None:
        self._told = one_line(text)

    # --- the keys -------------------------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        is_labelling, is_searching = has_focus(self._label_line), has_focus(self._search_line)
        is_looking = ~is_labelling & ~is_searching

        def bind(names: str, does: Callable[[], None], when: Filter = is_looking) -> None:
            for name in names.split():
                keys.add(name, filter=when)(lambda _: does())

        bind("up k", lambda: self._go(self._at - 1))
        bind("down j", lambda: self._go(self._at + 1))
        bind("pageup", lambda: self._go(self._at - self._page))
        bind("pagedown", lambda: self._go(self._at + self._page))
        bind("home", lambda: self._go(0))
        bind("end", lambda: self._go(len(self._tree.places)))
        bind("left", self._go_back)
        bind("right", self._go_ahead)
        bind("enter c-j", lambda: self._choose(self._tree.move))
        bind("f", lambda: self._choose(self._tree.fork))
        bind("escape q", lambda: self._leave(None))
        keys.add("c-c")(lambda _: self._app.exit())

        bind("l", self._ask_label)
        bind("enter", self._keep_label, is_labelling)
        bind("escape", self._look, is_labelling)

        bind("/", self._ask_search)
        bind("enter", self._look, is_searching)
        bind("escape", self._give_up_search, is_searching)
        bind("n", lambda: self._search_on(1))
        bind("N", lambda: self._search_on(-1))
        return keys

    def _look(self) -> None:
        self._app.layout.focus(self._list)

    def _go(self, at: int) -> None:
        self._stop_search()
        self._at = max(0, min(at, len(self._tree.places) - 1))

    def _go_back(self) -> None:
        at = bisect_left(self._tree.bends, self._at)
        self._go(self._tree.bends[at - 1] if at else 0)

    def _go_ahead(self) -> None:
        at = bisect_right(self._tree.bends, self._at)
        self._go(self._tree.bends[at] if at < len(self._tree.bends) else self._at)

    @property
    def _page(self) -> int:
        drawn = self._list.render_info
        return max(1, drawn.window_height - 1) if drawn else 1

    def _choose(self, what: Callable[[int], Chosen]) -> None:
        """Not before a search has found its place."""
        if self._tree.places and not self._is_searching:
            self._leave(what(self._at))

    def _leave(self, chosen: Chosen) -> None:
        if self._is_saving:
            self._leaving = [chosen]
        else:
            self._app.exit(result=chosen)

    # --- labels ---------------------------------------------------------------------------------------

    def _ask_label(self) -> None:
        if self._tree.places and not self._is_searching and not self._is_saving:
            id = self._tree.places[self._at].entry.id
            self._labelled = (id, one_line(self._tree.labels.get(id, "")))
            self._label_line.reset(Document(self._labelled[1]))
            self._app.layout.focus(self._label_line)

    def _keep_label(self) -> None:
        (id, before), text = self._labelled, self._label_line.text.strip()
        self._look()
        if text != before.strip():
            self._is_saving = True
            self._app.create_background_task(self._save_label(id, text))

    async def _save_label(self, id: str, text: str) -> None:
        try:
            await self._save(id, text)
        except PerdureError as error:
            self._leaving = []
            self._tell(error.said)
        except Exception as error:
            self._app.exit(exception=error)
            return
        else:
            self._tree.labels[id] = text
            self._line.cache_clear()
            self._preview.cache_clear()
        finally:
            self._is_saving = False
        self._app.invalidate()
        for chosen in self._leaving:
            self._app.exit(result=chosen)

    # --- searching ------------------------------------------------------------------------------------

    def _ask_search(self) -> None:
        self._go(self._at)
        self._origin = self._at
        self._search_line.reset()
        self._app.layout.focus(self._search_line)

    def _give_up_search(self) -> None:
        self._sought = ""
        self._go(self._origin)
        self._look()

    def _search_anew(self, line: Buffer) -> None:
        _clean(line)
        self._sought = line.text.casefold()
        self._go(self._origin)
        if self._sought:
            self._search(self._origin, 1)

    def _search_on(self, step: int) -> None:
        if self._sought:
            self._search(self._at + step, step)

    def _search(self, start: int, step: int) -> None:
        """What is found at once is there before the next key; the rest is looked through between the keys."""
        self._stop_search()
        looking = self._look_through(start, step)
        for _ in looking:
            self._searching = self._app.create_background_task(self._search_between_keys(looking))
            break

    async def _search_between_keys(self, looking: Iterator[None]) -> None:
        for _ in looking:
            await asyncio.sleep(0)
        self._app.invalidate()

    def _look_through(self, start: int, step: int) -> Iterator[None]:
        count = len(self._tree.places)
        pause = time.monotonic() + _PORTION
        for at in range(start, start + step * count, step):
            if self._tree.says(at % count, self._sought):
                self._at = at % count
                return
            if time.monotonic() >= pause:
                yield
                pause = time.monotonic() + _PORTION
        self._tell("not found")

    def _stop_search(self) -> None:
        if self._searching:
            self._searching.cancel()
            self._searching = None

    @property
    def _is_searching(self) -> bool:
        return self._searching is not None and not self._searching.done()


def _size() -> Size:
    return get_app().output.get_size()


def _asked(prompt: str, line: Buffer, *beside: Container) -> Container:
    control = BufferControl(line, input_processors=[BeforeInput(prompt)])
    return ConditionalContainer(VSplit([Window(control, height=1), *beside]), has_focus(line))


def _clean(line: Buffer) -> None:
    """What is pasted may come from anywhere, too."""
    if (shown := _on_one_line(line.text)) != line.text:
        line.document = Document(shown, len(_on_one_line(line.document.text_before_cursor)))


def _on_one_line(text: str) -> str:
    return visible(text).replace("\n", " ").replace("\t", " ")
