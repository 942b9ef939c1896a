"""What the user has set: `settings.json` and `models.json` in pi's home, which the original pi reads as well.

Keys are camelCase, as pi writes them, or snake_case; those we do not know are somebody else's and left alone.
In `limits` and `shellEnvironment`, which nobody else has, an unknown key is an error, and so is a value of
the wrong kind everywhere. It names file and key: guessing would hide a typing mistake. No secret is ever part
of what a value looks like when it is printed.

A project may have settings too, laid over the user's. Whoever names one here has asked `trust` before: a
folder is not trusted because somebody works in it.
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
from perdure.agent.environment import FILTERED, ShellEnvironment
from perdure.agent.models import THINKING_LEVELS, Cost, ThinkingLevel
from perdure.agent.reading import bytes_of
from perdure.errors import OthersMayWrite, PerdureError, Unreadable
from perdure.session import strangers
from perdure.session.layouts import home_to_read

FILE = "settings.json"
MODELS_FILE = "models.json"
PASSED_IN = "the settings passed in"
MOST = 2**20
"""Bytes of a project's."""
_MOST_OF_USERS = 2**26
PROJECT_FOLDER = ".pi"
_MOST_SLIPS = 5
"""Sentences about keys that are slips; who corrects these is told of the rest."""
_NAMED = ("env", "headers", "mcpServers", "modelOverrides", "providers")
"""What is in these has names of its own."""
_PLACES = ("extensions", "skills", "templates")  # paths, relative to the folder of their file
_ADDED = (*_PLACES, "prompts")  # a project's come behind the user's
_WIDTHS = ("core", "filtered", "all")
"""What `shellEnvironment` lets commands inherit, the least first."""

Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
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
    """The key itself, the name of the variable that holds it, or a `!command` that prints it."""
    project: str = ""
    """The trusted folder whose settings name it; empty if they are the user's own. Nobody writes it there."""
    source: str = ""
    """The file of settings that names it; empty if they were passed in. Nobody writes it there."""


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


class McpServer(Struct, frozen=True, kw_only=True, rename="camel"):
    """A program to start, or an address: its tools are the agent's. `${NAME}` stands for a variable."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    """Where it is started: the home of the user whose settings name it, or the project whose do. Not where
    the user works: what a folder brings there could be run in the place of what they mean."""
    url: str = ""
    headers: dict[str, str] = {}
    type: str = ""
    """Which of the two, where somebody says so."""
    disabled: bool = False
    startup_timeout_sec: Seconds = 30
    tool_timeout_sec: Seconds = 300

    def __repr__(self) -> str:
        return "McpServer(…)"


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


class Limits(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Where a model is stopped that does not stop by itself. A project can only make them narrower. Whoever
    misspells a limit relies on one that is not there, so an unknown key is an error."""

    answer_bytes: Annotated[int, Meta(ge=1024, le=10 * 2**20)] = 8 * 2**20
    """Of one answer: text, thinking and the arguments of calls. The most is what a session can hold as one
    entry, even if every character has to be written as an escape."""
    calls_at_once: Annotated[int, Meta(ge=1, le=1024)] = 8
    """Of those that only read; others run alone."""
    calls_in_one_answer: Annotated[int, Meta(ge=1, le=1024)] = 64
    """Further ones are not run, and the model is told."""
    turns: Annotated[int, Meta(ge=1, le=1_000_000)] = 200
    """How often models are asked for one message of the user's, for summaries and after failures included."""
    cost: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    """US dollars since a conversation was opened: once they are spent, no model is asked."""


