"""Which sessions there are, from the names of files alone.

One function a layout. Each yields what stands below the folder of its sessions, as

    (name, path, status, other)

`name` is the session's id, or for pi the file name that holds it (`pi_id`); `path` the file, or a folder that
cannot be looked into, in which case `status` is None and reading it will say why; `other` is the status of a
second file that the session is read from, if it has one. A folder of sessions that is not there holds none;
one that cannot be read raises `Unreadable`.
"""

from __future__ import annotations

import errno
import os
import re
from stat import S_ISLNK

from perdure import registry
from perdure.errors import Unreadable
from perdure.session import strangers
from perdure.session.layouts import LAYOUTS, Home, refuse_strangers

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Status = os.stat_result | None
    Place = tuple[str, str, Status, Status]

_LONGEST_FOLDER = 240
_NO_NAME = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")  # what a file system cannot write
_NAME = re.compile(r"(\d{4}-\d\d-\d\dT)(\d\d)-(\d\d)-(\d\d)-(\d{3}Z)_(.+)")


def places(home: Home, folder: str = "") -> Iterator[Place]:
    """Those of a home; with `folder`, where each project has one, only those in that. OthersMayWrite, if what
    is in that home may be somebody else's."""
    refuse_strangers(home)
    if folder:
        if os.path.islink(folder):
            raise Unreadable(folder, OSError(errno.ELOOP, ""))
        return _files(_items(folder))
    listed: Callable[[str], Iterator[Place]] = registry.load(LAYOUTS[home.program].listing)
    return listed(home.sessions)


def namer(program: str) -> Callable[[str], str]:
    """What makes an id of a listed name."""
    spec = LAYOUTS[program].id_of
    return registry.load(spec) if spec else str


# --- pi: a folder a project, a file a session ------------------------------------------------------


def pi(root: str) -> Iterator[Place]:
    for item in _items(root):
        if item.name.endswith(".jsonl"):
            yield item.name, item.path, _status(item), None
        elif item.is_symlink():
            if _leads_to_a_folder(item):
                yield item.name, item.path, None, None
        elif item.is_dir(follow_symlinks=False):
            try:
                yield from _files(_items(item.path))
            except Unreadable:
                yield item.name, item.path, None, None


def _files(items: list[os.DirEntry[str]]) -> Iterator[Place]:
    for item in items:
        name = item.name
        if name[-6:] == ".jsonl":
            yield name, item.path, _status(item), None


def pi_folder(cwd: str) -> str:
    """The folder of one project's sessions: `--home-me-code--`."""
    name = re.sub(r"[/\\:]", "-", re.sub(r"^[/\\]", "", cwd))
    name = _NO_NAME.sub("-", name)
    if len(encoded := os.fsencode(name)) > _LONGEST_FOLDER:  # than a file system's names can be
        from zlib import crc32

        name = os.fsdecode(encoded[: _LONGEST_FOLDER - 9]) + f"-{crc32(encoded):08x}"
    return f"--{name}--"


def pi_id(name: str) -> str:
    return pi_name(name)[0]


def pi_name(name: str) -> tuple[str, str]:
    """A session's id and time as its file name tells them: all there is before the first entry."""
    stem = name.removesuffix(".jsonl")
    if match := _NAME.fullmatch(stem):
        day, hours, minutes, seconds, rest, id = match.groups()
        return id, f"{day}{hours}:{minutes}:{seconds}.{rest}"
    return stem, ""


# --- aurora, soleur: a file a session ---------------------------------------------------------------


def aurora(root: str) -> Iterator[Place]:
    return _flat(root, ".jsonl")


def soleur(root: str) -> Iterator[Place]:
    return _flat(root, ".json")


def _flat(root: str, suffix: str) -> Iterator[Place]:
    for item in _items(root):
        name = item.name
        if name.endswith(suffix) and name != suffix:
            yield name.removesuffix(suffix), item.path, _status(item), None


# --- sibyl: a folder a session ----------------------------------------------------------------------


def sibyl(root: str) -> Iterator[Place]:
    for item in _items(root):
        if item.name.startswith("."):
            continue  # no id begins so, and what a killed process left of a moved folder does
        if item.is_symlink():
            if _leads_to_a_folder(item):
                yield item.name, item.path, None, None  # reading it will say why not
        elif item.is_dir(follow_symlinks=False):
            path = os.path.join(item.path, "session.lisp")
            try:
                yield item.name, path, os.stat(path, follow_symlinks=False), None
            except FileNotFoundError:
                continue
            except OSError:
                yield item.name, path, None, None


# --- cortext: a folder a conversation, a folder a day -------------------------------------------------

_DEEPEST = 8  # folders above a conversation's own
_LONGEST_REGISTRY = 2**24
_CONVERSATIONS = "conversations"
_USUAL_FOLDER = b'"folder": "conversations"'


