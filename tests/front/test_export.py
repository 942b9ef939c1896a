"""`export`: every layout as every format, whole or not at all, and the session itself untouched."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import pytest

from perdure.session import tree
from perdure.session.entry import meaning
from perdure.session.layouts import LAYOUTS
from perdure.session.stores import Found, Store, open_store
from perdure.testing import user_entry
from perdure.testing.corpus import record
from perdure.testing.writing import child, turns
from tests import processes
from tests.front.commands.machine import Machine, at_terminal, process
from tests.front.test_html import Page
from tests.front.test_render import conversation, kept
from tests.layouts import ALL, store_of
from tests.session.snapshot import snapshot

DOCUMENTS = ["md", "html", "json"]
FILES = [layout for layout in ALL if not LAYOUTS[layout].marker]
PLACES = {
    "pi": "sessions/--x--/2026-01-31T09-05-00-123Z_{}.jsonl",
    "aurora": "spawn/sessions/{}.jsonl",
    "soleur": "sessions/{}.json",
    "sibyl": "sessions/{}/session.lisp",
    "cortext": "conversations/{}",
}


@pytest.fixture
def machine(home, monkeypatch, capsys) -> Machine:
    (home / "elsewhere").mkdir()
    monkeypatch.chdir(home / "elsewhere")
    return Machine(home, monkeypatch, capsys)


def saved(machine: Machine, layout: str) -> Found:
    """A conversation with everything in it, as this layout keeps it."""
    return kept(machine.store(layout), conversation(), title="The auth bug").ref


def opened(name: str, exported: Path, home: Path) -> tuple[Store, Found]:
    """An exported session, put where its program would look for one of that name."""
    layout, _, id = name.partition(":")
    place = home / PLACES[layout].format(id)
    place.parent.mkdir(parents=True)
    exported.rename(place)
    store = store_of(layout, home)
    (ref,) = store.list()
    return store, ref


def named(err: str) -> str:
    """What an export says that it wrote."""
    return err.split("\n")[0].partition(": ")[2]


def said(store: Store, ref: Found) -> list[tuple[str, str]]:
    page = store.read(ref)
    assert page.problems == []
    path = tree.path(page.entries, tree.fold(page.entries).ends.head)
    return [(entry.role, entry.text) for entry in path if entry.role in ("user", "assistant", "toolResult")]


# --- every layout as every format ---------------------------------------------------------------------


@pytest.mark.parametrize(("layout", "to"), list(product(ALL, ALL)))
def test_a_session_of_any_layout_opens_again_in_any_other(layout, to, machine, tmp_path):
    """With the same messages; what a layout's rules forbid is counted on stderr."""
    ref = saved(machine, layout)
    output = tmp_path / "exported"
    done = machine.run("export", f"{layout}:{ref.id}", "--to", to, "-o", str(output))
    assert (done.code, done.out) == (0, "")
    assert ("forbid" in done.err) == (to == "sibyl" != layout)
    there = said(*opened(named(done.err), output, tmp_path / "home"))
    assert there == said(machine.store(layout), ref)
    assert ("user", "Now the same in logout()") in there


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "to"), list(product(ALL, DOCUMENTS)))
def test_a_session_of_any_layout_is_a_document_of_any_kind(layout, to, machine, tmp_path):
    """The same through a pipe and in a file."""
    ref = saved(machine, layout)
    output = tmp_path / f"talk.{to}"
    piped = machine.run("export", ref.id, "--to", to)
    assert machine.run("export", ref.id, "--to", to, "-o", str(output)).code == 0
    text = output.read_text()
    assert piped.out == text
    assert "Now the same in logout()" in text
    if to == "html":
        assert Page(text).wrong == []
    elif to == "json":
        assert json.loads(text) == machine.run("show", ref.id, "--json").data
    else:
        assert text.startswith("# The auth bug")


@pytest.mark.parametrize("layout", FILES)
def test_a_copy_in_its_own_layout_has_the_same_id_and_bytes(layout, machine, tmp_path):
    """Every entry as it was written."""
    ref = saved(machine, layout)
    store = machine.store(layout)
    output = tmp_path / "copy"
    machine.run("export", ref.id, "--to", layout, "-o", str(output))
    other, copied = opened(f"{layout}:{ref.id}", output, tmp_path / "home")
    assert other.read(copied).problems == []
    assert [entry.raw for entry in other.read(copied).entries] == [
        entry.raw for entry in store.read(ref).entries
    ]


