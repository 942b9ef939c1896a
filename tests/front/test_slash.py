"""The commands of the shell, typed into it through pipes: several in one conversation, as somebody would."""

import itertools
import json
import os
import re
import shlex
from pathlib import Path

import pytest

from perdure.errors import UsageError
from perdure.front.slash import COMMANDS, format_and_file
from perdure.session.session import Session
from perdure.session.stores import open_store
from perdure.testing import assistant_entry, user_entry
from tests.agent.models.wire_server import events, wire_server
from tests.front.one_prompt import called, pi, said
from tests.front.picked import talk
from tests.front.piped import Piped

__all__ = ["pi", "wire_server"]

pytestmark = pytest.mark.process


def answered(text: str, **usage):
    return assistant_entry(text, provider="custom", model="test", **usage)


def session_files(pi) -> dict[str, bytes]:
    found = (pi.home / ".pi" / "agent" / "sessions").rglob("*.jsonl")
    return {path.name.rpartition("_")[2].removesuffix(".jsonl"): path.read_bytes() for path in found}


def facts(out: str) -> list[dict[str, str]]:
    """What each /session said."""
    found: list[dict[str, str]] = []
    for name, fact in re.findall(r"^(Session|Name|File|Size|Messages|Tokens|Cost|Model) +(.*)$", out, re.M):
        if name == "Session":
            found.append({})
        found[-1][name] = fact
    return found


def told(done) -> list[str]:
    assert done.returncode == 0, done
    assert b"Traceback" not in done.stderr
    return done.stderr.decode().splitlines()


# --- which session ------------------------------------------------------------------------------------


def test_session_says_what_is_in_the_file_and_name_names_it(pi, wire_server):
    """Id, file, size, tokens, cost: of this session, however often it is asked."""
    wire_server.script(events(said("one")), events(said("two")))
    model = {
        "id": "test",
        "base_url": f"{wire_server.url}/v1",
        "context_window": 8000,
        "cost": {"input": 1000.0, "output": 2000.0, "cacheRead": 0, "cacheWrite": 0},
    }
    pi.use(wire_server, models=[model])
    with Piped(cwd=pi.project) as shell:
        shell.say(
            "/session", "/name first name", "hello", "/session", "/name second name", "more", "/session"
        )
        shell.until(lambda: len(facts(shell.out)) == 3 and shell.out.endswith("> "))
        (data,) = session_files(pi).values()
        (id,) = session_files(pi)
        assert shell.leave() == 0
    before, first, second = facts(shell.out)
    assert (before["Messages"], first["Messages"], second["Messages"]) == (
        "0",
        "2",
        "4",
    )
    assert "Tokens" not in before
    assert (first["Tokens"], second["Tokens"]) == ("12", "24")
    assert (first["Cost"], second["Cost"]) == ("$0.0140", "$0.0280")  # 10 in and 2 out, twice
    assert {each["Session"] for each in (before, first, second)} == {id}
    assert (first["Name"], second["Name"]) == ("first name", "second name")
    path = Path(os.path.expanduser(second["File"]))
    assert path.read_bytes() == data
    assert second["Size"] == f"{len(data) / 1000:.1f} kB"
    assert second["Model"] == "custom/test"
    assert pi.sessions.list_sessions()[0].title == "second name"


def test_new_begins_another_with_the_same_model_and_the_one_before_can_be_gone_back_to(pi, wire_server):
    wire_server.script(*(events(said(text)) for text in ("one", "two", "three")))
    address = f"{wire_server.url}/v1"
    pi.use(wire_server, models=[{"id": id, "base_url": address} for id in ("test", "other")])
    done = pi(stdin="/model other\nthe zebra\n/new\nthe giraffe\n/resume zebra\nagain\n")
    assert any("2" in line for line in told(done))
    kept = {
        summary.title: [entry.text for entry in pi.sessions.load_session(summary.id)]
        for summary in pi.sessions.list_sessions()
    }
    assert kept == {
        "the zebra": ["the zebra", "one", "again", "three"],
        "the giraffe": ["the giraffe", "two"],
    }
    assert [request.body["model"] for request in wire_server.requests] == ["other"] * 3


