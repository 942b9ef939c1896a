"""`search`: sessions by what was said in them, the best match first, and the command that opens each."""

from __future__ import annotations

import re
import shlex
import time

from perdure import config
from perdure.errors import UsageError
from perdure.front.ages import ago, seconds
from perdure.front.output import Copyable, Styled
from perdure.front.visible import fit, one_line, width
from perdure.session.catalog import Catalog, Scope, stamp
from perdure.session.query import MARK, UNMARK

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from types import SimpleNamespace

    from perdure.front.output import Output
    from perdure.session.catalog import Hit

_SECONDS = {"h": 3600, "d": 86_400, "w": 7 * 86_400, "m": 30 * 86_400, "y": 365 * 86_400}
_MARKED = re.compile(f"{MARK}([^{UNMARK}]*){UNMARK}")
_NOT_FOUND = 3
_NARROWEST = 16  # columns of a title


def search(options: SimpleNamespace, out: Output) -> int:
    words = _query(options.query)
    since = _since(options.since)
    scope = (Scope.everything() if options.all else Scope.project(config.here())).of(options.program)
    with Catalog() as catalog:
        with out.progress("Reading sessions") as progress:
            problems = catalog.catch_up(scope, progress.update, text=True)
        found = catalog.search(scope, words, role=options.role, since=since, limit=options.limit)
        in_part = catalog.count_in_part(scope)
        for problem in (*problems, *([catalog.notice] if catalog.notice else ())):
            out.note(Styled(problem, "yellow"))
        if out.json:
            out.data([_facts(hit, out.program) for hit in found.hits])
        else:
            for number, hit in enumerate(found.hits):
                if number:
                    out.line()
                _show(out, hit, catalog.short(hit.row) if out.is_terminal else hit.row.id)
    if in_part:
        from perdure.front.amounts import counted

        whose = "its" if in_part == 1 else "their"
        sessions = counted(in_part, "large session")
        out.note(f"Of {sessions} only {whose} beginning and {whose} end were searched.")
    where = "" if options.all else " in this project"
    if not found.hits:
        more = "" if options.all else f"; `{out.program} sessions search --all` looks in all of them"
        out.note(f"Nothing found{where}{more}.")
        return _NOT_FOUND
    shown, total = len(found.hits), f"{found.sessions:,}"
    if not found.is_all:
        out.note(
            f"{shown} of at least {total} sessions shown, by the newest messages; --limit 0 looks at all."
        )
    elif shown < found.sessions:
        out.note(f"{shown} of {total} sessions shown; --limit 0 shows all of them.")
    return 0


def _query(words: list[str]) -> str:
    """A word of the command line that holds blanks was quoted there, and is a phrase, unless it has quotes of
    its own: `search "token refresh"` and `search '"token refresh" expir*'` both mean what they say."""
    return " ".join(f'"{word}"' if re.search(r"\s", word) and '"' not in word else word for word in words)


def _since(text: str) -> int:
    """Milliseconds since 1970; 0 for always."""
    if not text:
        return 0
    if age := re.fullmatch(r"(\d{1,6})\s*([hdwmy])", text.strip().lower()):
        then: float | None = time.time() - int(age[1]) * _SECONDS[age[2]]
    else:
        then = seconds(text)
    if then is None:
        hint = "an age such as 2h, 3d, 2w, 6m, 1y, or a day such as 2026-01-31"
        raise UsageError(f"Not a time: {text!r:.40}", f"--since takes {hint}")
    return max(0, int(then * 1000))


def _show(out: Output, hit: Hit, id: str) -> None:
    row = hit.row
    called, age, title = f"{row.program}:{id}", ago(row.active / 1000), one_line(row.title) or "-"
    if out.is_terminal:
        title = fit(title, max(_NARROWEST, out.columns - width(called) - width(age) - 4))
    out.line(Styled(called, "cyan"), "  ", Styled(title, "bold"), Styled(f"  {age}", "dim"))
    out.line("  ", Styled(f"{hit.role}: ", "dim"), *_marked(hit.snippet, out.colour))
    out.line("  ", Copyable(_command(hit, id, out.program), "dim"))


def _marked(snippet: str, colour: bool) -> list[str | Styled]:
    """The words that match in colour; where there is none, in brackets."""
    parts = [one_line(part) for part in _MARKED.split(snippet)]
    marked = "{}" if colour else "[{}]"
    return [Styled(marked.format(part), "match") if at % 2 else part for at, part in enumerate(parts)]


def _command(hit: Hit, id: str, program: str) -> str:
    """A title that matches is shown with all there is."""
    words = [program, "sessions", "show", f"{hit.row.program}:{id}"]
    if hit.entry:
        words += ["--entry", hit.entry]
    return shlex.join(words)


def _facts(hit: Hit, program: str) -> dict[str, object]:
    return {
        **hit.row.facts,
        "entry": hit.entry,
        "role": hit.role,
        "said": stamp(hit.at),
        "snippet": hit.snippet.replace(MARK, "").replace(UNMARK, ""),
        "matches": _MARKED.findall(hit.snippet),
        "command": _command(hit, hit.row.id, program),
    }
