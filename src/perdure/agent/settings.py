"""What the user has set: `settings.json` and `models.json` in pi's home, which the original pi reads as well.

Keys are camelCase, as pi writes them, or snake_case; those we do not know are somebody else's and left alone.
A value of the wrong kind is an error that names file and key: guessing would hide a typing mistake. No key is
ever part of what a value looks like when it is printed.

A project may have settings too. They are not read: a folder is not trusted because somebody works in it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar

import msgspec
from msgspec import Meta, Struct

from perdure import config
from perdure.agent.models import THINKING_LEVELS, Cost, ThinkingLevel
from perdure.errors import PerdureError, Unreadable

FILE = "settings.json"
MODELS_FILE = "models.json"
_PROJECT_FILE = os.path.join(".pi", FILE)
_NAMED = ("headers", "modelOverrides", "providers")  # what is in them has names of its own

Count = Annotated[int, Meta(ge=0)]
Tokens = Annotated[int, Meta(ge=1)]
_Kind = TypeVar("_Kind")


class Traits(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a user may say of a model. What is left open is as it is built in."""

    name: str = ""
    api: str = ""
    context_window: Tokens | None = None
    max_tokens: Tokens | None = None
    cost: Cost | None = None
    reasoning: bool | None = None
    input: tuple[str, ...] | None = None
    headers: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class CustomModel(Traits, frozen=True, kw_only=True, rename="camel"):
    id: Annotated[str, Meta(min_length=1)]
    provider: str = ""
    base_url: str = ""
    api_key: str = ""
    """The key itself, or the name of the variable that holds it."""


class CustomProvider(Struct, frozen=True, kw_only=True, rename="camel"):
    """A provider of `models.json`: one of the user's own, or a built-in one that is reached elsewhere."""

    base_url: str = ""
    api: str = ""
    api_key: str = ""
    headers: dict[str, str] = {}
    models: tuple[CustomModel, ...] = ()
    model_overrides: dict[str, Traits] = {}

    def __repr__(self) -> str:
        return "CustomProvider(…)"


class Compaction(Struct, frozen=True, kw_only=True, rename="camel"):
    enabled: bool = True
    reserve_tokens: Count = 16_384
    keep_recent_tokens: Count = 20_000
    instructions: str = ""
    """Added to what the summary is asked for."""
    model: str = ""
    """Who writes it; empty for the model of the conversation."""


class Retry(Struct, frozen=True, kw_only=True, rename="camel"):
    enabled: bool = True
    max_retries: Count = 3
    base_delay_ms: Count = 2_000
    max_delay_ms: Count = 60_000


class Settings(Struct, frozen=True, kw_only=True, rename="camel"):
    default_model: str = ""
    default_provider: str = ""
    default_thinking_level: ThinkingLevel | Literal["max"] = "off"
    """`max` is pi's, and the most there is here."""
    models: tuple[CustomModel, ...] = ()
    auto_compact: bool | None = None
    """This program's name for `compaction.enabled`, and the same value."""
    compact_threshold: Tokens | Annotated[float, Meta(gt=0, le=1)] | None = None
    """When to compact: a number of tokens, or a share of the window (0.8); else what `compaction` says."""
    compaction: Compaction = Compaction()
    retry: Retry = Retry()
    prompts: tuple[str, ...] = ()
    """Added to the system prompt."""
    shell_environment: tuple[str, ...] = ()
    """Variables that commands may see although they are named like secrets."""

    def __post_init__(self) -> None:
        level = known_level(self.default_thinking_level)
        msgspec.structs.force_setattr(self, "default_thinking_level", level)
        is_on = self.compaction.enabled if self.auto_compact is None else self.auto_compact
        compaction = msgspec.structs.replace(self.compaction, enabled=is_on)
        msgspec.structs.force_setattr(self, "auto_compact", is_on)
        msgspec.structs.force_setattr(self, "compaction", compaction)

    @classmethod
    def load(cls, home: str | None = None) -> Self:
        """The user's, or the defaults if there are none."""
        return cls.of(None, home)

    @classmethod
    def of(cls, said: Mapping[str, Any] | None, home: str | None = None) -> Self:
        """What is said here, in either spelling; what is left open, down to single keys, is the user's."""
        path = os.path.join(pi_home(home), FILE)
        found = _read(path)
        users = found.checked(cls)
        if not said:
            return users
        own = _Written("the settings passed in", *_spelt(said))
        own.checked(cls)
        return _Written(own.source, _merged(found.data, own.data), own.spellings).checked(cls)


