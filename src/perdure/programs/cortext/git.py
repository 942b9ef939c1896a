"""The user's git, run so that it runs nothing else: no hook, filter, monitor, helper, or program that signs.

A repository may come from anywhere, and git obeys what is set in it. So only commands are used here that take
bytes and give bytes, and what these would still obey is switched off: hooks, filters, the monitor of files,
and every way to fetch what is not there. The settings of the user and the machine are read,
for who commits is said there, and obeyed no further than a repository's.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import subprocess
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from perdure import config
from perdure.errors import PerdureError
from perdure.programs.cortext.workspace import program
from perdure.session.stores import owners

_OFF = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "i18n.commitEncoding": "UTF-8",
    "core.fsync": "all",  # a file gets its name only with its content, also if the power fails
    "core.fsyncObjectFiles": "true",  # the same, for a git older than 2.36
    "core.fsyncMethod": "fsync",
}
_SILENT = {
    "hook": [("enabled", "false")],
    "filter": [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")],
}
_PROBE = "perdure.probe"
_IDENTITY = {
    "user.name": ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"),
    "user.email": ("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"),
}
_KEPT = re.compile(
    "PATH|HOME|USER|LOGNAME|EMAIL|TMPDIR|XDG_CONFIG_HOME|SUDO_UID|LD_LIBRARY_PATH|DEVELOPER_DIR|SDKROOT"
    "|GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)|GIT_CONFIG_(GLOBAL|SYSTEM|NOSYSTEM)"
)
"""What git needs of the environment is known, unlike what any other program needs: where it is, where its
user's settings are, and who commits. All else that is called GIT_* would lead it to another repository."""
_NOBODY_IS_THERE = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "none",  # stronger than what a repository allows by a protocol's name
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "LC_ALL": "C",
}
_LONGEST = 120.0
_LOOK = 0.01
_ASKING_FOR_UMASK = threading.Lock()
_LOCKED = re.compile(r"Unable to create '(.+\.lock)': File exists", re.DOTALL)


class NotCommitted(PerdureError):
    """Why a conversation is not in git. It is on disk, and the repository is as it was."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"Not committed: {what}", hint)


class Failed(Exception):
    """Git's answer, in its own words."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said

    @property
    def lock(self) -> str:
        """The file of another git at work that stood in the way; empty if that was not it."""
        found = _LOCKED.search(self.said)
        return found[1] if found else ""

    @property
    def is_overtaken(self) -> bool:
        """Whether the branch is no longer where it was."""
        return "but expected" in self.said or "reference already exists" in self.said


