"""Where everything is measured."""

from __future__ import annotations

import os

from bench.installation import Installation
from bench.machine import Machine
from bench.peers import Peers
from bench.sessions import entries
from perdure.session import ids
from perdure.session.stores import Durability, Found, Header
from perdure.session.stores.pi_jsonl import PiStore


class Ground:
    """A folder to measure in, and what was made there so far."""

    def __init__(self, folder: str, peers: Peers) -> None:
        self.folder = folder
        self.peers = peers
        self._made: dict[int, Found] = {}
        self._machine: Machine | None = None
        self._installation: Installation | None = None

    def store(self, durability: Durability) -> PiStore:
        return PiStore(self.folder, cwd="/project", durability=durability)

    def session(self, messages: int) -> Found:
        """A session of so many messages, shared by all who only read it."""
        if messages not in self._made:
            self._made[messages] = self.own_session(messages)
        return self._made[messages]

    def own_session(self, messages: int) -> Found:
        """A new one, to be written to."""
        header = Header(ids.new_id(), ids.stamp(ids.now()))
        return self.store("process").create(header, entries(messages))

    def machine(self, sessions: int) -> Machine:
        """With so many sessions on it; one for all rows."""
        if self._machine is None:
            self._machine = Machine(os.path.join(self.folder, "machine"), sessions)
        return self._machine

    def installation(self) -> Installation:
        if self._installation is None:
            self._installation = Installation(os.path.join(self.folder, "installed"))
        return self._installation

    def raw_file(self, name: str, size: int = 0) -> int:
        """A descriptor that appends to a plain file of `size` bytes."""
        path = os.path.join(self.folder, name)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o600)
        os.write(descriptor, bytes(size))
        return descriptor
