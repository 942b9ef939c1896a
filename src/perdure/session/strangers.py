"""Whether somebody else than the user may have written a file: its owner, and who may write to it, tell.

What counts belongs to the user or to root; where this process is root's, also to whoever calls sudo and to
the owner of HOME, for whom it works. A group that may write was let in by the owner, and is no stranger: many
systems give each user a group of their own and make every folder writable for it. What everybody may write to
does not count. Of a folder the sticky bit is enough: nobody can take away what is another's there, or put
their own in its place.

Where a system has no such owners, nothing is a stranger's, and on a disk that keeps no modes only owners
tell. Access lists are not looked at.
"""

from __future__ import annotations

import os
import stat
from collections import namedtuple

from perdure import config
from perdure.errors import NoHome, OthersMayWrite

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping


_FOR_EVERYBODY = {"/tmp", "/private/tmp", "/var/tmp", "/private/var/tmp", "/dev/shm"}
"""Folders that have to be open to everybody: other programs fail without."""


class Doubt(namedtuple("Doubt", "why remedy is_open is_anothers run_as")):
    """Why a file may be somebody else's word, to be put behind its name."""

    __slots__ = ()

    why: str
    remedy: str
    """The command that mends it, for the file, its folder and where it leads; empty if none does."""
    is_open: bool
    """Whether everybody may write there."""
    is_anothers: bool
    """Whether it, its folder or where it leads has another owner."""
    run_as: str
    """Whose folder it is, where root asks: it would take it away from that user. Else empty."""

    @property
    def advice(self) -> str:
        """Whether another user's word is to count is for its reader to say: nothing makes it their own."""
        if not self.is_anothers:
            return f"{self.remedy} mends that"
        steps = [self.remedy, f"run this as {self.run_as}" if self.run_as else ""]
        return f"if it is to count: {', and '.join(filter(None, steps))}"


def doubt(path: str, also: int | None = None) -> Doubt | None:
    """What there is about the file or folder at this path, the folder it is in, and, if it is a link, about
    where that leads; None if nothing is, also if nothing is there. `also` is an owner who counts here."""
    own = own_users()
    if own is None:
        return None
    own |= {also} if also is not None else set()
    found: dict[str, os.stat_result] = {}
    names: dict[str, str] = {}
    try:
        for name, at, status in _looked_at(path):
            if is_doubtful(status, own):
                found.setdefault(at, status)
                names.setdefault(at, name)
    except OSError:
        pass  # whoever reads it is told why they cannot
    if not found:
        return None
    theirs = {at: status for at, status in found.items() if status.st_uid not in own}
    openings = {at: status for at, status in found.items() if _is_open(status)}
    whose = [f"{names[at]} belongs to {_called(status.st_uid)}" for at, status in theirs.items()]
    why = ", and ".join([*whose[:1], *(f"everybody may write to {names[at]}" for at in [*openings][:1])])
    run_as = _user_to_run_as(theirs, own)
    commands: list[str] = []
    for at, status in found.items():
        commands += [_closing(at, status)] if at in openings else []
        commands += [_taking_over(at, status)] if at in theirs and not run_as else []
    remedy = f"`{' && '.join(commands)}`" if commands else ""
    return Doubt(why, remedy, bool(openings), bool(theirs), run_as)


def _looked_at(path: str) -> Iterator[tuple[str, str, os.stat_result]]:
    """The file or folder and the folder it is in, and, of a link, the same for where it leads: what each is
    called in a sentence about the file, its path, and its status."""
    is_link = stat.S_ISLNK(os.lstat(path).st_mode)
    for each in [path, config.real_path(path)] if is_link else [path]:
        folder = os.path.dirname(os.path.abspath(each))
        yield "it", each, os.lstat(each)
        yield "its folder", folder, os.stat(folder)


def refuse(path: str, also: int | None = None) -> None:
    """OthersMayWrite, if there is a doubt about a file that is obeyed."""
    if found := doubt(path, also):
        raise OthersMayWrite(config.as_typed(path), found.why, found.advice)


