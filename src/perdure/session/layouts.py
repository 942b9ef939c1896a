"""Which layouts there are, where each keeps its sessions, and every such place on this machine.

Pure data and names: a command that only lists is here and in `listing`, and never in a store.
"""

from __future__ import annotations

import os
from collections import namedtuple

from perdure import config
from perdure.errors import NoHome, NotFound, OthersMayWrite, UsageError
from perdure.session import strangers

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Iterator


class Layout(
    namedtuple(
        "Layout",
        "home_variable default_home sessions store listing project shortest"
        " id_of drops marker when_dead at_rest named is_used_by_opening",
        defaults=("", frozenset(), "", "", "", False, False),
    )
):
    __slots__ = ()

    home_variable: str
    default_home: str
    sessions: str
    """The folder of its sessions, named from its home."""
    store: str
    listing: str
    """What finds them there, from names alone; see `listing`."""
    project: str
    """By what a session belongs to a project: its `folder`, its `cwd`, the `root` of its project, the `home`
    it is in; empty where it belongs to none."""
    shortest: int
    """How much of an id people need to see to recognise it."""
    id_of: str
    """What finds the id in a name, where that is not the name itself."""
    drops: frozenset[str]
    """Kinds of content the layout's own rules forbid it to keep."""
    marker: str
    """Instead of one home for each user: the nearest folder above that holds this."""
    when_dead: str
    """Where sessions record a status: what an active one is whose process is gone."""
    at_rest: str
    """And what one is that has been answered and that nobody is in."""
    named: bool
    """Whether its document has a name for a session."""
    is_used_by_opening: bool
    """Whether opening a session counts as activity, as saying something in it does."""


class Home(namedtuple("Home", "program path")):
    """A folder in which one program keeps its sessions, locks and trash."""

    __slots__ = ()

    program: str
    path: str

    @property
    def sessions(self) -> str:
        return os.path.join(self.path, LAYOUTS[self.program].sessions)


LAYOUTS = {
    "pi": Layout(
        "PI_CODING_AGENT_DIR",
        "~/.pi/agent",
        "sessions",
        "perdure.session.stores.pi_jsonl:PiStore",
        "perdure.session.listing:pi",
        "folder",
        8,
        "perdure.session.listing:pi_id",
        named=True,
    ),
    "aurora": Layout(
        "AURORA_HOME",
        "~/.aurora",
        os.path.join("spawn", "sessions"),
        "perdure.session.stores.aurora_jsonl:AuroraStore",
        "perdure.session.listing:aurora",
        "cwd",
        len("session-") + 6,
        when_dead="interrupted",
        at_rest="completed",
        is_used_by_opening=True,
    ),
    "soleur": Layout(
        "SOLEUR_HOME",
        "~/.soleur",
        "sessions",
        "perdure.session.stores.soleur_json:SoleurStore",
        "perdure.session.listing:soleur",
        "root",
        8,
    ),
    "sibyl": Layout(
        "SIBYL_HOME",
        "~/.sibyl",
        "sessions",
        "perdure.session.stores.sibyl_sexp:SibylStore",
        "perdure.session.listing:sibyl",
        "",
        len("session-20260131"),
        drops=frozenset({"system", "thinking", "usage", "model", "thinking level", "tools"}),
    ),
    "cortext": Layout(
        "",
        "",
        "",
        "perdure.session.stores.cortext_folder:CortextStore",
        "perdure.session.listing:cortext",
        "home",
        len("2026-01-31/001"),
        marker=".workspace",
        when_dead="paused",
        at_rest="paused",
        named=True,
    ),
}
_WORKSPACES = "~/.cortext/workspaces"


def layout_of(name: str) -> Layout:
    if name not in LAYOUTS:
        raise UsageError(f"Unknown layout {name!r}", f"it is one of {', '.join(LAYOUTS)}")
    return LAYOUTS[name]


def home_of(name: str) -> str:
    layout = layout_of(name)
    if layout.marker:
        return workspace_around(layout.marker).path
    return config.home(layout.home_variable, layout.default_home)


def home_to_read(name: str) -> str:
    """For what need not be there, such as settings: where the user has no home, nothing is."""
    layout = layout_of(name)
    place = config.setting(layout.home_variable) or layout.default_home
    return os.path.abspath(config.expanded_to_read(place))


def variable_of(path: str) -> str:
    """The variable that names the home that this path is in, or leads to; empty if none does."""
    for name, layout in LAYOUTS.items():
        if layout.home_variable and config.setting(layout.home_variable):
            home = home_to_read(name)
            if os.path.commonpath([home, os.path.abspath(path)]) in (home, path):
                return layout.home_variable
    return ""


def is_in_users_home(path: str) -> bool:
    """Whether a path is in the home of a program's sessions that is the user's own. A workspace is none: it
    may have come from anywhere."""
    path = os.path.abspath(path)
    homes = [home_to_read(name) for name, layout in LAYOUTS.items() if not layout.marker]
    return any(os.path.commonpath([home, path]) == home for home in homes)


