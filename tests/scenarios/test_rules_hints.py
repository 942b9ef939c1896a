"""G-5 in all programs: what an error advises is about its own cause, and can be done where it is read."""

import errno
import json
import os
from pathlib import Path

import pytest

from perdure import AgentSession, SessionManager
from perdure.errors import FolderNotMade, Held, NotFound, NotSaved, PerdureError, Unreadable
from perdure.front.own_settings import OwnSettings
from perdure.programs.aur.command_line import main as aur
from perdure.programs.pi import main as pi
from perdure.session import reference
from perdure.session.session import Session
from perdure.session.stores import files, open_store
from perdure.testing import user_entry
from tests.agent.models.wire_server import refuse, wire_server
from tests.front.one_prompt import Pi
from tests.programs.started import Program

__all__ = ["wire_server"]

HOMES = {"pi": "PI_CODING_AGENT_DIR", "soleur": "SOLEUR_HOME", "sibyl": "SIBYL_HOME", "aur": "AURORA_HOME"}


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "afile"
    path.touch()
    return path


# --- folders that cannot be made --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["afile", "afile/below/it"])
def test_g_5_a_folder_that_cannot_be_made_is_named(name, file):
    """The one that is in the way, and not the one that was wanted below it."""
    with pytest.raises(FolderNotMade) as raised:
        files.make_folder(str(file.parent / name))
    assert raised.value.folder == str(file)
    error = NotSaved("x", raised.value)
    assert f"{file} is not a folder" in error.message
    assert error.hint == "choose another place"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_g_5_a_home_that_cannot_be_made_names_its_variable(monkeypatch, capsys):
    """And speaks neither of sessions that were deleted nor of the trash."""
    monkeypatch.setenv("PI_CODING_AGENT_DIR", "/proc/nope")
    assert pi(["trust", "--yes"]) == 1
    with pytest.raises(NotSaved) as raised:
        SessionManager().create_session()
    for said in (capsys.readouterr().err, raised.value.said):
        assert "the folder /proc/nope cannot be made: No such file or directory" in said
        assert "set PI_CODING_AGENT_DIR to another folder" in said
        assert "trash" not in said


@pytest.mark.parametrize("program", HOMES)
def test_g_5_a_home_that_is_a_file_names_its_variable(program, home, file, monkeypatch):
    """Whatever the program looks for first."""
    monkeypatch.setenv(HOMES[program], str(file))
    store = open_store({"aur": "aurora"}.get(program, program))
    with pytest.raises(NotSaved) as raised, Session.create(store) as session:
        session.append(user_entry("x").body)
    assert f"{file} is not a folder; set {HOMES[program]} to another folder" in raised.value.said


@pytest.mark.process
def test_g_5_a_file_is_no_workspace(home, file):
    done = Program("cortext", home, home / "work").within("init", str(file))
    assert done.code == 1
    assert done.err == f"cortext: Not saved: {file} is not a folder; choose another place\n"
    assert "try again" not in done.err


def test_g_5_settings_that_cannot_be_opened_are_not_to_be_corrected(home):
    """They may be fine: what the system said of them is answered."""
    with pytest.raises(Unreadable) as raised:
        OwnSettings.read(str(home / f"{'x' * 300}.toml"), {})
    assert raised.value.hint == "choose a shorter name"


@pytest.mark.parametrize("kind", [NotSaved, Unreadable])
def test_g_5_what_is_gone_need_not_have_been_a_session(kind):
    error = kind("/x", OSError(errno.ENOENT, "No such file or directory"))
    assert "moved or deleted" in error.hint
    assert "sessions" not in error.hint


# --- sessions ---------------------------------------------------------------------------------------------


def test_g_5_a_held_session_is_not_to_be_forked_where_nothing_forks():
    assert "fork" not in Held("x", 1).said


@pytest.fixture
def partner(home) -> Program:
    return Program("soleur", home, home / "acme")


@pytest.mark.process
def test_g_5_in_a_conversation_what_can_be_typed_there_is_advised(partner, home):
    """An unknown session, one that was deleted, and one that another process talks in."""
    store = open_store("soleur")
    sessions = [Session.create(store) for _ in range(2)]
    for session in sessions:
        session.append(user_entry("x").body)
    held, deleted = sessions
    deleted.close()
    store.delete(deleted.ref)
    with held:
        typed = f"/load nothing\n/load {deleted.id}\n/load {held.id}\n"
        unknown, gone, busy = partner.within("--fresh", stdin=typed).err.splitlines()
        assert "/sessions lists them" in unknown
        assert f"pi sessions restore soleur:{deleted.id}`" in gone
        assert f"held by process {os.getpid()}; leave it there first" in busy
        assert "--fresh" not in busy
        assert "`soleur sessions` lists them" in partner.within("load", "nothing").err
        assert "--fresh" in partner.within("load", held.id).err


def test_g_5_a_deleted_session_is_known_by_its_kind(manager_with_one):
    manager, id = manager_with_one
    manager.delete_session(id)
    with pytest.raises(NotFound) as raised:
        reference.find(id)
    assert raised.value.is_deleted
    assert not raised.value.is_unheard_of
    with pytest.raises(NotFound) as raised:
        reference.find("zzz")
    assert raised.value.is_unheard_of


@pytest.fixture
def manager_with_one(home) -> tuple[SessionManager, str]:
    manager = SessionManager()
    id = manager.create_session()
    manager.save(id, [user_entry("x")])
    return manager, id


@pytest.mark.parametrize("days", ["1" + "0" * 24, "9" * 400, "0000000000000000030", "1.5"])
def test_g_5_any_number_of_days_is_one(days, home, capsys):
    assert aur(["spawn", "--clean-sessions", days]) == 0
    assert "Deleted 0 sessions" in capsys.readouterr().out


# --- keys and settings ------------------------------------------------------------------------------------


@pytest.mark.process
def test_g_5_a_401_of_anthropics_names_anthropics_key(home, tmp_path, wire_server, monkeypatch):
    """And of a model of one's own, the file that it is in."""
    agent = home / ".pi" / "agent"
    agent.mkdir(parents=True)
    providers = {
        "anthropic": {"baseUrl": wire_server.url},
        "mine": {
            "baseUrl": wire_server.url,
            "api": "openai-completions",
            "apiKey": "k",
            "models": [{"id": "m"}],
        },
    }
    (agent / "models.json").write_text(json.dumps({"providers": providers}))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-wrong")
    wire_server.script(refuse(401, b'{"error":{"message":"invalid x-api-key"}}'))
    said = {
        model: Pi(home, tmp_path)("-p", "-m", model, "hi").stderr.decode()
        for model in ("anthropic/claude-sonnet-4-5", "mine/m")
    }
    assert "correct the key in ANTHROPIC_API_KEY" in said["anthropic/claude-sonnet-4-5"]
    assert "correct its api_key in ~/.pi/agent/models.json" in said["mine/m"]
    assert not any("OPENAI_API_KEY" in each for each in said.values())


def test_g_5_settings_passed_in_python_are_blamed_on_nobody_else(home, tmp_path):
    """No file is named that does not even exist."""
    with pytest.raises(PerdureError) as raised:
        AgentSession(cwd=tmp_path, settings={"models": [{"id": "m"}]}).models()
    assert "the settings passed in: model custom/m" in raised.value.message
    assert "settings.json" not in raised.value.said


def test_g_5_a_prompt_without_files_is_not_to_be_read_in_parts(partner, wire_server):
    partner.answers(wire_server, "Why?")
    done = partner.within("--fresh", stdin=f"{'word ' * 400_000}\n")
    assert "say less at once" in done.err
    assert "without @" not in done.err
