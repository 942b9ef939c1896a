"""Lets a program run as an ordinary user's: one that is kept out of processes that let nobody look into them.

Root is not, by its capabilities, which are all taken away here, for good. Another user would not do: what the
tests run may be readable for root alone.
"""

import os
import sys
from collections.abc import Sequence

_DROPPED = """
import ctypes, os, sys
PR_CAPBSET_DROP = 24
with open("/proc/sys/kernel/cap_last_cap") as file:
    capabilities = range(int(file.read()) + 1)
for each in capabilities if os.geteuid() == 0 else ():
    assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, each, 0, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


def as_ordinary_user(command: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The command line that runs this one so. Its pid is the same; its program is named by its path."""
    return [sys.executable, "-I", "-S", "-c", _DROPPED, *(os.fspath(each) for each in command)]
