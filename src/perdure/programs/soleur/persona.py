"""Who the sparring partner is, and what its user has set: `prompt.md` and `config.toml` in soleur's home."""

from __future__ import annotations

import os

from perdure import config
from perdure.agent.reading import bytes_of, users_bytes
from perdure.errors import PerdureError, Unreadable
from perdure.front.own_settings import OwnSettings
from perdure.session import layouts

BUILT_IN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "prompt.md")
OPENING = (
    "Open the conversation. You have read what is attached. Say in one sentence what you take to be the "
    "riskiest assumption in it, and ask one or two questions about that."
)
"""Said to a partner who is to speak first."""
_MOST = 64 * 1024
_REMEDY = "correct it there, or remove it for the usual prompt"


def home() -> str:
    return layouts.home_of("soleur")


def settings() -> OwnSettings:
    return OwnSettings.read(os.path.join(home(), "config.toml"), {"default_model": str, "autorecord": bool})


def prompt() -> str:
    """The user's own, or ours."""
    path = os.path.join(home(), "prompt.md")
    try:
        data, is_cut, _ = users_bytes(path, _MOST)
    except (FileNotFoundError, NotADirectoryError):
        if os.path.lexists(path):
            raise _refusal(path, "it is a link to nothing") from None
        data, is_cut, _ = bytes_of(BUILT_IN, _MOST)
    except OSError as error:
        unreadable = Unreadable(config.as_typed(path), error)
        unreadable.hint = unreadable.hint or _REMEDY
        raise unreadable from None
    if is_cut:
        raise _refusal(path, f"it is larger than {_MOST >> 10} KB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refusal(path, f"it is not UTF-8, from byte {error.start} on") from None
    if b"\0" in data:
        raise _refusal(path, "it is binary, not text")
    if not text.strip():
        raise _refusal(path, "it is empty")
    return text


def _refusal(path: str, what: str) -> PerdureError:
    return PerdureError(f"Cannot read {config.as_typed(path)}: {what}", _REMEDY)