def refuse_open(path: str) -> None:
    """OthersMayWrite, if everybody may write to a folder in which sessions are kept. The sticky bit does not
    help there: what somebody adds would be taken for the user's."""
    try:
        status = os.stat(path)
    except OSError:
        return  # it is not there yet, or whoever opens it is told why they cannot
    if own_users() is not None and _may_everybody_write(status):
        remedy = f"`{_closing(path, status)}` mends that"
        if status.st_mode & stat.S_ISVTX:
            own = "keep sessions in a folder of your own"
            is_systems = _sudo(status) or config.real_path(path) in _FOR_EVERYBODY
            remedy = own if is_systems else f"{remedy}, or {own}"
        raise OthersMayWrite(config.as_typed(path), "everybody may write to it", remedy)


def is_everybodys(folder: str) -> bool:
    """Whether everybody may put something into a folder, with the sticky bit or without."""
    try:
        return _may_everybody_write(os.stat(folder))
    except OSError:
        return True


def own_users() -> set[int] | None:
    """Whose files count; None where the system does not tell owners."""
    try:
        user = os.geteuid()
    except AttributeError:
        return None
    return {user, 0} if user else {0, *_whom_root_works_for()}


def _whom_root_works_for() -> Iterator[int]:
    """Who has called sudo, and whose home HOME names, as after `su -m` or in a container."""
    caller = config.setting("SUDO_UID")
    if caller.isdecimal() and caller.isascii():
        yield int(caller)
    try:
        yield os.stat(config.user_home()).st_uid
    except (NoHome, OSError):
        pass  # nobody's


def is_doubtful(status: os.stat_result, own: Container[int]) -> bool:
    """For a file or folder by itself."""
    return status.st_uid not in own or _is_open(status)


def is_own(path: str) -> bool:
    """Whether a file or folder, if it is there, belongs to somebody who counts."""
    own = own_users()
    try:
        return own is None or os.stat(path).st_uid in own
    except OSError:
        return True


def _user_to_run_as(theirs: Mapping[str, os.stat_result], own: Container[int]) -> str:
    """Of other users' files and folders: the user whose folder is among them, or has one of them in it, if
    this process is root's; empty if there is none."""
    if os.geteuid() != 0:
        return ""
    folders = [status.st_uid for status in theirs.values() if stat.S_ISDIR(status.st_mode)]
    owners = [each for each in (*folders, *map(_owner_above, theirs)) if each not in own]
    return _called(owners[0]) if owners else ""


def _owner_above(path: str) -> int:
    """In whose home or other folder a path is: the owner of the nearest one above that is not root's; root,
    if all are."""
    owner, at, below = 0, os.path.dirname(os.path.abspath(path)), ""
    try:
        while not owner and at != below:
            owner = os.stat(at).st_uid
            at, below = os.path.dirname(at), at
    except OSError:
        pass  # it is gone
    return owner


def is_planted(path: str, status: os.stat_result) -> bool:
    """Whether somebody else has put it into a folder of everybody's, such as the one for temporary files."""
    own = own_users()
    is_own = own is None or status.st_uid in own
    return not is_own and is_everybodys(os.path.dirname(path))


def _is_open(status: os.stat_result) -> bool:
    is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    return not is_sticky and _may_everybody_write(status)


def _may_everybody_write(status: os.stat_result) -> bool:
    if stat.S_ISLNK(status.st_mode) or not status.st_mode & stat.S_IWOTH:
        return False  # the mode of a link says nothing
    from perdure.session.disks import keeps_modes

    return keeps_modes(status.st_dev)


def _closing(path: str, status: os.stat_result) -> str:
    return f"{_sudo(status)}chmod o-w {_quoted(path)}"


def _taking_over(path: str, status: os.stat_result) -> str:
    user = os.geteuid() or _owner_above(path)
    itself = "-h " if stat.S_ISLNK(status.st_mode) else ""  # or it would be what the link leads to
    return f"{_sudo(status)}chown {itself}{_name(user) or user} {_quoted(path)}"


def _sudo(status: os.stat_result) -> str:
    """What only root may do to another's file is said so."""
    return "" if os.geteuid() in (0, status.st_uid) else "sudo "


def _quoted(path: str) -> str:
    import shlex

    return shlex.quote(path)


def _called(user: int) -> str:
    return _name(user) or f"the user {user}"


def _name(user: int) -> str:
    """Empty if the system knows none."""
    try:
        import pwd

        return pwd.getpwuid(user).pw_name
    except (ImportError, KeyError):
        return ""
