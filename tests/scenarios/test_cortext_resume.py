"""cortext, from outside: finding a conversation again, and going on with it (COR-06 to COR-14)."""

import json
import re
from datetime import timedelta

import pytest

from perdure.front.completion import candidates
from perdure.programs.pi import main as pi
from tests.agent.models.wire_server import events, refuse, wire_server
from tests.front.one_prompt import said
from tests.front.shell_terminal import say, streamed, until_idle
from tests.programs.started import prompts_of, system_of
from tests.programs.workspaces import BRAINSTORM, cortext
from tests.scenarios.test_programs_terminal import gate

__all__ = ["cortext", "gate", "wire_server"]

pytestmark = pytest.mark.process

HOURS, DAYS = timedelta(hours=1), timedelta(days=1)
QUESTION = "Which conversation would you like to continue? (number or search) "


@pytest.fixture
def held(cortext, wire_server):
    """Three conversations: one of a month ago, one of yesterday, the last one of two hours ago. In this
    order: shortly after midnight the last two lie in one folder, which numbers them."""
    cortext.answers(wire_server, "We were at it.")
    return {
        "old": cortext.talked("Team retreat", "Where to?", "To the sea.", kind="plan", ago=30 * DAYS),
        "auth": cortext.talked(
            "Auth Token Expiry",
            "Why do tokens die?",
            "A race in the refresh.",
            kind="debug",
            ago=DAYS + HOURS,
        ),
        "api": cortext.talked(
            "API Design Discussion",
            *("REST or GraphQL?", "REST, for its simplicity."),
            ago=2 * HOURS,
            summary="Exploring REST vs GraphQL, leaning toward REST",
        ),
    }


# --- COR-06, COR-07, COR-11: the command ------------------------------------------------------------------


def test_cor_06_the_command_lists_what_can_be_resumed_the_last_active_first(cortext, held):
    """With number, type, title, when it was last active, status and summary; where none is stored, what was
    said last."""
    done = cortext.within(stdin="/workspace.resume\n")
    assert done.code == 0
    expected = f"""\
Here are your resumable conversations:

1. [brainstorm] API Design Discussion
   Last active: 2 h ago | Status: paused | {held["api"].id}
   Summary: Exploring REST vs GraphQL, leaning toward REST

2. [debug] Auth Token Expiry
   Last active: 1 d ago | Status: paused | {held["auth"].id}
   Summary: A race in the refresh.

3. [plan] Team retreat
   Last active: 1 mo ago | Status: paused | {held["old"].id}
   Summary: To the sea.

{QUESTION}"""
    assert expected in done.out


def test_cor_06_a_summary_that_is_older_than_what_was_said_is_not_shown(cortext, wire_server):
    """A process that was killed has left none for its last words."""
    cortext.answers(wire_server, "One.", "Summed up.", "We stopped there.", "Two.")
    cortext.within("start", "plan", "Ship", stdin="First?\n")
    assert "Summary: Summed up." in cortext.within(stdin="/workspace.resume\n").out
    with cortext.piped("resume", "ship") as talk:
        talk.until("We stopped there.")
        talk.say("Second?")
        talk.until("Two.")
        talk.process.kill()
        talk.wait()
    assert "Summary: Two." in cortext.within(stdin="/workspace.resume\n").out


@pytest.mark.parametrize("answer", ["2", "auth", "token expiry", "AUTH", "race refresh", "its id"])
def test_cor_07_one_is_selected_by_its_number_or_by_words(cortext, held, wire_server, answer):
    """Of its title, its summary, its id or what was said; and it goes on."""
    answer = (
        held["auth"].id.partition("/")[2].removesuffix("-auth-token-expiry") if answer == "its id" else answer
    )
    done = cortext.within(stdin=f"/workspace.resume\n{answer}\nGo on.\n")
    assert done.code == 0, done.err
    assert '[Resuming "Auth Token Expiry"]\nWe were at it.\ndebug> ' in done.out
    assert [line["content"] for line in cortext.lines(held["auth"]) if line["role"] == "user"][-1] == "Go on."


def test_cor_07_words_that_fit_several_list_these_and_ask_again(cortext, held):
    """A word that fits none is asked again; who says nothing has selected nothing."""
    cortext.talked("Auth for partners", "Who?", "All of them.")
    done = cortext.within(stdin="/workspace.resume\nretreat auth\nxyzzy\nauth\n2\n")
    assert done.code == 0
    assert done.out.count(QUESTION) == 4
    assert "Nothing here is called or says 'xyzzy'." in done.err
    assert "1. [brainstorm] Auth for partners\n" in done.out.split(QUESTION)[3]
    assert '[Resuming "Auth Token Expiry"]' in done.out
    done = cortext.within(stdin="/workspace.resume\n\n")
    assert (done.code, "Resuming" in done.out) == (0, False)


