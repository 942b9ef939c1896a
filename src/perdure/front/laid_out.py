"""Markdown as the lines of a terminal.

Nothing that was written is lost to the layout: a text of which so few columns cannot show all stands as it
was written. What comes out is made visible once more, so that nothing but our own colours is left to it.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from perdure.front import markdown, render
from perdure.front.visible import visible

if TYPE_CHECKING:
    from markdown_it.token import Token
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.segment import Segment


class Layout:
    """For a terminal of so many columns, with colours or without."""

    def __init__(self, columns: int, *, has_colour: bool) -> None:
        self.columns = columns
        self.has_colour = has_colour

    def lines(self, text: str) -> list[str]:
        """The text laid out."""
        if not is_marked(text):
            return self.wrapped(text)
        found = markdown.tokens(text)
        lines = _laid_out(found, self._console, self.columns) if found else None
        return render.lines(visible(text)) if lines is None else lines

    def wrapped(self, text: str) -> list[str]:
        """What is not marked up, in lines that fit."""
        lines = (
            _Wrapper(self.columns, break_on_hyphens=False).wrap(visible(line)) or [""]
            for line in render.lines(text)
        )
        return [part for line in lines for part in line]

    @cached_property
    def _console(self) -> Console:
        from io import StringIO

        from rich.console import Console
        from rich.theme import Theme

        return Console(
            file=StringIO(),
            force_terminal=True,
            color_system="standard" if self.has_colour else None,
            theme=Theme(_THEME),
            emoji=False,
            markup=False,
            highlight=False,
        )


class _Wrapper(textwrap.TextWrapper):
    """Takes a word apart that is longer than a line all at once, and not anew for each of its lines."""

    def _handle_long_word(
        self, reversed_chunks: list[str], cur_line: list[str], cur_len: int, width: int
    ) -> None:
        super()._handle_long_word(reversed_chunks, cur_line, cur_len, width)
        rest = reversed_chunks[-1]
        if not rest.isspace():  # blanks at the beginning of a line are left out as one
            reversed_chunks[-1:] = reversed([rest[at : at + width] for at in range(0, len(rest), width)])


def is_marked(text: str) -> bool:
    """Whether it may be Markdown; also if it is not certain how many columns it takes."""
    return not text.isascii() or _MARKED.search(text) is not None


def styled(text: str, style: str) -> str:
    """In the colours that rich calls so."""
    if not style or not text:
        return text
    from rich.color import ColorSystem
    from rich.style import Style

    return Style.parse(style).render(text, color_system=ColorSystem.STANDARD)


SPEAKERS = {
    "user": "bold cyan",
    "assistant": "bold green",
    "tool": "bold yellow",
    "bash": "bold yellow",
    "note": "dim",
}
_THEME = {
    "markdown.code": "cyan",
    "markdown.code_block": "",
    "markdown.h1": "bold underline",
    "markdown.h2": "bold",
    "markdown.h3": "bold",
    "markdown.h4": "bold",
    "markdown.h5": "bold",
    "markdown.h6": "bold",
    "markdown.block_quote": "dim",
    "markdown.link": "underline",
    "markdown.link_url": "dim",
    "markdown.table.header": "bold",
    "markdown.table.border": "dim",
}
_MARKED = re.compile(r"[`*_#>|\[\]<~\\&]|^ {4}|\t|^[^\S\n]*(?:[-+=]|\d+[.)])", re.MULTILINE)
"""What may be Markdown."""


def _laid_out(found: Sequence[Token], console: Console, columns: int) -> list[str] | None:
    """Markdown as the lines of a terminal; None if so few columns cannot show all of it. What comes out of
    the layout is made visible once more: nothing but our own colours is left to it."""
    from rich.segment import Segment

    layout = _layout()
    layout.parsed = list(found)
    said = Counter(character for token in found for character in _said(token) if character.isalnum())
    for token in found:
        token.children = list(_links_spelled_out(token.children or [])) or token.children
    lines: list[str] = []
    for line in Segment.split_lines(console.render(layout, console.options.update(width=columns))):
        shown = [Segment(visible(part.text), part.style) for part in line if not part.control]
        said.subtract(character for part in shown for character in part.text if character.isalnum())
        while shown and not shown[-1].text.strip():
            shown.pop()
        if shown:
            shown[-1] = Segment(shown[-1].text.rstrip(), shown[-1].style)
        if shown or (lines and lines[-1]):  # no two blank lines in a row
            lines.append("".join(_painted(part, console) for part in shown))
    is_whole = all(count <= 0 for count in said.values())
    return (lines if not lines or lines[-1] else lines[:-1]) if is_whole else None


def _painted(part: Segment, console: Console) -> str:
    from rich.color import ColorSystem

    if part.style is None or console.color_system is None:
        return part.text
    return part.style.render(part.text, color_system=ColorSystem.STANDARD)


def _said(token: Token) -> str:
    if token.type == "fence":
        return token.content + token.info.partition(" ")[2]  # its language is not what is said
    return token.content if token.children is None else "".join(map(_said, token.children))


def _links_spelled_out(children: Sequence[Token]) -> Iterator[Token]:
    """A link that is called what it leads to is said once, and a title is said too."""
    from markdown_it.token import Token

    title = ""
    for at, child in enumerate(children):
        if child.type == "link_open":
            title = str(child.attrs.get("title", ""))
            text, end = children[at + 1], children[min(at + 2, len(children) - 1)]
            if end.type == "link_close" and child.attrs["href"] == text.content:
                child.type = end.type = "text"
                child.content = end.content = ""
        elif child.type == "link_close" and title:
            yield Token("text", "", 0, content=visible(f" “{title}”"))
            title = ""
        yield child


@cache
def _layout() -> Markdown:
    """One for all: making it makes a parser, which takes longer than most texts."""
    from rich.markdown import Heading, ListItem, Markdown

    class Plain(Heading):
        """At the left, as all else."""

        def __rich_console__(self, console: Console, options: Any) -> Iterator[Any]:
            self.text.justify = "left"
            yield self.text

    class Numbered(ListItem):
        """With the number that was written."""

        number = 0

        @classmethod
        def create(cls, markdown: Markdown, token: Token) -> ListItem:
            item = cls()
            item.number = int(token.info or 0)
            return item

        def render_number(self, console: Console, options: Any, number: int, last_number: int) -> Any:
            return super().render_number(console, options, self.number, max(self.number, last_number))

    class Layout(Markdown):
        elements = {**Markdown.elements, "heading_open": Plain, "list_item_open": Numbered}  # noqa: RUF012

    return Layout("", code_theme="ansi_dark", hyperlinks=False)
