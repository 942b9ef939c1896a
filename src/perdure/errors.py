"""Every error a user can meet, in one tree. Catch wide or narrow.

    PerdureError            exit 1   something failed; the message says what, the hint what to do
    ├── UsageError          exit 2   the call itself is wrong
    │   └── InvalidId       exit 2   an id no session can have
    ├── NotFound            exit 3   no session, or no entry, of that id
    ├── Ambiguous           exit 3   several sessions start like that
    ├── Held                exit 4   another process is writing to this session
    ├── NotSaved            exit 1   the disk refused; nothing of this call counts as saved
    │   └── TooLarge        exit 1   it is more than a session can hold, now and later
    ├── Conflict            exit 1   the file is not as this process left it; nothing was written
    ├── Unreadable          exit 1   a file cannot be opened or is no session
    │   ├── OthersMayWrite  exit 1   somebody else may have written it, and it would be obeyed
    │   └── LargeDocument   exit 1   a document that would take too much memory
    ├── NewerFormat         exit 1   a session is of a later version of its format, and is only read
    ├── NotInstalled        exit 1   it takes a package that an extra of this one brings
    ├── NoHome              exit 1   HOME is empty or no directory, and something under it is needed
    └── ModelError          exit 1   a model did not answer, or there is no such model
        ├── ModelUnavailable         it may answer if asked again: busy, unreachable, cut off
        └── ContextOverflow          it was sent more than it can read

An error is raised where it is understood and shown once, at the top: `message` is one sentence that
names the file and the cause, `hint` says what to do next, `exit_code` is the process's answer.
"""

from __future__ import annotations

import errno

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    ModelErrorKind = Literal["", "key"]
    """`key`: its server did not accept the key. Where that is from, who sent it knows."""


_SCREEN = 2000
_LONGEST_KEY = 4096
"""Characters, both."""
_GAPS = frozenset("\"'`,:;<>(){}[]")
"""What is in no key, beside spaces."""


class PerdureError(Exception):
    exit_code = 1
    candidates: Sequence[str] = ()
    """What may have been meant."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = hint
        """What to do next."""
        self.also = ""
        """What its user should know besides."""
        if hint:
            self.add_note(hint)  # so that a traceback, where it comes to that, says it too

    @property
    def hint(self) -> str:
        """The advice, and what there is besides. Setting it replaces both."""
        return "; ".join(filter(None, (self.advice, self.also)))

    @hint.setter
    def hint(self, text: str) -> None:
        self.advice, self.also = text, ""

    @property
    def said(self) -> str:
        """All of it, on one line."""
        return "; ".join(filter(None, (self.message, self.hint)))


class UsageError(PerdureError):
    exit_code = 2


class InvalidId(UsageError):
    def __init__(self, text: str, rule: str) -> None:
        shown = text if len(text) <= 60 else text[:57] + "..."
        super().__init__(f"Not a session id: {shown!r}", f"an id is {rule}")


class NotFound(PerdureError):
    exit_code = 3

    def __init__(
        self,
        what: str,
        text: str,
        nearest: Sequence[str] = (),
        *,
        hint: str = "",
        is_deleted: bool = False,
        is_unsure: bool = False,
    ) -> None:
        """`is_deleted` if it is in the trash, `is_unsure` if there are places that could not be looked at;
        the hint says so."""
        shown = text if len(text) <= 60 else text[:57] + "..."
        near = f"nearest: {', '.join(nearest)}" if nearest else "there is none with an id like that"
        super().__init__(f"{what} not found: {shown}", hint or near)
        self.nearest = tuple(nearest)
        self.is_deleted = is_deleted
        self.is_unsure = is_unsure

    @property
    def is_unheard_of(self) -> bool:
        """True if nothing is like it: then only a list of all helps."""
        return not (self.nearest or self.is_deleted or self.is_unsure)


class Ambiguous(PerdureError):
    exit_code = 3

    def __init__(self, text: str, candidates: Sequence[str], what: str = "sessions") -> None:
        shown = ", ".join(candidates[:5]) + (", …" if len(candidates) > 5 else "")
        super().__init__(f"{len(candidates)} {what} match {text!r}", f"one of: {shown}")
        self.candidates = tuple(candidates)


class Held(PerdureError):
    exit_code = 4

    def __init__(self, session: str, pid: int | None) -> None:
        holder = f"process {pid}" if pid else "another process"
        super().__init__(
            f"Session {session} is held by {holder}",
            "try again when that has ended",  # what else there is to do, the program knows
        )
        self.pid = pid


class NotSaved(PerdureError):
    """The operating system refused a write. Nothing of the failed call is acknowledged."""

    def __init__(self, path: str, cause: OSError | str) -> None:
        is_named = isinstance(cause, FolderNotMade) and cause.folder == path
        reason = _reason(cause, path)
        self.what = reason if is_named else f"{path}: {reason}"
        """Which file it is, and why."""
        super().__init__(
            f"Not saved: {self.what}",
            _remedy(cause) or ("" if isinstance(cause, str) else "what was saved before is untouched"),
        )


class TooLarge(NotSaved):
    """No later try will do better."""


class Conflict(PerdureError):
    RELOAD = "reload the session, then try again"
    is_displaced = False
    """Whether what was saved is not where it was: it is kept beside that, or it could not be."""

    def __init__(self, path: str, what: str, hint: str = RELOAD) -> None:
        super().__init__(f"Not saved: {path} {what}", hint)
        self.needs_reload = hint is self.RELOAD


class Unreadable(PerdureError):
    def __init__(self, path: str, cause: OSError | str) -> None:
        self.reason = _reason(cause, path)
        super().__init__(f"Cannot read {path}: {self.reason}", _remedy(cause))


class OthersMayWrite(Unreadable):
    """A file or folder is not relied on, because what is in it may be somebody else's word."""

    def __init__(self, path: str, why: str, remedy: str) -> None:
        """What to do about it is part of the message: that is all that a listing shows of a home."""
        PerdureError.__init__(self, f"{path} is not used: {why}; {remedy}")
        self.reason = why


