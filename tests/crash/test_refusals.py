"""A process that may not write, or may open nothing more: told each time, and clean when it may again."""

import errno
import os
import tempfile
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import pytest

from perdure.errors import NotSaved, Unreadable
from perdure.session.entry import Entry
from perdure.session.manager import SessionManager
from perdure.session.session import Session
from perdure.session.stores import Store, open_store
from tests.crash.killing import alone, append_in_a_new_process, check_told, message, texts_in

pytestmark = pytest.mark.process

NOBODY = 65534


@pytest.mark.parametrize("closed", ["file", "folder", "lock"])
def test_a_read_only_file_or_folder_is_told_and_the_session_still_reads(closed):
    """Permissions taken away, then given back: refused with the path and the cause, then clean."""
    with tempfile.TemporaryDirectory() as place:  # not pytest's, which only its owner may enter
        alone(write_without_permission, place=place, closed=closed)


def write_without_permission(place: str, closed: str) -> None:
    if os.geteuid() == 0:  # permissions bind everybody but root
        os.chown(place, NOBODY, NOBODY)
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    home = f"{place}/home"
    store = open_store("pi", home, sessions_dir=f"{home}/sessions")
    with Session.create(store) as session:
        session.append(message("before"))
    path, mode = {
        "file": (session.ref.path, 0o400),
        "folder": (f"{home}/sessions", 0o500),
        "lock": (f"{home}/sessions/locks/{session.id}.lock", 0o400),
    }[closed]

    def begin() -> Session:
        return Session.create(store) if closed == "folder" else Session.open(store, session.ref)

    allowed = os.stat(path).st_mode
    os.chmod(path, mode)
    for _ in range(2):
        with pytest.raises(NotSaved) as caught:
            begin()
        check_told(caught.value, path, errno.EACCES)
    assert texts_in(store, session.ref) == ["before"]

    os.chmod(path, allowed)
    begin().close()
    append_in_a_new_process(store, session.ref)
    assert texts_in(store, session.ref) == ["before", "from a new process"]


# --- no descriptors left ----------------------------------------------------------------------------


class Place(NamedTuple):
    home: str
    store: Store
    session: Session
    """Held all the while."""
    manager: SessionManager
    saved: str
    """The session the manager saves to."""


STEPS: dict[str, Callable[[Place], Any]] = {
    "append": lambda here: here.session.append(message("step")),
    "create": lambda here: Session.create(here.store).close(),
    "fork": lambda here: here.session.fork(),
    "read": lambda here: here.store.read(here.session.ref),
    "save": lambda here: here.manager.save(here.saved, [Entry.message("user", "step")]),
    "find": lambda here: SessionManager(here.home).load_session(here.saved),
    "list": lambda here: here.manager.list_sessions(),
    "delete": lambda here: here.manager.delete_session(here.manager.create_session()),
}


@pytest.mark.parametrize("step", STEPS)
def test_without_a_descriptor_left_each_open_is_told(tmp_path, step):
    """RLIMIT_NOFILE with room for 0, 1, 2 … more: an error that says so or success, and then all is clean."""
    assert alone(act_with_few_descriptors, home=str(tmp_path), step=step) < 20


def act_with_few_descriptors(home: str, step: str) -> int:
    import resource

    store, manager = open_store("pi", home, sessions_dir=home), SessionManager(home)
    saved = manager.create_session()
    manager.save(saved, [Entry.message("user", "there")])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Session.create(store) as session:
        session.append(message("before"))
        act, here = STEPS[step], Place(home, store, session, manager, saved)
        act(here)  # now every import is done
        for spare in count():
            before = texts_in(store, session.ref)
            done = False
            resource.setrlimit(resource.RLIMIT_NOFILE, (_highest_descriptor() + 1 + spare, hard))
            try:
                act(here)
                done = True
            except (NotSaved, Unreadable) as error:
                check_told(error, home, errno.EMFILE)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert texts_in(store, session.ref) == before + ["step"] * (done and step == "append")
            session.append(message("after"))
            act(here)
            if done:
                break
    append_in_a_new_process(store, session.ref)
    assert texts_in(store, session.ref)[-1] == "from a new process"
    return spare


def _highest_descriptor() -> int:
    """With every number below it taken, so that the limit counts exactly what is opened from now on."""
    while (lowest := os.open(os.devnull, os.O_RDONLY)) < max(map(int, os.listdir("/dev/fd"))) - 1:
        pass
    return lowest