def test_fork_goes_on_in_a_copy_and_the_original_stays_as_it_is(pi, wire_server):
    """From its end, or from any entry that /tree shows, or the beginning of its id."""
    wire_server.script(events(said("in a fork")))
    pi.use(wire_server)
    ref = talk(pi.project, "one", answered("two"), "three", answered("four"), id="aaaa11111111")
    store = open_store("pi", cwd=str(pi.project))
    entries = Session.view(store, ref).entries
    before = session_files(pi)
    done = pi(
        "--session",
        "aaaa",
        stdin=f"/tree\n/fork\n/session\nmore\n/resume aaaa\n/fork {entries[1].id[:10]}\nless\n/tree\n",
    )
    told(done)
    out = done.stdout.decode()
    assert all(entry.id in out for entry in entries)
    assert facts(out)[0]["Session"] != "aaaa11111111"
    after = session_files(pi)
    assert after["aaaa11111111"] == before["aaaa11111111"]
    said_in = sorted(
        [entry.text for entry in pi.sessions.load_session(id)] for id in after if id != "aaaa11111111"
    )
    assert said_in == [
        ["one", "two", "less", "in a fork"],
        ["one", "two", "three", "four", "more", "in a fork"],
    ]
    sent = [message["content"] for message in wire_server.requests[1].body["messages"][1:]]
    assert sent == ["one", "two", "less"]


def test_tree_draws_every_branch_and_where_the_conversation_stands(pi, wire_server):
    pi.use(wire_server)
    ref = talk(pi.project, "fix it", answered("I look"), "use a regex", id="aaaa11111111")
    with Session.open(open_store("pi", cwd=str(pi.project)), ref) as session:
        session.move(session.path()[1].id)
        session.append(answered("after a while"))
        session.label(session.path()[0].id, "the start")
    done = pi("--session", "aaaa", stdin="/tree\n")
    assert told(done)[-1].startswith("Resumed: 3 messages")
    drawn = done.stdout.decode()
    assert "├─" in drawn
    assert "└─" in drawn
    for text in ("fix it", "I look", "use a regex", "after a while", "the start"):
        assert text in drawn
    (here,) = [line for line in drawn.splitlines() if "● here" in line]
    assert "after a while" in here


def test_resume_without_a_word_lists_what_there_is_through_pipes(pi, wire_server):
    pi.use(wire_server)
    talk(pi.project, "the zebra", answered("stripes"), id="aaaa11111111")
    done = pi(stdin="/resume\n/session\n")
    assert re.search(r"aaaa11111111 +the zebra", done.stdout.decode())
    (line,) = told(done)
    assert "/resume ID" in line


def test_no_command_keeps_what_is_to_be_kept_nowhere_and_each_works_or_says_why_not(pi, wire_server):
    """With --no-session, where there is no file to show, to copy or to go back to."""
    wire_server.script(events(said("an answer")))
    pi.use(wire_server)
    lines = "hello\n/session\n/name x\n/tree\n/export notes.md\n/new\nmore\n/resume\n/fork\nstill here\n"
    done = pi("--no-session", stdin=lines)
    out, err = done.stdout.decode(), done.stderr.decode()
    assert session_files(pi) == {}
    assert "Resume" not in out
    # back to what was left.
    assert "Traceback" not in err
    assert done.returncode == 0
    assert len(wire_server.requests) == 3
    assert re.search(r"user +hello", out)
    assert "an answer" in (pi.project / "notes.md").read_text()
    assert "goes back" not in err


def test_a_session_in_any_folder_is_shown_exported_and_forked_like_one_at_home(
    pi, wire_server, tmp_path_factory
):
    """By its path, which the last line gives as a shell takes it."""
    wire_server.script(events(said("an answer")))
    pi.use(wire_server)
    elsewhere = tmp_path_factory.mktemp("some where")
    store = open_store("pi", str(elsewhere), sessions_dir=str(elsewhere))
    with Session.create(store) as session:
        session.append(user_entry("the question"), answered("yes"))
    path = session.ref.path
    done = pi("--session", path, stdin="/tree\n/export notes.md\n/fork\nmore\n")
    lines = told(done)
    out = done.stdout.decode()
    *_, resume = out.splitlines()
    assert os.path.dirname(shlex.split(resume)[-1]) == str(elsewhere)
    assert sorted(len(Session.view(store, ref).entries) > 2 for ref in store.list()) == [False, True]
    assert session_files(pi) == {}
    assert [line for line in lines if "not found" in line] == []
    assert re.search(r"user +the question", out)
    assert "the question" in (pi.project / "notes.md").read_text()


# --- what is in it ------------------------------------------------------------------------------------


KEY = "AKIA" + "QYLPMN5HFIQR7XYA"  # in parts: what looks like one would be found here, too