def test_a_session_whose_name_no_new_one_may_have_is_copied_under_another(machine, tmp_path):
    """People name files as they like."""
    ref = saved(machine, "aurora")
    odd = Path(ref.path).with_name("my notes (2).jsonl")
    Path(ref.path).rename(odd)
    done = machine.run("export", "aurora:my notes (2)", "--to", "aurora", "-o", str(tmp_path / "copy"))
    assert done.code == 0, done.err
    assert len(said(*opened(named(done.err), tmp_path / "copy", tmp_path / "home"))) == 7


@pytest.mark.process
@pytest.mark.parametrize("layout", FILES)
def test_a_pipe_gets_the_very_bytes(layout, machine, tmp_path):
    """Of a real process."""
    ref = saved(machine, layout)
    words = [sys.executable, "-m", "perdure", "sessions", "export", ref.id, "--to", layout]
    piped = processes.run(words, capture_output=True, check=True).stdout
    (tmp_path / "copy").write_bytes(piped)
    copied = opened(f"{layout}:{ref.id}", tmp_path / "copy", tmp_path / "home")
    assert said(*copied) == said(machine.store(layout), ref)


def test_the_default_is_markdown_on_stdout(machine):
    """`export ID > talk.md`; and `--json` alone is JSON."""
    ref = saved(machine, "pi")
    assert machine.run("export", ref.id).out.startswith("# The auth bug")
    assert machine.run("export", ref.id, "--json").data["id"] == ref.id
    assert machine.run("export", ref.id, "--json", "--to", "aurora").code == 2


def test_nothing_of_where_it_was_made_is_in_an_export(machine, tmp_path, monkeypatch):
    """It is made in a folder that is gone afterwards, also where a session says nothing of its own."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    ref = machine.add("sibyl", "hello")
    for to in ALL:
        output = tmp_path / f"exported-{to}"
        assert machine.run("export", ref.id, "--to", to, "-o", str(output)).code == 0
        files = [path for path in [output, *output.rglob("*")] if path.is_file()]
        assert files
        assert not [path for path in files if str(tmp_path / "temporary").encode() in path.read_bytes()]
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize(("layout", "to"), list(product(ALL, [*DOCUMENTS, *ALL])))
def test_the_session_is_only_read(layout, to, machine, tmp_path):
    """Nothing in the home changes, but locks."""
    ref = saved(machine, layout)
    before = {
        name: facts for name, facts in snapshot(machine.user, times=True).items() if "locks" not in name
    }
    assert machine.run("export", ref.id, "--to", to, "-o", str(tmp_path / "out")).code == 0
    after = {name: facts for name, facts in snapshot(machine.user, times=True).items() if "locks" not in name}
    assert after == before


# --- what is said about it ----------------------------------------------------------------------------


def test_what_sibyl_forbids_is_told_in_numbers(machine, tmp_path):
    """And what is damaged, with what to do."""
    ref = saved(machine, "pi")
    Path(ref.path).write_bytes(Path(ref.path).read_bytes() + b'{"torn')
    done = machine.run("export", ref.id, "--to", "sibyl", "-o", str(tmp_path / "out"))
    assert done.code == 0
    assert "the rules of sibyl forbid it: 4 model, 1 system, 1 thinking\n" in done.err
    assert f" sessions doctor pi:{ref.id}" in done.err
    assert f"Wrote {tmp_path}/out, " in done.err
    report = machine.run("export", ref.id, "--to", "sibyl", "-o", str(tmp_path / "out"), "--json").data
    assert report["dropped"] == {"model": 4, "system": 1, "thinking": 1}
    assert len(report["problems"]) == 1
    assert report["path"] == str(tmp_path / "out")


def test_other_branches_go_with_a_session_and_are_counted_in_a_document(machine, tmp_path):
    """A copy has them all; a document says how many it does not show."""
    ask, *rest = turns(3)
    ref = kept(machine.store("pi"), [ask, child(user_entry("left"), ask), *rest]).ref
    assert "Other branches: `1, not shown here`" in machine.run("export", ref.id).out
    done = machine.run("export", ref.id, "--to", "aurora", "-o", str(tmp_path / "copy"))
    store, copied = opened(named(done.err), tmp_path / "copy", tmp_path / "home")
    assert "left" in [entry.text for entry in store.read(copied).entries]


# --- where it goes ------------------------------------------------------------------------------------


def test_a_folder_layout_needs_a_place(machine, tmp_path):
    """And takes exactly that one, if nothing is there."""
    ref = saved(machine, "pi")
    refused = machine.run("export", ref.id, "--to", "cortext")
    assert refused.code == 2
    assert "-o DIR" in refused.err
    place = tmp_path / "talk"
    assert machine.run("export", ref.id, "--to", "cortext", "-o", str(place)).code == 0
    assert sorted(path.name for path in place.iterdir()) == [".session", "conversation.md"]
    before = snapshot(place)
    again = machine.run("export", ref.id, "--to", "cortext", "-o", str(place))
    assert again.code == 1
    assert f"Not saved: {place}: File exists" in again.err
    assert snapshot(place) == before
    missing = machine.run("export", ref.id, "--to", "cortext", "-o", str(tmp_path / "no" / "talk"))
    assert missing.code == 1
    assert missing.err == f"perdure: Not saved: {tmp_path}/no/talk: there is no folder {tmp_path}/no\n"
    assert "-o DIR" in machine.run("export", ref.id, "--to", "cortext", "-o", "-").err


@pytest.mark.parametrize("to", ["md", "html", "json", "aurora"])
def test_a_dash_is_stdout(to, machine):
    """As without -o; and no file is called that."""
    ref = saved(machine, "aurora")
    plain = machine.run("export", ref.id, "--to", to)
    assert plain.out
    assert machine.run("export", ref.id, "--to", to, "-o", "-") == plain
    assert machine.run("export", ref.id, "--to", "md", "--json", "-o", "-").data["id"] == ref.id
    assert machine.run("export", ref.id, "--to", "aurora", "--install", "-o", "-").code == 2
    assert os.listdir() == []


@pytest.mark.parametrize("to", ["md", "html"])
def test_a_page_for_others_says_nothing_of_this_machines_folders(to, machine):
    """Where the session lies is nobody's business, nor whose home it is; the damage is told all the same."""
    ref = machine.add("pi", "hello", cwd=str(machine.user / "api"))
    Path(ref.path).write_bytes(Path(ref.path).read_bytes() + b'{"torn')
    page = machine.run("export", ref.id, "--to", to).out
    assert str(machine.user) not in page
    assert "~/api" in page
    assert "line 3: " in page


