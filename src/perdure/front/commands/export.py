"""`export`: a session as a document to read, as JSON, or as another program's session.

The session is only read. What in it looks like a secret is named before it leaves, and `--redact` masks it.
What is written is for its owner only, has its name when it is whole, and never takes the place of a session:
where a program keeps its own, only `--install` writes, and that makes a new one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
import tempfile
from io import StringIO
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

from perdure import config
from perdure.errors import InvalidId, NotSaved, UsageError
from perdure.front import render
from perdure.front.amounts import size
from perdure.front.outgoing import REDACT, WRITE, Finding, Outgoing, choice
from perdure.front.output import Output, Styled
from perdure.front.visible import one_line
from perdure.session import layouts, reference
from perdure.session.convert import Converted, convert
from perdure.session.findings import how_many
from perdure.session.layouts import LAYOUTS, Home
from perdure.session.session import Session
from perdure.session.stores import Found, Store, files, folders, open_store, owners

if TYPE_CHECKING:
    from perdure.front.shell import Shell

_STDOUT = "-"


class _Made(NamedTuple):
    """What came of it."""

    reference: str
    """What the new session is called, where one was made."""
    path: str
    """Where it is; empty for stdout."""
    size: int
    dropped: dict[str, int]
    problems: list[str]
    secrets: list[str]
    """What looks like one in it, or was masked."""


def export(options: SimpleNamespace, out: Output) -> int:
    to, is_installed = options.to, options.install
    output = "" if options.output == _STDOUT else options.output
    if is_installed and (options.output or to not in LAYOUTS):
        hint = f"give --to {'|'.join(LAYOUTS)}, and no -o"
        raise UsageError("--install adds to a program's own sessions", hint)
    if out.json and not output and not is_installed:
        if to not in ("md", "json"):
            raise UsageError("--json says what was written, and where", "name a file with -o")
        to = "json"
    if to in LAYOUTS and _is_folder(to) and not output and not is_installed:
        raise UsageError(f"A session of {to} is a folder", "name the one to make with -o DIR")
    store, ref = reference.find(options.id)
    is_redacted = options.redact
    leaving: Outgoing | None = None
    if is_installed:
        leaving = Outgoing(store, ref) if is_redacted else None
        made = _installed(store, ref, to, leaving)
    else:
        if output:
            refuse_homes(output, store)
            _require_folder(output)
        leaving = Outgoing(store, ref)
        answer = REDACT if options.redact else _answer(leaving, to, output, out)
        if answer not in (WRITE, REDACT):
            out.note("Nothing was written.")
            return int(answer is None)
        is_redacted = answer == REDACT
        as_made = _as_session if to in LAYOUTS else _as_document
        made = as_made(*leaving.chosen(answer), to, output, out)
        made = made._replace(secrets=[*map(str, _shown(leaving, to))])
    if out.json and (output or is_installed):
        out.data({"format": to, **made._asdict()})
        return 0
    if is_installed:
        out.line(made.reference)
    elif output:
        out.note(f"Wrote {output}, {size(made.size)}{f': {made.reference}' if made.reference else ''}")
    if is_redacted and leaving and made.secrets:
        out.note(f"Masked {leaving.how_many(_shown(leaving, to))}.")
    _warn(made, to, reference.name_of(store, ref), out)
    return 0


def _answer(leaving: Outgoing, to: str, output: str, out: Output) -> str | None:
    """What to do about secrets. They are only named where stdout is the place: who reads that is at the other
    end of a pipe, or sees it all."""
    found = _shown(leaving, to)
    if not found:
        return WRITE
    return choice(found, out, "--redact", may_ask=bool(output))


def _shown(leaving: Outgoing, to: str) -> list[Finding]:
    """A document to read has one branch."""
    return [each for each in leaving.found if to not in ("md", "html") or not each.is_aside]


async def document(
    shell: Shell, to: str, output: str, *, is_redacted: bool, may_replace: bool = False
) -> None:
    """The session of a conversation as a document, in a file that is there already only if it may be. What
    looks like a secret is named first, and at a terminal its user says what becomes of it."""
    from perdure.agent.aside import in_thread

    session, store = shell.conversation.session, shell.conversation.meant.store
    await in_thread(_check_place, output, store, may_replace)
    leaving = await in_thread(Outgoing, store, session.ref)
    found = _shown(leaving, to)
    answer: str | None = REDACT if is_redacted else WRITE
    if found and not is_redacted:
        answer = await shell.face.aside(lambda: choice(found, shell.out, "--redact"))
    if answer not in (WRITE, REDACT):
        return shell.face.note(Styled("Nothing was written.", "dim"))
    made = await in_thread(lambda: _as_document(*leaving.chosen(answer), to, output, shell.out))
    hidden = f"; masked {leaving.how_many(found)}" if found and answer == REDACT else ""
    shell.face.note(one_line(f"Wrote {output}, {size(made.size)}{hidden}"))
    if made.problems:
        shell.face.note(Styled(one_line(f"Damaged: {made.problems[0]}; what can be read is there"), "yellow"))


def _check_place(output: str, store: Store, may_replace: bool) -> None:
    refuse_homes(output, store)
    _require_folder(output)
    if not may_replace and os.path.lexists(output) and not os.path.isdir(output):
        raise UsageError(f"{output} is there already", "give another name, or remove it first")


def _warn(made: _Made, to: str, source: str, out: Output) -> None:
    """Of what is not in it."""
    if made.dropped:
        kinds = ", ".join(f"{count} {kind}" for kind, count in made.dropped.items())
        out.note(Styled("Left out: ", "yellow"), f"the rules of {to} forbid it: {kinds}")
    if made.problems:
        more = f" (and {how_many(made.problems) - 1:,} more)" if made.problems[1:] else ""
        doctor = f"{out.program} sessions doctor {shlex.quote(source)}"
        out.note(Styled("Damaged: ", "yellow"), made.problems[0], more)
        out.note(f"What can be read is there. `{doctor}` says more.")


# --- documents ----------------------------------------------------------------------------------------


def _as_document(store: Store, ref: Found, to: str, output: str, out: Output) -> _Made:
    session = Session.view(store, ref)
    data = _WRITERS[to](session).encode(errors="backslashreplace")
    _write(data, output, out)
    notices = session.notices
    return _Made("", output, len(data), {}, [*map(str, session.problems), *notices], [])


def _markdown(session: Session) -> str:
    from perdure.front import markdown

    return markdown.document(render.document(session))


def _html(session: Session) -> str:
    from perdure.front import html

    return html.document(render.document(session))


def _json(session: Session) -> str:
    text = StringIO()
    Output(stdout=text).data(render.data(session))
    return text.getvalue()


_WRITERS = {"md": _markdown, "html": _html, "json": _json}


# --- sessions of another layout -----------------------------------------------------------------------


def _installed(store: Store, ref: Found, to: str, leaving: Outgoing | None) -> _Made:
    """It stays on this machine, for the same user: only who asks for it has its secrets masked."""
    target = open_store(to)
    converted = convert(*(leaving.redacted() if leaving else (store, ref)), target)
    made = _made(converted, target, converted.ref.path, converted.ref.size)
    return made._replace(secrets=[*map(str, leaving.found if leaving else ())])


def _as_session(store: Store, ref: Found, to: str, output: str, out: Output) -> _Made:
    with tempfile.TemporaryDirectory(prefix="perdure-") as home:
        if marker := LAYOUTS[to].marker:
            os.mkdir(os.path.join(home, marker))
        target = open_store(to, home)
        converted = _same_id(store, ref, target) if to == store.name else convert(store, ref, target)
        if _is_folder(to):
            whole = os.path.dirname(os.path.dirname(converted.ref.path))
            _make_private(whole)
            _move(home, os.path.relpath(whole, home), output)
        else:
            with open(converted.ref.path, "rb") as file:
                _write(file.read(), output, out)
    return _made(converted, target, output, converted.ref.size)


def _same_id(store: Store, ref: Found, target: Store) -> Converted:
    """A copy in its own layout keeps its id, unless a person gave it one that no new session may have."""
    try:
        return convert(store, ref, target, id=ref.id)
    except InvalidId:
        return convert(store, ref, target)


def _made(converted: Converted, target: Store, path: str, size: int) -> _Made:
    problems = [*map(str, converted.problems)]
    return _Made(reference.name_of(target, converted.ref), path, size, dict(converted.dropped), problems, [])


def _is_folder(layout: str) -> bool:
    """A layout that lives among a user's own files keeps a folder for each session."""
    return bool(LAYOUTS[layout].marker)


