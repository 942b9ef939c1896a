"""The rules for all programs that the engine keeps: G-2, G-4, G-5, G-8."""

import json
import os
import stat
import sys

import pytest

from perdure import PerdureError, SessionManager
from perdure.session.session import Session
from perdure.testing import assistant_entry, user_entry
from tests import processes


@pytest.fixture
def manager(tmp_path):
    return SessionManager(tmp_path / "store")


def test_g_2_what_a_file_holds_beside_what_is_known_is_kept_byte_for_byte(tmp_path):
    """Unknown header members, kinds and fields survive reading, appending and forking."""
    folder = tmp_path / "store"
    folder.mkdir()
    lines = [
        b'{"type":"session","version":3,"id":"abc","timestamp":"2026-01-31T09:05:00.000Z","cwd":"/","mood":"calm"}',
        b'{"type":"message","id":"a","parentId":null,"timestamp":"t","message":{"role":"user","content":"hi","x":1e400}}',
        b'{"id":"b","type":"zebra", "parentId":"a","stripes":[1.0, 9007199254740993]}',
        b'{"type":"message","id":"c","parentId":"b","message":{"role":"oracle","content":"\\ud800","usage":{"z":0}}}',
    ]
    path = folder / "2026-01-31T09-05-00-000Z_abc.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    manager = SessionManager(folder)
    manager.save("abc", [user_entry("more")])
    assert path.read_bytes().split(b"\n")[:4] == lines
    session = Session.view(manager._store, manager._find("abc"))
    assert [entry.raw for entry in session.entries[:3]] == lines[1:]
    fork = session.fork()
    assert [entry.raw for entry in manager._store.read(fork).entries[:3]] == lines[1:]


def test_g_4_any_listed_id_and_any_unique_beginning_of_it_is_accepted(manager):
    """Every call that takes an id takes what the listing shows, and a prefix that only one has."""
    for _ in range(5):
        manager.save(manager.create_session(), [user_entry("x")])
    ids = [summary.id for summary in manager.list_sessions()]
    for id in ids:
        unique = next(id[:n] for n in range(1, 13) if sum(other.startswith(id[:n]) for other in ids) == 1)
        assert manager.load_session(unique) == manager.load_session(id) != []
    manager.save(ids[0][:11], [user_entry("y")])
    assert len(manager.load_session(ids[0])) == 2
    manager.delete_session(ids[0][:11])
    assert ids[0] not in [summary.id for summary in manager.list_sessions()]


def test_g_4_files_that_others_named_have_ids_too(tmp_path):
    """A copy called anything is listed, loaded, written to and deleted by the id it is listed with."""
    folder = tmp_path / "store"
    folder.mkdir()
    line = b'{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"hi"}}\n'
    for name in ("my notes (copy).jsonl", "-x.jsonl", "…ünïcode….jsonl", "..jsonl", "a_b_c.jsonl"):
        (folder / name).write_bytes(line)
    manager = SessionManager(folder)
    listed = [summary.id for summary in manager.list_sessions()]
    assert sorted(listed) == sorted(["my notes (copy)", "-x", "…ünïcode…", ".", "a_b_c"])
    for id in listed:
        manager.save(id, [user_entry("more")])
        assert len(manager.load_session(id)) == 2
        manager.delete_session(id)
    assert manager.list_sessions() == []


def test_g_4_an_ambiguous_prefix_lists_the_candidates(tmp_path):
    """Exit code 3, and the ids to choose from."""
    folder = tmp_path / "store"
    folder.mkdir()
    for id in ("aaa111", "aaa222", "bbb"):
        (folder / f"2026-01-31T09-05-00-000Z_{id}.jsonl").touch()
    with pytest.raises(PerdureError, match="2 sessions match 'aaa'") as caught:
        SessionManager(folder).load_session("aaa")
    assert caught.value.exit_code == 3
    assert "aaa111, aaa222" in caught.value.hint


def test_g_4_one_id_in_two_places_is_ambiguous_not_a_guess(home):
    """A session copied into another project's folder: both paths are named, and each path is accepted."""
    sessions = home / ".pi" / "agent" / "sessions"
    for project in ("--a--", "--b--"):
        (sessions / project).mkdir(parents=True)
        (sessions / project / "2026-01-31T09-05-00-000Z_same.jsonl").touch()
    manager = SessionManager()
    with pytest.raises(PerdureError) as caught:
        manager.save("same", [user_entry("x")])
    assert caught.value.exit_code == 3
    for path in sorted(sessions.rglob("*.jsonl")):
        assert str(path) in caught.value.hint
        manager.save(str(path), [user_entry("x")])
        assert len(manager.load_session(str(path))) == 1


