"""What a folder brings beside text: settings, extensions, servers, keys, addresses, templates and skills.

It is found without obeying any of it, for a person to see before they trust the folder. So nothing is left
out that trust would allow, no text of the folder's can be taken for ours, and whatever is there is looked at
in bounded time: no pipe is waited for, no link out of the folder is read, and no path that settings name is
even looked for.

A project's `.pi/models.json`, `.pi/auth.json`, `.pi/trust.json` and its `.mcp.json` are never read, trusted
or not: where providers are, who has which key and who is trusted is the user's alone to say.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

from perdure import config
from perdure.agent import places, skills
from perdure.agent.reading import text_in, text_of
from perdure.agent.settings import FILE, MOST, PROJECT_FOLDER, names_a_file, pis_spelling

MOST_ITEMS = 10_000
"""Of one kind, but for the dangerous ones: of these nothing is left out."""
MOST_SHOWN = 200
"""Characters of one value, likewise; and of the names that lead to one."""

KINDS = {
    "extensions": "Python that runs inside this program, with all your rights",
    "servers": "MCP servers: programs with all your rights, or addresses",
    "keys": "commands that are run for a key or a header",
    "addresses": "where conversations with these models go, and which of your keys",
    "settings": "values in place of yours",
    "templates": "texts that the model is told, or that you may send it",
    "skills": "instructions that the model may read and follow",
}
"""What each allows, the most dangerous first."""
DANGEROUS = frozenset(("extensions", "servers", "keys", "addresses"))
"""What runs, or leads elsewhere."""
_NOUNS = {
    "extensions": "extension",
    "servers": "MCP server",
    "keys": "key command",
    "addresses": "model",
    "templates": "prompt",
    "skills": "skill",
}

_DEEPEST = 20  # settings that mean something are at most six steps down
_LEADS_OUT = frozenset(("baseUrl", "command", "url"))
_MAY_RUN = frozenset(("apiKey", "headers", "modelOverrides", "models", "providers"))
"""Where a text that begins with `!` is a command."""
_PLAIN = re.compile(r"""[^\s"'`,;()…]+""")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
_IN_KEY = re.compile(r"\$(?:\{(\w+)|([A-Za-z_]\w*))")
_IN_SERVER = re.compile(r"\$\{(\w+)()")

_Path = tuple[str | int, ...]


class Offer(NamedTuple):
    kind: str
    """One of `KINDS`."""
    allows: str
    """What trust would allow, in words."""
    items: list[str]
    """What there is of it, a line each."""


