"""What was decided: as a session records it, as an answer marks it, and which are the same.

An answer marks a decision with `[DECISION: text]`. It is somebody else's text, so whatever it is, it is read
once, from its beginning to its end.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from perdure.front import visible
from perdure.session import ids
from perdure.session.entry import Custom, Entry
from perdure.session.stores.soleur_format import DECISION

MANUAL, AUTO = "Manual", "AutoDetected"
"""Where a decision comes from: its user, or an answer."""
LONGEST = 1000
"""Characters of a decision in an answer. What is longer is a bracket that somebody forgot to close."""

_AUTORECORD = "perdure.autorecord"
_FILED = "perdure.filed"
UNDECIDED = "perdure.undecided"
_AROUND = [
    *((mark, mark) for mark in ("**", "__", "*", "_", "`", '"', "'")),
    *(("\u2018", "\u2019"), ("\u201c", "\u201d"), ("\u00ab", "\u00bb")),
]
"""What stresses or quotes all of a text, from both sides."""
_FINAL = " .,;:!?\u2026\u3002\uff01\uff1f"


class Decision(NamedTuple):
    content: str
    timestamp: str
    """RFC 3339, in UTC."""
    session_id: str
    tags: tuple[str, ...] = ()
    source: str = MANUAL

    @classmethod
    def of(cls, entry: Entry) -> Decision | None:
        """The decision that an entry records. Other programs write some too, not all of them whole."""
        if entry.type != "custom" or DECISION.encode() not in entry.line:
            return None
        match entry.body:
            case Custom(custom_type=kind, data={"content": str(content), **data}) if kind == DECISION:
                tags = data.get("tags")
                made = cls(
                    content,
                    _utc(data.get("timestamp")) or _utc(entry.timestamp),
                    session if isinstance(session := data.get("session_id"), str) else "",
                    tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
                    AUTO if str(data.get("source")).lower().startswith("auto") else MANUAL,
                )
                return made if content.strip() else None
        return None

    @property
    def body(self) -> Custom:
        return Custom(DECISION, {**self._asdict(), "tags": [*self.tags]})


def decided(entries: Iterable[Entry]) -> list[Decision]:
    return [decision for entry in entries if (decision := Decision.of(entry))]


def filed(count: int) -> Custom:
    """So many decisions of a session, from the first on, have come into the ledger. What its user does with
    them there is not undone."""
    return Custom(_FILED, {"count": count})


def unfiled(entries: Iterable[Entry]) -> list[Decision]:
    """Those that have not."""
    found: list[Decision] = []
    count = 0
    for entry in entries:
        if decision := Decision.of(entry):
            found.append(decision)
        elif entry.type == "custom" and _FILED.encode() in entry.line:
            match entry.body:
                case Custom(custom_type=kind, data={"count": int(number)}) if kind == _FILED:
                    count = max(count, number)
    return found[count:]


# --- what was withdrawn -----------------------------------------------------------------------------------


def undecided(content: str) -> Custom:
    """A decision of this text, whichever session made it, is withdrawn."""
    return Custom(UNDECIDED, {"content": content, "timestamp": ids.stamp(ids.now())})


def withdrawals(entries: Iterable[Entry]) -> dict[str, str]:
    """When decisions were withdrawn last, by their likeness."""
    found: dict[str, str] = {}
    for entry in entries:
        if entry.type == "custom" and UNDECIDED.encode() in entry.line:
            match entry.body:
                case Custom(custom_type=kind, data={"content": str(content), **data}) if kind == UNDECIDED:
                    when = _utc(data.get("timestamp")) or _utc(entry.timestamp)
                    found[likeness(content)] = max(when, found.get(likeness(content), ""))
    return found


def withdrawn_at(decision: Decision, withdrawals: Mapping[str, str]) -> str:
    """When the decision was withdrawn; empty if it is in force. One that is made again later is."""
    when = withdrawals.get(likeness(decision.content), "")
    return when if when and when >= decision.timestamp else ""


def in_force(decisions: Iterable[Decision], withdrawals: Mapping[str, str]) -> list[Decision]:
    return [each for each in decisions if not withdrawn_at(each, withdrawals)]


def _utc(timestamp: object) -> str:
    """As it is, if it is in UTC and says so; empty for what is no time."""
    moment = ids.moment(timestamp) if isinstance(timestamp, str) else None
    if moment is None or not isinstance(timestamp, str):
        return ""
    try:
        return timestamp if timestamp.endswith("Z") else ids.stamp(moment)
    except OverflowError:
        return ""


# --- which are the same ---------------------------------------------------------------------------------


def one_line(content: str) -> str:
    """For a list of decisions: on one line, and nothing in it that a terminal obeys or hides."""
    return visible.one_line(" ".join(content.split()))


def likeness(content: str) -> str:
    """The same for what is the same decision, however it is spaced, spelled, stressed, quoted and ended."""
    text = unicodedata.normalize("NFC", one_line(content)).casefold()
    text = text.rstrip(_FINAL) or text
    for begin, end in _AROUND * 2:  # stressed and quoted, in either order
        inner = text[len(begin) : -len(end)].strip()
        if inner and text.startswith(begin) and text.endswith(end):
            text = inner.rstrip(_FINAL) or inner
    return text


# --- what an answer marks -------------------------------------------------------------------------------

_TOKEN = re.compile(r"\\[\\`\[\]]|(?P<ticks>`++)|(?P<mark>\[DECISION:)|\[|\]", re.IGNORECASE | re.ASCII)
_TICKS = re.compile("`++")
_FENCE = re.compile(r"(?:[ \t>]|[-+*] |[0-9]{1,9}[.)] )*+(?P<fence>`{3,}+(?=[^`]*+$)|~{3,}+)")
"""As the first thing of a line, or of an item or a quote."""


def marked(text: str) -> list[str]:
    """Each decision once, on one line. A mark in code is an example; one that is not closed before the next
    begins is none."""
    found: dict[str, str] = {}
    begin = depth = 0
    for bracket in _brackets(text):
        if bracket["mark"]:
            begin, depth = bracket.end(), 1
        elif depth:
            depth += 1 if bracket[0] == "[" else -1
            if depth == 0:
                content = " ".join(text[begin : bracket.start()].split())
                if content.strip(".… ") and len(content) <= LONGEST:
                    found.setdefault(likeness(content), content)
    return [*found.values()]


def _brackets(text: str) -> Iterator[re.Match[str]]:
    """Those that are brackets: not in code, and not escaped."""
    for start, end in _paragraphs(text):
        later: dict[int, list[int]] = {}  # where code can end, by the number of its backticks, the last first
        for run in reversed([*_TICKS.finditer(text, start, end)]):
            later.setdefault(len(run[0]), []).append(run.start())
        at = start
        while token := _TOKEN.search(text, at, end):
            at = token.end()
            if token["ticks"]:
                ends = later.get(at - token.start(), [])
                while ends and ends[-1] < at:
                    ends.pop()
                at = ends.pop() + at - token.start() if ends else at
            elif token[0][0] != "\\":
                yield token


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """From where to where. Blocks of code are none, and code in a line does not go beyond one."""
    fence = ""
    start = at = 0
    for line in text.split("\n"):
        body = line.strip(" \t\r>")
        end = at + len(line)
        opening = None if fence else _FENCE.match(line)
        if fence or opening or not body:
            if not fence and start < at:
                yield start, at
            start = end
        if opening:
            fence = opening["fence"]
        elif fence and len(body) >= len(fence) and not body.strip(fence[0]):
            fence = ""
        at = end + 1
    if start < len(text):
        yield start, len(text)


# --- what is typed ----------------------------------------------------------------------------------------

_WORD = re.compile(r"\S+")
_TAG = re.compile(r"#([^\W\d_](?:[\w./+-]*[\w+])?)")
_TAGS = re.compile(rf"(?:{_TAG.pattern})(?:[,;](?:{_TAG.pattern}))*[.,;:!?]*")
"""Such as `#pricing.` and `#a,#b`."""


def with_tags(text: str) -> tuple[str, tuple[str, ...]]:
    """A text without the `#words` at its end, and these, each once. What is nothing but tags is a text."""
    tags: list[str] = []
    for word in reversed([*_WORD.finditer(text)]):
        if not _TAGS.fullmatch(word[0]):
            return text[: word.end()].strip(), tuple(dict.fromkeys(reversed(tags)))
        tags += reversed(_TAG.findall(word[0]))
    return text.strip(), ()


def has_tag(tags: Iterable[str], wanted: str) -> bool:
    """Whether one of the tags is this one, with or without its `#`."""
    return wanted.removeprefix("#").casefold() in (tag.casefold() for tag in tags)


# --- whether answers are searched -------------------------------------------------------------------------


def autorecord(is_on: bool) -> Custom:
    return Custom(_AUTORECORD, {"on": is_on})


def autorecords(entries: Iterable[Entry], default: bool) -> bool:
    """What the session said last."""
    is_on = default
    for entry in entries:
        if entry.type == "custom" and _AUTORECORD.encode() in entry.line:
            match entry.body:
                case Custom(custom_type=kind, data={"on": bool(said)}) if kind == _AUTORECORD:
                    is_on = said
    return is_on
