"""Addresses of model servers, as people write them, and what is spoken there.

Who answers at OpenAI's own address speaks its newest protocol; whoever else calls themselves like OpenAI
speaks chat completions, which all of them do.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from perdure.errors import PerdureError

_PORT = 11434
_OPENAI = "api.openai.com"
_LIKE_OPENAI = ("", "openai-completions", "openai-responses")


def address(text: str, source: str, api: str = "") -> str:
    """The same, without a slash at its end; an error names where it was read if it is none."""
    text = text.strip().rstrip("/")
    try:
        parts = urlsplit(text)
        is_sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_sound = False
    if not is_sound or not text.isprintable() or " " in text:
        hint = "it begins with http:// or https://, as in http://127.0.0.1:8080/v1"
        raise PerdureError(f"{source} is no address of a server", hint)
    if api == "google-generative-ai" and not re.search(r"/v\d\w*$", parts.path):
        return f"{text}/v1beta"  # as Google's own client completes it
    return text


def ollama_address(text: str) -> str:
    """Where Ollama listens, from its own variable: scheme, port and host may each be left out."""
    text = text.strip().strip("'\"").rstrip("/")
    scheme, is_given, rest = text.partition("://")
    if not is_given:
        scheme, rest = "http", text
    port = {"http": 80, "https": 443}.get(scheme, _PORT) if is_given else _PORT
    place, slash, path = rest.partition("/")
    found = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::(\d*))?", place)
    if found:
        host, port = found[1], int(found[2]) if found[2] else port
    else:
        host = f"[{place}]"  # of IPv6, without brackets and so without a port
    # What a server calls every address of its machine is none that a client can reach.
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)
    return f"{scheme}://{host}:{port}{slash}{path}"


def spoken(said: str, usual: str, url: str) -> str:
    """The protocol: as the model says, else the provider's usual one, else by the address."""
    if said or usual not in _LIKE_OPENAI:
        return said or usual
    host = urlsplit(url).hostname or ""
    if host == _OPENAI or host.endswith(f".{_OPENAI}"):
        return "openai-responses" if usual != "openai-completions" else usual
    return "openai-completions"


def is_at(url: str, usual: str) -> bool:
    """Whether an address is a provider's usual one, or one of its regions: `eu.api.openai.com`."""
    (host, port), (own_host, own_port) = _place(usual), _place(url)
    return bool(host) and port == own_port and (own_host == host or own_host.endswith(f".{host}"))


def is_same_place(one: str, other: str) -> bool:
    """Whether two addresses are of one server."""
    return _place(one) == _place(other) != ("", None)


def _place(url: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return "", None