class Project:
    def __init__(self, cwd: str) -> None:
        self.cwd = config.real_path(cwd)
        self.folder = os.path.join(self.cwd, PROJECT_FOLDER)

    def offers(self) -> list[Offer]:
        """All that trust would allow, as it was when first asked for; nothing, and at once, for a folder that
        only holds text. What is the user's own needs nobody's trust."""
        return self._offers

    def untrusted(self, program: str = "pi") -> str:
        """A notice of what is left aside where nobody has decided; empty if that is nothing."""
        offers = self.offers()
        if not offers:
            return ""
        own = os.path.join(self.folder, "")
        is_own = [path.startswith(own) for path in self._skill_folders if os.path.isdir(path)]
        registered = self._registered
        others = sum(len(offer.items) for offer in offers if offer.kind != "skills") - len(registered)
        names = [PROJECT_FOLDER] if any(is_own) or others else []
        names += [] if all(is_own) else [places.FOR_ALL_AGENTS]
        names += [places.REGISTRY] if registered else []
        what = f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} not used"
        why = f"this folder is not trusted ({summary(offers)})"
        return f"{what}: {why}; `{program} trust` shows and allows it"

    def seen_from_here(self, path: str) -> str:
        """A path, as it is written: relative, if it begins in this folder."""
        here = os.path.join(self.cwd, "")
        return shown(path[len(here) :] if path.startswith(here) else config.as_typed(path))

    @cached_property
    def _offers(self) -> list[Offer]:
        found = _Offers()
        for folder in places.of_project("extensions", self.cwd):
            self._offer_files(found, "extensions", folder, places.extensions_in)
        self._offer_settings(found)
        for item in self._registered:
            found.add("settings", item)
        for folder in places.of_project("prompts", self.cwd):
            self._offer_files(found, "templates", folder, places.templates_in)
        for folder in self._skill_folders:
            self._offer_files(found, "skills", folder, _skills_in)
        return found.all()

    @cached_property
    def _skill_folders(self) -> list[str]:
        return places.of_project("skills", self.cwd)

    def _offer_files(
        self, found: _Offers, kind: str, folder: str, files_in: Callable[[str], list[str]]
    ) -> None:
        if not os.path.isdir(os.path.dirname(folder)):
            return
        try:
            paths = files_in(folder)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            found.add(kind, f"{self._followed(folder)} cannot be read: {error.strerror or error}")
            return
        is_elsewhere = not _is_in(folder, self.cwd)
        for path in paths:
            may_lead_out = is_elsewhere or os.path.islink(path)
            found.add(kind, partial(self._followed if may_lead_out else self.seen_from_here, path))

    def _followed(self, path: str) -> str:
        """A path, and where it really leads if that is elsewhere."""
        real = config.real_path(path)
        leads = "" if real == path or _is_in(real, self.cwd) else f" (a link to {self.seen_from_here(real)})"
        return self.seen_from_here(path) + leads

    def _offer_settings(self, found: _Offers) -> None:
        file = os.path.join(self.folder, FILE)
        if places.is_users(self.cwd) or not os.path.lexists(file):
            return
        path = self._followed(file)
        if not _is_in(file, self.cwd):
            found.add("settings", f"{path}: what is said there is not shown")
            return
        try:
            text, is_cut, _ = text_of(file, MOST)
            if is_cut:
                raise ValueError(f"it is larger than {MOST >> 20} MB")
            said = _parsed(text)
        except (OSError, ValueError) as error:
            why = error.strerror or error if isinstance(error, OSError) else error
            found.add("settings", f"{path} cannot be read, and what it says is not shown: {why}")
        else:
            _Settings(self, found).offer(said)

    @cached_property
    def _registered(self) -> list[str]:
        """What a workspace of cortext sets, where that is not what holds anyway."""
        file = os.path.join(self.cwd, places.REGISTRY)
        if not os.path.lexists(file):
            return []
        path = self._followed(file)
        try:
            text, is_cut, _ = text_in(self.cwd, file, MOST)
            said = _parsed(text) if not is_cut else {}
        except (OSError, ValueError):
            return []  # then nobody uses it
        return [
            f"{path}: {name} = {_written(said[name], MOST_SHOWN)}"
            for name, usual in places.REGISTERED.items()
            if name in said and said[name] not in (usual, None)
        ]


class _Offers:
    def __init__(self) -> None:
        self._items: dict[str, list[str]] = {kind: [] for kind in KINDS}
        self._more = dict.fromkeys(KINDS, 0)

    def add(self, kind: str, item: str | Callable[[], str]) -> None:
        if kind in DANGEROUS or len(self._items[kind]) < MOST_ITEMS:
            self._items[kind].append(item if isinstance(item, str) else item())
        else:
            self._more[kind] += 1

    def all(self) -> list[Offer]:
        for kind, more in self._more.items():
            self._items[kind] += [f"… and {more:,} more"] if more else []
        return [Offer(kind, KINDS[kind], items) for kind, items in self._items.items() if items]


def summary(offers: Iterable[Offer]) -> str:
    """`2 extensions, 1 MCP server, settings`."""
    return ", ".join(
        f"{len(items):,} {_NOUNS[kind]}{'' if len(items) == 1 else 's'}" if kind in _NOUNS else kind
        for kind, _, items in offers
    )


def shown(text: str, most: int | None = None) -> str:
    """A text of the folder's: on one line, and in quotes unless it is one plain word; cut where `most`
    characters are enough."""
    cut = text[:most]
    if not (_PLAIN.fullmatch(cut) and cut.isprintable()):
        cut = _escaped(json.dumps(cut, ensure_ascii=False))
    return cut + _rest(text, most)


