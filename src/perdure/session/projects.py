"""Which project a directory belongs to: the root of its git repository, else the directory itself.

A project is known by the full path of its root and shown by its name. Working trees of one repository share
the root of the main one. Git is not run, and nothing that is read here is obeyed: a `.git` file that points
to a repository counts only if that repository points back to it.
"""

from __future__ import annotations

import os
import stat
from collections import namedtuple

from perdure import config
from perdure.session import strangers

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST = 2**12  # bytes of a file that holds one path


class Project(namedtuple("Project", "name root")):
    __slots__ = ()

    name: str
    root: str
    """Its full path; empty where only a name is known."""

    def has(self, root: str, cwd: str, name: str) -> bool:
        """True if a session that says this of itself is one of the project's. An older one names no root: its
        directory tells, and without one it belongs to every project of its name."""
        if not root and not name:
            return False  # it is of no project, and says so
        if known := root or root_of(cwd):
            return known == self.root
        return name == self.name


def project_of(directory: str) -> Project:
    root = root_of(directory)
    return Project(os.path.basename(root), root)


def root_of(directory: str) -> str:
    """The root of the project that a directory is in; empty if that can be none. A home that is a repository
    is no project, nor are its working trees: what its user keeps in git there are settings."""
    if not config.checked_path(directory):
        return ""
    return next((root for _, root in _repositories_around(directory)), config.real_path(directory))


def tree_of(directory: str) -> str:
    """How far a link of a directory may lead: the working tree of the repository that it is in, else the
    directory itself. One that somebody else may have put above it is none, nor is one around the home."""
    home = os.path.join(config.real_path(config.expanded_to_read("~")), "")
    trees = (
        tree for tree, _ in _repositories_around(directory) if not home.startswith(os.path.join(tree, ""))
    )
    return next(
        (tree for tree in trees if not strangers.doubt(os.path.join(tree, ".git"))),
        config.real_path(directory),
    )


def _repositories_around(directory: str) -> Iterator[tuple[str, str]]:
    """The working trees that a directory is in, each with the root of its project, the nearest first."""
    at = config.real_path(directory)
    home = config.real_path(config.expanded_to_read("~"))
    while at != home:
        if (found := _repository_at(at)) and found != home:
            yield at, found
        at, below = os.path.dirname(at), at
        if at == below:
            break


def _repository_at(folder: str) -> str:
    """The root of the repository whose working tree is here; empty if there is none."""
    git = os.path.join(folder, ".git")
    try:
        status = os.lstat(git)
        if strangers.is_planted(git, status):
            return ""
        mode = status.st_mode
        if stat.S_ISDIR(mode):
            return folder if _is_repository(git) else ""
        said = _path_in(git, "gitdir: ") if stat.S_ISREG(mode) else ""
        if not said:
            return ""
        home = config.real_path(os.path.join(folder, said))
        common = _path_in(os.path.join(home, "commondir"))
        if not common:
            return folder if _is_repository(home) else ""  # a submodule
        back = os.path.join(home, _path_in(os.path.join(home, "gitdir")))
        main = config.real_path(os.path.join(home, common))
        if config.real_path(back) != git or not _is_repository(main):
            return ""
        return os.path.dirname(main) if os.path.basename(main) == ".git" else main
    except (OSError, ValueError):
        return ""


def _is_repository(home: str) -> bool:
    return os.path.lexists(os.path.join(home, "HEAD")) and os.path.isdir(os.path.join(home, "objects"))


def _path_in(file: str, beginning: str = "") -> str:
    """The path that a file of git's holds; empty if it holds none."""
    try:
        if not stat.S_ISREG(os.lstat(file).st_mode):
            return ""
        with open(file, "rb") as opened:
            text = os.fsdecode(opened.read(_LONGEST)).rstrip("\r\n")
    except FileNotFoundError:
        return ""
    return text.removeprefix(beginning) if text.startswith(beginning) else ""
