"""Names to things: what is registered is `"module:attr"`, imported when it is first wanted.

Built-in stores come in by this door, as an extension's would.
"""

from __future__ import annotations

from typing import Any


def load(spec: str) -> Any:
    """The object that `module:attr` names."""
    import importlib

    module, _, attribute = spec.partition(":")
    return getattr(importlib.import_module(module), attribute)
