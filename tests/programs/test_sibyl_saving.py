"""sibyl's timer: what it saves and when, what it says of a failing disk, and that it ends."""

import os
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import SessionEntry
from perdure.front import autosave
from perdure.programs.sibyl import (
    load_session,
    save_session,
    start_auto_save_timer,
    stop_auto_save_timer,
)
from perdure.session.stores import Found
from perdure.session.stores.sibyl_sexp import SibylStore
from perdure.testing import assistant_entry, user_entry
from tests.interop.test_sbcl_sessions import printed, through_lisp
from tests.needs import needs_tool
from tests.sibyl_files import read_form

ID = "session-20250220-143022-847291"
SOON = 0.05


class Hourglass(autosave.Clock):
    """Time that stands still until it is turned."""

    def __init__(self) -> None:
        self.time = 0.0
        self.waits: list[float] = []
        self._is_waiting = threading.Semaphore(0)
        self._turned = threading.Semaphore(0)

    def now(self):
        return self.time

    def wait(self, event, seconds):
        self.waits.append(seconds)
        self._is_waiting.release()
        while not self._turned.acquire(timeout=0.01):
            if event.is_set():
                return True
        self.time += seconds
        return event.is_set()

    def turn(self) -> None:
        """What is due is done when this returns."""
        self._turned.release()
        for _ in range(2):  # it waited when this began, and it waits again
            assert self._is_waiting.acquire(timeout=20)
        self._is_waiting.release()


@pytest.fixture(autouse=True)
def no_timer_is_left() -> Iterator[None]:
    yield
    assert stop_auto_save_timer()
    wait_until(lambda: threads() == [])


@pytest.fixture
def glasses(monkeypatch) -> list[Hourglass]:
    """Those of the timers that are started, in order."""
    made: list[Hourglass] = []

    def another() -> Hourglass:
        made.append(Hourglass())
        return made[-1]

    monkeypatch.setattr(autosave, "Clock", another)
    return made


