"""cortext, from outside: conversations that are begun, paused and completed (COR-01 to COR-05, COR-15 to
COR-17, COR-20)."""

import hashlib
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from perdure.errors import NotSaved
from perdure.programs.cortext import summary
from perdure.session.session import Session
from tests import processes
from tests.agent.mcp_servers import OBJECT, raw
from tests.agent.models.wire_server import HANG, events, refuse, wire_server
from tests.front.one_prompt import endless, said
from tests.programs.started import SCRIPTS, prompts_of, system_of
from tests.programs.workspaces import BRAINSTORM, cortext

__all__ = ["cortext", "wire_server"]

pytestmark = pytest.mark.process

TITLE = "API Design Discussion"
START = ("start", "brainstorm", *TITLE.split())


# --- COR-20: a workspace ----------------------------------------------------------------------------------


def test_cor_20_init_writes_a_workspace_and_a_repository_and_twice_changes_nothing(cortext):
    """Registry, seven prompts, three memory files; what its user changed stays."""
    own = cortext.project / ".workspace"
    prompts = sorted(path.name for path in (own / "commands").iterdir())
    kinds = ["brainstorm", "debug", "learn", "meeting", "plan", "projectmanage", "review"]
    assert prompts == [f"workspace.{kind}.md" for kind in kinds]
    assert sorted(path.stem for path in (own / "memory").iterdir()) == [
        "constitution",
        "context",
        "decisions",
    ]
    registry = json.loads((own / "registry.json").read_text())
    assert registry["schema_version"] == "2.0"
    assert sorted(registry["conversation_types"]) == kinds
    assert (cortext.project / ".git" / "HEAD").exists()
    cortext.prompt_file("plan").write_text("Mine.")
    (own / "memory" / "context.md").unlink()
    before = {path: path.stat().st_mtime_ns for path in cortext.project.rglob("*")}
    done = cortext.within("init")
    assert (done.code, done.out) == (0, "~/work is a workspace already; nothing was changed.\n")
    assert {path: path.stat().st_mtime_ns for path in cortext.project.rglob("*")} == before
    assert (cortext.home / ".cortext" / "workspaces").read_text() == f"{cortext.project}\n"


def test_cor_20_an_interrupted_init_is_completed_and_one_inside_a_repository_makes_none(cortext):
    """The registry is the last file, and says that all is there."""
    own = cortext.project / ".workspace"
    (own / "registry.json").unlink()
    (own / "memory" / "decisions.md").unlink()
    cortext.prompt_file("plan").write_text("Mine.")
    done = cortext.within("init", "below")
    assert (done.code, "git repository" in done.out) == (0, False)
    assert not (cortext.project / "below" / ".git").exists()
    assert cortext.within("init").out.startswith("Made ~/work a workspace")
    assert (own / "memory" / "decisions.md").exists()
    assert cortext.prompt_file("plan").read_text() == "Mine."


def test_cor_20_without_a_workspace_its_user_is_told_how_to_make_one(cortext):
    """By each command that needs one."""
    cortext.project = cortext.home
    for words in (["list"], ["start", "plan", "x"], ["resume"], ["resume", "--list"], []):
        done = cortext.within(*words)
        assert (done.code, done.out) == (3, "")
        assert "`cortext init` makes one" in done.err


def test_cor_20_a_type_of_the_users_own_is_a_prompt_that_they_wrote(cortext, wire_server):
    """It can be started, typed and listed like any other; one that is not there names those that are."""
    cortext.prompt_file("retro").write_text("You hold a retrospective.")
    cortext.answers(wire_server, "What went well?")
    done = cortext.within("start", "retro", "Sprint", "12", stdin="/help\nLet us begin.\n")
    assert done.code == 0
    assert "/workspace.retro TITLE" in done.out
    assert system_of(wire_server, 0).startswith("You hold a retrospective.\n")
    assert cortext.ref.id.endswith("/001-retro-sprint-12")
    assert cortext.folder().joinpath("retro.md").read_text().startswith("# Sprint 12\n")
    refused = cortext.within("start", "retrospective", "x")
    assert (refused.code, refused.out) == (2, "")
    assert "There is no type of conversation 'retrospective'; there are brainstorm, debug" in refused.err
    assert len(cortext.refs) == 1