def test_a_file_is_replaced_and_is_then_for_its_owner_only(machine, tmp_path):
    """Whoever could read what was there; also where a link leads to it, and nothing else is left there."""
    ref = saved(machine, "pi")
    target, link = tmp_path / "talk.md", tmp_path / "link.md"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    assert machine.run("export", ref.id, "-o", str(link)).code == 0
    assert link.is_symlink()
    assert target.read_text().startswith("# The auth bug")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(tmp_path.iterdir()) == [link, target]


@pytest.mark.parametrize("to", ["md", "pi"])
def test_a_folder_is_never_written_over(to, machine, tmp_path):
    """Nor is a file made of a path that ends like a folder's."""
    ref = saved(machine, "pi")
    for output in (str(tmp_path), f"{tmp_path}/", f"{tmp_path}/new/"):
        done = machine.run("export", ref.id, "--to", to, "-o", output)
        assert done.code == 2
        assert "is a folder; name a file in it" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("layout", ALL)
def test_a_place_where_sessions_are_kept_is_refused(layout, machine):
    """Whichever program's; the session that is exported, another, or a new name beside them."""
    ref = saved(machine, layout)
    other = machine.add("pi", "hello")
    before = machine.files()
    home = machine.homes["cortext"].path
    for place in (ref.path, str(Path(ref.path).with_name("new")), other.path, f"{home}/.workspace/x"):
        for to in ("md", "pi"):
            done = machine.run("export", f"{layout}:{ref.id}", "--to", to, "-o", place)
            assert done.code == 2, place
            assert "keeps its sessions" in done.err
    os.symlink(ref.path, "link")
    assert machine.run("export", f"{layout}:{ref.id}", "-o", "link").code == 2
    os.unlink("link")
    assert machine.files() == before


