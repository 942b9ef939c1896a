"""Git's trees, as values: what a folder is made of, by name, and the ids that follow from that."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

TREE, LINK, SUBMODULE, FILE, PROGRAM = "40000", "120000", "160000", "100644", "100755"


class Item(NamedTuple):
    """What a name stands for in a tree, or a path in the index."""

    mode: str
    id: str


def entries_of(data: bytes, length: int) -> dict[str, Item]:
    """A tree as it is stored; its ids have as many hexadecimal digits."""
    entries = {}
    at = 0
    while at < len(data):
        space, end = data.index(b" ", at), data.index(b"\0", at)
        mode, name = data[at:space].decode(), os.fsdecode(data[space + 1 : end])
        at = end + 1 + length // 2
        entries[name] = Item(mode.lstrip("0"), data[end + 1 : at].hex())
    return entries


def grown(
    around: Mapping[str, Mapping[str, Item]], folder: str, wanted: Mapping[str, Item]
) -> dict[str, dict[str, Item]]:
    """All trees that change if these paths, and no others, are in the folder: deepest first, the top last.

    `around` are the trees on the way to it, by their paths. A folder with nothing in it is none.
    """
    trees: dict[str, dict[str, Item]] = {at: dict(entries) for at, entries in around.items()}
    trees[folder] = {}
    for path, item in wanted.items():
        at, _, name = path.rpartition("/")
        above = at
        while above not in trees:
            trees[above] = {}
            above = above.rpartition("/")[0]
        trees[at][name] = item
    deepest_first = sorted(filter(None, trees), key=lambda path: path.count("/"), reverse=True)
    for path in deepest_first:
        above, _, name = path.rpartition("/")
        if trees[path]:
            trees[above][name] = Item(TREE, id_of(trees[path]))
        else:
            trees[above].pop(name, None)
    return {path: trees[path] for path in deepest_first if trees[path]} | {"": trees[""]}


def id_of(entries: Mapping[str, Item]) -> str:
    """Of a tree with something in it."""
    data = data_of(entries)
    length = len(next(iter(entries.values())).id)
    kind = hashlib.sha256 if length == 64 else hashlib.sha1
    return kind(b"tree %d\0%b" % (len(data), data), usedforsecurity=False).hexdigest()


def blobs_of(get: Callable[[str], bytes], path: str, tree: Mapping[str, Item]) -> Iterator[tuple[str, str]]:
    """The ids of all in a tree that is at that path, each by its own path. `get` gives a tree's bytes."""
    waiting = [(path, tree)]
    while waiting:
        path, tree = waiting.pop()
        for name, item in tree.items():
            if item.mode == TREE:
                waiting.append((f"{path}/{name}", entries_of(get(item.id), len(item.id))))
            else:
                yield f"{path}/{name}", item.id


def data_of(entries: Mapping[str, Item]) -> bytes:
    """A tree as it is stored."""
    return b"".join(
        b"%b %b\0%b" % (item.mode.encode(), os.fsencode(name), bytes.fromhex(item.id))
        for name, item in _in_order(entries)
    )


def _in_order(entries: Mapping[str, Item]) -> Iterator[tuple[str, Item]]:
    """Git's: a folder as if its name ended with a slash."""
    return iter(
        sorted(entries.items(), key=lambda pair: os.fsencode(pair[0]) + b"/" * (pair[1].mode == TREE))
    )