def cortext(root: str) -> Iterator[Place]:
    """In `conversations/`, and in the folders that types of conversations have for themselves."""
    seen = set()
    for folder in conversation_folders(root):
        strangers.refuse_open(os.path.join(root, folder))
        for place in _conversations(os.path.join(root, folder), ""):
            if place[1] not in seen:
                seen.add(place[1])
                yield place


def conversation_folders(root: str) -> Iterable[str]:
    """All folders of a workspace in which there may be some, named from there."""
    named = (_inside(root, each) for each in _type_folders(root).values())
    there = [each for each in named if each and os.path.isdir(os.path.join(root, each))]
    return dict.fromkeys((*there, _CONVERSATIONS))


def conversation_folder(root: str, kind: str) -> str:
    """The folder for new conversations of a type: its own, which need not be there yet, or the usual one."""
    return _inside(root, _type_folders(root).get(kind)) or _CONVERSATIONS


def refused_folder(root: str, kind: str) -> str:
    """What the registry names as a type's folder and is not used as one; empty if there is no such thing."""
    named = _type_folders(root).get(kind)
    return "" if named is None or _inside(root, named) else str(named)


def _conversations(folder: str, day: str) -> Iterator[Place]:
    """What cannot be looked into is listed all the same: reading it says why. All else is looked at from its
    folder on, which spares the system the way there."""
    try:
        here, items = _looked_into(folder)
    except FileNotFoundError:
        return
    except OSError:
        yield os.path.basename(folder), folder, None, None
        return
    try:
        for item in items:
            name = item.name
            if name[0] == "." or not (item.is_dir(follow_symlinks=False) or _leads_to_a_folder(item)):
                continue
            id = f"{day}/{name}" if day else name
            own = _stat(f"{name}/.session", here)
            if own is None:
                if not day:
                    yield from _conversations(f"{folder}/{name}", name)
            elif item.is_symlink():
                yield id, f"{folder}/{name}", None, None
            elif S_ISLNK(own.st_mode):
                yield id, f"{folder}/{name}/.session/messages.jsonl", None, None
            else:
                log = f"{name}/.session/messages.jsonl"
                yield id, f"{folder}/{log}", _stat(log, here), _stat(f"{name}/.session/session.json", here)
    finally:
        os.close(here)


def _looked_into(folder: str) -> tuple[int, list[os.DirEntry[str]]]:
    """A descriptor of it, and what is in it, by name; of a link, an error."""
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with os.scandir(here) as found:
            return here, sorted(found, key=lambda item: item.name)
    except OSError:
        os.close(here)
        raise


def _type_folders(root: str) -> dict[str, object]:
    """What the registry says of each type. Of one that cannot be read, nothing: what is in `conversations/`
    is there without it."""
    path = os.path.join(root, ".workspace", "registry.json")
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
            text = file.read(_LONGEST_REGISTRY)
    except OSError:
        return {}
    if b"\\" not in text and b"\0" not in text and text.count(b'"folder"') == text.count(_USUAL_FOLDER):
        return {}  # as nearly every registry is, and no JSON has to be loaded to see that
    import json

    try:
        kinds = json.loads(text).get("conversation_types").items()
        return {kind: each.get("folder") for kind, each in kinds if isinstance(each, dict)}
    except (ValueError, AttributeError, RecursionError):
        return {}


def _inside(root: str, name: object) -> str:
    """A folder of the registry, if it is below the workspace and neither a link nor a file is on the way."""
    if not isinstance(name, str) or name.startswith("/") or _NO_NAME.search(name):
        return ""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if not 0 < len(parts) < _DEEPEST or any(part[0] == "." for part in parts):
        return ""
    at = root
    for part in parts:
        at = os.path.join(at, part)
        if os.path.lexists(at) and (os.path.islink(at) or not os.path.isdir(at)):
            return ""
    return os.path.join(*parts)


# --- what is there ------------------------------------------------------------------------------------


def stamp(status: Status, other: Status = None) -> int:
    """One number for which file it is, its size and both its times; 0 for one that cannot be looked at."""
    if status is None:
        return 0
    more = stamp(other) if other else 0
    return hash((status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, more)) or 1


def _items(root: str) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(root))
    except FileNotFoundError:
        if os.path.islink(root):
            raise Unreadable(root, "it is a symbolic link that leads nowhere") from None
        return []
    except OSError as error:
        raise Unreadable(root, error) from error


def _leads_to_a_folder(item: os.DirEntry[str]) -> bool:
    """Whether a link does, as far as one can see: one that leads nowhere else than back may."""
    try:
        return item.is_symlink() and item.is_dir()
    except OSError:
        return True


def _status(item: os.DirEntry[str]) -> Status:
    try:
        return item.stat(follow_symlinks=False)
    except OSError:
        return None  # gone again already, or nothing to look at


def _stat(path: str, folder: int) -> Status:
    """Of a path from an open folder on."""
    try:
        return os.stat(path, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
