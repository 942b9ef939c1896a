"""soleur, driven from outside, through pipes: SOL-01 to SOL-12 as its user meets them."""

import json
import re
import uuid
from itertools import pairwise
from pathlib import Path

import pytest

from tests.agent.models.wire_server import HANG, events, wire_server
from tests.front.one_prompt import HALF
from tests.programs.started import document, prompts_of, soleur, system_of

__all__ = ["soleur", "wire_server"]

pytestmark = pytest.mark.process

QUESTION = "Resume last session? [Y/n]"
README = "Load README.md as project context? [Y/n]"


def talked(soleur, wire_server, *lines, answer="Who pays for it?"):
    """A session in which this was said; its id."""
    soleur.answers(wire_server, answer)
    done = soleur.within("--fresh", stdin="".join(f"{line}\n" for line in lines))
    assert done.code == 0, done
    return document(soleur.files[0])["id"]


# --- a session and its file -----------------------------------------------------------------------------


def test_sol_01_a_new_session_is_a_document_with_all_its_fields(soleur, wire_server):
    """Under a uuid4 of its own, about this directory, with times in UTC."""
    id = talked(soleur, wire_server, "Should we charge per seat?")
    found = document(soleur.files[0])
    assert [*found][:8] == [
        *("id", "agent_type", "project_name", "project_context"),
        *("messages", "decisions", "created_at", "updated_at"),
    ]
    assert uuid.UUID(id).version == 4
    assert (found["agent_type"], found["project_name"], found["project_context"]) == (
        "sparring",
        "acme",
        None,
    )
    assert all(re.fullmatch(r"[\d-]{10}T[\d:.]+Z", found[name]) for name in ("created_at", "updated_at"))


def test_sol_02_sol_03_what_is_said_is_in_the_file_before_the_model_is_asked_and_after(soleur, wire_server):
    """Each with its role and its time; the question is there while the answer is still on its way."""
    seen = []

    def answer():
        seen.append(document(soleur.files[0])["messages"])
        yield from events(HALF, HANG)()

    soleur.answers(wire_server, answer)
    with soleur.piped("--fresh") as talk:
        talk.say("Should we charge per seat?")
        talk.until(lambda: seen)
        talk.process.kill()
    assert [(each["role"], each["content"]) for each in seen[0]] == [("user", "Should we charge per seat?")]
    assert seen[0][0]["timestamp"]
    soleur.answers(wire_server, "Whom did you ask?")
    done = soleur.run(stdin="y\nSo?\n")
    assert done.code == 0
    roles = [each["role"] for each in document(soleur.files[0])["messages"]]
    assert roles[0] == roles[-2] == "user"
    assert roles[-1] == "assistant"


def test_sol_04_the_file_is_laid_out_for_people_and_a_diff_shows_what_was_said(soleur, wire_server):
    """Two spaces, no escapes; what stood there stays as it stood."""
    id = talked(soleur, wire_server, "Für wen? 漢字", answer="Für alle?")
    before = soleur.files[0].read_text()
    assert '  "id": "' in before
    assert "Für wen? 漢字" in before
    soleur.run("load", id, stdin="Nein.\n")
    lines = soleur.files[0].read_text().splitlines()
    kept = [line for line in before.splitlines() if '"updated_at"' not in line]
    assert [line for line in kept if line.rstrip(",") not in {each.rstrip(",") for each in lines}] == []


def test_sol_05_load_brings_back_everything(soleur, wire_server):
    """By the command and in the conversation: messages, decisions, context, and what is not recorded."""
    (soleur.project / "plan.md").write_text("We sell shovels.")
    lines = ["/context plan.md", "/autorecord off", "/decide Sell shovels. #market", "And now?"]
    id = talked(soleur, wire_server, *lines)
    other = talked(soleur, wire_server, "Something else")
    for words, typed in ((["load", id[:8]], ""), (["load", other], f"/load {id}\n")):
        soleur.answers(wire_server, "[DECISION: Never mind.] Why?")
        done = soleur.run(*words, stdin=f"{typed}/autorecord\n/decisions\nGo on\n")
        assert (done.code, "Decisions in answers are not recorded." in done.err) == (0, True), done
        assert "Sell shovels." in done.out
        assert "Never mind" not in json.dumps(document(soleur.files[0])["decisions"])
        assert document(soleur.files[0])["id"] == id
        system = system_of(wire_server)
        assert "We sell shovels." in system
        assert "Sell shovels." in system
        assert ("user", "And now?") in prompts_of(wire_server)