@pytest.mark.parametrize(
    "kind", ["../plan", "resume", "stop-conversation", "Plan", ".", "a b", "", "plan/../x"]
)
def test_cor_20_what_could_be_a_path_or_a_command_is_no_type(cortext, kind):
    """And nothing is made."""
    done = cortext.within("start", kind, "x")
    assert done.code == 2
    assert cortext.refs == []


def test_cor_20_sixteen_that_start_at_once_get_sixteen_numbers(cortext, wire_server):
    """And sixteen commits, of which none lost another's."""
    cortext.answers(wire_server, "Yes.")

    def one(number: int) -> int:
        return cortext("start", "plan", f"Topic {number}", stdin="Well?\n").returncode

    with ThreadPoolExecutor(16) as threads:
        assert {*threads.map(one, range(16))} == {0}
    names = [ref.id.partition("/")[2] for ref in cortext.refs]
    assert [int(name[:3]) for name in names] == [*range(1, 17)]
    assert len({name.rpartition("-")[2] for name in names}) == 16
    assert len(cortext.subjects) == 16
    assert cortext.is_committed()
    processes.run(["git", "fsck", "--strict"], cwd=cortext.project, check=True, capture_output=True)


# --- COR-01 to COR-03: what is saved ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "status"),
    [
        ("/workspace.stop-conversation\n", "paused"),
        ("/workspace.complete\n", "completed"),
        ("/exit\n", "paused"),
        ("", "paused"),
    ],
    ids=["stop", "complete", "exit", "end of input"],
)
def test_cor_01_however_a_conversation_ends_its_state_is_saved(cortext, wire_server, last, status):
    """In session.json, in the messages, in the transcript, and in a commit of all three."""
    cortext.answers(wire_server, "REST, I think.")
    done = cortext.within(*START, stdin=f"REST or GraphQL?\n{last}")
    assert done.code == 0
    state = cortext.state()
    assert (state["status"], state["title"], state["conversation_type"]) == (status, TITLE, "brainstorm")
    assert state["conversation_id"] == "001-brainstorm-api-design-discussion"
    files = {
        str(path.relative_to(cortext.folder())) for path in cortext.folder().rglob("*") if path.is_file()
    }
    assert files == {"brainstorm.md", ".session/session.json", ".session/messages.jsonl"}
    shown = cortext.transcript()
    assert shown.startswith(f"# {TITLE}\n")
    assert shown.count("REST or GraphQL?") == shown.count("REST, I think.") == 1
    assert cortext.subjects == [f"[session] {'Complete' if status == 'completed' else 'Pause'}: {TITLE}"]
    assert cortext.is_committed()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_cor_01_a_signal_pauses_and_saves_and_the_next_pause_commits_it(cortext, wire_server, number):
    """Ctrl+C twice, an end, a terminal that went away: nothing is committed then."""
    cortext.answers(wire_server, "REST, I think.")
    with cortext.piped(*START) as talk:
        talk.say("REST or GraphQL?")
        talk.until(lambda: talk.out.endswith("REST, I think.\nbrainstorm> "))
        if number == signal.SIGINT:
            assert talk.leave_by_ctrl_c() == 130
        else:
            talk.process.send_signal(number)
            assert talk.wait() == 128 + number
    assert cortext.state()["status"] == "paused"
    assert cortext.subjects == []
    cortext.within("resume", "api")
    assert cortext.subjects == [f"[session] Pause: {TITLE}"]
    assert cortext.is_committed()


