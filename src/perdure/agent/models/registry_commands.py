"""Keys and headers that a command prints: `"apiKey": "!pass show openai"`.

Whoever wrote such a command was allowed to: the settings are the user's own, or a project's that is trusted.
It runs when its value is needed and not before, so to list models runs nothing; and once, however many models
and threads ask. What it printed stays in memory, counts as a secret, and is in no error.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from perdure import config
from perdure.agent.supervisor import Supervisor
from perdure.errors import ModelError

if TYPE_CHECKING:
    from concurrent.futures import Future

SECONDS = 30.0
"""For the command; somebody may have to touch a key or look into a camera."""
_MOST_BYTES = 64 * 1024
_CHUNK = 4096
_DRAIN_SECONDS = 0.5  # what the command wrote comes at once; a daemon it started may hold the pipe for ever
_LONGEST_REASON = 200


class Command(str):
    """One that was written in place of a value. A value that merely begins with `!`, as a variable's may, is
    none and is never run."""

    source: str
    """The file, or whoever else said so."""
    folder: str
    """Where it is run: in the project that it is from. The user's own are run in their home, and not where
    they work: what a folder brings there could be run in the place of what they mean."""

    def __new__(cls, text: str, source: str = "", folder: str = "") -> Command:
        made = super().__new__(cls, text)
        made.source = source
        made.folder = folder or config.expanded_to_read("~")
        return made

    def __repr__(self) -> str:
        return "Command(…)"


def written(text: str, source: str, folder: str = "") -> str:
    """A value as somebody wrote it: a command, or text that is left as it is."""
    bare = text.strip()
    return Command(bare, source, folder) if bare.startswith("!") else text


class _Outcome(NamedTuple):
    printed: str = ""
    trouble: str = ""
    """What is wrong with it, as in `the command …`."""


class Commands:
    """The commands of one registry, and what they printed."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._outcomes: dict[tuple[str, str], Future[_Outcome]] = {}
        self._lock = threading.Lock()
        self._running = _Running()

    def stop(self) -> None:
        """End those that run: nobody waits for them any more."""
        self._running.stop()

    def printed(self, command: Command, what: str) -> str:
        """`what` is what it is to print. Who asks while it runs gets the same answer; who asks after it
        failed lets it run again."""
        from concurrent.futures import Future

        with self._lock:
            outcome = self._outcomes.get((command, command.folder))
            is_first = outcome is None
            if outcome is None:
                outcome = self._outcomes[command, command.folder] = Future()
        if is_first:
            self._settle(command, outcome)
        printed, trouble = outcome.result()
        if trouble:
            said = f"{command.source}: the command" if command.source else "The command"
            hint = "run it in a shell to see why: it has to print the value, and nothing else"
            raise ModelError(f"{said} for {what} {trouble}", hint)
        return printed

    def secrets(self) -> frozenset[str]:
        """What was printed, by words: a header may have one before its secret."""
        with self._lock:
            done = [each.result() for each in self._outcomes.values() if each.done()]
        return frozenset(word for each in done for word in each.printed.split())

    def _settle(self, command: Command, outcome: Future[_Outcome]) -> None:
        found = _Outcome(trouble="was interrupted")
        try:
            text = command.removeprefix("!").strip()
            found = _run(text, self._environment, command.folder, self._running)
        finally:
            if found.trouble:
                with self._lock:
                    del self._outcomes[command, command.folder]
            outcome.set_result(found)


