"""A home whose sessions are all old, for clean-ups that are stopped, and what may be found there then."""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from perdure.session import expiry
from perdure.session.expiry import Cleaned
from perdure.session.layouts import Home
from perdure.session.session import Session
from perdure.session.stores import Durability, Found
from perdure.session.stores.file_store import FileStore
from tests.crash.killing import message, said, store_in
from tests.session.snapshot import snapshot


class OldSessions:
    """Each session has a file beside it that was set aside of it, where its layout has these."""

    def __init__(self, home: str, layout: str, sessions: int, durability: Durability = "process") -> None:
        shutil.rmtree(home, ignore_errors=True)
        store = store_in(home, layout, durability)
        assert isinstance(store, FileStore)
        self.store = store
        self.home = Home(layout, home)
        self.refs: list[Found] = []
        for number in range(sessions):
            with Session.create(store) as session:
                session.append(message(said(f"{number}", 100)))
                self.refs.append(session.ref)
            if os.path.realpath(store.own_path(session.ref)) == os.path.realpath(session.ref.path):
                Path(f"{session.ref.path}.damaged").write_text(f"{number}")
        self.before = self.whole()

    def clean(self) -> Cleaned:
        later = datetime.now(UTC) + timedelta(days=100)
        return expiry.clean(self.home, 30, now=lambda: later)

    def whole(self) -> dict[str, Any]:
        """What is in the place of each session: it, and what lies beside it."""
        found = {}
        for ref in self.refs:
            place = Path(self.store.own_path(ref))
            for path in (place, Path(f"{place}.damaged")):
                if os.path.lexists(path):
                    found[str(path)] = snapshot(path)
        return found

    def bring_back(self) -> None:
        for each in self.store.trashed():
            self.store.bring_back(each)

    def check_in_place(self) -> None:
        """All sessions are where they were, with all their bytes, and the trash is empty."""
        assert self.whole() == self.before
        assert not [*self.store.trashed()]
        assert {ref.id for ref in self.store.list()} == {ref.id for ref in self.refs}

    def check_deleted(self) -> None:
        """Each session is in the trash, once, and nowhere else."""
        assert sorted(each.id for each in self.store.trashed()) == sorted(ref.id for ref in self.refs)
        assert self.whole() == {}

    def check_nothing_lost(self) -> None:
        """Each session is readable in its place or is in the trash."""
        there = {ref.id for ref in self.store.list()} | {each.id for each in self.store.trashed()}
        assert {ref.id for ref in self.refs} == there
        for path, found in self.whole().items():
            assert found == self.before[path]

    def check_after_stop(self, *, is_completed: bool) -> None:
        """What was stopped can be taken back; or completed, and then taken back."""
        self.check_nothing_lost()
        if is_completed:
            done = self.clean()
            assert (done.problems, done.damaged, done.held) == ([], [], [])
            self.check_deleted()
        self.bring_back()
        self.check_in_place()
