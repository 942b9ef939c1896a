"""What every store promises, one test a promise. A store's own test class inherits them all.

    class TestMyStore(StoreContract):
        def make_store(self, tmp_path):
            return MyStore(tmp_path)

        def write_behind(self, store, ref, entry):
            ...  # as a program that knows the layout and not our lock

Nothing here knows a layout: entries go in and come out through the store alone. What a layout's own
rules forbid it to keep it declares in `drops`; whatever else it does not give back is a defect.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from perdure.errors import Conflict, Held, InvalidId, PerdureError
from perdure.session import ids
from perdure.session.entry import Entry, placed
from perdure.session.stores import START, Found, Header, Store
from perdure.testing.builders import user_entry
from perdure.testing.corpus import HOSTILE_IDS, HOSTILE_TEXT, HOSTILE_VALUES, KINDS, message_record, record
from perdure.testing.writing import (
    WRITERS,
    assert_all_written,
    save,
    turns,
    write_in_parts,
    write_in_turns,
)


class StoreContract:
    drops: ClassVar[frozenset[str]] = frozenset()
    """The `KINDS` this layout's own rules forbid it to keep."""
    plain_ids: ClassVar[Sequence[str]] = ("a", "A-1", "0.9_z", "x" * 128)
    """Some ids a session can have."""

    def make_store(self, tmp_path: Path) -> Store:
        """The store of the sessions in `tmp_path`. Called again: what another process would see of them."""
        raise NotImplementedError

    def write_behind(self, store: Store, ref: Found, entry: Entry) -> None:
        """Add an entry as a program would that shares the layout but takes no lock."""
        raise NotImplementedError

    def header(self) -> Header:
        """Of a new session, with an id no other has."""
        return Header(ids.new_id(), ids.stamp(ids.now()), cwd="/home/me/code")

    def kept(self, entry: Entry) -> object:
        """What of an entry comes back. Every byte; a layout that translates records says otherwise here."""
        return entry.raw

    def holds(self, store: Store, ref: Found, entries: Sequence[Entry]) -> bool:
        """Whether the session consists of these entries, in this order and in this form."""
        return self.same(store.read(ref).entries, entries)

    def same(self, found: Sequence[Entry], expected: Sequence[Entry]) -> bool:
        assert [entry.id for entry in found] == [entry.id for entry in expected]
        return all(self.kept(a) == self.kept(b) for a, b in zip(found, expected, strict=True))

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return self.make_store(tmp_path)

    @pytest.fixture
    def ref(self, store: Store) -> Found:
        return store.create(self.header())

    # --- reading what was written ---------------------------------------------------------------

    def test_a_new_session_is_empty(self, store: Store, ref: Found) -> None:
        """No entries, no problems, and the id it was made with."""
        page = store.read(ref)
        assert (page.entries, page.problems, page.header.id) == ([], [], ref.id)
        assert list(store.read_back(ref)) == []

    def test_entries_come_back_in_the_order_they_were_appended(self, store: Store, ref: Found) -> None:
        """Within one append and from one append to the next."""
        said = turns(9)
        for part in (said[:1], said[1:4], said[4:9]):
            save(store, ref, part)
        assert self.holds(store, ref, said)

    def test_entries_come_back_exactly_once(self, store: Store, ref: Found, tmp_path: Path) -> None:
        """However often a session is opened, caught up with and read."""
        said = turns(4)
        for entry in said:
            save(store, ref, [entry])
            store.read(ref)
        assert self.holds(store, ref, said)
        assert self.holds(self.make_store(tmp_path), ref, said)

    def test_two_entries_of_one_id_both_come_back(self, store: Store, ref: Found) -> None:
        """Which of them counts is for the tree to say: a store has no opinion."""
        one = user_entry("first")
        other = placed(user_entry("second"), id=one.id)
        save(store, ref, [one, other])
        assert self.holds(store, ref, [one, other])

    def test_reading_from_a_cursor_gives_what_is_behind_it(self, store: Store, ref: Found) -> None:
        """Whether the cursor came from reading or from appending; at the end there is nothing."""
        said = turns(6)
        save(store, ref, said[:2])
        read = store.read(ref).cursor
        appended = save(store, ref, said[2:4])
        save(store, ref, said[4:])
        assert self.same(store.read(ref, read).entries, said[2:])
        assert self.same(store.read(ref, appended).entries, said[4:])
        assert store.read(ref, store.read(ref, read).cursor).entries == []
        assert self.same(store.read(ref, START).entries, said)

    def test_read_back_is_read_reversed(self, store: Store, ref: Found) -> None:
        """The same entries, newest first."""
        said = turns(40)
        save(store, ref, said)
        assert self.same(list(store.read_back(ref))[::-1], said)

    def test_read_back_gives_one_at_a_time(self, store: Store, ref: Found) -> None:
        """An iterator: it can be left after one entry, and what is appended meanwhile does not disturb it."""
        said = turns(6)
        save(store, ref, said[:4])
        back = store.read_back(ref)
        assert iter(back) is back
        assert next(back).id == said[3].id
        save(store, ref, said[4:])
        assert [entry.id for entry in back] == [said[2].id, said[1].id, said[0].id]
        assert next(store.read_back(ref)).id == said[5].id

    def test_two_sessions_do_not_mix(self, store: Store) -> None:
        """Each has its own entries and its own writer, also at the same time."""
        one, other = store.create(self.header()), store.create(self.header())
        with store.writer(one) as first, store.writer(other) as second:
            mine, theirs = turns(3), turns(3)
            for a, b in zip(mine, theirs, strict=True):
                first.append([a])
                second.append([b])
        assert self.holds(store, one, mine)
        assert self.holds(store, other, theirs)

    @pytest.mark.parametrize("kind", KINDS)
    def test_each_kind_of_entry_is_kept(self, store: Store, ref: Found, kind: str) -> None:
        """Known or not, with every member, between its neighbours; but for what the layout drops."""
        entry = KINDS[kind]()
        said = [user_entry("before"), entry, user_entry("after")]
        save(store, ref, said)
        found = store.read(ref).entries
        if kind in self.drops:
            found = [each for each in found if each.id != entry.id]
            said.remove(entry)
        assert self.same(found, said)

    @pytest.mark.parametrize("text", HOSTILE_TEXT)
    def test_hostile_text_comes_back(self, store: Store, ref: Found, text: str) -> None:
        """Whatever the text, it neither ends a record nor changes on its way."""
        raw = HOSTILE_TEXT[text]()
        said = [
            message_record(b'"%b"' % raw),
            message_record(b'[{"type":"text","text":"%b"}]' % raw, b"assistant"),
        ]
        said = said[:1] if len(raw) > 2**20 else said
        save(store, ref, [*said, user_entry("after")])
        assert self.same(store.read(ref).entries[:-1], said)
        assert self.same(list(store.read_back(ref))[:0:-1], said)

    @pytest.mark.parametrize("value", HOSTILE_VALUES)
    def test_hostile_values_come_back(self, store: Store, ref: Found, value: str) -> None:
        """Numbers keep their digits and objects their members, in every place that holds any value."""
        raw = HOSTILE_VALUES[value]
        call = b'[{"type":"toolCall","id":"c","name":"n","arguments":{"x":%b}}]'
        said = [
            record("custom", b',"customType":"x","data":%b' % raw),
            record("from_the_future", b',"member":%b' % raw),
            message_record(call % raw, b"assistant"),
        ]
        save(store, ref, said)
        assert self.holds(store, ref, said)

    # --- writing ----------------------------------------------------------------------------------

    def test_an_append_is_all_or_nothing(self, store: Store, ref: Found) -> None:
        """What is no record is refused with everything beside it, and the next append is clean."""
        good = turns(3)
        with store.writer(ref) as writer:
            writer.append(good[:1])
            with pytest.raises(PerdureError):
                writer.append(
                    [good[1], Entry("message", "bad", line=b'{"type":"message",\n"id":"bad"}'), good[2]]
                )
            assert self.holds(store, ref, good[:1])
            writer.append(good[1:])
        assert self.holds(store, ref, good)

    def test_an_append_of_nothing_changes_nothing(self, store: Store, ref: Found) -> None:
        """And the cursor it returns is still good."""
        said = turns(2)
        with store.writer(ref) as writer:
            writer.append(said[:1])
            cursor = writer.append([])
            writer.append(said[1:])
        assert self.holds(store, ref, said)
        assert self.same(store.read(ref, cursor).entries, said[1:])

    def test_a_writer_must_have_read_what_is_there(self, store: Store, ref: Found) -> None:
        """Until it has caught up, its append is a conflict and writes nothing."""
        said = turns(3)
        save(store, ref, said[:2])
        with store.writer(ref) as writer:
            with pytest.raises(Conflict):
                writer.append(said[2:])
            assert self.holds(store, ref, said[:2])
            assert self.same(writer.catch_up().entries, said[:2])
            writer.append(said[2:])
        assert self.holds(store, ref, said)

    def test_what_another_program_wrote_is_a_conflict(self, store: Store, ref: Found) -> None:
        """Noticed by the next append, which writes nothing; once it is read, writing goes on."""
        said = turns(3)
        save(store, ref, said[:1])
        with store.writer(ref) as writer:
            writer.catch_up()
            self.write_behind(store, ref, said[1])
            with pytest.raises(Conflict):
                writer.append(said[2:])
            assert self.holds(store, ref, said[:2])
            assert self.same(writer.catch_up().entries, said[1:2])
            writer.append(said[2:])
        assert self.holds(store, ref, said)

    def test_catch_up_gives_just_what_is_new(self, store: Store, ref: Found) -> None:
        """Neither what it gave before nor what the writer wrote itself."""
        said = turns(5)
        save(store, ref, said[:2])
        with store.writer(ref) as writer:
            assert self.same(writer.catch_up().entries, said[:2])
            assert writer.catch_up().entries == []
            writer.append(said[2:3])
            assert writer.catch_up().entries == []
            self.write_behind(store, ref, said[3])
            self.write_behind(store, ref, said[4])
            assert self.same(writer.catch_up().entries, said[3:])

    def test_a_writer_starts_where_its_cursor_is(self, store: Store, ref: Found) -> None:
        """What is before the cursor counts as read, what is behind it does not."""
        said = turns(4)
        cursor = save(store, ref, said[:2])
        with store.writer(ref, after=cursor) as writer:
            writer.append(said[2:3])
        with store.writer(ref, after=cursor) as writer:
            with pytest.raises(Conflict):
                writer.append(said[3:])
            assert self.same(writer.catch_up().entries, said[2:3])
            writer.append(said[3:])
        assert self.holds(store, ref, said)

    def test_a_writer_may_start_at_the_end(self, store: Store, ref: Found) -> None:
        """All that is there counts as read, and only what comes later is caught up with."""
        said = turns(5)
        save(store, ref, said[:2])
        with store.writer(ref, after=None) as writer:
            writer.append(said[2:3])
            assert writer.catch_up().entries == []
            self.write_behind(store, ref, said[3])
            assert self.same(writer.catch_up().entries, said[3:4])
            writer.append(said[4:])
        assert self.holds(store, ref, said)

    # --- one writer at a time ---------------------------------------------------------------------

    def test_a_second_opener_is_told_who_holds_the_session(
        self, store: Store, ref: Found, tmp_path: Path
    ) -> None:
        """After waiting as long as it said it would."""
        with store.writer(ref):
            started = time.monotonic()
            with pytest.raises(Held, match=f"process {os.getpid()}") as held:
                self.make_store(tmp_path).writer(ref, wait=0.3)
            assert time.monotonic() - started >= 0.3
            assert held.value.pid == os.getpid()

    def test_a_second_opener_gets_its_turn(self, store: Store, ref: Found, tmp_path: Path) -> None:
        """As soon as the first one lets go, and it can read what that one wrote."""
        said = turns(2)
        first = store.writer(ref)

        def append_and_let_go() -> None:
            first.append(said[:1])
            first.release()

        later = threading.Timer(0.2, append_and_let_go)
        later.start()
        with self.make_store(tmp_path).writer(ref, wait=30) as second:
            assert self.same(second.catch_up().entries, said[:1])
            second.append(said[1:])
        later.join()
        assert self.holds(store, ref, said)

    def test_who_holds_a_session_is_known_while_somebody_does(self, store: Store, ref: Found) -> None:
        """The process, then nobody; also where no writer has ever been."""
        assert store.holder(ref) is None
        with store.writer(ref):
            assert store.holder(ref) == os.getpid()
        assert store.holder(ref) is None

    def test_a_released_writer_cannot_append(self, store: Store, ref: Found) -> None:
        """Not even while nobody else holds the session; releasing twice does no harm to the next holder."""
        writer = store.writer(ref)
        writer.release()
        with pytest.raises(Conflict):
            writer.append(turns(1))
        with store.writer(ref):
            writer.release()
            assert store.holder(ref) == os.getpid()
            with pytest.raises(Conflict):
                writer.append(turns(1))
        assert self.holds(store, ref, [])

    def test_a_reader_beside_a_writer_sees_a_prefix(self, store: Store, ref: Found, tmp_path: Path) -> None:
        """Only whole entries, in order, none twice, whether it starts over or follows with a cursor."""
        said = turns(60)
        writing = threading.Thread(target=write_in_parts, args=(store.writer(ref), said))
        writing.start()
        try:
            self.check_prefixes(self.make_store(tmp_path), ref, said, writing.is_alive)
        finally:
            writing.join()
        assert self.holds(store, ref, said)

    def check_prefixes(
        self, store: Store, ref: Found, said: Sequence[Entry], going_on: Callable[[], bool]
    ) -> None:
        followed: list[Entry] = []
        cursor = START
        more = True
        while more:
            more = going_on()  # and one last look when the writer has ended
            entries = store.read(ref).entries
            assert self.same(entries, said[: len(entries)])
            back = [entry.id for entry in store.read_back(ref)]
            assert back == [entry.id for entry in said[: len(back)]][::-1]
            page = store.read(ref, cursor)
            followed, cursor = followed + page.entries, page.cursor
            assert self.same(followed, said[: len(followed)])
        assert len(followed) == len(said)

    def test_sixteen_writers_lose_nothing(self, store: Store, ref: Found, tmp_path: Path) -> None:
        """Every entry of each of them is there exactly once, in the order in which it was written."""
        failures: list[BaseException] = []

        def run(number: int) -> None:
            try:
                write_in_turns(self.make_store(tmp_path), ref, number)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert_all_written(store.read(ref).entries)

    # --- sessions ---------------------------------------------------------------------------------

    def test_the_listing_shows_every_session(self, store: Store, tmp_path: Path) -> None:
        """Those without a word in them too, and each can be read by what the listing says of it."""
        assert list(store.list()) == []
        refs = [store.create(self.header()) for _ in range(5)]
        for ref in refs[:3]:
            save(store, ref, turns(2))
        found = list(self.make_store(tmp_path).list())
        assert sorted(each.id for each in found) == sorted(ref.id for ref in refs)
        counts = {each.id: len(store.read(each).entries) for each in found}
        assert counts == {ref.id: 2 if ref in refs[:3] else 0 for ref in refs}

    def test_a_session_made_with_entries_has_exactly_those(self, store: Store) -> None:
        """A fork: whole from the start, and it goes on like any other session."""
        said = turns(4)
        ref = store.create(self.header()._replace(parent_session="/somewhere/else"), said[:3])
        assert self.holds(store, ref, said[:3])
        assert store.read(ref).header.parent_session == "/somewhere/else"
        save(store, ref, said[3:])
        assert self.holds(store, ref, said)

    def test_a_deleted_session_is_gone(self, store: Store, tmp_path: Path) -> None:
        """From the listing and from reading; its neighbours stay."""
        gone, stays = store.create(self.header(), turns(2)), store.create(self.header(), turns(2))
        store.delete(gone)
        assert [each.id for each in self.make_store(tmp_path).list()] == [stays.id]
        with pytest.raises(PerdureError):
            store.read(gone)
        with pytest.raises(PerdureError):
            store.writer(gone, wait=0)

    def test_a_deleted_session_comes_back(self, store: Store, tmp_path: Path) -> None:
        """Under its id, with all its entries, and it goes on like any other session; but only once."""
        said = turns(3)
        gone, stays = store.create(self.header(), said[:2]), store.create(self.header(), turns(1))
        store.delete(gone)
        back = store.restore(gone.id)
        assert back.id == gone.id
        assert sorted(each.id for each in store.list()) == sorted([gone.id, stays.id])
        save(store, back, said[2:])
        assert self.holds(store, back, said)
        with pytest.raises(PerdureError):
            store.restore(gone.id)

    def test_a_session_is_not_restored_over_another(self, store: Store) -> None:
        """Whoever asks is told, both stay as they are, and once the place is free it comes back."""
        said, other = turns(2), turns(3)
        header = self.header()
        gone = store.create(header, said)
        store.delete(gone)
        ref = store.create(header, other)
        with pytest.raises(PerdureError):
            store.restore(gone.id)
        assert self.holds(store, ref, other)
        with store.writer(ref), pytest.raises(PerdureError):
            store.restore(gone.id)

    def test_repairing_a_sound_session_changes_nothing(self, store: Store, ref: Found) -> None:
        """With or without entries; and not while somebody writes."""
        assert store.repair(ref) is None
        said = turns(3)
        save(store, ref, said)
        assert store.repair(ref) is None
        assert self.holds(store, ref, said)

    def test_a_held_session_is_not_deleted(self, store: Store, ref: Found, tmp_path: Path) -> None:
        """Whoever asks is told who holds it, and the holder goes on writing."""
        said = turns(2)
        with store.writer(ref) as writer:
            writer.append(said[:1])
            with pytest.raises(Held, match=f"process {os.getpid()}"):
                self.make_store(tmp_path).delete(ref)
            writer.append(said[1:])
        assert self.holds(store, ref, said)

    def test_a_new_id_is_one_the_store_takes(self, store: Store) -> None:
        """And each is another one."""
        header = self.header()
        for _ in range(3):
            id = store.new_id(header)
            assert id not in {each.id for each in store.list()}
            assert store.create(header._replace(id=id), turns(1)).id == id

    @pytest.mark.parametrize("kind", KINDS)
    def test_what_is_not_kept_is_named(self, store: Store, kind: str) -> None:
        """By its kind, and for nothing that is kept."""
        assert set(store.forbidden(KINDS[kind]())) == ({kind} & self.drops)

    def test_a_session_is_never_made_over_another(self, store: Store) -> None:
        """The same header again is refused, and what is there stays."""
        first, said = self.header(), turns(2)
        ref = store.create(first, said)
        for entries in ([], turns(1)):
            with pytest.raises(PerdureError):
                store.create(first, entries)
        assert self.holds(store, ref, said)

    @pytest.mark.parametrize("id", HOSTILE_IDS, ids=lambda id: ascii(id[:20]))
    def test_an_id_that_could_be_more_than_a_name_is_refused(self, store: Store, id: str) -> None:
        """Before anything is made."""
        for entries in ([], turns(1)):
            with pytest.raises(InvalidId):
                store.create(self.header()._replace(id=id), entries)
        assert list(store.list()) == []

    def test_an_id_of_plain_characters_is_taken(self, store: Store) -> None:
        """It is the session's id ever after."""
        refs = [store.create(self.header()._replace(id=id), turns(1)) for id in self.plain_ids]
        assert [ref.id for ref in refs] == list(self.plain_ids)
        assert sorted(each.id for each in store.list()) == sorted(self.plain_ids)
        assert [store.read(ref).header.id for ref in refs] == list(self.plain_ids)
