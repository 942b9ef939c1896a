"""Keys and passwords in what a commit would bring: in every new or changed file, its name, and the message.

What HEAD has already is not asked about again: its user said yes to it, or committed it themselves. A secret
is known by itself, so one that was allowed stays so where it moves, and wherever it is said again.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from perdure.front.amounts import size
from perdure.front.output import Output, Styled
from perdure.front.secrets import valued, without_secrets
from perdure.front.visible import one_line
from perdure.programs.cortext.fresh import Fresh, fresh

_LARGEST = 2**26
"""Bytes of a file that are searched. What is larger is asked about unread."""
_MOST_SHOWN = 10


class Searched(NamedTuple):
    found: list[str]
    """What looks like a secret, each by its file and line. It is masked."""
    seen: frozenset[tuple[str, str]]
    """The paths, from the workspace, and the ids of the blobs that were looked through."""

    def is_wanted(self, out: Output, later: str = "; the next pause asks again") -> bool:
        """Whether these secrets shall get into the repository."""
        out.note(Styled("What is to be committed seems to hold secrets:", "yellow"))
        more = len(self.found) - _MOST_SHOWN
        for each in [*self.found[:_MOST_SHOWN], *([f"… and {more} more"] if more > 0 else [])]:
            out.note(Styled(f"  {one_line(each)}", "yellow"))
        if not out.can_ask:
            out.note(Styled("Saved, and not committed: nobody is here to be asked.", "yellow"))
            return False
        answer = bool(out.ask("Commit it as it is?"))
        if not answer:
            out.note(Styled(f"Saved, and not committed{later}.", "yellow"))
        return answer


def search(workspace: str, folder: str, message: str) -> Searched:
    """All that a commit of that folder, with that message, would bring."""
    found: list[_Secret] = []
    before: list[bytes] = []
    seen: dict[str, str] = {}
    for each in fresh(workspace, folder, _LARGEST):
        seen[each.path] = each.id
        before.append(each.before)
        name = without_secrets(os.path.relpath(each.path, folder))
        if each.data is None:
            found.append(_Secret("", f"{name}: not searched, as it is over {size(_LARGEST)} or not here"))
            continue
        for (line, value), secret in valued(_news(each)).items():
            found.append(_Secret(value, f"{name}, line {line}: {secret.kind} ({secret.shown})"))
    if seen:
        for where, lines in (("the commit's message", message.split("\n")), ("a file's name", seen)):
            for (_, value), secret in valued(enumerate(lines)).items():
                found.append(_Secret(value, f"{where}: {secret.kind} ({secret.shown})"))
    known = {value for data in (before if found else ()) for _, value in valued(enumerate(_text(data)))}
    news = dict.fromkeys(each.told for each in found if each.value not in known)
    return Searched([*news], frozenset(seen.items()))


class _Secret(NamedTuple):
    value: str
    told: str


def _news(file: Fresh) -> Iterator[tuple[int, str]]:
    """Its numbered lines; of one that only grew, the new ones."""
    assert file.data is not None
    is_grown = file.before.endswith(b"\n") and file.data.startswith(file.before)
    before = file.before if is_grown and not _encoding(file.data) else b""
    return enumerate(_text(file.data[len(before) :]), before.count(b"\n") + 1)


def _text(data: bytes) -> list[str]:
    encoding = _encoding(data)
    if not encoding and b"\0" in data:
        data = _WIDE.sub(lambda run: run[0].replace(b"\0", b""), data)
    return data.decode(encoding or "utf-8", "replace").split("\n")


def _encoding(data: bytes) -> str:
    """The one that its first bytes name."""
    return next((name for mark, name in _MARKS.items() if data.startswith(mark)), "")


_MARKS = {  # in this order: one begins like another
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# A few characters of ASCII in UTF-32 or UTF-16, of either order, anywhere in a file that names no encoding.
_WIDE = re.compile(
    rb"(?:\0{3}[\t-~]){8,}|(?:[\t-~]\0{3}){8,}|(?:\0[\t-~]){8,}|(?:[\t-~]\0){8,}",
)