class LargeDocument(Unreadable):
    """A document that is read as a whole, or not at all."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, f"{reason} is not opened")
        self.hint = "it stays as it is; begin a new session, or take some of its messages out with an editor"


class NewerFormat(PerdureError):
    """A session that a later version of its program wrote. What this one would write could destroy it."""

    def __init__(self, path: str, version: int, known: int) -> None:
        self.version = version
        super().__init__(
            f"{path} is in version {version} of its format, and this program writes version {known}",
            "it can be read, and is left as it is; update this program to go on in it",
        )


class NotInstalled(PerdureError):
    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"The package {package} is not installed", f"pip install 'perdure[{extra}]'")


class NoHome(PerdureError):
    """A place under the user's home is needed, and there is no such home. It is never taken for `/`."""

    def __init__(self, cause: str, variable: str = "") -> None:
        """`variable` names the place itself, where there is one for it."""
        super().__init__(
            f"There is no home directory: {cause}",
            "set HOME to yours" + (f", or {variable} to the folder itself" if variable else ""),
        )
        self.cause = cause


class ModelError(PerdureError):
    """A model did not answer. The message is fit to be kept in a session: no key is ever in it, and it is not
    longer than a screen, whoever wrote it."""

    def __init__(self, message: str, hint: str = "", *, kind: ModelErrorKind = "") -> None:
        super().__init__(*(cut_between_words(each, _SCREEN, "…") for each in (message, hint)))
        self.kind = kind


def cut_between_words(text: str, most: int, mark: str = "") -> str:
    """The beginning of a text, with the mark behind it if it is cut. No part of a word is left that may be a
    key: half a key would not be known as one. What is too long for a key is cut anywhere."""
    if len(text) <= most:
        return text
    begin = most
    while begin and _is_in_a_word(text[begin - 1]):  # a pattern would be tried at each of the letters
        begin -= 1
    word = text[begin : begin + _LONGEST_KEY + 1]
    is_too_long = len(word) > _LONGEST_KEY and all(map(_is_in_a_word, word))
    return text[: most if is_too_long else begin] + mark


def _is_in_a_word(letter: str) -> bool:
    return not letter.isspace() and letter not in _GAPS


