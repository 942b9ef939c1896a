"""The clean-up that happens by itself, where the user's own config.json asks for it: at every start, in a
process of its own, one at a time. What it did is said at the next start, once; also that one was cut short,
for that is written down before the first session is moved or deleted. Where the clock is not believed
(session/last_seen.py), nothing is removed.

A start pays for looking whether the setting is there, and for two forks; whether it can be obeyed, and all
else, is found out by the process that does the work. That one belongs to nobody: it has no terminal, no
descriptor of ours, no directory that somebody may want to unmount, and no parent that would have to wait for
it. Where nothing can be written, it ends.
"""

import os
import sys
import time

from perdure import config
from perdure.errors import NoHome
from perdure.programs.aur import settings
from perdure.session.layouts import LAYOUTS, Home, home_of, homes

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from perdure.front.output import Output
    from perdure.session.stores.lock import Lock

_LOCK = os.path.join("locks", "cleanup~.lock")
"""Which is no session's: no id ends like this."""
_REPORT = "cleanup.report"
_BACK = "`pi sessions trash` lists them, `pi sessions restore ID` brings one back"
_CUT_SHORT = f"A clean-up of old sessions was cut short; it may have set some aside: {_BACK}"
_TRASH_CUT_SHORT = "A clean-up of the trash was cut short; what was in it for over 30 days may be gone"
_ASKED = settings.EXPIRY_DAYS.rpartition(".")[2].encode()
_MOST = 1 << 20
_LEAST_PRIORITY = 19
_LATER = 1.0
"""Seconds after which it begins: the start that begot it wants the processor now."""


def start(about: str, out: "Output") -> None:
    """Say what the last clean-up did, and begin one if it is wanted. `about` is the session that this call is
    about, as it was typed, which must not be taken away from under it."""
    if os.path.isfile(_report()):
        _say_report(out)
    if _is_wanted():
        _detach(about)


def _is_wanted() -> bool:
    """Whether the setting is there at all; what it says is for who obeys it."""
    try:
        return _ASKED in _read(settings.path())
    except (OSError, ValueError):
        return False


def _read(path: str) -> bytes:
    """Without waiting for a writer, should it be a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _MOST)
    finally:
        os.close(descriptor)


def _detach(about: str) -> None:
    """Twice forked: who does the work is an orphan, and whoever reaps orphans reaps it."""
    if not sys.executable or not hasattr(os, "fork"):
        return
    try:
        child = os.fork()
    except OSError:
        return  # the machine is full; another time
    if child:
        os.waitpid(child, 0)
        return
    try:
        if not os.fork():
            from perdure.agent.environment import visible

            os.setsid()
            os.nice(_LEAST_PRIORITY)
            nothing = os.open(os.devnull, os.O_RDWR)
            for each in (0, 1, 2):
                os.dup2(nothing, each)
            for each in map(int, os.listdir("/dev/fd")):
                try:
                    os.set_inheritable(each, each <= 2)
                except OSError:
                    pass  # the one by which they were listed
            time.sleep(_LATER)
            command = [sys.executable, "-X", "utf8", "-P", "-m", __name__, about, *_paths(about)]
            environment = visible(config.environment()) | _homes()  # it has no use for keys
            os.chdir(os.sep)
            os.execve(sys.executable, command, environment)
    finally:
        os._exit(0)


def _paths(about: str) -> "list[str]":
    """What it is called wherever one is, if it is called by where it lies."""
    return [os.path.abspath(about)] if os.path.lexists(about) else []


def _homes() -> "dict[str, str]":
    """The settings that say where programs keep things, so that they say the same in another directory."""
    places: dict[str, str] = {}
    try:
        places["HOME"] = config.user_home()
    except NoHome:
        pass  # what is named by its own variable is cleaned up without one
    for name, layout in LAYOUTS.items():
        if layout.home_variable and (places or config.setting(layout.home_variable)):
            places[layout.home_variable] = home_of(name)
    return places


# --- what is said at the next start ------------------------------------------------------------------------


def _lock() -> "Lock":
    """Who has it may clean up, and change the report."""
    from perdure.session.stores.lock import Lock

    return Lock(home_of("aurora"), _LOCK, "clean-up", 0)


def _report() -> str:
    return os.path.join(home_of("aurora"), _REPORT)


def _say_report(out: "Output") -> None:
    """It is removed when it has been said: whoever dies between the two has it said again, and not lost. As
    long as a clean-up is at work, it is that one's."""
    from perdure.errors import PerdureError
    from perdure.front.output import Styled
    from perdure.front.visible import one_line

    try:
        with _lock():
            for line in _reported():
                out.note(Styled(one_line(line), "dim"))
            os.unlink(_report())
    except (OSError, PerdureError):
        return  # it cannot be removed, or somebody else says it


