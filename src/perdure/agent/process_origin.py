"""Tells whether an agent started this process: trust is a person's decision, and no agent's command makes it.

An agent's command has a mark in its environment, which `env -i` drops, and the agent among its ancestors,
which only a daemon may lose. On Linux a process that runs an agent is known by a lock that it holds
(`AgentMark`), whatever it is called: everybody may list locks, and nobody may look into such a process. Where
there is no such list, ancestors are known by our programs' names.
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
_LOCKS = "/proc/locks"
_BYTE = int.from_bytes(b"perdure", "big")
"""The one that is locked, of a file in memory. The list of locks says which byte, and not what file it is."""
_PROGRAMS = {"aur", "cortext", "perdure", "pi", "sibyl", "soleur"}


class AgentMark:
    """Marks this process as one that runs an agent, until it is closed. Children do not inherit it."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        with suppress(AttributeError, OSError):  # of Linux only; without it, the program's name has to do
            self._descriptor = os.memfd_create("perdure-agent")
            _lock(self._descriptor)

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
    agents = _agents()
    if agents is None:
        return any(map(_is_program, _ancestor_commands()))
    return any(pid in agents or _has_variable(pid, MARK) for pid in _ancestors())


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
    except OSError:  # it has ended, is another user's, or lets nobody look into it
        return False


def _lock(descriptor: int) -> None:
    import fcntl

    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _BYTE)


def _agents() -> set[int] | None:
    """The processes that run one; None where that cannot be known."""
    if not hasattr(os, "memfd_create"):
        return None
    try:
        with open(_LOCKS, "rb") as file:
            # `1: POSIX  ADVISORY  WRITE 4711 00:01:1042 FIRST LAST`
            locks = [words for line in file if len(words := line.split()) > 3]
    except OSError:
        return None
    return {int(pid) for *_, pid, _, first, _ in locks if first == str(_BYTE).encode()}


def _ancestor_commands() -> Iterator[list[str]]:
    """The command lines of the ancestors, as `ps` knows them, the parent's first."""
    import subprocess

    ps = ["ps", "-A", "-ww", "-o", "pid=,ppid=,command="]
    try:
        path = {"PATH": config.setting("PATH", os.defpath)}
        listed = subprocess.run(ps, stdin=subprocess.DEVNULL, capture_output=True, check=False, env=path)
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
