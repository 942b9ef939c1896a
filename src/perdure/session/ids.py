"""Every id scheme, and finding a session by the beginning of its id.

An id becomes a file name, so what may be one is decided here and nowhere else: no separator, no dot
at either end, nothing a shell or a file system could read as a path. All are ASCII, but for the names of
conversations, which have the letters of their titles.
Ids are random, never derived from a clock alone: two processes, or one whose clock was set back, cannot
make the same one.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from perdure.errors import Ambiguous, InvalidId, NotFound, UsageError

Clock = Callable[[], datetime]

_SESSION_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that no font draws."""
_MOST_WORDS = 8
_LONGEST_SLUG = 50
_MOST_SLUG_BYTES = 120
_LONGEST_NAME = 255
"""Bytes of a file's name."""


def now() -> datetime:
    return datetime.now(UTC)


def clock_milliseconds() -> int:
    """Now, as messages have it: milliseconds since 1970."""
    return int(now().timestamp() * 1000)


def stamp(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds, the form every entry carries: 2026-01-31T09:05:00.123Z."""
    text = (moment if moment.tzinfo is UTC else moment.astimezone(UTC)).isoformat(timespec="milliseconds")
    return text[:-6] + "Z"


def moment(timestamp: str) -> datetime | None:
    """When that was; None if it is no time. One without a zone is taken as UTC, which is what we write."""
    try:
        found = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def milliseconds(timestamp: str) -> int:
    """The same since 1970; 0 for what is no time, or before."""
    found = moment(timestamp)
    try:
        return max(0, int(found.timestamp() * 1000)) if found else 0
    except OverflowError:
        return 0


def new_id() -> str:
    """12 hex digits, for a session and for an entry."""
    return os.urandom(6).hex()


def new_ids(count: int) -> list[str]:
    """Several at the price of one."""
    digits = os.urandom(6 * count).hex()
    return [digits[at : at + 12] for at in range(0, len(digits), 12)]


def aurora_id() -> str:
    return f"session-{new_id()}"


def soleur_id(random: bytes | None = None) -> str:
    """A UUID of version 4."""
    import uuid

    return str(uuid.UUID(bytes=random or os.urandom(16), version=4))


def sibyl_id(clock: Clock = now) -> str:
    """`session-20250220-143022-847291`: local time, and a number that starts anywhere and goes on by one, so
    that one process never makes the same twice, and two processes hardly ever."""
    global _numbers
    if _numbers[0] != os.getpid():  # also a forked child starts anywhere
        _numbers = os.getpid(), itertools.count(int.from_bytes(os.urandom(4)))
    return f"session-{clock().astimezone():%Y%m%d-%H%M%S}-{next(_numbers[1]) % 1_000_000:06d}"


_numbers = 0, itertools.count()


def cortext_id(date: str, number: int, kind: str, title: str) -> str:
    """`2025-11-22/001-brainstorm-api-design`: a conversation is named by its day and its folder's name."""
    return f"{date}/{number:03d}-{kind}-{_slug(title) or 'untitled'}"


def _slug(title: str) -> str:
    """The first words of a title, in small letters. A letter that is an ASCII letter with something added is
    that one (`é` is `e`); those of other scripts stay, in the composed form that most file systems keep."""
    import unicodedata

    text = ""
    for character in unicodedata.normalize("NFC", title).lower():
        plain = unicodedata.normalize("NFKD", character)
        if plain[0].isascii():
            text += "".join(each for each in plain if each.isascii())
        elif not (unicodedata.category(character).startswith("M") and text[-1:].isascii()):
            text += character  # a mark on an ASCII letter is left out
    words = "".join(each if _is_in_word(each) else " " for each in text).split()
    slug = "-".join(words[:_MOST_WORDS])[:_LONGEST_SLUG]
    return slug.encode()[:_MOST_SLUG_BYTES].decode(errors="ignore").strip("-")


def composed(text: str) -> str:
    """The text as ids have it, whichever of Unicode's two forms a file system or a keyboard gives."""
    if text.isascii():
        return text
    import unicodedata

    return unicodedata.normalize("NFC", text)


def _is_in_word(character: str) -> bool:
    """True for letters and digits of any script, and the marks that belong to them, unless nobody sees it."""
    if character.isascii():
        return character.isalnum()
    import unicodedata

    is_mark = unicodedata.category(character).startswith("M")
    return (is_mark or character.isalnum()) and not _UNSEEN.fullmatch(character)


def check_dated(text: str) -> str:
    """`text` itself, if it can be the id of a conversation: its day and its name, or its name alone."""
    *day, name = text.split("/") if isinstance(text, str) else [""]
    if len(day) > 1 or not all(map(_DAY.fullmatch, day)) or not _is_dated_name(name):
        raise InvalidId(str(text), "a day and a name, as in 2025-11-22/001-brainstorm-topic")
    return text


def _is_dated_name(name: str) -> bool:
    """By the rule for all ids, in which a letter of another script counts as one of ASCII's."""
    plain = name if name.isascii() else "".join("x" if _is_in_word(each) else each for each in name)
    return bool(_SESSION_ID.fullmatch(plain)) and len(name.encode()) <= _LONGEST_NAME


def check(text: str) -> str:
    """`text` itself, if it can be the id of a session."""
    if not isinstance(text, str) or not _SESSION_ID.fullmatch(text):
        raise InvalidId(str(text), "1 to 128 letters, digits, dots, dashes and underscores")
    return text


def file_name(id: str) -> str:
    """A name for what belongs to a session, for any id a listing may show: people name files as they like."""
    if _SESSION_ID.fullmatch(id):
        return id
    import hashlib

    return f"x-{hashlib.sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def lock_name(id: str) -> str:
    """What a session's lock is called: the same for both of Unicode's forms of an id, as a file system may
    list a conversation in the other one. Never with `~` at its end, as locks are that guard something else.
    """
    id = composed(id)
    parts = id.split("/")
    return "~".join(parts) if all(file_name(part) == part for part in parts) else file_name(id)


_SEVERAL = {"Entry": "entries"}


_NEAREST = 3


def resolve(text: str, known: Iterable[str], what: str = "Session") -> str:
    """The one id of `known` that is `text` or begins with it."""
    if not isinstance(text, str):
        raise UsageError(f"An id is a string, not {type(text).__name__}")
    ids = sorted(set(known))
    if text in ids:
        return text
    matches = [each for each in ids if text and each.startswith(text)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise Ambiguous(text, matches, _SEVERAL.get(what, "sessions"))
    raise NotFound(what, text, nearest(text, ids, 0.4))


def nearest(text: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """The ids that somebody may have meant by this: alike as a whole, or as far as it goes."""
    import difflib  # only a miss pays for it

    text = text[:128]
    ids = [*known]
    beginnings = {id[: len(text)]: id for id in reversed(ids)}
    alike = difflib.get_close_matches(text, ids, n=_NEAREST, cutoff=cutoff)
    begun = difflib.get_close_matches(text, beginnings, n=_NEAREST, cutoff=max(cutoff, 0.7))
    return [*dict.fromkeys((*alike, *(beginnings[each] for each in begun)))][:_NEAREST]
