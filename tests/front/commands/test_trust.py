"""`trust`: what is shown, recorded, listed and taken back."""

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pexpect
import pytest

from perdure.agent.trust import Trust
from perdure.errors import NotFound, PerdureError, UsageError
from perdure.front.commands.trust import trust
from perdure.front.output import Output, OutputLost
from perdure.programs.pi import main
from tests import processes
from tests.front.typed import Typed


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(capsys):
    def run(dir: str | None = None, *, list: bool = False, revoke: bool = False, json: bool = False) -> Done:
        capsys.readouterr()
        code = trust(SimpleNamespace(dir=dir, list=list, revoke=revoke, yes=True), Output(json=json))
        return Done(code, *capsys.readouterr())

    return run


@pytest.fixture
def folder(home, monkeypatch) -> Path:
    """A project in the user's home, in which they are, and which brings two things."""
    path = home / "code" / "demo"
    (path / ".pi" / "extensions").mkdir(parents=True)
    (path / ".pi" / "extensions" / "a.py").touch()
    (path / ".pi" / "settings.json").write_text('{"mcpServers": {"x": {"command": "evil", "args": ["now"]}}}')
    monkeypatch.chdir(path)
    return path


SHOWN = (
    "~/code/demo:\n"
    "  extensions: Python that runs inside this program, with all your rights\n"
    "    .pi/extensions/a.py\n"
    "  servers: MCP servers: programs with all your rights, or addresses\n"
    "    x: runs evil now\n"
)


@pytest.mark.parametrize("dir", [None, ".", "../demo", "~/code/demo"])
def test_g_10_a_folder_is_trusted_after_what_it_brings_was_shown(dir, run, folder):
    """Once; after that it was already."""
    now = "~/code/demo is trusted now, with everything below it, also what comes to be there later.\n"
    assert run(dir) == (0, SHOWN + now, "")
    assert Trust().all() == {str(folder): True}
    assert run(dir) == (0, f"{SHOWN}~/code/demo was trusted already.\n", "")


def test_g_10_a_folder_may_be_trusted_by_one_above(run, folder):
    """Which is said, and nothing is recorded for it."""
    Trust().decide(str(folder.parent), True)
    assert run().out.endswith("~/code/demo was trusted already, because ~/code is.\n")
    assert Trust().all() == {str(folder.parent): True}


def test_an_empty_folder_is_no_folder(folder):
    """A script's variable that is not set trusts nothing."""
    assert main(["trust", ""]) == 2
    assert Trust().all() == {}


@pytest.mark.process
@pytest.mark.parametrize(("typed", "is_trusted"), [("y", True), ("n", False), ("", False)])
def test_g_10_at_a_terminal_it_is_asked_behind_the_list(typed, is_trusted, folder):
    child = processes.spawn([*processes.PI, "trust"], cwd=folder)
    child.expect_exact("x: runs evil now")
    child.expect_exact("Trust ~/code/demo, and everything below it? [y/N] ")
    child.sendline(typed)
    child.expect_exact("is trusted now" if is_trusted else "Nothing is changed.")
    child.expect(pexpect.EOF)
    child.close()
    assert Trust().is_trusted(str(folder)) == is_trusted


@pytest.mark.process
def test_g_10_with_yes_nobody_is_asked(folder):
    child = processes.spawn([*processes.PI, "trust", "-y"], cwd=folder)
    child.expect_exact("is trusted now")
    child.expect(pexpect.EOF)
    child.close()
    assert Trust().is_trusted(str(folder))


@pytest.fixture
def answer(folder, capsys):
    """What `pi trust` says to lines that are piped in."""

    def answer(typed: str, *options: str) -> Done:
        capsys.readouterr()
        given = Typed(typed)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.stdin", given)
            code = main(["trust", *options])
        return Done(code, *capsys.readouterr())

    return answer


