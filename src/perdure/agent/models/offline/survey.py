"""A folder described: what it says of itself, what is in it, where it starts, what it defines, its tests.

Every sentence comes from a tool's result. A folder may be of any size: the number of calls is fixed, and
where a listing was cut the answer says so.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Sequence

from perdure.agent.models.offline.files import Files, depth
from perdure.agent.models.offline.inquiry import Call, Found, Plan, Steps, hits, names, where
from perdure.agent.models.offline.outline import outline
from perdure.agent.models.offline.project import MANIFESTS, entry_points, manifest, point_file
from perdure.agent.models.offline.report import Listing, Told, counted, report, tests
from perdure.agent.models.offline.source import (
    LANGUAGES,
    PATTERNS,
    Source,
    definition_in,
    is_aside,
    is_made,
    is_others,
    is_test,
    source,
)

MOST_LISTED = 2000
MOST_FOLDERS = 8
MOST_READ = 8
LINES_READ = 600
ENOUGH = 5
"""Definitions. If the files that were read have fewer, the rest are looked for."""
_READMES = ("README.md", "README.rst", "README.txt", "README", "readme.md", "Readme.md", "README.markdown")
_ROOTS = re.compile(r"(?:__init__\.py|index\.(?:js|ts|mjs|tsx)|lib\.rs|mod\.rs)")
_USUAL = ("src/", "lib/", "app/", "cmd/", "pkg/", "internal/", "crates/", "packages/", "tests/", "test/")


def survey(path: str, tools: Collection[str]) -> Plan:
    if not {"find", "ls"} & set(tools):
        guesses = (posixpath.join(path, name) for name in ("README.md", *MANIFESTS))
        listing = Listing((), Files(guesses), 0, False)
    else:
        listing = yield from _list(path)
        if not listing.files and not listing.top:
            return f"`{path or '.'}` is empty: there is nothing in it to explain."
        if len(listing.files) == 1 and len(listing.top) <= 1:
            return (yield from outline(listing.files.paths[0]))
        path = _as_tools_say(path, listing)
    told = yield from _read_words(path, listing.files)
    sources = yield from _read_code(path, listing.files, told, not listing.top)
    return report(path, listing, told, sources, tools)


def counts(*, only_tests: bool) -> Plan:
    """How many files there are, or where the tests are."""
    listing = yield from _list("")
    return (tests(listing) or "No code was found.") if only_tests else counted("", listing)


def _as_tools_say(path: str, listing: Listing) -> str:
    """The folder as it is called in the paths of what is in it, however the user called it."""
    tops = {name.rstrip("/") for name in listing.top}
    steps = next(iter(listing.files.paths), "").split("/")
    at = next((at for at, step in enumerate(steps) if step in tops), None)
    return path if not path or at is None else "/".join(steps[:at])


def _list(path: str) -> Steps[Listing]:
    everything = {"pattern": "**/*"}
    listed, found = yield [
        Call("ls", where(path)),
        Call("find", {**everything, **where(path), "limit": MOST_LISTED}),
    ]
    top = names(listed)
    paths = names(found)
    if found.is_cut:
        folders = [posixpath.join(path, name.rstrip("/")) for name in _most_telling(top)]
        parts = yield [Call("find", {**everything, "path": each, "limit": 300}) for each in folders]
        paths += [name for part in parts for name in names(part)]
    # A listing that was cut may have left out just these, and without `find` there is no other.
    if found.is_cut or not paths:
        paths += [posixpath.join(path, name) for name in top if not _NO_FILE.search(name)]
    files = {each for each in paths if not each.endswith("/")}
    files = {each for each in files if not is_made(each)} or files
    own = {each for each in files if not is_others(each)} or files  # it may be asked about just these
    return Listing(top, Files(own), len(files) - len(own), found.is_cut)


_NO_FILE = re.compile(r"@ -> |[|=%]$")
"""How `ls` marks links, pipes, sockets and devices."""


def _most_telling(top: Sequence[str]) -> list[str]:
    folders = [name for name in top if name.endswith("/") and name[0] != "." and "@ -> " not in name]
    folders = [name for name in folders if not is_others(name) and not is_made(name)]
    return sorted(folders, key=lambda name: (_USUAL.index(name) if name in _USUAL else 99, name))[
        :MOST_FOLDERS
    ]


def _read_words(path: str, files: Files) -> Steps[Told]:
    readmes = [each for name in _READMES if (each := posixpath.join(path, name)) in files][:1]
    manifests = [each for name in MANIFESTS if (each := posixpath.join(path, name)) in files]
    roots = [each for each in files.code if _ROOTS.fullmatch(posixpath.basename(each))]
    roots = sorted(roots, key=depth)[:2]
    reads = [*readmes, *manifests, *roots]
    calls = [Call("read", {"path": each, "limit": LINES_READ}) for each in reads]
    folder = path or files.main_folder
    if main := files.main_language:
        pattern = files.importing(roots)
        calls.append(Call("grep", {"pattern": pattern, **_ending(main), **where(folder), "limit": 800}))
    found = dict(zip([*reads, "imports"], (yield calls), strict=False))
    readme = found[readmes[0]].body if readmes else ""
    return Told(
        readmes[0] if readme else "",
        readme,
        {each: manifest(each, found[each]) for each in manifests if found[each].body},
        {each: source(each, found[each].body) for each in roots if found[each].body},
        [(hit.path, hit.text) for hit in hits(found.get("imports", Found()))],
    )


def _ending(language: str) -> dict[str, str]:
    return {"glob": "*.{" + ",".join(LANGUAGES[language]) + "}"}


def _read_code(path: str, files: Files, told: Told, is_guessed: bool) -> Steps[list[Source]]:
    chosen = _chosen(files, told)
    found = yield [Call("read", {"path": each, "limit": LINES_READ}) for each in chosen]
    read = [source(each, one.body) for each, one in zip(chosen, found, strict=True) if one.body]
    sources = [*read, *told.roots.values()]
    if sum(one.public for each in sources for one in each.definitions) >= ENOUGH:
        return sources
    # With neither find nor ls, which language there is can only be tried.
    languages = [files.main_language] if files.main_language else [*_TRIED] if is_guessed else []
    found = yield [
        Call("grep", {"pattern": PATTERNS[each], **_ending(each), **where(path), "limit": 100})
        for each in languages
    ]
    known = {one.place for each in sources for one in each.definitions}
    lines = [hit for one in found for hit in hits(one)]
    more = [definition_in(*hit) for hit in lines]
    is_wanted = any(map(is_others, files.paths))
    fresh = [one for one in more if one is not None and one.place not in known]
    fresh = [one for one in fresh if is_wanted or not is_others(one.path)]
    ours = [one for one in fresh if not is_aside(one.path)]
    return [*sources, Source("", ours or fresh)]


_TRIED = ("Python", "TypeScript", "JavaScript", "Go", "Rust")


def _chosen(files: Files, told: Told) -> list[str]:
    """The files to read: where programs start, what the package hands out, then what most others import."""
    points = [point_file(point, files) for point in entry_points(files, told.manifests.values())]
    starts = [*dict.fromkeys(each for each in points if each in files.code)][:2]
    handed = {files.module(name) for root in told.roots.values() for name in root.imports}
    wanted = Counter(
        file for who, line in told.imports if not is_test(who) for file in files.imported(who, line)
    )

    def order(file: str) -> tuple[bool, int, tuple[int, str]]:
        return file not in handed, -wanted[file], depth(file)

    rest = [each for each in files.code if each not in told.roots and each not in starts]
    return [*starts, *sorted(rest, key=order)][:MOST_READ]
