"""What `rg` does for grep and find, in Python, where there is no `rg`: files below a directory, without those
that .gitignore leaves out, and the lines in them that match. Globs are matched here in either case.

It runs as a program of its own, like `rg`, with the same output: a process can be ended, while a regular
expression that takes for ever would stop everything else in this one. So it imports nothing of Perdure.

A glob or a rule without a slash is about a name, at any depth; with one, about a path from the directory it
belongs to. `*` and `?` stop at a slash and `**` does not. Inside a git repository the .gitignore files from
its root on count, and .git/info/exclude; elsewhere those from the searched directory on. `.git` is never
looked into, and no symbolic link is followed.

Regular expressions are Python's. Those of `rg` are nearly the same; only it knows `\\p{L}`, `[[:alpha:]]`,
`\\z` and `(?<name>…)`.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import pairwise
from typing import Any, BinaryIO, NamedTuple

_LONGEST_GLOB = _MOST_ALTERNATIVES = 1000
_LARGEST_IGNORE_FILE = 2**20
_SNIFFED = 2**16
_LONGEST_LINE = 2**24
_LONGEST_SHOWN = 8000

# --- globs --------------------------------------------------------------------------------------


class Glob:
    """A pattern for paths, with `{a,b}` for either. ValueError if it is none."""

    def __init__(self, text: str) -> None:
        if not text.isprintable():
            raise ValueError("it has characters that cannot be printed")
        self.text = text
        self.alternatives = _alternatives(text.removeprefix("./"))
        self._rules = [rule(each) for each in self.alternatives]

    def matches(self, path: str, *, is_dir: bool = False) -> bool:
        return any(each.matches(path, is_dir) for each in self._rules)


class Rule(NamedTuple):
    regex: re.Pattern[str]
    only_dirs: bool
    keeps: bool = False
    """A line of .gitignore that begins with `!`."""

    def matches(self, path: str, is_dir: bool) -> bool:
        return (is_dir or not self.only_dirs) and self.regex.fullmatch(path) is not None


def rule(pattern: str, *, keeps: bool = False) -> Rule:
    only_dirs = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    anywhere = "/" not in pattern
    parts = pattern.removeprefix("/").split("/")
    if anywhere:
        parts.insert(0, "**")
    regex = ""
    for at, part in enumerate(parts):
        if part != "**":
            regex += _of_name(part) + "/" * (at < len(parts) - 1)
        elif at == len(parts) - 1:
            regex += ".+"
        elif parts[at + 1] != "**":
            regex += "(?:.*/)?"
    return Rule(re.compile(regex, re.DOTALL), only_dirs, keeps)


def _of_name(glob: str) -> str:
    """A regular expression for one name in a path.

    Each `*` but the last takes as little as it can and never gives it back (`(?>…)`): no name takes long.
    """
    runs = [""]
    at = 0
    while at < len(glob):
        char = glob[at]
        at += 1
        if char == "*":
            if runs[-1] or len(runs) == 1:
                runs.append("")
        elif char == "?":
            runs[-1] += "[^/]"
        elif char == "[":
            end = glob.find("]", at + 1 + (glob[at : at + 1] in ("!", "^")))
            if end < 0:
                raise ValueError("a [ is not closed")
            runs[-1] += _class(glob[at:end])
            at = end + 1
        else:
            if char == "\\":
                if at == len(glob):
                    raise ValueError("it ends with a \\ that nothing follows")
                char = glob[at]
                at += 1
            runs[-1] += re.escape(char)
    first, *rest = runs
    if not rest:
        return first
    *middle, last = rest
    return first + "".join(f"(?>[^/]*?{run})" for run in middle) + f"[^/]*{last}"


def _class(inside: str) -> str:
    negated = inside[:1] in ("!", "^")
    inside = inside[negated:].replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    inside = re.sub(r"([&~|^])", r"\\\1", inside)
    try:
        re.compile(f"[{inside}]")
    except re.error as error:
        raise ValueError(f"[{inside}]: {error.msg}") from None
    return f"(?!/)[{'^' * negated}{inside}]"


def _alternatives(glob: str) -> list[str]:
    """`a{b,c}` as `ab` and `ac`."""
    if len(glob) > _LONGEST_GLOB:
        raise ValueError(f"it is longer than {_LONGEST_GLOB} characters")
    edges: list[int] = []
    depth = 0
    for found in re.finditer(r"\\.|[{},]", glob, re.DOTALL):
        match found[0]:
            case "{":
                depth += 1
                if depth == 1:
                    edges = [found.start()]
            case "," if depth == 1:
                edges.append(found.start())
            case "}" if depth:
                depth -= 1
                if depth == 0:
                    before, after = glob[: edges[0]], glob[found.end() :]
                    edges.append(found.start())
                    options = [glob[a + 1 : b] for a, b in pairwise(edges)]
                    all_of_them = [
                        before + each for option in options for each in _alternatives(option + after)
                    ]
                    if len(all_of_them) > _MOST_ALTERNATIVES:
                        raise ValueError(f"it has more than {_MOST_ALTERNATIVES} alternatives")
                    return all_of_them
    if depth:
        raise ValueError("a { is not closed")
    return [glob]


# --- what .gitignore leaves out -------------------------------------------------------------------


class Rules(NamedTuple):
    """What one file says; about paths that have this many characters less, or so much more in front."""

    cut: int
    prefix: str
    rules: list[Rule]

    def verdict(self, path: str, is_dir: bool) -> Rule | None:
        path = self.prefix + path[self.cut :]
        return next((rule for rule in self.rules if rule.matches(path, is_dir)), None)


def repository(directory: str) -> str | None:
    """The root of the git repository that a directory is in."""
    while not os.path.lexists(os.path.join(directory, ".git")):
        directory, below = os.path.dirname(directory), directory
        if directory == below:
            return None
    return directory


def _rules(file: str, cut: int = 0, prefix: str = "") -> list[Rules]:
    try:
        with open(file, "rb", opener=_non_blocking) as lines:
            text = lines.read(_LARGEST_IGNORE_FILE).removeprefix(codecs.BOM_UTF8)
    except OSError:
        return []
    found = []
    for line in text.decode("utf-8", "surrogateescape").splitlines():
        line = re.sub(r"(?<!\\)[ \t]+$", "", line)
        if not line or line.startswith("#"):
            continue
        try:
            found.append(rule(line.removeprefix("!"), keeps=line.startswith("!")))
        except ValueError:  # it is no pattern, so it says nothing; git and rg go on, too
            continue
    return [Rules(cut, prefix, found[::-1])] if found else []


def _from_above(top: str, root: str | None) -> list[Rules]:
    """What the files above a directory say, the nearest first."""
    found: list[Rules] = []
    at, prefix = top, ""
    while root is not None:
        if at != top:
            found += _rules(os.path.join(at, ".gitignore"), prefix=prefix)
        if at == root:
            break
        at, name = os.path.split(at)
        prefix = f"{name}/{prefix}"
    if root is not None and root != top:
        found += _rules(os.path.join(root, ".git", "info", "exclude"), prefix=prefix)
    return found


def files(top: str) -> Iterator[str]:
    """Paths of the files below a directory, relative to it, name after name in the order of their bytes."""
    top = os.path.realpath(top)
    root = repository(top)
    waiting = [("", True, _from_above(top, root))]
    while waiting:
        path, is_dir, rules = waiting.pop()
        if not is_dir:
            yield path
            continue
        here = os.path.join(top, path)
        cut = len(path)
        if root is not None and path and os.path.lexists(os.path.join(here, ".git")):
            rules = []  # a repository inside this one has its own rules
        rules = [
            *_rules(os.path.join(here, ".gitignore"), cut),
            *rules,
            *_rules(os.path.join(here, ".git", "info", "exclude"), cut),
        ]
        try:
            with os.scandir(here) as found:
                entries = sorted(found, key=lambda entry: os.fsencode(entry.name), reverse=True)
        except OSError:
            continue
        for entry in entries:
            below, is_dir = path + entry.name, entry.is_dir(follow_symlinks=False)
            if entry.name == ".git" or not (is_dir or entry.is_file(follow_symlinks=False)):
                continue
            verdict = next(filter(None, (each.verdict(below, is_dir) for each in rules)), None)
            if verdict is None or verdict.keeps:
                waiting.append((below + "/" * is_dir, is_dir, rules))


# --- what is in the files -------------------------------------------------------------------------


class Search(NamedTuple):
    pattern: str
    literal: bool = False
    ignore_case: bool = False
    context: int = 0
    most: int = 100
    """Lines that match, in one file."""


def search(path: str, regex: re.Pattern[str], context: int, most: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Lines of a text file: number, `:` for one that matches or `-` for one beside it, and the line."""
    before: deque[tuple[int, bytes]] = deque(maxlen=context)
    shown_until = 0
    for number, line in enumerate(_lines(path), 1):
        if most and regex.search(line.decode("utf-8", "surrogateescape")):
            most -= 1
            yield from ((earlier, b"-", text) for earlier, text in before)
            before.clear()
            yield number, b":", line
            shown_until = number + context
        elif number <= shown_until:
            yield number, b"-", line
        elif not most:
            return
        else:
            before.append((number, line))


