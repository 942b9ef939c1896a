"""Where things live and how they are set: argument, then environment, then default.

The only module that reads the environment, and it does so when asked, never at import.
"""

from __future__ import annotations

import os


def home(variable: str, default: str) -> str:
    """A program's home directory: its environment override, or its usual place under HOME."""
    return os.path.abspath(os.path.expanduser(os.environ.get(variable) or default))