class ModelUnavailable(ModelError):
    def __init__(self, message: str, hint: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(message, hint)
        self.retry_after = retry_after
        """Seconds the server asked to wait for."""


class ContextOverflow(ModelError):
    pass


class FolderNotMade(OSError):
    """Why something could not be saved: a folder that it needs is not there and could not be made."""

    def __init__(self, folder: str, cause: OSError, variable: str = "") -> None:
        """`variable` is that of the environment which names the folder, if one does."""
        super().__init__(cause.errno, cause.strerror or str(cause), folder)
        self.folder = folder
        self.variable = variable


class OwnerNotKept(OSError):
    """Why something could not be saved: the file is another user's, or another group's, and its replacement
    would not be."""

    def __init__(self, owner: str, user: str, *, is_group: bool = False) -> None:
        """`owner` and `user` are the names of whose the file is and of whose it would become."""
        if is_group:
            what = f"its group is {owner} and would become {user}"
            self.remedy = f"join the group {owner}, or give the file to a group of yours with chgrp"
        else:
            what = f"it belongs to {owner} and would become {user}'s"
            instead = "" if owner == "root" else f", or go on as {owner}"
            self.remedy = f"`sudo chown {user.removeprefix('user ')}` with its name makes it yours{instead}"
        super().__init__(errno.EPERM, what)


class NotAFolder(NotADirectoryError):
    """Something else is where a store needs a folder: a file, or a symbolic link, which is not followed."""

    def __init__(
        self,
        path: str,
        target: str | None = None,
        *,
        leads_to_a_folder: bool = False,
        is_in_users_home: bool = False,
    ) -> None:
        """`target` is where it leads, if it is a symbolic link. Outside of the homes of the user's own
        sessions, anybody may have chosen that."""
        super().__init__(errno.ENOTDIR, "Not a directory", path)
        self.path = path
        self.target = target
        self.leads_to_a_folder = leads_to_a_folder
        self.is_in_users_home = is_in_users_home


def _reason(cause: OSError | str, path: str = "") -> str:
    """`path` is what was named already."""
    if isinstance(cause, str):
        return cause
    if isinstance(cause, NotAFolder) and cause.target is not None:
        return f"{'it' if cause.path == path else cause.path} is a symbolic link to {cause.target}"
    if isinstance(cause, NotAFolder) and cause.path != path:
        return f"{cause.path} is not a folder"
    if isinstance(cause, FolderNotMade):
        if cause.errno in (errno.EEXIST, errno.ENOTDIR):
            return f"{cause.folder} is not a folder"
        return f"the folder {cause.folder} cannot be made: {cause.strerror}"
    if cause.errno == errno.ELOOP:
        return "it is a symbolic link"
    return cause.strerror or str(cause)


def _remedy(cause: OSError | str) -> str:
    """What to do about it; empty where only the cause itself can say that."""
    if isinstance(cause, str):
        return ""
    if isinstance(cause, OwnerNotKept):
        return cause.remedy
    if isinstance(cause, NotAFolder):
        return _remedy_for(cause)
    if isinstance(cause, FolderNotMade) and cause.errno in _WRONG_PLACE:
        return f"set {cause.variable} to another folder" if cause.variable else "choose another place"
    return _REMEDY.get(cause.errno or 0, "")


def _remedy_for(cause: NotAFolder) -> str:
    import shlex

    path = shlex.quote(cause.path)
    if cause.target is None:
        return f"move it out of the way: `mv {path} {shlex.quote(f'{cause.path}.old')}`"
    if not cause.leads_to_a_folder:
        return f"it leads to no folder; remove it: `rm {path}`"
    if not cause.is_in_users_home:
        return f"{_NOT_FOLLOWED}; remove it: `rm {path}`"
    back = f"`rm {path} && mv {shlex.quote(cause.target)} {path}`"
    return f"{_NOT_FOLLOWED}; put the folder itself there: {back}"


_WRONG_PLACE = {errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EINVAL, errno.ENAMETOOLONG}
_NOT_FOLLOWED = "symbolic links inside a session store are not followed"
_AGAIN = "try again; what was saved before is untouched"
_REMEDY = {
    errno.ENOENT: "look whether it, or the folder it was in, was moved or deleted",
    errno.ENOTDIR: "a file is where a folder has to be; move that out of the way",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EAGAIN: _AGAIN,
    errno.EBUSY: _AGAIN,
    errno.EINTR: _AGAIN,
    errno.ESTALE: _AGAIN,
    errno.ETIMEDOUT: _AGAIN,
    errno.EISDIR: "a folder is in its place; move that out of the way",
    errno.ENOSPC: "free some disk space, then try again",
    errno.EDQUOT: "your disk quota is used up; free some space, then try again",
    errno.EFBIG: "the file reached the size limit of this process (ulimit -f)",
    errno.EACCES: "check who owns the file and its folder, and their permissions",
    errno.EPERM: "check who owns the file and its folder, and their permissions",
    errno.EEXIST: "choose another name; what has this one stays as it is",
    errno.EROFS: "the disk is mounted read-only",
    errno.EMFILE: "too many files are open (ulimit -n); close some, then try again",
    errno.ENFILE: "too many files are open on this machine; close some, then try again",
    errno.EIO: "the disk reported an error; check it before going on",
    errno.ELOOP: f"{_NOT_FOLLOWED}; remove it",
}
