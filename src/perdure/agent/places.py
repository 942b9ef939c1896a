"""Where extensions, prompt templates and skills lie: the user's own, and those that a project brings.

Whoever loads them asks here, and whoever tells what would be loaded, so that the two cannot come apart. All
of it is names of files and folders; nothing is opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal

from perdure import config
from perdure.agent.settings import PROJECT_FOLDER, pi_home
from perdure.agent.trust import Trust

Kind = Literal["extensions", "prompts", "skills"]
"""What such a folder is called, in pi's home and in a project."""
EXTENSION = ".py"
TEMPLATE = ".md"
FOR_ALL_AGENTS = os.path.join(".agents", "skills")
REGISTRY = os.path.join(".workspace", "registry.json")
"""The settings of a cortext workspace."""
REGISTERED = {"default_model": None, "tool": "builtin", "inactivity_seconds": 300}
"""What they may be, and what each is unless its user changes it."""


def of_user(kind: Kind) -> list[str]:
    """Folders, which need not be there."""
    own = [os.path.join(pi_home(), kind)]
    return [*own, config.expanded_to_read(os.path.join("~", FOR_ALL_AGENTS))] if kind == "skills" else own


def of_project(kind: Kind, project: str | None) -> list[str]:
    """Those of a project that is trusted, or would be: folders, which need not be there. A folder of the
    user's stays theirs also where a project has it, but not what lies somewhere inside."""
    if project is None:
        return []
    found = [os.path.join(project, PROJECT_FOLDER, kind)]
    if kind == "skills":
        found += [os.path.join(project, FOR_ALL_AGENTS), *_skills_above(project)]
    users = {config.real_path(folder) for folder in of_user(kind)}
    return [folder for folder in found if config.real_path(folder) not in users]


def is_users(project: str) -> bool:
    """Whether the folder for all that a project brings is pi's home itself."""
    return config.real_path(os.path.join(project, PROJECT_FOLDER)) == config.real_path(pi_home())


def may_bring_something(project: str) -> bool:
    """A quick look, for the many folders that only hold text."""
    names = (PROJECT_FOLDER, os.path.dirname(FOR_ALL_AGENTS), REGISTRY)
    return any(os.path.lexists(os.path.join(project, name)) for name in names)


def extensions_in(folder: str) -> list[str]:
    """By name. What begins with `_` or `.` is none: so one is put aside."""
    return _files_in(folder, EXTENSION, hidden=("_", "."))


def templates_in(folder: str) -> list[str]:
    """By name."""
    return _files_in(folder, TEMPLATE, hidden=(".",))


def _skills_above(project: str) -> list[str]:
    """Skills for all agents, up to the repository's root, of folders that are trusted themselves: who trusts
    a folder has said nothing about those above it."""
    trust = Trust()
    there = [
        folder for folder in folders_above(project) if os.path.isdir(os.path.join(folder, FOR_ALL_AGENTS))
    ]
    return [os.path.join(folder, FOR_ALL_AGENTS) for folder in there if trust.is_trusted(folder)]


def folders_above(project: str) -> list[str]:
    """The folders of its repository that it lies in, the nearest first; none outside of a repository."""
    folder = config.real_path(project)
    found: list[str] = []
    while not os.path.exists(os.path.join(folder, ".git")):
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            return []
        found.append(folder)
    return found


def _files_in(folder: str, ending: str, *, hidden: tuple[str, ...]) -> list[str]:
    with os.scandir(folder) as entries:
        names = sorted(_files(entries, ending))
    return [os.path.join(folder, name) for name in names if not name.startswith(hidden)]


def _files(entries: Iterator[os.DirEntry[str]], ending: str) -> Iterator[str]:
    for entry in entries:
        if entry.name.endswith(ending) and not _is_folder(entry):
            yield entry.name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link that leads in circles
