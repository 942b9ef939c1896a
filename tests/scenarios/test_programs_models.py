"""Which model answers in each of the five programs (G-9, SIB-19): a resumed session's, and `/model`."""

import re
from typing import Any

import pytest

from perdure.front.slash import COMMANDS
from perdure.registry import load
from perdure.session.session import Session
from perdure.session.stores import open_store
from tests.agent.models.wire_server import wire_server
from tests.programs.started import Program, aur, sibyl, soleur
from tests.programs.workspaces import Cortext, cortext

__all__ = ["aur", "cortext", "sibyl", "soleur", "wire_server"]

pytestmark = pytest.mark.process

PROGRAMS = ["pi", "soleur", "sibyl", "aur", "cortext"]
RESUMING = "Resuming with model custom/test instead of offline"
NOTICE = "The built-in `offline` model answers"


@pytest.fixture
def pi(home) -> Program:
    return Program("pi", home, home / "work")


@pytest.fixture(params=PROGRAMS)
def program(request) -> Program:
    found: Program = request.getfixturevalue(request.param)
    return found


def begin(program: Program) -> list[str]:
    """What begins a new session, and asks nothing."""
    words = {"soleur": ["--fresh"], "aur": ["spawn"], "cortext": ["start", "brainstorm", "API"]}
    return words.get(program.name, [])


def resume(program: Program) -> list[str]:
    """What goes on with the only session."""
    (ref,) = program.refs if isinstance(program, Cortext) else open_store(program.layout).list()
    return {
        "pi": ["--session", ref.id],
        "soleur": ["load", ref.id],
        "sibyl": ["--session-id", ref.id],
        "aur": ["spawn", "--resume", ref.id],
        "cortext": ["resume", ref.id],
    }[program.name]


def serve(program: Program, server: Any) -> None:
    """A real model, and another one, from now on."""
    models = [{"id": id, "base_url": f"{server.url}/v1"} for id in ("test", "other")]
    program.answers(server, "Hm.", models=models)


def asked(server: Any) -> list[str]:
    """The models that were asked, in turn."""
    return [request.body["model"] for request in server.requests]


def test_g_9_a_session_that_was_offline_for_want_of_a_key_goes_on_with_a_real_model(program, wire_server):
    """One line says so before anything is sent. A sibyl session keeps no model: there is nothing to say."""
    done = program.run(*begin(program), stdin="hello\n")
    assert (done.code, done.err.count(NOTICE)) == (0, 1)
    serve(program, wire_server)
    done = program.run(*resume(program), stdin="again\n")
    assert done.code == 0
    assert {*asked(wire_server)} == {"test"}
    assert done.err.count(RESUMING) == (program.name != "sibyl")
    assert NOTICE not in done.err
    done = program.run(*resume(program), stdin="once more\n")
    assert RESUMING not in done.err


@pytest.mark.parametrize("way", ["option", "command", "variable"])
def test_g_9_an_offline_that_its_user_chose_stays(program, wire_server, way, monkeypatch):
    """With `-m`, with `/model` or by the variable; except in sibyl, where a model lasts one run."""
    serve(program, wire_server)
    if way == "variable":
        monkeypatch.setenv("PERDURE_MODEL", "offline")
    words = ["-m", "offline"] if way == "option" else []
    done = program.run(
        *begin(program), *words, stdin="/model offline\nhello\n" if way == "command" else "hello\n"
    )
    assert done.code == 0
    monkeypatch.delenv("PERDURE_MODEL", raising=False)
    assert wire_server.requests == []
    done = program.run(*resume(program), stdin="again\n")
    assert done.code == 0
    assert bool(wire_server.requests) == (program.name == "sibyl")


def test_g_9_the_notice_is_on_stderr_once_and_nothing_that_is_kept_or_listed_has_it(program, home):
    """A resumed session has had it; where no model is kept, each run says it once."""
    done = program.run(*begin(program), stdin="hello\nhello again\n")
    assert (NOTICE in done.out, done.err.count(NOTICE)) == (False, 1)
    done = program.run(*resume(program), stdin="and again\n")
    assert (NOTICE in done.out, done.err.count(NOTICE)) == (False, program.name == "sibyl")
    kept = [path for path in home.rglob("*") if path.is_file() and ".cache" not in path.parts]
    assert [path for path in kept if b"built-in `offline`" in path.read_bytes()] == []