def test_cor_07_a_selection_may_stand_behind_the_command(cortext, held):
    """A number as the list has it, an id, words; what is unknown is said, and the shell goes on."""
    stdin = f"/workspace.resume 2\n/workspace.resume {held['old'].id}\n/workspace.resume nope nope\nHello?\n"
    done = cortext.within(stdin=stdin)
    assert done.code == 0, done.err
    assert [line for line in done.out.splitlines() if "[Resuming" in line] == [
        '[Resuming "Auth Token Expiry"]',
        '[Resuming "Team retreat"]',
    ]
    assert "Session not found: nope nope" in done.err
    assert "Hello?" in cortext.transcript(held["old"])


def test_cor_11_without_a_conversation_it_says_so_and_suggests_to_start_one(cortext):
    """In the shell, and from outside it."""
    done = cortext.within(stdin="/workspace.resume\n")
    assert (done.code, done.err) == (0, "")
    assert "No conversations to resume; `/workspace.TYPE TITLE` begins one.\n" in done.out
    for words in (["resume"], ["resume", "--list"], ["list"]):
        done = cortext.within(*words)
        assert (done.code, done.out) == (
            0,
            "No conversations to resume; `cortext start TYPE TITLE` begins one.\n",
        )


# --- COR-08 to COR-10: what the agent is told -------------------------------------------------------------


def test_cor_08_the_commands_prompt_as_it_is_now_is_the_system_prompt(cortext, held, wire_server):
    """That of the command the conversation was begun with."""
    cortext.within("resume", "api")
    assert system_of(wire_server, 0).startswith(BRAINSTORM.strip())
    cortext.prompt_file("brainstorm").write_text("Only ask, never answer.")
    cortext.within("resume", "api")
    assert system_of(wire_server, -2).startswith("Only ask, never answer.\n")  # the last one sums up


def test_cor_08_a_conversation_whose_command_is_gone_is_not_opened(cortext, held):
    """It says which file is missing, and changes nothing."""
    cortext.prompt_file("debug").unlink()
    before = cortext.lines(held["auth"])
    done = cortext.within("resume", "auth")
    assert done.code == 2
    file = "~/work/.workspace/commands/workspace.debug.md"
    assert f'"Auth Token Expiry" cannot be opened: {file} is gone; put it back, or go on as' in done.err
    assert f"`cortext resume {held['auth'].id} --type brainstorm`" in done.err
    assert cortext.lines(held["auth"]) == before
    done = cortext.within(stdin="/workspace.resume auth\n")
    assert f"{file} is gone" in done.err
    assert f"/workspace.resume --type brainstorm {held['auth'].id}" in done.err


@pytest.mark.parametrize("is_in_shell", [False, True])
def test_cor_08_where_its_prompt_is_gone_it_goes_on_as_the_type_that_is_named(
    cortext, held, wire_server, is_in_shell
):
    """With that one's prompt, which it is told, and from then on without being asked to. Where there is its
    own prompt, `--type` only narrows down what is looked for."""
    cortext.prompt_file("debug").unlink()
    cortext.prompt_file("plan").write_text("Only plan.")
    if is_in_shell:
        done = cortext.within(stdin="/workspace.resume auth --type plan\n")
    else:
        done = cortext.within("resume", "auth", "--type", "plan")
    assert '[Resuming "Auth Token Expiry"]\nWe were at it.\nplan> ' in done.out
    told = "It goes on with the instructions of /workspace.plan, not of /workspace.debug."
    assert told in done.err.splitlines()
    assert system_of(wire_server, 0).startswith("Only plan.\n")
    state = cortext.state(held["auth"])
    assert (state["conversation_type"], state["agent_config"]["command"]) == ("debug", "/workspace.plan")
    done = cortext.within("resume", "auth")
    assert '[Resuming "Auth Token Expiry"]' in done.out
    assert "instructions" not in done.err
    assert cortext.within("resume", "api", "--type", "plan").code == 3
    assert cortext.within(stdin="/workspace.resume auth --type\n").code == 0