def _written(value: Any, most: int | None = None) -> str:
    """The same for any JSON."""
    if isinstance(value, str):
        return shown(value, most)
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "nested too deeply to be shown"
    return _escaped(text[:most]) + _rest(text, most)


def _rest(text: str, most: int | None) -> str:
    return f"… ({len(text) - most:,} more characters)" if most is not None and len(text) > most else ""


def _escaped(text: str) -> str:
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def _skills_in(folder: str) -> list[str]:
    """What is looked into for some, however deep; or the file that makes this folder one."""
    file, folders = skills.looked_into(folder)
    return [file] if file else folders


def _is_in(path: str, folder: str) -> bool:
    """Whether it really is the folder, or lies in it."""
    root = os.path.join(config.real_path(folder), "")
    return os.path.join(config.real_path(path), "").startswith(root)


# --- settings -----------------------------------------------------------------------------------------


def _parsed(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text) if text.strip() else {}
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON, in line {error.lineno}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(said, dict):
        raise ValueError("it holds no object")
    return said


class _Settings:
    """What a project's settings ask for, in either spelling, whether or not it can be taken as it is."""

    def __init__(self, project: Project, found: _Offers) -> None:
        self._project = project
        self._found = found
        self._told: set[_Path] = set()

    def offer(self, said: Mapping[str, Any]) -> None:
        for key, value in said.items():
            match pis_spelling(key), value:
                case "mcpServers", dict():
                    for name, server in value.items():
                        self._offer_server((key, name), server)
                case "models", list():
                    for at, model in enumerate(value):
                        self._offer_model((key, at), model)
                case ("extensions" | "skills" | "templates") as kind, list():
                    for path in value:
                        self._offer_place(kind, path)
                case "prompts", list():
                    for text in value:
                        self._offer_prompt(text)
                case "shellEnvironment", list() | dict():
                    self._offer_variables(key, value if isinstance(value, dict) else {"allow": value})
                case _:
                    self._found.add("settings", f"{shown(key, MOST_SHOWN)}: {_written(value, MOST_SHOWN)}")
        for place, text in _texts(said):
            self._offer_what_is_left(place, text)

    def _offer_server(self, path: _Path, server: Any) -> None:
        name = shown(str(path[-1]))
        if not isinstance(server, dict):
            self._found.add("servers", f"{name}: {_written(server)}")
            return
        words = " ".join(map(_written, _inside(server, "args")))
        parts = [f"runs {_written(each)} {words}".rstrip() for each in _values(server, "command")]
        parts += [f"connects to {_written(each)}" for each in _values(server, "url")]
        parts += [f"in {_written(each)}" for each in _values(server, "cwd")]
        parts += [f"with {_assigned(each)}" for each in _inside(server, "env")]
        parts += [f"sends {_named(each)}" for each in _inside(server, "headers")]
        parts += _given(_found_in(_IN_SERVER, [text for _, text in _texts(server)]))
        parts += ["is disabled now"] if any(each is True for each in _values(server, "disabled")) else []
        self._found.add("servers", f"{name}: {'; '.join(parts) or _written(server)}")
        self._told.update((*path, key) for key in server if pis_spelling(key) in ("command", "url"))

    def _offer_model(self, path: _Path, model: Any) -> None:
        if not isinstance(model, dict):
            self._found.add("addresses", _written(model))
            return
        name = "/".join(_written(each) for part in ("provider", "id") for each in _values(model, part))
        urls = " and ".join(map(_written, _values(model, "baseUrl")))
        keys = [text for _, text in _texts(_values(model, "apiKey")) if not _is_command(text)]
        headers = [text for _, text in _texts(_values(model, "headers"))]
        variables = _variables([*keys, *headers])
        parts = [f"at {urls or 'the usual address of its provider'}"]
        parts += _given(variables) or (["has a key of its own"] if any(keys) else [])
        parts += [f"sends {_named(each)}" for each in _inside(model, "headers")]
        self._found.add("addresses", f"{name or 'a model'}: {'; '.join(parts)}")
        self._told.update((*path, key) for key in model if pis_spelling(key) == "baseUrl")

    def _offer_prompt(self, said: Any) -> None:
        if names_a_file(said):
            self._offer_place("templates", said)
        else:
            self._found.add("templates", f"told to the model: {_written(said, MOST_SHOWN)}")

    def _offer_variables(self, key: str, said: dict[str, Any]) -> None:
        """A project may take variables from commands, and cannot give them any."""
        for name in _inside(said, "allow"):
            line = f"{key}: asks that commands see your {_written(name, MOST_SHOWN)}, and does not get that"
            self._found.add("settings", line)
        if others := {name: value for name, value in said.items() if name != "allow"}:
            self._found.add("settings", f"{shown(key, MOST_SHOWN)}: {_written(others, MOST_SHOWN)}")

    def _offer_place(self, kind: str, named: Any) -> None:
        """By its name alone: to look what is there may already mean to connect to somewhere."""
        path = _written(named)
        if isinstance(named, str) and not re.match("~[^/]", named):
            own = config.expanded_to_read("~") if named.startswith("~") else ""
            written = os.path.join(self._project.folder, own + named.removeprefix("~") if own else named)
            path = self._project.seen_from_here(os.path.normpath(written))
        self._found.add(kind, f"{path}, named by its settings")

    def _offer_what_is_left(self, place: _Place, text: str) -> None:
        """What may be run, or leads elsewhere, and was not told of with what it belongs to."""
        if place.may_run and _is_command(text):
            self._found.add("keys", lambda: f"{_label(place.path)} runs {shown(text)}")
        elif place.key in _LEADS_OUT and place.path not in self._told:
            kind = "servers" if place.key == "command" else "addresses"
            self._found.add(kind, lambda: f"{_label(place.path)}: {shown(text)}")