def test_export_names_secrets_and_masks_them_if_it_is_told_to(pi, wire_server):
    """Through a pipe nobody is asked; a name made of the title has none in any case, and all are 0600."""
    wire_server.script(events(said("no idea")))
    pi.use(wire_server)
    lines = f"hello {KEY}\n/name about {KEY}\n/export plain.md\n/export --redact md masked.md\n"
    more = "/export html page.html --redact\n/export html --redact other.html\n/export --redact\n"
    done = pi(stdin=lines + more)
    assert done.returncode == 0, done.stderr
    written = {path.name: path for path in pi.project.iterdir() if path.is_file()}
    assert {*written} == {"plain.md", "masked.md", "page.html", "other.html", "about-AKIA-redacted.md"}
    assert [name for name, path in written.items() if KEY in path.read_text()] == ["plain.md"]
    assert "hello AKIA…[redacted]" in written["masked.md"].read_text()
    assert {oct(path.stat().st_mode & 0o777) for path in written.values()} == {"0o600"}
    err = done.stderr.decode()
    assert err.count("AWS access key (AKIA…)") == 2  # what was said, and the name
    assert "--redact" in err
    assert KEY not in err


@pytest.mark.parametrize("to", ["", "md ", "html "])
@pytest.mark.parametrize("name", ["talk.html", "./my talk.md", "'my --redact talk.md'", ""])
def test_redact_is_taken_wherever_a_word_may_stand(to: str, name: str) -> None:
    """As help shows it and in any other order: never as a part of a file's name."""
    words = f"{to}{name}".split(" ") if "'" not in name else [*to.split(), name]
    wanted = format_and_file(" ".join(words).strip())
    assert not wanted[2]
    places = [0, 1, len(words)] if to else [0, len(words)]
    for at, blanks in itertools.product(places, [" ", "  ", "\t"]):
        typed = blanks.join([" ".join(words[:at]), "--redact", " ".join(words[at:])]).strip()
        assert format_and_file(typed) == (*wanted[:2], True), typed


@pytest.mark.parametrize("typed", ["my --redact talk.md", "html my --redact talk.md", "--redcat talk.md"])
def test_what_looks_like_an_option_is_no_name_of_a_file(typed: str) -> None:
    """Whoever mistypes `--redact` gets nothing that is not masked."""
    with pytest.raises(UsageError):
        format_and_file(typed)


def test_export_writes_a_document_beside_what_is_there(pi, wire_server):
    """Under a name of its own that takes no other file's place; or where it is told to."""
    wire_server.script(events(said("the *answer*")))
    pi.use(wire_server)
    for name in ("folder", "two words"):
        (pi.project / name).mkdir()
    (pi.project / "a-talk.md").write_text("mine")
    (pi.project / "old.md").write_text("old")
    done = pi(
        stdin="""\
/export
/name a/talk: ../it
hello
/name a talk
/export
/export html
/export html
/export md two words/notes
/export page.html
/export old.md
/export folder
/export folder/
/export nowhere/x.md
/export page.html/x.md
/export ~/home.md
/name ../..
/export
"""
    )
    lines = told(done)
    files = {
        str(path.relative_to(pi.project)): path.read_text()
        for path in pi.project.rglob("*")
        if path.is_file()
    }
    assert files.pop("a-talk.md") == "mine"
    assert "the *answer*" not in files.pop("old.md")
    assert {*files} == {
        "a-talk-2.md",
        "a-talk.html",
        "a-talk-2.html",
        "two words/notes",
        "page.html",
        *(name for name in files if name.endswith("session.md")),
    }
    assert len(files) == 6
    assert all("<html" in text for name, text in files.items() if name.endswith(".html"))
    assert all("the *answer*" in text for name, text in files.items() if not name.endswith(".html"))
    assert "the *answer*" in (pi.home / "home.md").read_text()
    wrong = [line for line in lines if line.startswith("perdure:")]
    assert len(wrong) == 6
    for line, words in zip(
        wrong,
        (
            "nothing to export yet",
            "old.md is there already",
            "folder is a folder",
            "folder/ is a folder",
            "there is no folder",
            "page.html/x.md: Not a directory",
        ),
        strict=True,
    ):
        assert words in line
    assert sum(line.startswith("Wrote ") for line in lines) == 7


def test_export_never_writes_over_a_session(pi, wire_server):
    wire_server.script(events(said("ok")))
    pi.use(wire_server)
    ref = talk(pi.project, "hello", answered("yes"), id="aaaa11111111")
    before = session_files(pi)
    done = pi("--session", "aaaa", stdin=f"/export {ref.path}\n/export md {ref.path}\n")
    assert sum("keeps its sessions" in line for line in told(done)) == 2
    assert session_files(pi) == before


