"""The description of a folder, in Markdown and in at most about sixty lines."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from perdure.agent.models.offline.files import Files
from perdure.agent.models.offline.project import (
    EntryPoint,
    Manifest,
    commands_in,
    entry_points,
    first_paragraph,
    point_file,
)
from perdure.agent.models.offline.source import (
    TEST_FOLDERS,
    Definition,
    Source,
    is_aside,
    is_test,
    language_of,
)
from perdure.agent.models.offline.wording import number_of

MOST_DEFINITIONS = 10


class Listing(NamedTuple):
    top: Sequence[str]
    files: Files
    left_out: int
    """Files of other people's code."""
    is_cut: bool


class Told(NamedTuple):
    """What the project says of itself."""

    readme_path: str
    readme: str
    manifests: Mapping[str, Manifest]
    roots: Mapping[str, Source]
    """Files that say what a package consists of."""
    imports: Sequence[tuple[str, str]]
    """Who imports, and the line."""


def report(path: str, listing: Listing, told: Told, sources: Sequence[Source], tools: Collection[str]) -> str:
    definitions = [one for each in sources for one in each.definitions]
    points = entry_points(listing.files, told.manifests.values())
    parts = [
        _purpose(path, told, sources, {point_file(point, listing.files) for point in points}),
        counted(path, listing) if "find" in tools or "ls" in tools else "",
        _section("Where it starts", _starts(points, listing, definitions)),
        _section("Definitions to begin with", _definitions(definitions, points, listing, told)),
        tests(listing) if "find" in tools and not path else "",
        _section("Run and test", _commands(told, listing.files)),
        _lacking(tools),
    ]
    return "\n\n".join(part for part in parts if part)


def counted(path: str, listing: Listing) -> str:
    return "\n\n".join(filter(None, [_languages(listing), _layout(path, listing)]))


def _section(title: str, lines: Iterator[str]) -> str:
    found = [*lines]
    return "\n".join([f"## {title}", "", *found]) if found else ""


def _purpose(path: str, told: Told, sources: Sequence[Source], starts: Collection[str]) -> str:
    title = f"## What `{path}` is" if path else "## What this is"
    docs = {each.definitions[0].path: each.doc for each in sources if each.definitions}
    for words, name in (
        (first_paragraph(told.readme, only_opening=True), told.readme_path),
        *((each.description, name) for name, each in told.manifests.items()),
        (first_paragraph(told.readme), told.readme_path),
        *((each.doc, name) for name, each in told.roots.items()),
        *((doc, name) for name, doc in docs.items() if name in starts and name.endswith(".py")),
    ):
        if words:
            return f"{title}\n\n{words}\n\n(from `{name}`)"
    return f"{title}\n\nNo description was found: what it is for is not said."


def _languages(listing: Listing) -> str:
    counted = Counter(language_of(each) for each in listing.files.paths)
    unknown = counted.pop("", 0)
    ranked = sorted(counted, key=lambda name: (-counted[name], name))
    told = [f"{name} {counted[name]:,}" for name in ranked[:8]]
    others = sum(counted[name] for name in ranked[8:]) + unknown
    told += [f"other {others:,}"] if others else []
    notes = []
    if listing.is_cut:
        notes.append("the folder has more files than were listed: these counts are the least there can be")
    if listing.left_out:
        notes.append(f"{listing.left_out:,} more in folders of other people's code")
    more = f" ({'; '.join(notes)})" if notes else ""
    listed = f"## Languages\n\n{number_of(len(listing.files), 'file')}: {', '.join(told)}{more}."
    if listing.files.code:
        return listed
    return "\n".join([listed, "", *(f"- `{path}`" for path in listing.files.paths[:12])])


def _layout(path: str, listing: Listing) -> str:
    """The folders with the most files, as deep as it takes to tell them apart."""
    folders = Counter(posixpath.dirname(each) for each in listing.files.paths)
    shown: Counter[str] = Counter()
    for folder, count in folders.items():
        inside = folder[len(path) :].strip("/").split("/")
        if inside[0] and folder.startswith(path):  # what is here has shorter paths
            depth = 3 if inside[0] in ("src", "lib", "packages", "crates") else 1
            shown[posixpath.join(path, *inside[:depth])] += count
    if len(shown) < 2:
        return ""
    ranked = sorted(shown, key=lambda name: (-shown[name], name))[:8]
    return "## Folders\n\n" + ", ".join(f"`{name}/` {shown[name]:,}" for name in ranked) + " files."


