"""Numbers as people read them."""

from __future__ import annotations


def size(count: int) -> str:
    """So many bytes: `512 B`, `1.5 kB`, `23 MB`."""
    if count < 1000:
        return f"{count} B"
    units = ["kB", "MB", "GB", "TB"]
    amount = count / 1000
    while amount >= 999.5 and len(units) > 1:
        amount /= 1000
        del units[0]
    return f"{amount:.1f} {units[0]}" if amount < 9.95 else f"{amount:.0f} {units[0]}"


def tokens(count: int) -> str:
    """So many: `200k`, `1M`."""
    return f"{count / 1_000_000:g}M" if count >= 1_000_000 else f"{count // 1000}k"


def counted(count: int, noun: str) -> str:
    """`1 session`, `3,000 sessions`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
