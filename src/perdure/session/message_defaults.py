"""What a message has to have, and what it has where nobody says otherwise: what pi itself counts on when it
shows a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NEEDED = {"toolResult": ("toolCallId", "toolName")}
"""By role, the fields that nobody else can know."""
_DEFAULTS: dict[str, dict[str, Any]] = {
    "assistant": {
        "api": "",
        "provider": "",
        "model": "",
        "usage": {
            "input": 0,
            "output": 0,
            "cacheRead": 0,
            "cacheWrite": 0,
            "totalTokens": 0,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
        },
        "stopReason": "stop",
    },
    "toolResult": {"isError": False},
}


def completed(role: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that were given for a message, and the defaults of its role for the rest."""
    return _merged(_DEFAULTS.get(role, {}), fields)


def _merged(defaults: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, and where it says nothing the defaults, within its objects too."""
    whole = {**defaults, **given}
    for key, default in defaults.items():
        if isinstance(default, dict) and isinstance(whole[key], Mapping):
            whole[key] = _merged(default, whole[key])
    return whole