def test_cor_01_a_conversation_in_which_nothing_was_said_leaves_nothing(cortext, wire_server):
    """No folder, no commit, no line that says how to resume it; its number is free again."""
    cortext.answers(wire_server, "Yes.")
    done = cortext.within(*START, stdin="")
    assert (done.code, "Resume:" in done.out) == (0, False)
    assert (cortext.refs, cortext.subjects) == ([], [])
    done = cortext.within(*START, stdin="/workspace.stop-conversation\n")
    assert "there is nothing to save" in done.out
    cortext.within(*START, stdin="Well?\n")
    assert cortext.ref.id.endswith("/001-brainstorm-api-design-discussion")


def test_cor_02_who_answers_is_recorded_command_prompt_model_and_all_tools(cortext, wire_server):
    """As soon as something is said, and not before it is known."""
    cortext.answers(wire_server, "Yes.")
    cortext.within(*START, stdin="Well?\n")
    config = cortext.state()["agent_config"]
    assert config["command"] == "/workspace.brainstorm"
    assert config["model"] == "custom/test"
    assert config["tools"] == ["bash", "edit", "find", "grep", "ls", "read", "write"]
    digest = processes.run(
        ["sha256sum", cortext.prompt_file("brainstorm")], capture_output=True, text=True, check=True
    ).stdout.split()[0]
    assert config["system_prompt_hash"] == f"sha256:{digest}"


def test_cor_02_tools_of_mcp_servers_are_among_them(cortext, wire_server):
    """They come a moment later than the others, and are recorded all the same."""
    tools = json.dumps([{"name": "search", "inputSchema": OBJECT}])
    cortext.answers(wire_server, "Yes.", mcpServers={"files": raw("tools", tools)})
    cortext.within(*START, stdin="Well?\n")
    assert "files_search" in cortext.state()["agent_config"]["tools"]


def test_cor_03_each_message_is_on_disk_before_the_next_step(cortext, wire_server):
    """The prompt when the model is asked; role, content and timestamp in every line."""
    seen = []

    def look():
        seen.append([line["content"] for line in cortext.lines() if line["role"] == "user"])
        return events(said("Yes."))()

    cortext.answers(wire_server, look)
    cortext.within(*START, stdin="One?\nTwo?\n")
    assert seen[:2] == [["One?"], ["One?", "Two?"]]
    assert all({"role", "content", "timestamp"} <= line.keys() for line in cortext.lines())


def test_cor_20_memory_is_part_of_every_prompt_as_it_is_now(cortext, wire_server):
    """Also of the next prompt of a conversation that is open, when a file changed meanwhile."""
    memory = cortext.project / ".workspace" / "memory"
    (memory / "constitution.md").write_text("Be kind.")
    cortext.answers(wire_server, "Yes.")
    with cortext.piped(*START) as talk:
        talk.say("One?")
        talk.until("Yes.")
        (memory / "decisions.md").write_text("We chose REST.")
        (memory / "context.md").unlink()
        talk.say("Two?")
        assert talk.leave() == 0
    first, second = system_of(wire_server, 0), system_of(wire_server, 1)
    assert first.startswith(BRAINSTORM.strip())
    assert "<constitution>\nBe kind.\n</constitution>" in first
    assert "<context>" in first
    assert "<decisions>\nWe chose REST.\n</decisions>" in second
    assert "<context>" not in second


def test_cor_20_a_link_out_of_the_workspace_is_not_sent_to_a_model(cortext, wire_server):
    """A prompt or a memory file that is one is refused, or left out with a word."""
    secret = cortext.home / "secret.md"
    secret.write_text("the key is 12345")
    cortext.answers(wire_server, "Yes.")
    path = cortext.project / ".workspace" / "memory" / "context.md"
    path.unlink()
    path.symlink_to(secret)
    done = cortext.within(*START, stdin="Well?\n")
    assert done.code == 0
    assert "context.md" in done.err
    assert all("12345" not in json.dumps(request.body) for request in wire_server.requests)
    cortext.prompt_file("plan").unlink()
    cortext.prompt_file("plan").symlink_to(secret)
    done = cortext.within("start", "plan", "x", stdin="Well?\n")
    assert done.code == 1
    assert "workspace.plan.md" in done.err