class Git:
    """In one workspace. What is in `kept` stays open in each process that is started from then on."""

    def __init__(self, workspace: str) -> None:
        self.workspace = workspace
        self.kept: Sequence[int] = ()
        self._environment = {
            name: value for name, value in config.environment().items() if _KEPT.fullmatch(name)
        } | _NOBODY_IS_THERE
        self._owner = _owner(workspace)
        self._command = [_program(workspace, self._environment.get("PATH", os.defpath)), "--no-pager"]
        for name, value in _OFF.items():
            self._command += ["-c", f"{name}={value}"]

    def run(self, *words: str, feed: bytes = b"", files: Sequence[int] = (), index: str = "") -> bytes:
        """`index` is used in place of the user's."""
        with self._started(
            words, files=files, variables={"GIT_INDEX_FILE": index} if index else {}
        ) as process:
            try:
                out, err = process.communicate(feed, _LONGEST)
            except subprocess.TimeoutExpired:
                process.terminate()  # and not killed: it removes its locks
                process.communicate()
                raise Failed(f"git {words[0]} took longer than {_LONGEST:.0f} seconds") from None
        if process.returncode or b"Ignoring path" in err:
            raise Failed(_text(err) or f"git {words[0]} ended with {process.returncode}")
        return out

    @contextlib.contextmanager
    def objects(self) -> Iterator[Objects]:
        with self._limited(["cat-file", "--batch"]) as process:
            yield Objects(process)

    @contextlib.contextmanager
    def locked(
        self, old: str, new: str, message: str, patience: float, is_locked: Callable[[], bool]
    ) -> Iterator[None]:
        """Lock what HEAD stands for, if it is at `old`, which may be nothing. It is at `new` when the block
        has ended, and where it was if the block fails, or this process is killed. A git older than 2.33.1
        does not say when it is locked: `is_locked` looks."""
        setting = f"core.filesRefLockTimeout={max(100, int(1000 * patience))}"
        with self._limited(["update-ref", "-m", message, "--stdin"], setting) as process:
            assert process.stdin
            assert process.stdout
            change = f"start\nupdate HEAD {new} {old or '0' * len(new)}\nprepare\n"
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(change.encode())
                process.stdin.flush()
            said = b""
            while b"prepare: ok\n" not in said:
                if select.select([process.stdout], [], [], _LOOK)[0]:
                    piece = os.read(process.stdout.fileno(), 2**10)
                    if not piece:
                        raise _ended(process)
                    said += piece
                elif is_locked():
                    break
            yield
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(b"commit\n")
                process.stdin.close()
            if b"commit: ok\n" not in process.stdout.read():
                raise _ended(process)

    @contextlib.contextmanager
    def _limited(self, words: Sequence[str], *settings: str) -> Iterator[subprocess.Popen[bytes]]:
        """A git to talk with, which is ended if that takes too long."""
        with self._started(words, settings=settings) as process:
            limit = threading.Timer(_LONGEST, process.terminate)
            limit.start()
            try:
                yield process
            finally:
                limit.cancel()

    def silence(self) -> dict[str, str]:
        """Switch off what settings give names to: filters, which run even where git only writes the index,
        for files as young as that; and hooks, of which newer versions of git know some that are no files.
        Returns all settings, as git sees them here."""
        self._set({_PROBE: "true"})
        listed = os.fsdecode(self.run("config", "--list", "-z")).split("\0")[:-1]
        settings = {name: value for name, _, value in (each.partition("\n") for each in listed)}
        if _PROBE not in settings:
            raise NotCommitted(
                "this git is too old", "install git 2.31 or newer; the next pause commits then"
            )
        named = [name.rpartition(".")[0] for name in settings if name.count(".") > 1]
        self._set({f"{each}.{key}": value for each in named for key, value in _SILENT.get(_kind(each), ())})
        if self._owner and not _IDENTITY.keys() <= settings.keys():
            self._environment = self._own_identity(settings) | self._environment
        return settings

    def _own_identity(self, known: Collection[str]) -> dict[str, str]:
        """Who commits, by root's own settings: whom git runs as may not read those, and need not have any."""
        words = ["config", "--global", "--includes", "-z", "--get-regexp", r"^user\."]
        said = subprocess.run(
            [*self._command, *words],
            cwd=os.sep,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        found = (each.partition("\n") for each in os.fsdecode(said.stdout).split("\0"))
        return {
            variable: value
            for name, _, value in found
            if name not in known
            for variable in _IDENTITY.get(name, ())
        }

    def _set(self, settings: Mapping[str, str]) -> None:
        """In a way that takes any name."""
        for at, (name, value) in enumerate(settings.items()):
            self._environment |= {f"GIT_CONFIG_KEY_{at}": name, f"GIT_CONFIG_VALUE_{at}": value}
        self._environment["GIT_CONFIG_COUNT"] = str(len(settings))

    def _started(
        self,
        words: Sequence[str],
        *,
        files: Sequence[int] = (),
        settings: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        further = [word for setting in settings for word in ("-c", setting)]
        try:
            return subprocess.Popen(
                [*self._command, *further, *words],
                cwd=self.workspace,
                env={**self._environment, **(variables or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(*files, *self.kept),
                start_new_session=True,  # no terminal to ask at, and Ctrl+C does not end git in the middle
                umask=_umask(),
                **self._owner,
            )
        except (OSError, ValueError) as error:
            raise Failed(f"git cannot be started: {error}") from error


def _umask() -> int:
    """This process's, with which git lets nobody write whom the files of a workspace do not let write either.
    The system tells it only to who sets it."""
    with _ASKING_FOR_UMASK:
        own = os.umask(0o077)
        os.umask(own)
    return own | 0o002


def _owner(workspace: str) -> dict[str, Any]:
    """Whom git runs as, if not as this process: where root works in another user's workspace, as that user.
    What git writes is the user's then, who could not commit any more otherwise."""
    if owners.is_root():
        with contextlib.suppress(OSError):  # it is gone, as git will say
            whose = os.stat(workspace)
            if whose.st_uid:
                return {"user": whose.st_uid, "group": whose.st_gid, "extra_groups": ()}
    return {}


class Objects:
    """What is in a repository, asked one by one."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        self._ask, self._answers, self._errors = process.stdin, process.stdout, process.stderr

    def head(self) -> tuple[str, bytes]:
        """The commit that the branch is at, and its bytes; nothing on a branch that has none yet."""
        return self._asked("HEAD") or ("", b"")

    def get(self, id: str) -> bytes:
        found = self._asked(id)
        if not found:
            raise Failed(f"fatal: the repository lacks object {id}")
        return found[1]

    def _asked(self, name: str) -> tuple[str, bytes] | None:
        try:
            self._ask.write(name.encode() + b"\n")
            self._ask.flush()
            said = self._answers.readline()
            if said == f"{name} missing\n".encode():
                return None
            id, _, size = said.decode().split()
            return id, self._answers.read(int(size) + 1)[:-1]
        except (OSError, ValueError) as error:
            with contextlib.suppress(OSError):
                self._ask.close()  # so that it ends, and with it what it has to say
            raise Failed(_text(self._errors.read()) or f"git cannot read {name}") from error


def explained(failed: Failed, workspace: str) -> NotCommitted:
    """The same in our words, with what to do, where the cause is known."""
    place = config.as_typed(workspace)
    if failed.lock:
        return NotCommitted(
            f"git is at work in this repository: {config.as_typed(failed.lock)} is there",
            "try again when it is done; if no git is running, one was killed: remove that file",
        )
    lines = [
        line for line in failed.said.splitlines() if line and not line.startswith(("warning: ", "hint: "))
    ]
    for signs, what, hint in _KNOWN:
        if any(sign in line for sign in signs for line in lines):
            return NotCommitted(what.format(place=place), hint.format(place=place))
    said = re.sub("^(fatal|error): ", "", lines[-1] if lines else failed.said.strip())
    return NotCommitted(f"git says: {said}", f"`git status` in {place} may say more")


def in_the_way(lock: str) -> Failed:
    """As git says it of a lock that is somebody else's."""
    return Failed(f"Unable to create '{lock}': File exists")


def is_nowhere(failed: Failed) -> bool:
    """Whether there is no repository at all."""
    return "not a git repository" in failed.said


_FREE = "free some disk space; what was said is saved, and the next pause commits it"
_KNOWN = [
    (["not a git repository"], "{place} is in no git repository", "`git init` there makes one"),
    (
        ["must be run in a work tree", "cannot be used without a working tree"],
        "the repository around {place} has no working tree",
        "a workspace has to be in one: `git clone` it, and work there",
    ),
    (
        ["dubious ownership", "unsafe repository"],
        "the repository around {place} belongs to somebody else, and git does not use it",
        "if you trust it: `git config --global --add safe.directory` with its folder",
    ),
    (
        ["tell me who you are", "ident name", "auto-detect", "auto-detection", "no email was given"],
        "git does not know who you are",
        "`git config --global user.name NAME` and `git config --global user.email ADDRESS` say it",
    ),
    (["No space left", "Disk quota", "File too large"], "the disk of {place} is full", _FREE),
    (
        ["Permission denied", "insufficient permission", "Read-only file system", "Operation not permitted"],
        "the repository around {place} cannot be written to",
        "check who owns its .git folder, and its permissions",
    ),
]


def _program(workspace: str, path: str) -> str:
    found = program("git", workspace, path)
    if not found:
        raise NotCommitted(
            "git is not installed", "install it; what was said is saved, and the next pause commits it"
        )
    return found


def _ended(process: subprocess.Popen[bytes]) -> Failed:
    assert process.stderr
    return Failed(_text(process.stderr.read()) or "git update-ref ended without an answer")


def _kind(name: str) -> str:
    return name.partition(".")[0]


def _text(said: bytes) -> str:
    return said.decode(errors="replace")