@pytest.fixture
def warned() -> Iterator[list[warnings.WarningMessage]]:
    """What is said where nobody has changed how warnings are shown."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield caught


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "Auto-save"]


def texts(folder, id=ID) -> list[str]:
    loaded = load_session(id, directory=folder)
    assert loaded is not None
    return [message.text for message in loaded[0]]


def file_in(folder, id=ID) -> Path:
    return Path(folder) / id / "session.lisp"


def wait_until(is_so) -> None:
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)


# --- what is saved, and when --------------------------------------------------------------------------------


def test_sib_15_it_saves_every_five_minutes_what_there_is_then(tmp_path, glasses):
    """Nothing before the first interval is over, and at each what was said until then."""
    said = [user_entry("one")]
    start_auto_save_timer(lambda: (ID, said, "the past"), directory=tmp_path)
    (glass,) = glasses
    assert list(tmp_path.iterdir()) == []
    glass.turn()
    assert load_session(ID, directory=tmp_path) == (said, "the past")
    said.append(assistant_entry("two"))
    assert texts(tmp_path) == ["one"]
    glass.turn()
    assert texts(tmp_path) == ["one", "two"]
    assert glass.waits == [300.0] * 3


@pytest.mark.process
@needs_tool("sbcl")
def test_sib_15_by_the_real_clock_a_file_that_lisp_reads(tmp_path):
    """After the interval, without anybody asking for it."""
    said = [user_entry('say "hi"'), SessionEntry.message("assistant", "hi \\ ü")]
    start_auto_save_timer(lambda: (ID, said, "the past"), SOON, directory=tmp_path)
    wait_until(file_in(tmp_path).exists)
    assert stop_auto_save_timer()
    through_lisp(file_in(tmp_path))
    version, id, count, length, summary, _ = read_form(printed(file_in(tmp_path), "seen").decode())
    assert (version, id, count, length, summary) == (1, ID, 2, 2, "the past")


def test_sib_15_an_empty_conversation_is_skipped(tmp_path, glasses, warned):
    """Also one in which only the program has spoken, to the model. Once something is said, it is saved."""
    said: list[SessionEntry] = []
    start_auto_save_timer(lambda: (ID, iter(said), None), directory=tmp_path)
    glasses[0].turn()
    said.append(SessionEntry.message("system", "You are Sibyl."))
    glasses[0].turn()
    assert list(tmp_path.iterdir()) == []
    said.append(user_entry("one"))
    glasses[0].turn()
    assert texts(tmp_path) == ["one"]
    assert warned == []


def test_sib_15_what_has_not_changed_is_not_written_again(tmp_path, glasses):
    """The file is the same one, with the same time in it."""
    said = [user_entry("one")]
    start_auto_save_timer(lambda: (ID, said, None), directory=tmp_path)
    glasses[0].turn()
    before = file_in(tmp_path).read_bytes(), file_in(tmp_path).stat().st_ino
    glasses[0].turn()
    assert (file_in(tmp_path).read_bytes(), file_in(tmp_path).stat().st_ino) == before


def test_sib_15_the_session_is_the_one_of_the_moment(tmp_path, glasses):
    """After `/load` it is another."""
    states = [("session-A", [user_entry("one")], None), ("session-B", [user_entry("two")], None)]
    start_auto_save_timer(lambda: states.pop(0), directory=tmp_path)
    glasses[0].turn()
    glasses[0].turn()
    assert (texts(tmp_path, "session-A"), texts(tmp_path, "session-B")) == (["one"], ["two"])


def test_sib_15_the_directory_is_where_it_was_at_the_start(tmp_path, glasses, monkeypatch, home):
    """Wherever the program goes to; and without one it is the default."""
    monkeypatch.chdir(tmp_path)
    start_auto_save_timer(lambda: (ID, [user_entry("one")], None), directory="mine")
    monkeypatch.chdir(home)
    glasses[0].turn()
    assert texts(tmp_path / "mine") == ["one"]
    start_auto_save_timer(lambda: (ID, [user_entry("two")], None))
    glasses[1].turn()
    assert file_in(home / ".sibyl" / "sessions").is_file()


def test_sib_15_saves_by_hand_and_by_itself_lose_nothing(tmp_path):
    """They take turns: each message is there, once."""
    by_itself, by_hand = [[user_entry(f"{who} {turn}") for turn in range(12)] for who in ("timer", "hand")]
    shown = [1]
    start_auto_save_timer(lambda: (ID, by_itself[: shown[0]], None), 0.001, directory=tmp_path)
    for turn in range(12):
        save_session(ID, by_hand[: turn + 1], directory=tmp_path)
        shown[0] = turn + 1
    wait_until(lambda: "timer 11" in texts(tmp_path))
    assert stop_auto_save_timer()
    assert sorted(texts(tmp_path)) == sorted(message.text for message in [*by_itself, *by_hand])


# --- failures -----------------------------------------------------------------------------------------------


def test_sib_15_a_failing_disk_is_told_once_and_tried_again(tmp_path, glasses, warned):
    """So is the end of each failure; and a second one like the first is told too."""
    folder = tmp_path / "sessions"
    said = [user_entry("one")]
    start_auto_save_timer(lambda: (ID, said, None), directory=folder)
    for number in (1, 2):
        folder.write_text("a file, where the folder should be")
        for _ in range(3):
            glasses[0].turn()
        assert len(warned) == 2 * number - 1
        assert str(warned[-1].message).startswith("Auto-save failed, and is tried again later: Not saved: ")
        folder.unlink()
        for _ in range(3):
            glasses[0].turn()
        assert len(warned) == 2 * number
        assert str(warned[-1].message) == "Auto-save works again."
        assert texts(folder) == ["one"]
        folder.rename(tmp_path / f"sessions-{number}")
    assert {warning.category for warning in warned} == {UserWarning}


def test_sib_15_a_full_disk_leaves_what_was_saved(tmp_path, glasses, warned):
    """The write fails in its middle; when there is room again, all of it is there."""
    resource = pytest.importorskip("resource")
    said = [user_entry("one")]
    start_auto_save_timer(lambda: (ID, said, None), directory=tmp_path)
    glasses[0].turn()
    before = file_in(tmp_path).read_bytes()
    said.append(user_entry("word " * 1000))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        glasses[0].turn()
        glasses[0].turn()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file_in(tmp_path).read_bytes() == before
    assert [path.name for path in file_in(tmp_path).parent.iterdir()] == ["session.lisp"]
    assert ["File too large" in str(warning.message) for warning in warned] == [True]
    glasses[0].turn()
    assert texts(tmp_path) == [message.text for message in said]
    assert [str(warning.message) for warning in warned[1:]] == ["Auto-save works again."]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (None, "TypeError"),
        ((ID, []), "ValueError"),
        (("../x", [user_entry("one")], None), "Not a session id"),
    ],
)
def test_sib_15_a_state_that_is_none_is_told_once(tmp_path, glasses, warned, state, reason):
    """And saved as soon as it is one."""
    states = [state, state, (ID, [user_entry("one")], None)]
    start_auto_save_timer(lambda: states.pop(0), directory=tmp_path)
    glasses[0].turn()
    glasses[0].turn()
    assert [reason in str(warning.message) for warning in warned] == [True]
    assert list(tmp_path.iterdir()) == []
    glasses[0].turn()
    assert texts(tmp_path) == ["one"]
    assert len(warned) == 2


def test_sib_15_a_program_that_cannot_say_what_there_is_is_not_stopped(tmp_path, glasses, warned):
    """Whatever it raises, in the timer's thread: the conversation goes on."""
    failures: list[BaseException] = [KeyError("agent"), SystemExit(1), KeyboardInterrupt()]

    def state():
        if failures:
            raise failures.pop(0)
        return ID, [user_entry("one")], None

    start_auto_save_timer(state, directory=tmp_path)
    for _ in range(4):
        glasses[0].turn()
    assert texts(tmp_path) == ["one"]
    assert ["agent" in str(warning.message) for warning in warned] == [True, False]


