"""What holds for every test: an own home, no settings from outside, no network, nothing skipped unseen."""

import gc
import ipaddress
import itertools
import os
import shutil
import signal
import socket
import sys
import tempfile

import pytest
from hypothesis import settings

from tests.needs import SkipPolicy
from tests.process_mark import ProcessMark
from tests.seed import SEED, ShownSeed
from tests.slowest import SlowestFiles

# Hypothesis: `make test` tries the same examples in every run, so that it turns red by a change and by
# nothing else. `make fuzz` tries new ones; a failure prints what reproduces it. Deadlines would only measure
# how busy the machine is.
settings.register_profile("default", max_examples=30, deadline=None, derandomize=True, print_blob=True)
settings.register_profile("few", settings.get_profile("default"), max_examples=3)
settings.register_profile("random", settings.get_profile("default"), derandomize=False, max_examples=1000)
settings.register_profile("long", settings.get_profile("random"), max_examples=20_000)
settings.load_profile(os.environ.get("PERDURE_HYPOTHESIS", "default"))

# What a developer's shell may hold and a program here would obey. The tests' own switches stay.
FOREIGN = ("PERDURE_", "PI_", "AUR", "CORTEXT_", "SOLEUR_", "SIBYL_", "XDG_", "GIT_", "OLLAMA_")
OWN = ("PERDURE_REQUIRE_ALL", "PERDURE_KILLS", "PERDURE_FUZZ_", "PERDURE_HYPOTHESIS", "PERDURE_SEED")

LONGEST_ID = 60

# Where the files of tests are, if there is room: they sync some 100,000 times, which takes a disk minutes.
MEMORY = "/dev/shm"
ROOM = 2 * 2**30


def has_room(folder: str) -> bool:
    if not os.access(folder, os.W_OK) or shutil.disk_usage(folder).free < ROOM:
        return False
    return not os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0)  # some tests run what they write


def pytest_configure(config: pytest.Config) -> None:
    # A run in the background of a shell is started with SIGINT ignored, one by nohup with SIGHUP, and so
    # would be all that it starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.environ.pop("PYTHONUNBUFFERED", None)  # few users have it, and it hides what is left in a buffer
    if has_room(MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = MEMORY
    config.pluginmanager.register(SkipPolicy(), "skip-policy")
    config.pluginmanager.register(ProcessMark(), "process-mark")
    config.pluginmanager.register(SlowestFiles(), "slowest-files")
    config.pluginmanager.register(ShownSeed(), "shown-seed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First the groups that one worker runs: none is left for the end, when the others have nothing to do."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


def pytest_collection_finish() -> None:
    """Ten thousand tests are a heap that lasts: no later collection need walk it, nor any process copy it."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two for each core: tests wait for processes, locks and disks."""
    return 2 * (os.cpu_count() or 1)


def pytest_make_parametrize_id(val: object) -> str | None:
    """What is long is named by its beginning: a test's name is in the environment of all that it starts."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_ID:
        return f"{val[:LONGEST_ID]!a}, {len(val)} in all"
    return None


@pytest.fixture(scope="session", autouse=True)
def no_settings_from_outside(tmp_path_factory):
    """For session fixtures too: they run before any test has its own home."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.endswith(("_API_KEY", "_BASE_URL", "_MODEL", "_TOKEN")) or (
                name.startswith(FOREIGN) and not name.startswith(OWN)
            ):
                patch.delenv(name)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        # What programs leave in the folder for temporary files ends with the run. Like that one, it is
        # everybody's: some tests are another user for a while.
        folder = tempfile.mkdtemp(prefix="perdure-tests-")
        os.chmod(folder, 0o1777)
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        # While tests run, nobody writes bytecode: one whose files may not grow would leave half of it for all
        # others. Before, pytest does: to rewrite all assertions anew costs each worker a dozen seconds.
        patch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        patch.setattr(sys, "dont_write_bytecode", True)
        yield
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def seed() -> int:
    return SEED


@pytest.fixture(scope="session")
def homes(tmp_path_factory):
    """Numbered here: whoever makes a folder of pytest's reads the names of all that are beside it."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def home(no_settings_from_outside, homes, monkeypatch):
    """A new, empty home directory, for this test and every process it starts."""
    path = next(homes)
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.setenv("USERPROFILE", str(path))
    return path


class NetworkLocked(RuntimeError):
    """Not an OSError: code under test that expects network trouble must not take this for some."""


@pytest.fixture(scope="session", autouse=True)
def network_lock():
    """No connection leaves the machine; servers on loopback and Unix sockets are real and allowed."""
    with pytest.MonkeyPatch.context() as patch:
        for call in ("connect", "connect_ex"):
            patch.setattr(socket.socket, call, _loopback_only(getattr(socket.socket, call)))
        yield


def _loopback_only(connect):
    def guarded(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
            raise NetworkLocked(f"a test tried to connect to {address[0]}:{address[1]}")
        return connect(self, address)

    return guarded


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
