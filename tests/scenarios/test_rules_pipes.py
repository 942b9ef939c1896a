"""G-1 in all programs: the exit code of a piped run, and what becomes of each line that was piped in."""

import pytest

from tests.agent.models.wire_server import events, refuse, wire_server
from tests.front.one_prompt import Pi, said
from tests.programs.started import Done, Program
from tests.programs.workspaces import Cortext, cortext

__all__ = ["cortext", "wire_server"]

pytestmark = pytest.mark.process

REFUSED = refuse(401, b'{"error":{"message":"Incorrect API key"}}')
BEGINS = {
    "pi": [],
    "aur": ["spawn"],
    "cortext": ["start", "plan", "Ship"],
    "sibyl": [],
    "soleur": ["--fresh"],
}
LEAVES = {"pi": "/quit", "aur": "/exit", "cortext": "/exit", "sibyl": "/quit", "soleur": "/quit"}


class Talking:
    """One of the programs."""

    def __init__(self, name: str, home, server) -> None:
        self.name, self._server = name, server
        self._program = Cortext(home) if name == "cortext" else Program(name, home, home / "acme")

    def __call__(self, *steps, stdin: str) -> Done:
        """What it says of these lines, where its model answers in this order."""
        self._program.answers(self._server, *steps, retry={"enabled": False})
        return self._program.run(*BEGINS[self.name], stdin=stdin)


@pytest.fixture(params=BEGINS)
def talking(request, home, wire_server) -> Talking:
    return Talking(request.param, home, wire_server)


@pytest.mark.parametrize("is_left", [False, True])
def test_g_1_a_turn_that_failed_is_exit_1_and_later_lines_are_answered(talking, is_left):
    """However the run is left."""
    leave = f"{LEAVES[talking.name]}\n" if is_left else ""
    done = talking(REFUSED, "Seats, then.", stdin=f"one\ntwo\n{leave}")
    assert "Incorrect API key" in done.err
    assert "Seats, then." in done.out
    assert done.code == 1


def test_g_1_a_run_without_a_failed_turn_is_exit_0(talking):
    assert talking("Fine.", stdin="one\n/nonsense\n").code == 0


def test_g_1_what_a_retry_saved_has_not_failed(home, wire_server):
    pi = Pi(home, home)
    wire_server.script(refuse(503, b"busy"), events(said("at last")))
    pi.use(wire_server)
    done = pi(stdin="one\n")
    assert done.stdout.decode().count("at last") == 1
    assert done.returncode == 0


def test_g_1_cortexts_acknowledgement_and_summary_are_no_turns(cortext, wire_server):
    """A model that refuses them leaves a run that did all that it was asked to."""
    held = cortext.talked("Ship", "When?", "Soon.", kind="plan")
    cortext.answers(wire_server, REFUSED, retry={"enabled": False})
    done = cortext.within("resume", held.id, stdin="")
    assert "Incorrect API key" in done.err
    assert done.code == 0
    assert cortext.within("resume", held.id, stdin="And now?\n").code == 1


# --- what was piped in and answers nothing ----------------------------------------------------------------


@pytest.fixture
def soleur(home) -> Program:
    program = Program("soleur", home, home / "acme")
    (program.project / "README.md").write_text("# Acme\n")
    return program


def test_g_1_a_question_that_meets_a_question_is_named_and_not_swallowed(soleur, wire_server):
    """The line is no answer: it is asked again, and at the end of input it is exit 1. Nothing is begun."""
    soleur.answers(wire_server, "Why?")
    done = soleur.within("--fresh", stdin="Should I charge?\n")
    assert done.out.count("Load README.md as project context? [Y/n]") == 2
    assert "'Should I charge?'" in done.err
    assert done.code == 1
    assert soleur.files == []
    assert wire_server.requests == []


def test_g_1_end_of_input_at_a_question_is_exit_0_where_nothing_was_piped_in(soleur):
    done = soleur.within("--fresh", stdin="")
    assert (done.code, done.err) == (0, "")
    assert soleur.files == []


def test_g_1_what_came_before_the_answer_is_named(soleur, wire_server):
    """The run goes on with the answer."""
    soleur.answers(wire_server, "Why?")
    done = soleur.within("--fresh", stdin="Should I charge?\nn\nWould they pay?\n")
    assert "'Should I charge?'" in done.err
    assert done.code == 0
    assert soleur.said() == [("user", "Would they pay?"), ("assistant", "Why?")]


def test_g_1_words_that_find_no_conversation_are_named_too(cortext):
    cortext.talked("Ship", "When?", "Soon.", kind="plan")
    done = cortext.within("resume", stdin="the roadmap\n")
    assert "'the roadmap'" in done.err
    assert done.code == 1
    assert cortext.within("resume", stdin="").code == 0


def test_g_1_a_completed_conversation_is_not_reopened_by_what_is_no_answer(cortext):
    held = cortext.talked("Ship", "When?", "Soon.", kind="plan", status="completed")
    done = cortext.within("resume", held.id, stdin="And now?\n")
    assert "'And now?'" in done.err
    assert done.code == 1
    assert cortext.state()["status"] == "completed"