def known_level(level: str) -> str:
    """A level of thinking that any program may have written down, as one of ours."""
    return level if level in THINKING_LEVELS else THINKING_LEVELS[-1] if level == "max" else "high"


class _Models(Struct, frozen=True):
    providers: dict[str, CustomProvider] = {}


def custom_providers(home: str | None = None) -> Mapping[str, CustomProvider]:
    """Those of `models.json`, by name."""
    return _read(os.path.join(pi_home(home), MODELS_FILE)).checked(_Models).providers


def pi_home(home: str | None = None) -> str:
    return home or config.home("PI_CODING_AGENT_DIR", "~/.pi/agent")


def untrusted(cwd: str) -> str:
    """A notice, if a folder has settings that are not read."""
    path = os.path.join(cwd, _PROJECT_FILE)
    if not os.path.lexists(path):
        return ""
    return f"{config.as_typed(path)} is not read: this release takes no settings from a project"


class _Written(NamedTuple):
    """What somebody wrote, its keys as pi spells them."""

    source: str
    data: Any
    spellings: Mapping[str, str] = {}
    """Keys that were spelt otherwise."""

    def checked(self, kind: type[_Kind]) -> _Kind:
        try:
            return msgspec.convert(self.data, kind)
        except msgspec.ValidationError as error:
            cause, _, place = str(error).replace("`", "").partition(" - at $")
            if "enum value" in cause:  # levels of thinking are the only ones
                cause += f", which is none of {', '.join(THINKING_LEVELS)}"
            place = re.sub(r"\w+", lambda key: self.spellings.get(key[0], key[0]), place.lstrip("."))
            what = f"{place}: {cause[:1].lower()}{cause[1:]}" if place else f"{cause[:1].lower()}{cause[1:]}"
            raise _wrong(self.source, what) from None


def _read(path: str) -> _Written:
    """Nothing, if there is no such file."""
    source = config.as_typed(path)
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8-sig")
        return _Written(source, *_spelt(json.loads(text) if text.strip() else {}))
    except (FileNotFoundError, NotADirectoryError):
        return _Written(source, {})
    except OSError as error:
        raise Unreadable(source, error) from None
    except UnicodeDecodeError as error:
        raise Unreadable(source, f"it is not UTF-8, from byte {error.start} on") from None
    except json.JSONDecodeError as error:
        raise _wrong(source, f"line {error.lineno}: no JSON: {error.msg} (column {error.colno})") from None
    except RecursionError:
        raise _wrong(source, "it is nested too deeply") from None


def _spelt(value: Any) -> tuple[Any, dict[str, str]]:
    """All keys as pi spells them, and those that were spelt otherwise."""
    others: dict[str, str] = {}

    def spelt(value: Any, is_named: bool = False) -> Any:
        if isinstance(value, list | tuple):
            return [spelt(each) for each in value]
        if not isinstance(value, Mapping):
            return value
        found = {}
        for key, inner in value.items():
            name = key if is_named else re.sub(r"(?<=[a-z0-9])_([a-z0-9])", lambda it: it[1].upper(), key)
            if name != key:
                others[name] = key
            found[name] = spelt(inner, name in _NAMED and not is_named)
        return found

    return spelt(value), others


def _merged(users: Any, said: Any) -> Any:
    if not (isinstance(users, dict) and isinstance(said, dict)):
        return said
    return users | {key: _merged(users.get(key), value) for key, value in said.items()}


def _wrong(source: str, what: str) -> PerdureError:
    return PerdureError(f"{source}: {what}", "correct it there")