# --- lists ----------------------------------------------------------------------------------------------


def test_sol_06_the_list_has_id_date_and_what_was_said_last_newest_first(soleur, wire_server):
    """Fifty characters of it, on one line. The same in the conversation, and as JSON."""
    first = talked(soleur, wire_server, "one", answer="漢" * 60)
    second = talked(soleur, wire_server, "two", answer="a\n\nb\tc")
    done = soleur.run("sessions")
    head, *lines = done.out.splitlines()
    assert (done.code, head.split()) == (0, ["ID", "CREATED", "PROJECT", "LAST", "MESSAGE"])
    assert [line.split()[0] for line in lines] == [second, first]
    assert lines[0].endswith("a b c")
    assert f"{'漢' * 50}…" in lines[1]
    assert "漢" * 51 not in done.out
    assert all(re.search(r"  \d{4}-\d\d-\d\d \d\d:\d\d  acme  ", line) for line in lines)
    within = soleur.run("load", first, stdin="/sessions\n")
    assert lines[0] in within.out
    rows = json.loads(soleur.run("sessions", "--json").out)
    assert [row["id"] for row in rows] == [second, first]


def test_sol_06_of_1000_sessions_with_100_broken_ones_each_has_a_row(soleur, home):
    """A broken one with what is wrong with it; and nothing is changed."""
    folder = home / ".soleur" / "sessions"
    folder.mkdir(parents=True)
    sound = {str(uuid.UUID(int=at, version=4)): at for at in range(1, 901)}
    for id, at in sound.items():
        message = {"role": "user", "content": f"idea {at}", "timestamp": f"2026-01-02T03:{at % 60:02}:00Z"}
        whole = {
            **{"id": id, "agent_type": "sparring", "project_name": "acme", "project_context": None},
            **{"messages": [message], "decisions": [], "created_at": "2026-01-02T03:00:00Z"},
            "updated_at": message["timestamp"],
        }
        (folder / f"{id}.json").write_text(json.dumps(whole))
    damage = [b"", b"{", bytes(64), b"\xff\xfe{}", b'{"id": "x", "messages": [{"role": "user", "cont']
    broken = {str(uuid.UUID(int=at, version=4)): damage[at % 5] for at in range(1001, 1101)}
    for id, data in broken.items():
        (folder / f"{id}.json").write_bytes(data)
    done = soleur.run("sessions")
    assert done.code == 0
    lines = done.out.splitlines()[1:]
    assert {line.split()[0] for line in lines if not line.startswith(" ")} == {*sound, *broken}
    with_reason = {before.split()[0] for before, line in pairwise(lines) if re.match(r" +! \S", line)}
    assert with_reason == {*broken}
    assert "100 sessions damaged; `pi sessions doctor` says more." in done.err
    assert all((folder / f"{id}.json").read_bytes() == data for id, data in broken.items())
    rows = json.loads(soleur.run("sessions", "--json").out)
    assert sum(row["problem"] is not None for row in rows) == 100


def test_sol_07_without_sessions_it_says_so(soleur):
    """Exactly; as JSON, an empty list. Nothing is made."""
    assert soleur.run("sessions") == (0, "No saved sessions found\n", "")
    assert json.loads(soleur.run("sessions", "--json").out) == []
    assert "No saved sessions found\n" in soleur.run(stdin="/sessions\n").out
    assert soleur.files == []


# --- which session --------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["", "what?\nYES"])
def test_sol_08_the_last_session_is_offered_and_resumed(soleur, wire_server, answer):
    """With its id, date, project and preview before the question; what is no answer is asked again."""
    id = talked(soleur, wire_server, "Should we charge per seat?", answer="Whom did you ask?")
    done = soleur.run(stdin=f"{answer}\nTen of them.\n")
    offered, question, *_ = done.out.splitlines()
    assert re.fullmatch(rf"{id}  \d{{4}}-\d\d-\d\d \d\d:\d\d  acme  Whom did you ask\?", offered)
    assert question.startswith(QUESTION)
    assert done.out.count(QUESTION) == 1 + answer.count("\n")
    assert len(soleur.files) == 1
    assert [each["content"] for each in document(soleur.files[0])["messages"]][2] == "Ten of them."
    assert done.out.splitlines()[-1].endswith(f" load {id}")