def _reported() -> "list[str]":
    """What nobody has read yet, a line each."""
    try:
        return _read(_report()).decode(errors="replace").split("\n")[:-1]
    except (OSError, ValueError):
        return []


def _leave_report(unsaid: "Sequence[str]", done: "Sequence[str]", wrong: "Sequence[str]" = ()) -> None:
    """In place of the one that is there, of which this is still unsaid. What is wrong is said once, however
    often it was found to be."""
    from perdure.front.visible import one_line
    from perdure.session.stores import files

    wrong = [*map(one_line, wrong)]
    lines = [*(line for line in unsaid if line not in wrong), *done, *wrong]
    if lines:
        files.replace(home_of("aurora"), _REPORT, "".join(f"{line}\n" for line in lines).encode())
    elif os.path.isfile(_report()):
        os.unlink(_report())


# --- the work ----------------------------------------------------------------------------------------------


def clean_up(*about: str) -> None:
    """`about` is what the session is called that must stay, in one way or several."""
    from perdure.errors import PerdureError

    try:
        with _lock():
            _clean_up(about)
    except (OSError, PerdureError):
        return  # another one is at work, or nothing can be written here


def _clean_up(about: "Sequence[str]") -> None:
    from perdure.session import expiry, last_seen

    home = Home("aurora", home_of("aurora"))
    unsaid = _reported()
    days, wrong = _wanted_days()
    if days is None:
        _leave_report(unsaid, [], [f"No session is cleaned up: {each}" for each in wrong])
        return
    if not last_seen.judge_clock(lambda last: _leave_report(unsaid, [], [_told_leap(last)])):
        return
    is_noted = False

    def note() -> None:
        nonlocal is_noted
        if not is_noted:
            _leave_report(unsaid, [], [_CUT_SHORT])
            is_noted = True

    done = expiry.clean(home, days, spare=_path_of(about, home), before=note)
    removed = _told(len(done.removed), days)
    _leave_report(unsaid, removed, _told_problems(done.problems))
    emptied = expiry.empty_trash(
        homes(),
        before=lambda: _leave_report(unsaid, removed, [*_told_problems(done.problems), _TRASH_CUT_SHORT]),
    )
    if emptied.gone or emptied.problems:
        removed += _told_gone(len(emptied.gone))
        _leave_report(unsaid, removed, _told_problems([*done.problems, *emptied.problems]))


def _wanted_days() -> "tuple[float | None, list[str]]":
    """None if the setting says nothing, or cannot be obeyed, and then why."""
    from perdure.errors import PerdureError

    try:
        own = settings.settings()
    except PerdureError as error:
        return None, [error.said]
    misplaced = [each for each in own.notices if _ASKED.decode() in each]
    return own.values.get(settings.EXPIRY_DAYS), misplaced


def _path_of(about: "Sequence[str]", home: Home) -> str:
    """By where it lies, if it is called so, or else by its id."""
    from perdure.errors import PerdureError
    from perdure.session import reference

    for text in reversed(about):
        try:
            return reference.find(text, [home])[1].path if text else ""
        except PerdureError:
            continue
    return ""


def _told(removed: int, days: float) -> "list[str]":
    from perdure.front.amounts import counted
    from perdure.programs.aur.removing import counted_days

    if not removed:
        return []
    return [f"Set aside {counted(removed, 'session')} that nobody used for {counted_days(days)}; {_BACK}"]


def _told_gone(gone: int) -> "list[str]":
    from perdure.front.amounts import counted
    from perdure.session.trash import DAYS

    if not gone:
        return []
    return [f"Deleted {counted(gone, 'session')} for good, after over {DAYS} days in the trash"]


def _told_leap(last: "datetime") -> str:
    from perdure.session import ids

    return (
        f"Nothing was cleaned up: the clock says {ids.now():%Y-%m-%d}, after a leap from {last:%Y-%m-%d}, "
        "the last time seen before; if the clock is right, a start from tomorrow on cleans up, and "
        "`pi sessions trash --empty --days 30` empties the trash now"
    )


def _told_problems(problems: "Sequence[str]") -> "list[str]":
    from perdure.session.summary import first_of

    return [f"Not all could be cleaned up: {first_of(problems)}"] if problems else []


if __name__ == "__main__":
    clean_up(*sys.argv[1:])