def test_g_9_model_shows_and_changes_who_answers(program, wire_server):
    """A name that is nobody's is an error in the conversation, which goes on as it was."""
    serve(program, wire_server)
    typed = "/model\n/model othr\nhello\n/model custom/other\nmore\n/model\n"
    done = program.run(*begin(program), stdin=typed)
    assert done.code == 0
    shown = re.findall(r"^(?:\S*> )?(custom/\w+)$", done.out, re.MULTILINE)
    assert shown == ["custom/test", "custom/other"]
    assert f"{program.name}: Unknown model 'othr'; nearest: custom/other" in done.err
    assert "custom/other answers from now on." in done.err
    assert asked(wire_server)[:2] == ["test", "other"]
    program.run(*resume(program), stdin="again\n")
    assert asked(wire_server)[-1] == ("test" if program.name == "sibyl" else "other")


def test_g_9_the_model_is_the_sessions_though_nothing_is_said_after_it(program, wire_server):
    """It is on disk before the next prompt; except in sibyl, whose file stays as it is."""
    serve(program, wire_server)
    program.run(*begin(program), stdin="hello\n/model custom/other\n")
    program.run(*resume(program), stdin="again\n")
    assert asked(wire_server)[-1] == ("test" if program.name == "sibyl" else "other")


def test_g_9_in_a_new_session_a_model_is_recorded_with_what_is_said(program, wire_server):
    """One in which nothing is said leaves no file."""
    serve(program, wire_server)
    program.run(*begin(program), stdin="/model custom/other\n/model\n")
    files = program.refs if isinstance(program, Cortext) else program.files
    assert files == []


def test_g_9_what_is_begun_from_an_offline_that_nobody_chose_has_not_chosen_it_either(pi, wire_server):
    """`/new` and `/fork` go on with the model in use; that is nobody's choice."""
    pi.run(stdin="one\n/new\ntwo\n/fork\nthree\n")
    store = open_store("pi", cwd=str(pi.project))
    found = [Session.view(store, ref).chosen() for ref in store.list()]
    assert [(each.model, each.is_model_chosen) for each in found] == [(("offline", "offline"), False)] * 3
    serve(pi, wire_server)
    pi.run("-c", stdin="/model offline\none\n/new\ntwo\n")
    chosen = [Session.view(store, ref).chosen().is_model_chosen for ref in store.list()]
    assert sorted(chosen) == [False, False, True, True]


@pytest.mark.parametrize(
    "where",
    ["soleur.talk:COMMANDS", "sibyl.talk:COMMANDS", "aur.talk:COMMANDS", "cortext.profile:_OWN"],
)
def test_g_9_model_is_one_command_in_all_programs(where):
    """With one function, one line of help, and one way to complete it."""
    assert load(f"perdure.programs.{where}")["model"] is COMMANDS["model"]


def test_sib_19_a_model_that_is_named_lasts_for_the_run_and_is_not_kept(sibyl, wire_server):
    """Also in a session that is loaded; the file has no word of it."""
    serve(sibyl, wire_server)
    sibyl.run(stdin="one\n")
    words = resume(sibyl)
    sibyl.run(stdin=f"/model custom/other\ntwo\n/load {words[1]}\nthree\n")
    sibyl.run("-m", "custom/other", stdin=f"four\n/load {words[1]}\nfive\n")
    assert asked(wire_server) == ["test", "other", "other", "other", "other"]
    assert [path for path in sibyl.files if b"other" in path.read_bytes()] == []


def test_g_9_without_a_conversation_there_is_no_model_to_change(cortext, wire_server):
    """In cortext's own shell; it says how to begin one, and goes on."""
    serve(cortext, wire_server)
    done = cortext.run(stdin="/model custom/other\n/model\n/help\n")
    assert done.code == 0
    assert done.err.count("No conversation is open; /workspace.") == 2
    assert "/model [MODEL]" in done.out