def _starts(
    points: Sequence[EntryPoint], listing: Listing, definitions: Sequence[Definition]
) -> Iterator[str]:
    for point in points:
        file = point_file(point, listing.files)
        name = point.where.partition(":")[2]
        line = next((one.line for one in definitions if (one.path, one.name) == (file, name)), 0)
        place = f"`{file}:{line}`" if line else f"`{file}`" if file else ""
        if not point.what:
            yield f"- {place or f'`{point.where}`'}"
            continue
        where = f"`{point.where}`" + (f", {place}" if place and file != point.where else "")
        yield f"- {point.what}: {where} ({point.told_by})"


def _definitions(
    definitions: Sequence[Definition], points: Sequence[EntryPoint], listing: Listing, told: Told
) -> Iterator[str]:
    exported = {name for root in told.roots.values() for name in root.exports}
    called = {(point_file(point, listing.files), point.where.partition(":")[2]) for point in points}
    for one in _chosen(definitions, exported, called):
        yield f"- `{one.place}` {one.in_words}"


def _chosen(
    definitions: Sequence[Definition], exported: Collection[str], called: Collection[tuple[str, str]]
) -> list[Definition]:
    """Those that lead to the rest: what programs call, a package hands out, what is large and explained."""

    def weight(one: Definition) -> float:
        worth = 20.0 if (one.path, one.name) in called or one.name == "main" else 0.0
        worth += 12 if one.name in exported else 0
        worth += 4 if one.doc else 0
        worth += 3 if one.kind in _TYPES else 0
        worth += min(one.size, 120) / 20
        worth -= 8 * is_aside(one.path)
        return worth - (20 if not one.public else 0)

    ranked = sorted(definitions, key=lambda one: (-weight(one), one.place))
    picked: list[Definition] = []
    for most in (2, 10):  # a few of each file first; more of one file only if there are not enough
        for one in ranked:
            if len(picked) >= (MOST_DEFINITIONS if most == 2 else 5) or one in picked:
                continue
            if sum(each.path == one.path for each in picked) < most and (one.public or most == 10):
                picked.append(one)
    return picked


_TYPES = frozenset({"class", "struct", "interface", "trait", "type", "enum", "protocol", "module", "record"})


def tests(listing: Listing) -> str:
    found = [each for each in listing.files.paths if is_test(each)]
    if not found:
        return "## Tests\n\nNo file is named as tests usually are." if listing.files.code else ""
    least = "at least " * listing.is_cut
    places = Counter(map(_test_folder, found))
    ranked = sorted(places, key=lambda name: (-places[name], name))
    told = ", ".join(f"`{name}` {places[name]:,}" for name in ranked[:4])
    rest = sum(places[name] for name in ranked[4:])
    elsewhere = f", elsewhere {rest:,}" if rest else ""
    return f"## Tests\n\n{least}{number_of(len(found), 'source file')}: {told}{elsewhere}."


def _test_folder(path: str) -> str:
    folders = path.split("/")[:-1]
    last = next((at for at, name in enumerate(folders, 1) if name.lower() in TEST_FOLDERS), len(folders))
    return "/".join([*folders[:last], ""]) or "./"


def _commands(told: Told, files: Files) -> Iterator[str]:
    declared = [pair for each in told.manifests.values() for pair in each.commands]
    if not declared and any(each.endswith("_test.go") for each in files.paths):
        declared = [("go test ./...", "run the tests")]
    for command, what in declared[:6]:
        yield f"- `{command}`" + (f": {what[:100]}" if what else "")
    said = [each for each in commands_in(told.readme) if each not in {command for command, _ in declared}]
    if said:
        yield f"- the README says: {', '.join(f'`{each}`' for each in said[:5])}"


def _lacking(tools: Collection[str]) -> str:
    without = {
        "find": "count files or see where tests are",
        "read": "read the README, manifests or code",
        "grep": "see which files the others lean on",
    }
    told = [f"without `{name}` it could not {what}" for name, what in without.items() if name not in tools]
    return f"Tools that are off: {'; '.join(told)}." if told else ""
