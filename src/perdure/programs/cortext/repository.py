"""A conversation in git: its folder as it is on disk, on the current branch, and nothing else with it.

A commit is put together from its parts, so that no program of the repository's runs and nobody's work is
touched: the files as blobs, trees from them and from HEAD's, the commit, and the branch, which moves only if
it is where it was. The index gets the same entries for these paths alone, and first: whoever is killed in
between leaves them staged, and the next commit has them. The other way round, the user's own next commit
would delete the conversation. Each of these is on the disk before the next, as a power cut would otherwise
leave a branch that leads nowhere.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from io import FileIO
from typing import IO, NamedTuple

from perdure import config
from perdure.errors import Held, NotSaved, Unreadable
from perdure.programs.cortext import index_file
from perdure.programs.cortext.git import (
    Failed,
    Git,
    NotCommitted,
    explained,
    in_the_way,
)
from perdure.programs.cortext.object_store import AT_ONCE, ObjectStore, as_file
from perdure.programs.cortext.own_locks import OwnLocks
from perdure.programs.cortext.prompt_file import PROMPTS
from perdure.programs.cortext.syncing import sync
from perdure.programs.cortext.trees import (
    FILE,
    LINK,
    PROGRAM,
    SUBMODULE,
    TREE,
    Item,
    blobs_of,
    data_of,
    entries_of,
    grown,
)
from perdure.session.git_exclude import keep_out
from perdure.session.stores import files
from perdure.session.stores.lock import Lock

__all__ = [
    "Commit",
    "EnclosingRepository",
    "NotCommitted",
    "alone",
    "commit",
    "enclosing",
    "keep_own_out",
    "told",
]

_OWN = ".session"
_LOCKS = os.path.join(".workspace", "locks")
_KEPT_OUT = [_LOCKS, os.path.join(".workspace", "trash"), PROMPTS]
_LOCK = os.path.join(_LOCKS, "commit~.lock")
_WAIT = 10.0
_PAUSE = 0.05
_TRIES = 8  # a branch that moves each time is somebody's at work in a loop
_LONGEST_PATH = 2**13
_REPLAYED = {"rebase-merge": "rebase", "rebase-apply": "rebase", "BISECT_LOG": "bisect"}
"""Git goes back from these to where they began, and takes along what was committed in the meantime: the
files of a conversation would be gone."""
_GITS_OWN = re.compile(r"(\.git|git~1)[ .]*(:.*)?", re.DOTALL)
_UNSEEN = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])


class Commit(NamedTuple):
    id: str
    branch: str
    """Empty if HEAD is on none."""
    message: str


class EnclosingRepository(NamedTuple):
    """The repository that a workspace is in."""

    top: str
    branch: str
    """Empty if HEAD is on none."""


class Listed(NamedTuple):
    """What git knows of a folder. All paths are from the top of the repository."""

    tracked: dict[str, Item]
    absent: set[str]
    """Of these, what a sparse checkout does not have on disk."""
    others: list[str]


class Tip(NamedTuple):
    """Where the branch is. Empty where there is none yet."""

    id: str
    around: dict[str, dict[str, Item]]
    """The trees on the way to the conversation's folder, by their paths."""
    own: dict[str, Item]
    """What is in that."""
    blobs: dict[str, str]
    """The ids of all that is in it, by their paths."""


def enclosing(workspace: str) -> EnclosingRepository | None:
    """The repository that a workspace is in; None if there is none, or git does not use it."""
    git = Git(workspace)
    try:
        top = os.fsdecode(git.run("rev-parse", "--show-toplevel")).removesuffix("\n")
    except Failed:
        return None
    return EnclosingRepository(top, _short(_reference(git)))


def _reference(git: Git) -> str:
    """The one that HEAD stands for; empty if it stands for itself."""
    try:
        return os.fsdecode(git.run("symbolic-ref", "-q", "HEAD")).strip()
    except Failed:
        return ""


def _short(reference: str) -> str:
    return reference.removeprefix("refs/heads/")


def commit(
    workspace: str,
    folder: str,
    say: Callable[[bool], str],
    *,
    wait: float = _WAIT,
    seen: Collection[tuple[str, str]] | None = None,
) -> Commit | None:
    """The folder, a path below the workspace, as it is on disk; None if HEAD has it like that already.

    `say` gives the message, and is told whether nothing changed but what is in `.session/`. `seen` are the
    paths and blobs that somebody looked through: if there is another by now, nothing is committed.
    """
    deadline = time.monotonic() + wait
    with told(workspace):
        repository = Repository(workspace, os.path.normpath(folder))
        with alone(workspace, wait) as lock:
            repository.git.kept = [lock.fileno()]  # nobody takes our git's locks for stale before it ended
            repository.locks.remove_stale()
            try:
                return repository.commit(say, deadline, seen)
            finally:
                repository.locks.forget()


