"""An entry among all branches as prompt_toolkit draws it: its line, and the first lines of what it says.

Nothing here is wider than it may be, and there is nothing in it that a terminal would obey.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from perdure.front import laid_out, render
from perdure.front.ages import ago, seconds
from perdure.front.amounts import counted, size
from perdure.front.branches import Row
from perdure.front.cells import Fragments, cut, fitted, padded, width_of
from perdure.front.render import Call, Command, Note, Part, Picture, Prose, Result, Thought
from perdure.front.visible import one_line, visible
from perdure.session.entry import Entry

_STYLES = {
    speaker: " ".join(word if word in ("bold", "dim") else f"ansi{word}" for word in style.split())
    for speaker, style in laid_out.SPEAKERS.items()
}
_SPEAKER = len("assistant")
_RESULT_LINES = 3
_WHEN = 30  # columns of text and marks from which on it is said when a branch was left
_MOST = 5000  # characters of a text of which a few lines are shown


def line(row: Row, columns: int) -> Fragments:
    """An entry on at most so many columns; its marks, where it has some, at their end."""
    speaker = cut(one_line(row.speaker[:_MOST]), max(_SPEAKER, columns // 6))
    start = [("dim", row.lead), (_STYLES.get(row.speaker, ""), padded(speaker, _SPEAKER)), ("", "  ")]
    room = columns - width_of(start)
    marks = _marks(row, room)
    space = room - width_of(marks)
    text = cut(one_line(row.text[:_MOST]), space)
    return fitted([*start, ("", padded(text, space) if marks else text), *marks], columns)


def chosen(line: Fragments, columns: int) -> Fragments:
    """A line over its whole width, to be told from all others also without colours."""
    return [("reverse", padded("".join(text for _, text in line), columns))]


def _marks(row: Row, room: int) -> Fragments:
    """What finds no space beside the text is left out, but for where a branch, or the conversation, ends."""
    label = cut(one_line(row.label[:_MOST]), max(room // 3, 8))
    left = f"left {ago(seconds(row.timestamp))}".strip() if room >= _WHEN else "left"
    marks = [
        ("dim", f"[{counted(row.tools, 'tool')}]" if row.tools else ""),
        ("ansiyellow", f"“{label}”" if label else ""),
        ("dim", f"({left})" if row.is_left else ""),
        ("bold ansigreen", "● here" if row.is_head else ""),
    ]
    found = [(style, f"  {text}") for style, text in marks if text]
    while len(found) > 1 and width_of(found) > room * 2 // 3:
        del found[0]
    return fitted(found, room)


def preview(
    entries: Sequence[Entry], labels: Mapping[str, str], columns: int, lines: int
) -> Iterator[Fragments]:
    """Who said it and how it begins, in at most so many lines. Behind the entry are the results that follow
    it in line."""
    said = render.turns(entries, labels)[0]
    speaker = cut(one_line(said.speaker[:_MOST]), max(_SPEAKER, columns // 3))
    label = f"“{said.label}”" if said.label else ""
    about = (said.detail, label, render.clock(said.timestamp, is_local=True), said.id)
    facts = "  ".join(one_line(fact[:_MOST]) for fact in about if fact)
    yield fitted([(_STYLES.get(said.speaker, ""), speaker), ("dim", f"  {facts}")], columns)
    told = (shown for part in said.parts for shown in _part(part, columns))
    yield from ([(style, text)] for style, text in islice(told, max(lines - 1, 0)))


def _part(part: Part, columns: int) -> Iterator[tuple[str, str]]:
    style = text = ""
    match part:
        case Prose(text=text):
            pass
        case Thought(text=text):
            style, text = "dim", f"(thinking) {text[:_MOST]}"
        case Picture(media_type=media_type):
            style, text = "dim", f"[{media_type}, {size(part.size)}]"
        case Command(command=command, output=output):
            yield from _wrapped("ansiyellow", f"$ {command[:_MOST]}", columns)
            text = output
        case Note(text=text, is_error=is_error):
            style = "ansired" if is_error else "dim"
        case Result(text=text, is_error=is_error):
            style = "ansired" if is_error else "dim"
        case Call(name=name, arguments=arguments, result=result):
            yield from _wrapped("ansiyellow", f"▸ {name}  {render.glance(arguments)}", columns)
            told = islice(_part(result, columns - 2) if result else (), _RESULT_LINES)
            yield from ((style, f"  {line}") for style, line in told)
    yield from _wrapped(style, text, columns)


def _wrapped(style: str, text: str, columns: int) -> Iterator[tuple[str, str]]:
    """In lines that fit; between words where there are some."""
    for line in render.lines(visible(text[:_MOST])):
        rest = line.replace("\t", "    ")
        while (start := cut(rest, columns)) != rest and (start := start.removesuffix("…")):
            end = start.rfind(" ") + 1 if rest[len(start)] != " " else len(start)
            end = end if rest[:end].strip() else len(start)
            yield style, rest[:end].rstrip()
            rest = rest[end:].lstrip(" ")
        yield style, start
