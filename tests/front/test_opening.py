"""Which session `pi --print` goes on with: real processes, real files, and a server in place of the model."""

import os
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from perdure.agent import aside
from perdure.programs.pi import main
from perdure.session.catalog import Catalog, Scope
from perdure.session.manager import SessionManager
from perdure.testing import user_entry
from tests import processes
from tests.agent.models.wire_server import events, wire_server
from tests.front.commands.machine import Machine
from tests.front.one_prompt import pi, said, talked
from tests.layouts import ALL
from tests.session.snapshot import snapshot

__all__ = ["pi", "talked", "wire_server"]

pytestmark = pytest.mark.process


def ask(pi, *words: str) -> list[str]:
    """What the model was sent, after a prompt in a session chosen like that."""
    done = pi("-p", *words)
    assert done.returncode == 0, done.stderr
    return [text for _, text in pi.messages()]


def test_c_goes_on_with_the_newest_of_this_project(talked):
    assert ask(talked, "-c", "more") == ["the flaky zebra", "yes", "more", "yes"]
    assert len(talked.sessions.list_sessions()) == 1


def test_c_without_a_session_here_is_an_error_and_makes_none(pi, wire_server):
    pi.use(wire_server)
    done = pi("-p", "-c", "more")
    assert done.returncode == 3
    assert b"without -c" in done.stderr
    assert pi.sessions.list_sessions() == []


@pytest.mark.parametrize("text", ["id", "the zebra talk", "flaky"])
def test_r_goes_on_by_id_by_name_or_by_what_was_said(talked, text):
    text = talked.id[:6] if text == "id" else text
    assert ask(talked, "-r", text, "more")[-2:] == ["more", "yes"]
    assert len(talked.sessions.list_sessions()) == 1


def test_r_with_several_hits_lists_all_of_them_and_opens_none(talked):
    """One a line, by what `--session` takes."""
    for number in range(6):
        talked.sessions.save(talked.sessions.create_session(), [user_entry(f"another zebra, {number}")])
    known = {summary.id: summary.message_count for summary in talked.sessions.list_sessions()}
    done = talked("-p", "-r", "zebra", "more")
    assert done.returncode == 3
    first, *listed = done.stderr.decode().splitlines()
    assert first == "perdure: 7 sessions match 'zebra':"
    assert {line.split()[0] for line in listed} == {f"pi:{id}" for id in known}
    assert {summary.id: summary.message_count for summary in talked.sessions.list_sessions()} == known


def test_r_with_no_hit_is_not_found(talked):
    assert talked("-p", "-r", "giraffe", "more").returncode == 3


@pytest.mark.parametrize("as_path", [False, True])
def test_session_goes_on_with_that_one_or_fails(talked, as_path, tmp_path_factory):
    """Also a file outside any home."""
    name = talked.id
    if as_path:
        (found,) = (talked.home / ".pi" / "agent" / "sessions").rglob(f"*{name}.jsonl")
        moved = tmp_path_factory.mktemp("elsewhere") / found.name
        found.rename(moved)
        name = str(moved)
    assert talked("-p", "--session", name, "more").returncode == 0
    if as_path:
        assert b'"more"' in moved.read_bytes()
    assert talked("-p", "--session", "nothing", "more").returncode == 3


def test_session_id_makes_it_once_and_then_goes_on_with_it(talked):
    for _ in range(2):
        assert talked("-p", "--session-id", "my-talk", "hello").returncode == 0
    assert {s.id: s.message_count for s in talked.sessions.list_sessions()}["my-talk"] == 4
    assert talked("-p", "--session-id", "../x", "hello").returncode == 2


def test_fork_leaves_the_original_as_it_was(talked):
    (path,) = (talked.home / ".pi" / "agent" / "sessions").rglob("*.jsonl")
    before = path.read_bytes()
    assert ask(talked, "--fork", talked.id, "other way") == ["the flaky zebra", "yes", "other way", "yes"]
    assert path.read_bytes() == before
    assert len(talked.sessions.list_sessions()) == 2


def test_a_fork_goes_on_from_an_entry(talked):
    first = talked.sessions.load_session(talked.id)[0].id
    assert ask(talked, "--fork", talked.id, "--at", first, "other way") == [
        "the flaky zebra",
        "other way",
        "yes",
    ]


def far_too_long(pi, wire_server) -> str:
    return "x" * 80_000


def no_model(pi, wire_server) -> str:
    pi.use(wire_server, models=[], default_model="gone")
    return "hello"


@pytest.mark.parametrize("failing", [far_too_long, no_model])
def test_a_fork_in_which_nothing_was_said_is_removed(talked, wire_server, failing):
    before = snapshot(talked.home / ".pi" / "agent" / "sessions")
    prompt = failing(talked, wire_server)
    done = talked("-p", "--fork", talked.id, prompt)
    assert (done.returncode, b"Go on" in done.stderr) == (1, False)
    assert snapshot(talked.home / ".pi" / "agent" / "sessions") == before


