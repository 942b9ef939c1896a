"""Real power cuts: an ext4 file system that is shut down under its writers, and mounted again."""

import os
import shutil
import signal
import time
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from itertools import count, islice
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from perdure.session import expiry
from perdure.session.entry import Entry
from perdure.session.manager import SessionManager
from perdure.session.session import Session
from perdure.session.stores.file_store import FileStore
from perdure.session.trash_note import Trashed
from tests.crash.killing import SLOW, Child, Report, alone, batches, check_found, message, share, store_in
from tests.crash.old_sessions import OldSessions
from tests.crash.power import LOG_FLUSH, NO_LOG_FLUSH, cut, disk, power_on
from tests.effort import IS_LONG

__all__ = ["disk"]

pytestmark = pytest.mark.process

OLD_SESSIONS, AT_ONCE = 40, 8
IN_A_SESSION = 12  # groups of entries, then it is forked and a new one is begun
HOMES = 4  # used in turn: the disk holds what the lives before left, and has room for one more
SAID_BEFORE = 4  # reports before every other cut: a session and three groups of entries


def test_r2_a_power_cut_loses_nothing_that_was_acknowledged(layout, disk, seed):
    """Sessions, entries and forks that a writer was told are saved are all there, whole and in order."""
    counted = alone(cut_again_and_again, cuts=share(8, 1000, layout), seed=seed, layout=layout, **disk)
    print(counted)
    assert counted["entries"] > counted["cuts"]


def test_r2_an_entry_saved_again_after_a_kill_survives_a_power_cut(disk):
    """Its first writer was killed before the sync; the next one's save returns once it is on the disk."""
    alone(cut_after_saving_again, **disk)


def test_r2_a_power_cut_during_a_clean_up_leaves_each_session_in_its_place_or_in_the_trash(
    layout, disk, seed
):
    """Whole, and restorable; what the clean-up counted as deleted is in the trash."""
    counted = alone(cut_clean_ups, cuts=share(8, 1000, layout), seed=seed, layout=layout, **disk)
    print(counted)
    assert counted["deleted"] > 0
    if IS_LONG:  # a busy machine may let a few clean-ups end first
        assert counted["in place"] > 0


# --- the writer -----------------------------------------------------------------------------------------


def write_on_and_on(home: str, layout: str, seed: int, life: int, report: Report) -> None:
    """Session after session. Reports each step once it is acknowledged: new, said, forked."""
    store = store_in(home, layout)
    for number in count():
        with Session.create(store) as session:
            report(["new", session.id, f"{life}-{number}"])
            for texts in islice(batches(seed, f"{life}-{number}", most=2**14), IN_A_SESSION):
                made = session.append(*map(message, texts))
                report(["said", session.id, [entry.id for entry in made]])
            report(["forked", session.fork().id, session.id])


def cut_again_and_again(cuts: int, seed: int, layout: str, image: str, place: str) -> dict[str, int]:
    counted = {"cuts": cuts, "sessions": 0, "entries": 0, "forks": 0}
    for life in range(cuts):
        random = Random(f"{seed}/{life}/cut")
        home = f"{place}/{life % HOMES}"
        shutil.rmtree(home, ignore_errors=True)
        with Child(partial(write_on_and_on, home, layout, seed, life)) as writer:
            heard = writer.at_least(SAID_BEFORE) if life % 2 == 0 else []  # however busy the machine is
            time.sleep(random.uniform(0, 0.1 * SLOW.get(layout, 1)))
            heard += writer.heard()
            cut(place, random.choice([LOG_FLUSH, NO_LOG_FLUSH]))
            writer.kill()
        power_on(image, place)
        check_after_cut(home, layout, seed, heard)
        for kind, name in (("new", "sessions"), ("said", "entries"), ("forked", "forks")):
            counted[name] += sum(each[0] == kind for each in heard)
    return counted


def check_after_cut(home: str, layout: str, seed: int, heard: list[Any]) -> None:
    store = store_in(home, layout)
    found = {ref.id: ref for ref in store.list()}
    names = {id: name for kind, id, name in heard if kind == "new"}
    said = defaultdict(list)
    for kind, id, ids in heard:
        if kind == "said":
            said[id].append(ids)
    for id, name in names.items():
        assert id in found, f"session {name} is gone"
        page = store.read(found[id])
        check_found(page.entries, said[id], islice(batches(seed, name, most=2**14), IN_A_SESSION))
        # What was not acknowledged may be torn: the newline, or all but the first block, may be NULs.
        torn = ("left out", "saved from it")
        assert all(problem.reason.endswith(torn) for problem in page.problems), page.problems
        with Session.open(store, found[id], wait=0) as session:
            (after,) = session.append(message("after the cut"))
        assert store.read(found[id]).entries == [*page.entries, after]
    for kind, id, origin in heard:
        if kind == "forked":
            shared = [each for group in said[origin] for each in group]
            assert [entry.id for entry in store.read(found[id]).entries] == shared
    for ref in found.values():
        store.read(ref)  # what was not acknowledged may be there or not; it must open


def cut_after_saving_again(image: str, place: str) -> None:
    home = f"{place}/home"
    manager = SessionManager(home)
    id = manager.create_session()
    manager.save(id, [Entry.message("user", "first")])
    entry = Entry.message("user", "killed before its sync")

    def die(descriptor: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def work(report: Report) -> None:
        os.fdatasync = die  # type: ignore[assignment]
        manager.save(id, [entry])

    with Child(work) as writer:
        assert writer.wait() == -signal.SIGKILL
    manager.save(id, [entry])
    cut(place, NO_LOG_FLUSH)
    power_on(image, place)
    assert [each.id for each in SessionManager(home).load_session(id)][1:] == [entry.id], (
        "it was acknowledged"
    )


# --- clean-ups ------------------------------------------------------------------------------------------


def cut_clean_ups(cuts: int, seed: int, layout: str, image: str, place: str) -> dict[str, int]:
    counted = {"cuts": cuts, "deleted": 0, "in place": 0}
    for life in range(cuts):
        random = Random(f"{seed}/{life}/clean-up")
        old = OldSessions(f"{place}/{life % HOMES}", layout, OLD_SESSIONS, "power")
        os.sync()  # also what lies beside the sessions
        with Child(partial(clean_and_report, old)) as cleaner:
            heard = cleaner.at_least(1)  # some are deleted, and some are not
            time.sleep(random.uniform(0, 0.01))
            heard += cleaner.heard()
            cut(place, random.choice([LOG_FLUSH, NO_LOG_FLUSH]))
            cleaner.kill()
        power_on(image, place)
        acknowledged = {id for ids in heard for id in ids}
        assert acknowledged <= {each.id for each in old.store.trashed()}
        in_place = {ref.id for ref in old.store.list()}
        assert not acknowledged & in_place
        counted["deleted"] += len(acknowledged)
        counted["in place"] += len(in_place)
        old.check_after_stop(is_completed=life % 2 == 0)
    return counted


def clean_and_report(old: OldSessions, report: Report) -> None:
    """Reports the ids of each few sessions that were deleted together."""
    delete_all = FileStore.delete_all

    def reported(store: FileStore, *arguments: Any, **options: Any) -> Sequence[Trashed | Exception]:
        done = delete_all(store, *arguments, **options)
        report([each.id for each in done if isinstance(each, Trashed)])
        return done

    with patch.object(FileStore, "delete_all", reported), patch.object(expiry, "_AT_ONCE", AT_ONCE):
        old.clean()
