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
from perdure.agent.reading import LeadsOut, Reader, Strange, brought_by, place_in, users_text
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
    return {name: file.path for name, file in _known(cwd).items()}


def notice_of_ignored(cwd: str) -> str:
    """Which files lie where agents do and are none, and why the first of them is not; empty if there is
    none."""
    files = [("", *each) for each in _files_in(_own_folder())]
    files += [(folder, *each) for folder in _project_folders(cwd) for each in _files_in(_agents_of(folder))]
    ignored = [(path, why) for folder, name, path in files if (why := _why_not(folder, name, path))]
    if not ignored:
        return ""
    more = f" (and {len(ignored) - 1} more)" if len(ignored) > 1 else ""
    path, why = ignored[0]
    return f"{frontmatter.named(path)}{more} is no agent: {why}"


def here() -> list[str]:
    """The names of those that can be talked with in this directory."""
    return [*known(config.here())]


def find(name: str, cwd: str) -> Agent:
    there = _known(cwd)
    if name not in there:
        listed = f"there {'are' if there.keys() - {DEFAULT} else 'is'} {', '.join(there)}"
        file = frontmatter.named(os.path.join(_own_folder(), f"{name}{_ENDING}"))
        remedy = f"to make it, write its prompt to {file}" if _is_name(name) else _RULE
        raise UsageError(
            f"There is no agent {quoted(name)}{did_you_mean(name, there)}", f"{listed}; {remedy}"
        )
    path, text = there[name]
    if not path:
        return Agent(name, "", "built in")
    try:
        markdown = frontmatter.read(path, _MOST, text)
        if "\0" in markdown.body:
            raise ValueError("it is binary, not text")
    except ValueError as error:
        said = f"The agent {quoted(name)} cannot be read: {frontmatter.named(path)}: {error}"
        raise PerdureError(said, "correct the file, or name another agent") from None
    cut = f"\n\n[The file goes on: only its first {_MOST // 1024} KB are here.]" if markdown.is_cut else ""
    about = frontmatter.one_line(markdown.head.get("description"), _MOST_TOLD)
    return Agent(name, markdown.body + cut, about)


class _File(NamedTuple):
    path: str
    text: Reader = users_text


def _known(cwd: str) -> dict[str, _File]:
    found = {DEFAULT: _File("")}
    found |= {name: _File(path) for name, path in _files_in(_own_folder()) if _is_name(name)}
    for folder in _project_folders(cwd):
        for name, path in _files_in(_agents_of(folder)):
            if not _why_not(folder, name, path):
                found.setdefault(name, _File(path, brought_by(folder)))
    return dict(sorted(found.items()))


def _why_not(folder: str, name: str, path: str) -> str:
    """Why a file is no agent, the user's or of a project's folder; empty if it is one, or cannot be read,
    which is said when it is wanted."""
    if not _is_name(name):
        return _RULE
    try:
        if folder:
            place_in(folder, path)
    except (LeadsOut, Strange) as error:
        return str(error.strerror)
    except OSError:
        pass
    return ""


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