def test_g_4_the_global_reference_is_accepted(manager):
    """`program:id`, as every list over all programs shows it."""
    id = manager.create_session()
    manager.save(f"pi:{id}", [user_entry("x")])
    assert len(manager.load_session(f"pi:{id[:8]}")) == 1


def test_g_4_an_unknown_id_names_the_nearest(manager):
    id = manager.create_session()
    typo = id[:5] + ("0" if id[5] != "0" else "1") + id[6:]
    with pytest.raises(PerdureError, match=f"^Session not found: {typo}") as caught:
        manager.load_session(typo)
    assert caught.value.exit_code == 3
    assert id in caught.value.hint
    with pytest.raises(PerdureError, match=r"^Session not found: "):
        manager.load_session("")


def test_g_5_an_error_names_the_file_the_cause_and_what_to_do(manager, monkeypatch):
    """One sentence, no path left out, a remedy, and an exit code that is not 0."""
    id = manager.create_session()
    path = manager._find(id).path

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(PerdureError) as caught:
        manager.save(id, [user_entry("x")])
    error = caught.value
    assert str(error) == f"Not saved: {path}: No space left on device"
    assert error.hint == "free some disk space, then try again"
    assert error.exit_code == 1


def test_g_5_each_kind_of_failure_has_its_exit_code():
    from perdure import errors

    codes = {
        errors.PerdureError("x").exit_code: 1,
        errors.UsageError("x").exit_code: 2,
        errors.InvalidId("x", "y").exit_code: 2,
        errors.NotFound("Session", "x").exit_code: 3,
        errors.Ambiguous("x", ["xa", "xb"]).exit_code: 3,
        errors.Held("x", 1).exit_code: 4,
        errors.NotSaved("x", "y").exit_code: 1,
    }
    assert all(code == expected for code, expected in codes.items())


@pytest.mark.process
def test_g_5_a_wrong_flag_is_one_sentence_on_stderr(tmp_path):
    """No traceback, nothing on stdout, exit code 2, and what to run instead."""
    done = processes.run([sys.executable, "-m", "perdure", "--frobnicate"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "--frobnicate" in done.stderr
    assert "--help" in done.stderr


def test_g_8_the_home_can_be_moved(tmp_path, monkeypatch, home):
    """PI_CODING_AGENT_DIR holds everything: sessions, locks and trash; HOME stays empty."""
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "elsewhere"))
    manager = SessionManager()
    id = manager.create_session()
    manager.save(id, [user_entry("x")])
    manager.delete_session(id)
    assert sorted(path.name for path in (tmp_path / "elsewhere").iterdir()) == ["locks", "sessions", "trash"]
    assert list(home.iterdir()) == []


def test_g_8_everything_is_for_its_owner_only(home):
    """Whatever the umask: directories 0700, files 0600, locks, trash and forks included."""
    before = os.umask(0)
    try:
        manager = SessionManager()
        id = manager.create_session()
        manager.save(id, [user_entry("x"), assistant_entry("y")])
        Session.view(manager._store, manager._find(id)).fork()
        manager.delete_session(id)
    finally:
        os.umask(before)
    made = list((home / ".pi").rglob("*"))
    assert len(made) > 8
    for path in [home / ".pi", *made]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_g_8_a_folder_inside_pis_home_shares_its_locks(home, monkeypatch, tmp_path):
    """Two ways to the same session are one lock: the second opener is refused, whichever way it came."""
    monkeypatch.chdir(tmp_path)
    usual = SessionManager(wait=0)
    id = usual.create_session()
    path = usual._find(id).path
    by_folder = SessionManager(os.path.dirname(path), wait=0)
    with Session.open(usual._store, usual._find(id)), pytest.raises(PerdureError, match="is held by process"):
        by_folder.save(id, [user_entry("x")])


def test_g_8_the_note_in_the_trash_is_plain_json(manager, tmp_path):
    id = manager.create_session()
    manager.delete_session(id)
    note = json.loads((tmp_path / "store" / "trash" / id / "trash.json").read_text())
    assert set(note) == {"program", "id", "deleted", "title", "root", "names", "as"}
