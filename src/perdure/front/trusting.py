"""Whether a folder's own settings may be read: asked once, of somebody who has seen what they would allow.

Who says nothing has not said yes. Where nobody can be asked, one line says what was left aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from perdure import config
from perdure.agent.project import Offer, Project, summary
from perdure.agent.trust import Trust
from perdure.errors import PerdureError
from perdure.front.output import Output, Styled
from perdure.front.visible import one_line, width

_MOST_ITEMS = 12  # of a kind, for somebody who is asked
_MOST_LINES = 6  # of an item
_NARROWEST = 20
_HEAD = "  "
_ITEM = "    "
_FURTHER = "        "  # deeper than an item, for which no text of the folder's is to be taken

Line = tuple[str | Styled, ...]


def ask(cwd: str, out: Output, *, may_ask: bool) -> bool:
    """Whether the folder is trusted. Without a decision it is not, and also not if it has nothing to offer
    yet: what comes to be there waits for a yes like anything else."""
    trust = Trust()
    decision = trust.decision(cwd)
    if decision is not None:
        return decision.is_trusted
    project = Project(cwd)
    offers = project.offers()
    if not offers:
        return False
    if trouble := trust.trouble:
        _warn(f"{trouble}; until it is corrected or removed, no folder is trusted", out)
    elif may_ask and out.can_ask:
        return _is_agreed(trust, project, offers, out)
    else:
        _warn(project.untrusted(out.program), out)
    return False


def lines(offers: Iterable[Offer], columns: int = 0, *, is_brief: bool = False) -> Iterator[Line]:
    """What they allow, a group each, in so many columns if that matters; `is_brief` cuts what is long."""
    room = columns - len(_FURTHER) if columns else 0
    for kind, allows, items in offers:
        first, *further = _folded(f"{kind}: {allows}", room)
        yield (_HEAD, Styled(f"{kind}:", "bold"), first.removeprefix(f"{kind}:"))
        yield from ((_ITEM, line) for line in further)
        for item in items[:_MOST_ITEMS] if is_brief else items:
            first, *further = _folded(_cut(item, room) if is_brief else item, room)
            yield (_ITEM, first)
            yield from ((_FURTHER, line) for line in further)
        if is_brief and (more := len(items) - _MOST_ITEMS) > 0:
            yield (_ITEM, f"… and {more:,} more")


def _is_agreed(trust: Trust, project: Project, offers: Sequence[Offer], out: Output) -> bool:
    folder = one_line(config.as_typed(project.cwd))
    out.note(f"{folder} brings more than text. If you trust it, this is used:")
    for line in lines(offers, out.note_columns, is_brief=True):
        out.note(*line)
    scope = "A yes holds for this folder and everything below it, also for what comes to be there later."
    for text in (f"That is {summary(offers)}.", scope):
        for folded in _folded(text, out.note_columns):
            out.note(folded)
    answer = out.ask(f"Trust {folder}?")
    if answer is None:
        out.note("Nothing is decided, and nothing of it is used now.")
        return False
    try:
        trust.decide(project.cwd, answer)
    except PerdureError as error:
        _warn(f"That holds for this time only: {error.said}", out)
    else:
        change = f"{out.program} trust --revoke" if answer else f"{out.program} trust"
        out.note(f"{'Trusted' if answer else 'Not trusted'}; `{change}` changes that.")
    return answer


def _warn(text: str, out: Output) -> None:
    out.note(Styled(one_line(text), "yellow"))


def _cut(item: str, columns: int) -> str:
    most = _MOST_LINES * max(columns, _NARROWEST)
    return item if len(item) <= most else f"{item[:most]}… ({len(item) - most:,} more characters)"


def _folded(text: str, columns: int) -> list[str]:
    """On lines of so many columns, between words where there are some; on one, if no number is given."""
    text = one_line(text)
    columns = max(columns, _NARROWEST) if columns else width(text)
    if width(text) <= columns:
        return [text]
    found = [""]
    for word in text.split(" "):
        if found[-1] and width(f"{found[-1]} {word}") <= columns:
            found[-1] += f" {word}"
            continue
        found += [""] if found[-1] else []
        while width(word) > columns:
            length = columns
            while width(word[:length]) > columns:
                length -= 1
            found[-1:] = [word[:length], ""]
            word = word[length:]
        found[-1] = word
    return found
