"""What a conversation is shown on: a terminal that is drawn on, or plain lines. The shell knows no more of it
than this, and says the same to both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from perdure.errors import PerdureError
from perdure.front.output import Styled

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output as Screen

    from perdure.front.choosing import Choice

T = TypeVar("T")
Line = Sequence[str | Styled]


class Running(NamedTuple):
    """A tool, or a command of the user's, that has not ended yet."""

    what: str
    since: float
    """By the monotonic clock."""
    printed: str = ""
    """The end of what it printed so far."""


class Face(Protocol):
    is_drawn: bool
    """Whether it is a terminal that can be drawn on, and somebody is there to choose."""
    is_terminal: bool
    """Whether somebody sees what is shown, also where it cannot be drawn on."""
    has_colour: bool
    shows_drafts: bool
    """Whether an answer is shown while it arrives. Else it is shown when it has ended, and an attempt that
    broke off and is made again is not shown."""

    @property
    def columns(self) -> int:
        """How many fit on a line; 0 where lines have no end."""

    def line(self, *parts: str | Styled) -> None:
        """One line of the conversation. It stays."""

    def note(self, *parts: str | Styled) -> None:
        """One line about it."""

    def failed(self, error: PerdureError) -> None:
        """What went wrong, and what to do about it."""

    def said(self, text: str) -> None:
        """The user's words, which are saved."""

    def answer(self, delta: str) -> None:
        """More of an answer, in Markdown."""

    def think(self, delta: str) -> None:
        """More of what a model thinks before it answers."""

    def end_of_answer(self) -> None:
        """What was added so far is all of it."""

    def doing(self, what: str) -> None:
        """What is going on; empty when nothing is."""

    def running(self, every: Sequence[Running]) -> None:
        """What has been started and has not ended."""

    def queued(self, steering: Sequence[str], follow_ups: Sequence[str]) -> None:
        """What was typed meanwhile, and is said later."""

    def echo(self, text: str) -> None:
        """A command that was typed, above what it shows."""

    def edit(self, text: str) -> None:
        """Text that its user may want to change and to send again."""

    async def aside(self, work: Callable[[], T]) -> T:
        """Something that reads and writes the terminal itself, line by line; `Interrupted` by Ctrl+C."""

    async def full_screen(self, show: Callable[[Input, Screen], Awaitable[T]]) -> T:
        """Something that has the whole screen to itself. Only where it is drawn on."""

    async def choose(
        self, title: str, choices: Sequence[Choice], current: str = "", *, can_filter: bool = True
    ) -> str | None:
        """One of these; None if its user wants none. Only where it is drawn on."""

    async def talk(self, shell: Any) -> None:
        """Hand to the shell what its user types, until they leave."""

    def leave(self) -> None:
        """End `talk`."""