def test_sol_08_the_newest_of_this_project_goes_before_a_newer_one_of_another(soleur, wire_server, home):
    """Which is offered where there is none of this project."""
    mine = talked(soleur, wire_server, "mine")
    soleur.project = home / "other"
    soleur.project.mkdir()
    assert soleur.run(stdin="").out.splitlines()[0].startswith(mine)
    other = talked(soleur, wire_server, "theirs")
    assert soleur.run(stdin="").out.splitlines()[0].startswith(other)
    soleur.project = home / "acme"
    assert soleur.run(stdin="").out.splitlines()[0].startswith(mine)


def test_sol_08_a_session_that_holds_nothing_but_decisions_goes_before_another_projects(
    soleur, wire_server, home
):
    """It is this project's, and can be gone on with."""
    mine = talked(soleur, wire_server, "/decide Only in Europe.")
    soleur.project = home / "other"
    soleur.project.mkdir()
    talked(soleur, wire_server, "theirs")
    soleur.project = home / "acme"
    done = soleur.within(stdin="y\nAnd now?\n")
    assert done.out.startswith(f"{mine}  ")
    assert document(soleur.files[0])["id"] == mine
    assert soleur.said() == [("user", "And now?"), ("assistant", "Who pays for it?")]
    assert "Only in Europe." in system_of(wire_server)


def test_sol_08_the_end_of_input_at_the_question_changes_nothing(soleur, wire_server):
    """Nor does it at the one for the README: 0, and every file as it was."""
    talked(soleur, wire_server, "mine")
    before = {path: path.read_bytes() for path in soleur.files}
    done = soleur.run(stdin="")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[1:] == [f"{QUESTION} "]
    (soleur.project / "README.md").write_text("# Acme")
    done = soleur.run(stdin="n\n")
    assert (done.code, done.out.splitlines()[-1]) == (0, f"{README} ")
    assert {path: path.read_bytes() for path in soleur.files} == before


@pytest.mark.parametrize("how", ["n", "--fresh"])
def test_sol_09_a_fresh_start_is_a_new_session_and_the_old_one_stays(soleur, wire_server, how):
    """As it was, byte for byte."""
    talked(soleur, wire_server, "old")
    (old,) = soleur.files
    before = old.read_bytes()
    words, answer = ([how], "") if how == "--fresh" else ([], "n\n")
    done = soleur.run(*words, stdin=f"{answer}new\n")
    assert (done.code, len(soleur.files), old.read_bytes()) == (0, 2, before)
    assert (QUESTION in done.out) == (how == "n")


def test_g_4_any_beginning_of_an_id_is_enough_and_an_unknown_one_is_an_error(soleur, wire_server):
    """3, with the nearest; several are listed; in the conversation the same is said, and it goes on."""
    soleur.answers(wire_server, "ok")
    ids = ["aaaa1111-0000-4000-8000-000000000001", "aaaa2222-0000-4000-8000-000000000002"]
    for id in ids:
        made = talked(soleur, wire_server, "hello")
        text = soleur.files[0].read_text().replace(made, id)
        soleur.files[0].rename(soleur.files[0].with_name(f"{id}.json")).write_text(text)
    for words in (["load", "aaaa"], ["spar", "-s", "aaaa"], ["-s", "aaaa"]):
        done = soleur.run(*words, stdin="hello\n")
        assert (done.code, done.out) == (3, "")
        assert all(f"  soleur:{id}" in done.err for id in ids)
    done = soleur.run("load", "aaaa1112", stdin="hello\n")
    assert (done.code, done.out) == (3, "")
    assert re.search(r"^soleur: Session not found: aaaa1112; nearest: .*aaaa1111", done.err)
    done = soleur.run("load", ids[0], stdin=f"/load aaaa\n/load zzz\n/load\n/load aaaa2\n/load {ids[1]}\n")
    assert done.code == 0
    assert "Session not found: zzz" in done.err
    assert "2 sessions match 'aaaa'" in done.err
    assert "/load needs a session" in done.err
    assert "That is this session." in done.err
    assert f" load {ids[1]}\n" in done.out


# --- context --------------------------------------------------------------------------------------------


