"""Sessions to find."""

from datetime import UTC, datetime, timedelta

from perdure.session.entry import Entry, placed
from perdure.session.ids import new_id, stamp
from perdure.session.stores import Found, Header, open_store
from perdure.testing.builders import assistant_entry, user_entry


def talk(cwd, *said: str | Entry, hours: float = 1, id: str = "", program: str = "pi", **facts) -> Found:
    """A session of a project in which these were said by turns, so many hours ago; `title` is among what is
    known of it as a whole, where its layout knows such."""
    moment = stamp(datetime.now(UTC) - timedelta(hours=hours))
    entries: list[Entry] = []
    for number, each in enumerate(said):
        made = (assistant_entry(each) if number % 2 else user_entry(each)) if isinstance(each, str) else each
        parent = entries[-1].id if entries else None
        entries.append(placed(made, id=new_id(), parent_id=parent, timestamp=moment))
    store = open_store(program, cwd=str(cwd), durability="process")
    header = Header("", moment, str(cwd), facts=facts)
    return store.create(header._replace(id=id or store.new_id(header)), entries)