# --- COR-04, COR-05: stop ---------------------------------------------------------------------------------


def test_cor_04_stop_saves_confirms_and_goes_back_to_the_shell(cortext, wire_server):
    """It says how to go on; what is typed next is no message of anybody's, and the exit code says so."""
    cortext.answers(wire_server, "REST, I think.", "Leaning toward REST.")
    done = cortext.within(*START, stdin="REST or GraphQL?\n/workspace.stop-conversation\nStill there?\n")
    assert done.code == 1
    assert f"Resume: cortext resume {cortext.ref.id}\ncortext> " in done.out
    assert "brainstorm> \nSession saved.\n" in done.out
    assert done.out.endswith("cortext> \ncortext> \n")
    assert "No conversation is open; /workspace.brainstorm TITLE begins one" in done.err
    assert len(wire_server.requests) == 2
    assert cortext.state()["status"] == "paused"


def test_cor_05_the_confirmation_names_title_resume_and_where_it_stopped(cortext, wire_server):
    """In the words of the model, which are kept with the conversation and are in the commit."""
    cortext.answers(wire_server, "REST, I think.", "Exploring REST and GraphQL,\nleaning toward REST.")
    done = cortext.within(*START, stdin="REST or GraphQL?\n/workspace.stop-conversation\n")
    expected = f"""\
Session saved.

Conversation "{TITLE}" has been paused.
You can continue later with /workspace.resume

Summary: Exploring REST and GraphQL, leaning toward REST.
"""
    assert expected in done.out
    assert cortext.state()["context_summary"] == "Exploring REST and GraphQL, leaning toward REST."
    assert cortext.is_committed()


@pytest.mark.parametrize("how", ["slow", "failing"])
def test_cor_05_a_model_that_cannot_sum_up_in_time_delays_nothing(cortext, wire_server, monkeypatch, how):
    """What was said last is the summary then; the pause was on disk before anybody was asked for one."""
    monkeypatch.setattr(summary, "WITHIN", 0.2)
    found = []

    def look():
        found.append(cortext.state()["status"])
        return (events(HANG) if how == "slow" else refuse(400, b'{"error":{"message":"no"}}'))()

    cortext.answers(wire_server, "REST, I think.", look)
    done = cortext.within(*START, stdin="REST or GraphQL?\n/workspace.stop-conversation\n")
    assert done.code == 0
    assert found[:1] == ["paused"]
    assert "Summary: The last question was: REST or GraphQL? The answer: REST, I think.\n" in done.out
    assert cortext.subjects == [f"[session] Pause: {TITLE}"]


# --- COR-15 to COR-17: statuses ---------------------------------------------------------------------------


def test_cor_15_another_conversation_pauses_the_open_one_first(cortext, wire_server):
    """By beginning one and by resuming one; each is saved and committed before."""
    cortext.answers(wire_server, "Yes.")
    before = cortext.talked("Token expiry", "Why?", "A race.", kind="debug")
    stdin = "One?\n/workspace.plan Ship it\nTwo?\n/workspace.resume token\nThree?\n"
    done = cortext.within(*START, stdin=stdin)
    assert done.code == 0, done.err
    statuses = {ref.id.partition("/")[2]: cortext.state(ref)["status"] for ref in cortext.refs}
    assert {*statuses.values()} == {"paused"}
    assert len(statuses) == 3
    assert 'Paused "API Design Discussion".' in done.err
    assert cortext.lines(before)[-1]["content"].startswith("Recorded: perdure.summary")
    assert [subject.partition(":")[0] for subject in cortext.subjects] == ["[session] Pause"] * 3
    assert cortext.is_committed()


