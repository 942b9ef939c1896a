"""Names to things: what is registered is `"module:attr"`, imported when it is first wanted.

Built-in stores, listings and commands come in by this door, as an extension's would.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from typing import Any


def load(spec: str) -> Any:
    """The object that `module:attr` names."""
    module, _, attribute = spec.partition(":")
    __import__(module)  # importlib would be an import of its own
    return getattr(sys.modules[module], attribute)
