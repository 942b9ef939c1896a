"""Tells whether an agent started this process: trust is a person's decision, and no agent's command makes it.

An agent's command has a mark in its environment, which `env -i` drops, and the agent among its ancestors,
which only a daemon may lose. On Linux a process that runs an agent is known by a descriptor that it holds
(`AgentMark`), whatever it is called. Where there is no /proc, ancestors are known by our programs' names.
A command that wants to escape can: this keeps honest ones from deciding, it is no sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from perdure import config
from perdure.errors import PerdureError

MARK = "PERDURE_CALL"
"""The variable that names the calls a process belongs to. A Perdure that runs inside a call marks its own
processes in addition."""
_MEMFD_NAME = "perdure-agent"
_PROGRAMS = {"aur", "cortext", "perdure", "pi", "sibyl", "soleur"}


class AgentMark:
    """Marks this process as one that runs an agent, until it is closed. Children do not inherit it."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        with suppress(AttributeError, OSError):  # of Linux only; without it, the program's name has to do
            self._descriptor = os.memfd_create(_MEMFD_NAME)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None

    def __enter__(self) -> AgentMark:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def is_started_by_agent() -> bool:
    """Whether this process belongs to a command that an agent runs."""
    if config.setting(MARK):
        return True
    if not (hasattr(os, "memfd_create") and os.path.exists("/proc/self/fd")):
        return any(map(_is_program, _ancestor_commands()))
    return any(_has_variable(pid, MARK) or _runs_agent(pid) for pid in _ancestors())


def refuse_agent(what: str) -> None:
    """PerdureError if an agent's command wants to do `what`."""
    if is_started_by_agent():
        raise PerdureError(
            f"Not {what}: this runs inside a command of an agent",
            "a person decides that, in a shell outside the conversation",
        )


def _ancestors() -> Iterator[int]:
    """The parent first. A process whose parent has ended has another one, so this may end early."""
    pid, seen = os.getppid(), {0}
    while pid not in seen:
        yield pid
        seen.add(pid)
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                # The second field is the program's name in brackets, and may have anything in it.
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return


def _has_variable(pid: int, name: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return any(each.startswith(f"{name}=".encode()) for each in file.read().split(b"\0"))
    except OSError:  # it has ended, or is another user's
        return False


def _runs_agent(pid: int) -> bool:
    with suppress(OSError):  # it has ended, or is another user's
        for number in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):  # it was closed
                if os.readlink(f"/proc/{pid}/fd/{number}").startswith(f"/memfd:{_MEMFD_NAME}"):
                    return True
    return False


def _ancestor_commands() -> Iterator[list[str]]:
    """The command lines of the ancestors, as `ps` knows them, the parent's first."""
    import subprocess

    ps = ["ps", "-A", "-ww", "-o", "pid=,ppid=,command="]
    try:
        listed = subprocess.run(ps, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError:  # there is no ps: the mark has to do
        return
    parents: dict[int, tuple[int, list[str]]] = {}
    for line in listed.stdout.decode("utf-8", "replace").splitlines():
        own, parent, *command = line.split()
        parents[int(own)] = int(parent), command
    pid = os.getppid()
    while pid in parents:
        pid, command = parents.pop(pid)
        yield command


def _is_program(command: list[str]) -> bool:
    """Whether a command line runs one of ours: `pi`, `python /usr/bin/pi`, `python -P -m perdure`."""
    names = [os.path.basename(word) for word in command[:4]]
    if names and names[0].lower().startswith("python"):
        names = [name for name in names[1:] if not name.startswith("-")]
    return bool(names) and names[0] in _PROGRAMS
