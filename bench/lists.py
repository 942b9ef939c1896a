"""What the programs take that list all their sessions at once, and that clean up by themselves (P9)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from datetime import timedelta
from functools import partial

from bench import homes
from bench.ground import Ground
from bench.machine import environment
from bench.measure import Contender, Lost
from bench.row import Scale
from perdure.session.holder import holder_at

_STATS = """\
import os
import sys

def main():
    for item in os.scandir(sys.argv[1]):
        item.stat()
"""
_TWO_STATS = """\
import os
import sys

def main():
    for day in os.scandir(sys.argv[1]):
        for item in os.scandir(day.path):
            os.stat(item.path + "/.session/messages.jsonl")
            os.stat(item.path + "/.session/session.json")
"""
_DAYS = 3650
_CONFIG = {"spawner": {"interactive": {"session_expiry_days": _DAYS}}}
_PATIENCE = 60.0


def listing_all(ground: Ground, scale: Scale) -> list[Contender]:
    installed, count = ground.installation(), f"{scale.sessions:,}"
    aur = installed.script("aur", "perdure.programs.aur.command_line")
    cortext = installed.script("cortext", "perdure.programs.cortext.command_line")
    stats, two_stats = installed.module("stats_flat", _STATS), installed.module("stats_two", _TWO_STATS)
    kept, expired = (os.path.join(ground.folder, name) for name in ("kept", "expired"))
    homes.aurora(f"{kept}/.aurora", scale.sessions)
    homes.aurora(f"{expired}/.aurora", scale.sessions, age=timedelta(_DAYS + 1))
    _make_untrashable(expired)
    work = os.path.join(ground.folder, "workspace")
    _run(work, cortext, "init", work)
    homes.cortext(work, scale.sessions)

    def listed(home: str) -> None:
        _run(home, aur, "spawn", "--list-sessions")

    def cleaning(name: str, home: str, against: str, at_most: float | None = None) -> Contender:
        """The clean-up that a listing begins is ended before anybody else's turn, in nobody's time."""

        def work() -> bytes:
            before = _generation(home)
            listed(home)
            return before

        return Contender(
            name,
            work,
            against,
            at_most,
            before=partial(_set, home, True),
            after=partial(_end_cleanup, home),
        )

    flat, folders = f"one that stats {count} files of a folder", f"one that stats 2 files in {count} folders"
    ours, wanted = "aur spawn --list-sessions", "the same, cleaning up: none expired"
    return [
        Contender(flat, lambda: _run(kept, stats, f"{kept}/.aurora/spawn/sessions")),
        Contender(ours, lambda: listed(kept), flat, 1.8, before=partial(_set, kept, False)),
        cleaning(wanted, kept, ours),
        cleaning(f"the same, cleaning up: {count} expired", expired, wanted, 1.1),
        Contender(folders, lambda: _run(work, two_stats, f"{work}/conversations")),
        Contender("cortext resume --list", lambda: _run(work, cortext, "resume", "--list"), folders, 1.8),
    ]


def _make_untrashable(home: str) -> None:
    """What is to be cleaned up stays, for the next round: each session is read and locked, and then cannot be
    moved."""
    with open(f"{home}/.aurora/trash", "x"):
        pass


def _set(home: str, is_wanted: bool) -> None:
    """Whether a start there cleans up. It has nothing to say of a clean-up that was ended here."""
    with suppress(FileNotFoundError):
        os.unlink(f"{home}/.aurora/cleanup.report")
    path = f"{home}/.aurora/config.json"
    if is_wanted:
        with open(path, "w") as file:
            json.dump(_CONFIG, file)
    elif os.path.exists(path):
        os.unlink(path)


def _generation(home: str) -> bytes:
    """Another one each time a clean-up has begun."""
    try:
        with open(_lock(home), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _end_cleanup(home: str, before: bytes) -> None:
    """It begins after the listing, or before its end: we wait for the one, and stop it."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        if _generation(home) != before:
            holder = holder_at(_lock(home))
            if holder is None:
                return
            if holder:
                os.kill(holder, signal.SIGKILL)
        time.sleep(0.005)
    raise Lost("no clean-up has begun")


def _lock(home: str) -> str:
    return f"{home}/.aurora/locks/cleanup~.lock"


def _run(home: str, *command: str) -> None:
    os.makedirs(home, exist_ok=True)
    subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=home,
        env=environment(home),
        check=True,
    )
