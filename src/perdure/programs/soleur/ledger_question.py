"""The question whose a ledger is that names no project, or one that is gone."""

from __future__ import annotations

from perdure import config
from perdure.agent.aside import in_thread
from perdure.errors import NotSaved, UsageError
from perdure.front.amounts import counted
from perdure.front.output import Styled
from perdure.front.shell import Shell
from perdure.front.visible import one_line
from perdure.programs.soleur import recorded
from perdure.programs.soleur.decisions import Decision, in_force
from perdure.programs.soleur.ledger import Ledger
from perdure.session.projects import Project
from perdure.session.stores import ledger_files
from perdure.session.stores.ledger_files import MOVED, UNCLAIMED


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