def test_cor_09_the_agent_gets_a_context_block_and_the_whole_history_and_acknowledges(
    cortext, held, wire_server
):
    """One reply, which is marked among the messages and is not in the transcript."""
    shown = cortext.transcript(held["api"])
    done = cortext.within("resume", "api")
    assert done.out == (
        '[Resuming "API Design Discussion"]\n'
        "We were at it.\n"
        "brainstorm> \n"
        f"Resume: cortext resume {held['api'].id}\n"
    )
    system = system_of(wire_server, 0)
    block = system.partition("<conversation-context>\n")[2].partition("\n</conversation-context>")[0]
    known = dict(line.split(": ", 1) for line in block.splitlines()[1:])
    assert known.pop("Begun") == known.pop("Last active")
    assert known == {
        "Conversation": "API Design Discussion",
        "Type": "brainstorm",
        "Id": held["api"].id,
        "Messages": "2",
        "Status": "paused",
        "Where it stopped": "Exploring REST vs GraphQL, leaning toward REST",
    }
    *history, (role, asked) = prompts_of(wire_server, 0)
    assert history == [("user", "REST or GraphQL?"), ("assistant", "REST, for its simplicity.")]
    assert role == "user"
    assert "say where we stopped" in asked
    (reply,) = [line for line in cortext.lines(held["api"]) if line["content"] == "We were at it."]
    assert reply["transcript"] is False
    assert cortext.transcript(held["api"]) == shown


def test_cor_09_where_the_model_cannot_be_reached_the_conversation_opens_all_the_same(
    cortext, held, wire_server
):
    """What was said last is shown instead, and the next message is heard."""
    cortext.answers(wire_server, refuse(400, b'{"error":{"message":"no model"}}'), "REST it is.")
    done = cortext.within("resume", "api", stdin="So what?\n")
    assert done.code == 0
    assert "REST, for its simplicity." in done.out
    assert "no model" in done.err
    assert "REST it is." in done.out
    assert "REST it is." in cortext.transcript(held["api"])


def test_cor_10_a_changed_prompt_is_used_and_told_once(cortext, wire_server):
    """Its hash is kept from then on; an edit that leaves it as it was is none."""
    cortext.answers(wire_server, "Yes.")
    cortext.within("start", "brainstorm", "Topic", stdin="Well?\n")
    before = cortext.state()["agent_config"]["system_prompt_hash"]
    assert "instructions" not in cortext.within("resume", "topic").err
    cortext.prompt_file("brainstorm").write_text("Only ask.")
    done = cortext.within("resume", "topic")
    told = [line for line in done.err.splitlines() if "instructions" in line]
    assert told == [
        "The instructions of /workspace.brainstorm changed since it was last talked in; "
        "they are used as they are now."
    ]
    assert system_of(wire_server, -2).startswith("Only ask.")
    after = cortext.state()["agent_config"]["system_prompt_hash"]
    assert after.startswith("sha256:")
    assert after != before
    assert "instructions" not in cortext.within("resume", "topic").err


# --- COR-12 to COR-14: the command line -------------------------------------------------------------------


def test_cor_12_one_is_resumed_by_its_id_or_a_beginning_of_it(cortext, held):
    """With its day, without it, and with the program's name before it."""
    day, name = held["api"].id.split("/")
    for text in (f"{day}/{name}", name, name[:14], f"cortext:{day}/{name}"):
        done = cortext.within("resume", text)
        assert done.code == 0, done.err
        assert done.out.startswith('[Resuming "API Design Discussion"]\n')


def test_cor_12_an_id_of_several_days_asks_which_one(cortext, held):
    """An answer decides; without one, nothing is resumed, and the exit code says so."""
    twins = [cortext.talked("Twin", "Well?", f"From {ago}.", ago=ago * DAYS) for ago in (3, 5)]
    name = twins[0].id.split("/")[1]
    assert twins[1].id.endswith(f"/{name}")
    done = cortext.within("resume", name, stdin="2\n")
    assert done.code == 0
    assert "Summary: From 3.\n" in done.out
    assert done.out.endswith(f"Resume: cortext resume {twins[1].id}\n")
    done = cortext.within("resume", name)
    assert done.code == 3
    assert all(twin.id in done.err for twin in twins)
    assert "Resuming" not in done.out


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (["api", "design"], "API Design Discussion"),
        (["leaning toward"], "API Design Discussion"),
        (["race"], "Auth Token Expiry"),
        (["SEA"], "Team retreat"),
    ],
    ids=["title", "summary", "message", "case"],
)
def test_cor_13_one_match_resumes_by_title_summary_or_what_was_said(cortext, held, words, title):
    """Titles and summaries first, and only if none fits, messages."""
    done = cortext.within("resume", *words)
    assert done.code == 0, done.err
    assert done.out.startswith(f'[Resuming "{title}"]\n')


