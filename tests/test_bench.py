"""The bench runs, and says what it measured. No test here looks at how long anything took."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.measure import Contender, compare
from bench.rows import ROWS

ROOT = Path(__file__).parent.parent


def run(*arguments, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", "--smoke", "--dir", str(folder), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    done = run("--json", folder=folder)
    assert done.returncode == 0, done.stderr
    assert list(folder.iterdir()) == [], "what was made to be measured is left behind"
    return json.loads(done.stdout)


def test_every_row_has_a_limit_and_finite_ratios_to_it(report):
    """A ratio that is zero, infinite or to nothing would be a figure that says nothing."""
    assert [row["row"] for row in report["rows"]] == list(ROWS)
    for row in report["rows"]:
        names = [figure["name"] for figure in row["figures"]]
        assert any(figure["against"] is None for figure in row["figures"])
        assert any(figure["at_most"] for figure in row["figures"])
        for figure in row["figures"]:
            assert figure["against"] in (None, *names)
            assert math.isfinite(figure["ratio"])
            assert figure["ratio"] > 0
            assert figure["low"] <= figure["ratio"] <= figure["high"]


def test_a_report_says_when_and_with_what_it_was_made(report):
    for what in ("date", "python", "msgspec", "orjson", "perdure", "system", "cores", "file system"):
        assert report[what]


def test_the_table_has_the_rows_asked_for_and_progress_stays_out_of_it(tmp_path):
    done = run("--markdown", "p2", "P11", folder=tmp_path)
    assert re.findall(r"^\*\*(P\d+):", done.stdout, re.MULTILINE) == ["P2", "P11"]
    assert "rounds" in done.stderr
    assert "2 rounds" not in done.stdout


def test_a_wrong_row_is_an_error_that_names_the_rows_there_are(tmp_path):
    done = run("P2", "P99", folder=tmp_path)
    assert done.returncode == 2
    assert "no row P99; there are P1, P2" in done.stderr
    assert done.stdout == ""


def test_the_docs_show_and_explain_every_row():
    """docs/performance.md holds the table of a full run, and a section on each of its rows."""
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert re.findall(r"^\*\*(P\d+):", text, re.MULTILINE) == list(ROWS)
    assert re.findall(r"^### (P\d+):", text, re.MULTILINE) == list(ROWS)
    assert "size full" in text


def test_contenders_take_turns_and_a_ratio_compares_blocks_of_one_round():
    """The medians of all calls are 10 and 100; the rounds' ratios are 2, 3 and 10, and 3 is what counts."""
    order: list[str] = []
    now = 0.0

    def spend(name, *by_round):
        nonlocal now
        now += by_round[len(order) // 4]  # a round is two calls of each of the two
        order.append(name)

    limit = Contender("limit", lambda: spend("l", 1, 100, 1, 10), calls=2)
    ours = Contender("ours", lambda: spend("o", 1, 200, 3, 100), "limit", calls=2)
    figures = compare([limit, ours], rounds=3, clock=lambda: now)
    assert "".join(order) == "lloo" + "lloo" + "ooll" + "lloo"
    assert [(figure.seconds, figure.ratio) for figure in figures] == [(10, 1), (100, 3)]
