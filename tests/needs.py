"""What a test needs from its machine, and what happens where that is missing.

Such a test is skipped, and the last lines of the run count who missed what. With PERDURE_REQUIRE_ALL=1,
as `.ci/run` sets it, any skip fails the run: a green check never means "not looked at".

    from tests.needs import needs, needs_tool

    @needs_tool("strace")
    def test_…

    pytestmark = needs("the original pi (make peers)", given=PI.exists())

Inside a test or fixture `pytest.skip("needs …")` is counted all the same.
"""

import os
import shutil
from collections import Counter

import pytest


def needs(what: str, *, given: bool) -> pytest.MarkDecorator:
    """Mark for a test, a class or a module (`pytestmark`): skip it unless `given`."""
    return pytest.mark.skipif(not given, reason=f"needs {what}")


def needs_tool(name: str) -> pytest.MarkDecorator:
    """Skip unless the program `name` is on the PATH."""
    return needs(name, given=shutil.which(name) is not None)


def summary(reasons: "Counter[str]") -> str:
    """`3 tests skipped: 2 need strace, 1 needs tmux`"""
    total = reasons.total()
    parts = []
    for reason, count in reasons.most_common():
        subject, _, rest = reason.partition(" ")
        verb = ("needs" if count == 1 else "need") if subject == "needs" else None
        parts.append(f"{count} {verb} {rest}" if verb else f"{count}: {reason}")
    return f"{total} {'test' if total == 1 else 'tests'} skipped: {', '.join(parts)}"


def all_required() -> bool:
    return os.environ.get("PERDURE_REQUIRE_ALL") == "1"


class SkipPolicy:
    """The pytest plugin. Under xdist it acts in the controller, where every worker's reports arrive."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.reasons[_reason(report)] += 1

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector):
        # xdist does not pass on that a whole module skipped itself, so in a worker it must fail right there.
        report = yield
        if report.skipped and all_required():
            report.outcome = "failed"
            report.longrepr = f"PERDURE_REQUIRE_ALL=1, but the module was skipped: {_reason(report)}"
        elif report.skipped:
            self.reasons[_reason(report)] += 1
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        in_worker = hasattr(session.config, "workerinput")
        if self.reasons and all_required() and exitstatus == pytest.ExitCode.OK and not in_worker:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.reasons:
            terminalreporter.write_line(summary(self.reasons), yellow=True)
            if all_required():
                terminalreporter.write_line("PERDURE_REQUIRE_ALL=1: a skipped test fails the run", red=True)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    place_and_reason = report.longrepr
    text = place_and_reason[2] if isinstance(place_and_reason, tuple) else str(place_and_reason)
    return text.removeprefix("Skipped: ")