def _lines(path: str) -> Iterator[bytes]:
    """None of a binary file, and none after a place that shows it to be one."""
    with open(path, "rb", buffering=_SNIFFED, opener=_non_blocking) as raw:
        start = raw.read(_SNIFFED)
        raw.seek(0)
        file: BinaryIO = raw
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            file = BytesIO(raw.read().decode("utf-16", "replace").encode("utf-8", "replace"))
        elif b"\0" in start:
            return
        elif start.startswith(codecs.BOM_UTF8):
            file.read(len(codecs.BOM_UTF8))
        while line := file.readline(_LONGEST_LINE):
            if b"\0" in line:
                return
            yield line.rstrip(b"\n").removesuffix(b"\r")


def _non_blocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


# --- the program ----------------------------------------------------------------------------------


def main(sought: Sequence[Any]) -> int:
    """`path` NUL for each file; or, where something is sought in them, `path` NUL number `:` line."""
    out = sys.stdout.buffer
    if not sought:
        for path in files("."):
            out.write(os.fsencode(path) + b"\0")
        return 0
    only, glob, *rest = sought
    wanted = Glob(glob)
    pattern, literal, ignore_case, context, most = Search(*rest)
    try:
        regex = re.compile(re.escape(pattern) if literal else pattern, re.IGNORECASE if ignore_case else 0)
    except (re.error, RecursionError, OverflowError) as error:
        print("error:", error, file=sys.stderr)
        return 2
    failed = False
    for path in [only] if only else filter(wanted.matches, files(".")):
        try:
            for number, mark, line in search(path, regex, context, most):
                out.write(b"%s\0%d%s%s\n" % (os.fsencode(path), number, mark, line[:_LONGEST_SHOWN]))
        except OSError:
            failed = True
        out.flush()
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
