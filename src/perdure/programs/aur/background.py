"""The clean-up that happens by itself, where the user's own config.json asks for it: at every start, in a
process of its own, one at a time. What it did is said at the next start, once.

A start pays for looking whether the setting is there, and for two forks; whether it can be obeyed, and all
else, is found out by the process that does the work. That one belongs to nobody: it has no terminal, no
descriptor of ours, and no parent that would have to wait for it. Where nothing can be written, it ends.
"""

import os
import sys
import time

from perdure.programs.aur import settings
from perdure.session.layouts import Home, home_of, homes

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from perdure.front.output import Output
    from perdure.session.expiry import Cleaned

_LOCK = os.path.join("locks", "cleanup~.lock")
"""Which is no session's: no id ends like this."""
_REPORT = "cleanup.report"
_ASKED = settings.EXPIRY_DAYS.rpartition(".")[2].encode()
_MOST = 1 << 20
_LEAST_PRIORITY = 19
_LATER = 1.0
"""Seconds after which it begins: the start that begot it wants the processor now."""


def start(about: str, out: "Output") -> None:
    """Say what the last clean-up did, and begin one if it is wanted. `about` is the session that this call is
    about, as it was typed, which must not be taken away from under it."""
    said = _take_report()
    if said:
        from perdure.front.output import Styled
        from perdure.front.visible import one_line

        for line in said:
            out.note(Styled(one_line(line), "dim"))
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
            os.execv(sys.executable, [sys.executable, "-P", "-m", __name__, about])
    finally:
        os._exit(0)


# --- what is said at the next start ------------------------------------------------------------------------


def _report() -> str:
    return os.path.join(home_of("aurora"), _REPORT)


def _take_report() -> "list[str]":
    """The lines of it, for one alone: who renames it has it."""
    mine = f"{_report()}.{os.getpid()}"
    try:
        os.rename(_report(), mine)
        text = _read(mine)
        os.unlink(mine)
    except (OSError, ValueError):
        return []
    return text.decode(errors="replace").split("\n")[:-1]


def _leave_report(home: str, lines: "list[str]") -> None:
    """Before what nobody has read yet of an earlier one."""
    from perdure.session.stores import files

    before = [line for line in _take_report() if line not in lines]
    if lines or before:
        text = "".join(f"{line}\n" for line in (*before, *lines))
        files.replace(home, _REPORT, text.encode(), sync=False)


# --- the work ----------------------------------------------------------------------------------------------


def clean_up(about: str) -> None:
    from perdure.errors import PerdureError
    from perdure.session import expiry
    from perdure.session.stores.lock import Lock

    home = Home("aurora", home_of("aurora"))
    try:
        with Lock(home.path, _LOCK, "clean-up", 0):
            try:
                days = settings.settings().values.get(settings.EXPIRY_DAYS)
            except PerdureError as error:
                _leave_report(home.path, [f"No session is cleaned up: {error.said}"])
                return
            if days is not None:
                done = expiry.clean(home, days, spare=_path_of(about, home))
                _leave_report(home.path, _told(done, days))
                expiry.empty_trash(homes())
    except PerdureError:
        return  # another one is at work, or nothing can be written here


def _path_of(about: str, home: Home) -> str:
    from perdure.errors import PerdureError
    from perdure.session import reference

    try:
        return reference.find(about, [home])[1].path if about else ""
    except PerdureError:
        return ""


def _told(done: "Cleaned", days: float) -> "list[str]":
    from perdure.front.amounts import counted
    from perdure.programs.aur.removing import counted_days

    if not done.removed:
        return []
    back = "`pi sessions trash` lists them, `pi sessions restore ID` brings one back"
    return [
        f"Set aside {counted(len(done.removed), 'session')} that nobody used for {counted_days(days)}; {back}"
    ]


if __name__ == "__main__":
    clean_up(*sys.argv[1:2])
