"""`cortext init`: a folder becomes a workspace. registry.json is written last, and says that all is there: an
interrupted call is completed by the next one, and a complete workspace is left as it is. Of two calls at once
the second waits for the first."""

from __future__ import annotations

import codecs
import json
import os
import shlex
from types import SimpleNamespace

from perdure import config
from perdure.agent.places import REGISTERED
from perdure.errors import NotSaved, PerdureError, UsageError
from perdure.front.output import Copyable, Output, Styled
from perdure.front.visible import one_line
from perdure.programs.cortext import new_repository, repository
from perdure.programs.cortext.workspace import COMMIT, FOLDER, REGISTRY, Workspace
from perdure.session import strangers
from perdure.session.record import dumps, members
from perdure.session.stores import files
from perdure.session.stores.cortext_folder import CONVERSATIONS

TEMPLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "template")
_REGISTRY = f"{FOLDER}/{REGISTRY}"
_LARGEST = 2**24
_TYPES = {
    "brainstorm": "Brainstorm",
    "debug": "Debug",
    "plan": "Plan",
    "learn": "Learn",
    "meeting": "Meeting",
    "review": "Review",
    "projectmanage": "Project management",
}


def init(options: SimpleNamespace, out: Output) -> int:
    if options.folder == "":
        raise UsageError("A folder needs a name", "`cortext init` without one makes this folder a workspace")
    path = os.path.abspath(config.expanded(options.folder)) if options.folder else config.here()
    if not config.checked_path(path):
        what = "No folder has such a name" if options.folder else "The path of this folder is too long"
        raise UsageError(f"{what}: {options.folder or path!r:.60}", "give another one")
    strangers.refuse_open(path)
    shown = one_line(config.as_typed(path))
    is_there = not _make(path, commits=not options.no_commit)
    is_changed = is_there and options.no_commit and _stop_committing(path)
    Workspace(path).remember()
    is_wanted = not options.no_commit and _commits(path)
    has_made_repository, git_notes = _repository(path, is_there, out) if is_wanted else (False, [])
    if is_there:
        is_changed |= has_made_repository
        out.line(f"{shown} is a workspace already{'.' if is_changed else '; nothing was changed.'}")
    else:
        out.line(f"Made {shown} a workspace. What is in {FOLDER}/ is yours to edit.")
    if options.no_commit and (is_changed or not is_there):
        git_notes.append(f"Conversations are saved, and not committed: `{COMMIT}` is off in {_REGISTRY}.")
    for note in git_notes:
        if isinstance(note, PerdureError):
            out.note(Styled(one_line(note.said), "yellow"))
        else:
            out.line(note)
    if not is_there:
        out.line("")
        out.line("Begin with:")
        if path != config.here():
            out.line(Copyable(f"  cd {one_line(shlex.quote(path))}"))
        out.line(Copyable("  cortext start brainstorm What to build first"))
    return 0


def _repository(path: str, is_there: bool, out: Output) -> tuple[bool, list[str | Styled | PerdureError]]:
    """Whether one was made for the workspace; and what its user should know of the one that it is in. A new
    one gets the workspace's own files; in one that was there, what is added is its user's to say."""
    try:
        if new_repository.start(path):
            made = "Made a git repository there, for conversations to be committed to."
            return True, [made, _committed(path, out)]
        enclosing = repository.enclosing(path)
    except PerdureError as error:
        return False, [error]
    if is_there or enclosing is None:
        return False, []
    branch = f"branch {enclosing.branch}" if enclosing.branch else "no branch, as HEAD is detached,"
    where = f"{branch} of {config.as_typed(enclosing.top)}"
    off = f'`"{COMMIT}": false` in {_REGISTRY} or --no-commit turns that off.'
    at = "" if path == config.here() else f"-C {shlex.quote(path)} "
    return False, [
        one_line(f"Pauses commit conversations to {where}; {off}"),
        Copyable(one_line(f"To commit the workspace, too: git {at}add {FOLDER}")),
    ]


def _committed(path: str, out: Output) -> str | PerdureError:
    from perdure.programs.cortext.searching import search

    message = "[workspace] Begin\n\nPrompts, memory and settings.\n"
    try:
        searched = search(path, FOLDER, message)
        if searched.found and not searched.is_wanted(out, later=""):
            return f"To commit {FOLDER}/ yourself: git add {FOLDER}"
        made = repository.commit(path, FOLDER, lambda _: message, seen=searched.seen)
    except PerdureError as error:
        return error
    if made is None:
        return f"Git ignores {FOLDER}/, so it was not committed; `git add --force {FOLDER}` adds it."
    on = f" on {made.branch}" if made.branch else ""
    return one_line(f"Committed {FOLDER}/ to it{on}.")


def _stop_committing(path: str) -> bool:
    """Whether that changed anything. All other settings stay as they were written."""
    if not _commits(path):
        return False
    relative = os.path.join(FOLDER, REGISTRY)
    with repository.alone(path):
        with files.open_to_read(path, relative) as file:
            text = files.read_all(file.fileno(), _LARGEST)
        found = {**members(text.removeprefix(codecs.BOM_UTF8)), COMMIT: b"false"}
        lines = [b"  %b: %b" % (dumps(name), value) for name, value in found.items()]
        files.replace(path, relative, b"{\n" + b",\n".join(lines) + b"\n}\n", private=False)
    return True


def _commits(path: str) -> bool:
    return bool(Workspace(path).settings().values.get(COMMIT, True))


def _make(path: str, *, commits: bool) -> bool:
    """Make a folder a workspace. Returns False if it is one already."""
    if _is_workspace(path):
        return False
    with files.told(NotSaved, path):
        files.make_folder(path, private=False)
    _make_folder(path, FOLDER)
    with repository.alone(path):
        if _is_workspace(path):
            return False
        for group in sorted(os.listdir(TEMPLATE)):
            _make_folder(path, os.path.join(FOLDER, group))
            for name in sorted(os.listdir(os.path.join(TEMPLATE, group))):
                with open(os.path.join(TEMPLATE, group, name), "rb") as file:
                    _write(path, os.path.join(FOLDER, group, name), file.read())
        _write(path, os.path.join(FOLDER, REGISTRY), _registry(commits=commits))
    return True


def _is_workspace(path: str) -> bool:
    return os.path.lexists(os.path.join(path, FOLDER, REGISTRY))


def _make_folder(path: str, relative: str) -> None:
    with files.told(NotSaved, os.path.join(path, relative)):
        files.new_folder(path, relative, private=False)


def _write(path: str, relative: str, data: bytes) -> None:
    """Whole, or not at all; what is there is its user's."""
    if not os.path.lexists(os.path.join(path, relative)):
        files.replace(path, relative, data, private=False)


def _registry(*, commits: bool) -> bytes:
    types = {
        kind: {"name": name, "folder": CONVERSATIONS, "command": f"/workspace.{kind}"}
        for kind, name in _TYPES.items()
    }
    usual = {name: value for name, value in REGISTERED.items() if value}
    registry = {"schema_version": "2.0", "conversation_types": types, **usual, COMMIT: commits}
    return json.dumps(registry, indent=2).encode() + b"\n"
