"""Which project a call of soleur is about."""

from __future__ import annotations

import os
from collections.abc import Iterable

from perdure import config
from perdure.errors import Ambiguous, NotFound
from perdure.front.visible import one_line
from perdure.programs.soleur import recorded
from perdure.session.projects import Project, project_of, root_of
from perdure.session.stores import Header, ledger_files


def of_session(home: str, header: Header, here: Project) -> Project:
    """The project of a session that is opened here: an older one that has only a name is this project's, if
    that has the same name."""
    project = recorded.project_in(header, ledger_files.moved(home))
    return here if not project.root and project.name == here.name else project


def chosen(home: str, name: str | None, cwd: str) -> Project:
    """The project that is named, else that of the directory."""
    return project_of(cwd) if name is None else named(name, known_projects(home))


def known_projects(home: str) -> list[Project]:
    """Those with a session or a ledger."""
    said = {(each.root, each.cwd, each.project) for each in recorded.sessions(home)}
    moved = ledger_files.moved(home)
    every = {(root or root_of(cwd), name) for root, cwd, name in said}
    roots = {moved.get(root, root) for root, _ in every}
    found = {Project(os.path.basename(root), root) for root in roots if root}
    found |= {Project(name, "") for root, name in every if name and not root}
    found |= {Project(file.project, file.root) for file in ledger_files.ledger_files(home)}
    return without_twins(found)


def without_twins(projects: Iterable[Project]) -> list[Project]:
    """What has only a name is the project of that name, where there is exactly one."""
    every = set(projects)
    rooted = [each.name for each in every if each.root]
    return sorted(each for each in every if each.root or rooted.count(each.name) != 1)


def named(text: str, projects: Iterable[Project]) -> Project:
    """The project of that name, or of that root."""
    path = config.checked_path(config.expanded_to_read(text))
    if path and (found := [each for each in projects if each.root == config.real_path(path)]):
        return found[0]
    ledger_files.check_project(text)
    found = [each for each in projects if each.name == text]
    if len(found) > 1:
        raise Ambiguous(text, [config.as_typed(each.root) or each.name for each in found], "projects")
    if not found:
        names = sorted({each.name for each in projects if each.name})
        hint = f"there are {', '.join(names)}" if names else "none is known yet; leave out --project"
        raise NotFound("Project", text, hint=one_line(hint))
    return found[0]