def test_a_users_own_files_in_a_workspace_are_his(machine):
    """There exports may go, as may anything."""
    ref = saved(machine, "cortext")
    output = Path(machine.homes["cortext"].path) / "notes.md"
    assert machine.run("export", ref.id, "-o", str(output)).code == 0
    assert output.read_text().startswith("# The auth bug")


@pytest.mark.parametrize("to", [*DOCUMENTS, *ALL])
def test_s8_what_is_written_is_for_its_owner_only_whatever_the_umask(to, machine, tmp_path):
    """Files 0600, folders 0700."""
    ref = saved(machine, "pi")
    before = os.umask(0)
    try:
        assert machine.run("export", ref.id, "--to", to, "-o", str(tmp_path / "out")).code == 0
    finally:
        os.umask(before)
    found = [tmp_path / "out", *(tmp_path / "out").rglob("*")]
    wide = {path.name: oct(path.stat().st_mode) for path in found if path.stat().st_mode & 0o077}
    assert wide == {}


# --- secrets ------------------------------------------------------------------------------------------


KEY = "AKIA" + "QYLPMN5HFIQR7XYA"  # in parts: what looks like one would be found here, too


def with_a_secret(machine: Machine, layout: str = "pi") -> Found:
    return machine.add(layout, "hello", f"It works with {KEY}, why?")


@pytest.mark.parametrize("to", ["md", "html", "json", "pi", "sibyl"])
def test_a_secret_is_named_on_stderr_and_goes_through_a_pipe(to, machine, tmp_path):
    """By its entry and its kind, never whole; the exit code is 0, and what to do is said."""
    ref = with_a_secret(machine)
    piped = machine.run("export", ref.id, "--to", to)
    assert piped.code == 0
    assert KEY in piped.out
    written = machine.run("export", ref.id, "--to", to, "-o", str(tmp_path / "out"))
    assert KEY in (tmp_path / "out").read_text()
    entry = machine.store("pi").read(ref).entries[1]
    for err in (piped.err, written.err):
        assert f"entry {entry.id} (user): AWS access key (AKIA…)" in err
        assert "--redact" in err
        assert KEY not in err


def test_redact_masks_it_and_a_report_names_what_was_found(machine, tmp_path):
    """On stdout and in a file; a title and a directory, too."""
    ref = with_a_secret(machine)
    piped = machine.run("export", ref.id, "--redact")
    assert "It works with AKIA…[redacted], why?" in piped.out
    assert KEY not in piped.out + piped.err
    report = machine.run("export", ref.id, "--redact", "--json", "-o", str(tmp_path / "out")).data
    assert [each.partition(": ")[2] for each in report["secrets"]] == ["AWS access key (AKIA…)"]
    assert KEY not in (tmp_path / "out").read_text()


def test_a_document_is_searched_as_far_as_it_goes(machine, tmp_path):
    """It has one branch; a session has all."""
    ask, *rest = turns(3)
    ref = kept(machine.store("pi"), [ask, child(user_entry(f"left with {KEY}"), ask), *rest]).ref
    assert "secrets" not in machine.run("export", ref.id).err
    assert "AWS access key" in machine.run("export", ref.id, "--to", "json").err


def test_what_stays_on_the_machine_is_not_asked_about(machine):
    """A session that goes on in another program of the same user."""
    ref = with_a_secret(machine)
    done = machine.run("export", ref.id, "--to", "aurora", "--install")
    assert (done.code, done.err) == (0, "")
    assert KEY in machine.run("show", done.out.strip()).out


@pytest.mark.process
@pytest.mark.parametrize(
    ("answer", "code", "there"),
    [
        (b"w\r", 0, KEY),
        (b"redact\r", 0, "AKIA…[redacted]"),
        (b"c\r", 0, ""),
        (b"\r", 0, ""),
        (b"\x04", 1, ""),
    ],
)
def test_at_a_terminal_its_user_says_what_becomes_of_a_secret(answer, code, there, machine, tmp_path):
    """It is written, or masked, or nothing is; Enter is nothing."""
    ref = with_a_secret(machine)
    output = tmp_path / "talk.md"
    ended, shown = at_terminal("export", ref.id, "-o", str(output), answer=answer)
    assert b"[w/r/C]" in shown
    assert KEY.encode() not in shown
    assert ended == code
    assert output.exists() == bool(there)
    assert not there or f"It works with {there}, why?" in output.read_text()