# --- where it goes --------------------------------------------------------------------------------------


def refuse_homes(output: str, store: Store) -> None:
    """Neither a session nor what belongs to one is ever written over."""
    place = config.real_path(output)
    for home in dict.fromkeys([*layouts.homes(), Home(store.name, getattr(store, "home", ""))]):
        if home.path and any(_is_in(place, folder) for folder in _own_folders(home)):
            raise UsageError(
                f"{output} is where {home.program} keeps its sessions",
                "choose another place; `pi sessions export --install` adds a session there",
            )


def _require_folder(output: str) -> None:
    if not config.checked_path(os.path.abspath(output)):
        raise UsageError(f"No file can have the name {output!r:.60}", "give another one")
    folder = os.path.dirname(config.real_path(output))
    try:
        os.stat(folder)
    except FileNotFoundError:
        raise NotSaved(output, f"there is no folder {folder}") from None
    except OSError:
        pass  # writing there will fail too, and say why


def _own_folders(home: Home) -> list[str]:
    """A home is its program's alone; a workspace is the user's, but for a few folders in it."""
    marker = LAYOUTS[home.program].marker
    if not marker:
        return [home.path]
    return [
        os.path.join(home.path, marker),
        *(os.path.dirname(os.path.dirname(ref.path)) for _, ref in reference.listed([home])),
    ]


