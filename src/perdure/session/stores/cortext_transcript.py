"""`<type>.md`: a conversation as a person reads it, and writes into it.

    # API design

    <!-- 5f0c1b9a7e42 -->
    ## User

    REST or GraphQL?

What is in the file is never changed, only added to. Every message stands behind a mark with its entry's id,
which Markdown does not show, so that what an interrupted append left out is added by the next one, once. How
a message is rendered follows from its entry alone: a block that was torn is known by its beginning, and gets
the rest of its bytes. What people type between, before and behind the blocks stays as it is; a file without
any mark is theirs, and gets only what is new.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from io import FileIO

from perdure.errors import NotSaved
from perdure.session import ids
from perdure.session.entry import (
    Assistant,
    BashExecution,
    CustomRole,
    Entry,
    Image,
    Message,
    Text,
    ToolCall,
    ToolResult,
)
from perdure.session.record import dumps, members
from perdure.session.stores import files, lines

_MARK = re.compile(rb"<!-- ([A-Za-z0-9][A-Za-z0-9._-]*) -->\r?")
_LIKE_A_MARK = re.compile(r"^<!-- (?=[A-Za-z0-9._-]+ -->$)", re.MULTILINE)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)")
_MOST_LINES, _MOST_CHARACTERS = 20, 1000  # of what a tool answered
_MOST_OF_A_CALL = 200


Back = Callable[[], Generator[Entry, None, None]]
"""All entries there are, newest first."""


class Transcript:
    def __init__(self, root: str, relative: str, *, private: bool) -> None:
        self.path = os.path.join(root, relative)
        self._root = root
        self.relative = relative
        self._private = private
        self._left: tuple[int, int] | None = None
        """The file as this object left it, with all there was to show in it."""

    def show(self, fresh: Sequence[Entry], newer: Sequence[Entry], back: Back, title: str) -> None:
        """Add `fresh`, the entries just saved, and before them what is not there of those saved earlier.

        `newer` are the entries of which it is not certain that they are here, `fresh` among them.
        """
        fresh, newer = [*filter(is_shown, fresh)], [*filter(is_shown, newer)]
        if newer:
            self._bring_up_to_date(fresh, newer, back, title)

    def complete(self, back: Back, title: str) -> None:
        """Add what an interrupted append, or a power cut, left out of it."""
        self._bring_up_to_date((), (), back, title)

    def _bring_up_to_date(
        self, fresh: Sequence[Entry], newer: Sequence[Entry], back: Back, title: str
    ) -> None:
        before, self._left = self._left, None
        with files.told(NotSaved, self.path), self._opened() as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise NotSaved(self.path, "not a regular file")
            if before == (status.st_ino, status.st_size) and len(fresh) == len(newer):
                text = blocks(fresh)
            else:
                text = _lacking(file.fileno(), status.st_size, fresh, newer, back, title)
            if text:
                files.write_all(file.fileno(), text)
            self._left = status.st_ino, status.st_size + len(text)

    def _opened(self) -> FileIO:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK
        return files.open_beneath(self._root, self.relative, flags, private=self._private)


def transcript(title: str, entries: Iterable[Entry]) -> bytes:
    """A new one, with all there is to show."""
    return heading(title) + blocks(_shown_once(entries))


def _lacking(
    file: int,
    size: int,
    fresh: Sequence[Entry],
    newer: Sequence[Entry],
    back: Back,
    title: str,
) -> bytes:
    """What is to be added to a file that somebody else, or an interrupted append, left like this."""
    last = next(_marks_back(file, size), None)
    if last is None:
        there, everything = files.read_all(file, size), [*back()][::-1]
        for whole in (transcript(title, everything), _first_line(there) + blocks(_shown_once(everything))):
            if whole.startswith(there):
                return whole[len(there) :]
        return _behind(file, size, newer)
    offset, id = last
    later: list[Entry] = []
    with closing(back()) as newest_first:
        for entry in filter(is_shown, newest_first):
            if mark(entry) == id:
                later = _without(later[::-1], fresh, file, size)
                there = os.pread(file, size - offset, offset)
                whole = block(entry).removeprefix(b"\n") + blocks(later)
                return whole[len(there) :] if whole.startswith(there) else _behind(file, size, later)
            later.append(entry)
    shown = {id for _, id in _marks_back(file, size)}
    places = [place for place, entry in enumerate(later) if mark(entry) in shown]
    return _behind(file, size, later[: places[0]][::-1] if places else newer)


def _behind(file: int, size: int, entries: Sequence[Entry]) -> bytes:
    """Entries, and before them a line feed, where the last line of the file has none."""
    seal = b"" if size == 0 or os.pread(file, 1, size - 1) == b"\n" else b"\n"
    return seal + blocks(entries) if entries else b""


def _without(later: list[Entry], fresh: Sequence[Entry], file: int, size: int) -> list[Entry]:
    """Those that are not in the file; of entries just saved that is known without a look."""
    later = _shown_once(later)
    if len(later) > len(fresh):
        shown = {id for _, id in _marks_back(file, size)}
        later = [entry for entry in later if mark(entry) not in shown]
    return later


def _shown_once(entries: Iterable[Entry]) -> list[Entry]:
    return list({mark(entry): entry for entry in entries if is_shown(entry)}.values())


def _first_line(text: bytes) -> bytes:
    line, newline, _ = text.partition(b"\n")
    return line + newline if line.startswith(b"# ") else b""


def _marks_back(file: int, size: int) -> Iterator[tuple[int, str]]:
    for offset, data in lines.backward(file, size):
        if data is not None and (match := _MARK.fullmatch(data)):
            yield offset, match[1].decode()


# --- one message --------------------------------------------------------------------------------


def is_shown(entry: Entry) -> bool:
    """Messages, but for prompts and those that say themselves that they do not belong here."""
    if entry.type != "message" or entry.role == "system":
        return False
    match entry.body if entry.role == "custom" else None:
        case Message(message=CustomRole(display=False)):
            return False
    return b'"transcript"' not in entry.raw or members(entry.raw).get("transcript") != b"false"


def mark(entry: Entry) -> str:
    return ids.file_name(entry.id)


def heading(title: str) -> bytes:
    return _encoded(f"# {_one_line(title) or 'Untitled'}\n")


def blocks(entries: Iterable[Entry]) -> bytes:
    return b"".join(map(block, entries))


def block(entry: Entry) -> bytes:
    """A message as it stands in the file: a blank line, its mark, who said it, and what."""
    who, said = _rendered(entry)
    said = f"\n{said}\n" if said else ""
    return _encoded(f"\n<!-- {mark(entry)} -->\n## {_one_line(who)}\n{said}")


def _rendered(entry: Entry) -> tuple[str, str]:
    match entry.body:
        case Message(message=Assistant(content=list() as content)):
            return "Assistant", "\n\n".join(filter(None, map(_part, content))) or "*(no answer)*"
        case Message(message=ToolResult(tool_name=name)):
            return f"Tool: {name}", _fenced(_short(_clean(entry.text)))
        case Message(message=BashExecution(command=command, output=output)):
            return "Command", _fenced(_short(_clean(f"$ {command}\n{output}")))
        case Message(message=CustomRole(custom_type=kind)):
            return kind, _closed(_clean(entry.text))
        case _:
            return entry.role.capitalize() or "Message", _closed(_clean(entry.text))


def _part(part: object) -> str:
    match part:
        case Text(text=text):
            return _closed(_clean(text))
        case ToolCall(name=name, arguments=arguments):
            given = _one_line(dumps(arguments).decode("utf-8", "replace"))
            given = given if len(given) <= _MOST_OF_A_CALL else given[: _MOST_OF_A_CALL - 1] + "…"
            tick = "`" * (_longest_run(given) + 1)
            return f"*{_one_line(name)}* {tick} {given} {tick}"
        case Image():
            return "*(an image)*"
        case _:
            return ""


def _clean(text: str) -> str:
    """Without what a terminal would obey, and without lines that would be taken for marks."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _LIKE_A_MARK.sub(" <!-- ", _CONTROLS.sub("", text)).strip("\n")


def _closed(text: str) -> str:
    """With an end to a code block that has none: what follows is not part of it."""
    fence = ""
    for line in text.split("\n"):
        if match := _FENCE.fullmatch(line):
            run, rest = match.groups()
            if not fence:
                fence = run
            elif run.startswith(fence) and not rest.strip():
                fence = ""
    return f"{text}\n{fence}" if fence else text


def _fenced(text: str) -> str:
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}\n{text}\n{fence}"


def _short(text: str) -> str:
    cut = "\n".join(text[:_MOST_CHARACTERS].split("\n")[:_MOST_LINES])
    return cut if len(cut) == len(text) else f"{cut}\n… ({len(text) - len(cut)} more characters)"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _one_line(text: str) -> str:
    return _CONTROLS.sub("", " ".join(text.split()))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")
