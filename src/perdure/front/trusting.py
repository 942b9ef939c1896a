"""Whether a folder's own settings may be read: asked once, of somebody who has seen what they would allow.

Who says nothing has not said yes. Where nobody can be asked, one line says what was left aside. A folder that
only holds text costs nothing: what tells of the others is imported for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from perdure import config
from perdure.agent import places
from perdure.agent.process_origin import is_started_by_agent
from perdure.agent.trust import Trust
from perdure.errors import PerdureError
from perdure.front.output import Output, Styled
from perdure.front.visible import NARROWEST, folded, one_line

if TYPE_CHECKING:
    from perdure.agent.project import Offer, Project

_MOST_ITEMS = 12  # of a kind, for somebody who is asked
_MOST_LINES = 6  # of an item
_HEAD = "  "
_ITEM = "    "
_FURTHER = "        "  # deeper than an item, for which no text of the folder's is to be taken

Line = tuple[str | Styled, ...]


def project(cwd: str, out: Output, *, may_ask: bool) -> str | None:
    """The folder's real path, as the project that may be read, if it is trusted."""
    return config.real_path(cwd) if ask(cwd, out, may_ask=may_ask) else None


def ask(cwd: str, out: Output, *, may_ask: bool) -> bool:
    """Whether the folder is trusted. Without a decision it is not, and also not if it has nothing to offer
    yet: what comes to be there waits for a yes like anything else."""
    trust = Trust()
    decision = trust.decision(cwd)
    if decision is not None:
        return decision.is_trusted
    if not places.may_bring_something(cwd):
        return False
    from perdure.agent.project import Project

    brought = Project(cwd)
    offers = brought.offers()
    if not offers:
        return False
    if trouble := trust.trouble:
        _warn(f"{trouble}; until it is corrected or removed, no folder is trusted", out)
    elif may_ask and out.can_ask and not is_started_by_agent():
        return _is_agreed(trust, brought, offers, out)
    else:
        _warn(brought.untrusted(_program(out)), out)
    return False


def lines(offers: Iterable[Offer], columns: int = 0, *, is_brief: bool = False) -> Iterator[Line]:
    """What they allow, a group each, in so many columns if that matters; `is_brief` cuts what is long, but
    nothing that is dangerous."""
    from perdure.agent.project import DANGEROUS

    room = max(columns - len(_FURTHER), 1) if columns else 0  # 0 is for no limit
    for kind, allows, items in offers:
        first, *further = folded(f"{kind}: {allows}", room)
        yield (_HEAD, Styled(f"{kind}:", "bold"), first.removeprefix(f"{kind}:"))
        yield from ((_ITEM, line) for line in further)
        is_cut = is_brief and kind not in DANGEROUS
        for item in items[:_MOST_ITEMS] if is_cut else items:
            first, *further = folded(_cut(item, room) if is_cut else item, room)
            yield (_ITEM, first)
            yield from ((_FURTHER, line) for line in further)
        if is_cut and (more := len(items) - _MOST_ITEMS) > 0:
            yield (_ITEM, f"… and {more:,} more")


def _is_agreed(trust: Trust, brought: Project, offers: Sequence[Offer], out: Output) -> bool:
    from perdure.agent.project import summary

    folder = one_line(config.as_typed(brought.cwd))
    columns = out.note_columns
    for each in folded(f"{folder} brings more than text. If you trust it, this is used:", columns):
        out.note(each)
    for line in lines(offers, columns, is_brief=True):
        out.note(*line)
    scope = "A yes holds for this folder and everything below it, also for what comes to be there later."
    for text in (f"That is {summary(offers)}.", scope):
        for each in folded(text, columns):
            out.note(each)
    answer = out.ask(f"Trust {folder}?")
    if answer is None:
        out.note("Nothing is decided, and nothing of it is used now.")
        return False
    try:
        trust.decide(brought.cwd, answer)
    except PerdureError as error:
        _warn(f"That holds for this time only: {error.said}", out)
    else:
        change = f"{_program(out)} trust --revoke" if answer else f"{_program(out)} trust"
        out.note(f"{'Trusted' if answer else 'Not trusted'}; `{change}` changes that.")
    return answer


def _program(out: Output) -> str:
    """The one that has `trust`: what is trusted in one is trusted in all."""
    return out.program if out.program in ("pi", "perdure") else "pi"


def _warn(text: str, out: Output) -> None:
    out.note(Styled(one_line(text), "yellow"))


def _cut(item: str, columns: int) -> str:
    most = _MOST_LINES * max(columns, NARROWEST)
    return item if len(item) <= most else f"{item[:most]}… ({len(item) - most:,} more characters)"
