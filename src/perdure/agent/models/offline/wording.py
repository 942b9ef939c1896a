"""How an answer is written: a text on one line, a number of things, some of a list, a block of code."""

from __future__ import annotations

import re
from collections.abc import Sequence


def one_line(text: str, most: int) -> str:
    words = " ".join(text.split())
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def number_of(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def some(items: Sequence[str], most: int, is_cut: bool = False) -> list[str]:
    """The first of a list, and how many more there are."""
    if len(items) > most:
        return [*items[:most], f"- and {'at least ' * is_cut}{len(items) - most:,} more"]
    return [*items, *["- and more"] * is_cut]


def fenced(text: str, path: str = "") -> str:
    """A block of code that nothing inside it can end."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    ending = path.rpartition(".")[2] if "." in path else ""
    return f"{fence}{ending if ending.isalnum() else ''}\n{text}\n{fence}"
