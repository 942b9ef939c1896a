"""The bench runs, and says what it measured. No test here looks at how long anything took."""

import json
import math
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.machine import COMMON, Machine
from bench.measure import Contender, compare
from bench.peers import Peer, Peers
from bench.peers.protocol import conversations
from bench.rows import ROWS

pytestmark = pytest.mark.process

ROOT = Path(__file__).parent.parent


def run(*arguments, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", "--smoke", "--dir", str(folder), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)


measured_once = pytest.mark.xdist_group("bench")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    done = run("--json", folder=folder)
    assert done.returncode == 0, done.stderr
    assert list(folder.iterdir()) == [], "what was made to be measured is left behind"
    return json.loads(done.stdout)


@measured_once
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


@measured_once
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
    assert [(figure.median, figure.ratio) for figure in figures] == [(10, 1), (100, 3)]


def test_a_contender_may_sit_out_rounds_and_is_compared_with_those_it_was_in():
    """It takes 3, 9 and 15 in rounds 0, 2 and 4, and the limit 1 to 5: the ratio is 3 each time."""
    clock = 0.0
    number = -1  # the first time is not measured

    def spend(seconds):
        nonlocal clock
        clock += seconds

    def limit():
        nonlocal number
        number += 1
        spend(max(number, 1))

    slow = Contender("slow", lambda: spend(3 * max(number, 1)), "limit", every=2)
    _, figure = compare([Contender("limit", limit), slow], rounds=5, clock=lambda: clock)
    assert (figure.ratio, figure.low, figure.high) == (3, 3, 3)
    assert figure.median == 9


def fake_peer(script: str) -> Peers:
    """A peer whose process runs this, with the protocol of those written in Python at hand."""
    code = f"from bench.peers.protocol import serve, timed\n{script}"
    return Peers([Peer("pi", "0", [sys.executable, "-c", code])])


def compared_with(peers: Peers, **arguments):
    with ExitStack() as stack:
        limit = Contender("limit", lambda: [2.0, 2.0, 2.0], reports=True)
        found = peers.contenders(stack, "load", "limit", calls=3, **arguments)
        return compare([limit, *found], rounds=3)


def test_a_peer_takes_its_turns_and_its_own_figures_count():
    """What it is given arrives there, what it prints is no answer, and the pipe is in nobody's time."""
    peers = fake_peer(
        """
def load(folder, session):
    def block(calls):
        print("Welcome to this library!")
        return [float(session)] * calls
    return block
serve({"load": load})
"""
    )
    limit, peer = compared_with(peers, session="8")
    assert (peer.name, peer.against, peer.median, peer.ratio) == ("pi open", "limit", 8, 4)
    assert limit.median == 2


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import a_library_that_is_not_there", "exit code 1"),
        ("serve({'load': lambda **_: lambda calls: exit(7)})", "exit code 7"),
    ],
    ids=["before it is ready", "at work"],
)
def test_a_peer_that_ends_is_reported_and_left_out(script, reason, capfd):
    figures = compared_with(fake_peer(script), session="")
    assert [figure.name for figure in figures] == ["limit"]
    assert f"left out: pi open: its process ended with {reason}" in capfd.readouterr().err


def test_a_block_of_an_agents_turns_is_a_conversation_of_its_own(tmp_path):
    """It begins anew, with all its turns at hand, and each is timed; the script is said in a circle."""
    lines = [
        json.dumps({"type": "message", "message": {"role": "user", "content": f"{turn}.{at}"}})
        for turn in range(2)
        for at in range(4)
    ]
    session = tmp_path / "session.jsonl"
    session.write_text("\n".join(lines), encoding="utf-8")
    heard: list[list[str]] = []

    def conversation(script):
        heard.append([])
        turns = iter(script)

        async def say(prompt):
            assert prompt == next(turns)[0]["content"]
            heard[-1].append(prompt)

        return say

    block = conversations(conversation)(folder=str(tmp_path), session=str(session))
    assert [len(block(3)), len(block(2))] == [3, 2]
    assert heard == [["0.0", "1.0", "0.0"], ["0.0", "1.0"]]


def test_on_the_machine_most_messages_have_the_common_word_and_two_sessions_the_rare_one(tmp_path):
    """Otherwise a search for them would measure something else."""
    machine = Machine(str(tmp_path / "machine"), 40)
    texts = [Path(each.path).read_text(encoding="utf-8") for each in machine.sessions]
    assert sum(f" {machine.rare} " in text for text in texts) == 2
    in_first_project = [text for text in texts if f'"cwd":"{machine.projects[0]}"' in text]
    assert sum(f" {machine.rare} " in text for text in in_first_project) == 1
    lines = [line for text in texts for line in text.splitlines()[1:]]
    assert sum(f"{COMMON} " in line for line in lines) > len(lines) / 2
    assert machine.size == sum(Path(each.path).stat().st_size for each in machine.sessions)
