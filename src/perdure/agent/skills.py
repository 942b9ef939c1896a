"""Skills: folders with a SKILL.md that says how some kind of task is done, and perhaps more files beside it.

A model is told of each skill by name, description and file, and reads the file when a task asks for it; a
user asks for one with `/skill:name`. Folders, heads and the form in which a skill enters a conversation are
those of the original pi and of the Agent Skills specification. What these files say is data: it is bounded, a
file that cannot be used is left out with one notice, and no description can look like more than its line.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from perdure import config
from perdure.agent.frontmatter import can_be_typed, named, one_line, read
from perdure.agent.reading import Reader, text_of
from perdure.errors import PerdureError

if TYPE_CHECKING:
    from perdure.agent.extensions import Api, CommandContext
    from perdure.agent.prompt import Notice

FILE = "SKILL.md"
MOST = 64 * 1024
"""Bytes of a skill that are said."""
DEEPEST = 6
"""Folders below the one that is searched."""
MOST_FOLDERS = 2000
"""Folders that are searched, of one with all that is below."""
_NONE: Mapping[str, Reader] = {}
_BEGINNING = 16 * 1024
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_NAME = 64
_DESCRIPTION = 1024

_INTRODUCTION = """# Skills

A skill is a file that says how one kind of task is done here. When your task is what one of these is \
described as, read its file with the read tool before you begin, and work as it says. Relative paths in such \
a file are relative to the folder that the file is in."""
_CLOSING = re.compile(r"<(?=/skill\b)", re.IGNORECASE)
"""Where a file would end its own element, and go on in the user's name."""


class Skill(NamedTuple):
    name: str
    description: str
    """On one line."""
    path: str
    """Of its SKILL.md."""
    is_hidden: bool = False
    """Whether only the user may ask for it."""


# --- the folders --------------------------------------------------------------------------------------


def find(folders: Iterable[str], notice: Notice, readers: Mapping[str, Reader] = _NONE) -> list[Skill]:
    """The skills in `folders`, which need not be there, and any of which may be a SKILL.md instead. Of two
    skills with one name the first counts, and below one folder the one that is nearer to it. `readers` are
    for those folders that the user did not name."""
    found: dict[str, Skill] = {}
    seen: set[str] = set()
    for path in _files(folders, notice):
        real = config.real_path(path)
        if real in seen:
            continue
        seen.add(real)
        try:
            skill = _skill(path, notice, _reader(path, readers))
        except ValueError as error:
            notice(f"{named(path)} is left out: {error}")
            continue
        first = found.setdefault(skill.name, skill)
        if first is not skill:
            notice(f"{named(path)} is left out: the skill {skill.name} is already {named(first.path)}")
    return list(found.values())


def _reader(path: str, readers: Mapping[str, Reader]) -> Reader:
    inside = (text for folder, text in readers.items() if path.startswith(os.path.join(folder, "")))
    return next(inside, text_of)


def _files(folders: Iterable[str], notice: Notice) -> Iterator[str]:
    for path in map(os.path.abspath, folders):
        if os.path.isdir(path):
            yield from _files_below(path, notice)
        elif os.path.lexists(path) and os.path.basename(path) == FILE:
            yield path
        elif os.path.lexists(path):
            notice(f"{named(path)} is left out: it is neither a folder nor a {FILE}")


def _files_below(root: str, notice: Notice) -> Iterator[str]:
    """Level by level, each by name: what is far down cannot hide what is near."""
    waiting = deque([(root, 0)])
    seen: set[str] = set()
    while waiting:
        folder, depth = waiting.popleft()
        if len(seen) == MOST_FOLDERS:
            notice(f"{named(root)} has many folders: only {MOST_FOLDERS:,} of them were searched for skills")
            return
        real = config.real_path(folder)
        if real in seen:
            continue
        seen.add(real)
        try:
            file, folders = looked_into(folder)
        except OSError as error:
            notice(f"{named(folder)} is left out: {error.strerror or error}")
            continue
        if file:
            yield file
        elif depth < DEEPEST:
            waiting.extend((path, depth + 1) for path in folders)


def looked_into(folder: str) -> tuple[str, list[str]]:
    """The file that makes a folder a skill; or else none, and the folders in it that may be some, by name."""
    names = sorted(os.listdir(folder))
    file = os.path.join(folder, FILE)
    if FILE in names and not os.path.isdir(file):
        return file, []
    inside = (os.path.join(folder, name) for name in names if _may_hold_skills(name))
    return "", [path for path in inside if os.path.isdir(path)]


def _may_hold_skills(name: str) -> bool:
    return not name.startswith(".") and name != "node_modules"


def _skill(path: str, notice: Notice, text: Reader) -> Skill:
    head, _, _ = read(path, _BEGINNING, text)
    description = one_line(head.get("description"), _BEGINNING)
    if not description:
        raise ValueError("there is no description between two lines of --- at its beginning")
    if not path.isprintable():
        raise ValueError("a model cannot be told of a path like this")
    said = head.get("name")
    name = said.strip() if isinstance(said, str) else ""
    name = name or os.path.basename(os.path.dirname(path))
    if not can_be_typed(name):
        raise ValueError("its name cannot be typed as a command")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        rule = f"lowercase letters, digits and single hyphens between them, at most {_LONGEST_NAME} of them"
        notice(f"{named(path)} is used, but other programs may refuse it: a skill's name is {rule}")
    if len(description) > _DESCRIPTION:
        notice(f"{named(path)} is used, but its description is cut after {_DESCRIPTION:,} characters")
    is_hidden = str(head.get("disable-model-invocation")).lower() == "true"
    return Skill(name, one_line(description, _DESCRIPTION), path, is_hidden)


# --- what is said of them -----------------------------------------------------------------------------


def listing(skills: Iterable[Skill]) -> str:
    """What a model is told before the conversation: a line for each, but for the hidden ones."""
    shown = [skill for skill in skills if not skill.is_hidden]
    lines = [f"- {skill.name} ({skill.path}): {skill.description}" for skill in shown]
    return "\n".join([_INTRODUCTION, "", *lines]) if lines else ""


def prompt_of(skill: Skill, arguments: str, text: Reader = text_of) -> str:
    """What is said for `/skill:name arguments`, in a form that the original pi knows for a skill."""
    try:
        _, body, is_cut = read(skill.path, MOST, text)
    except ValueError as error:
        raise PerdureError(
            f"Cannot read the skill {skill.name}: {named(skill.path)}: {error}",
            "correct the file, or put it back, and try again",
        ) from None
    body = _CLOSING.sub("&lt;", body.strip())
    if is_cut:
        body += f"\n\n[The file goes on: only its first {MOST // 1024} KB are here.]"
    name, location = (text.replace('"', "&quot;") for text in (skill.name, skill.path))
    lines = [
        f'<skill name="{name}" location="{location}">',
        f"References are relative to {os.path.dirname(skill.path)}.",
        "",
        body,
        "</skill>",
    ]
    return "\n".join([*lines, *(["", arguments.strip()] if arguments.strip() else [])])


def register(api: Api, skills: Iterable[Skill], readers: Mapping[str, Reader] = _NONE) -> None:
    for skill in skills:
        text = _reader(skill.path, readers)
        api.command(f"skill:{skill.name}", _saying(skill, text), skill.description)


def _saying(skill: Skill, text: Reader) -> Callable[[str, CommandContext], str]:
    return lambda arguments, _: prompt_of(skill, arguments, text)
