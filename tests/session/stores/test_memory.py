"""The memory store keeps the contract of every store, and needs nothing but memory for it."""

from perdure.session.stores.memory import MemoryStore
from perdure.testing import StoreContract


class TestMemoryStore(StoreContract):
    def make_store(self, tmp_path):
        """There is no other process's view: every opener shares the one store of this test."""
        return self.__dict__.setdefault("one_store", MemoryStore())

    def write_behind(self, store, ref, entry):
        store._sessions[ref.id].entries.append(entry)
