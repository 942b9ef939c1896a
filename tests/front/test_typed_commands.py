"""`/name` in `pi --print`: commands, templates and skills, as a process."""

import json

import pytest

from perdure.session.entry import Compaction
from tests.agent.models.wire_server import HANG, events, wire_server
from tests.front.one_prompt import called, pi, said, until

__all__ = ["pi", "wire_server"]

pytestmark = pytest.mark.process

EXTENSION = """
print("loading")

def clock(arguments, ctx):
    '''the time, for nobody but you'''
    print("a word in between")
    ctx.show("it is late")

def both(arguments, ctx):
    ctx.show("looking")
    return f"say {arguments}"

def fails(arguments, ctx):
    raise RuntimeError("no luck")

def register(api):
    api.command("clock", clock)
    api.command("both", both)
    api.command("fails", fails)
    api.on("message_end", lambda event: print("a message"))
"""


@pytest.fixture
def extended(pi, home, wire_server):
    folder = home / ".pi" / "agent"
    for name in ("extensions", "prompts", "skills/release"):
        (folder / name).mkdir(parents=True)
    (folder / "extensions" / "words.py").write_text(EXTENSION)
    (folder / "prompts" / "review.md").write_text(
        "---\ndescription: look at it\n---\nReview it for ${1:-anything}.\n"
    )
    skill = "---\nname: release\ndescription: Cut a release.\n---\nRead the list.\n"
    (folder / "skills" / "release" / "SKILL.md").write_text(skill)
    wire_server.script(events(said("yes")))
    pi.use(wire_server)
    return pi


def asked(wire_server) -> tuple[str, str]:
    """The system prompt and what was said last, in the last request."""
    messages = wire_server.requests[-1].body["messages"]
    content = messages[-1]["content"]
    return messages[0]["content"], content if isinstance(content, str) else content[-1]["text"]


def test_a_template_is_filled_in_and_what_is_piped_in_comes_before_it(extended, wire_server):
    done = extended("-p", "/review", '"naming and tests"', stdin="a diff")
    assert (done.returncode, done.stdout) == (0, b"yes\n")
    assert asked(wire_server)[1] == "a diff\nReview it for naming and tests."
    assert extended("-p", "/review").stdout == b"yes\n"
    assert asked(wire_server)[1] == "Review it for anything."
    assert extended.messages()[0] == ("user", "Review it for anything.")


def test_a_skill_is_listed_and_handed_over_when_it_is_asked_for(extended, wire_server):
    assert extended("-p", "hello").stdout == b"yes\n"
    system, prompt = asked(wire_server)
    assert "release" in system
    assert "Cut a release." in system
    assert "Read the list." not in system
    assert "skills/release/SKILL.md" in system
    assert prompt == "hello"
    assert extended("-p", "/skill:release 1.2").stdout == b"yes\n"
    system, prompt = asked(wire_server)
    assert "Read the list." in prompt
    assert prompt.endswith("\n\n1.2")
    assert extended("-p", "--tools", "ls", "hello").stdout == b"yes\n"
    assert "Cut a release." not in asked(wire_server)[0]  # nothing to read it with


def test_what_a_command_shows_is_its_answer_and_makes_no_session(extended, wire_server):
    done = extended("-p", "/clock")
    assert (done.returncode, done.stdout) == (0, b"it is late\n")
    assert done.stderr == b"loading\na word in between\n"
    assert wire_server.requests == []
    assert extended.sessions.list_sessions() == []
    done = extended("-p", "/clock", stdin="some text")
    assert b"/clock said nothing to the model, so what came with it was not sent" in done.stderr


def test_what_it_shows_beside_a_prompt_goes_to_stderr_and_so_does_what_extensions_print(
    extended, wire_server
):
    done = extended("-p", "/both it again")
    assert done.stdout == b"yes\n"
    assert b"looking\n" in done.stderr
    assert done.stderr.count(b"a message\n") == 2
    assert asked(wire_server)[1] == "say it again"
    done = extended("--mode", "json", "/both x")
    assert [json.loads(line) for line in done.stdout.splitlines()][-1]["type"] == "agent_end"


def test_a_command_that_fails_is_one_line_with_its_place_and_leaves_no_session(extended):
    done = extended("-p", "/fails")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"/fails failed: ~/.pi/agent/extensions/words.py:14: RuntimeError: no luck" in done.stderr
    assert b"Traceback" not in done.stderr
    assert extended.sessions.list_sessions() == []


