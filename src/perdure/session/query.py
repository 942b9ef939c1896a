"""What a person searches for, as the full-text index wants it; and text, as it is put into that index.

    auth bug             messages with both words
    "race condition"     the words in this order
    refresh*             words that begin like this

Scripts that are written without blanks have each character as a word of its own, in the index and in what is
searched for alike: so that a word is found in the middle of a sentence.
"""

from __future__ import annotations

import re

from perdure.errors import UsageError

MARK, UNMARK = "\x02", "\x03"
"""Around a match in a snippet. No text in the index contains either."""

_PART = re.compile(r'"([^"]*)"?(\*?)|([^\s"]+)')
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff]+"
)
_SEPARATOR = "\u200b"  # no word for the index, and no width on a screen
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")


def expression(query: str) -> str:
    """The query in FTS5's own language. Whatever is typed is a word there and never an operator."""
    parts = _parts(query)
    if not parts:
        raise UsageError("Nothing to search for", 'give a word, a "phrase" or the beginning* of a word')
    return " AND ".join(parts)


def is_searchable(query: str) -> bool:
    """Whether there is a word in it: `expression` refuses what has none."""
    return bool(_parts(query))


def _parts(query: str) -> list[str]:
    parts = []
    for phrase, star, word in _PART.findall(searchable(query)):
        text = word.rstrip("*") if word else phrase
        if any(character.isalnum() for character in text):
            parts.append(f'"{text}"{" *" if star or word.endswith("*") else ""}')
    return parts


def searchable(text: str) -> str:
    """Text as it stands in the index, and in which a snippet is cut."""
    if (
        not text.replace("\n", "").replace("\t", "").isprintable()
    ):  # which costs nothing, and the next line some
        text = _CONTROL.sub(" ", text).encode("utf-8", "replace").decode("utf-8")
    return text if text.isascii() else _UNSPACED.sub(_apart, text)


def _apart(run: re.Match[str]) -> str:
    return _SEPARATOR.join(["", *run[0], ""])


def readable(snippet: str) -> str:
    return snippet.replace(_SEPARATOR, "")
