"""`pi --print` and its siblings with a server that does not stop: where they end, and what they say then."""

import pytest

from tests.agent.models.wire_server import HANG, events, wire_server
from tests.front.one_prompt import HALF, called, endless, pi, said, until
from tests.processes import SCRIPTS

__all__ = ["pi", "wire_server"]

pytestmark = pytest.mark.process


def priced(pi, server) -> None:
    """Each answer of the model costs a dollar."""
    model = {"id": "test", "base_url": f"{server.url}/v1", "cost": {"input": 100_000, "output": 0}}
    pi.use(server, models=[model])


@pytest.mark.parametrize("kind", ["content", "reasoning_content"])
def test_an_endless_answer_ends_with_exit_1_and_is_kept(pi, wire_server, kind):
    """It grew to 2.8 GB before. The next call goes on behind it."""
    wire_server.script(endless(**{kind: "and on " * 1000}), events(said("here")))
    pi.use(wire_server)
    done = pi("-p", "hello")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"8 MB" in done.stderr
    assert b"limits.answerBytes" in done.stderr
    assert len(wire_server.requests) == 1
    kept = pi.last()
    (block,) = kept.content
    text = block.text if kind == "content" else block.thinking
    assert 8 * 2**20 - 20_000 < len(text) <= 8 * 2**20
    assert kept.stop_reason == "error"
    assert pi("-p", "-c", "are you there?").stdout == b"here\n"


def test_a_server_that_loops_gets_as_many_requests_as_it_may(pi, wire_server):
    wire_server.script(events(called(("c", "ls", {}))))
    pi.use(wire_server, limits={"turns": 7}, compaction={"enabled": False})
    done = pi("-p", "hello")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"limits.turns" in done.stderr
    assert b"--session" in done.stderr
    assert len(wire_server.requests) == 7


def test_calls_that_are_not_run_are_told_in_a_few_lines_with_the_reason(pi, wire_server):
    wire_server.script(events(called(*((f"c{at}", "ls", {}) for at in range(30)))), events(said("done")))
    pi.use(wire_server, limits={"callsInOneAnswer": 8})
    done = pi(stdin="hello\n")
    assert done.returncode == 0
    assert done.stdout.count(b"not run") == 5
    assert b"limits.callsInOneAnswer" in done.stdout


def test_max_cost_ends_a_run_before_the_next_request_and_says_what_was_spent(pi, wire_server):
    wire_server.script(events(said("a", reason="tool_calls")[:-14] + called(("c", "ls", {}))))
    priced(pi, wire_server)
    done = pi("-p", "--max-cost", "1.50", "hello")
    assert done.returncode == 1
    assert b"$2.0000" in done.stderr
    assert b"$1.5000" in done.stderr
    assert len(wire_server.requests) == 2


@pytest.mark.parametrize("arguments", [["-p", "hello"], ["--mode", "json", "hello"], []])
def test_a_limit_that_is_misspelt_is_told_and_no_model_is_asked(pi, wire_server, arguments):
    """Like any other wrong setting, also where nobody sits at a terminal: its user relies on it."""
    wire_server.script(events(said("yes")))
    ends = []
    for limits in ({"turns": 0}, {"maxCost": 0.001, "cots": 1}):
        pi.use(wire_server, limits=limits)
        done = pi(*arguments, stdin="hello\n")
        ends.append((done.returncode, done.stdout))
    assert ends[0] == ends[1]
    assert ends[0][0] != 0
    assert b"settings.json: limits: " in done.stderr
    assert b"'maxCost'" in done.stderr
    assert wire_server.requests == []


def test_a_model_without_a_price_is_named_where_its_cost_has_a_limit(pi, wire_server):
    wire_server.script(events(said("yes")))
    pi.use(wire_server)
    done = pi("-p", "--max-cost", "1", "hello")
    assert (done.returncode, done.stdout) == (0, b"yes\n")
    assert done.stderr.count(b"custom/test has no price") == 1


@pytest.mark.parametrize("program", ["aur spawn", "soleur --fresh --no-context"])
def test_the_other_programs_have_the_option(pi, wire_server, program):
    """Through a pipe: the first message is answered, the second is not, and that is exit code 1."""
    wire_server.script(events(said("the answer")))
    priced(pi, wire_server)
    name, *words = program.split()
    pi.command = [str(SCRIPTS / name), *words]
    done = pi("--max-cost", "0.5", stdin="one\ntwo\n")
    assert done.returncode == 1
    assert done.stdout.count(b"the answer") == 1
    assert b"--max-cost" in done.stderr + done.stdout
    assert len(wire_server.requests) == 1


def test_a_signal_is_heard_while_a_huge_error_arrives(pi, wire_server):
    """Eight seconds passed before it was. What arrived is kept, as ever."""
    huge = b'data: {"error": {"message": "' + b"the models are \\u001b busy " * 1_000_000
    wire_server.script(events(HALF, huge, HANG))
    pi.use(wire_server)
    with pi.started("-p", "hello") as process:
        until(lambda: wire_server.requests)
        process.terminate()
        assert process.wait(30) == 143
    assert pi.messages()[0] == ("user", "hello")