def test_cor_15_an_active_conversation_of_a_dead_process_is_paused_first(cortext, wire_server):
    """Killed with -9 it is listed as paused, and its next owner records that before it goes on."""
    cortext.answers(wire_server, "Yes.")
    with cortext.piped(*START) as talk:
        talk.say("Well?")
        talk.until(lambda: talk.out.endswith("Yes.\nbrainstorm> "))
        assert " active " in cortext.within("list").out
        talk.process.kill()
        talk.wait()
    assert cortext.state()["status"] == "active"
    assert " paused " in cortext.within("list").out
    cortext.within("resume", "api", stdin="More?\n")
    statuses = [line["content"] for line in cortext.lines() if line["content"].startswith("Status:")]
    assert statuses == ["Status: paused", "Status: active", "Status: paused"]


def test_cor_15_of_sixteen_that_resume_one_conversation_one_talks_in_it(cortext, wire_server):
    """The others are told which process holds it, and exit with 4; what is said is there once."""
    ref = cortext.talked("Token expiry", "Why?", "A race.", kind="debug")
    cortext.answers(wire_server, "Yes.")
    with cortext.piped("resume", "token") as talk:
        talk.until("debug> ")

        def one(number: int) -> tuple[int, str]:
            done = cortext("resume", "token", stdin=f"me too {number}\n")
            return done.returncode, done.stderr.decode()

        with ThreadPoolExecutor(15) as threads:
            refused = [*threads.map(one, range(15))]
        assert {code for code, _ in refused} == {4}
        assert all(f"held by process {talk.process.pid}" in said for _, said in refused)
        talk.say("Mine.")
        assert talk.leave() == 0
    assert [line["content"] for line in cortext.lines(ref) if line["role"] == "user"] == ["Why?", "Mine."]


def test_cor_16_a_conversation_left_alone_is_paused_and_the_next_message_goes_on(cortext, wire_server):
    """Saved, not committed; its user is told, and it is active again as soon as they say something."""
    cortext.set(inactivity_seconds=0.3)
    cortext.answers(wire_server, "Yes.")
    with cortext.piped(*START) as talk:
        talk.say("One?")
        talk.until(lambda: "is saved and paused" in talk.err)
        assert cortext.state()["status"] == "paused"
        assert cortext.subjects == []
        talk.say("Two?")
        assert talk.leave() == 0
    statuses = [line["content"] for line in cortext.lines() if line["content"].startswith("Status:")]
    assert statuses[:2] == ["Status: paused", "Status: active"]


def test_cor_16_never_while_a_turn_runs_and_the_environment_counts_most(cortext, wire_server, monkeypatch):
    """However long the model takes."""
    monkeypatch.setenv("CORTEXT_INACTIVITY_SECONDS", "0.2")
    cortext.answers(wire_server, events(HANG))
    with cortext.piped(*START) as talk:
        talk.say("One?")
        talk.until(lambda: wire_server.requests)
        with pytest.raises(AssertionError, match="not within"):
            talk.until(lambda: "is saved and paused" in talk.err, 1.5)
        assert cortext.state()["status"] == "active"
    monkeypatch.setenv("CORTEXT_INACTIVITY_SECONDS", "soon")
    done = cortext.within(*START)
    assert (done.code, done.out) == (2, "")
    assert "CORTEXT_INACTIVITY_SECONDS is no number of seconds: 'soon'" in done.err


@pytest.mark.parametrize(
    ("answer", "status"), [("y\n", "paused"), ("n\n", "completed"), ("\n", "completed"), ("", "completed")]
)
def test_cor_17_a_completed_conversation_is_reopened_only_by_who_wants_it(
    cortext, wire_server, answer, status
):
    """They are warned and asked; whatever is no yes leaves it as it was, byte for byte."""
    ref = cortext.talked("Old", "Well?", "Done.", status="completed")
    before = cortext.lines(ref)
    cortext.answers(wire_server, "We were done.")
    done = cortext.within("resume", "old", stdin=answer)
    assert done.code == 0
    assert '"Old" was marked complete.' in done.err
    assert "Reopen it? [y/N]" in done.err
    assert cortext.state(ref)["status"] == status
    assert (cortext.lines(ref) == before) == (status == "completed")