def test_expand_shows_all_that_a_tool_printed_and_those_before_it(pi, wire_server):
    """What was folded, whole, and with nothing in it that a terminal would obey."""
    calls = called(
        ("a", "bash", {"command": "seq 300"}),
        ("b", "bash", {"command": r"printf 'e\033[31md\n'; exit 3"}),
    )
    wire_server.script(events(calls), events(said("done")))
    pi.use(wire_server)
    done = pi(stdin="/expand\ngo\n/expand\n/expand 2\n/expand 3\n/expand 0\n/expand two\n")
    nothing, beyond, zero, word = told(done)
    assert "no tool was called yet" in nothing
    assert "only the last 2 tools" in beyond
    assert "takes a number" in zero
    assert "takes a number" in word
    folded, _, expanded = done.stdout.decode().partition("\ndone\n")
    assert "seq 300" in folded
    assert "300 lines" in folded
    assert "\n    299\n" not in folded
    assert "failed" in folded
    assert "\x1b" not in done.stdout.decode()
    assert re.findall(r"^  (\d+)$", expanded, re.M) == [str(number) for number in range(1, 301)]


def test_search_finds_what_was_said_here_and_elsewhere(pi, wire_server, tmp_path_factory):
    wire_server.script(events(said("an okapi, perhaps")))
    pi.use(wire_server)
    talk(tmp_path_factory.mktemp("other"), "the okapi elsewhere", answered("yes"), id="eeee11111111")
    done = pi(stdin='is it a zebra?\n/search okapi\n/search "an okapi"\n/search giraffe\n/search "odd\n')
    told(done)
    first, second, *_ = re.split(r"^> $", done.stdout.decode(), flags=re.M)[2:]
    assert "eeee11111111" in first
    assert "perhaps" in first
    assert "eeee11111111" not in second
    assert "perhaps" in second
    assert "Nothing found" in done.stderr.decode()


def test_compact_condenses_now_and_hears_what_matters(pi, wire_server):
    """The file keeps all of it; the next message is sent with the summary in place of the beginning."""
    wire_server.script(
        events(said("short")),
        events(said("short, too")),
        events(said("## Goal\nthe summary")),
        events(said("and on")),
    )
    model = {"id": "test", "base_url": f"{wire_server.url}/v1", "context_window": 100_000}
    pi.use(wire_server, models=[model], compaction={"keep_recent_tokens": 1000})
    done = pi(stdin=f"/compact\n{'hello ' * 3000}\n{'more ' * 3000}\n/compact mind the zebra\nthen\n")
    (early,) = [line for line in told(done) if line.startswith("perdure:")]
    assert "nothing to condense" in early
    assert "Condensed: it was about" in done.stdout.decode()
    summarised, after = (request.raw.decode() for request in wire_server.requests[2:])
    assert "mind the zebra" in summarised
    assert "the summary" in after
    assert "hello hello" not in after
    assert [role for role, _ in pi.messages()] == ["user", "assistant"] * 3
    again = pi("-c", stdin="")
    assert any(line.startswith("Resumed: a summary") for line in told(again))


# --- the model ----------------------------------------------------------------------------------------


def test_model_changes_who_answers_and_says_who_does(pi, wire_server):
    """A name that is nobody's names the nearest, and who answered before goes on."""
    wire_server.script(events(said("ok")))
    address = f"{wire_server.url}/v1"
    pi.use(
        wire_server, models=[{"id": id, "base_url": address, "reasoning": True} for id in ("test", "other")]
    )
    done = pi(
        stdin="/model\n/model othr\nhello\n/model custom/other\nmore\n/model test:high\nagain\n/model\n"
    )
    lines = told(done)
    assert "nearest: custom/other" in lines[1]
    assert "custom/other answers from now on" in lines[2]
    out = done.stdout.decode()
    assert out.count("\ncustom/test\n") + out.count("\ncustom/test:high\n") == 2
    asked = [
        (request.body["model"], request.body.get("reasoning_effort")) for request in wire_server.requests
    ]
    assert [model for model, _ in asked] == ["test", "other", "test"]
    assert asked[-1][1] == "high"
    done = pi("-c", stdin="and now\n")
    assert wire_server.requests[-1].body["model"] == "test"


# --- the shell ----------------------------------------------------------------------------------------

WORDS = """
def register(api):
    async def clock(arguments, ctx):
        print("printed aside")
        ctx.show("it is late")

    def both(arguments, ctx):
        ctx.show("looking")
        return f"say {arguments}"

    def fails(arguments, ctx):
        raise RuntimeError("no luck")

    def quit(arguments, ctx):
        ctx.show("not the shell's own")

    api.command("clock", clock, "the time, for nobody but you")
    api.command("both", both)
    api.command("fails", fails)
    api.command("quit", quit, "theirs")
"""


