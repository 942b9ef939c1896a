"""Whose a file is. A file that is replaced stays its owner's, with its group, its mode and its access list;
where that cannot be, the save is refused. What root makes in another user's folder belongs to that user, who
could not read, write or lock it otherwise.

Only what this process has just made is given away, and by its descriptor: whoever owns a folder may put
anything in place of a name.
"""

from __future__ import annotations

import contextlib
import os
import stat

from perdure.errors import OwnerNotKept

_ACCESS_LIST = "system.posix_acl_access"


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def keep(made: int, before: os.stat_result, path: str = "") -> bool:
    """Give a new file the owner, group and mode of the one that it is to replace, and the access list of the
    one at `path`, or none: its folder may have given it one. Returns whether anything had to be changed.
    OwnerNotKept if the owner cannot be kept, or a group that may do something with the file."""
    if not hasattr(os, "fchown"):
        return False
    own, mode = os.fstat(made), stat.S_IMODE(before.st_mode) & 0o777  # it runs as nobody else
    access_list = _access_list(path) if path and mode & 0o070 else b""  # whose limit are the group's bits
    is_list_removed = not access_list and _remove_access_list(made)
    if own.st_uid != before.st_uid:
        try:
            os.fchown(made, before.st_uid, before.st_gid)
        except OSError as error:
            raise OwnerNotKept(_user(before.st_uid), _user(own.st_uid)) from error
    elif own.st_gid != before.st_gid:
        try:
            os.fchown(made, -1, before.st_gid)
        except OSError as error:
            if mode & 0o070:
                raise OwnerNotKept(_group(before.st_gid), _group(own.st_gid), is_group=True) from error
    elif not access_list and stat.S_IMODE(own.st_mode) == mode:
        return is_list_removed
    if access_list:
        os.setxattr(made, _ACCESS_LIST, access_list)  # which contains the mode
    else:
        os.fchmod(made, mode)
    return True


def _access_list(file: str | int) -> bytes:
    """See acl(5), as the kernel keeps it; empty if there is none, or the file system has no such lists."""
    if not hasattr(os, "getxattr"):
        return b""
    try:
        return os.getxattr(file, _ACCESS_LIST, follow_symlinks=isinstance(file, int))
    except OSError:
        return b""


def _remove_access_list(made: int) -> bool:
    """Whether there was one."""
    if not _access_list(made):
        return False
    os.removexattr(made, _ACCESS_LIST)
    return True


def give_to_owner_of(folder: int, made: int) -> None:
    """Give what root has just made in a folder to the folder's owner. Where the disk does not let root do it,
    it stays as it is."""
    if is_root():
        with contextlib.suppress(OSError):
            whose = os.fstat(folder)
            if whose.st_uid:
                os.fchown(made, whose.st_uid, whose.st_gid)


def is_given_away(made: int) -> bool:
    """Whether a file that root has made is another user's."""
    return is_root() and os.fstat(made).st_uid != 0


def _user(uid: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return f"user {uid}"


def _group(gid: int) -> str:
    try:
        import grp

        return grp.getgrgid(gid).gr_name
    except (ImportError, KeyError):
        return f"group {gid}"
