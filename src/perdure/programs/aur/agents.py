"""Who can be talked with: Markdown prompts, by the names of their files.

They lie in `agents` of the user's home, and in `.aurora/agents` of the directory that is worked in and of
those above it, up to the root of its git repository and never further; the nearest counts. Of a project they
are prompt text and nothing else, so they are read whether it is trusted or not. But none takes the place of
the user's own, or of `default`, which is always there, and none is a link that leads out of its project.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from perdure import config
from perdure.agent import frontmatter
from perdure.agent.places import folders_above
from perdure.errors import PerdureError, UsageError
from perdure.front.command_line import did_you_mean, quoted
from perdure.session import layouts

DEFAULT = "default"
_FOLDER = "agents"
_ENDING = ".md"
_MOST = 64 * 1024
_MOST_TOLD = 100
_RULE = "an agent's file is called NAME.md, and its name has no spaces"


class Agent(NamedTuple):
    name: str
    prompt: str
    """What is added to the usual prompt."""
    about: str = ""
    """What its file says of it, on one line."""


def known(cwd: str) -> dict[str, str]:
    """Their files by their names; empty for what is built in."""
    own = _own_folder()
    found = {DEFAULT: "", **{name: path for name, path in _files_in(own) if _is_name(name)}}
    for folder in _project_folders(cwd):
        inside = os.path.join(config.real_path(folder), "")
        for name, path in _files_in(_agents_of(folder)):
            if _is_name(name) and config.real_path(path).startswith(inside):
                found.setdefault(name, path)
    return dict(sorted(found.items()))


def notice_of_ignored(cwd: str) -> str:
    """Which files lie where agents do and are none, because of their names; empty if there is none."""
    folders = [_own_folder(), *map(_agents_of, _project_folders(cwd))]
    ignored = [path for folder in folders for name, path in _files_in(folder) if not _is_name(name)]
    if not ignored:
        return ""
    more = f" (and {len(ignored) - 1} more)" if len(ignored) > 1 else ""
    return f"{frontmatter.named(ignored[0])}{more} is no agent: {_RULE}"


def here() -> list[str]:
    """The names of those that can be talked with in this directory."""
    return [*known(config.here())]


def find(name: str, cwd: str) -> Agent:
    there = known(cwd)
    if name not in there:
        listed = f"there {'are' if there.keys() - {DEFAULT} else 'is'} {', '.join(there)}"
        file = frontmatter.named(os.path.join(_own_folder(), f"{name}{_ENDING}"))
        remedy = f"to make it, write its prompt to {file}" if _is_name(name) else _RULE
        raise UsageError(
            f"There is no agent {quoted(name)}{did_you_mean(name, there)}", f"{listed}; {remedy}"
        )
    path = there[name]
    if not path:
        return Agent(name, "", "built in")
    try:
        markdown = frontmatter.read(path, _MOST)
        if "\0" in markdown.body:
            raise ValueError("it is binary, not text")
    except ValueError as error:
        said = f"The agent {quoted(name)} cannot be read: {frontmatter.named(path)}: {error}"
        raise PerdureError(said, "correct the file, or name another agent") from None
    cut = f"\n\n[The file goes on: only its first {_MOST // 1024} KB are here.]" if markdown.is_cut else ""
    about = frontmatter.one_line(markdown.head.get("description"), _MOST_TOLD)
    return Agent(name, markdown.body + cut, about)


def _own_folder() -> str:
    return os.path.join(layouts.home_of("aurora"), _FOLDER)


def _agents_of(folder: str) -> str:
    return os.path.join(folder, ".aurora", _FOLDER)


def _project_folders(cwd: str) -> list[str]:
    """The directory and those above it up to the root of its repository, if they have agents of their own."""
    own = config.real_path(_own_folder())
    folders = [cwd, *folders_above(cwd)]
    return [folder for folder in folders if config.real_path(_agents_of(folder)) != own]


def _files_in(folder: str) -> Iterator[tuple[str, str]]:
    """Markdown files, by their names without the ending; no hidden ones."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return  # there are none
    for file in names:
        name = file.removesuffix(_ENDING)
        path = os.path.join(folder, file)
        if name != file and not name.startswith(".") and os.path.isfile(path):
            yield name, path


def _is_name(name: str) -> bool:
    """Whether an agent can be called so."""
    return frontmatter.can_be_typed(name) and name[0] != "."
