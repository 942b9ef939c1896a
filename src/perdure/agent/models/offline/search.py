"""Where something is, as grep and find know it: text, definitions, callers, files; and files as they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence

from perdure.agent.models.offline.files import depth
from perdure.agent.models.offline.inquiry import Call, Found, Hit, Plan, Steps, hits, names, where
from perdure.agent.models.offline.outline import described, image, outline
from perdure.agent.models.offline.question import Question, keywords
from perdure.agent.models.offline.source import definition_in, is_aside, is_code, is_test
from perdure.agent.models.offline.wording import fenced, number_of, one_line, some

_KINDS = "class|def|func|fn|fun|function|interface|struct|enum|type|trait"
MOST_HITS = 40
MOST_OF_A_FILE = 6
MOST_NAMES = 15
MOST_SHOWN = 120
"""Lines of a file that are shown."""


def search(asked: Question, tools: Collection[str]) -> Plan:
    """Text first as it was written, then as a pattern, then by its words."""
    subject, place = asked.subject, where(asked.path)
    as_written = {"pattern": subject, "literal": True, "ignoreCase": subject.islower()}
    first = [Call("grep", {**as_written, **place})]
    if asked.kind in ("defined", "callers"):
        first.append(Call("grep", {"pattern": _defining(subject), **place}))
    first.append(Call("find", {"pattern": _name_pattern(subject), **place, "limit": 50}))
    literal, *definitions, named = yield first
    found, how = literal, f"the text `{subject}`"
    failed = (
        "The text was not searched: the tool `grep` is off." if "grep" not in tools else _failure(literal)
    )
    if not hits(literal) and not failed and (other := _looser(subject)):
        (found,) = yield [Call("grep", {"pattern": other, "ignoreCase": True, **place})]
        how = f"the pattern `{other}`"
    lines = hits(found)
    parts = []
    defined: list[Hit] = []
    if definitions:
        defined = hits(definitions[0]) or [hit for hit in lines if _defines(hit, subject)]
        parts.append(_defined(subject, defined, definitions[0].is_cut, searched=not failed))
        lines = [hit for hit in lines if hit not in defined]
        if found is literal:
            how = f"the word `{subject}`"
            word = re.compile(rf"(?<!\w){re.escape(subject)}(?!\w)", re.IGNORECASE * subject.islower())
            lines = [hit for hit in lines if word.search(hit.text)]
    if defined and not lines:
        parts.append("No other line with it was found.")
    else:
        parts.append(failed or _shown(lines, how, found.is_cut, asked.path, "other " * bool(defined)))
    parts.append(_files(subject, names(named), named.is_cut))
    if "find" not in tools:
        parts.append("File names were not searched: the tool `find` is off.")
    return "\n\n".join(filter(None, parts))


def _defining(subject: str) -> str:
    name = re.escape(subject.rpartition(".")[2])
    kinds = f"{_KINDS}|const|let|var|module|record|object|macro_rules!"
    return rf"\b({kinds})\s+(\([^)]*\)\s*)?{name}\b|^\s*{name}\s*(:[^=]+)?=[^=]"


def _name_pattern(text: str) -> str:
    """A glob of names that have this text in them, or its words."""
    return f"**/*{'*'.join(map(_as_it_is, text.split()))}*"


def _as_it_is(text: str) -> str:
    return re.sub(r"[][*?{},!\\]", r"\\\g<0>", text)


def _looser(subject: str) -> str:
    if re.search(r"[\\^$|\[\](){}*+]", subject):
        try:
            re.compile(subject)
        except re.error:
            return ""
        return subject
    words = keywords(subject)
    in_order = [word for word in re.findall(r"\w+", subject) if word in words]
    return ".*".join(dict.fromkeys(in_order)) if len(words) > 1 else ""


def _failure(found: Found, name: str = "grep") -> str:
    return f"`{name}` failed: {_quoted(found.text)}" if found.is_error else ""


def _quoted(text: str) -> str:
    return one_line(text.replace("`", "'"), 120)


def _defines(hit: Hit, subject: str) -> bool:
    one = definition_in(hit.path, hit.line, hit.text.lstrip())
    return one is not None and one.name == subject


def _defined(subject: str, found: Sequence[Hit], is_cut: bool, *, searched: bool) -> str:
    if not found:
        return f"No definition of `{subject}` was recognised." if searched else ""
    ranked = sorted(found, key=lambda hit: (is_aside(hit.path), hit.path, hit.line))
    shown = [f"- `{hit.path}:{hit.line}` `{_quoted(hit.text)}`" for hit in ranked]
    return "\n".join([f"`{subject.rpartition('.')[2]}` is defined here:", "", *some(shown, 8, is_cut)])


def _shown(lines: Sequence[Hit], how: str, is_cut: bool, path: str, other: str) -> str:
    where = f" in `{path}`" if path else ""
    if not lines:
        return f"Nothing was found for {how}{where}."
    by_file: dict[str, list[Hit]] = {}
    for hit in lines:
        by_file.setdefault(hit.path, []).append(hit)
    files = sorted(by_file, key=lambda name: (is_test(name), is_aside(name), not is_code(name)))
    least = "at least " * is_cut
    counts = f"{least}{number_of(len(lines), f'{other}line')} in {least}{number_of(len(by_file), 'file')}"
    told = [f"{counts[0].upper()}{counts[1:]} for {how}{where}:", ""]
    left = MOST_HITS
    for name in files:
        if left <= 0:
            told.append(f"- and {least}{number_of(len(files) - files.index(name), 'more file')}")
            break
        told.append(f"- `{name}`")
        here = by_file[name][: min(MOST_OF_A_FILE, left)]
        told += [f"  - {hit.line}: `{_quoted(hit.text)}`" for hit in here]
        if len(by_file[name]) > len(here):
            told.append(f"  - and {least}{len(by_file[name]) - len(here)} more")
        left -= len(here) + 1
    return "\n".join(told)


def _files(subject: str, found: Sequence[str], is_cut: bool) -> str:
    if not found:
        return ""
    shown = some([f"- `{name}`" for name in sorted(found, key=is_aside)], MOST_NAMES, is_cut)
    return "\n".join([f"Files whose names match `{subject}`:", "", *shown])


def files(asked: Question) -> Plan:
    pattern = asked.subject if re.search(r"[*?]", asked.subject) else _name_pattern(asked.subject)
    (found,) = yield [Call("find", {"pattern": pattern, **where(asked.path), "limit": 100})]
    if failed := _failure(found, "find"):
        return failed
    listed = _files(asked.subject, names(found), found.is_cut)
    return listed or f"No file has a name that matches `{asked.subject}`."


# --- a subject ----------------------------------------------------------------------------------------


def topic(asked: Question, tools: Collection[str], survey: Callable[[str], Plan]) -> Plan:
    """A name or a few words to explain: their definitions, read, and the files that are called like them."""
    words = [asked.subject] if " " not in asked.subject else [*keywords(asked.subject)]
    stems = [re.sub(r"(?<=\w{3})(?:ies|s|es|ing|ed)$", "", word) for word in words]
    if not stems:
        return (yield from search(asked, tools))
    alternatives = "|".join(re.escape(stem.rpartition(".")[2]) for stem in stems)
    pattern = (
        rf"^\s*(export |pub |public |async |default |static |abstract )*({_KINDS})\s+\w*({alternatives})\w*"
    )
    exact, found, *named = yield [
        Call("grep", {"pattern": rf"\b({_KINDS})\s+{re.escape(words[0].rpartition('.')[2])}\b"}),
        Call("grep", {"pattern": pattern, "ignoreCase": True}),
        *(Call("find", {"pattern": _name_pattern(stem), "limit": 50}) for stem in stems),
    ]
    listed = sorted(
        {name for one in named for name in names(one)}, key=lambda name: (is_aside(name), depth(name))
    )
    if not hits(exact) and (path := _called(asked.subject, listed)):
        return (yield from survey(path.rstrip("/")) if path.endswith("/") else outline(path))
    ranked = _ranked(hits(found), stems, hits(exact) if len(words) == 1 else [])
    if not ranked:
        return (yield from search(asked._replace(kind="search"), tools))
    parts = [f"What is here about `{asked.subject}`, by the names of definitions and files:"]
    parts += yield from _read_definitions(ranked[:3])
    rest = [f"- `{hit.path}:{hit.line}` `{_quoted(hit.text)}`" for hit in ranked[3:]]
    if rest:
        parts.append("\n".join(["Also:", "", *some(rest, 12, found.is_cut)]))
    parts.append(_files(asked.subject, listed, any(one.is_cut for one in named)))
    return "\n\n".join(filter(None, parts))


def _called(subject: str, listed: Sequence[str]) -> str:
    """The file or folder of exactly this name, with or without an ending."""
    last = ((path, path.rstrip("/").rpartition("/")[2]) for path in listed)
    return next((path for path, name in last if subject.lower() in (name.lower(), _stem(name).lower())), "")


def _stem(name: str) -> str:
    return name.rpartition(".")[0] or name


def _ranked(found: Sequence[Hit], words: Sequence[str], exact: Sequence[Hit]) -> list[Hit]:
    by_place = {(hit.path, hit.line): hit for hit in [*exact, *found] if is_code(hit.path)}
    first = {(hit.path, hit.line) for hit in exact}

    def order(hit: Hit) -> tuple[bool, bool, int, str, int]:
        known = sum(word.lower() in f"{hit.path} {hit.text}".lower() for word in words)
        return (hit.path, hit.line) not in first, is_aside(hit.path), -known, hit.path, hit.line

    return sorted(by_place.values(), key=order)


def _read_definitions(found: Sequence[Hit]) -> Steps[list[str]]:
    read = yield [Call("read", {"path": hit.path, "offset": hit.line, "limit": 14}) for hit in found]
    blocks = (
        "\n".join(_block((one.body or hit.text).split("\n"))) for hit, one in zip(found, read, strict=True)
    )
    return [
        f"`{hit.path}:{hit.line}`\n\n{fenced(block, hit.path)}"
        for hit, block in zip(found, blocks, strict=True)
    ]


def _block(lines: Sequence[str]) -> Iterator[str]:
    """The first line, and those below that belong to it by their indentation."""
    first = lines[0]
    margin = len(first) - len(first.lstrip())
    yield first[:200]
    for line in lines[1:]:
        if line.strip() and len(line) - len(line.lstrip()) <= margin and not re.match(r"\s*[)\]}{]", line):
            return
        yield line[:200]


# --- files as they are --------------------------------------------------------------------------------


def show(asked: Question) -> Plan:
    path = asked.path
    (found,) = yield [Call("read", {"path": path})]
    if found.is_error:
        path, found = yield from _by_name(path, found)
    if found.is_error:
        return f"`{path}` could not be read: {found.text.strip()}"
    if found.is_image:
        return image(path, found)
    lines = found.body.split("\n")
    shown = fenced("\n".join(lines[:MOST_SHOWN]), path)
    if len(lines) <= MOST_SHOWN and not found.is_cut:
        return f"`{path}`:\n\n{shown}"
    return f"`{path}`, its first {min(len(lines), MOST_SHOWN)} lines:\n\n{shown}\n\nThere is more of it."


def _by_name(path: str, failed: Found) -> Steps[tuple[str, Found]]:
    """A file that is not where it was said to be may be the only one of that name."""
    (listed,) = yield [Call("find", {"pattern": f"**/{_as_it_is(path.rpartition('/')[2])}*", "limit": 20})]
    found = sorted(names(listed), key=lambda name: (name.count("/"), len(name), name))
    found = [name for name in found if not name.endswith("/")]
    if not found:
        return path, failed
    (read,) = yield [Call("read", {"path": found[0]})]
    return found[0], read


def listing(asked: Question) -> Plan:
    folder = f"`{asked.path or '.'}`"
    (found,) = yield [Call("ls", where(asked.path))]
    if found.is_error:
        return f"{folder} could not be listed: {_quoted(found.text)}"
    shown = some([f"- `{name}`" for name in names(found)], 50, found.is_cut)
    return "\n".join([f"{folder}:", "", *shown]) if shown else f"{folder} is empty."


def named(asked: Question, tools: Collection[str], survey: Plan) -> Plan:
    """A path to explain. Whether it is a file or a folder, the tools say."""
    read, listed = yield [Call("read", {"path": asked.path}), Call("ls", {"path": asked.path})]
    if not read.is_error:
        return (yield from described(asked.path, read))
    if not listed.is_error:
        return (yield from survey)
    if "read" in tools and "find" in tools:
        path, found = yield from _by_name(asked.path, read)
        if not found.is_error:
            told = yield from described(path, found)
            return f"There is no `{asked.path}` here; `{path}` is called like it.\n\n{told}"
    return f"`{asked.path}` could not be read: {_quoted(read.text or listed.text)}"
