"""A clock that goes backwards, stands still or leaps changes no order."""

import tempfile
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from perdure.session import entry as entries
from perdure.session import ids, tree
from perdure.session.entry import Entry
from perdure.session.manager import SessionManager
from perdure.session.session import Session
from tests.crash.killing import LAYOUTS, check_chain, message, store_in

ZONES = st.integers(-12, 14).map(lambda hours: timezone(timedelta(hours=hours)))
MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(2106, 1, 1), timezones=ZONES)


@given(moments=st.lists(MOMENTS, min_size=1, max_size=12), layout=st.sampled_from(LAYOUTS))
def test_r19_entries_keep_the_order_in_which_they_were_appended(moments, layout):
    """Whatever the clock says at each append: the file, the path, the tail and the context agree on it."""
    ticks = iter([moments[0], *moments])
    said = [str(number) for number in range(len(moments))]
    with tempfile.TemporaryDirectory() as home:
        store = store_in(home, layout, "process")
        with Session.create(store, clock=lambda: next(ticks)) as session:
            for text in said:
                session.append(message(text))
            here = [entry.id for entry in session.entries]
        again = Session.view(store, session.ref)
        check_chain(again.entries)
        assert [entry.id for entry in again.entries] == here
        for entries_found in (again.entries, again.path(), again.tail(len(said))):
            assert [entry.text for entry in entries_found] == said
        assert [getattr(each, "content", None) for each in again.context().messages] == said
        assert again.head == here[-1]
        assert [entry.id for entry in store.read_back(session.ref)] == here[::-1]
        assert tree.fold(store.read(session.ref).entries).notices == []


def test_r19_saves_keep_their_order_when_the_clock_is_set_back(tmp_path, monkeypatch):
    """An hour back between every two saves, by one manager and by a new one each time."""
    moment = datetime(2026, 1, 1, tzinfo=UTC)

    def back() -> datetime:
        nonlocal moment
        moment -= timedelta(hours=1)
        return moment

    monkeypatch.setattr(ids, "now", back)
    monkeypatch.setattr(entries, "now", back)
    manager = SessionManager(tmp_path, durability="process")
    id = manager.create_session()
    for number in range(10):
        saving = manager if number % 2 else SessionManager(tmp_path, durability="process")
        saving.save(id, [Entry.message("user", f"{number} a"), Entry.message("user", f"{number} b")])
    loaded = manager.load_session(id)
    assert [entry.text for entry in loaded] == [f"{number} {each}" for number in range(10) for each in "ab"]
    assert loaded[-1].timestamp < loaded[0].timestamp
    check_chain(loaded)
