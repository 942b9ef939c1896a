"""A workspace: a folder with `.workspace/` in it, and what its user has written there.

    .workspace/commands/workspace.<type>.md   the prompt of each type of conversation; `/workspace.<type>`
    .workspace/memory/*.md                    what is part of every prompt
    .workspace/registry.json                  settings, and the types that have a folder of their own

No link to a text is followed: it is sent to a model, and a workspace may be somebody else's. Who works in one
of another user has said so (`layouts`), and reads what that user has written there, but nobody else's word.
"""

from __future__ import annotations

import os
import re

from perdure import config
from perdure.errors import NoHome, OthersMayWrite, PerdureError, Unreadable, UsageError
from perdure.session import strangers
from perdure.session.layouts import LAYOUTS, Home, refuse_strangers, workspace_around

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from perdure.front.own_settings import OwnSettings

FOLDER = LAYOUTS["cortext"].marker
REGISTRY = "registry.json"
COMMIT = "commit"
"""The setting that says whether conversations are committed. It counts without trust: it can only forbid."""
MEMORY = ("constitution", "context", "decisions")
OWN_COMMANDS = ("stop-conversation", "complete", "resume")
"""What follows `/workspace.` and is no type."""
_MOST = 64 * 1024
_LONGEST_PAUSE = 10.0**6
_TYPE = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_PROMPT = re.compile(r"workspace\.([a-z0-9][a-z0-9-]{0,31})\.md")


class NoType(UsageError):
    """There is no prompt for a type of conversation."""

    def __init__(self, kind: str, path: str, types: Sequence[str]) -> None:
        self.path = path
        """Where its prompt would be; empty if there can be no such type."""
        hint = "a type is at most 32 small letters, digits and dashes"
        if path:
            hint = f"{config.as_typed(path)} would make it one"
        known = ", ".join(types) or "none"
        super().__init__(f"There is no type of conversation {kind!r:.60}", f"there are {known}; {hint}")


class Workspace:
    def __init__(self, path: str, passed_over: Sequence[OthersMayWrite] = ()) -> None:
        self.path = path
        self.passed_over = passed_over
        """Nearer ones of other users, which do not count."""

    @classmethod
    def around(cls) -> Workspace:
        """The nearest one; NotFound says how to make one, OthersMayWrite why it is not used."""
        found = cls(*workspace_around(FOLDER))
        refuse_strangers(found.home)
        return found

    @property
    def home(self) -> Home:
        return Home("cortext", self.path)

    @property
    def types(self) -> list[str]:
        """Those of which there is a prompt."""
        try:
            names = os.listdir(os.path.join(self.path, FOLDER, "commands"))
        except OSError:
            return []
        found = [match[1] for match in map(_PROMPT.fullmatch, names) if match]
        return sorted(each for each in found if each not in OWN_COMMANDS)

    def prompt(self, kind: str) -> str:
        """What its agent is told, as it is now."""
        relative = os.path.join(FOLDER, "commands", f"workspace.{kind}.md")
        if not _TYPE.fullmatch(kind) or kind in OWN_COMMANDS or not self._is_there(relative):
            can_be = bool(_TYPE.fullmatch(kind)) and kind not in OWN_COMMANDS
            raise NoType(kind, os.path.join(self.path, relative) if can_be else "", self.types)
        text = self._text(relative)
        if not text.strip():
            raise PerdureError(
                f"{config.as_typed(os.path.join(self.path, relative))} is empty",
                "write in it how its agent is to behave",
            )
        return text

    def memory(self) -> tuple[list[str], list[str]]:
        """What is part of every prompt; and why something of it is not."""
        told: list[str] = []
        problems: list[str] = []
        for name in MEMORY:
            relative = os.path.join(FOLDER, "memory", f"{name}.md")
            if not self._is_there(relative):
                continue
            try:
                text = self._text(relative).strip()
            except PerdureError as error:
                problems.append(error.said)
            else:
                told += [f"<{name}>\n{text}\n</{name}>"] if text else []
        return told, problems

    def settings(self) -> OwnSettings:
        """What registry.json says; whether that counts is for the user's trust to say."""
        from functools import partial

        from perdure.agent.reading import bytes_in
        from perdure.front.own_settings import Number, OwnSettings

        known: dict[str, type | Number] = {
            "default_model": str,
            "tool": str,
            "inactivity_seconds": Number(0, _LONGEST_PAUSE),
            COMMIT: bool,
        }
        path = os.path.join(self.path, FOLDER, REGISTRY)
        return OwnSettings.read(path, known, partial(bytes_in, self.path, also=self._owner))

    def remember(self) -> None:
        """In the user's list of workspaces, in which other programs look for conversations. It is a
        convenience: where it cannot be kept, the workspace is found from inside it."""
        line = os.path.abspath(self.path)
        if "\n" in line:
            return
        try:
            path = config.expanded("~/.cortext/workspaces")
            if not os.path.lexists(path):
                from perdure.session.stores import files  # which a listing does without

                files.make_empty(path)
            file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            try:
                there = os.read(file, 1 << 20)
                if os.fsencode(line) not in there.split(b"\n"):
                    seal = b"" if not there or there.endswith(b"\n") else b"\n"
                    os.write(file, seal + os.fsencode(line) + b"\n")
            finally:
                os.close(file)
        except (OSError, NoHome):
            pass

    @property
    def _owner(self) -> int | None:
        """Whose workspace it is."""
        try:
            return os.stat(os.path.join(self.path, FOLDER)).st_uid
        except OSError:
            return None

    def _is_there(self, relative: str) -> bool:
        return os.path.lexists(os.path.join(self.path, relative))

    def _text(self, relative: str) -> str:
        from perdure.session.stores import files

        path = os.path.join(self.path, relative)
        strangers.refuse(path, self._owner)
        with files.open_to_read(self.path, relative) as file:
            data = files.read_all(file.fileno(), _MOST + 1)
        if len(data) > _MOST:
            raise Unreadable(path, f"it is larger than {_MOST >> 10} KB")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise Unreadable(path, f"it is not UTF-8, from byte {error.start} on") from None


def program(name: str, workspace: str, path: str) -> str:
    """Where it is on that PATH, and never what lies in the workspace, or wherever this process happens to be;
    empty if it is nowhere."""
    import shutil

    own = os.path.join(config.real_path(workspace), "")
    for folder in path.split(os.pathsep):
        found = os.path.isabs(folder) and shutil.which(name, path=folder)
        if found and not any(
            os.path.join(config.real_path(at), "").startswith(own) for at in (folder, found)
        ):
            return found
    return ""


def inactivity(values: Mapping[str, Any]) -> float:
    """Seconds after which a conversation that nobody says anything in is paused: as the environment has it,
    or else the registry."""
    said = config.setting("CORTEXT_INACTIVITY_SECONDS")
    if not said:
        return float(values["inactivity_seconds"])
    try:
        seconds = float(said)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _LONGEST_PAUSE:
        raise UsageError(f"CORTEXT_INACTIVITY_SECONDS is no number of seconds: {said!r:.40}", "0 is never")
    return seconds


def types_here() -> list[str]:
    """Of the workspace around us."""
    return Workspace.around().types


def type_of(command: str) -> str:
    """`brainstorm` of `/workspace.brainstorm`."""
    return command.removeprefix("/workspace.")
