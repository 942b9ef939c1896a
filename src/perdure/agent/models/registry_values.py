"""What people write in place of a key or a header: the value itself, a variable's name, or a command.

sk-0123    MY_KEY    $MY_KEY    Bearer ${MY_KEY}    !pass show openai
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from perdure.agent.models.registry_commands import Command, Commands, written
from perdure.agent.settings import CustomModel, CustomProvider, Traits

_Said = TypeVar("_Said", CustomModel, CustomProvider, Traits)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
_IN_TEXT = re.compile(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*))")


class Headers(dict[str, str]):
    """They may hold secrets, so they do not show what they hold."""

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name!r}: …" for name in self) + "}"


class Values:
    """Their meaning in one environment. What variables say is read at once, but a command is kept as one: it
    is run by `printed` and `sent` alone."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._commands = Commands(environment)

    def stop_commands(self) -> None:
        self._commands.stop()

    def setting(self, variable: str) -> str:
        return self._environment.get(variable, "").strip()

    def variables(self, text: str) -> tuple[str, ...]:
        """Those that a text names: `$NAME` and `${NAME}` in it, or all of it, as pi has it. What a command
        names is for the shell."""
        if isinstance(text, Command):
            return ()
        if found := tuple(braced or plain for braced, plain in _IN_TEXT.findall(text)):
            return found
        return (text,) if self.setting(text) or _VARIABLE.fullmatch(text) else ()

    def meant(self, text: str) -> str:
        if isinstance(text, Command):
            return text
        if _IN_TEXT.search(text):
            return _IN_TEXT.sub(lambda found: self.setting(found[1] or found[2]), text)
        return self.setting(text) or text

    def headers(self, written: Mapping[str, str]) -> Headers:
        return Headers({name: self.meant(value) for name, value in written.items()})

    def sent(self, headers: Mapping[str, str], whose: str) -> Headers:
        return Headers(
            {name: self.printed(it, f"header {name!r} of {whose}") for name, it in headers.items()}
        )

    def printed(self, value: str, what: str) -> str:
        """What a command prints, and any other value as it is. ModelError if the command fails."""
        return self._commands.printed(value, what) if isinstance(value, Command) else value

    def secrets(self) -> frozenset[str]:
        """What commands have printed so far."""
        return self._commands.secrets()


def from_source(said: _Said, source: str, folder: str = "") -> _Said:
    """The same; the commands in it know where they were written."""
    changes: dict[str, Any] = {
        "headers": {name: written(value, source, folder) for name, value in said.headers.items()}
    }
    if isinstance(said, CustomModel | CustomProvider):
        changes["api_key"] = written(said.api_key.strip(), source, folder)
    if isinstance(said, CustomProvider):
        changes["models"] = tuple(from_source(each, source) for each in said.models)
        overrides = said.model_overrides.items()
        changes["model_overrides"] = {id: from_source(each, source) for id, each in overrides}
    return msgspec.structs.replace(said, **changes)
