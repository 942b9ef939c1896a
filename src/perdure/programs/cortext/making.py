"""`cortext init`: a folder becomes a workspace. registry.json is written last, and says that all is there: an
interrupted call is completed by the next one, and a complete workspace is left as it is."""

from __future__ import annotations

import json
import os
import shlex
from types import SimpleNamespace

from perdure import config
from perdure.agent.places import REGISTERED
from perdure.errors import NotSaved, PerdureError, UsageError
from perdure.front.output import Output, Styled
from perdure.front.visible import one_line
from perdure.programs.cortext import repository
from perdure.programs.cortext.workspace import FOLDER, REGISTRY, Workspace
from perdure.session.stores import files
from perdure.session.stores.cortext_folder import CONVERSATIONS

TEMPLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "template")
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
    path = os.path.abspath(os.path.expanduser(options.folder)) if options.folder else config.here()
    shown = one_line(config.as_typed(path))
    is_there = os.path.lexists(os.path.join(path, FOLDER, REGISTRY))
    if not is_there:
        _make(path)
    Workspace(path).remember()
    try:
        has_made_repository = repository.start(path)
    except PerdureError as error:
        out.note(Styled(one_line(error.said), "yellow"))
        has_made_repository = False
    if is_there:
        out.line(f"{shown} is a workspace already{'.' if has_made_repository else '; nothing was changed.'}")
    else:
        out.line(f"Made {shown} a workspace. What is in {FOLDER}/ is yours to edit.")
    if has_made_repository:
        out.line("Made a git repository there, for conversations to be committed to.")
    if not is_there:
        out.line("")
        out.line("Begin with:")
        if path != config.here():
            out.line(f"  cd {one_line(shlex.quote(path))}")
        out.line("  cortext start brainstorm What to build first")
    return 0


def _make(path: str) -> None:
    with files.told(NotSaved, path):
        files.make_folder(path, private=False)
    _make_folder(path, FOLDER)
    for group in sorted(os.listdir(TEMPLATE)):
        _make_folder(path, os.path.join(FOLDER, group))
        for name in sorted(os.listdir(os.path.join(TEMPLATE, group))):
            with open(os.path.join(TEMPLATE, group, name), "rb") as file:
                _write(path, os.path.join(FOLDER, group, name), file.read())
    _write(path, os.path.join(FOLDER, REGISTRY), _registry())


def _make_folder(path: str, relative: str) -> None:
    with files.told(NotSaved, os.path.join(path, relative)):
        files.new_folder(path, relative, private=False)


def _write(path: str, relative: str, data: bytes) -> None:
    """Whole, or not at all; what is there is its user's."""
    if not os.path.lexists(os.path.join(path, relative)):
        files.replace(path, relative, data, private=False)


def _registry() -> bytes:
    types = {
        kind: {"name": name, "folder": CONVERSATIONS, "command": f"/workspace.{kind}"}
        for kind, name in _TYPES.items()
    }
    usual = {name: value for name, value in REGISTERED.items() if value}
    registry = {"schema_version": "2.0", "conversation_types": types, **usual}
    return json.dumps(registry, indent=2).encode() + b"\n"