USUAL_LIMITS = Limits()


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
    limits: Limits = Limits()
    prompts: tuple[str, ...] = ()
    """Added to the system prompt."""
    templates: tuple[str, ...] = ()
    """Prompt templates, or folders of them. Their paths may stand among `prompts`, as in the original pi."""
    extensions: tuple[str, ...] = ()
    """Python files, or folders of them, beside those in their usual places."""
    skills: tuple[str, ...] = ()
    """Folders of skills, likewise."""
    mcp_servers: dict[str, McpServer] = {}
    shell_environment: ShellEnvironment = FILTERED
    """What commands may see of the user's variables. A list of names is short for `allow`. A project, trusted
    or not, can only take from what the user lets them see."""

    def __post_init__(self) -> None:
        level = known_level(self.default_thinking_level)
        msgspec.structs.force_setattr(self, "default_thinking_level", level)
        is_on = self.compaction.enabled if self.auto_compact is None else self.auto_compact
        compaction = msgspec.structs.replace(self.compaction, enabled=is_on)
        msgspec.structs.force_setattr(self, "auto_compact", is_on)
        msgspec.structs.force_setattr(self, "compaction", compaction)

    @classmethod
    def load(cls, home: str | None = None, *, project: str | None = None) -> Self:
        """The user's, or the defaults if there are none; over them those of a project that is trusted."""
        return cls.of(None, home, project=project)

    @classmethod
    def of(
        cls, said: Mapping[str, Any] | None, home: str | None = None, *, project: str | None = None
    ) -> Self:
        """What is said here, in either spelling; what is left open, down to single keys, is the project's or
        the user's."""
        users = config.expanded_to_read("~")
        found = _placed(_read(os.path.join(pi_home(home), FILE)), pi_home(home), users)
        settings = found.checked(cls)
        folder = os.path.join(project, PROJECT_FOLDER) if project is not None else ""
        if project is not None and config.real_path(folder) != config.real_path(pi_home(home)):
            own = _placed(_read(os.path.join(folder, FILE), within=project), folder, project, project)
            own.checked(cls)
            found = _Written(own.source, _with_project(found.data, own.data), own.spellings)
            settings = found.checked(cls)
        if said:
            own = _placed(_Written(PASSED_IN, *_spelt(said), is_file=False), project or os.curdir)
            own.checked(cls)
            settings = _Written(own.source, _merged(found.data, own.data), own.spellings).checked(cls)
        return settings


_OURS_ALONE: dict[str, type[Struct]] = {"limits": Limits, "shellEnvironment": ShellEnvironment}
"""Groups that no other program keeps in these files."""


def slips(home: str | None = None, *, project: str | None = None) -> list[str]:
    """A sentence for each key that is nearly one of ours: in the user's file and in that of a project that is
    trusted. Of a file that cannot be read, none: `Settings.load` says what is wrong with it."""
    from perdure.agent import setting_names

    files = [(os.path.join(pi_home(home), FILE), "")]
    if project is not None:
        files.append((os.path.join(project, PROJECT_FOLDER, FILE), project))
    found: list[str] = []
    for path, within in dict(files).items():
        try:
            written = _read(path, within)
        except PerdureError:
            continue
        source, data = written.source, written.data
        if within and _asks_for_more(data):
            found.append(f"{source}: shellEnvironment: a project allows no variables; your own settings do")
        groups: list[tuple[str, type[Struct], Any]] = [("", Settings, data)]
        if isinstance(data, dict):
            groups += [
                ("compaction", Compaction, data.get("compaction")),
                ("retry", Retry, data.get("retry")),
            ]
            models, servers = data.get("models"), data.get("mcpServers")
            groups += [("models", CustomModel, each) for each in (models if isinstance(models, list) else ())]
            named = servers.items() if isinstance(servers, dict) else ()
            groups += [(f"mcpServers.{name}", McpServer, each) for name, each in named]
        for group, kind, inside in groups:
            others = setting_names.PIS_OWN.get(group, ())
            where = f"{source}: {group}: " if group else f"{source}: "
            names = _names(kind)
            found += [where + slip for slip in setting_names.slips(inside, names, others, written.spellings)]
    return found[:_MOST_SLIPS]


def _names(kind: type[Struct]) -> dict[str, str]:
    """Ours, by pi's spelling."""
    return {field.encode_name: field.name for field in msgspec.structs.fields(kind)}


def known_level(level: str) -> str:
    """A level of thinking that any program may have written down, as one of ours."""
    return level if level in THINKING_LEVELS else THINKING_LEVELS[-1] if level == "max" else "high"


class _Models(Struct, frozen=True):
    providers: dict[str, CustomProvider] = {}


def custom_providers(home: str | None = None) -> Mapping[str, CustomProvider]:
    """Those of `models.json`, by name."""
    return _read(os.path.join(pi_home(home), MODELS_FILE)).checked(_Models).providers


def pi_home(home: str | None = None) -> str:
    """pi's own folder, to read from: what is in it need not be there."""
    return home or home_to_read("pi")