@pytest.mark.parametrize(("typed", "is_trusted"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_g_10_without_a_terminal_an_answer_is_read(typed, is_trusted, answer, folder):
    """Behind all that it would allow; without a yes nothing changes."""
    done = answer(typed)
    assert done.code == 0
    assert done.out.startswith(SHOWN)
    assert "Trust ~/code/demo, and everything below it? [y/N]" in done.err
    assert Trust().is_trusted(str(folder)) == is_trusted


@pytest.mark.parametrize("typed", ["", "perhaps\n"])
def test_g_10_the_end_of_input_trusts_nothing(typed, answer, folder):
    """It names the option that answers, and what was piped in and is no answer."""
    done = answer(typed)
    assert done.code == 1
    assert "--yes" in done.err
    assert typed.strip() in done.err
    assert "messages" not in done.err  # of which there are none here
    assert Trust().all() == {}


def test_g_10_a_folder_that_brings_nothing_is_asked_about_as_well(answer, folder):
    """Without a terminal: a yes is for what comes to be there."""
    (folder / "empty").mkdir()
    assert answer("", "empty").code == 1
    assert Trust().all() == {}


def test_g_10_json_without_yes_only_shows(answer, folder):
    """Whatever is piped in."""
    done = answer("y\n", "--json")
    assert (done.code, done.data["trusted"], done.data["new"]) == (0, False, False)
    assert done.data["offers"]
    assert Trust().all() == {}


@pytest.mark.parametrize("steps", [0, 1])
def test_g_10_a_yes_comes_over_a_no(steps, run, folder):
    """Over its own, and over one from above."""
    Trust().decide(str([folder, folder.parent][steps]), False)
    assert "is trusted now" in run().out
    assert Trust().is_trusted(str(folder))


def test_g_10_a_folder_that_brings_nothing_can_be_trusted(run, home, monkeypatch):
    """For what will come to be there."""
    (home / "empty").mkdir()
    done = run("~/empty")
    assert done.out.startswith("~/empty: nothing but text, so far\n~/empty is trusted now")


def test_g_10_what_could_not_be_shown_is_not_trusted(folder):
    """A yes to nobody knows what is none."""

    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    with pytest.raises(OutputLost):
        trust(SimpleNamespace(dir=None, list=False, revoke=False, yes=True), Output(stdout=Full()))
    assert Trust().all() == {}


def test_trust_as_json(run, folder):
    """What was decided, whether now, by which decision, and all that it allows."""
    done = run(json=True)
    offers = done.data.pop("offers")
    assert {offer["kind"]: offer["items"] for offer in offers} == {
        "extensions": [".pi/extensions/a.py"],
        "servers": ["x: runs evil now"],
    }
    assert all(offer["allows"] for offer in offers)
    assert {key: it for key, it in done.data.items() if key != "offers"} == {
        **{"path": str(folder), "trusted": True, "by": str(folder), "new": True}
    }
    assert not run(json=True).data["new"]


def test_g_10_nothing_dangerous_is_cut(run, folder):
    """Neither as text nor as JSON."""
    for number in range(30):
        (folder / ".pi" / "extensions" / f"b{number:02}.py").touch()
    server = {"command": "sh", "args": ["-c", "x" * 5000 + "END"]}
    (folder / ".pi" / "settings.json").write_text(json.dumps({"mcpServers": {"x": server}}))
    text = run().out
    for offer in run(json=True).data["offers"]:
        assert all(f"    {item}\n" in text for item in offer["items"])
    assert f"x: runs sh -c {'x' * 5000}END\n" in text
    assert text.count("extensions/b") == 30


def test_a_folder_has_to_be_there_and_to_be_one(run, folder):
    """Exit 3 and exit 2; nothing is decided."""
    with pytest.raises(NotFound, match="Folder not found: nowhere"):
        run("nowhere")
    with pytest.raises(UsageError, match=r"\.pi/settings.json is no folder"):
        run(".pi/settings.json")
    with pytest.raises(NotFound):
        run("nowhere", revoke=True)
    assert Trust().all() == {}


def test_g_4_the_program_has_the_command_and_its_exit_codes(folder, capsys):
    """As it is typed."""
    assert main(["trust", "nowhere"]) == 3
    assert main(["trust", ".pi/settings.json"]) == 2
    assert main(["trust", "--list", "nowhere"]) == 2
    assert main(["trust", "--revoke"]) == 3
    assert main(["trust", "../demo", "--json", "--yes"]) == 0
    assert main(["trust", "--list"]) == 0
    assert Trust().all() == {str(folder): True}
    assert capsys.readouterr().out.endswith("trusted   ~/code/demo\n")


# --- all decisions ------------------------------------------------------------------------------------


def test_decisions_are_listed(run, folder, home):
    """As they are typed, with what is gone."""
    assert run(list=True) == (
        0,
        "",
        "No folder is trusted or refused; `pi trust` trusts the one you are in.\n",
    )
    assert run(list=True, json=True).data == []
    gone = str(home / "gone")
    Trust().decide(str(folder), True)
    Trust().decide(gone, False)
    assert run(list=True).out == "DECISION  FOLDER\ntrusted   ~/code/demo\nrefused   ~/gone (gone)\n"
    assert run(list=True, json=True).data == [
        {"path": str(folder), "trusted": True, "exists": True},
        {"path": gone, "trusted": False, "exists": False},
    ]


@pytest.mark.parametrize("beside", [{"dir": "x"}, {"revoke": True}])
def test_the_list_takes_nothing_beside_it(beside, run):
    """It is of all folders."""
    with pytest.raises(UsageError, match="--list shows every decision"):
        run(list=True, **beside)


@pytest.mark.parametrize("options", [{}, {"list": True}, {"revoke": True}])
def test_a_damaged_file_is_told_of(options, run, folder, home):
    """And stays as it is."""
    path = home / ".pi" / "agent" / "trust.json"
    path.parent.mkdir(parents=True)
    path.write_text("[]")
    with pytest.raises(PerdureError, match="it holds no object"):
        run(**options)
    assert path.read_text() == "[]"


# --- taking back --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("is_trusted", "word"), [(True, "trusted"), (False, "refused")])
def test_g_10_a_decision_is_taken_back(is_trusted, word, run, folder):
    """Then nothing is decided; and a second time there is nothing to take back."""
    Trust().decide(str(folder), is_trusted)
    said = f"~/code/demo is no longer {word}, and nothing is decided about it.\n"
    assert run(revoke=True) == (0, said, "")
    assert Trust().all() == {}
    assert run(revoke=True) == (3, "", "Nothing to revoke: ~/code/demo is not trusted.\n")


@pytest.mark.parametrize("own", [None, True])
def test_g_10_a_folder_below_a_trusted_one_gets_a_no_of_its_own(own, run, folder):
    """Or it would be trusted still."""
    Trust().decide(str(folder.parent), True)
    Trust().decide(str(folder), own)
    assert run(revoke=True).out == "~/code/demo is refused from now on, although ~/code is trusted.\n"
    assert Trust().all() == {str(folder.parent): True, str(folder): False}
    assert run(revoke=True) == (3, "", "Nothing to revoke: ~/code/demo is refused already.\n")
    assert not Trust().is_trusted(str(folder))


def test_g_10_below_a_refused_folder_the_refusal_is_left(run, folder):
    """A yes of its own goes, a no from above stays."""
    Trust().decide(str(folder.parent), False)
    Trust().decide(str(folder), True)
    said = "~/code/demo is no longer trusted, but ~/code is refused, and so is all below.\n"
    assert run(revoke=True).out == said
    done = run(revoke=True)
    assert (done.code, done.err) == (
        3,
        "Nothing to revoke: ~/code/demo is not trusted, as ~/code is refused.\n",
    )


def test_a_folder_that_is_gone_can_be_revoked(run, home):
    """Its decision is still there; so is that of the root."""
    Trust().decide(str(home / "gone"), True)
    assert run("~/gone", revoke=True).code == 0
    Trust().decide("/", True)
    assert run("/", revoke=True).code == 0
    assert Trust().all() == {}


def test_revoking_as_json(run, folder):
    """What holds afterwards, and whether that is new."""
    Trust().decide(str(folder.parent), True)
    expected = {"path": str(folder), "trusted": False, "by": str(folder)}
    assert run(revoke=True, json=True).data == {**expected, "new": True}
    done = run(revoke=True, json=True)
    assert (done.code, done.data) == (3, {**expected, "new": False})


def test_a_hostile_name_never_reaches_a_terminal_as_it_is(run, home, monkeypatch):
    """In no answer."""
    folder = home / "a\x1b[31m\n\u202eb"
    (folder / ".pi" / "extensions").mkdir(parents=True)
    (folder / ".pi" / "extensions" / "x\x1b]0;y\x07.py").touch()
    monkeypatch.chdir(folder)
    for options in ({}, {"list": True}, {"json": True}, {"revoke": True}, {"revoke": True}):
        done = run(**options)
        text = done.out + done.err
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