def test_cor_17_force_reopens_it_without_a_question(cortext, wire_server):
    """And it is active while it is talked in."""
    ref = cortext.talked("Old", "Well?", "Done.", status="completed")
    cortext.answers(wire_server, "We were done.")
    done = cortext.within("resume", "old", "--force", stdin="Go on.\n")
    assert (done.code, "Reopen" in done.err) == (0, False)
    assert [line["content"] for line in cortext.lines(ref) if line["content"].startswith("Status:")] == [
        "Status: completed",
        "Status: active",
        "Status: paused",
    ]


# --- the shell --------------------------------------------------------------------------------------------


def test_cor_20_the_shell_without_a_conversation_begins_resumes_and_leaves(cortext, wire_server):
    """What is said to nobody is told, and makes nothing; wrong commands are named."""
    cortext.answers(wire_server, "Yes.")
    done = cortext.within(stdin="hello\n/help\n/workspace.stop-conversation\n/nope\n/workspace.plan\n/quit\n")
    assert done.code == 1  # "hello" was for somebody
    assert "~/work" in done.out
    assert "\n/workspace.plan TITLE " in done.out
    for told in ("No conversation is open", "There is no command /nope", "A conversation needs a title"):
        assert told in done.err
    assert cortext.refs == []
    done = cortext.within(stdin="/workspace.plan Ship it\nHow?\n")
    assert done.code == 0
    assert done.out.endswith(f"Resume: cortext resume {cortext.ref.id}\n")
    assert prompts_of(wire_server, 0) == [("user", "How?")]


