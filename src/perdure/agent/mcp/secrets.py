"""What of an MCP server's settings may be secret: by the name it goes by, by how it looks, or because it is a
variable of the user's, which was written as `${NAME}` so that it is nowhere to be read.

It is kept out of what is said of the server, as far as it can be told. A word in a command line whose name
says nothing and that looks like any other stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import parse_qsl, urlsplit

from perdure.agent.environment import names_of_secrets

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_NAMED = re.compile(r"""(?<![\w.$-])(?<!\$\{)-{0,2}([A-Za-z_][\w.-]*)["']?\s*[=:]\s*""")
"""A name before its value: an option, a variable, a header, or a key in JSON."""
_VALUE = re.compile(r"""["']?(?:(?:Bearer|Basic|Token)\s+)?([^\s"',;&]{0,200})""", re.IGNORECASE)
"""The beginning of it, behind the scheme of a header."""
_ADDRESS = re.compile(r"\w://[^\s\"']+")
_APART = re.compile(r"[\s\"',{}]+")
_MOST_NAMES = 5000
_HIDDEN = "…"


def with_variables(text: str, value: Callable[[re.Match[str]], str]) -> str:
    """The text with what stands for each `${NAME}` and `${NAME:-default}` in it. Behind the last brace there
    is none: each beginning of one would be searched to the end."""
    end = text.rfind("}") + 1
    return _VARIABLE.sub(value, text[:end]) + text[end:]


def is_secret(name: str, value: str, *, is_the_users: bool = False) -> bool:
    """A value of the user's own environment is, unless it is a place or some plain words."""
    return name in names_of_secrets({name: value}, secret_values=[value] if is_the_users else ())


def without_secrets(words: Iterable[str]) -> list[str]:
    """A command line that can be shown: variables are named, and hide what they hold."""
    public = [without_credentials(with_variables(word, _without_default)) for word in words]
    return [f"{start}{_HIDDEN}" if secret else start for start, secret in _parted(public)]


def secrets_in(words: Iterable[str]) -> Iterator[str]:
    """What is hidden of a command line."""
    words = [*words]
    for word in words:
        for address in _ADDRESS.findall(word):
            yield from credentials(address)
    for _, secret in _parted(words):
        yield from pieces(secret)


def credentials(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        yield from filter(None, (parts.username, parts.password, parts.query, parts.fragment))
        yield from (value for _, value in parse_qsl(parts.query))
    except ValueError:
        pass


def pieces(value: str) -> list[str]:
    """It, and what a message may have of it: a token without its scheme, a line of a key."""
    return [value, *_APART.split(value)]


def _without_default(found: re.Match[str]) -> str:
    name, default = found.groups()
    return f"${{{name}:-{_HIDDEN}}}" if default and is_secret(name, default) else found[0]


def without_credentials(text: str) -> str:
    """An address without user, password and what is asked of it; any other word as it is."""
    return re.sub(r"(\w://)[^\s/?#]*@", r"\1", re.sub(r"(\w://[^\s?#]*+)(?:[?#].*)?", r"\1", text))


def _parted(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each word up to where its secret begins, and the secret."""
    option = ""
    for word in words:
        is_option = word.startswith("--") or (word.startswith("-") and not option)
        yield _parted_word("" if is_option else option, word)
        option = word.lstrip("-") if is_option and "=" not in word else ""


def _parted_word(option: str, word: str) -> tuple[str, str]:
    """`option` is the one it stands behind. A name that tells of a secret is shown, if nothing before is. A
    word with more names in it than anybody writes is hidden, since each takes a look at its value."""
    if _names_secret(option, word):
        return "", word
    for number, found in enumerate(_NAMED.finditer(word)):
        if number == _MOST_NAMES:
            return "", word
        start, rest = word[: found.end()], word[found.end() :]
        if _names_secret(found[1], rest):
            return ("", word) if is_secret("", start) else (start, rest)
    return ("", word) if is_secret("", with_variables(word, lambda _: "")) else (word, "")


def _names_secret(name: str, value: str) -> bool:
    """A variable in its place only says where to find one."""
    found = _VALUE.match(value)
    written = _VARIABLE.sub("", found[1]) if found else ""
    return bool(written) and is_secret(name, "x" if is_secret("", written) else written)
