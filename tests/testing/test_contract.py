"""The store contract finds what it is there to find, and costs nobody anything who does not use it."""

import inspect
import json
import subprocess
import sys

import pytest

import perdure.testing
from perdure.errors import Held
from perdure.session.entry import decode
from perdure.session.stores import START
from perdure.session.stores.memory import MemoryStore
from perdure.testing import DurableStoreContract, StoreContract


@pytest.mark.process
def test_importing_the_builders_does_not_import_pytest():
    """A program may use them where pytest is not installed."""
    code = "import sys, perdure.testing as t; t.user_entry('x'); sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_every_public_name_can_be_had():
    """The lazy ones too, and no others."""
    assert {name for name in perdure.testing.__all__ if hasattr(perdure.testing, name)} == set(
        perdure.testing.__all__
    )
    with pytest.raises(AttributeError, match="StoreContracts"):
        perdure.testing.StoreContracts  # noqa: B018


@pytest.mark.parametrize("contract", [StoreContract, DurableStoreContract])
def test_every_clause_says_what_it_promises(contract):
    """In one line, that whoever breaks it can read."""
    clauses = [clause for name, clause in inspect.getmembers(contract) if name.startswith("test_")]
    assert len(clauses) > 20
    assert [clause.__name__ for clause in clauses if "\n" in (clause.__doc__ or "\n")] == []


class Defective(MemoryStore):
    """A store that changes what its writers are given, what they say, or when they may."""

    def writer(self, ref, wait=10.0, after=START):
        writer = super().writer(ref, wait, after)
        append = writer.append
        writer.append = lambda entries: append(self.changed(entries))  # type: ignore[method-assign]
        return writer

    def changed(self, entries):
        return entries


class Reorders(Defective):
    def changed(self, entries):
        return entries[::-1]


class Repeats(Defective):
    def changed(self, entries):
        return [*entries, *entries]


class Forgets(Defective):
    def changed(self, entries):
        return [entry for entry in entries if entry.type != "from_the_future"]


class Reformats(Defective):
    def changed(self, entries):
        return [decode(json.dumps(json.loads(entry.raw)).encode()) for entry in entries]


class Trusts(MemoryStore):
    """Every writer starts at the end, whatever cursor it is given."""

    def writer(self, ref, wait=10.0, after=START):
        return super().writer(ref, wait, after=None)


class GivesAllAgain(MemoryStore):
    def writer(self, ref, wait=10.0, after=START):
        writer = super().writer(ref, wait, after)
        writer.catch_up, catch_up = lambda: (catch_up(), self.read(ref))[1], writer.catch_up  # type: ignore[method-assign]
        return writer


class NeverWaits(MemoryStore):
    def writer(self, ref, wait=10.0, after=START):
        return super().writer(ref, 0, after)


class NamesNobody(MemoryStore):
    def writer(self, ref, wait=10.0, after=START):
        try:
            return super().writer(ref, wait, after)
        except Held:
            raise Held(ref.id, None) from None


class Hides(MemoryStore):
    def list(self):
        return (ref for ref in super().list() if self._sessions[ref.id].entries)


class DeletesUnderUs(MemoryStore):
    def delete(self, ref):
        del self._sessions[ref.id]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "clause"),
    [
        (Reorders, "test_entries_come_back_in_the_order_they_were_appended"),
        (Repeats, "test_entries_come_back_exactly_once"),
        (Forgets, "test_each_kind_of_entry_is_kept"),
        (Reformats, "test_hostile_values_come_back"),
        (Trusts, "test_a_writer_must_have_read_what_is_there"),
        (GivesAllAgain, "test_catch_up_gives_just_what_is_new"),
        (NeverWaits, "test_a_second_opener_gets_its_turn"),
        (NamesNobody, "test_a_second_opener_is_told_who_holds_the_session"),
        (Hides, "test_the_listing_shows_every_session"),
        (DeletesUnderUs, "test_a_held_session_is_not_deleted"),
    ],
)
def test_a_defect_is_found_by_the_clause_against_it(store, clause, tmp_path):
    """And a store without it passes the same clause."""
    values = {"kind": "unknown kind", "value": "0.1 with zeros", "tmp_path": tmp_path}
    names = inspect.signature(getattr(StoreContract, clause)).parameters

    def check(store):
        contract = InMemory(store)
        given = {**values, "store": store, "self": contract}
        if "ref" in names:
            given["ref"] = store.create(contract.header())
        getattr(StoreContract, clause)(**{name: given[name] for name in names})

    check(MemoryStore())
    with pytest.raises((AssertionError, Held, pytest.fail.Exception)):
        check(store())


class InMemory(StoreContract):
    def __init__(self, store):
        self.store_to_check = store

    def make_store(self, tmp_path):
        return self.store_to_check

    def write_behind(self, store, ref, entry):
        store._sessions[ref.id].entries.append(entry)
