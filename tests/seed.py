"""One seed for all that the tests of a run choose at random; hypothesis has its own ways. PERDURE_SEED=n
makes the same choices again, for one test as for all."""

import os
import secrets

import pytest

SEED = int(os.environ.get("PERDURE_SEED") or secrets.randbits(32))
os.environ["PERDURE_SEED"] = str(SEED)  # for the workers, and for what they start


class ShownSeed:
    """The pytest plugin: with -q there are no first lines, so what fails shows it, too."""

    def pytest_report_header(self) -> str:
        return f"PERDURE_SEED={SEED}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if terminalreporter.stats.keys() & {"failed", "error"}:
            terminalreporter.write_line(f"PERDURE_SEED={SEED}")
