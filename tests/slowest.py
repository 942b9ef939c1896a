"""The last lines of a run: which files took longest, for whoever wants the run to be shorter."""

from collections import Counter

import pytest

SHOWN = 10


class SlowestFiles:
    """The pytest plugin. Under xdist it acts in the controller, where every worker's reports arrive."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        self.seconds[file] += report.duration  # type: ignore[assignment]
        self.tests[file] += report.when == "call"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self.seconds) > SHOWN:
            terminalreporter.section(f"slowest {SHOWN} of {len(self.seconds)} files")
            for file, seconds in self.seconds.most_common(SHOWN):
                terminalreporter.write_line(f"{seconds:7.1f} s  {file} ({self.tests[file]} tests)")
