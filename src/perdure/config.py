"""Where things live and how they are set: argument, then environment, then default.

The only module that reads the environment, and it does so when asked, never at import.
"""

from __future__ import annotations

import os

from perdure.errors import NotFound


def home(variable: str, default: str) -> str:
    """A program's home directory: its environment override, or its usual place under HOME."""
    return os.path.abspath(os.path.expanduser(os.environ.get(variable) or default))


def nearest(marker: str) -> str:
    """The nearest folder, from the current one upwards, that holds a folder of this name."""
    here = at = os.getcwd()
    while not os.path.isdir(os.path.join(at, marker)):
        above = os.path.dirname(at)
        if above == at:
            raise NotFound("Workspace", here, hint=f"no folder above has {marker}/; `cortext init` makes one")
        at = above
    return at