@pytest.mark.process
def test_a_disk_that_refuses_is_one_clear_sentence(machine, tmp_path):
    """A full one, a folder that is not there, a file where a folder should be; and no half file."""
    ref = saved(machine, "pi")
    (tmp_path / "file").write_text("x")
    for output, reason in [
        ("/dev/full", "No space left on device"),
        (f"{tmp_path}/no/talk.md", f"there is no folder {tmp_path}/no"),
        (f"{tmp_path}/file/talk.md", "Not a directory"),
        (f"{tmp_path}/{'x' * 300}", "File name too long"),
    ]:
        done = process("export", ref.id, "-o", output)
        assert done.code == 1, output
        assert done.err.count("\n") == 1
        assert f"Not saved: {output}: {reason}" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.process
def test_a_limit_on_sizes_leaves_the_old_file(machine, tmp_path):
    """The write stops in its middle: what was there is there."""
    import resource

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    ref = saved(machine, "pi")
    output = tmp_path / "talk.html"
    output.write_text("old")
    done = process("export", ref.id, "--to", "html", "-o", str(output), preexec_fn=bound)
    assert done.code == 1
    assert "File too large" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["talk.html"]
    assert output.read_text() == "old"


@pytest.mark.process
def test_a_pipe_may_be_the_place(machine, tmp_path):
    """As in `-o >(less)`: it is written to, not replaced."""
    ref = saved(machine, "pi")
    os.mkfifo(tmp_path / "pipe")
    with processes.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True) as reader:
        assert machine.run("export", ref.id, "-o", str(tmp_path / "pipe")).code == 0
        assert reader.stdout
        assert reader.stdout.read().startswith("# The auth bug")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.process
def test_a_killed_export_leaves_the_old_file_or_the_new_one(machine, tmp_path):
    """Wherever it is killed."""
    ref = kept(machine.store("pi"), turns(300)).ref
    output = tmp_path / "talk.html"
    words = [sys.executable, "-m", "perdure", "sessions", "export", ref.id, "--to", "html", "-o", str(output)]
    started = time.monotonic()
    processes.run(words, check=True, capture_output=True)
    took = time.monotonic() - started
    whole = output.read_bytes()
    for part in (0.5, 0.8, 0.95, 1.0):
        output.write_bytes(b"old")
        with processes.Popen(words, stderr=subprocess.DEVNULL) as export:
            time.sleep(took * part)
            export.kill()
        assert output.read_bytes() in (b"old", whole)


# --- into a program's own home ------------------------------------------------------------------------


@pytest.mark.parametrize(("layout", "to"), list(product(ALL, ALL)))
def test_an_installed_session_can_be_found_and_shown(layout, to, machine, monkeypatch):
    """Its new name is the answer, and the old one is as it was."""
    ref = saved(machine, layout)
    before = machine.store(layout).read(ref).entries
    monkeypatch.chdir(machine.homes["cortext"].path)
    done = machine.run("export", f"{layout}:{ref.id}", "--to", to, "--install")
    assert done.code == 0, done.err
    name = done.out.strip()
    assert name.startswith(f"{to}:")
    assert name != f"{layout}:{ref.id}"
    assert "Now the same in logout()" in machine.run("show", name).out
    assert [meaning(entry) for entry in machine.store(layout).read(ref).entries] == [
        meaning(e) for e in before
    ]


def test_an_installed_session_is_whole_and_can_be_gone_on_in(machine):
    """It is the program's own."""
    ref = saved(machine, "pi")
    report = machine.run("export", ref.id, "--to", "soleur", "--install", "--json").data
    store = open_store("soleur")
    (found,) = store.list()
    assert report["reference"] == f"soleur:{found.id}"
    assert report["path"] == found.path
    with store.writer(found) as writer:
        last = writer.catch_up().entries[-1]
        writer.append([child(record("custom", b',"customType":"x"'), last)])


def test_installing_needs_a_program_and_no_place(machine, tmp_path):
    """A document has no home."""
    ref = saved(machine, "pi")
    assert machine.run("export", ref.id, "--to", "md", "--install").code == 2
    done = machine.run("export", ref.id, "--to", "aurora", "--install", "-o", str(tmp_path / "x"))
    assert done.code == 2
    assert "no -o" in done.err
    assert machine.run("export", ref.id, "--to", "cortext", "--install").code == 3  # we are in no workspace
