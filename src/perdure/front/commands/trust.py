"""`pi trust`: what a folder would be allowed, and the yes to it; every decision; and how one is taken back.

What is allowed is shown before the yes is recorded: if it cannot be shown, there is none. A yes is typed,
piped in, or `--yes`; nothing is decided without one, and none that a command of an agent gives counts.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

from perdure import config
from perdure.agent.process_origin import refuse_agent
from perdure.agent.project import Project
from perdure.agent.trust import Decision, Trust
from perdure.errors import NotFound, PerdureError, UsageError
from perdure.front.output import Output, Styled
from perdure.front.table import table
from perdure.front.trusting import lines
from perdure.front.visible import one_line
from perdure.session.layouts import home_of

_UNANSWERED = "Nothing is changed: there was no answer. --yes answers for you."


def trust(options: SimpleNamespace, out: Output) -> int:
    if options.dir == "":
        raise UsageError("DIR is empty", "leave it out for the folder you are in")
    wanted = options.dir or os.curdir
    if options.list and (options.revoke or options.dir is not None):
        raise UsageError("--list shows every decision", "leave out the folder, and --revoke")
    home_of("pi")  # where decisions are kept
    decisions = Trust()
    if trouble := decisions.trouble:
        raise PerdureError(trouble, "correct that file, or remove it; until then no folder is trusted")
    if options.list:
        return _list(decisions, out)
    return _revoke(decisions, wanted, out) if options.revoke else _trust(decisions, wanted, options, out)


def _trust(decisions: Trust, wanted: str, options: SimpleNamespace, out: Output) -> int:
    project = Project(_folder(wanted))
    offers = project.offers()
    before = decisions.decision(project.cwd)
    is_new = before is None or not before.is_trusted
    name = Styled(_typed(project.cwd), "bold")
    if not out.json:
        out.line(name, ":" if offers else ": nothing but text, so far")
        for line in lines(offers, out.columns if out.is_terminal else 0):
            out.line(*line)
        out.flush()
    is_decided = is_new and (options.yes or not out.json)
    if is_decided:
        refuse_agent("trusted")
        # Who types this in a folder that brings nothing has seen that.
        if not (options.yes or (out.can_ask and not offers)):
            answer = out.ask(f"Trust {one_line(_typed(project.cwd))}, and everything below it?")
            if not answer:
                out.note("Nothing is changed." if answer is False else _UNANSWERED)
                return int(answer is None)
        decisions.decide(project.cwd, True)
    now = decisions.decision(project.cwd)
    if out.json:
        shown = [{"kind": each.kind, "allows": each.allows, "items": each.items} for each in offers]
        out.data(_facts(project.cwd, now) | {"new": is_decided, "offers": shown})
    elif is_new:
        out.line(name, " is trusted now, with everything below it, also what comes to be there later.")
    else:
        by = f", because {_typed(before.path)} is" if before and before.path != project.cwd else ""
        out.line(name, f" was trusted already{by}.")
    return 0


def _list(decisions: Trust, out: Output) -> int:
    found = sorted(decisions.all().items())
    if out.json:
        out.data([{"path": path, "trusted": it, "exists": os.path.isdir(path)} for path, it in found])
    elif found:
        rows = [
            (_word(it), f"{config.as_typed(path)}{'' if os.path.isdir(path) else ' (gone)'}")
            for path, it in found
        ]
        table(out, ("DECISION", "FOLDER"), rows, flexible=1)
    else:
        out.note(f"No folder is trusted or refused; `{out.program} trust` trusts the one you are in.")
    return 0


def _revoke(decisions: Trust, wanted: str, out: Output) -> int:
    """What is left afterwards is no trust, also not that of a folder above."""
    path = config.real_path(config.expanded(wanted))
    own = decisions.all().get(path)
    if own is None:
        _folder(wanted)  # one that is gone can be revoked, one that never was cannot
    parent = os.path.dirname(path)
    above = decisions.decision(parent) if parent != path else None
    is_covered = above is not None and above.is_trusted
    is_nothing = own is False if is_covered else own is None
    if not is_nothing:
        refuse_agent("revoked")
        decisions.decide(path, False if is_covered else None)
    if out.json:
        out.data(_facts(path, decisions.decision(path)) | {"new": not is_nothing})
        return 3 if is_nothing else 0
    name = Styled(_typed(path), "bold")
    whose = f"{_typed(above.path)} is {_word(above.is_trusted).text}" if above is not None else ""
    if is_nothing:
        why = "refused already" if own is False else f"not trusted, as {whose}" if whose else "not trusted"
        out.note("Nothing to revoke: ", name, f" is {why}.")
        return 3
    if is_covered:
        out.line(name, f" is refused from now on, although {whose}.")
    else:
        rest = f"but {whose}, and so is all below" if whose else "and nothing is decided about it"
        out.line(name, f" is no longer {_word(bool(own)).text}, {rest}.")
    return 0


def _folder(wanted: str) -> str:
    path = config.expanded(wanted)
    if os.path.isdir(path):
        return path
    if os.path.lexists(path):
        raise UsageError(f"{one_line(wanted)} is no folder", "trust is given to folders")
    raise NotFound("Folder", one_line(wanted), hint="name one that is there")


def _facts(path: str, decision: Decision | None) -> dict[str, Any]:
    is_trusted = decision is not None and decision.is_trusted
    return {"path": path, "trusted": is_trusted, "by": decision.path if decision else None}


def _typed(path: str) -> str:
    return one_line(config.as_typed(path))


def _word(is_trusted: bool) -> Styled:
    return Styled("trusted", "green") if is_trusted else Styled("refused", "yellow")