def test_sol_10_a_file_is_attached_and_is_in_every_later_prompt(soleur, wire_server):
    """Under its name; the same path again takes its own place. It is in the file, and comes back."""
    plan = soleur.project / "plan.md"
    plan.write_text("We sell shovels.")
    (soleur.project / "notes").mkdir()
    (soleur.project / "notes" / "plan.md").write_text("Nobody digs.")
    soleur.answers(wire_server, "Who digs?")
    with soleur.piped("--fresh") as talk:
        talk.say("Hello")
        talk.until("Who digs?")
        assert "shovels" not in system_of(wire_server)
        talk.say("/context plan.md", "/context notes/plan.md", "So?")
        talk.until(lambda: len(wire_server.requests) == 2)
        talk.until(lambda: len(soleur.said()) == 4)
        plan.write_text("We rent shovels.")
        talk.say(f"/context '{plan}'", "And now?")
        talk.until(lambda: len(soleur.said()) == 6)
        assert talk.leave() == 0
    assert "We sell shovels." in system_of(wire_server, 1)
    last = system_of(wire_server)
    assert ("We sell" in last, "We rent" in last, "Nobody digs." in last) == (False, True, True)
    context = document(soleur.files[0])["project_context"]
    assert context.startswith("# plan.md\n\nWe rent shovels.\n\n# ")
    assert "Nobody digs." in context
    before = soleur.files[0].stat().st_size
    done = soleur.run(stdin="y\n/context plan.md\n/context\nAgain\n")
    assert done.err.splitlines()[1:] == ["plan.md has not changed."]
    assert f"> \nplan.md, 16 B\n{Path('notes', 'plan.md')}, 12 B\n> \n" in done.out
    assert soleur.files[0].stat().st_size < before + 1000
    assert system_of(wire_server) == last


