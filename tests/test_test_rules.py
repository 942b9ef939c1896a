"""The rules of `conftest.py` and `needs.py` hold, for they guard every other test."""

import os
import socket
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from tests.needs import summary

ROOT = Path(__file__).parents[1]


def test_home_is_empty_and_temporary(home):
    """No test sees, or changes, the developer's files."""
    assert Path.home() == home
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "example.invalid"])
@pytest.mark.parametrize("call", ["connect", "connect_ex"])
def test_the_network_is_locked(host, call):
    """A connection that would leave the machine raises, by address and by name."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as client, pytest.raises(RuntimeError, match="a test tried to connect"):
        getattr(client, call)((host, 80))


def test_loopback_is_open():
    """Real servers on this machine are how network code is tested."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass


def test_the_summary_counts_who_misses_what():
    """The most missed first, in plain words."""
    assert summary(Counter({"needs strace": 2, "needs tmux": 1, "a slow day": 1})) == (
        "4 tests skipped: 2 need strace, 1 needs tmux, 1: a slow day"
    )
    assert summary(Counter({"needs tmux": 1})) == "1 test skipped: 1 needs tmux"


ONE_TEST = """
    from tests.needs import needs

    @needs("a unicorn", given=False)
    def test_it(): pass

    def test_other(): pass
"""
WHOLE_MODULE = """
    import pytest
    pytest.skip("needs a unicorn", allow_module_level=True)
"""
EXPECTED_TO_FAIL = """
    import pytest

    @pytest.mark.xfail
    def test_it(): assert False
"""


CONFTEST = """
    from tests.needs import SkipPolicy

    def pytest_configure(config):
        config.pluginmanager.register(SkipPolicy())
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("source", "required", "workers", "passes"),
    [
        pytest.param(ONE_TEST, "0", "0", True, id="skipped"),
        pytest.param(ONE_TEST, "1", "0", False, id="skipped but required"),
        pytest.param(ONE_TEST, "1", "1", False, id="skipped but required, xdist"),
        pytest.param(WHOLE_MODULE, "1", "1", False, id="module skipped but required, xdist"),
        pytest.param(EXPECTED_TO_FAIL, "1", "0", True, id="expected to fail"),
    ],
)
def test_a_skip_fails_the_run_only_where_everything_is_required(tmp_path, source, required, workers, passes):
    """In one process and under xdist; and an expected failure is no skip."""
    (tmp_path / "conftest.py").write_text(textwrap.dedent(CONFTEST))
    (tmp_path / "test_it.py").write_text(textwrap.dedent(source))
    lean = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", workers, *lean, tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PERDURE_REQUIRE_ALL": required},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.returncode == 0) == passes, done.stdout + done.stderr
    assert ("unicorn" in done.stdout) == (source is not EXPECTED_TO_FAIL)
    if source is ONE_TEST:
        assert "1 test skipped: 1 needs a unicorn" in done.stdout
