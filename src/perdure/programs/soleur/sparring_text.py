"""What somebody wrote, as sentences that can be quoted: Markdown without its marks, and no code."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LONGEST_QUOTE = 140
_LONGEST_SENTENCE = 1000
_MOST_READ = 40_000
"""Characters of a text that are looked at."""
_FENCE = re.compile(r"^\s*(```|~~~)")
_MARKS = re.compile(
    r"!\[[^\]]{0,500}\]\([^)]{0,2000}\)|<[^>\n]{0,2000}>|^\s*(?:#+|[-*+]|\d+[.)]|>)\s+|[*_`]{1,3}",
    re.MULTILINE,
)
_LINK = re.compile(r"\[([^\]\n]{0,500})\]\([^)\n]{0,2000}\)")
_WIDE_ENDS = "\u3002\uff01\uff1f"
"""Full stop, exclamation mark and question mark of Chinese and Japanese."""
_END = re.compile(rf"(?<=[.!?{_WIDE_ENDS}])[\"'\u201d\u00bb)\]]*\s+|(?<=[{_WIDE_ENDS}])")
_LETTER = re.compile(r"[^\W\d_]")
_NO_PROSE = re.compile(r"[{}=<>|\\;]|://|\$ ?[a-z]+ |^\s*\$")
_WORD = re.compile("[^\\W_]+(?:['\u2019][^\\W_]+)?")
_COMMON = frozenset(
    word
    for line in (
        "a an the and or but of to in on for with at by from as is are was were be been it its this that",
        "these those we i you they he she our your their my his her us them not no do does did have has had",
        "will would should can could may might all any some so if then than too very more most just only",
        "about into over per each there here what which who whom when where why how",
        "day days week weeks month months monthly year years yearly time times",
    )
    for word in line.split()
)
_ENGLISH = frozenset(
    {"the", "of", "and", "to", "is", "for", "with", "that", "it", "are", "we", "this", "you", "our"}
)
"""Words that nearly every English text has, and few others."""


def sentences(text: str) -> list[str]:
    """Those of a text that say something, in their order."""
    found: dict[str, None] = {}
    for block in _paragraphs(text[:_MOST_READ]):
        for sentence in _END.split(block):
            said = " ".join(sentence.split()).strip(" -:;,")
            if _is_prose(said):
                found.setdefault(said)
    return [*found]


def quote(text: str) -> str:
    """A sentence as it is cited: on one line, and cut between words."""
    said = " ".join(text.split()).replace("“", "'").replace("”", "'").rstrip(f".\u2026{_WIDE_ENDS[:2]}")
    if len(said) > _LONGEST_QUOTE:
        said = said[:_LONGEST_QUOTE].rsplit(" ", 1)[0].rstrip(" ,;:") + " …"
    return f"“{said}”"


def words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def topic(text: str) -> set[str]:
    """The words of a sentence that say what it is about, without their endings."""
    return {
        _stem(word) for word in words(text) if word not in _COMMON and len(word) > 2 and not word.isdigit()
    }


def is_english(text: str) -> bool:
    said = [word for word in words(text) if word in _ENGLISH]
    return len(set(said)) >= 2 and len(said) * 15 >= len(words(text))


def is_code(text: str) -> bool:
    return _NO_PROSE.search(text) is not None or "`" in text


def _stem(word: str) -> str:
    for ending in ("ing", "ers", "er", "ies", "es", "ed", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


def _paragraphs(text: str) -> Iterator[str]:
    """What stands between empty lines, headings and items; code and tables are none."""
    fence = ""
    block: list[str] = []
    for line in text.splitlines():
        if mark := _FENCE.match(line):
            fence = "" if fence == mark[1] else fence or mark[1]
            line = ""
        elif fence or line.startswith(("    ", "\t")) or line.lstrip().startswith("|"):
            line = ""
        is_own = re.match(r"\s*(?:#+|[-*+]|\d+[.)])\s", line) is not None
        if (is_own or not line.strip()) and block:
            yield _plain(" ".join(block))
            block = []
        is_heading = line.lstrip().startswith("#") and is_own
        if line.strip() and not is_heading:
            block.append(_plain(line))
    if block:
        yield _plain(" ".join(block))


def _plain(text: str) -> str:
    return _MARKS.sub("", _LINK.sub(r"\1", text))


def _is_prose(text: str) -> bool:
    count = len(words(text))
    letters = len(_LETTER.findall(text))
    is_long_enough = count >= 3 or (letters >= 6 and not text.isascii())
    return (
        is_long_enough
        and count <= 60
        and len(text) <= _LONGEST_SENTENCE
        and letters * 5 >= len(text) * 2
        and not _NO_PROSE.search(text)
    )