def test_cor_13_several_matches_prompt_for_a_selection(cortext, held):
    """Without an answer they are listed, and the exit code is 3; without a match it is 3, too."""
    cortext.talked("Design of the retreat", "Well?", "Nice.")
    done = cortext.within("resume", "design", stdin="2\n")
    assert done.code == 0
    assert "1. [brainstorm] Design of the retreat\n" in done.out
    assert '[Resuming "API Design Discussion"]' in done.out
    done = cortext.within("resume", "design")
    assert done.code == 3
    assert held["api"].id in done.err
    done = cortext.within("resume", "nothing", "like", "this")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("cortext: Session not found: nothing like this")


def test_cor_14_the_list_shows_id_type_title_status_and_when(cortext, held):
    """Aligned, the last active first, and filtered by type and status; as JSON for programs."""
    for words in (["resume", "--list"], ["list"]):
        done = cortext.within(*words)
        assert (done.code, done.err) == (0, "")
        head, *lines = done.out.splitlines()
        assert head.split("  ")[0] == "ID"
        assert [line.split()[0] for line in lines] == [held[name].id for name in ("api", "auth", "old")]
        columns = [head.index(name) for name in ("TYPE", "TITLE", "STATUS", "LAST ACTIVE")]
        assert [lines[1][at:].split("  ")[0] for at in columns] == [
            *("debug", "Auth Token Expiry", "paused", "1 d ago")
        ]
    assert [line.split()[1] for line in cortext.within("list", "--type", "plan").out.splitlines()[1:]] == [
        "plan"
    ]
    assert cortext.within("list", "--status", "completed").out == "No conversations that are completed.\n"
    found = json.loads(cortext.within("resume", "--list", "--json").out)
    assert [row["type"] for row in found] == ["brainstorm", "debug", "plan"]
    assert found[0]["summary"] == "Exploring REST vs GraphQL, leaning toward REST"
    assert {row["status"] for row in found} == {"paused"}


def test_cor_14_every_id_that_is_shown_is_accepted_everywhere(cortext, held, monkeypatch):
    """Also by the commands of pi, from any directory: a deleted one is gone from the list, and comes back."""
    for row in json.loads(cortext.within("list", "--json").out):
        assert cortext.within("resume", row["id"]).code == 0
    (cortext.home / ".cortext").mkdir(exist_ok=True)
    monkeypatch.chdir(cortext.home)
    assert pi(["sessions", "rm", held["old"].id]) == 0
    assert held["old"].id not in cortext.within("list").out
    assert pi(["sessions", "restore", held["old"].id]) == 0
    assert held["old"].id in cortext.within("list").out


def test_cor_14_in_json_a_title_is_whole_and_a_summary_says_whether_it_is_cut(cortext, wire_server):
    """Of a summary, or of what was said last where there is none, there are at most 200 characters."""
    cortext.answers(wire_server, "hello")
    words = "word " * 100
    cortext.talked(words, "Where to?", "To the sea.", summary=words)
    cortext.talked("Short", "Where to?", words)
    rows = {row["title"]: row for row in json.loads(cortext.within("list", "--json").out)}
    assert [*sorted(rows)] == ["Short", words.strip()]
    for row in rows.values():
        assert (row["title_is_cut"], len(row["summary"]), row["summary_is_cut"]) == (False, 200, True)


def test_cor_14_a_damaged_conversation_is_listed_with_what_is_wrong(cortext, held):
    """And hides no other."""
    state = cortext.folder(held["auth"]) / ".session" / "session.json"
    state.write_text('{"title": "Auth Token Expiry", "stat')
    done = cortext.within("list")
    assert done.code == 0
    assert len([line for line in done.out.splitlines() if line.startswith("20")]) == 3
    assert "damaged" in done.out + done.err
    assert "! line 1 of session.json: damaged (" in done.out
    assert "Damaged: line 1 of session.json: damaged (" in cortext.within("resume", "auth").err
    with open(held["api"].path, "ab") as log:
        log.write(b"{no record\n")
    assert re.search("! line [0-9]+ of messages.jsonl: not a record", cortext.within("list").out)
    assert re.search("Damaged: line [0-9]+ of messages.jsonl: not", cortext.within("resume", "api").err)


