"""A terminal that is drawn on: what is finished is printed once and scrolls away, and only the foot of the
screen is redrawn.

The foot is the block of the answer that is still open, what is running, what is queued, the editor and a line
of facts. Everything else goes above it, and is the terminal's from then on: nothing here moves the cursor
above the foot. The foot is redrawn by what changed in it, at most so many times a second, so the cost of a
word does not grow with the answer.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, ThreadedCompleter
from prompt_toolkit.filters import Condition, has_completions, has_focus
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import History
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    Float,
    FloatContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    VerticalAlign,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import ColorDepth, create_output
from prompt_toolkit.output import Output as Terminal
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from perdure.errors import PerdureError
from perdure.front.face import Running
from perdure.front.foot import SPIN, Foot
from perdure.front.laid_out import Layout as Prose
from perdure.front.leaving import leave_on_purpose
from perdure.front.output import Output, Styled, lines_of
from perdure.front.signals import directly
from perdure.front.visible import fit, one_line

if TYPE_CHECKING:
    from perdure.front.choosing import Choice
    from perdure.front.shell import Shell
    from perdure.front.streaming import Block

T = TypeVar("T")

_PACE = 0.04
"""Seconds between two drawings of the foot."""
_READABLE = 100
"""Columns of prose, however wide the terminal is."""
_QUICK = 0.05
_PATIENT = 0.2
"""Seconds in which an Esc may still be the beginning of another key: Alt+Enter is one with it."""
_MENU = 8
_BELOW = 8
"""Lines that are left for the editor."""


class Screen:
    is_drawn = True
    is_terminal = True
    shows_drafts = True

    def __init__(
        self,
        out: Output,
        *,
        prompt: Callable[[], str],
        history: History,
        completer: Completer,
        input: Input | None = None,
        output: Terminal | None = None,
    ) -> None:
        """On this process's terminal, unless another one is given."""
        self._out = out
        self.has_colour = out.colour
        self._shell: Shell | None = None
        self._above: list[str] = []
        """What is to be printed at the next drawing."""
        self._last = ""
        self._foot = Foot(has_colour=out.colour)
        self._layout: Prose | None = None
        self._drawing: asyncio.TimerHandle | None = None
        self._spinning: asyncio.Task[None] | None = None
        self._live: list[str] = []
        """The lines above the editor, as they were last drawn."""
        self._is_over = False
        self._shown: asyncio.Future[Any] | None = None
        """What has the whole screen."""
        self._buffer = Buffer(
            multiline=True,
            history=history,
            completer=ThreadedCompleter(completer),
            on_text_changed=self._typed,
            complete_while_typing=Condition(self._is_completed_while_typing),
        )
        self._given = input
        self._app = self._application(prompt, input or create_input(), output or create_output(out.stdout))

    # --- what stays ------------------------------------------------------------------------------------

    @property
    def columns(self) -> int:
        return self._app.output.get_size().columns

    def line(self, *parts: str | Styled) -> None:
        for line in lines_of(parts, self.columns, self.has_colour):
            self._print(line)

    def note(self, *parts: str | Styled) -> None:
        self.line(*parts)

    def failed(self, error: PerdureError) -> None:
        said = f"{error.message}:" if error.candidates else error.said.replace("?; ", "? ")
        self.note(Styled(one_line(said), "red"))
        for candidate in error.candidates[:20]:
            self.line(f"  {one_line(candidate)}")

    def said(self, text: str) -> None:
        first, *further = text.split("\n")
        self._blank()
        self.line(Styled("> ", "cyan"), Styled(first, "bold"))
        for line in further:
            self.line("  ", Styled(line, "bold"))
        self._blank()

    def answer(self, delta: str) -> None:
        if not self._foot.has_answer:
            self._blank()
        self._print_blocks(self._foot.answer(delta))
        self._changed()

    def think(self, delta: str) -> None:
        self._foot.think(delta)
        self._changed()

    def end_of_answer(self) -> None:
        if thought := self._foot.end_of_thought():
            self.line(Styled(fit(f"(thought) {thought}", self.columns), "dim"))
        if self._foot.has_answer:
            self._print_blocks(self._foot.end_of_answer())
            self._blank()
        self._changed()

    def echo(self, text: str) -> None:
        self._blank()
        self.line(Styled(fit(f"> {one_line(text)}", self.columns), "dim"))

    def edit(self, text: str) -> None:
        if self._is_over:
            return self.note(Styled(f"Not sent: {one_line(text)}", "yellow"))
        self._buffer.text = "\n".join(filter(None, [text, self._buffer.text]))
        self._buffer.cursor_position = len(self._buffer.text)

    def _print_blocks(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            lines = self._prose.lines(block.markdown)
            if lines and block.is_apart:
                self._blank()
            for line in lines:
                self._print(line)

    @property
    def _prose(self) -> Prose:
        columns = min(self.columns, _READABLE)
        if self._layout is None or self._layout.columns != columns:
            self._layout = Prose(columns, has_colour=self.has_colour)
        return self._layout

    def _blank(self) -> None:
        """A line without anything, unless the last one is."""
        if self._last:
            self._print("")

    def _print(self, line: str) -> None:
        """Text that is visible, with no colours but ours."""
        self._last = line
        self._above.append(line)
        if self._app.is_running:
            self._changed()
        else:
            self._flush_without_a_foot()

    def _flush_without_a_foot(self) -> None:
        """Before there is one, and when it is gone."""
        above, self._above = self._above, []
        self._app.output.write_raw("".join(f"{line}\r\n" for line in above))
        self._app.output.flush()

    # --- what is drawn ---------------------------------------------------------------------------------

    def doing(self, what: str) -> None:
        self._foot.doing(what)
        if what and self._spinning is None:
            self._spinning = asyncio.ensure_future(self._spin())
        self._changed()

    def running(self, every: Sequence[Running]) -> None:
        self._foot.running(every)
        self._changed()

    def queued(self, steering: Sequence[str], follow_ups: Sequence[str]) -> None:
        self._foot.queued(steering, follow_ups)
        self._changed()

    def _changed(self) -> None:
        if self._drawing is None and self._app.is_running:
            self._drawing = asyncio.get_running_loop().call_later(_PACE, self._draw)

    def _draw(self) -> None:
        self._drawing = None
        self._app.invalidate()

    async def _spin(self) -> None:
        while self._foot.is_busy:
            await asyncio.sleep(SPIN)
            self._changed()
        self._spinning = None

    def _before_drawing(self, app: Application[None]) -> None:
        """What is above the foot is printed where the foot was, which is then drawn below it. So is a foot
        that became smaller: it would keep its lines."""
        size = app.output.get_size()
        live = self._foot.lines(self._prose, size.columns - 1, size.rows - _BELOW)
        if self._above or len(live) < len(self._live):
            above, self._above = self._above, []
            app.renderer.erase(leave_alternate_screen=False)
            app.output.write_raw("".join(f"{line}\r\n" for line in above))
        self._live = live

    def _foot_text(self) -> StyleAndTextTuples:
        return to_formatted_text(ANSI("\n".join(self._live)))

    def _status_text(self) -> StyleAndTextTuples:
        facts = self._shell.facts if self._shell is not None else []
        text = fit(" · ".join(one_line(fact) for fact in facts if fact), self.columns - 1)
        return [("class:status", text)]

    # --- others on the same terminal --------------------------------------------------------------------

    async def aside(self, work: Callable[[], T]) -> T:
        with set_app(self._app):
            async with in_terminal():
                self._flush_without_a_foot()
                try:
                    return directly(work)
                finally:
                    self._take_what_was_typed()

    async def full_screen(self, show: Callable[[Input, Terminal], Awaitable[T]]) -> T:
        # It reads keys by itself: half of one, an Esc, could still be taken by the editor.
        keys = self._given or create_input()
        with set_app(self._app):
            async with in_terminal():
                self._shown = asyncio.ensure_future(show(keys, self._app.output))
                try:
                    found: T = await self._shown
                    return found
                finally:
                    self._shown = None

    async def choose(
        self, title: str, choices: Sequence[Choice], current: str = "", *, can_filter: bool = True
    ) -> str | None:
        from perdure.front.choosing import choose

        return await self.full_screen(
            lambda input, output: choose(
                title,
                choices,
                current=current,
                can_filter=can_filter,
                has_colour=self.has_colour,
                input=input,
                output=output,
            )
        )

    # --- the editor -------------------------------------------------------------------------------------

    async def talk(self, shell: Shell) -> None:
        self._shell = shell
        self._take_what_was_typed()
        try:
            await self._app.run_async(
                pre_run=self._leave_if_over, handle_sigint=False, set_exception_handler=False
            )
        except (EOFError, OSError):
            shell.leave(0)  # nobody is there any more
        finally:
            self._is_over = True
            if self._spinning is not None:
                self._spinning.cancel()

    def _take_what_was_typed(self) -> None:
        """While there was no editor. Where lines are read as such, Enter is no key but the end of a line."""
        if sys.platform == "win32" or self._shell is None:
            return
        import select

        typed, file, is_ended = self._out.take_unread(), self._app.input.fileno(), False
        with suppress(OSError, ValueError):
            while not is_ended and os.isatty(file) and select.select([file], [], [], 0)[0]:
                typed += (more := os.read(file, 65536))
                is_ended = not more  # by Ctrl+D
        *lines, begun = _KEYS.sub("", typed.decode("utf-8", "replace")).split("\n")
        for line in lines:
            if line.strip():
                self._shell.enter(line)
        if begun:
            self.edit(begun)
        elif is_ended:
            self._shell.leave(0)

    def leave(self) -> None:
        self._is_over = True
        if self._shown is not None:
            self._shown.cancel()
        if self._app.is_running and not self._app.is_done:
            self._app.exit()

    def _leave_if_over(self) -> None:
        """It may have ended before it was begun."""
        if self._is_over:
            self._app.exit()

    def _typed(self, buffer: Buffer) -> None:
        """Who types on does not mean to leave."""
        if self._shell is not None and buffer.text:
            self._shell.forgive()

    def _is_completed_while_typing(self) -> bool:
        text = self._buffer.document.text_before_cursor
        return text.startswith("/") or text.rpartition(" ")[2].rpartition("\n")[2].startswith("@")

    def _application(self, prompt: Callable[[], str], input: Input, output: Terminal) -> Application[None]:
        search = SearchToolbar()
        editor = Window(
            BufferControl(
                self._buffer,
                input_processors=[BeforeInput(prompt, style="class:prompt")],
                search_buffer_control=search.control,
                preview_search=True,
            ),
            wrap_lines=True,
            dont_extend_height=True,
            height=lambda: Dimension(min=1, max=max(3, self._app.output.get_size().rows // 2)),
            get_line_prefix=lambda line, wrapped: "" if not line and not wrapped else " " * len(prompt()),
        )
        foot = Window(FormattedTextControl(self._foot_text), dont_extend_height=True, always_hide_cursor=True)
        body = HSplit(
            [
                ConditionalContainer(foot, Condition(lambda: bool(self._live))),
                editor,
                search,
                ConditionalContainer(Window(height=_MENU), has_completions),
                Window(FormattedTextControl(self._status_text), height=1, dont_extend_height=True),
            ],
            align=VerticalAlign.TOP,
        )
        menu = Float(xcursor=True, ycursor=True, content=CompletionsMenu(max_height=_MENU, scroll_offset=1))
        output.enable_cpr = False  # type: ignore[attr-defined]  # what nobody reads would be typed into the next program
        app: Application[None] = Application(
            layout=Layout(FloatContainer(body, [menu]), focused_element=editor),
            key_bindings=self._keys(),
            style=Style.from_dict(_STYLE if self.has_colour else {}),
            color_depth=None if self.has_colour else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,
            input=input,
            output=output,
            include_default_pygments_style=False,
        )
        app.ttimeoutlen, app.timeoutlen = _QUICK, _PATIENT
        app.before_render += self._before_drawing
        return app

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        in_editor = has_focus(self._buffer)
        is_empty = Condition(lambda: not self._buffer.text)

        @keys.add("enter", filter=in_editor)
        def _(event: KeyPressEvent) -> None:
            self._enter(is_later=False)

        @keys.add("escape", "enter", filter=in_editor)
        def _(event: KeyPressEvent) -> None:
            if self._shell is not None and self._shell.is_busy:
                self._enter(is_later=True)
            else:
                self._buffer.insert_text("\n")

        @keys.add("c-j", filter=in_editor)
        def _(event: KeyPressEvent) -> None:
            self._buffer.insert_text("\n")

        @keys.add("escape", filter=in_editor)
        def _(event: KeyPressEvent) -> None:
            if self._buffer.complete_state:
                self._buffer.cancel_completion()
            elif self._shell is not None:
                self._shell.stop()

        @keys.add("c-c")
        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            if self._shell is None:
                return
            had_text = bool(self._buffer.text) and not self._shell.is_busy
            if had_text:
                self._buffer.append_to_history()  # from which it can be had back
                self._buffer.reset()
            self._shell.interrupt(is_answered=had_text)

        @keys.add("c-d", filter=in_editor & is_empty)
        def _(event: KeyPressEvent) -> None:
            if self._shell is not None:
                event.app.create_background_task(leave_on_purpose(self._shell))

        @keys.add("c-o")
        def _(event: KeyPressEvent) -> None:
            if self._shell is not None and "expand" in self._shell.commands:
                self._shell.enter("/expand")

        @keys.add("c-x", "c-e")
        def _(event: KeyPressEvent) -> None:
            self._buffer.open_in_editor()

        @keys.add("c-z")
        def _(event: KeyPressEvent) -> None:
            event.app.suspend_to_background()

        return keys

    def _enter(self, *, is_later: bool) -> None:
        text = self._buffer.text
        if text.endswith("\\") and self._buffer.document.is_cursor_at_the_end:
            self._buffer.delete_before_cursor()
            self._buffer.insert_text("\n")
            return
        if not text.strip():
            if self._shell is not None and (command := self._shell.profile.empty_line):
                self._shell.enter(command)
            return
        self._buffer.append_to_history()
        self._buffer.reset()
        if self._shell is not None:
            self._shell.enter(text, is_later=is_later)


_KEYS = re.compile(r"\x1b[\[O][0-9;?]*[A-Za-z~]|[\x00-\x08\x0b-\x1f\x7f]")
"""What a terminal sends for keys that are no text."""
_STYLE = {
    "prompt": "ansicyan bold",
    "status": "ansibrightblack",
    "completion-menu": "bg:default fg:default",
    "completion-menu.completion": "bg:default fg:default",
    "completion-menu.completion.current": "bg:default fg:default reverse",
    "completion-menu.meta.completion": "bg:default fg:default dim",
    "completion-menu.meta.completion.current": "bg:default fg:default reverse",
}