def contents(machine: Machine) -> dict[str, object]:
    """Of files: a project's folder may stay."""
    return {name: content for name, (_, content, *_) in machine.files().items() if content is not None}


@pytest.mark.parametrize("layout", ALL)
def test_a_fork_is_removed_whatever_layout_it_has(pi, wire_server, monkeypatch, capsys, layout):
    """And is kept if something was said in it."""
    wire_server.script(events(said("yes")))
    pi.use(wire_server)
    machine = Machine(pi.home, monkeypatch, capsys)
    original = machine.add(layout, "the flaky zebra")
    before = contents(machine)
    assert pi("-p", "--fork", original.path, "x" * 80_000).returncode == 1
    assert contents(machine) == before
    assert pi("-p", "--fork", original.path, "more").returncode == 0
    (fork,) = {ref.path for ref in machine.store(layout).list()} - {original.path}
    assert machine.texts(layout, next(ref for ref in machine.store(layout).list() if ref.path == fork)) == [
        "the flaky zebra",
        "more",
        "yes",
    ]


def test_a_fork_that_goes_on_elsewhere_is_of_the_project_it_goes_on_in(talked, tmp_path_factory):
    talked.project = tmp_path_factory.mktemp("other")
    done = talked("-p", "--fork", talked.id, "other way")
    assert (done.returncode, b"belongs to" in done.stderr) == (0, False)
    assert ask(talked, "-c", "more")[-4:] == ["other way", "yes", "more", "yes"]


def test_no_session_keeps_nothing(pi, wire_server):
    wire_server.script(events(said("secret")))
    pi.use(wire_server)
    done = pi("-p", "--no-session", "hello")
    assert (done.stdout, done.stderr) == (b"secret\n", b"")
    assert pi.sessions.list_sessions() == []


def test_a_session_of_another_directory_stays_here_and_says_so(talked, tmp_path_factory):
    talked.project = tmp_path_factory.mktemp("other")
    done = talked("-p", "--session", talked.id, "more")
    assert done.returncode == 0
    assert b"belongs to" in done.stderr


def test_c_does_not_go_on_with_a_session_in_which_nothing_was_said(talked, monkeypatch):
    monkeypatch.chdir(talked.project)
    made = SessionManager().create_session()
    assert ask(talked, "-c", "more")[0] == "the flaky zebra"
    assert {s.id: s.message_count for s in talked.sessions.list_sessions()}[made] == 0


def test_processes_that_want_one_session_id_at_once_make_it_once(talked):
    command = [sys.executable, "-m", "perdure", "-p", "--session-id", "same", "hello"]
    pipe = subprocess.DEVNULL
    started = [
        processes.Popen(command, cwd=talked.project, stdin=pipe, stdout=pipe, stderr=pipe) for _ in range(4)
    ]
    assert [process.wait(timeout=60) for process in started] == [0] * 4
    assert [s.message_count for s in talked.sessions.list_sessions() if s.id == "same"] == [8]


def test_a_session_that_is_held_is_looked_for_once_and_then_waited_for(talked, monkeypatch):
    """Whatever is the newest by the time it is free."""
    monkeypatch.chdir(talked.project)
    held = talked.sessions.open_session(talked.id)
    looked: list[Scope] = []

    def meanwhile() -> None:
        time.sleep(0.3)
        newer = SessionManager()
        newer.save(newer.create_session(), [user_entry("newer")])
        time.sleep(0.3)
        held.close()

    def catch_up(catalog: Catalog, scope: Scope, *arguments: Any, **options: Any) -> Any:
        found = really_catch_up(catalog, scope, *arguments, **options)
        looked.append(scope)
        if len(looked) == 1:
            threading.Thread(target=meanwhile).start()
        return found

    really_catch_up = Catalog.catch_up
    monkeypatch.setattr(Catalog, "catch_up", catch_up)
    assert main(["-p", "-c", "more"]) == 0
    assert len(looked) == 1
    texts = [entry.text for entry in talked.sessions.load_session(talked.id)]
    assert texts == ["the flaky zebra", "yes", "more", "yes"]


def test_a_session_that_is_never_let_go_of_is_exit_4(talked, monkeypatch, capsys):
    monkeypatch.chdir(talked.project)
    monkeypatch.setattr(aside, "PATIENCE", 0.2)
    with talked.sessions.open_session(talked.id):
        assert main(["-p", "--session", talked.id, "more"]) == 4
    assert f"Session {talked.id} is held by process {os.getpid()}" in capsys.readouterr().err