def home_to_show(name: str) -> str:
    """For people, also where the user has no home."""
    layout = layout_of(name)
    return config.home_to_show(layout.home_variable, layout.default_home)


def shown_status(when_dead: str, recorded: str, *, waits: bool, is_held: bool) -> str:
    """What a listing calls a session. Who is alive is the lock's word; the rest is what was recorded, or,
    where a layout records nothing, whether the last word waits for an answer."""
    if not when_dead:
        return "active" if is_held else "interrupted" if waits else "idle"
    recorded = recorded or "active"
    return when_dead if recorded == "active" and not is_held else recorded


def refuse_strangers(home: Home) -> None:
    """OthersMayWrite, if sessions of this home may be somebody else's."""
    if (marker := LAYOUTS[home.program].marker) and (doubt := _doubt_of_workspace(home.path, marker)):
        raise doubt
    strangers.refuse_open(home.path)
    if LAYOUTS[home.program].sessions:
        strangers.refuse_open(home.sessions)


class Around(namedtuple("Around", "path passed_over")):
    """The workspace that a directory is in."""

    __slots__ = ()

    path: str
    passed_over: list[OthersMayWrite]
    """Why nearer ones do not count."""


def workspace_around(marker: str) -> Around:
    """The nearest one, from the current folder upwards, that counts; NotFound says how to make one."""
    passed_over = []
    for path in _folders_with(marker):
        if doubt := _doubt_of_workspace(path, marker):
            passed_over.append(doubt)
        else:
            return Around(path, passed_over)
    hint = f"no folder above has {marker}/; `cortext init` makes one"
    if passed_over:
        is_free = not os.path.isdir(os.path.join(config.here(), marker))
        makes = ["`cortext init` makes one here"] if is_free else []
        hint = "; ".join([*(each.message for each in passed_over), *makes])
    raise NotFound("Workspace", config.here(), hint=hint)


def _doubt_of_workspace(path: str, marker: str) -> OthersMayWrite | None:
    """Somebody else's counts only if its user has said so, by having it in the list."""
    place = os.path.join(path, marker)
    found = strangers.doubt(place)
    if not found:
        return None
    may_count = not (found.is_open or strangers.is_everybodys(path))
    if may_count and path in _listed_workspaces():
        return None
    advice = found.advice
    if may_count and _has_own_home():
        from shlex import quote

        advice = f"if it is to count: `cortext init {quote(path)}`"
    return OthersMayWrite(config.as_typed(place), found.why, advice)


def _has_own_home() -> bool:
    """Whether a list of workspaces there can be the user's. HOME may name the home of another user."""
    try:
        return strangers.is_own(config.user_home())
    except NoHome:
        return False


def _folders_with(marker: str) -> Iterator[str]:
    """From the current folder upwards."""
    try:
        at = os.getcwd()
    except OSError:
        return  # the directory this process was started in is gone
    below = ""
    while at != below:
        if os.path.isdir(os.path.join(at, marker)):
            yield at
        at, below = os.path.dirname(at), at


def homes() -> list[Home]:
    """Every home on this machine in which there may be sessions. A workspace is known by the list that
    cortext keeps, one path a line, or by being around us. Where the user has no home, only those that are
    named by their own variables are there; NoHome if none is."""
    found: dict[tuple[str, str], Home] = {}
    missing: NoHome | None = None
    for name, layout in LAYOUTS.items():
        try:
            paths = _workspaces(layout.marker) if layout.marker else [home_of(name)]
        except NoHome as error:
            missing = missing or error
            continue
        for path in paths:
            place = config.real_path(path) if layout.marker else path  # of the others there is one each
            found.setdefault((name, place), Home(name, path))
    if missing is not None and not any(LAYOUTS[home.program].home_variable for home in found.values()):
        raise missing
    return list(found.values())


def _workspaces(marker: str) -> Iterator[str]:
    """Also one of somebody else's around us that does not count: whoever lists it will say so."""
    for path in _folders_with(marker):
        yield path
        if not _doubt_of_workspace(path, marker):
            break
    for path in _listed_workspaces():
        try:
            if os.stat(os.path.join(path, marker)):
                yield path
        except (FileNotFoundError, NotADirectoryError):
            continue  # it was a workspace once
        except OSError:
            yield path  # it is one that cannot be looked at, and whoever lists it will say so


def _listed_workspaces() -> list[str]:
    """Those that the user has made or worked in. Without that list, or with one that somebody else may have
    written, there is the one around us."""
    try:
        list_file = config.expanded(_WORKSPACES)
        if strangers.doubt(list_file):
            return []
        with open(list_file, encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.strip() for line in file.read().split("\n")]
    except (OSError, NoHome):
        return []
    paths = [config.checked_path(os.path.normpath(config.expanded(line))) for line in lines if line]
    return [path for path in paths if path]
