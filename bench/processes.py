"""The rows of whole processes: how long one takes from start to end, and how much memory (P9, P17)."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from functools import partial

from bench import lists
from bench.ground import Ground
from bench.machine import Machine
from bench.measure import Contender, Lost
from bench.row import Scale
from bench.sessions import turns
from perdure.session.entry import Compaction
from perdure.session.session import Session

_NOTHING = "def main(): pass\n"
_STATS = """\
import os
import sys

def main():
    for project in os.scandir(sys.argv[1]):
        for item in os.scandir(project.path):
            item.stat()
"""


def cold_start(ground: Ground, scale: Scale, stack: ExitStack) -> list[Contender]:
    machine, installed = ground.machine(scale.sessions), ground.installation()
    pi = installed.script("pi", "perdure.programs.pi")
    nothing, stats = installed.module("nothing", _NOTHING), installed.module("stats", _STATS)
    run = partial(_run, machine)
    run(pi, "sessions", "ls", "--all")  # makes the catalog

    def ours(arguments: str, against: str, at_most: float) -> Contender:
        return Contender(f"pi {arguments}", lambda: run(pi, *arguments.split()), against, at_most)

    empty, looking = "a script that does nothing", f"one that stats {scale.sessions:,} files"
    return [
        Contender(empty, lambda: run(nothing)),
        ours("--version", empty, 1.1),
        ours("sessions ls", empty, 1.8),
        ours(f"sessions search {machine.rare}", empty, 2.2),
        Contender(looking, lambda: run(stats, f"{machine.home}/sessions")),
        ours("sessions ls --all", looking, 1.8),
        *lists.listing_all(ground, scale),
        *_peers(ground, machine, stack, empty),
    ]


def _peers(ground: Ground, machine: Machine, stack: ExitStack, against: str) -> list[Contender]:
    # Nobody searches here, but then llm has its logs.
    ground.peers.contenders(stack, "search", against, home=machine.home, query=machine.rare)
    commands = {"pi": ["--version"], "llm": ["--version", "logs list"]}

    def run(*command: str) -> None:
        try:
            _run(machine, *command, LLM_USER_PATH=ground.peers.folder)
        except subprocess.CalledProcessError as error:
            raise Lost(str(error)) from error

    return [
        Contender(
            f"{peer.name} {peer.version.split()[0]} {arguments}",
            partial(run, *peer.program, *arguments.split()),
            against,
            every=15,
        )
        for peer in ground.peers.installed
        for arguments in commands.get(peer.name, [])
    ]


def memory(ground: Ground, scale: Scale, stack: ExitStack) -> list[Contender]:
    """Bytes, each time of a new process, at its peak."""
    machine, python = ground.machine(scale.sessions), ground.installation().python
    store, messages = ground.store("process"), scale.of(100_000)
    ref = ground.session(messages)
    long, short = ground.own_session(messages), ground.own_session(scale.of(100))
    for each in (long, short):
        with Session.open(store, each) as session:
            last = session.tail(1)[0].id
            session.append(Compaction("What was said so far. " * 100, last, 100_000))
            for turn in turns()[:25]:
                session.append(*turn)

    def peak(*code: str) -> int:
        command = [python, "-c", "\n".join([*code, _PEAK])]
        return int(_run(machine, *command, stderr=subprocess.PIPE).stderr.split()[-1])

    def above_python(*code: str) -> int:
        return peak(*code) - peak()

    def contender(name: str, work, against: str | None = None, at_most: float | None = None) -> Contender:
        return Contender(name, lambda: [work()], against, at_most, reports=True)

    def listing(*arguments: str) -> partial[int]:
        words = ["sessions", "ls", "--all", *arguments]
        return partial(peak, "from perdure.programs.pi import main", f"assert main({words}) == 0")

    opening = [
        "from perdure.session.session import Session",
        "from perdure.session.stores import Found",
        "from perdure.session.stores.pi_jsonl import PiStore",
        f"store = PiStore({ground.folder!r}, cwd='/project')",
    ]

    def resuming(session) -> partial[int]:
        return partial(peak, *opening, f"Session.open(store, Found(*{tuple(session)})).context()")

    read = f"entries = store.read(Found(*{tuple(ref)})).entries"
    bare, file, sent = "python itself", f"the file's {messages:,} messages", "resuming what is sent alone"
    return [
        contender(bare, peak),
        contender("pi sessions ls --all", listing(), bare, 2.0),
        contender("pi sessions ls --all --limit 0", listing("--limit", "0"), bare, 2.0),
        contender(file, lambda: ref.size),
        contender("store.read, above python", partial(above_python, *opening, read), file, 2.5),
        contender(
            "and every body, above python",
            partial(above_python, *opening, read, "bodies = [entry.body for entry in entries]"),
            file,
            2.5,
        ),
        contender(sent, resuming(short)),
        contender(f"resuming it behind {messages:,}", resuming(long), sent, 1.1),
        *ground.peers.contenders(stack, "peak", file, ", above node", fresh=True, session=ref.path),
    ]


# Not from getrusage: on Linux that begins with the memory of whoever started the process.
_PEAK = """
import sys
try:
    with open("/proc/self/status") as file:
        peak = int(file.read().partition("VmHWM:")[2].split()[0]) * 1024
except OSError:
    import resource
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(peak, file=sys.stderr)
"""


def _run(
    machine: Machine, *command: str, stderr: int = subprocess.DEVNULL, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        cwd=machine.projects[0],
        env=machine.environment() | environment,
        check=True,
    )
