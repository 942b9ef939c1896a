"""How an MCP server is reached, from what the settings say of it.

`${NAME}` and `${NAME:-default}` stand for variables of the user's environment, so that a key need not be
written down. A program gets what is written in its `env` and the few variables without which nothing works:
no other, as any of them may be a secret that is not meant for it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from perdure.agent.environment import for_children
from perdure.agent.settings import McpServer

_NEEDED = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"),
    # Windows
    *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA"),
    *("SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE"),
)
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_HTTP = {"http", "streamablehttp"}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""What the name of a header is made of."""


class Misconfigured(ValueError):
    """What is wrong with a server's settings, and what to write."""


class Local(NamedTuple):
    command: tuple[str, ...]
    cwd: str
    environment: dict[str, str]

    @property
    def secrets(self) -> list[str]:
        """What may not be in a message about it."""
        harmless = for_children(self.environment, ())
        return [value for name, value in self.environment.items() if name not in harmless]


class Remote(NamedTuple):
    url: str
    headers: dict[str, str]

    @property
    def secrets(self) -> list[str]:
        parts = urlsplit(self.url)
        words = [word for value in self.headers.values() for word in value.split()]
        return [each for each in (parts.username, parts.password, parts.query, *words) if each]


def reached(server: McpServer, environment: Mapping[str, str], cwd: str) -> Local | Remote:
    """Misconfigured, if it is not said how."""
    kind = re.sub(r"[-_ ]", "", server.type.lower())
    if server.command and server.url:
        raise Misconfigured("has both a command and a url; keep one of them")
    if not (server.command or server.url):
        raise Misconfigured('has neither a command nor a url; write "command" and "args", or "url"')
    if kind == "sse":
        raise Misconfigured('is of type sse, which MCP has given up; write "type": "http" and its new url')
    if kind not in {"", "stdio", *_HTTP}:
        raise Misconfigured(
            f'is of the unknown type {server.type!r:.40}; write "stdio" or "http", or nothing'
        )
    if (kind == "stdio" and not server.command) or (kind in _HTTP and not server.url):
        needed = "command" if kind == "stdio" else "url"
        raise Misconfigured(f'is of type {server.type} and has no {needed}; write "{needed}"')
    return _local(server, environment, cwd) if server.command else _remote(server, environment)


def shown(server: McpServer) -> str:
    """Where it is, as it is written: no variable's value, and no part of an address that may be secret."""
    if server.url:
        return _public(server.url)
    words = (server.command, *server.args)
    return " ".join(shlex.quote(_public(word)) if "$" not in word else _public(word) for word in words)


def _local(server: McpServer, environment: Mapping[str, str], cwd: str) -> Local:
    def said(text: str) -> str:
        return _expanded(text, environment)

    command, *arguments = map(said, (server.command, *server.args))
    needed = {name: environment[name] for name in _NEEDED if name in environment}
    # A function of bash's, in a variable of this name, would be run.
    needed = {name: value for name, value in needed.items() if not value.startswith("()")}
    own = {name: said(value) for name, value in server.env.items()}
    if any("\0" in text for text in (command, *arguments, *own, *own.values())):
        raise Misconfigured("has a NUL character in its command, args or env; remove it")
    return Local(
        (os.path.expanduser(command), *arguments),
        os.path.join(cwd, os.path.expanduser(said(server.cwd))),
        needed | own,
    )


def _remote(server: McpServer, environment: Mapping[str, str]) -> Remote:
    url = _expanded(server.url, environment).strip()
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise Misconfigured("has no usable url; write one that begins with https:// or http://")
    headers = {name: _expanded(value, environment).strip() for name, value in server.headers.items()}
    for name, value in headers.items():
        if not (_TOKEN.fullmatch(name) and value.isascii() and value.isprintable()):
            raise Misconfigured(f"has a header {name!r:.60} with characters that no header has; correct it")
    return Remote(url, headers)


def _expanded(text: str, environment: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        name, default = found.groups()
        given = environment.get(name)
        if default is not None:
            return given or default
        if given is None:
            raise Misconfigured(
                f"needs the variable {name}, which is not set; set it, or write ${{{name}:-…}}"
            )
        return given

    return _VARIABLE.sub(value, text)


def _public(text: str) -> str:
    """An address without user, password and what is asked of it; any other word as it is."""
    return re.sub(r"(\w://)[^\s/?#]*@", r"\1", re.sub(r"(\w://[^\s?#]*)[?#].*", r"\1", text))