@contextlib.contextmanager
def told(workspace: str) -> Iterator[None]:
    try:
        yield
    except Failed as failed:
        raise explained(failed, workspace) from failed
    except NotSaved as error:
        raise NotCommitted(error.what, error.hint) from error
    except Unreadable as error:
        raise NotCommitted(error.message, error.hint) from error


@contextlib.contextmanager
def alone(workspace: str, wait: float = _WAIT) -> Iterator[Lock]:
    """One process of ours at a time: they would only wait for each other in git, less politely. And of two
    that make a workspace or its repository, each would remove what the other has not finished."""
    keep_own_out(workspace)  # the repository may be younger than they are
    try:
        lock = Lock(workspace, _LOCK, "commit", wait, private=False)
    except Held as held:
        who = f"process {held.pid}" if held.pid else "another process"
        raise NotCommitted(f"{who} is at work in this workspace", "try again when it is done") from held
    with lock:
        yield lock


def keep_own_out(workspace: str) -> None:
    """Let git ignore what is ours in a workspace, and no conversation's."""
    keep_out(workspace, _KEPT_OUT)


class Repository:
    """The one around a workspace, and the folder of one conversation in it."""

    def __init__(self, workspace: str, folder: str) -> None:
        self.git = Git(workspace)
        self.workspace = workspace
        _check(workspace, folder)
        said = self.git.run("rev-parse", "--show-prefix", "--is-inside-work-tree", "--absolute-git-dir")
        self.prefix, is_inside, home = os.fsdecode(said).partition("\ntrue\n")
        if not is_inside:
            raise Failed("this operation must be run in a work tree")
        self.folder = self.prefix + folder
        self.home = home.removesuffix("\n")
        self.common = _common(self.home)
        self.locks = OwnLocks(self.home, self.common, self.prefix)
        self.objects = ObjectStore(self.git, self.common)
        settings = self.git.silence()
        self.has_modes = settings.get("core.filemode", "true").lower() not in ("false", "no", "off", "0")
        self.hash = settings.get("extensions.objectformat", "sha1")
        """What blobs are named by."""

    def _require_seen(self, tip: Tip, wanted: Mapping[str, Item], seen: Collection[tuple[str, str]]) -> None:
        for path, item in wanted.items():
            is_known = (self._below(path), item.id) in seen or tip.blobs.get(path) == item.id
            if not is_known and item.mode != SUBMODULE:
                raise NotCommitted(f"{self._shown(path)} changed meanwhile", "the next pause commits it")

    def commit(
        self, say: Callable[[bool], str], deadline: float, seen: Collection[tuple[str, str]] | None
    ) -> Commit | None:
        for _ in range(_TRIES):
            tip = self._tip()  # first, so that what others commit from here on is noticed
            listed = self._listed()
            wanted = self._wanted(listed)
            trees = grown(tip.around, self.folder, wanted)
            if trees[""] == tip.around[""]:
                return None
            if seen is not None:
                self._require_seen(tip, wanted, seen)
            self._check_that_it_stays()
            message = _encodable(say(_changed(tip.own, trees.get(self.folder, {})) == {_OWN}))
            blobs = {item.id for item in wanted.values() if item.mode != SUBMODULE}
            id = self._new(trees, blobs, tip, message)
            reference = _reference(self.git)
            self.locks.announce(reference)
            self._set_index(_changes(listed.tracked, wanted), deadline)
            try:
                self._move(tip.id, id, message, reference, deadline)
                return Commit(id, _short(reference), message)
            except Failed as failed:
                if not failed.is_overtaken:
                    with contextlib.suppress(Failed):
                        self._set_index(_changes(wanted, listed.tracked), deadline)
                    raise
        raise NotCommitted("the branch moves again and again", "try again when nobody else commits")

    def _check_that_it_stays(self) -> None:
        for name, what in _REPLAYED.items():
            if os.path.lexists(os.path.join(self.home, name)):
                raise NotCommitted(
                    f"a {what} is going on in this repository",
                    "finish it, or end it, as `git status` says; the next pause commits then",
                )

    # --- what is there ----------------------------------------------------------------------------

    def _listed(self) -> Listed:
        listed = Listed({}, set(), [])
        words = ("ls-files", "-z", "-t", "-s", "-c", "-o", "--exclude-standard", "--full-name", "--")
        said = os.fsdecode(self.git.run(*words, self._below(self.folder)))
        for record in said.split("\0")[:-1]:
            if record.startswith("? "):
                listed.others.append(record[2:])
                continue
            facts, _, path = record.partition("\t")
            tag, mode, id, stage = facts.split(" ")
            if stage != "0":
                raise NotCommitted(
                    f"{self._shown(path)} is in conflict, from a merge",
                    "resolve that, and `git add` it; the next pause commits then",
                )
            listed.tracked[path] = Item(mode, id)
            if tag == "S":
                listed.absent.add(path)
        return listed

    def _tip(self) -> Tip:
        around: dict[str, dict[str, Item]] = {}
        with self.git.objects() as objects:
            id, data = objects.head()
            tree = data.split(b"\n", 1)[0].removeprefix(b"tree ").decode()
            path = ""
            for step in self.folder.split("/"):
                around[path] = entries_of(objects.get(tree), len(tree)) if tree else {}
                item = around[path].get(step, Item("", ""))
                path = f"{path}/{step}".lstrip("/")
                if item.mode == SUBMODULE:
                    raise _other_repository(self._shown(path))
                tree = item.id if item.mode == TREE else ""
            own = entries_of(objects.get(tree), len(tree)) if tree else {}
            return Tip(id, around, own, dict(blobs_of(objects.get, self.folder, own)))

    def _below(self, path: str) -> str:
        """From the workspace on."""
        return path.removeprefix(self.prefix)

    def _shown(self, path: str) -> str:
        return config.as_typed(os.path.join(self.workspace, self._below(path)))

    # --- what there shall be ----------------------------------------------------------------------

    def _wanted(self, listed: Listed) -> dict[str, Item]:
        """The paths of the folder that belong in git: what is there already, or not ignored; and in any case
        the session, and the transcript."""
        wanted: dict[str, Item] = {}
        on_disk = self._on_disk(listed, wanted)
        for at in range(0, len(on_disk), AT_ONCE):
            wanted |= self._blobs(on_disk[at : at + AT_ONCE], listed.tracked)
        return wanted

    def _on_disk(self, listed: Listed, others: dict[str, Item]) -> list[str]:
        """Those paths that are files here; `others` gets what git knows of those that are not."""
        found = []
        for path in {*listed.tracked, *listed.others, *self._always()}:
            status = self._status(path)
            known = listed.tracked.get(path)
            if status and (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
                if not _is_refused(path, stat.S_ISLNK(status.st_mode)):
                    found.append(path)
            elif known and (path in listed.absent if status is None else known.mode == SUBMODULE):
                others[path] = known
        return found

    def _always(self) -> Iterator[str]:
        """Also if it is ignored. Another repository in between is not the session's."""
        for name in self._names(self.folder):
            if name.endswith(".md"):
                yield f"{self.folder}/{name}"
        waiting = [f"{self.folder}/{_OWN}"]
        while waiting:
            within = waiting.pop()
            status = self._status(within)
            if status and stat.S_ISDIR(status.st_mode):
                names = self._names(within)
                if ".git" not in names:
                    waiting += [f"{within}/{name}" for name in names]
            else:
                yield within

    def _names(self, path: str) -> list[str]:
        with files.told(Unreadable, self._shown(path)):
            return files.contents(self.workspace, self._below(path))

    def _status(self, path: str) -> os.stat_result | None:
        with files.told(Unreadable, self._shown(path)):
            try:
                return files.status(self.workspace, self._below(path))
            except OSError as error:
                if error.errno in (errno.ENOTDIR, errno.ELOOP):
                    return None  # a file, or a link, is where a folder was
                raise

    def _blobs(self, paths: Sequence[str], tracked: Mapping[str, Item]) -> dict[str, Item]:
        """Written as they are, each opened once, and that one file read."""
        modes: dict[str, str] = {}
        numbers: list[int] = []
        with contextlib.ExitStack() as opened:
            for path in paths:
                try:
                    file, mode = self._opened(path)
                except Unreadable:
                    if self._status(path) is None:
                        continue  # it went since it was listed
                    raise
                known = tracked.get(path)
                if mode != LINK and not self.has_modes:
                    mode = known.mode if known and known.mode in (FILE, PROGRAM) else FILE
                numbers.append(opened.enter_context(file).fileno())
                modes[path] = mode
            made = self.objects.write("blob", numbers)
        return {path: Item(mode, id) for (path, mode), id in zip(modes.items(), made, strict=True)}

    def _opened(self, path: str) -> tuple[IO[bytes] | FileIO, str]:
        """What is at a path, to read, and as what git keeps it. A link is what it says."""
        with (
            files.told(Unreadable, self._shown(path)),
            files.folder_of(self.workspace, self._below(path)) as (folder, name),
        ):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISLNK(status.st_mode):
                mode = PROGRAM if status.st_mode & stat.S_IXUSR else FILE
                return files.open_in(folder, name, os.O_RDONLY | os.O_NONBLOCK), mode
            return as_file(os.fsencode(os.readlink(name, dir_fd=folder))), LINK

    # --- what is written --------------------------------------------------------------------------

    def _new(self, made: Mapping[str, Mapping[str, Item]], blobs: set[str], tip: Tip, message: str) -> str:
        """A commit, which nothing points to yet, on the disk with all that is new in it."""
        trees = self.objects.write_trees([data_of(entries) for entries in made.values()])
        new = {*blobs, *trees} - {*tip.blobs.values()}
        self.objects.check(new)
        parents = ["-p", tip.id] if tip.id else []
        feed = f"{message}\n".encode()
        id = self.git.run("commit-tree", trees[-1], *parents, "-F", "-", feed=feed).decode().strip()
        self.objects.sync({*new, id})
        return id

    def _set_index(self, lines: bytes, deadline: float) -> None:
        """Waits for a git of the user's that holds the index, and never breaks its lock."""
        while lines and not index_file.change(self.git, self.locks, lines):
            if time.monotonic() > deadline:
                raise in_the_way(self.locks.index_lock)
            time.sleep(_PAUSE)

    def _move(self, old: str, new: str, message: str, reference: str, deadline: float) -> None:
        """The branch that HEAD is on, or HEAD itself, if it is where it was. What it moves to, and the index,
        are on the disk before it moves; and it is there when this returns, with no lock left."""
        subject = message.partition("\n")[0]
        patience = deadline - time.monotonic()
        is_locked = partial(self.locks.are_taken, reference, new)
        with self.git.locked(old, new, f"cortext: {subject}", patience, is_locked):
            self.locks.name(reference)
        changed = [os.path.join(self.home, name) for name in ("HEAD", "logs/HEAD")]
        if reference:
            changed += [os.path.join(self.common, name) for name in (reference, f"logs/{reference}")]
        for tables in {os.path.join(each, "reftable") for each in (self.home, self.common)}:
            if os.path.isdir(tables):  # where newer versions of git may keep references instead
                changed += [os.path.join(tables, name) for name in os.listdir(tables)]
        sync(changed, self.common)


def _common(home: str) -> str:
    """Where git keeps what all working trees of a repository share."""
    try:
        with files.open_to_read(home, "commondir") as file:
            said = os.fsdecode(files.read_all(file.fileno(), _LONGEST_PATH))
    except Unreadable:
        return home
    return os.path.normpath(os.path.join(home, said.removesuffix("\n")))


def _changed(old: Mapping[str, Item], new: Mapping[str, Item]) -> set[str]:
    return {name for name in {*old, *new} if old.get(name) != new.get(name)}


def _changes(old: Mapping[str, Item], new: Mapping[str, Item]) -> bytes:
    """From one to the other, as `git update-index -z --index-info` reads them: first what goes."""
    gone = [(path, Item("0", "0" * len(old[path].id))) for path in old if path not in new]
    come = [(path, item) for path, item in new.items() if old.get(path) != item]
    return b"".join(
        f"{item.mode} {item.id} 0\t".encode() + os.fsencode(path) + b"\0" for path, item in gone + come
    )


def _check(workspace: str, folder: str) -> None:
    """That it is a folder below the workspace, reached without a link, and in the same repository."""
    path = workspace
    *above, _ = steps = folder.split(os.sep)
    for count, step in enumerate(steps):
        path = os.path.join(path, step)
        shown = config.as_typed(path)
        if step in ("", os.curdir, os.pardir) or not os.path.isdir(path):
            raise NotCommitted(
                f"{shown} is no folder of this workspace", "look whether it was moved or deleted"
            )
        if os.path.islink(path):
            raise NotCommitted(f"{shown} is a symbolic link", "links are not followed there; remove it")
        if count < len(above) and os.path.lexists(os.path.join(path, ".git")):
            raise _other_repository(shown)


def _other_repository(shown: str) -> NotCommitted:
    return NotCommitted(
        f"{shown} is a repository of its own", "commit there yourself, or make it a plain folder"
    )


def _is_refused(path: str, is_link: bool) -> bool:
    """Whether git takes no such name, as it is its own, or some disks would take it for that."""
    names = re.split(r"[/\\]", path.translate(_UNSEEN).lower())
    return any(map(_GITS_OWN.fullmatch, names)) or (is_link and names[-1] == ".gitmodules")


def _encodable(message: str) -> str:
    return message.encode(errors="replace").decode().replace("\0", "")
