"""soleur's projects: two directories of one name share neither sessions nor decisions."""

import json
import re
from pathlib import Path

import pytest

from perdure.programs.pi import main
from perdure.session.session import Session
from perdure.session.stores import open_store
from perdure.testing import user_entry
from tests.agent.models.wire_server import wire_server
from tests.front.shell_terminal import say, until_idle
from tests.programs.started import MODEL, Program, document, soleur, system_of

__all__ = ["soleur", "wire_server"]

QUESTION = "Resume last session? [Y/n]"


@pytest.fixture
def two(home, wire_server) -> tuple[Program, Program]:
    """The program in `x/app`, and in `y/app`."""
    for parent in "xy":
        (home / parent).mkdir()
    found = Program("soleur", home, home / "x" / "app"), Program("soleur", home, home / "y" / "app")
    found[0].answers(wire_server, "Hm.")
    return found


def ledgers(home: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (home / ".soleur" / "decisions").iterdir()}


def decided(program: Program) -> list[str]:
    """In the project of its directory, as the conversation lists it."""
    return re.findall(r"  Manual  (.*)\n", program.within("--fresh", stdin="/decisions\n").out)


def test_sol_08_sol_12_two_directories_of_one_name_share_no_sessions_and_no_decisions(two, home, wire_server):
    """Each has its ledger, with its root in a comment line; the second is called after its path, too."""
    x, y = two
    x.within("--fresh", stdin="/decide Only in Europe.\nHello\n")
    mine = document(x.files[0])
    assert (mine["project_name"], mine["project_root"]) == ("app", str(x.project))
    done = y.within("--fresh", stdin="/decide We never charge.\nHello\n")
    assert "Told of" not in done.err
    assert "Europe" not in system_of(wire_server)
    assert (decided(x), decided(y)) == (["Only in Europe."], ["We never charge."])
    first, second = sorted(ledgers(home).items(), key=lambda each: len(each[0]))
    assert (first[0], bool(re.fullmatch(r"app-[0-9a-f]{6}\.md", second[0]))) == ("app.md", True)
    for (_, text), program in zip((first, second), two, strict=True):
        assert text.startswith(f"# Decision Ledger: app\n\n<!-- project root: {program.project} -->\n\n- [")
    ids = {document(path)["project_root"]: path.stem for path in x.files}
    for program in two:
        offered = program.within(stdin="").out
        assert offered.startswith(f"{ids[str(program.project)]}  ")
        assert "~/" not in offered


def test_sol_08_the_session_of_another_project_of_that_name_is_offered_with_its_path(two):
    """Where there is none of this one: their names alone look the same."""
    x, y = two
    x.within("--fresh", stdin="Hello\n")
    assert "  app (~/x/app)  " in y.within(stdin="").out


