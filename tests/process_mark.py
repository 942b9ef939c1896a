"""A test that starts a process says so, because `make check` leaves those out:

    pytestmark = pytest.mark.process    # a whole file

    @pytest.mark.process
    def test_…

One that starts a process and does not say so fails. The contract of stores is for everybody, and knows no
marks of ours: its clauses get theirs here.
"""

import sys
from collections.abc import Iterator

import pytest

STARTS = {"os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen", "tests.processes.fork"}

SLOW_CLAUSES = (
    "test_hostile_text_comes_back[a line of 17 MB",
    "test_sixteen_writers_lose_nothing",
    "test_a_reader_beside_a_writer_sees_a_prefix",
)


class ProcessMark:
    """The pytest plugin."""

    def __init__(self) -> None:
        self._has_started = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in STARTS:
            self._has_started = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if item.name.startswith(SLOW_CLAUSES):
                item.add_marker(pytest.mark.slow)
            if any(mark.kwargs.get("reason") == "needs fork" for mark in item.iter_markers("skipif")):
                item.add_marker(pytest.mark.process)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._has_started = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        yield
        if self._has_started and item.get_closest_marker("process") is None:
            pytest.fail("It starts a process: mark it with pytest.mark.process.", pytrace=False)