@pytest.mark.parametrize("status", ["archived", "", 5, None])
def test_cor_15_a_status_that_there_is_not_is_named_and_taken_as_paused(cortext, held, capsys, status):
    """In the list, by the doctor, and when it is resumed; a repair sets the file aside as it was."""
    file = cortext.folder(held["api"]) / ".session" / "session.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "status": status}))
    before = file.read_bytes()
    (row,) = [row for row in json.loads(cortext.within("list", "--json").out) if row["problem"]]
    wrong = f"session.json: the status {status!r} is none of active, paused, completed; taken as paused"
    assert (row["id"], row["status"], row["problem"]) == (held["api"].id, "paused", wrong)
    assert wrong in cortext.within("list", "--status", "paused").out
    assert pi(["sessions", "doctor", held["api"].id]) == 1
    assert wrong in capsys.readouterr().out
    done = cortext.within("resume", "api", "--list")
    assert wrong in done.out
    assert pi(["sessions", "doctor", "--repair", held["api"].id]) == 0
    assert cortext.state(held["api"])["status"] == "paused"
    assert before in [path.read_bytes() for path in file.parent.iterdir()]
    file.write_bytes(before)
    done = cortext.within("resume", "api", "--status", "paused")
    assert f"Damaged: {wrong}" in done.err
    assert cortext.state(held["api"])["status"] == "paused"
    contents = [line["content"] for line in cortext.lines(held["api"])]
    assert [each for each in contents if each.startswith("Status")] == [
        *("Status: paused", "Status: active", "Status: paused")
    ]


def test_cor_09_a_failed_acknowledgement_is_not_taken_for_an_answer(cortext, held, wire_server):
    """The next request has no empty message in it, and each role in its turn."""
    cortext.answers(wire_server, refuse(400, b'{"error":{"message":"no model"}}'), events(said("Yes.")))
    cortext.within("resume", "api", stdin="So what?\n")
    roles = [role for role, _ in prompts_of(wire_server, 1)]
    assert roles[:2] == ["user", "assistant"]
    assert roles[-1] == "user"
    assert all(text for _, text in prompts_of(wire_server, 1))


def test_cor_12_a_number_as_ids_begin_is_one_and_a_long_one_is_no_crash(cortext, wire_server):
    """`001` is no place in a list, where the last active one is the first."""
    cortext.answers(wire_server, "We were at it.")
    first = cortext.talked("Ship", "When?", "Soon.", kind="plan")
    cortext.talked("Sell", "How?", "Well.", kind="plan")
    assert first.id.endswith("/001-plan-ship")
    done = cortext.within(stdin=f"/workspace.resume 001\n/workspace.resume {'7' * 5000}\n")
    assert '[Resuming "Ship"]' in done.out
    assert "Session not found: 777" in done.err
    assert cortext.within("resume", stdin=f"{'7' * 5000}\n").code == 1


def test_cor_13_who_resumes_nothing_in_particular_and_answers_nothing_changes_nothing(cortext, held):
    """And it is no error: nothing was looked for."""
    before = cortext.lines(held["api"])
    done = cortext.within("resume")
    assert (done.code, QUESTION in done.out) == (0, True)
    assert cortext.lines(held["api"]) == before


def test_cor_06_a_resume_in_which_nothing_was_said_keeps_the_summary(cortext, wire_server):
    """What an agent says of a conversation is no part of it."""
    cortext.answers(wire_server, "Soon.", "Planning to ship.", "We were at it.", "Planning to ship.")
    cortext.within("start", "plan", "Ship", stdin="When?\n")
    cortext.within("resume", "ship")
    (row,) = json.loads(cortext.within("list", "--json").out)
    assert row["summary"] == "Planning to ship."


def test_cor_09_what_is_typed_while_the_agent_acknowledges_is_part_of_the_conversation(
    cortext, held, wire_server, gate
):
    """It is in the transcript, and so is the answer to it."""
    cortext.answers(wire_server, streamed("We were ", gate, "at it."), "It is decided.")
    with cortext.terminal("resume", "api") as terminal:
        terminal.until("We were")
        say(terminal, "REST it is")
        gate.set()
        terminal.until("It is decided.")
        until_idle(terminal)
        terminal.keys("c-d")
        assert terminal.wait() == 0
    shown = cortext.transcript(held["api"])
    assert shown.count("REST it is") == shown.count("It is decided.") == 1
    assert "at it." not in shown


def test_cor_12_cor_20_a_shell_completes_commands_ids_tools_and_types(cortext, held, monkeypatch):
    """Those of the workspace around it, types of the user's own included."""
    monkeypatch.chdir(cortext.project)
    cortext.prompt_file("retro").write_text("You hold a retrospective.")

    def offered(*words):
        *before, current = words
        return [each.text for each in candidates(before, current, {}, "cortext")]

    assert offered("re") == ["resume"]
    assert held["api"].id in offered("resume", "20")
    assert offered("resume", "--tool", "c") == ["claude", "codex"]
    assert offered("start", "re") == ["retro", "review"]