def test_sol_08_the_list_of_a_project_leaves_out_another_of_its_name(two, monkeypatch, capsys):
    """`pi sessions ls` in one of them."""
    for program in two:
        program.within("--fresh", stdin="Hello\n")
    for program in two:
        monkeypatch.chdir(program.project)
        capsys.readouterr()
        assert main(["sessions", "ls", "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert [row["cwd"] for row in rows] == [str(program.project)]


def test_sol_08_an_older_session_belongs_to_its_directory_or_to_every_one_of_its_name(two, home, wire_server):
    """One that has only a name, until it is resumed in one: then it is that project's alone."""
    x, y = two
    with Session.create(open_store("soleur", cwd=""), facts={"project_name": "app"}) as session:
        session.append(user_entry("Hello"))
    path = Path(session.ref.path)
    saved = document(path)
    del saved["cwd"]
    path.write_text(json.dumps(saved, indent=2) + "\n")
    for program in two:
        assert program.within(stdin="").out.startswith(f"{session.id}  ")
    y.within(stdin="y\n/decide We never charge.\n")
    assert document(path)["project_root"] == str(y.project)
    x.within("--fresh", stdin="Hello\n")
    assert not x.within(stdin="").out.startswith(session.id)
    assert (decided(x), decided(y)) == ([], ["We never charge."])


@pytest.mark.parametrize("words", [("decisions", "-p", "app"), ("--fresh", "--project", "app")])
def test_sol_08_a_name_that_two_projects_have_lists_both(two, words):
    """3, and their paths, of which each is enough."""
    for program, text in zip(two, ("Per seat.", "Never."), strict=True):
        program.within("--fresh", stdin=f"/decide {text}\n")
    done = two[0].within(*words)
    assert (done.code, done.out) == (3, "")
    assert all(f"~/{each}/app" in done.err for each in "xy")
    one = two[0].within("decisions", "-p", "~/y/app")
    assert (one.code, "Never." in one.out, "Per seat." in one.out) == (0, True, False)
    both = two[0].within("decisions").out
    assert all(f"app  ~/{each}/app\n" in both for each in "xy")


def test_sol_08_another_project_is_named(soleur, home, wire_server):
    """Its sessions are offered, and new ones are its own; an unknown one is an error."""
    soleur.answers(wire_server, "Hm.")
    soleur.within("--fresh", stdin="/decide Only in Europe.\nHello\n")
    (mine,) = soleur.files
    other = Program("soleur", home, home / "other")
    assert other.within("--project", "acme", stdin="").out.startswith(f"{mine.stem}  ")
    done = other.within("--project", "acme", "--fresh", stdin="And now?\n")
    assert "Told of 1 decision of acme" in done.err
    (made,) = (path for path in soleur.files if path != mine)
    assert document(made)["project_root"] == str(soleur.project)
    done = other.within("--project", "nothing")
    assert (done.code, done.out) == (3, "")
    assert "Project not found: nothing" in done.err
    assert "acme" in done.err


# --- ledgers that do not say whose they are ---------------------------------------------------------------


def old_ledger(soleur) -> Path:
    path = soleur.home / ".soleur" / "decisions" / "acme.md"
    path.parent.mkdir(parents=True)
    path.write_text("# Decision Ledger: acme\n\n- [2026-01-31 09:05] [Manual] Only in Europe.\n")
    return path


def test_sol_08_in_a_pipe_an_old_ledger_is_only_read_and_one_notice_says_so(soleur, wire_server):
    """What is decided stays in the session until somebody says whose the ledger is."""
    soleur.answers(wire_server, "Hm.")
    path = old_ledger(soleur)
    before = path.read_text()
    done = soleur.within("--fresh", stdin="/decide Hire two.\nHello\n/decisions\n")
    assert (done.code, done.err.count("names no project")) == (0, 1)
    assert "Only in Europe." in system_of(wire_server)
    assert re.findall(r"  Manual  (.*)\n", done.out) == ["Only in Europe.", "Hire two."]
    assert ledgers(soleur.home) == {"acme.md": before}
    assert decided(soleur) == ["Only in Europe.", "Hire two."]


def test_sol_12_what_is_in_a_ledger_that_is_only_read_is_not_withdrawn(soleur, wire_server):
    """And no session says that it was; what only a session has decided is."""
    path = old_ledger(soleur)
    before = path.read_text()
    done = soleur.within("--fresh", stdin="/undecide 1\n")
    assert ("it may be another project's" in done.err, soleur.files) == (True, [])
    done = soleur.within("--fresh", stdin="/decide Hire two.\n/undecide Hire\n/decisions\n")
    assert "Withdrawn: Hire two." in done.err
    assert re.findall(r"  Manual +(.*)\n", done.out) == ["Only in Europe."]
    assert path.read_text() == before


def test_sol_08_a_ledger_whose_root_is_gone_is_left_alone_in_a_pipe(two, home):
    """It may be that of a project that was moved, or another one's: its decisions are not told."""
    x, y = two
    x.within("--fresh", stdin="/decide Per seat.\n")
    before = ledgers(home)
    x.project.rename(home / "away")
    done = y.within("--fresh", stdin="/decide Never.\n/decisions\n")
    assert (done.code, done.err.count("of a project that is gone")) == (0, 1)
    assert re.findall(r"  Manual  (.*)\n", done.out) == ["Never."]
    assert ledgers(home) == before


@pytest.mark.process
@pytest.mark.parametrize("answer", ["y", "n"])
def test_sol_08_at_a_terminal_an_old_ledger_is_offered_once(soleur, wire_server, answer):
    """A yes makes it the project's; after a no the project has one of its own, and it stays as it is. What
    the project's sessions decided while nobody had said so is there, whatever the answer."""
    soleur.answers(wire_server, "Hm.")
    path = old_ledger(soleur)
    before = path.read_text()
    soleur.within("--fresh", stdin="/decide Per seat.\n")
    with soleur.terminal("--fresh") as terminal:
        terminal.until("~/acme? [Y/n]")
        terminal.send(f"{answer}\r")
        terminal.until(MODEL)
        say(terminal, "/decide Hire two.")
        terminal.until("Decided: Hire two.")
        until_idle(terminal)
        terminal.keys("c-d")
        assert terminal.wait() == 0
    known = [*(["Only in Europe."] if answer == "y" else []), "Per seat.", "Hire two."]
    done = soleur.within("--fresh", stdin="/decisions\n")
    assert ("names no project" in done.err, re.findall(r"  Manual  (.*)\n", done.out)) == (False, known)
    if answer == "y":
        assert path.read_text().startswith(f"{before}<!-- project root: {soleur.project} -->\n- [")
    else:
        assert path.read_text() == before


@pytest.mark.process
def test_sol_08_at_a_terminal_the_ledger_of_a_project_that_was_moved_is_offered(
    two, home, monkeypatch, capsys
):
    """A yes makes it that of the directory where the project is now, and its sessions follow: `pi sessions
    ls` lists them there, too."""
    x, y = two
    x.within("--fresh", stdin="/decide Per seat.\n")
    x.project.rename(home / "away")
    with y.terminal("--fresh") as terminal:
        terminal.until("~/y/app? [Y/n]")
        assert any("the ledger of ~/x/app, which is gone" in line for line in terminal.screen)
        terminal.send("\r")
        terminal.until("Told of 1 decision of app")
        until_idle(terminal)
        terminal.keys("c-d")
        assert terminal.wait() == 0
    assert decided(y) == ["Per seat."]
    (mine,) = (path for path in x.files if document(path)["project_root"] == str(x.project))
    assert y.within(stdin="").out.startswith(f"{mine.stem}  ")
    monkeypatch.chdir(y.project)
    capsys.readouterr()
    assert main(["sessions", "ls", "--json"]) == 0
    assert mine.stem in [row["id"] for row in json.loads(capsys.readouterr().out)]
    assert [each["content"] for each in json.loads(y.within("decisions", "-p", "app", "--json").out)] == [
        "Per seat."
    ]
    y.within("load", mine.stem, stdin="/decide Never.\n")
    assert decided(y) == ["Per seat.", "Never."]
    x.project.mkdir()
    assert decided(x) == []


# --- ledgers that cannot be read --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [bytes(413), "# Decision Ledger\n\n- Theirs.\n".encode("utf-16"), b"\0" * (17 << 20)],
    ids=["nul", "utf-16", "too large"],
)
def test_sol_12_a_ledger_that_cannot_be_read_is_set_aside_named_and_begun_anew(soleur, wire_server, data):
    """From all that the sessions have decided; nothing is appended to what nobody can read."""
    soleur.answers(wire_server, "Hm.")
    for text in ("Ours.", "Theirs."):
        soleur.within("--fresh", stdin=f"/decide {text}\n")
    path = soleur.home / ".soleur" / "decisions" / "acme.md"
    path.write_bytes(data)
    done = soleur.within("--fresh", stdin="/decide New.\n/decisions\n")
    assert "~/.soleur/decisions/acme.md.damaged" in done.err
    assert path.with_name("acme.md.damaged").read_bytes() == data
    assert re.findall(r"\[Manual\] (.*)\n", path.read_text()) == ["Ours.", "Theirs.", "New."]
    assert re.findall(r"  Manual  (.*)\n", done.out) == ["Ours.", "Theirs.", "New."]
    again = soleur.within("--fresh", stdin="Hello\n")
    assert "damaged" not in again.err


@pytest.mark.parametrize("kind", ["file", "link"])
def test_sol_12_ledgers_whose_folder_cannot_be_read_hide_no_decision(soleur, wire_server, kind):
    """The ledger is named, what the sessions have decided is told, and what is decided comes there later."""
    soleur.answers(wire_server, "Hm.")
    soleur.within("--fresh", stdin="/decide Ours.\n")
    folder = soleur.home / ".soleur" / "decisions"
    folder.rename(folder.with_name("away"))
    folder.write_text("") if kind == "file" else folder.symlink_to("/proc")
    done = soleur.within("--fresh", stdin="/decide New.\nHello\n/decisions\n")
    assert (done.code, "decisions/acme.md: " in done.err) == (0, True)
    assert re.findall(r"  Manual  (.*)\n", done.out) == ["Ours.", "New."]
    assert "Ours." in system_of(wire_server)
    folder.unlink()
    folder.with_name("away").rename(folder)
    assert decided(soleur) == ["Ours.", "New."]
    assert re.findall(r"\[Manual\] (.*)\n", (folder / "acme.md").read_text()) == ["Ours.", "New."]
