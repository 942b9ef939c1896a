"""How large a document may be that is read, and written, as a whole: in bytes, and in what it lists."""

from __future__ import annotations

from perdure.errors import LargeDocument, TooLarge

LARGEST = 2**28
MOST_ITEMS = 200_000
"""Messages, and what else a document lists: each takes some hundred bytes of memory, however short it is."""


def too_large(path: str, size: int) -> LargeDocument:
    return LargeDocument(path, f"it has {size >> 20:,} MB, and a document of more than {LARGEST >> 20}")


def crowded(path: str) -> LargeDocument:
    return LargeDocument(path, f"a document of more than {MOST_ITEMS:,} messages")


def check(path: str, items: int, size: int) -> None:
    """Raise `TooLarge` for a document that could not be read again."""
    if items > MOST_ITEMS:
        raise TooLarge(path, f"it would have {items:,} entries, and more than {MOST_ITEMS:,} are not read")
    if size > LARGEST:
        raise TooLarge(path, f"it would have {size >> 20} MB, and more than {LARGEST >> 20} are not read")