# --- the end ------------------------------------------------------------------------------------------------


def test_sib_15_it_stops_at_once(tmp_path):
    """Long before its interval is over; then there is no thread, and nothing was saved."""
    start_auto_save_timer(lambda: (ID, [user_entry("one")], None), 10_000, directory=tmp_path)
    wait_until(lambda: len(threads()) == 1)
    assert stop_auto_save_timer()
    wait_until(lambda: threads() == [])
    assert list(tmp_path.iterdir()) == []


def test_sib_15_to_stop_what_does_not_run_is_fine():
    assert stop_auto_save_timer()
    assert stop_auto_save_timer(0)


def test_sib_15_a_save_in_the_middle_of_the_stop_is_whole_and_the_last(tmp_path):
    """Somebody else has the session, so it takes long: stop says that it did not wait for it, however often
    it is asked, until it is over."""
    save_session(ID, [user_entry("one")], directory=tmp_path)
    begun = threading.Event()
    said = [user_entry("two"), user_entry("three")]

    def state():
        begun.set()
        return ID, said, None

    store = SibylStore(str(tmp_path), sessions_dir=str(tmp_path))
    with store.writer(Found(ID, str(file_in(tmp_path)))):
        start_auto_save_timer(state, 0.001, directory=tmp_path)
        assert begun.wait(20)
        assert stop_auto_save_timer(SOON) is False
        assert stop_auto_save_timer(-1) is False
        begun.clear()
    assert stop_auto_save_timer()
    assert not begun.is_set()
    assert texts(tmp_path) == ["one", "two", "three"]


def test_sib_15_another_that_is_started_takes_the_place_of_the_first(tmp_path, glasses):
    """There is one thread, and only what the second returns is saved."""
    start_auto_save_timer(lambda: ("first", [user_entry("one")], None), directory=tmp_path)
    start_auto_save_timer(lambda: ("second", [user_entry("two")], None), directory=tmp_path)
    wait_until(lambda: len(threads()) == 1)
    glasses[1].turn()
    assert not file_in(tmp_path, "first").exists()
    assert texts(tmp_path, "second") == ["two"]


def test_sib_15_a_timer_that_was_replaced_in_the_middle_of_a_save_is_not_forgotten(tmp_path):
    """The start waits for it, and stop answers for it as well."""
    begun, goes_on = threading.Event(), threading.Event()

    def slow():
        begun.set()
        assert goes_on.wait(20)
        return "first", [user_entry("one")], None

    start_auto_save_timer(slow, 0.001, directory=tmp_path)
    assert begun.wait(20)
    starting = threading.Thread(
        target=start_auto_save_timer,
        args=(lambda: ("second", [], None), 1000),
        kwargs={"directory": tmp_path},
    )
    starting.start()
    wait_until(lambda: len(threads()) == 2)
    assert stop_auto_save_timer(0) is False
    wait_until(lambda: len(threads()) == 1)
    assert starting.is_alive()
    goes_on.set()
    starting.join()
    assert stop_auto_save_timer()
    wait_until(lambda: threads() == [])
    assert texts(tmp_path, "first") == ["one"]


def test_sib_15_many_threads_may_start_and_stop_it(tmp_path):
    """There is one at the end, and none after a stop, whoever asks for it."""

    def together(work) -> None:
        running = [threading.Thread(target=work) for _ in range(8)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()

    together(lambda: start_auto_save_timer(lambda: (ID, [], None), 1000, directory=tmp_path))
    wait_until(lambda: len(threads()) == 1)
    answers: list[bool] = []
    together(lambda: answers.append(stop_auto_save_timer()))
    assert answers == [True] * 8
    wait_until(lambda: threads() == [])


def test_sib_15_it_may_be_stopped_from_inside(tmp_path, glasses):
    """A conversation that ends while its state is asked for is saved; as that is under way, stop says no."""
    answers: list[bool] = []

    def state():
        answers.append(stop_auto_save_timer())
        return ID, [user_entry("one")], None

    start_auto_save_timer(state, 0.001, directory=tmp_path)
    glasses[0].turn()
    assert stop_auto_save_timer()
    assert answers == [False]
    assert texts(tmp_path) == ["one"]


@pytest.mark.parametrize("interval", [0, -1, float("nan")])
def test_sib_15_no_interval_means_never(tmp_path, interval):
    """And one that runs is stopped by it."""
    start_auto_save_timer(lambda: (ID, [user_entry("one")], None), 1000, directory=tmp_path)
    start_auto_save_timer(lambda: (ID, [user_entry("one")], None), interval, directory=tmp_path)
    wait_until(lambda: threads() == [])
    assert os.listdir(tmp_path) == []