class _Written(NamedTuple):
    """What somebody wrote, its keys as pi spells them."""

    source: str
    data: Any
    spellings: Mapping[str, str] = {}
    """Keys that were spelt otherwise."""

    is_file: bool = True
    """False if a Python program passed it in."""

    def checked(self, kind: type[_Kind]) -> _Kind:
        try:
            return msgspec.convert(self.data, kind)
        except UnicodeEncodeError:
            raise _wrong(self.source, "a name in it has a lone surrogate, which is not text") from None
        except msgspec.ValidationError as error:
            cause, _, place = str(error).replace("`", "").partition(" - at $")
            if "enum value" in cause:
                known = _WIDTHS if place.endswith(".inherit") else THINKING_LEVELS
                cause += f", which is none of {', '.join(known)}"
            if cause.startswith("Object contains unknown field"):
                raise _wrong(self.source, self._unknown_key()) from None
            place = re.sub(r"\w+", lambda key: self.spellings.get(key[0], key[0]), place.lstrip("."))
            place = place.replace("[...]", f".{self._wrong_server()}" if "mcp" in place else "[...]", 1)
            what = f"{place}: {cause[:1].lower()}{cause[1:]}" if place else f"{cause[:1].lower()}{cause[1:]}"
            raise _wrong(self.source, what) from None

    def _unknown_key(self) -> str:
        """Names the first in a group that is ours alone, and the known ones, as their writer spells them."""
        for group, kind in _OURS_ALONE.items():
            said = self.data.get(group, {})
            names = _names(kind)
            for key in said if isinstance(said, dict) else ():
                if key not in names:
                    written = self.spellings.get(key, key)
                    known = names.values() if "_" in written else names
                    where = self.spellings.get(group, group)
                    return f"{where}: unknown key {written!r:.60}, which is none of {', '.join(known)}"
        return "there is an unknown key"

    def _wrong_server(self) -> str:
        """The first that is none: what checks them says where in one something is wrong, and not in which."""
        for name, server in self.data["mcpServers"].items():
            try:
                msgspec.convert(server, McpServer)
            except msgspec.ValidationError:
                return str(name)
        return "…"


def _read(path: str, within: str = "") -> _Written:
    """Nothing, if there is no such file. One `within` a folder does not lead out of it: it has been shown to
    whoever trusts that folder, and what is elsewhere has not."""
    source = config.as_typed(path)
    root, real = config.real_path(within), config.real_path(path)
    if within and os.path.lexists(path) and os.path.commonpath([root, real]) != root:
        raise Unreadable(source, "it is a link that leads out of the folder")
    # Whose a project's is, who trusts the folder has seen, with what it says; not what others write later.
    if (doubt := strangers.doubt(path)) and (doubt.is_open or not within):
        raise OthersMayWrite(source, doubt.why, doubt.advice)
    try:
        most = MOST if within else _MOST_OF_USERS
        data, is_cut, _ = bytes_of(path, most)
        if is_cut:
            raise Unreadable(source, f"it is larger than {most >> 20} MB")
        text = data.decode("utf-8-sig")
        return _Written(source, *_spelt(json.loads(text) if text.strip() else {}))
    except (FileNotFoundError, NotADirectoryError):
        return _Written(source, {})
    except OSError as error:
        raise Unreadable(source, error) from None
    except UnicodeDecodeError as error:
        raise Unreadable(source, f"it is not UTF-8, from byte {error.start} on") from None
    except json.JSONDecodeError as error:
        raise _wrong(source, f"line {error.lineno}: no JSON: {error.msg} (column {error.colno})") from None
    except ValueError:
        raise _wrong(source, "a number in it is too long") from None
    except RecursionError:
        raise _wrong(source, "it is nested too deeply") from None


def pis_spelling(key: str) -> str:
    return re.sub(r"(?<=[a-z0-9])_([a-z0-9])", lambda found: found[1].upper(), key)


def _spelt(value: Any) -> tuple[Any, dict[str, str]]:
    """All keys as pi spells them, and those that were spelt otherwise."""
    others: dict[str, str] = {}

    def each_spelt(value: Any, is_named: bool = False) -> Any:
        if isinstance(value, list | tuple):
            return [each_spelt(each) for each in value]
        if not isinstance(value, Mapping):
            return value
        found = {}
        for key, inner in value.items():
            name = key if is_named else pis_spelling(key)
            if name != key:
                others[name] = key
            found[name] = each_spelt(inner, name in _NAMED and not is_named)
        return found

    return each_spelt(value), others