def _run(command: str, environment: Mapping[str, str], folder: str, running: _Running) -> _Outcome:
    stops = running.stops
    supervisor = Supervisor()
    shell = ["/bin/sh", "-c"] if os.name == "posix" else ["cmd.exe", "/c"]
    nothing = os.open(os.devnull, os.O_RDONLY)
    (out, written), (err, complained) = os.pipe(), os.pipe()
    try:
        # It is the user's own command, so it sees all of the user's environment, and is put to their shell.
        # It is the first of a session of its own, so it has no terminal. It would have to share ours with us,
        # who are reading keys there by now, and 30 seconds are no time to look for a password. What asks in a
        # window or through an agent (`op`, `security`, `pass` with GPG_TTY) works; what insists on the
        # terminal fails at once and says so.
        process = supervisor.start(
            [*shell, command],
            cwd=folder,
            environment=environment,
            files={0: nothing, 1: written, 2: complained},
        )
    except (OSError, ValueError) as error:
        supervisor.close()
        os.close(out)
        os.close(err)
        return _Outcome(trouble=f"cannot be run: {getattr(error, 'strerror', None) or 'it is no text'}")
    finally:
        for each in (nothing, written, complained):
            os.close(each)
    output, errors = _Reading(out), _Reading(err)
    is_in_time = False
    running.add(supervisor, stops)
    try:
        is_in_time = process.wait(SECONDS)
        complaints = errors.so_far()
    finally:
        running.supervisors.remove(supervisor)
        if is_in_time:
            supervisor.release()  # an agent that it has started, such as gpg's, is the user's
        else:
            supervisor.close()
    if is_in_time:
        return _judged(process.exit_code, output.read(), errors.read(), command)
    # What its shell says of how we end it is no complaint of the command's.
    return _judged(None, output.read(), complaints, command)


class _Running:
    """Who runs commands now, so that they can be ended: also one that is just being started."""

    def __init__(self) -> None:
        self.supervisors: list[Supervisor] = []
        self.stops = 0
        """How often all were ended."""

    def add(self, supervisor: Supervisor, stops: int) -> None:
        self.supervisors.append(supervisor)
        if self.stops != stops:
            supervisor.close()

    def stop(self) -> None:
        self.stops += 1
        for supervisor in [*self.supervisors]:
            supervisor.close()


class _Reading:
    """What comes out of a pipe, bounded. When it is too much the pipe is closed, and who writes to it is
    ended by that."""

    def __init__(self, pipe: int) -> None:
        self._kept = bytearray()
        self._pipe = open(pipe, "rb", buffering=0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def so_far(self) -> bytes:
        return bytes(self._kept)

    def read(self) -> bytes:
        self._thread.join(_DRAIN_SECONDS)
        return bytes(self._kept)

    def _run(self) -> None:
        with self._pipe:
            while len(self._kept) <= _MOST_BYTES and (chunk := self._pipe.read(_CHUNK)):
                self._kept += chunk


def _judged(code: int | None, output: bytes, errors: bytes, command: str) -> _Outcome:
    """`code` is None if it took too long."""
    text = output.decode("utf-8", "replace").strip()
    reason = _last_line(errors.decode("utf-8", "replace"), [command, *text.split()])
    if code is None:
        return _Outcome(trouble=f"took longer than {SECONDS:g} seconds{reason}")
    if max(len(output), len(errors)) > _MOST_BYTES:
        return _Outcome(trouble=f"printed more than {_MOST_BYTES // 1024} KB")
    if code:
        how = f"failed with exit code {code}" if code > 0 else f"was ended by signal {-code}"
        return _Outcome(trouble=f"{how}{reason}")
    if not text:
        return _Outcome(trouble=f"printed nothing{reason}")
    if len(text.splitlines()) > 1:
        return _Outcome(trouble=f"printed {len(text.splitlines())} lines, and a key is one")
    if not (text.isascii() and text.isprintable()):
        return _Outcome(trouble="printed characters that no key has")
    return _Outcome(printed=text)


def _last_line(errors: str, secrets: list[str]) -> str:
    """The last thing it complained of. A shell may quote the command, and anything what it was to print."""
    from perdure.agent.models.http_errors import masked, one_line

    lines = [line for line in errors.splitlines() if line.strip()]
    line = one_line(masked(lines[-1], secrets))[:_LONGEST_REASON] if lines else ""
    return f": {line}" if line else ""
