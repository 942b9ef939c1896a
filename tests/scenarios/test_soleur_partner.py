"""soleur's partner: what it is told and what it is not, what it has not, and which model it is."""

import sys

import pytest

from perdure.programs.soleur import persona
from perdure.programs.soleur.decisions import marked
from tests.agent.models.wire_server import refuse, wire_server
from tests.programs.started import SCRIPTS, prompts_of, soleur, system_of

__all__ = ["soleur", "wire_server"]

EXTENSION = """
from perdure import Tool

def register(api):
    api.prompt("BY AN EXTENSION")
    api.tool(Tool("shout", "Say it louder.", {"type": "object"}, print))
"""


# --- what it is told --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asks_for",
    [
        "Ask one probing question at a time, two at most",
        "Demand evidence.",
        "Name the assumption",
        "You have no tools.",
    ],
)
def test_the_built_in_prompt_asks_for_what_a_sparring_partner_does(home, asks_for):
    """It is what is sent where its user has none."""
    assert asks_for in persona.prompt()


def test_sol_12_a_decision_that_is_marked_as_the_built_in_prompt_shows_it_is_found(home):
    assert marked(persona.prompt()) == ["We charge per seat, 20 dollars a month, from March on."]


def test_sol_11_the_first_request_of_an_opening_ends_with_what_the_partner_is_to_do(soleur, wire_server):
    """And has it once, also after an opening that failed: when the session is offered, and resumed."""
    (soleur.project / "README.md").write_text("Shovels as a service.")
    soleur.answers(wire_server, refuse(500, b"{}"), "Who digs?", retry={"max_retries": 0})
    done = soleur.within(stdin="y\n")
    assert (done.code, "Failed: " in done.err) == (1, True)
    done = soleur.within(stdin="y\n")
    assert "Resume last session?" in done.out
    assert "Who digs?" in done.out
    assert [prompts_of(wire_server, at) for at in (0, 1)] == [[("user", persona.OPENING)]] * 2
    assert "Shovels as a service." in system_of(wire_server)
    assert soleur.said()[-1] == ("assistant", "Who digs?")


@pytest.mark.process
def test_nothing_that_is_meant_for_an_agent_that_builds_reaches_the_partner(soleur, wire_server):
    """Neither prompts nor tools, of settings, extensions and servers: which pi has, and soleur does not."""
    started = soleur.home / "it-started"
    canary = ["-c", f"open({str(started)!r}, 'w')"]
    soleur.answers(
        wire_server,
        "Hm.",
        prompts=["BY THE SETTINGS"],
        mcpServers={"canary": {"command": sys.executable, "args": canary}},
    )
    extensions = soleur.home / ".pi" / "agent" / "extensions"
    extensions.mkdir()
    (extensions / "it.py").write_text(EXTENSION)
    assert soleur.run("--fresh", stdin="Hello\n").code == 0
    assert not started.exists()
    soleur.command = [str(SCRIPTS / "pi")]
    assert soleur.run("-p", "Hello").code == 0
    assert started.exists()
    ours, theirs = (request.body for request in wire_server.requests)
    assert "tools" not in ours
    assert "shout" in [each["function"]["name"] for each in theirs["tools"]]
    for prompt in ("BY THE SETTINGS", "BY AN EXTENSION"):
        assert (prompt in system_of(wire_server, 0), prompt in system_of(wire_server, 1)) == (False, True)


# --- what can be typed ------------------------------------------------------------------------------------


def test_a_template_of_pis_is_nothing_that_can_be_typed(soleur, wire_server):
    """By its name it is no command, and where no command can have such a name, a message like any other."""
    templates = soleur.home / ".pi" / "agent" / "prompts"
    templates.mkdir(parents=True)
    for name in ("c++", "review"):
        (templates / f"{name}.md").write_text("THE TEMPLATE")
    soleur.answers(wire_server, "Hm.")
    done = soleur.within("--fresh", stdin="/c++\n/review\n")
    assert done.err == "soleur: There is no command /review; /help lists them\n"
    assert [prompts_of(wire_server, at) for at in range(len(wire_server.requests))] == [[("user", "/c++")]]
    assert b"TEMPLATE" not in wire_server.requests[0].raw


@pytest.mark.parametrize("leaves", ["/quit", "/exit", "/q", " /exit "])
def test_g_7_what_fingers_know_from_elsewhere_leaves_too(soleur, wire_server, leaves):
    """What comes behind it is not said; what is only like it is no command."""
    soleur.answers(wire_server, "Hm.")
    done = soleur.within("--fresh", stdin=f"/exi\n/qq\nHello\n{leaves}\nMore\n")
    assert done.code == 0
    first, second = done.err.splitlines()
    assert first.startswith("soleur: There is no command /exi; ")
    assert second.startswith("soleur: There is no command /qq")
    assert [text for _, text in soleur.said()] == ["Hello", "Hm."]


# --- which model it is ------------------------------------------------------------------------------------


def test_g_9_an_unknown_default_model_is_told_with_who_names_it(soleur, wire_server):
    """The program's own settings, not pi's; and nothing is begun."""
    soleur.answers(wire_server, "Hm.")
    (soleur.home / ".soleur").mkdir()
    (soleur.home / ".soleur" / "config.toml").write_text('default_model = "tset"\n')
    done = soleur.within("--fresh", stdin="Hello\n")
    assert (done.code, done.err.count("\n"), soleur.files) == (1, 1, [])
    assert "'tset', which default_model in this program's own settings names; " in done.err
    assert "custom/test" in done.err


def test_g_9_an_option_names_the_model_of_every_command_that_talks(soleur, wire_server):
    """Of a session that goes on, too."""
    models = [
        {"id": name, "base_url": f"{wire_server.url}/v1", "context_window": 8000}
        for name in ("test", "asked")
    ]
    soleur.answers(wire_server, "Hm.", models=models)
    soleur.within("spar", "--fresh", "-m", "asked", stdin="Hello\n")
    id = soleur.files[0].stem
    for words in (
        ["load", id],
        ["-m", "test", "-s", id],
        ["load", id, "--model", "asked"],
        ["spar", "-s", id],
    ):
        assert soleur.within(*words, stdin="More\n").code == 0
    assert [each.body["model"] for each in wire_server.requests] == [
        "asked",
        "asked",
        "test",
        "asked",
        "asked",
    ]


def test_g_9_without_a_key_it_spars_by_rules_from_what_it_has(soleur, home):
    """Its questions quote the README, the decisions and what was said; that rules draw them is a notice,
    once, and never part of what is kept."""
    (soleur.project / "README.md").write_text(
        "# Rota\n\nManagers need it every week. We plan to charge per seat.\n"
    )
    lines = [
        "y",
        "Three teams paid 20 dollars.",
        "/decide We charge 20 dollars a seat.",
        "Let us make it free.",
    ]
    done = soleur.within("--fresh", stdin="".join(f"{line}\n" for line in lines))
    assert (done.code, done.err.count("are drawn by rules")) == (0, 1)
    answers = [text for role, text in soleur.said() if role == "assistant"]
    assert "README.md says “We plan to charge per seat”" in answers[0]
    assert "“Three teams paid 20 dollars”: that is evidence." in answers[1]
    assert "you decided “We charge 20 dollars a seat”. Now you say “Let us make it free”" in answers[2]
    assert all(answer.strip() in done.out and "rules" not in answer for answer in answers)
    again = soleur.within(stdin="y\nAnd now?\n")
    assert (again.code, "are drawn by rules" in again.err) == (0, False)
    assert soleur.said()[-1][1] not in answers