def test_help_lists_all_there_are_and_nearly_right_is_told(extended, wire_server):
    shown = extended("-p", "/help").stdout.decode()
    for line in ("/clock ", "/review ", "/skill:release ", "/compact "):
        assert line in shown
    assert "the time, for nobody but you" in shown
    assert "look at it" in shown
    done = extended("-p", "/reveiw it")
    assert b"There is no command /reveiw, so it is sent as it is; did you mean /review?" in done.stderr
    assert asked(wire_server)[1] == "/reveiw it"
    done = extended("-p", "/etc/hosts is what?")
    assert b"no command" not in done.stderr


def test_name_and_compact_work_on_a_session_that_is_there(extended, wire_server):
    assert extended("-p", "hello " * 3000).returncode == 0
    assert extended("-p", "-c", "more " * 3000).returncode == 0
    assert extended("-p", "-c", "/name the zebra talk").stdout.startswith(b"This session is called")
    (session,) = extended.sessions.list_sessions()
    assert session.title == "the zebra talk"
    done = extended("-p", "-c", "/compact")
    assert done.stdout.startswith(b"Condensed: it was about"), done.stderr
    with extended.sessions.open_session(session.id) as opened:
        assert any(isinstance(entry.body, Compaction) for entry in opened.entries)


def test_a_model_that_a_broken_extension_would_have_brought_is_explained(extended, home):
    (home / ".pi" / "agent" / "extensions" / "parrot.py").write_text(
        "def register(api):\n    api.provider('parrot', models=[{'id': 'grey'}], conect=1)\n"
    )
    done = extended("-p", "-m", "parrot/grey", "hi")
    assert done.returncode == 1
    assert b"parrot.py:2: TypeError" in done.stderr
    assert b"Unknown model 'parrot/grey'" in done.stderr


def test_a_name_is_given_beside_a_command_or_when_there_is_something_to_call_so(extended):
    assert b"will be called 'foo' when something is said in it" in extended("-p", "/name foo").stdout
    assert extended.sessions.list_sessions() == []
    assert extended("-p", "hello").returncode == 0
    assert extended("-p", "-c", "-n", "beside", "/clock").stdout == b"it is late\n"
    assert [each.title for each in extended.sessions.list_sessions()] == ["beside"]


def test_a_command_that_a_signal_ends_says_so(extended, wire_server):
    """Condensing is work for the model, which may take its time."""
    for text in ("hello " * 3000, "more " * 3000):
        assert extended("-p", "-c" if extended.sessions.list_sessions() else "-p", text).returncode == 0
    asked = len(wire_server.requests)
    wire_server.script(events(HANG))
    with extended.started("-p", "-c", "/compact") as process:
        until(lambda: len(wire_server.requests) > asked)
        process.terminate()
        shown, _ = process.communicate(timeout=30)
    assert (process.returncode, shown) == (143, b"Not condensed: it was stopped.\n")


def test_a_template_that_comes_out_empty_is_not_sent(extended, home, wire_server):
    (home / ".pi" / "agent" / "prompts" / "echo.md").write_text("$1\n")
    done = extended("-p", "/echo")
    assert (done.returncode, wire_server.requests) == (2, [])
    assert b"/echo makes an empty prompt of that" in done.stderr


def test_a_broken_extension_is_one_line_and_the_answer_comes(extended, home):
    (home / ".pi" / "agent" / "extensions" / "bad.py").write_text("def register(api):\n    api.toll()\n")
    done = extended("-p", "hello")
    assert (done.returncode, done.stdout) == (0, b"yes\n")
    (line,) = [line for line in done.stderr.decode().splitlines() if "bad.py" in line]
    assert line.startswith("~/.pi/agent/extensions/bad.py:2: AttributeError:")


def test_a_hook_that_fails_in_the_middle_is_told_once(extended, home, wire_server):
    (home / ".pi" / "agent" / "extensions" / "guard.py").write_text(
        "def guard(call):\n    1 / 0\n\ndef register(api):\n    api.before_tool(guard)\n"
    )
    calls = called(("a", "ls", {}), ("b", "ls", {}))
    wire_server.script(events(calls), events(said("done")))
    done = extended("-p", "look")
    assert done.stdout == b"done\n"
    (line,) = [line for line in done.stderr.decode().splitlines() if "guard.py" in line]
    assert line.startswith("~/.pi/agent/extensions/guard.py:2: ZeroDivisionError:")


def test_tools_are_chosen_by_name_and_an_unknown_one_is_refused_with_those_there_are(extended, wire_server):
    done = extended("-p", "--tools", "read,nothing", "hello")
    assert done.returncode == 2
    assert b"There is no tool 'nothing'; the tools are read, bash" in done.stderr
    assert wire_server.requests == []