def test_commands_of_extensions_templates_and_skills_are_typed_like_the_shells_own(pi, wire_server):
    """And are listed with them. The shell's own come first; a path is no command."""
    wire_server.script(events(said("yes")))
    pi.use(wire_server)
    own = pi.home / ".pi" / "agent"
    for name, text in {
        "extensions/words.py": WORDS,
        "prompts/review.md": "---\ndescription: look at it\n---\nReview it for ${1:-anything}.\n",
        "skills/release/SKILL.md": "---\nname: release\ndescription: Cut it.\n---\nRead the list.\n",
    }.items():
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text(text)
    done = pi(
        stdin="""\
/clock
/help
/both of you
/review naming
/skill:release 1.2
/fails
/reveiw it
/etc/hosts is odd
/ alone
 /clock
/quit
never read
"""
    )
    lines = told(done)
    out = done.stdout.decode()
    assert out.count("it is late\n") == 2
    assert lines.count("printed aside") == 2
    assert "printed aside" not in out
    assert "looking\n" in out
    assert "not the shell's own" not in out
    assert any(
        "/fails failed: ~/.pi/agent/extensions/words.py:12: RuntimeError: no luck" in line for line in lines
    )
    assert any("no command /reveiw: did you mean /review?" in line for line in lines)
    listed = dict(re.findall(r"^/(\S+).*? {2,}(.+)$", out, re.M))
    assert {*COMMANDS, "clock", "review", "skill:release", "compact", "name"} <= {*listed}
    assert listed["clock"] == "the time, for nobody but you"
    assert listed["review"] == "look at it"
    assert listed["quit"] == COMMANDS["quit"].summary
    sent = [request.body["messages"][-1]["content"] for request in wire_server.requests]
    assert sent[:2] == ["say of you", "Review it for naming."]
    assert "Read the list." in sent[2]
    assert sent[3:] == ["/etc/hosts is odd", "/ alone"]
    assert [line for line in out.splitlines() if line != line.rstrip() and line != "> "] == []


def test_what_a_command_printed_is_sent_with_the_next_message_unless_it_is_marked_so(pi, wire_server):
    """With how it ended. All of them are kept, and none asks the model."""
    wire_server.script(events(said("I see")))
    pi.use(wire_server)
    hostile = r"printf 'e\033[31md\n'"
    typed = ["!echo for the model; exit 3", "!!echo for me alone", f"!{hostile}", "!kill -9 $$", "!  cat"]
    done = pi(stdin="\n".join([*typed, "! ", "!!", "well?", "so?"]))
    wrong = told(done)
    assert len(wrong) == 2
    assert all("no command behind the !" in line for line in wrong)
    out = done.stdout.decode()
    for shown in ("  for the model\n  (exit code 3)\n", "  for me alone\n", "  ("):
        assert shown in out
    assert "\x1b" not in out
    first, second = wire_server.requests
    content = first.body["messages"][-1]["content"]
    assert "echo for the model" in content
    assert "for the model\n" in content
    assert "3" in content
    assert content.endswith("well?")
    assert "for me alone" not in first.raw.decode() + second.raw.decode()
    assert second.raw.decode().count("echo for the model") == 1
    (summary,) = pi.sessions.list_sessions()
    ran = [
        entry.body.message for entry in pi.sessions.load_session(summary.id) if entry.role == "bashExecution"
    ]
    assert [each.command for each in ran] == [
        "echo for the model; exit 3",
        "echo for me alone",
        hostile,
        "kill -9 $$",
        "cat",
    ]
    assert [each.exit_code for each in ran] == [3, 0, 0, 137, 0]
    assert "for me alone" in ran[1].output


def test_much_output_of_a_command_is_bounded_on_the_screen_in_the_file_and_for_the_model(pi, wire_server):
    """Its end is kept, and all of it is in a file that is named."""
    wire_server.script(events(said("I see")))
    pi.use(
        wire_server, models=[{"id": "test", "base_url": f"{wire_server.url}/v1", "context_window": 200_000}]
    )
    done = pi(stdin="!seq 400000\nwell?\n")
    told(done)
    assert b"\n  400000\n" in done.stdout
    assert len(done.stdout) < 200_000
    content = wire_server.requests[0].body["messages"][-1]["content"]
    assert "400000" in content
    assert len(content) < 100_000
    (data,) = session_files(pi).values()
    assert len(data) < 200_000
    record = next(
        each for line in data.splitlines() if (each := json.loads(line)).get("message", {}).get("command")
    )
    path = record["message"]["fullOutputPath"]
    assert Path(path).read_text().startswith("1\n2\n")
    assert path in content
