"""Which project a call of soleur is about, and whose a ledger is that does not say so."""

from __future__ import annotations

import os
from collections.abc import Iterable

from perdure import config
from perdure.agent.aside import in_thread
from perdure.errors import Ambiguous, NotFound, NotSaved, UsageError
from perdure.front.amounts import counted
from perdure.front.output import Styled
from perdure.front.shell import Shell
from perdure.front.visible import one_line
from perdure.programs.soleur import ledger_files, recorded
from perdure.programs.soleur.decisions import Decision, in_force
from perdure.programs.soleur.ledger import Ledger
from perdure.programs.soleur.ledger_files import MOVED, UNCLAIMED
from perdure.session.catalog import Catalog, Scope
from perdure.session.layouts import Home
from perdure.session.projects import Project, project_of, root_of
from perdure.session.stores import Header


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
    scope = Scope((Home("soleur", home),))
    with Catalog() as catalog:
        catalog.catch_up(scope)
        said = {(row.root, row.cwd, row.project) for row in catalog.rows(scope)}
    moved = ledger_files.moved(home)
    every = {root or (root_of(cwd) if cwd else "") for root, cwd, _ in said}
    roots = {moved.get(root, root) for root in every}
    found = {Project(os.path.basename(root), root) for root in roots if root}
    found |= {Project(name, "") for root, cwd, name in said if name and not root and not cwd}
    found |= {Project(file.project, file.root) for file in ledger_files.ledger_files(home)}
    return without_twins(found)


def without_twins(projects: Iterable[Project]) -> list[Project]:
    """What has only a name is the project of that name, where there is exactly one."""
    every = set(projects)
    rooted = [each.name for each in every if each.root]
    return sorted(each for each in every if each.root or rooted.count(each.name) != 1)


def named(text: str, projects: Iterable[Project]) -> Project:
    """The project of that name, or of that root."""
    path = config.expanded_to_read(text)
    if os.path.isabs(path) and (found := [each for each in projects if each.root == os.path.realpath(path)]):
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


async def settle(shell: Shell, home: str, project: Project) -> None:
    """Ask whose a ledger is that names no project, or one that is gone; where nobody can be asked, say that
    nothing is added to it."""
    try:
        ledger = await in_thread(Ledger, home, project)
    except UsageError:
        return  # it has none
    if ledger.whose not in (UNCLAIMED, MOVED):
        return
    path = config.as_typed(ledger.path)
    if not shell.out.can_ask:
        why = "is of a project that is gone" if ledger.whose == MOVED else "names no project"
        said = f"{path} {why}: nothing is added to it here. At a terminal, `soleur` asks whose it is."
        return shell.face.note(Styled(one_line(said), "yellow"))
    root = config.as_typed(project.root)
    if ledger.whose == MOVED:
        roots = await in_thread(lambda: {each.stem: each.root for each in ledger_files.ledger_files(home)})
        former = config.as_typed(roots.get(ledger.stem, ""))
        question = f"{path} is the ledger of {former}, which is gone. Was that moved to {root}?"
    else:
        lines = await in_thread(ledger.read)
        count = counted(len(lines or ()), "decision")
        question = f"{path} ({count}) names no project. Is it the ledger of {root}?"
    is_own = await shell.ask(one_line(question))
    try:
        if is_own:
            await in_thread(ledger.claim)
        elif is_own is not None:
            await in_thread(lambda: ledger.leave(_decided_in(home, project)))
    except NotSaved as error:  # it is asked again the next time
        shell.face.note(Styled(one_line(error.said), "yellow"))


def _decided_in(home: str, project: Project) -> list[Decision]:
    """What the sessions of the project have decided, as far as it is in force."""
    every = recorded.of_project(home, project, beside="")
    return in_force(every.decisions, every.withdrawn)
