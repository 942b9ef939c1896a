"""One file, or a piece of text, by what stands in it: its first words, definitions, headings."""

from __future__ import annotations

import re
from collections.abc import Iterator

from perdure.agent.models.offline.inquiry import Call, Found, Plan
from perdure.agent.models.offline.source import (
    LANGUAGES,
    PATTERNS,
    Source,
    language_of,
    looks_like_code,
    source,
)
from perdure.agent.models.offline.wording import fenced, number_of, some

MOST_LINES = 40
MOST_READS = 4
_HEADINGS = re.compile(r"^(?:#{1,4}\s+(?P<name>.{1,500}?)\s*#*|(?P<name2>\S.*)(?=\n[=\-~]{3,}$))$", re.M)


def outline(path: str) -> Plan:
    (found,) = yield [Call("read", {"path": path})]
    if found.is_error:
        return f"`{path}` could not be read: {found.text.strip() or 'the tool `read` is off'}"
    return (yield from described(path, found))


def described(path: str, found: Found) -> Plan:
    """A file of which the first part was read: what is behind that is read too, up to a bound."""
    if found.is_image:
        return image(path, found)
    text = found.body
    for _ in range(MOST_READS - 1):
        if not (rest := _CONTINUED.search(found.text)):
            break
        (found,) = yield [Call("read", {"path": path, "offset": int(rest[1])})]
        text = f"{text}\n{found.body}" if found.body else text
    language = language_of(path) or "unknown kind"
    lines = number_of(text.count("\n") + 1, "line")
    size = f"{language}, {lines}" if text else "empty"
    parts = [f"## `{path}`\n\n{size}{', and more that was not read' if found.is_cut else ''}."]
    seen = source(path, text)
    if seen.doc:
        parts.append(f"It says of itself: {seen.doc}")
    if listed := [*_contents(path, text, seen)]:
        parts.append("\n".join(some(listed, MOST_LINES)))
    elif text:
        start = "\n".join(line[:200] for line in text.split("\n")[:20])
        parts.append(f"It begins:\n\n{fenced(start, path)}")
    return "\n\n".join(parts)


_CONTINUED = re.compile(r"Use offset=(\d+) to continue\.\]")


def image(path: str, found: Found) -> str:
    return f"`{path}` is an image, which takes a model that can see. (`{found.text.strip()}`)"


def of_text(text: str) -> str:
    """Text that came with the question, in whatever language fits it best; empty if it is but words."""
    best = Source("", [])
    for name in ("Python", "TypeScript", "Go", "Rust", "Java", "C", "Ruby", "Shell"):
        tried = source(f"text.{LANGUAGES[name][0]}", text)
        if len(tried.definitions) > len(best.definitions):
            best = tried
    lines = text.count("\n") + 1
    if not best.definitions and lines < 10 and not looks_like_code(text):
        return ""
    told = [f"- line {one.line}: {one.in_words}" for one in best.definitions]
    head = f"The text that came with the question has {number_of(lines, 'line')}"
    if not told:
        return f"{head}, and no definition was recognised."
    return "\n".join([f"{head}. {best.doc}".rstrip(" .") + ". It defines:", "", *told[:MOST_LINES]])


def _contents(path: str, text: str, seen: Source) -> Iterator[str]:
    language = language_of(path)
    if language in PATTERNS:
        yield from (f"- `{one.place}` {one.in_words}" for one in seen.definitions)
    elif language in ("Markdown", "reStructuredText"):
        for heading in _HEADINGS.finditer(
            re.sub(r"(?ms)^```.*?^```", lambda code: "\n" * code[0].count("\n"), text)
        ):
            line = text.count("\n", 0, heading.start()) + 1
            yield f"- line {line}: {heading['name'] or heading['name2']}"
    elif language in ("TOML", "settings"):
        for at, row in enumerate(text.split("\n"), 1):
            if match := re.match(r"\[\[?([^\]]+)\]", row):
                yield f"- `{path}:{at}` [{match[1]}]"
    elif language == "JSON":
        yield from (f"- `{name}`" for name in re.findall(r'(?m)^(?: {2}|\t| {4})"([^"\n]+)"\s*:', text))
