"""What a project says of itself: the first words of its README, and the programs and commands it declares."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from perdure.agent.models.offline.files import Files, depth
from perdure.agent.models.offline.inquiry import Found
from perdure.agent.models.offline.source import is_aside
from perdure.agent.transcript import without
from perdure.session.record import loads

MANIFESTS = ("pyproject.toml", "package.json", "Cargo.toml", "go.mod", "Makefile", "justfile", "Dockerfile")


class EntryPoint(NamedTuple):
    what: str
    """How it is called, or what it is."""
    where: str
    """What runs: a file, or `module:name`."""
    told_by: str = ""
    """The file that says so."""


class Manifest(NamedTuple):
    entry_points: tuple[EntryPoint, ...] = ()
    commands: tuple[tuple[str, str], ...] = ()
    """What to type, and what that does as far as it is said."""
    description: str = ""


# --- the README ---------------------------------------------------------------------------------------


_LONGEST = 4000
"""Characters of a paragraph that are looked at, for the few hundred that are shown: an opening bracket is
looked for its closing one in all of the rest."""


def first_paragraph(text: str, *, only_opening: bool = False) -> str:
    """What a README says first, after title and badges; with the next paragraph, if that is but a motto.

    Its opening ends where the second title is.
    """
    paragraphs = [words for part in _prose(text, only_opening) if (words := _plain(part[:_LONGEST]))]
    if not paragraphs:
        return ""
    first = paragraphs[0]
    if len(first) < 100 and len(paragraphs) > 1:
        first = f"{first} {paragraphs[1]}"
    return first if len(first) <= 700 else first[:699].rsplit(" ", 1)[0] + " …"


def _prose(text: str, only_opening: bool) -> Iterator[str]:
    """Its first paragraphs that are neither titles, pictures, lists, tables nor code."""
    text = without(text.replace("\r\n", "\n"), {"<!--": "-->"})
    text = re.sub(r"(?ms)^(```|~~~).*?^\1", "", text)
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
    text = re.sub(r"(?s)<(h[1-6])\b.{0,500}?</\1>", "# ", text)
    found = titles = 0
    for part in re.split(r"\n\s*\n", text):
        lines = [re.sub(r"^\s{0,3}>\s?", "", line) for line in part.split("\n") if line.strip(" >\t")]
        while titled := _title_lines(lines):
            titles += _RULE.fullmatch(lines[0]) is None
            if only_opening and titles > 1:
                return
            del lines[:titled]
        if not lines or _NO_PROSE.match(lines[0]):
            continue
        yield " ".join(line.strip() for line in lines)
        found += 1
        if found == 12:
            return


def _title_lines(lines: Sequence[str]) -> int:
    if lines and re.match(r"#{1,6}\s", lines[0]):
        return 1
    if len(lines) > 1 and _RULE.fullmatch(lines[1]):
        return 2
    return 1 if lines and _RULE.fullmatch(lines[0]) else 0


_RULE = re.compile(r"([=\-~^*#_])\1{2,}\s*")
_NO_PROSE = re.compile(r"\s*(?:[-*+]\s|\d+[.)]\s|\||\.\. |:\w| {4}|\t|\[!)|\[[^\]]+\]:")


def _plain(paragraph: str) -> str:
    text = re.sub(r"\[?!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])\]?(?:\([^)]*\)|\[[^\]]*\])?", "", paragraph)
    beside = re.sub(rf"{_LINK}|<a\b[^<]*</a>|<[^>]+>|https?://\S+", "", text)
    if not re.search(r"[^\W\d_]{2}", beside):
        return ""  # a row of links
    text = re.sub(r"<[^>]+>", "", text)
    return " ".join(re.sub(_LINK, r"\1", text).split())


_LINK = r"\[([^\]]+)\](?:\([^)]*\)|\[[^\]]*\])"


def commands_in(readme: str) -> list[str]:
    """What its blocks of code tell to type, in their order."""
    found: dict[str, None] = {}
    for block in re.findall(
        r"(?ms)^ {0,3}```(?:console|sh|shell|bash|text|shell-session|[^\S\n]*)\n(.*?)^ {0,3}```", readme
    ):
        for line in block.split("\n"):
            match = re.match(r"\s*(?:[$%>]\s+)?((?:sudo )?(?:\./)?[a-z][\w./-]*(?:\s.*)?)$", line)
            if match and _STARTS.match(match[1]) and not match[1].endswith(":"):
                found.setdefault(match[1].strip()[:100])
    return [*found]


_STARTS = re.compile(
    r"(?:make|npm|npx|pnpm|yarn|bun|deno|node|python3?|pip|pipx|uv|uvx|poetry|pytest|tox|nox|cargo|go|docker|just"
    r"|mvn|gradle|\./gradlew|cmake|bundle|rake|rails|mix|composer|php|dotnet|swift|brew|\./\S+)\b"
)


# --- manifests ----------------------------------------------------------------------------------------


def manifest(name: str, found: Found) -> Manifest:
    """What the file of this name declares. One that is broken declares nothing."""
    text = found.body
    try:
        match name.rpartition("/")[2]:
            case "pyproject.toml":
                return _pyproject(name, _toml(text))
            case "Cargo.toml":
                return _cargo(name, _toml(text))
            case "package.json":
                return _package_json(name, loads(text.encode("utf-8", "replace")))
            case "Makefile" | "justfile" as program:
                return Manifest(commands=tuple(_targets(program, text)))
            case "Dockerfile":
                started = re.findall(r"(?m)^(?:ENTRYPOINT|CMD)\s+(.+)$", text)
                return Manifest(tuple(EntryPoint("container", each.strip(), name) for each in started[-2:]))
            case "go.mod":
                module = re.search(r"(?m)^module\s+(\S+)", text)
                return Manifest((EntryPoint("module", module[1], name),) if module else ())
    except (ValueError, TypeError, AttributeError, RecursionError):
        pass  # not in the shape its name promises
    return Manifest()


def _toml(text: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text)


def _pyproject(name: str, data: Mapping[str, Any]) -> Manifest:
    project = data.get("project", {})
    poetry = data.get("tool", {}).get("poetry", {})
    scripts = {**poetry.get("scripts", {}), **project.get("scripts", {}), **project.get("gui-scripts", {})}
    by_target: dict[str, list[str]] = {}
    for script, target in scripts.items():
        if isinstance(target, str):
            by_target.setdefault(target, []).append(f"`{script}`")
    points = (EntryPoint(", ".join(called), target, name) for target, called in by_target.items())
    return Manifest(tuple(points), description=_text(project.get("description") or poetry.get("description")))


def _cargo(name: str, data: Mapping[str, Any]) -> Manifest:
    package = data.get("package", {})
    bins = [each for each in data.get("bin", []) if isinstance(each, dict)]
    points = [
        EntryPoint(f"`{each.get('name', '')}`", _text(each.get("path")) or "src/main.rs", name)
        for each in bins
    ]
    commands = (("cargo run", "build and run"),) if bins else ()
    return Manifest(
        tuple(points), (*commands, ("cargo test", "run the tests")), _text(package.get("description"))
    )


def _package_json(name: str, data: Mapping[str, Any]) -> Manifest:
    bins = data.get("bin", {})
    bins = {_text(data.get("name")): bins} if isinstance(bins, str) else bins
    points = [EntryPoint(f"`{key}`", _text(value), name) for key, value in bins.items()]
    for field in ("main", "module", "browser"):
        if isinstance(data.get(field), str):
            points.append(EntryPoint(field, data[field], name))
    scripts = data.get("scripts", {})
    wanted = [key for key in ("start", "dev", "build", "test", "lint") if key in scripts]
    commands = tuple(
        (f"npm {'' if key in ('start', 'test') else 'run '}{key}", _text(scripts[key])) for key in wanted
    )
    return Manifest(tuple(points), commands, _text(data.get("description")))


def _targets(program: str, text: str) -> Iterator[tuple[str, str]]:
    """Targets of a Makefile, with what is said behind `##`; those a person would type come first."""
    called = "just" if program == "justfile" else "make"
    found = {
        match[1]: (match[2] or "").strip()
        for match in re.finditer(r"(?m)^([A-Za-z][\w-]*)\s*:(?![=:])[^#\n]*(?:##\s*(.*))?$", text)
    }
    told = [name for name, words in found.items() if words]
    usual = [
        name for name in ("run", "start", "build", "all", "install", "test", "check", "lint") if name in found
    ]
    for name in dict.fromkeys([*usual, *told, *found]):
        yield f"{called} {name}", found[name]


def _text(value: object) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


# --- where it starts ----------------------------------------------------------------------------------

_STARTING = re.compile(
    r"(?:__main__\.py|main\.(?:py|go|rs|c|cc|cpp|ts|js|swift|kt|java)|Main\.java|manage\.py|app\.(?:py|js|ts)"
    r"|server\.(?:js|ts)|index\.(?:js|ts|mjs|html)|cli\.(?:py|js|ts))"
)


def entry_points(files: Files, manifests: Iterable[Manifest]) -> list[EntryPoint]:
    """What is declared, then files whose names say that a program starts there."""
    declared = [point for each in manifests for point in each.entry_points]
    known = {point_file(point, files) for point in declared}
    starting = [each for each in files.paths if each not in known and not is_aside(each) and _is_start(each)]
    return [*declared, *(EntryPoint("", each) for each in sorted(starting, key=depth))][:8]


def _is_start(path: str) -> bool:
    in_bin = re.search(r"(?:^|/)src/bin/[^/]+\.rs$", path)
    return in_bin is not None or _STARTING.fullmatch(posixpath.basename(path)) is not None


def point_file(point: EntryPoint, files: Files) -> str:
    """The file in which an entry point is, if it is one of these."""
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(point.told_by), point.where))
    return beside if beside in files else files.module(point.where.partition(":")[0])
