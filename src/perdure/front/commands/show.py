"""`show`: a conversation to read, a drawing of all its branches, or one entry whole.

At a terminal answers are laid out and what tools printed is cut to a few lines, with a count of what is left
out. Through a pipe it is all there, as it was written. In both, what was said is indented and headings are
not, so that no message can pass for another one's heading.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from perdure.config import as_typed
from perdure.errors import UsageError
from perdure.front import laid_out, render
from perdure.front.ages import ago, seconds
from perdure.front.amounts import counted, size
from perdure.front.branches import Row, rows
from perdure.front.output import Output, Styled
from perdure.front.render import Call, Command, Note, Picture, Prose, Result, Thought, Turn
from perdure.front.visible import fit, one_line, pad, visible, width
from perdure.session import ids, reference, tree
from perdure.session.entry import Entry
from perdure.session.session import Session

_RESULT_LINES = 5
_THOUGHT_LINES = 3
_READABLE = 100  # columns of prose, however wide the terminal is
_MOST_PROSE = 500_000  # characters that are laid out; beyond that it takes seconds
_INDENT = "  "
_SHORTEST_ID = 8


def show(options: SimpleNamespace, out: Output) -> int:
    if options.tree and options.entry:
        raise UsageError("--tree shows all entries and --entry one", "give one of them")
    session = Session.view(*reference.find(options.id))
    if options.entry:
        known = {entry.id: entry for entry in session.entries}
        chosen = known[ids.resolve(options.entry, known, "Entry")]
        if out.json:
            on_path = {entry.id for entry in session.path()}
            out.data(render.entry_data(chosen, is_on_path=chosen.id in on_path))
        else:
            out.page("\n".join(_Face(out, session, is_whole=True).entry(chosen)).lstrip("\n"))
    elif out.json:
        out.data(render.data(session))
    else:
        face = _Face(out, session, is_whole=not out.is_terminal)
        out.page("\n".join(face.tree() if options.tree else face.conversation()))
    if problem := render.summary_of(session).problem:
        doctor = f"{out.program} sessions doctor {shlex.quote(reference.name_of(session.store, session.ref))}"
        out.note(Styled("Damaged: ", "yellow"), problem)
        out.note(f"What can be read is shown. `{doctor}` says more.")
    return 0


def draw(session: Session, out: Output) -> None:
    """All its branches."""
    out.page("\n".join(_Face(out, session, is_whole=not out.is_terminal).tree()))


class _Face:
    """Lines for one reader: a terminal of some width, or a pipe."""

    def __init__(self, out: Output, session: Session, *, is_whole: bool) -> None:
        self._session = session
        self._is_terminal = out.is_terminal
        self._has_colour = out.colour
        self._columns = max(out.columns, 20)
        self._is_whole = is_whole
        """Whether nothing is cut."""
        self._id_length = _unique_length([entry.id for entry in session.entries])
        self._has_layout = out.is_terminal
        columns = min(self._columns, _READABLE) - len(_INDENT)
        self._layout = laid_out.Layout(columns, has_colour=out.colour)

    # --- the conversation -----------------------------------------------------------------------------

    def conversation(self) -> Iterator[str]:
        path = self._session.path()
        turns = render.turns(path, self._session.labels)
        said = sum(len(part.text) for turn in turns for part in turn.parts if isinstance(part, Prose))
        self._has_layout = self._is_terminal and said <= _MOST_PROSE
        yield from self._about(path)
        if not turns:
            yield from ("", self._styled("Nothing was said yet.", "dim"))
        before = None
        for turn in turns:
            yield from self._turn(turn, before)
            before = turn

    def entry(self, entry: Entry) -> Iterator[str]:
        turn = render.turn(entry, self._session.labels)
        if any(isinstance(part, Call) for part in turn.parts):
            (turn, *_) = render.turns(_with_results(entry, self._session.entries), self._session.labels)
        yield from self._turn(turn)
        if all(isinstance(part, Note) for part in turn.parts):  # nothing of it was shown yet
            yield from self._indented(
                render.as_json(render.entry_data(entry, is_on_path=True)["record"]), "dim"
            )

    def _about(self, shown: Sequence[Entry]) -> Iterator[str]:
        about = render.summary_of(self._session)
        name = reference.name_of(self._session.store, self._session.ref)
        place = as_typed(about.cwd) if self._is_terminal else about.cwd
        count = sum(entry.type == "message" for entry in shown)
        messages = about.messages or 0
        said = f"{count:,} of " if count < messages else ""
        others = render.other_branches(self._session, shown)
        branches = "1 other branch" if others == 1 else f"{others:,} other branches"
        facts = [name, f"{said}{counted(messages, 'message')}", f"{branches}: --tree" if others else ""]
        facts += [place, render.status(self._session, about)]
        yield self._styled(self._fitted(about.title or name), "bold")
        yield self._styled(self._fitted(" · ".join(one_line(fact) for fact in facts if fact)), "dim")

    def _turn(self, turn: Turn, before: Turn | None = None) -> Iterator[str]:
        """A turn that goes on with another call has no heading; its id stands at the call's end."""
        is_more = before and (turn.speaker, turn.detail, turn.label) == (before.speaker, before.detail, "")
        parts = turn.parts
        if is_more and parts and isinstance(parts[0], Call):
            yield from self._call(parts[0], turn.id)
            parts = parts[1:]
        else:
            yield ""
            yield self._heading(turn)
        thought = False
        for part in parts if turn.speaker != "note" else ():
            if thought and isinstance(part, Prose):
                yield ""
            yield from self._part(part)
            thought = isinstance(part, Thought)

    def _heading(self, turn: Turn) -> str:
        label = f"“{turn.label}”" if turn.label else ""
        notes = [part.text for part in turn.parts if isinstance(part, Note)]
        detail = " ".join(notes) if turn.speaker == "note" else turn.detail
        about = "  ".join(one_line(word) for word in (detail, label) if word)
        speaker = one_line(turn.speaker)
        style = laid_out.SPEAKERS.get(speaker, "bold")
        if not self._is_terminal:
            when = render.clock(turn.timestamp, is_local=True)
            return "  ".join(one_line(word) for word in (speaker, about, when, turn.id) if word)
        end = f"{ago(seconds(turn.timestamp))}  {self._short(turn.id)}".strip()
        speaker = fit(speaker, self._columns - width(end) - 2)
        about = pad(f"  {about}", self._columns - width(speaker) - width(end) - 2)
        return f"{self._styled(speaker, style)}{self._styled(f'{about}  {end}', 'dim')}"

    def _part(self, part: render.Part) -> Iterator[str]:
        match part:
            case Prose(text=text):
                yield from (f"{_INDENT}{line}".rstrip() for line in self._prose(text))
            case Thought(text=text):
                shown = text or "(its provider keeps it to itself)"
                yield from self._hanging(f"(thinking) {shown}", "dim", most=_THOUGHT_LINES)
            case Picture():
                yield from self._indented(_described(part), "dim")
            case Call():
                yield from self._call(part)
            case Result():
                yield from self._result(part)
            case Command(command=command, output=output, outcome=outcome):
                yield from self._hanging(f"$ {command}", "yellow")
                yield from self._indented(output, most=_RESULT_LINES)
                yield from self._indented(f"({outcome})" if outcome else "", "red")
            case Note(text=text, is_error=is_error):
                yield from self._indented(f"({text})", "red" if is_error else "dim")

    def _call(self, call: Call, id: str = "") -> Iterator[str]:
        result = call.result
        state = "no result" if result is None else "error" if result.is_error else ""
        end = "  ".join(filter(None, (state, self._short(id))))
        start, glance = f"{_INDENT}▸ {one_line(call.name)}", one_line(render.glance(call.arguments))
        if self._is_terminal:
            start = fit(start, self._columns - width(end) - 2)
            glance = (pad if id else fit)(glance, max(0, self._columns - width(start) - width(end) - 4))
        end = self._styled(end, "red" if state else "dim")
        yield f"{self._styled(start, 'yellow')}  {glance}  {end}".rstrip()
        yield from self._arguments(call.arguments)
        yield from self._result(result) if result else ()

    def _arguments(self, arguments: Any) -> Iterator[str]:
        """What the line of the call does not show already; nothing, where there is little space."""
        fields = render.fields(arguments)
        if not self._is_whole or (len(fields) == 1 and not fields[0].is_long):
            return
        for field in fields:
            name = f"{one_line(field.name)}: " if field.name else ""
            yield from self._hanging(f"{name}{field.text}", "dim", steps=2)

    def _result(self, result: Result) -> Iterator[str]:
        label = f"“{result.label}” " if result.label else ""
        text = "\n".join(filter(None, [label, result.text, *map(_described, result.pictures)]))
        yield from self._indented(text, "red" if result.is_error else "dim", most=_RESULT_LINES, steps=2)

    def _hanging(self, text: str, style: str, *, most: int = 0, steps: int = 1) -> Iterator[str]:
        """A text whose further lines are indented further, so that one sees where it ends."""
        return self._indented(text.rstrip("\n").replace("\n", f"\n{_INDENT}"), style, most=most, steps=steps)

    def _indented(self, text: str, style: str = "", *, most: int = 0, steps: int = 1) -> Iterator[str]:
        """A text as it is, or, where it is to be cut, so many lines of it."""
        lines = render.lines(visible(text))
        shown = lines if self._is_whole or not most or len(lines) == most + 1 else lines[:most]
        for line in shown:
            line = f"{_INDENT * steps}{line}"
            yield self._styled(line if self._is_whole else self._fitted(line), style) if line.strip() else ""
        if len(shown) < len(lines):
            left = f"… {counted(len(lines) - len(shown), 'more line')}"
            yield self._styled(f"{_INDENT * steps}{left}", "dim")

    # --- all branches ---------------------------------------------------------------------------------

    def tree(self) -> Iterator[str]:
        session = self._session
        yield from self._about(session.entries)
        yield ""
        for row in rows(session.entries, session.head, session.labels, deepest=self._columns // 8):
            yield self._row(row)

    def _row(self, row: Row) -> str:
        stamp = row.timestamp
        when = ago(seconds(stamp)) if self._is_terminal else render.clock(stamp, is_local=True)
        marks = (
            f"[{counted(row.tools, 'tool')}]" if row.tools else "",
            f"“{one_line(row.label)}”" if row.label else "",
            f"({one_line(f'left {when}').strip()})" if row.is_left else "",
            "● here" if row.is_head else "",
        )
        end = "  ".join(filter(None, marks))
        id, speaker, text = self._short(row.id), f"{one_line(row.speaker):9}", one_line(row.text)
        if self._is_terminal:
            id = fit(id, self._columns // 2)
            taken = width(id) + 2 + len(row.lead) + width(speaker) + 2 + (width(end) + 2 if end else 0)
            text = fit(text, max(0, self._columns - taken))
        end = f"  {self._styled(end, 'green' if row.is_head else 'dim')}" if end else ""
        start = self._styled(f"{id}  {row.lead}", "dim")
        return f"{start}{self._styled(speaker, laid_out.SPEAKERS.get(row.speaker, ''))}  {text}{end}".rstrip()

    # --- text -----------------------------------------------------------------------------------------

    def _short(self, id: str) -> str:
        """As much of an entry's id as names it; at a pipe all of it."""
        return one_line(id[: self._id_length] if self._is_terminal else id)

    def _fitted(self, text: str) -> str:
        return fit(text, self._columns) if self._is_terminal else one_line(text)

    def _styled(self, text: str, style: str) -> str:
        return laid_out.styled(text, style) if self._has_colour else text

    def _prose(self, text: str) -> list[str]:
        if self._is_terminal and (self._has_layout or not laid_out.is_marked(text)):
            return self._layout.lines(text)
        return render.lines(visible(text))


def _with_results(entry: Entry, entries: Sequence[Entry]) -> list[Entry]:
    """An entry and the results that follow it in line."""
    found = [entry]
    below = tree.children(entries)
    while results := [each for each in below.get(found[-1].id, []) if each.role == "toolResult"]:
        found.append(results[0])
    return found


def _described(picture: Picture) -> str:
    return f"[{picture.media_type}, {size(picture.size)}]"


def _unique_length(every: Sequence[str]) -> int:
    """How much of an id tells it from all others."""
    in_order = sorted(every)
    longest = _SHORTEST_ID
    for one, other in pairwise(in_order):
        while one[:longest] == other[:longest] and longest < len(other):
            longest += 1
    return longest
