"""What the programs that we start may see of the user's environment: everything but secrets.

A command of the model's needs the user's PATH, proxies, virtual environment and agent sockets to work at all,
so a list of what is allowed would always be too short. What looks like a secret is left out instead: by its
name, by its value (secret_variables.py), or because it is a key in use. The user may choose otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct

from perdure.agent.secret_variables import is_secret, sounds_secret

NOBODY_IS_THERE = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "TERM": "dumb",
}
"""No program may wait for a key press. What shows pages shows all of them. Git takes the message it has, as
an editor with a window would wait for ever, and fails rather than ask for a password. What draws on a
terminal learns that there is none. EDITOR stays: a command may well want to know it."""

_NEEDED = re.compile("PATH|HOME|SHELL|USER|LOGNAME|LANG|LC_[A-Z]+|TERM|TMPDIR|PWD")
"""Nothing works without these, so they stay whatever is in them."""
_CORE = re.compile(
    f"{_NEEDED.pattern}|LANGUAGE|TZ|TEMP|TMP|OLDPWD|COLORTERM|NO_COLOR"
    "|APPDATA|COMSPEC|HOMEDRIVE|HOMEPATH|LOCALAPPDATA|PATHEXT|PROCESSOR_ARCHITECTURE|PROGRAMDATA|SYSTEMDRIVE"
    "|SYSTEMROOT|USERNAME|USERPROFILE|WINDIR"
)
_LENGTH_OF_A_KEY = 8  # anything may contain a shorter one by chance
_LENGTH_OF_A_SHORT_KEY = 4  # and be one
_PLAIN = re.compile(r"(?:(?:[A-Z]?[a-z]{1,20}|[A-Z]{1,20}|\d+)(?:[-_. ]|$))+")
"""Words and numbers, as one writes for a server that asks for no key: `lm-studio`, `not-needed`."""


class ShellEnvironment(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What the user lets commands see. Names may have a `*` for any letters. An unknown key
    is an error: whoever misspells `deny` relies on it."""

    inherit: Literal["filtered", "core", "all"] = "filtered"
    """All but secrets; only what every program needs; or all, keys in use among it."""
    allow: tuple[str, ...] = ()
    """These stay in any case."""
    deny: tuple[str, ...] = ()
    """And these never do, allowed or not."""


FILTERED = ShellEnvironment()


def for_children(
    environment: Mapping[str, str],
    secret_names: Collection[str],
    choice: ShellEnvironment = FILTERED,
    secret_values: Collection[str] = (),
) -> dict[str, str]:
    """The environment of a program that we start and that nobody sits at."""
    return visible(environment, secret_names, choice, secret_values) | NOBODY_IS_THERE


def visible(
    environment: Mapping[str, str],
    secret_names: Collection[str] = (),
    choice: ShellEnvironment = FILTERED,
    secret_values: Collection[str] = (),
) -> dict[str, str]:
    """What is left of it for others. `secret_names` are the variables that providers' keys come from,
    `secret_values` the keys in use, wherever they come from."""
    secrets = set() if choice.inherit == "all" else names_of_secrets(environment, secret_names, secret_values)
    return {
        name: value
        for name, value in environment.items()
        if not _is_one_of(name, choice.deny)
        and (
            _is_one_of(name, choice.allow)
            or (name not in secrets and (choice.inherit != "core" or _CORE.fullmatch(name)))
        )
    }


def names_of_secrets(
    environment: Mapping[str, str], secret_names: Collection[str] = (), secret_values: Collection[str] = ()
) -> set[str]:
    """The variables that are secret, as far as can be told."""
    always = {name.upper() for name in secret_names}
    keys = [key for key in secret_values if not _PLAIN.fullmatch(key)]
    return {
        name
        for name, value in environment.items()
        if name.upper() in always
        or (sounds_secret(name, value) if _NEEDED.fullmatch(name) else is_secret(name, value))
        or (not _NEEDED.fullmatch(name) and any(_holds(value, key) for key in keys))
    }


def _holds(value: str, key: str) -> bool:
    """A key counts wherever it stands: mostly it is in a header or an address."""
    return (
        key in value if len(key) >= _LENGTH_OF_A_KEY else len(key) >= _LENGTH_OF_A_SHORT_KEY and key == value
    )


def _is_one_of(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