def test_cor_20_wrong_flags_are_usage_errors_and_help_names_every_command(cortext):
    """And change nothing."""
    for words in (
        ["--nope"],
        ["resume", "--status", "old"],
        ["start"],
        ["start", "plan"],
        ["nope"],
        ["resume", "x", "--json"],
    ):
        assert cortext.within(*words).code == 2, words
    shown = cortext.within("--help").out
    for name in ("init", "start", "resume", "list"):
        assert f"\n  {name} " in shown
        assert cortext.within(name, "--help").code == 0
    version = processes.run([SCRIPTS / "cortext", "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("cortext ")


def test_cor_15_a_conversation_that_is_held_elsewhere_leaves_the_open_one_as_it_is(cortext, wire_server):
    """Its user is told by whom, and goes on where they are."""
    cortext.answers(wire_server, "Yes.")
    ref = cortext.talked("Token expiry", "Why?", "A race.", kind="debug")
    with Session.open(cortext.store, ref):
        done = cortext.within(*START, stdin="One?\n/workspace.resume token\nTwo?\n")
    assert f"held by process {os.getpid()}; pause it there first" in done.err
    mine = next(each for each in cortext.refs if each.id != ref.id)
    assert [line["content"] for line in cortext.lines(mine) if line["role"] == "user"] == ["One?", "Two?"]


def test_cor_15_a_model_that_cannot_be_had_leaves_a_resumed_conversation_paused(cortext):
    """Nothing is said in it, and nobody is in it."""
    ref = cortext.talked("Token expiry", "Why?", "A race.", kind="debug")
    done = cortext.within("resume", "token", "-m", "nope/nope", stdin="More?\n")
    assert done.code == 1
    assert "nope" in done.err
    assert cortext.state(ref)["status"] == "paused"
    assert "More?" not in cortext.transcript(ref)


def test_cor_05_ctrl_c_while_it_is_summed_up_only_costs_the_summary(cortext, wire_server):
    """What was said last is the summary then, and the conversation is committed."""
    cortext.answers(wire_server, "REST, I think.", events(HANG))
    with cortext.piped(*START) as talk:
        talk.say("REST or GraphQL?", "/workspace.stop-conversation")
        talk.until(lambda: len(wire_server.requests) == 2)
        talk.process.send_signal(signal.SIGINT)
        talk.until("Summary: The last question was: REST or GraphQL?")
        assert talk.leave() == 0
    assert cortext.state()["status"] == "paused"
    assert cortext.subjects == [f"[session] Pause: {TITLE}"]


def test_cor_05_a_summary_without_end_is_its_beginning(cortext, wire_server):
    """It took all that came in ten seconds into memory."""
    cortext.answers(wire_server, "REST, I think.", endless(content="We lean to REST. " * 1000))
    done = cortext.within(*START, stdin="REST or GraphQL?\n/workspace.stop-conversation\n")
    assert done.code == 0
    assert "Summary: We lean to REST. " in done.out
    assert max(map(len, done.out.splitlines())) < 400


def test_cor_05_no_model_is_asked_for_a_summary_when_the_dollars_are_spent(cortext, wire_server):
    """And what one costs is counted."""
    cortext.answers(wire_server, "REST, I think.")
    settings = cortext.home / ".pi" / "agent" / "settings.json"
    written = json.loads(settings.read_text())
    written["models"][0]["cost"] = {"input": 100_000, "output": 0}  # a dollar an answer
    settings.write_text(json.dumps(written))
    words = "REST or GraphQL?\n/workspace.stop-conversation\n"
    done = cortext.within(*START, "--max-cost", "0.50", stdin=words)
    assert "Summary: The last question was: REST or GraphQL?" in done.out
    assert len(wire_server.requests) == 1


def test_cor_20_a_model_that_cannot_be_had_does_not_end_the_shell(cortext, monkeypatch):
    """It is told, no conversation is begun, and what is typed next is dealt with."""
    monkeypatch.setenv("PERDURE_MODEL", "nope/nope")
    done = cortext.within(stdin="/workspace.plan Ship it\n/workspace.resume\n")
    assert done.code == 0
    assert "nope" in done.err
    assert "No conversations to resume" in done.out
    assert cortext.refs == []


@pytest.mark.parametrize("change", ["edited", "removed"])
def test_cor_02_cor_10_an_open_conversation_goes_on_with_the_prompt_it_has(cortext, wire_server, change):
    """Its hash is that of what the agent was told; the next resume says what changed, or what is missing."""
    path = cortext.prompt_file("brainstorm")
    before = path.read_text()
    told = f"sha256:{hashlib.sha256(before.encode()).hexdigest()}"

    def meanwhile():
        path.unlink() if change == "removed" else path.write_text("Only ask.")
        return events(said("Yes."))()

    cortext.answers(wire_server, meanwhile, "And yes.")
    done = cortext.within(*START, stdin="One?\nTwo?\n")
    assert (done.code, "And yes." in done.out) == (0, True)
    assert system_of(wire_server, 1).startswith(before.strip())
    assert cortext.state()["agent_config"]["system_prompt_hash"] == told
    again = cortext.within("resume", "api")
    assert ("instructions" in again.err, again.code) == ((True, 0) if change == "edited" else (False, 2))


def test_cor_01_a_message_that_was_refused_is_an_exit_code_also_after_a_stop(
    cortext, wire_server, monkeypatch
):
    """Whatever was saved since."""
    cortext.answers(wire_server, "Yes.")
    append = Session.append

    def refused(session, *bodies):
        if any("lost" in repr(body) for body in bodies):
            raise NotSaved(session.ref.path, OSError(28, "No space left on device"))
        return append(session, *bodies)

    monkeypatch.setattr(Session, "append", refused)
    done = cortext.within(*START, stdin="One?\nthis is lost\n/workspace.stop-conversation\n")
    assert done.code == 1
    assert "No space left" in done.err
    assert cortext.state()["status"] == "paused"


@pytest.mark.parametrize("text", ["<div> does not render", "still there?"])
def test_cor_05_the_summary_is_of_what_its_user_said_whatever_that_looks_like(cortext, wire_server, text):
    """Also where no answer came to it."""
    cortext.answers(wire_server, refuse(400, b'{"error":{"message":"no"}}'))
    done = cortext.within(*START, stdin=f"{text}\n/workspace.stop-conversation\n")
    assert f"Summary: The last question was: {text}\n" in done.out
    assert "## Assistant\n\n*(no answer)*\n" in cortext.transcript()