def _placed(written: _Written, folder: str, servers: str = "", project: str = "") -> _Written:
    """Its paths from the root on, and those of templates apart from the texts they stand among. Its servers
    are started in `servers`, and its models are those of `project`."""
    data = written.data
    if not isinstance(data, dict):
        return written
    data = dict(data)
    prompts = data.get("prompts")
    if isinstance(prompts, list):
        data["prompts"] = [each for each in prompts if not names_a_file(each)]
        templates = data.get("templates", [])
        if isinstance(templates, list) and (named := [each for each in prompts if names_a_file(each)]):
            data["templates"] = [*templates, *named]
    for key in _PLACES:
        if isinstance(data.get(key), list):
            data[key] = [_path(each, folder) if isinstance(each, str) else each for each in data[key]]
    if isinstance(data.get("shellEnvironment"), list):
        data["shellEnvironment"] = {"allow": data["shellEnvironment"]}
    if isinstance(data.get("models"), list):
        file = written.source if written.is_file else ""
        data["models"] = [
            {**each, "project": project, "source": file} if isinstance(each, dict) else each
            for each in data["models"]
        ]
    if servers and isinstance(data.get("mcpServers"), dict):
        data["mcpServers"] = {
            name: _started_in(servers, each) if isinstance(each, dict) else each
            for name, each in data["mcpServers"].items()
        }
    return written._replace(data=data)


def _started_in(folder: str, server: dict[str, Any]) -> dict[str, Any]:
    cwd = server.get("cwd", "")
    is_open = isinstance(cwd, str) and not cwd.startswith("${")
    return {**server, "cwd": _path(cwd, folder)} if is_open else server


def names_a_file(text: Any) -> bool:
    """Whether what stands among `prompts` is a template's path."""
    return (
        isinstance(text, str)
        and not any(map(str.isspace, text.strip()))
        and (text.endswith(".md") or text.startswith(("/", "~", "./", "../")))
    )


def _path(text: str, folder: str) -> str:
    return os.path.abspath(os.path.join(folder, config.expanded(text)))


def _with_project(users: Any, project: Any) -> Any:
    """A list of places or prompts is added to, a model of the user's stays unless the project has one of that
    name, and no limit becomes wider."""
    both = _merged(users, project) | {"limits": _narrowed(users.get("limits", {}), project.get("limits", {}))}
    for key in _ADDED:
        both[key] = [*users.get(key, ()), *project.get(key, ())]
    named = {(model.get("provider"), model["id"]) for model in project.get("models", ())}
    left = [each for each in users.get("models", ()) if (each.get("provider"), each["id"]) not in named]
    seen = _variables_narrowed(users.get("shellEnvironment", {}), project.get("shellEnvironment", {}))
    return both | {"models": [*project.get("models", ()), *left], "shellEnvironment": seen}


def _variables_narrowed(users: dict[str, Any], project: dict[str, Any]) -> dict[str, Any]:
    """What a project says of commands' variables: it may take from them, and gives nothing of the user's."""
    own = users.get("inherit", FILTERED.inherit)
    inherit = min(own, project.get("inherit", own), key=_WIDTHS.index)
    return users | {"inherit": inherit, "deny": [*users.get("deny", ()), *project.get("deny", ())]}


def _asks_for_more(data: Any) -> bool:
    """Whether a project wants commands to see more of the user's variables."""
    said = data.get("shellEnvironment") if isinstance(data, dict) else None
    return bool(said.get("allow") or said.get("inherit") == "all" if isinstance(said, dict) else said)


def _narrowed(users: dict[str, Any], project: dict[str, Any]) -> dict[str, Any]:
    usual = {field.encode_name: field.default for field in msgspec.structs.fields(Limits)}
    both = {**users}
    for key in usual.keys() & project.keys():
        given = [each for each in (users.get(key, usual[key]), project[key]) if each is not None]
        both[key] = min(given, default=None)
    return both


def _merged(users: Any, said: Any) -> Any:
    if not (isinstance(users, dict) and isinstance(said, dict)):
        return said
    return users | {
        # A server is replaced as a whole: half another one, it would be given the first one's keys.
        key: users.get(key, {}) | value if key == "mcpServers" else _merged(users.get(key), value)
        for key, value in said.items()
    }


def _wrong(source: str, what: str) -> PerdureError:
    return PerdureError(f"{source}: {what}", "correct it there")
