"""`export`: a session as a document to read, as JSON, or as another program's session.

The session is only read. What is written has its name when it is whole, and never takes the place of a
session: where a program keeps its own, only `--install` writes, and that makes a new one.
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
from typing import NamedTuple

from perdure import config
from perdure.errors import InvalidId, NotSaved, UsageError
from perdure.front import render
from perdure.front.amounts import size
from perdure.front.output import Output, Styled
from perdure.session import layouts, reference
from perdure.session.convert import Converted, convert
from perdure.session.findings import how_many
from perdure.session.layouts import LAYOUTS, Home
from perdure.session.session import Session
from perdure.session.stores import Found, Store, files, folders, open_store

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
    if is_installed:
        made = _installed(store, ref, to)
    else:
        if output:
            refuse_homes(output, store)
            _require_folder(output)
        made = (_as_session if to in LAYOUTS else _as_document)(store, ref, to, output, out)
    if out.json and (output or is_installed):
        out.data({"format": to, **made._asdict()})
        return 0
    if is_installed:
        out.line(made.reference)
    elif output:
        out.note(f"Wrote {output}, {size(made.size)}{f': {made.reference}' if made.reference else ''}")
    _warn(made, to, reference.name_of(store, ref), out)
    return 0


def document(
    store: Store, ref: Found, to: str, output: str, out: Output, *, may_replace: bool = False
) -> tuple[int, list[str]]:
    """That session as a document, in a file: how many bytes it has, and what could not be read. A file that
    is there is replaced only if it may be."""
    refuse_homes(output, store)
    _require_folder(output)
    if not may_replace and os.path.lexists(output) and not os.path.isdir(output):
        raise UsageError(f"{output} is there already", "give another name, or remove it first")
    made = _as_document(store, ref, to, output, out)
    return made.size, made.problems


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
    return _Made("", output, len(data), {}, [*map(str, session.problems), *notices])


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


def _installed(store: Store, ref: Found, to: str) -> _Made:
    target = open_store(to)
    converted = convert(store, ref, target)
    return _made(converted, target, converted.ref.path, converted.ref.size)


def _as_session(store: Store, ref: Found, to: str, output: str, out: Output) -> _Made:
    with tempfile.TemporaryDirectory(prefix="perdure-") as home:
        if marker := LAYOUTS[to].marker:
            os.mkdir(os.path.join(home, marker))
        target = open_store(to, home)
        converted = _same_id(store, ref, target) if to == store.name else convert(store, ref, target)
        if _is_folder(to):
            whole = os.path.dirname(os.path.dirname(converted.ref.path))
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
    return _Made(reference.name_of(target, converted.ref), path, size, dict(converted.dropped), problems)


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
    """The old file or the new one, at any moment. Its unfinished form has a name that nobody else uses: there
    is no lock here, and what lies beside it is the user's."""
    with files.folder_of(*os.path.split(path)) as (folder, name):
        unfinished = f".{os.urandom(8).hex()}.part"
        with files.make_in(folder, unfinished, private=False) as file:
            try:
                files.write_all(file.fileno(), data)
                if found:
                    os.fchmod(file.fileno(), found.st_mode & 0o777)
                files.sync_data(file.fileno())
                os.replace(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(unfinished, dir_fd=folder)
                raise
        files.sync_names(folder)


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
