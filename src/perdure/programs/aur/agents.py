"""Who can be talked with: Markdown prompts, by the names of their files.

They lie in `agents` of the user's home, and in `.aurora/agents` of the directory that is worked in. Of a
project they are prompt text and nothing else, so they are read whether it is trusted or not. But none takes
the place of the user's own, or of `default`, which is always there, and none is a link that leads out of the
project.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from perdure import config
from perdure.agent import frontmatter
from perdure.errors import PerdureError, UsageError
from perdure.front.command_line import did_you_mean, quoted
from perdure.session import layouts

DEFAULT = "default"
_FOLDER = "agents"
_ENDING = ".md"
_MOST = 64 * 1024
_MOST_TOLD = 100


class Agent(NamedTuple):
    name: str
    prompt: str
    """What is added to the usual prompt."""
    about: str = ""
    """What its file says of it, on one line."""


def known(cwd: str) -> dict[str, str]:
    """Their files by their names; empty for what is built in."""
    own = os.path.join(layouts.home_of("aurora"), _FOLDER)
    theirs = os.path.join(cwd, ".aurora", _FOLDER)
    found = {DEFAULT: "", **dict(_files_in(own))}
    if os.path.realpath(theirs) != os.path.realpath(own):
        inside = os.path.join(os.path.realpath(cwd), "")
        for name, path in _files_in(theirs):
            if os.path.realpath(path).startswith(inside):
                found.setdefault(name, path)
    return dict(sorted(found.items()))


def here() -> list[str]:
    """The names of those that can be talked with in this directory."""
    return [*known(config.here())]


def find(name: str, cwd: str) -> Agent:
    there = known(cwd)
    if name not in there:
        listed = f"there {'are' if there.keys() - {DEFAULT} else 'is'} {', '.join(there)}"
        raise UsageError(f"There is no agent {quoted(name)}{did_you_mean(name, there)}", listed)
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


def _files_in(folder: str) -> Iterator[tuple[str, str]]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return  # there are none
    for file in names:
        name = file.removesuffix(_ENDING)
        path = os.path.join(folder, file)
        if name != file and frontmatter.can_be_typed(name) and name[0] != "." and os.path.isfile(path):
            yield name, path