def _is_in(place: str, folder: str) -> bool:
    return os.path.join(place, "").startswith(os.path.join(config.real_path(folder), ""))


def _write(data: bytes, output: str, out: Output) -> None:
    if not output:
        out.raw(data)
        return
    with files.told(NotSaved, output):
        path = config.real_path(output)
        try:
            found = os.stat(path)
        except FileNotFoundError:
            found = None
        if output.endswith(os.sep) or (found and stat.S_ISDIR(found.st_mode)):
            raise UsageError(f"{output} is a folder", "name a file in it")
        if found and not stat.S_ISREG(found.st_mode):  # a device or a pipe
            with open(path, "wb", buffering=0) as device:
                files.write_all(device.fileno(), data)
        else:
            _replace(path, data, found)


def _replace(path: str, data: bytes, found: os.stat_result | None) -> None:
    """The old file or the new one, at any moment. The new one is for its owner only, whoever could read what
    was there. Its unfinished form has a name that nobody else uses: there is no lock here, and what lies
    beside it is the user's."""
    with files.folder_of(*os.path.split(path)) as (folder, name):
        unfinished = f".{os.urandom(8).hex()}.part"
        with files.make_in(folder, unfinished, private=True) as file:
            try:
                files.write_all(file.fileno(), data)
                if found:
                    owners.keep(file.fileno(), os.stat_result((stat.S_IFREG | 0o600, *found[1:])), path)
                files.sync_data(file.fileno())
                os.replace(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(unfinished, dir_fd=folder)
                raise
        files.sync_names(folder)


def _make_private(folder: str) -> None:
    """What a workspace's umask would open to others is for its owner here."""
    for path, _, names in os.walk(folder):
        os.chmod(path, 0o700)
        for name in names:
            os.chmod(os.path.join(path, name), 0o600)


def _move(home: str, relative: str, output: str) -> None:
    """A whole folder to where there is nothing yet."""
    above, name = os.path.split(os.path.abspath(output))
    try:
        if os.path.lexists(output):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        os.stat(above)
        folders.move(home, relative, above, name)
    except NotSaved as error:
        if isinstance(error.__cause__, OSError):
            raise NotSaved(output, error.__cause__) from error  # the place the user named, not ours
        raise
    except OSError as error:
        raise NotSaved(output, error) from error
