"""The rules of `conftest.py` and `needs.py` hold, for they guard every other test."""

import os
import re
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
    from tests.seed import ShownSeed

    def pytest_configure(config):
        config.pluginmanager.register(SkipPolicy())
        config.pluginmanager.register(ShownSeed())
"""


def run_pytest(
    folder: Path, source: str, *options: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A run of its own, of one file, with plugins of ours."""
    (folder / "conftest.py").write_text(textwrap.dedent(CONFTEST))
    (folder / "test_it.py").write_text(textwrap.dedent(source))
    lean = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *lean, *options, folder],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


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
    done = run_pytest(tmp_path, source, "-n", workers, PERDURE_REQUIRE_ALL=required)
    assert (done.returncode == 0) == passes, done.stdout + done.stderr
    assert ("unicorn" in done.stdout) == (source is not EXPECTED_TO_FAIL)
    if source is ONE_TEST:
        assert "1 test skipped: 1 needs a unicorn" in done.stdout


TELLS_ITS_SEED = """
    from tests.seed import SEED

    def test_one(): assert SEED < 0

    def test_other(): assert SEED < 0
"""


@pytest.mark.process
@pytest.mark.parametrize("options", [["-n", "2"], ["-q"]], ids=["two workers", "quiet"])
def test_what_fails_can_be_repeated_from_the_seed_that_is_shown(tmp_path, options):
    """One for all workers; the same again if it is given."""
    for given in ("", "1234567"):
        out = run_pytest(tmp_path, TELLS_ITS_SEED, *options, PERDURE_SEED=given).stdout
        (seed,) = set(re.findall(r"PERDURE_SEED=(\d+)", out))
        assert set(re.findall(r"^E +assert (\d+) < 0", out, re.MULTILINE)) == {seed}
        assert given in ("", seed)
