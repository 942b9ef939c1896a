"""Keeps other processes of the same user from looking into this one, which has keys in its memory.

A command that a model runs is such a process: without this, it reads `/proc/PID/environ` of the program that
started it. On Linux a process can refuse to be looked into, by a debugger too, and leaves no core dump then.
Root may look into any process all the same. So the secrets are also overwritten in the memory that
`/proc/PID/environ` shows, where the kernel put them when the program was started: nobody else reads that once
C's own list of variables leads to copies. What is started from here is an ordinary process again, and gets
the variables it is given. Elsewhere, as on macOS, nothing is done.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from perdure import config
from perdure.agent.environment import names_of_secrets

_PR_SET_DUMPABLE = 4
_START_AND_END = slice(47, 49)
"""Of the first environment, among what `/proc/self/stat` says behind the name of the program."""


def close_to_others(secret_names: Collection[str] = (), secret_values: Collection[str] = ()) -> None:
    """Both are known to be keys or to hold them, beside all that looks so."""
    if sys.platform != "linux":
        return
    try:
        import ctypes

        c = ctypes.CDLL(None)
    except (ImportError, OSError):  # of a Python that was built without it
        return
    c.getenv.restype = ctypes.c_void_p
    with suppress(OSError):  # a sandbox may forbid it, and who is closed already cannot open its own memory
        _overwrite_first_environment(c, secret_names, secret_values)
    c.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _overwrite_first_environment(c: Any, secret_names: Collection[str], values: Collection[str]) -> None:
    """By way of a file, in which a wrong address is an error and not a crash."""
    with open("/proc/self/stat", "rb") as file:
        start, end = map(int, file.read().rpartition(b")")[2].split()[_START_AND_END])
    memory = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
    try:
        at = start
        for entry in os.pread(memory, end - start, start).split(b"\0"):
            name, _, value = entry.partition(b"=")
            written = {os.fsdecode(name): os.fsdecode(value)}
            if name and value and names_of_secrets(written, secret_names, values):
                _copy(name)
                if not start <= (c.getenv(name) or 0) < end:  # or what C reads would be overwritten
                    os.pwrite(memory, bytes(len(value)), at + len(name) + 1)
            at += len(entry) + 1
    finally:
        os.close(memory)


def _copy(name: bytes) -> None:
    """Let C's list of variables lead to a copy, as it does for each that a process sets itself."""
    known = os.fsdecode(name)
    if (value := config.environment().get(known)) is not None:
        os.putenv(known, value)
