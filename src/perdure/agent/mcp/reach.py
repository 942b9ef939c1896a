"""How an MCP server is reached, from what the settings say of it.

`${NAME}` and `${NAME:-default}` stand for variables of the user's environment, so that a key need not be
written down. A program gets what is written in its `env` and the few variables without which nothing works:
no other, as any of them may be a secret that is not meant for it. It starts where its settings say.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from perdure import config
from perdure.agent.environment import ShellEnvironment, visible
from perdure.agent.mcp.secrets import (
    credentials,
    is_secret,
    pieces,
    secrets_in,
    with_variables,
    without_secrets,
)
from perdure.agent.settings import McpServer
from perdure.errors import NoHome

_CORE = ShellEnvironment(inherit="core", deny=("PWD", "OLDPWD"))  # it starts elsewhere
_HTTP = {"http", "streamablehttp"}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""What the name of a header is made of."""


class Misconfigured(ValueError):
    """What is wrong with a server's settings, and what to write."""


class Local(NamedTuple):
    command: tuple[str, ...]
    cwd: str
    environment: dict[str, str]
    secrets: tuple[str, ...] = ()
    """What may not be in a message about it."""


class Remote(NamedTuple):
    url: str
    headers: dict[str, str]
    secrets: tuple[str, ...] = ()


def reached(server: McpServer, environment: Mapping[str, str], cwd: str) -> Local | Remote:
    """Misconfigured, if it is not said how. `cwd` is where it starts, if its settings say nothing else."""
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
    """Where it is, as it is written: variables by name, and nothing that is known for a secret."""
    words = without_secrets((server.url,) if server.url else (server.command, *server.args))
    return " ".join(word if server.url or "$" in word or "…" in word else shlex.quote(word) for word in words)


def _local(server: McpServer, environment: Mapping[str, str], cwd: str) -> Local:
    said = _Expansion(environment)
    command, *arguments = map(said, (server.command, *server.args))
    needed = visible(environment, choice=_CORE)
    # A function of bash's, in a variable of this name, would be run.
    needed = {name: value for name, value in needed.items() if not value.startswith("()")}
    own = {name: said(value) for name, value in server.env.items()}
    try:
        folder, command = config.expanded(said(server.cwd)), config.expanded(command)
    except NoHome as error:
        raise Misconfigured(f"is in your home directory, and there is none: {error.cause}") from None
    if not all(map(_can_be_given, (folder, command, *arguments, *own, *own.values()))):
        raise Misconfigured(
            "has a NUL character or a lone surrogate in its command, args, env or cwd; remove it"
        )
    values = [value for name, value in own.items() if is_secret(name, value)]
    return Local(
        (command, *arguments),
        os.path.join(cwd, folder) if folder else cwd,
        needed | own,
        _longest_first(*said.secrets, *values, also=secrets_in(arguments)),
    )


def _can_be_given(text: str) -> bool:
    """Whether a process can be started with it."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:  # a lone surrogate
        return False


def _remote(server: McpServer, environment: Mapping[str, str]) -> Remote:
    said = _Expansion(environment)
    url = said(server.url).strip()
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise Misconfigured("has no usable url; write one that begins with https:// or http://")
    headers = {name: said(value).strip() for name, value in server.headers.items()}
    for name, value in headers.items():
        if not (_TOKEN.fullmatch(name) and value.isascii() and value.isprintable()):
            raise Misconfigured(f"has a header {name!r:.60} with characters that no header has; correct it")
    secrets = _longest_first(*said.secrets, *headers.values(), also=credentials(url))
    return Remote(url, headers, secrets)


class _Expansion:
    """`${NAME}` replaced, and what of that may be secret."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.secrets: list[str] = []

    def __call__(self, text: str) -> str:
        return with_variables(text, self._value)

    def _value(self, found: re.Match[str]) -> str:
        name, default = found.groups()
        given = self._environment.get(name)
        if given is None and default is None:
            raise Misconfigured(
                f"needs the variable {name}, which is not set; set it, or write ${{{name}:-…}}"
            )
        value = given or default or ""
        if is_secret(name, value, is_the_users=bool(given)):
            self.secrets.append(value)
        return value


def _longest_first(*values: str, also: Iterable[str]) -> tuple[str, ...]:
    """One may be a part of another, of which nothing may be left."""
    found = {*also, *(piece for value in values for piece in pieces(value))} - {""}
    return (*sorted(found, key=len, reverse=True),)