def _is_command(text: str) -> bool:
    return text.lstrip().startswith("!")


def _label(path: _Path) -> str:
    """Cut: all that a file holds may stand at the end of one long way, which is not to be told each time."""
    return shown(".".join(map(str, path)), MOST_SHOWN)


class _Place(NamedTuple):
    path: _Path = ()
    key: str = ""
    """The last name on the way, as pi spells it."""
    may_run: bool = False

    def step(self, key: str | int) -> _Place:
        path = (*self.path, key)
        if isinstance(key, int):
            return self._replace(path=path)
        name = pis_spelling(key)
        return _Place(path, name, self.may_run or name in _MAY_RUN)


_START = _Place()


def _texts(value: Any, place: _Place = _START) -> Iterator[tuple[_Place, str]]:
    """Every text in there, and where; down to a depth at which nothing is ever asked for."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict | list) and len(place.path) < _DEEPEST:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(inner, place.step(key))


def _values(table: Mapping[str, Any], name: str) -> list[Any]:
    """What stands under a name, in whichever spellings."""
    return [value for key, value in table.items() if pis_spelling(key) == name]


def _inside(table: Mapping[str, Any], name: str) -> list[Any]:
    """The entries of the list or table that stands there: of a table, names and values."""
    return [
        each
        for value in _values(table, name)
        for each in (
            [*value.items()] if isinstance(value, dict) else value if isinstance(value, list) else [value]
        )
    ]


def _assigned(entry: Any) -> str:
    return "=".join(map(_written, entry)) if isinstance(entry, tuple) else _written(entry)


def _named(entry: Any) -> str:
    """What an entry is called. What a header says may be a secret."""
    return shown(entry[0]) if isinstance(entry, tuple) else "a header"


def _given(variables: Sequence[str]) -> list[str]:
    return [f"is given your {', '.join(map(shown, variables))}"] if variables else []


def _variables(texts: Sequence[str]) -> list[str]:
    """Those of the environment that keys and headers name: in them, or as all of it."""
    whole = [text.strip() for text in texts]
    named = [
        text for text in whole if _VARIABLE.fullmatch(text) or (text.isprintable() and config.setting(text))
    ]
    return [*dict.fromkeys([*_found_in(_IN_KEY, texts), *named])]


def _found_in(pattern: re.Pattern[str], texts: Sequence[str]) -> list[str]:
    found = [first or second for text in texts for first, second in pattern.findall(text)]
    return [*dict.fromkeys(found)]
