"""Where things live and how they are set: argument, then environment, then default.

The only module that reads the environment, and it does so when asked, never at import.
"""

from __future__ import annotations

import errno
import os

from perdure.errors import NoHome, PerdureError, UsageError


def user_home() -> str:
    """The user's home directory. NoHome where HOME is empty or names none: `expanduser` makes `/` of that."""
    if os.environ.get("HOME") == "":
        raise NoHome("HOME is empty")
    found = os.path.expanduser("~")
    if found == "~":
        raise NoHome("HOME is not set")
    if not os.path.isdir(found):
        raise NoHome(f"{found} is not a directory")
    return os.path.abspath(found)


def expanded(path: str) -> str:
    """A path as somebody typed it, with their home in place of `~`. NoHome where there is none."""
    if path == "~" or path.startswith("~/"):
        return os.path.join(user_home(), path[2:])
    try:
        return os.path.expanduser(path)
    except ValueError:
        return path  # no user has such a name


LONGEST_PATH = 4095
"""Bytes of a path that Linux takes; other systems take fewer."""


def checked_path(text: object) -> str:
    """An absolute path that a file names, if the system can take it as a path; else empty.

    What somebody wrote into a file may have a NUL character or a lone surrogate, which calls of the system
    answer with errors that are no OSError, or it may be no text at all. No such value reaches one.
    """
    if not isinstance(text, str) or "\0" in text or not os.path.isabs(text):
        return ""
    try:
        return text if len(os.fsencode(text)) <= LONGEST_PATH else ""
    except UnicodeEncodeError:
        return ""


def real_path(path: str) -> str:
    """Where a path leads, links followed; the path itself, made absolute, where the system cannot follow it;
    as it is, where the directory is gone that it is relative to.

    The system follows 40 links. `os.path.realpath` follows any number, up to Python 3.12 by a call of itself
    for each, and a folder may bring a chain of thousands. It also asks of each step of a path, which takes
    minutes for a text of some megabytes.
    """
    try:
        plain = os.path.abspath(path)
    except OSError:  # the current directory is gone
        return path
    try:
        found = os.path.realpath(path) if len(path) <= LONGEST_PATH else plain
        return plain if found != plain and _are_too_many_links(path) else found
    except (OSError, RecursionError, ValueError):  # the first, of a link that went away meanwhile
        return plain


def _are_too_many_links(path: str) -> bool:
    try:
        os.stat(path)
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def expanded_to_read(path: str) -> str:
    """The same for what need not be there, such as settings: where there is no home, a path at which nothing
    can be."""
    try:
        return expanded(path)
    except NoHome:
        return os.path.join(os.devnull, "no-home", path[2:])


def home(variable: str, default: str) -> str:
    """A program's home directory: its environment override, or its usual place under HOME, which has to be
    there."""
    try:
        return os.path.abspath(expanded(os.environ.get(variable) or default))
    except NoHome as error:
        raise NoHome(error.cause, variable) from None


def home_to_show(variable: str, default: str) -> str:
    """The same for people, also where there is no home."""
    try:
        return as_typed(home(variable, default))
    except NoHome:
        return default


def setting(name: str, default: str = "") -> str:
    """What the environment says of `name`, also if that is empty; else the default."""
    return os.environ.get(name, default)


def environment(**settings: str) -> dict[str, str]:
    """The environment for a program that we start: ours, with these settings."""
    return os.environ | settings


def cache(name: str) -> str:
    """A file that may be deleted at any moment, and is then made again. NoHome where there is no place for
    it."""
    root = os.environ.get("XDG_CACHE_HOME") or ""
    root = root if os.path.isabs(root) else expanded("~/.cache")
    return os.path.join(root, "perdure", name)


def as_typed(path: str) -> str:
    """A path as its user would type it: what is in their home begins with `~`."""
    try:
        own = user_home().rstrip(os.sep)
    except NoHome:
        return path
    return f"~{path[len(own) :]}" if own and f"{path}{os.sep}".startswith(f"{own}{os.sep}") else path


def directory(path: str | os.PathLike[str]) -> str:
    """The absolute path of a directory to work in, which is there; UsageError if it is not."""
    try:
        at = os.path.abspath(expanded(os.fspath(path)))
        os.stat(os.path.join(at, ""))  # which is none of a file
        return at
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"Cannot work in {os.fspath(path)!r}: {why}", "give a directory that exists"
        ) from None


def here() -> str:
    """The directory this process is in."""
    try:
        return os.getcwd()
    except OSError:
        raise PerdureError("The current directory is gone", "go to another one, and try again") from None