def test_sol_10_what_cannot_be_attached_is_refused_with_a_reason(soleur, wire_server):
    """Missing, a folder, binary, not UTF-8, over 1 MB, a pipe, none: the session is as it was."""
    import os

    soleur.answers(wire_server, "Go on.")
    (soleur.project / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0")
    (soleur.project / "latin.txt").write_bytes("Cafés".encode("latin-1"))
    (soleur.project / "huge.txt").write_bytes(b"a" * 1_100_000)
    os.mkfifo(soleur.project / "pipe")
    names = ["missing.md", ".", "image.png", "latin.txt", "huge.txt", "pipe", ""]
    done = soleur.run("--fresh", stdin="".join(f"/context {name}\n" for name in names))
    assert done.code == 0
    told = done.err.splitlines()
    assert len(told) == len(names)
    assert all(line.startswith("soleur: ") for line in told)
    for line, name in zip(told[:-1], names, strict=False):
        assert name.strip(".") in line
    assert "latin.txt: it is not UTF-8, from byte 3 on; " in done.err
    assert told[-1] == "soleur: /context needs a file; as in /context docs/plan.md"
    assert soleur.files == []
    assert wire_server.requests == []


def test_sol_10_more_than_the_model_reads_is_refused_with_both_numbers(soleur, wire_server):
    """Of one file, and of one beside what is attached already: which stays as it was, and can be replaced."""
    soleur.answers(wire_server, "Go on.")
    for name, size in (("book.txt", 36_000), ("half.txt", 18_000), ("other.txt", 18_000)):
        (soleur.project / name).write_text("word " * (size // 5))
    done = soleur.within("--fresh", stdin="/context book.txt\n")
    what = "attach the part of it that matters, or talk with a model that reads more"
    says = "soleur: Cannot attach {}: that is about {} tokens{}, and custom/test reads 8,000; {}\n"
    assert done.err == says.format("book.txt", "9,000", "", what)
    assert (soleur.files, wire_server.requests) == ([], [])
    soleur.within("--fresh", stdin="/context half.txt\n")
    (soleur.project / "half.txt").write_text("word " * 5_000)
    done = soleur.within(stdin="y\n/context other.txt\n/context half.txt\n/context\n")
    assert says.format("other.txt", "9,000", " with what is attached already", what) in done.err
    assert "> \nhalf.txt, 25 kB\n> \n" in done.out
    assert document(soleur.files[0])["project_context"] == f"# half.txt\n\n{'word ' * 5_000}"


def test_sol_11_a_readme_is_offered_and_the_partner_speaks_first(soleur, wire_server):
    """With it in the prompt. What the partner said is a message of its own; nobody else has said anything."""
    (soleur.project / "README.md").write_text("# Acme\n\nShovels as a service.")
    soleur.answers(wire_server, "Who digs today, and with what?", "And what do they pay?")
    done = soleur.run(stdin="\nGardeners.\n")
    assert (done.code, done.err.splitlines()) == (
        0,
        ["Attached: README.md, 29 B. It is in every prompt from now on."],
    )
    assert done.out.startswith(f"{README} \n")
    assert done.out.index("Who digs today") < done.out.index("And what do they pay?")
    assert "Shovels as a service." in system_of(wire_server, 0)
    assert [role for role, _ in prompts_of(wire_server, 0)] == ["user"]
    assert soleur.said() == [
        ("assistant", "Who digs today, and with what?"),
        ("user", "Gardeners."),
        ("assistant", "And what do they pay?"),
    ]


def test_sol_11_a_readme_that_is_not_wanted_is_not_read(soleur, wire_server):
    """And is not asked for in a session that goes on."""
    (soleur.project / "README.md").write_text("Shovels as a service.")
    soleur.answers(wire_server, "Hm?")
    done = soleur.run(stdin="maybe\nn\nHello\n")
    assert done.out.count(README) == 2
    assert "Shovels" not in system_of(wire_server)
    assert document(soleur.files[0])["project_context"] is None
    assert README not in soleur.run(stdin="y\n").out


def test_sol_11_a_readme_that_is_a_link_to_somewhere_else_is_not_asked_for(soleur, wire_server):
    """The question would name another file than is attached; who wants that one says so."""
    (soleur.home / "secret").write_text("a private key")
    (soleur.project / "README.md").symlink_to(soleur.home / "secret")
    soleur.answers(wire_server, "Hm?")
    done = soleur.run(stdin="Hello\n")
    assert (done.code, README in done.out) == (0, False)
    (notice,) = done.err.splitlines()
    assert "README.md" in notice
    assert "a link that leads out" in notice
    assert "private" not in system_of(wire_server)
    assert soleur.run("--fresh", stdin="/context README.md\n").code == 0
    (soleur.project / "docs").mkdir()
    (soleur.project / "docs" / "about.md").write_text("# Acme")
    (soleur.project / "README.md").unlink()
    (soleur.project / "README.md").symlink_to("docs/about.md")
    assert README in soleur.run("--fresh", stdin="").out


@pytest.mark.parametrize("data", [b"", b"\x89PNG\0", b"a" * 1_100_000])
def test_sol_11_a_readme_that_cannot_be_attached_is_not_asked_for(soleur, data):
    """Why not is said, once."""
    (soleur.project / "README.md").write_bytes(data)
    done = soleur.run(stdin="")
    assert (done.code, README in done.out) == (0, False)
    assert len(done.err.splitlines()) == 1
    assert "README.md" in done.err


def test_sol_11_with_context_and_no_messages_it_opens_the_conversation(soleur, wire_server):
    """When it comes by a command, it waits for more of it, or for Enter on an empty line: once."""
    for name in ("plan", "notes"):
        (soleur.project / f"{name}.md").write_text(f"The {name}.")
    soleur.answers(wire_server, "Who digs?", retry={"max_retries": 0})
    done = soleur.within("--fresh", stdin="/context plan.md\n")
    assert ("press Enter on an empty line" in done.err, wire_server.requests) == (True, [])
    done = soleur.within("--fresh", stdin="\n/context plan.md\n/context notes.md\n\n\n")
    assert done.out.count("Who digs?") == 1
    assert soleur.said() == [("assistant", "Who digs?")]
    assert len(wire_server.requests) == 1
    assert all(f"The {name}." in system_of(wire_server) for name in ("plan", "notes"))


def test_sol_11_with_context_its_user_may_speak_first(soleur, wire_server):
    """Then an empty line begins nothing any more."""
    (soleur.project / "plan.md").write_text("We sell shovels.")
    soleur.answers(wire_server, "Who digs?")
    soleur.within("--fresh", stdin="/context plan.md\nMe.\n\n")
    assert soleur.said() == [("user", "Me."), ("assistant", "Who digs?")]


def test_sol_11_an_option_answers_the_question_beforehand(soleur, wire_server):
    """`--context FILE` attaches that file and lets the partner speak first; `--no-context` asks nothing."""
    (soleur.project / "README.md").write_text("# Acme")
    (soleur.project / "plan.md").write_text("We sell shovels.")
    soleur.answers(wire_server, "Who digs?")
    done = soleur.within("--fresh", "--context", "plan.md")
    assert (done.code, README in done.out, done.out.count("Who digs?")) == (0, False, 1)
    assert ("We sell shovels." in system_of(wire_server), "# Acme" in system_of(wire_server)) == (True, False)
    done = soleur.within("--fresh", "--no-context", stdin="Hello\n")
    assert (done.code, README in done.out) == (0, False)
    assert "Attached context" not in system_of(wire_server)
    (made,) = (path for path in soleur.files if "shovels" not in path.read_text())
    soleur.within("-s", made.stem, "--context", "plan.md", stdin="And?\n")
    assert "We sell shovels." in system_of(wire_server)
    for words, code in ((["--context", "nothing.md"], 2), (["--context", "plan.md", "--no-context"], 2)):
        before = soleur.files
        done = soleur.within("--fresh", *words)
        assert (done.code, done.out, soleur.files) == (code, "", before)


def test_sol_10_a_file_that_was_detached_is_in_no_later_prompt(soleur, wire_server):
    """By its name or its path; the session says so when it is loaded, and so does `project_context`."""
    for name in ("plan", "notes"):
        (soleur.project / f"{name}.md").write_text(f"The {name}.")
    soleur.answers(wire_server, "Hm.")
    lines = ["/context plan.md", "/context notes.md", "one", "/detach notes.md", "two", "/detach ./plan.md"]
    done = soleur.within("--fresh", stdin="".join(f"{line}\n" for line in [*lines, "/detach plan.md"]))
    assert "Detached: notes.md." in done.err
    assert "soleur: Attached file not found: plan.md; nothing is attached" in done.err
    first, second = (system_of(wire_server, at) for at in (0, 1))
    assert ("The notes." in first, "The notes." in second, "The plan." in second) == (True, False, True)
    (path,) = soleur.files
    assert document(path)["project_context"] is None
    soleur.within("load", path.stem, stdin="three\n")
    assert "Attached context" not in system_of(wire_server)


def test_sol_11_a_readme_that_changed_since_is_named_when_its_session_is_resumed(soleur, wire_server):
    """With the command that takes it as it is now; after that nothing is said any more."""
    readme = soleur.project / "README.md"
    readme.write_text("# We sell shovels.")
    soleur.answers(wire_server, "Who digs?")
    soleur.within("--fresh", stdin="y\n")
    assert "changed since" not in soleur.within(stdin="y\n").err
    readme.write_text("# We rent shovels.")
    done = soleur.within(stdin="y\n/context README.md\nAnd now?\n")
    said = "README.md has changed since it was attached; /context ~/acme/README.md takes it as it is now."
    assert done.err.count(said) == 1
    assert "We rent shovels." in system_of(wire_server)
    assert "changed since" not in soleur.within(stdin="y\n").err


def test_sol_09_new_begins_another_session(soleur, wire_server):
    """With the question for the README, as at the start; the one before stays as it is."""
    soleur.answers(wire_server, "Hm.")
    (soleur.project / "README.md").write_text("# Acme")
    done = soleur.within("--fresh", "--no-context", stdin="one\n/new\ntwo\n")
    assert (done.code, README in done.out, len(soleur.files)) == (0, False, 2)
    done = soleur.within("--fresh", stdin="n\none\n/new\ny\ntwo\n")
    assert (done.code, done.out.count(README), len(soleur.files)) == (0, 2, 4)
    assert [("# Acme" in path.read_text()) for path in soleur.files].count(True) == 1


# --- decisions ------------------------------------------------------------------------------------------


def ledger(soleur) -> Path:
    return soleur.home / ".soleur" / "decisions" / "acme.md"


def test_sol_12_decisions_are_in_the_session_in_the_ledger_and_in_later_prompts(soleur, wire_server):
    """Made by hand, or marked in an answer; each once, with who made it and when."""
    soleur.answers(
        wire_server,
        "[DECISION: We charge per seat.] And who pays?\n`[DECISION: an example]`",
        "As you said: [decision: we charge  per seat]. Why?",
    )
    with soleur.piped("--fresh") as talk:
        talk.say("/decide Only in Europe. #market #plan")
        talk.say("Per seat, that is settled.")
        talk.until("And who pays?")
        talk.say("The boss.", "/decide only in europe", "/decisions")
        assert talk.leave() == 0
    found = document(soleur.files[0])
    assert [(each["content"], each["tags"], each["source"]) for each in found["decisions"]] == [
        ("Only in Europe.", ["market", "plan"], "Manual"),
        ("We charge per seat.", [], "AutoDetected"),
    ]
    for each in found["decisions"]:
        assert each["session_id"] == found["id"]
        assert re.fullmatch(r"[\d-]{10}T[\d:.]+Z", each["timestamp"])
    head, _, root, _, *lines = ledger(soleur).read_text().splitlines()
    assert (head, root) == ("# Decision Ledger: acme", f"<!-- project root: {soleur.project} -->")
    assert [re.sub(r"^- \[\d{4}-\d\d-\d\d \d\d:\d\d\] ", "", line) for line in lines] == [
        "[Manual] [market, plan] Only in Europe.",
        "[Auto] We charge per seat.",
    ]
    assert "Only in Europe." in system_of(wire_server, 0)
    assert "We charge per seat." in system_of(wire_server, 1)
    assert talk.err.count("Decided: ") == 2
    assert "That is recorded already." in talk.err
    assert talk.out.count("Only in Europe.") == 1
    soleur.answers(wire_server, "[DECISION: We charge per seat!] Go on.")
    soleur.run("--fresh", stdin="Again.\n")
    assert "We charge per seat." in system_of(wire_server)
    assert document(soleur.files[0])["decisions"] == []
    assert len(ledger(soleur).read_text().splitlines()) == 6


def test_sol_12_what_its_user_corrects_or_takes_out_of_the_ledger_is_so_from_then_on(soleur, wire_server):
    """In lists and in prompts, at once and in the session that had it otherwise; which keeps its record."""
    id = talked(soleur, wire_server, "/decide Only in Europe.", "/decide Hire two.", "Hello")
    edited = ledger(soleur).read_text().replace("Europe", "Portugal").rpartition("- [")[0]
    ledger(soleur).write_text(edited)
    done = soleur.run("load", id, stdin="/decide Charge 20.\n/decisions\nAnd?\n")
    for said in (done.out, system_of(wire_server), soleur.run("decisions").out, ledger(soleur).read_text()):
        assert [word for word in ("Portugal", "Charge 20", "Europe", "Hire") if word in said] == [
            *("Portugal", "Charge 20"),
        ]
    recorded = [each["content"] for each in document(soleur.files[0])["decisions"]]
    assert recorded == ["Only in Europe.", "Hire two.", "Charge 20."]


def test_sol_12_the_decisions_of_all_projects_are_a_table_and_json(soleur, wire_server, home):
    """By project, or of one; also what its user wrote into a ledger, and what another program recorded."""
    assert soleur.run("decisions") == (0, "No decisions recorded yet\n", "")
    talked(soleur, wire_server, "/decide Only in Europe. #market", "Hello")
    soleur.project = home / "beta"
    soleur.project.mkdir()
    id = talked(soleur, wire_server, "/decide Hire two.", "Hello")
    with ledger(soleur).open("a") as file:
        file.write("- By hand\n")
    done = soleur.run("decisions")
    lines = done.out.splitlines()
    assert (done.code, lines[0], lines[5]) == (0, "acme", "beta")
    assert lines[1].split() == ["DATE", "HOW", "DECISION"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d  Manual  Only in Europe\. #market", lines[2])
    assert "By hand" in lines[3]
    none = soleur.run("decisions", "-p", "gamma")
    assert none == (0, "No decisions of gamma recorded yet\n", "There are some of acme, beta.\n")
    one = soleur.run("decisions", "-p", "beta")
    assert ("Hire two." in one.out, "Europe" in one.out) == (True, False)
    (row,) = json.loads(soleur.run("decisions", "-p", "beta", "--json").out)
    assert row | {"timestamp": ""} == {
        **{"content": "Hire two.", "timestamp": "", "session_id": id, "tags": [], "source": "Manual"},
        **{"project": "beta", "project_root": str(home / "beta"), "withdrawn": ""},
    }


@pytest.mark.parametrize("project", ["../acme", "a\\b"])
def test_sol_12_a_project_that_is_a_path_is_refused(soleur, wire_server, project):
    """2, and by a session that says it is of such a one, nothing is written elsewhere."""
    done = soleur.run("decisions", "-p", project)
    assert (done.code, done.out) == (2, "")
    id = talked(soleur, wire_server, "Hello")
    path = soleur.files[0]
    path.write_text(path.read_text().replace('"acme"', json.dumps(project)))
    before = set(soleur.home.rglob("*.md"))
    done = soleur.run("load", id, stdin="/decide Go.\n")
    assert done.code == 0
    assert "Not in the ledger: " in done.err
    assert set(soleur.home.rglob("*.md")) == before
    assert [each["content"] for each in document(path)["decisions"]] == ["Go."]


def test_sol_12_autorecord_off_leaves_answers_alone(soleur, wire_server):
    """Until it is on again; what it takes is on or off. The settings can have it off from the start."""
    soleur.answers(wire_server, "[DECISION: One.]", "[DECISION: Two.]", "[DECISION: Three.]")
    lines = ["/autorecord off", "a", "/autorecord on", "b", "/autorecord maybe"]
    done = soleur.run("--fresh", stdin="".join(f"{line}\n" for line in lines))
    assert [each["content"] for each in document(soleur.files[0])["decisions"]] == ["Two."]
    assert "soleur: /autorecord is on or off, not 'maybe'" in done.err
    (soleur.home / ".soleur" / "config.toml").write_text("autorecord = false\n")
    soleur.run("--fresh", stdin="c\n")
    assert document(soleur.files[0])["decisions"] == []


def test_g_7_sol_12_autorecord_alone_leaves_no_session(soleur, wire_server):
    """It is kept with the first message, if there is one."""
    soleur.answers(wire_server, "[DECISION: One.]")
    assert "Resume" not in soleur.run("--fresh", stdin="/autorecord off\n").out
    assert soleur.files == []
    soleur.run("--fresh", stdin="/autorecord off\nHello\n")
    assert "are not recorded" in soleur.run(stdin="y\n/autorecord\n").err


def test_sol_12_a_decision_is_found_whatever_a_message_looks_like(soleur, wire_server):
    """Also one that says of itself that nothing was decided."""
    id = talked(soleur, wire_server, "/decide Go.", '{"decisions": []}')
    path = soleur.files[0]
    found = document(path)
    found["messages"][0]["metadata"] = {"decisions": []}
    path.write_text(json.dumps(found))
    ledger(soleur).unlink()
    assert [each["session_id"] for each in json.loads(soleur.run("decisions", "--json").out)] == [id]


# --- who answers ----------------------------------------------------------------------------------------


def test_the_partner_asks_and_has_no_tools_and_its_prompt_can_be_replaced(soleur, wire_server):
    """Nor is it told of files that are meant for agents that build things."""
    (soleur.project / "AGENTS.md").write_text("Run the tests.")
    soleur.answers(wire_server, "Why?")
    soleur.run("--fresh", stdin="Hello\n!echo hi\n/compact\n")
    first, _ = wire_server.requests
    assert "tools" not in first.body
    assert "sparring partner" in system_of(wire_server, 0)
    assert "[DECISION: " in system_of(wire_server, 0)
    assert "Run the tests." not in system_of(wire_server, 0)
    assert prompts_of(wire_server)[-1] == ("user", "!echo hi")
    (soleur.home / ".soleur" / "prompt.md").write_text("You are a pirate.")
    soleur.run("--fresh", stdin="Hello\n")
    assert system_of(wire_server).startswith("You are a pirate.")


def test_g_9_its_own_settings_name_its_model(soleur, wire_server, monkeypatch):
    """Before pi's, after what the environment and the command line say."""
    models = [
        {"id": name, "base_url": f"{wire_server.url}/v1", "context_window": 8000}
        for name in ("test", "mine", "asked", "set")
    ]
    soleur.answers(wire_server, "ok", models=models)
    (soleur.home / ".soleur").mkdir()
    (soleur.home / ".soleur" / "config.toml").write_text('default_model = "mine"\n')
    soleur.run("--fresh", stdin="a\n")
    monkeypatch.setenv("PERDURE_MODEL", "set")
    soleur.run("--fresh", stdin="b\n")
    soleur.run("--fresh", "-m", "asked", stdin="c\n")
    assert [each.body["model"] for each in wire_server.requests] == ["mine", "set", "asked"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("default_model = 3", "config.toml: default_model is not text"),
        ("default_model", "config.toml is not TOML: "),
        ('defualt_model = "x"', "'defualt_model' is not known: did you mean default_model?"),
    ],
)
def test_g_5_settings_that_are_wrong_are_named(soleur, wire_server, text, says):
    """With their file; one that is only misspelt does not keep anybody from talking."""
    soleur.answers(wire_server, "ok")
    (soleur.home / ".soleur").mkdir()
    (soleur.home / ".soleur" / "config.toml").write_text(text)
    done = soleur.run("--fresh", stdin="a\n")
    assert done.code == (0 if "mean" in says else 1)
    assert says in done.err
    assert len(done.err.splitlines()) == 1
