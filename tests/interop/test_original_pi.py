"""A session goes back and forth between Perdure and the original pi, and nothing is lost on the way.

The original is its npm package, driven as `original_pi.py` says. `here(path)` and `there(dump)` are what the
two programs read in the same file; `reading.py` says how they are compared.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from perdure import SessionEntry
from perdure.errors import Conflict
from perdure.session.entry import Unknown
from perdure.session.listing import pi_folder
from perdure.session.manager import SessionManager, SessionSummary
from perdure.session.session import Session
from perdure.session.stores import Found
from perdure.session.stores.pi_jsonl import PiStore
from perdure.testing import assistant_entry, user_entry
from tests.interop import our_sessions, their_sessions
from tests.interop.old_sessions import OLD, as_lines
from tests.interop.original_pi import INSTALLED, Json, Model, OriginalPi, Script
from tests.interop.our_sessions import HOSTILE, OURS, assistant, user
from tests.interop.reading import as_javascript_reads, complaints, here, said, texts, there, viewed
from tests.interop.their_sessions import THEIRS, spoken
from tests.needs import needs

pytestmark = [
    pytest.mark.process,
    needs("the original pi (make peers)", given=INSTALLED),
    pytest.mark.xdist_group("original pi"),  # one worker, so that what a module's fixture costs is paid once
]
ANY = 25  # sessions made at random


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    server = Model()
    yield server
    server.close()


@pytest.fixture
def pi(tmp_path, model) -> OriginalPi:
    return OriginalPi(tmp_path / "agent", model)


@pytest.fixture
def project(tmp_path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def store(pi, project) -> PiStore:
    """Ours, on the original's own home."""
    return PiStore(str(pi.home), cwd=str(project), durability="process")


@pytest.fixture
def manager(pi, project, monkeypatch) -> SessionManager:
    """Ours, as a program gets it that is started in the project."""
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(pi.home))
    monkeypatch.chdir(project)
    return SessionManager(durability="process")


# --- our sessions there ---------------------------------------------------------------------------


class Ours(NamedTuple):
    path: str
    before: bytes
    """The file as we left it."""
    dump: Json
    """What the original read in it."""
    copies: list[tuple[str, Json]]
    """What it made of it: a fork with all branches, and a session of the current branch alone."""


@pytest.fixture(scope="module")
def ours(tmp_path_factory, model, seed) -> dict[str, Ours]:
    """Our sessions by name; by number those made at random."""
    folder = tmp_path_factory.mktemp("ours")
    store = PiStore(
        str(folder / "home"), sessions_dir=str(folder / "sessions"), cwd="/some/where", durability="process"
    )
    chance = random.Random(seed)
    builds = {str(number): lambda session: our_sessions.at_random(session, chance) for number in range(ANY)}
    script = Script()
    made = {}
    for name, build in {**OURS, **builds}.items():
        with Session.create(store) as session:
            build(session)
        path = session.ref.path
        script("open", path)
        dump = script("dump")
        branch = script("createBranchedSession", script("getLeafId")), script("dump")
        fork = script("forkFrom", path, "/else/where", folder / "forks"), script("dump")
        made[name] = path, Path(path).read_bytes(), dump, [fork, branch]
    results = OriginalPi(folder / "agent", model).run(script)
    return {
        name: Ours(path, before, results[dump], [(results[file], results[copy]) for file, copy in copies])
        for name, (path, before, dump, copies) in made.items()
    }


@pytest.mark.parametrize("name", OURS)
def test_the_original_reads_our_session_as_we_do(ours, name):
    """Entries, path, name, labels, and the conversation a model is sent."""
    assert there(ours[name].dump) == here(ours[name].path)


def test_the_original_reads_any_session_of_ours_as_we_do(ours):
    """Whatever was appended, in whatever order, on whatever branch."""
    for number in map(str, range(ANY)):
        assert there(ours[number].dump) == here(ours[number].path)


def test_the_original_opens_our_session_in_the_directory_it_was_made_for(ours):
    """It runs its tools there, whatever directory the process that first saved was in."""
    assert ours["a plain talk"].dump["cwd"] == "/some/where"


@pytest.mark.parametrize("name", OURS)
def test_the_original_changes_nothing_by_reading(ours, name):
    """Our files are such that it has nothing to repair or to migrate."""
    assert Path(ours[name].path).read_bytes() == ours[name].before


@pytest.mark.parametrize("name", OURS)
def test_we_read_the_originals_copy_of_our_session_as_it_does(ours, name):
    """The header is its own, so the checksums it copied are not taken for ours, and raise no alarm."""
    for path, dump in ours[name].copies:
        if os.path.exists(path):  # it does not write a session in which no model has spoken
            assert here(path) == there(dump)


@pytest.mark.parametrize("name", [name for name in OURS if name != "numbers of all kinds"])
def test_the_originals_fork_holds_our_lines_byte_for_byte(ours, name):
    """It writes every record anew; ours are written as JavaScript would write them."""
    fork, _ = ours[name].copies[0]
    _, *lines = ours[name].before.split(b"\n")
    _, *copied = Path(fork).read_bytes().split(b"\n")
    assert copied == lines


def test_the_original_reads_our_fork_of_its_fork_of_ours_as_we_do(ours, pi):
    """Copies of copies: records that carry the checksum of another file are sealed again with our own."""
    script = Script()
    made = []
    for each in ours.values():
        path = viewed(each.copies[0][0]).fork().path
        script("open", path)
        made.append((path, script("dump")))
    results = pi.run(script)
    for path, dump in made:
        its, own = there(results[dump]), here(path)
        assert its._replace(messages=[]) == own._replace(messages=[])


@pytest.mark.parametrize("name", OURS)
def test_our_fork_of_its_fork_of_ours_is_the_same_conversation(ours, name):
    """What a model is sent does not depend on how often a session was copied, or by whom."""
    its = viewed(ours[name].copies[0][0])
    fork = viewed(its.fork().path)
    assert said(fork.context().messages) == said(viewed(ours[name].path).context().messages)


# --- its sessions here ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def theirs(tmp_path_factory, model, seed) -> dict[str, tuple[str, Json]]:
    """The original's sessions by name, by number those made at random: the file, and what it reads in it."""
    folder = tmp_path_factory.mktemp("theirs")
    chance = random.Random(seed)
    builds = {str(number): lambda script: their_sessions.at_random(script, chance) for number in range(ANY)}
    script = Script()
    made = {}
    for name, build in {**THEIRS, **builds}.items():
        script("create", "/some/where", folder / "sessions")
        build(script)
        file = script("getSessionFile")
        script("open", file)
        made[name] = file, script("dump")
    results = OriginalPi(folder / "agent", model).run(script)
    return {name: (results[file], results[dump]) for name, (file, dump) in made.items()}


@pytest.mark.parametrize("name", THEIRS)
def test_we_read_the_originals_session_as_it_does(theirs, name):
    """Entries, path, name, labels, the conversation a model is sent; and there is nothing to complain of."""
    path, dump = theirs[name]
    assert here(path) == there(dump)


def test_we_read_any_session_of_the_original_as_it_does(theirs):
    """Whatever its API appended, in whatever order, on whatever branch."""
    for number in map(str, range(ANY)):
        path, dump = theirs[number]
        assert here(path) == there(dump)


@pytest.mark.parametrize("name", THEIRS)
def test_we_only_add_to_the_originals_session(theirs, name, tmp_path):
    """Its lines keep every byte, ours carry no checksum, and we go on from where it would."""
    path, dump = theirs[name]
    copy = shutil.copy(path, tmp_path)
    before = Path(copy).read_bytes()
    store = PiStore(str(tmp_path), sessions_dir=str(tmp_path), durability="process")
    with Session.open(store, viewed(copy).ref) as session:
        (entry,) = session.append(user("From us."))
    assert Path(copy).read_bytes() == before + entry.raw + b"\n"
    assert entry.parent_id == dump["leafId"]


def test_a_name_given_elsewhere_in_the_tree_does_not_move_us(tmp_path):
    """Here we differ: the original goes on from its last line, of any kind; we from the last thing said."""
    at = {"timestamp": "2026-01-01T00:00:00.000Z"}
    records: list[Json] = [
        {"type": "session", "version": 3, "id": "any", **at, "cwd": "/some/where"},
        {"type": "message", "id": "00000001", "parentId": None, **at, "message": spoken("user", "One.")},
        {
            "type": "message",
            "id": "00000002",
            "parentId": "00000001",
            **at,
            "message": spoken("assistant", "1"),
        },
        {"type": "session_info", "id": "00000003", "parentId": "00000001", **at, "name": "named from afar"},
    ]
    file = tmp_path / "any.jsonl"
    file.write_text(as_lines(records))
    assert viewed(file).head == "00000002"
    assert viewed(file).name == "named from afar"


# --- turn and turn about --------------------------------------------------------------------------


def test_the_original_answers_our_prompt_and_we_reopen_it(pi, store, project):
    """A session with nothing but a prompt: it only adds to it, and nothing is there twice."""
    with Session.create(store) as session:
        session.append(user("From us."))
    before = Path(session.ref.path).read_bytes()
    pi.say("From them.", "--session", session.ref.path, cwd=project)
    assert Path(session.ref.path).read_bytes().startswith(before)
    again = Session.view(store, session.ref)
    assert [entry.role for entry in again.entries if entry.role] == ["user", "system", "user", "assistant"]
    assert texts(again) == ["From us.", "From them.", "You said: From them."]
    assert complaints(again) == []


def test_ten_times_back_and_forth(pi, store, project):
    """Two programs, neither of which knows all that the other writes, take turns in one session."""
    expected = ["Begin."]
    with Session.create(store) as session:
        session.append(Unknown("from the future", {"kept": [1.0, "\u2028"]}), user("Begin."))
    path = session.ref.path
    written = b""
    with pi.talk(path, cwd=project) as conversation:
        for number in range(10):
            conversation.ask("switch_session", sessionPath=path)  # it reads the file anew
            conversation.say(f"Theirs {number}.")
            with Session.open(store, session.ref) as session:
                session.append(user(f"Ours {number}."), assistant("Noted."), Unknown(f"future {number}", {}))
                session.label(session.path()[0].id, f"label {number}")
            expected += [f"Theirs {number}.", f"You said: Theirs {number}.", f"Ours {number}.", "Noted."]
            text = Path(path).read_bytes()
            assert text.startswith(written)
            written = text
    again = Session.view(store, session.ref)
    assert texts(again) == expected
    assert complaints(again) == []
    *_, request = pi.model.requests
    assert [text for role, text in spoken_to(request) if role != "system"] == expected[
        :-3
    ]  # up to its prompt


def spoken_to(request: Json) -> list[tuple[str, str]]:
    """Role and text of each message in a request to the model."""
    return [
        (
            each["role"],
            content if isinstance(content, str) else "".join(part.get("text", "") for part in content),
        )
        for each in request["messages"]
        for content in [each.get("content") or ""]
    ]


def test_what_the_original_adds_while_we_hold_the_session_is_taken_in(pi, store, project):
    """It asks for no lock. Our next append notices, writes nothing, and goes through after a reload."""
    with Session.create(store) as session:
        session.append(user("One."), assistant("1"))
        pi.say("From them.", "--session", session.ref.path, cwd=project)
        with pytest.raises(Conflict):
            session.append(user("Two."))
        session.reload()
        session.append(user("Two."))
    assert texts(session) == ["One.", "1", "From them.", "You said: From them.", "Two."]
    assert complaints(session) == []


def test_a_save_goes_behind_what_the_original_wrote_meanwhile(pi, manager, project):
    """A manager remembers how far it has read; the rest is read before it writes."""
    id = manager.create_session()
    manager.save(id, [user_entry("One."), assistant_entry("1")])
    pi.say("From them.", "--session", id, cwd=project)
    manager.save(id, [user_entry("Two.")])
    assert words(manager, id) == ["One.", "1", "From them.", "You said: From them.", "Two."]


def words(manager: SessionManager, id: str) -> list[str]:
    return [entry.text for entry in manager.load_session(id) if entry.role != "system"]


def test_what_we_add_while_the_original_holds_the_session_is_not_lost(pi, store, project):
    """It never looks at the file again and goes on from its own last entry: ours becomes a branch."""
    with Session.create(store) as session:
        session.append(user("One."), assistant("1"))
    with pi.talk(session.ref.path, cwd=project) as conversation:
        conversation.say("Theirs.")
        with Session.open(store, session.ref) as session:
            (ours,) = session.append(user("Ours."))
        conversation.say("Again.")
        again = Session.view(store, session.ref)
    assert ours in again.entries
    assert texts(again) == ["One.", "1", "Theirs.", "You said: Theirs.", "Again.", "You said: Again."]
    assert complaints(again) == []


def test_the_original_starts_in_a_session_we_only_made(pi, manager, project):
    """Such a file is empty. It writes a header with an id of its own; ours goes on naming the session."""
    id = manager.create_session()
    (found,) = PiStore(str(pi.home)).list()
    pi.say("From them.", "--session", found.path, cwd=project)
    manager.save(id, [user_entry("From us.")])
    assert words(manager, id) == ["From them.", "You said: From them.", "From us."]
    (summary,) = manager.list_sessions()
    assert (summary.id, summary.problem) == (id, None)


# --- versions past --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bodies",
    [
        pytest.param([user("From us.")], id="a prompt"),
        pytest.param([user(HOSTILE), Unknown("from the future", {"kept": [1, "\u2028"]})], id="hostile text"),
    ],
)
def test_a_file_that_pi_0_58_wrote_twice_is_read_once(tmp_path, bodies):
    """That version wrote all it had read once more, header and checksums too, before its first answer."""
    store = PiStore(str(tmp_path), sessions_dir=str(tmp_path), durability="process")
    with Session.create(store) as session:
        session.append(*bodies)
        ids = [entry.id for entry in session.entries]
    at = {"timestamp": "2026-01-01T00:00:00.000Z"}
    again = Path(session.ref.path).read_bytes()
    turn = [
        {
            "type": "message",
            "id": "0000000a",
            "parentId": ids[-1],
            **at,
            "message": spoken("user", "Theirs."),
        },
        {
            "type": "message",
            "id": "0000000b",
            "parentId": "0000000a",
            **at,
            "message": spoken("assistant", "Yes."),
        },
    ]
    with open(session.ref.path, "ab") as file:
        file.write(again + as_lines(turn).encode())
    read = Session.view(store, session.ref)
    assert [entry.id for entry in read.entries] == [*ids, "0000000a", "0000000b"]
    assert complaints(read) == []


class Old(NamedTuple):
    untouched: str
    """As it was found."""
    migrated: tuple[str, Json]
    """By the original, and what it reads in it."""
    upgraded: tuple[str, Json]
    """By our first append, and what the original reads in it."""
    forked: str
    """By the original, which does not migrate what it copies, yet calls the copy one of today's version."""


@pytest.fixture(scope="module")
def old(tmp_path_factory, model) -> dict[str, Old]:
    folder = tmp_path_factory.mktemp("old")
    store = PiStore(str(folder), sessions_dir=str(folder), durability="process")
    script = Script()
    made = {}
    for name, text in OLD.items():
        files = [str(folder / f"{kind} {name}.jsonl") for kind in ("untouched", "migrated", "upgraded")]
        for file in files:
            Path(file).write_text(text)
        with Session.open(store, viewed(files[2]).ref) as session:
            session.append(user("From us."))
        dumps = []
        for file in files[1:]:
            script("open", file)
            dumps.append(script("dump"))
        made[name] = files, dumps, script("forkFrom", files[0], "/else/where", folder / "forks")
    results = OriginalPi(folder / "agent", model).run(script)
    return {
        name: Old(files[0], (files[1], results[dumps[0]]), (files[2], results[dumps[1]]), results[fork])
        for name, (files, dumps, fork) in made.items()
    }


@pytest.mark.parametrize("name", OLD)
def test_an_old_session_is_the_same_conversation_in_both(old, name):
    """Whoever migrates it, and under whatever ids: a model is sent the same, with the same settings."""
    ours, its = here(old[name].untouched), there(old[name].migrated[1])
    assert (ours.messages, ours.model, ours.complaints) == (its.messages, its.model, [])
    assert len(ours.path) == len(its.path)


@pytest.mark.parametrize("name", OLD)
def test_we_read_what_the_original_migrated_as_it_does(old, name):
    """Today's version, as it writes it."""
    path, dump = old[name].migrated
    assert here(path) == there(dump)


@pytest.mark.parametrize("name", OLD)
def test_the_original_reads_what_we_migrated_as_we_do(old, name):
    """Our first append makes it a file of today's version."""
    path, dump = old[name].upgraded
    assert there(dump) == here(path)


@pytest.mark.parametrize("name", OLD)
def test_our_migration_changes_no_conversation(old, name):
    """A model is sent what it was sent before, and then what we appended."""
    assert here(old[name].upgraded[0]).messages == [*here(old[name].untouched).messages, ("User", "From us.")]


@pytest.mark.parametrize("name", OLD)
def test_an_old_session_that_the_original_forked_is_whole_here(old, name):
    """Its entries have no ids, which in a file of today's version loses the original all but the last."""
    fork, untouched = viewed(old[name].forked), viewed(old[name].untouched)
    assert texts(fork) == texts(untouched)
    assert len(fork.path()) == len(untouched.path())
    assert complaints(fork) == []


@pytest.mark.parametrize("before", ["\n", "no record\n"], ids=["a blank line", "a bad line"])
def test_what_stands_before_its_header_does_not_stop_an_old_session(tmp_path, before):
    """The original skips such lines, and so do we: also when the file is brought up to date."""
    file = tmp_path / "old.jsonl"
    file.write_text(before + OLD["v1"])
    store = PiStore(str(tmp_path), sessions_dir=str(tmp_path), durability="process")
    with Session.open(store, Found("old", str(file))) as session:
        session.append(user("From us."))
    assert len(viewed(file).path()) == 6


def test_a_migration_by_the_original_while_we_hold_the_session_is_noticed(pi, project):
    """It rewrites the whole file in place. We write nothing into it before we have read it anew."""
    path = project / "old.jsonl"
    path.write_text(OLD["v1"].replace("/some/where", str(project)))
    store = PiStore(str(project), sessions_dir=str(project), durability="process")
    with Session.open(store, Found("old", str(path))) as session:
        assert len(session.entries) == 5
        pi.say("From them.", "--session", str(path), cwd=project)
        with pytest.raises(Conflict):
            session.append(user("From us."))
        session.reload()
        session.append(user("From us."))
    assert texts(session)[-3:] == ["From them.", "You said: From them.", "From us."]
    assert complaints(session) == []


# --- finding sessions -----------------------------------------------------------------------------

DIRECTORIES = ["/", "/home/me/code", "/a:b/c\\d", "/with spaces/é\u2028", "/home/me/--x--", "/.hidden/.x"]


class Listed(NamedTuple):
    ours: dict[str, SessionSummary]
    """What we list and what the original does, by id: of all projects, of a folder without projects."""
    theirs: dict[str, Json]
    ours_flat: dict[str, SessionSummary]
    theirs_flat: dict[str, Json]
    of_the_project: set[str]
    """What the original lists of one project: in its own home, by the folder's path, in the flat folder."""
    by_folder: set[str]
    of_the_project_flat: set[str]
    folder_of: dict[str, str]
    """By directory, where the original would keep that project's sessions."""


@pytest.fixture(scope="module")
def listed(tmp_path_factory, model) -> Listed:
    """Sessions of ours and of the original's, in two projects, and in a folder that holds both."""
    place = tmp_path_factory.mktemp("listed")
    project, other, flat = (str(place / name) for name in ("project", "other", "flat"))
    homes: list[Json] = [{"home": str(place / "agent")}, {"home": flat, "sessions_dir": flat}]
    stores = [PiStore(**home, cwd=cwd, durability="process") for home in homes for cwd in (project, other)]
    with Session.create(stores[0]) as session:
        first, *_ = session.append(user("The first\n words of ours."), assistant("1"), user("Two."))
        session.move(first.id)
        session.append(assistant("1b"))
    with Session.create(stores[0]) as session:
        session.append(user("Something."))
        session.rename("Our name")
    with Session.create(stores[1]) as session:
        OURS["images"](session)
    for store in stores[2:]:
        with Session.create(store) as session:
            session.append(user("From us."))
    script = Script()
    for where in ([project], [other], [project, flat], [other, flat]):
        script("create", *where)
        script("appendMessage", spoken("user", [{"type": "text", "text": "The first words"}]))
        script("appendMessage", spoken("assistant", "of its."))
        script("appendSessionInfo", "Its name" if other in where else "")
    of_all, of_flat = script("listAll"), script("listAll", flat)
    folder = os.path.join(stores[0].root, pi_folder(project))
    of_project, of_folder = script("list", project), script("listAll", folder)
    of_project_flat = script("list", project, flat)
    files = {directory: script("create", directory) for directory in DIRECTORIES}
    results = OriginalPi(place / "agent", model).run(script)
    return Listed(
        {each.id: each for each in SessionManager(stores[0].root).list_sessions()},
        {each["id"]: each for each in results[of_all]},
        {each.id: each for each in SessionManager(flat).list_sessions()},
        {each["id"]: each for each in results[of_flat]},
        {each["id"] for each in results[of_project]},
        {each["id"] for each in results[of_folder]},
        {each["id"] for each in results[of_project_flat]},
        {directory: Path(results[file]).parent.name for directory, file in files.items()},
    )


def test_both_list_the_same_sessions(listed):
    """All of them, with the same number of messages, and none has a problem."""
    for ours, theirs in ((listed.ours, listed.theirs), (listed.ours_flat, listed.theirs_flat)):
        shown = {id: (each.message_count, each.problem) for id, each in ours.items()}
        assert shown == {id: (each["messageCount"], None) for id, each in theirs.items()}
    assert (len(listed.ours), len(listed.ours_flat)) == (5, 4)


def test_both_give_a_session_the_same_title(listed):
    """Its name, or else the first words of the user, also where a picture came before them."""
    titles = {id: each.title for id, each in (listed.ours | listed.ours_flat).items()}
    assert titles == {
        id: " ".join(each.get("name", each["firstMessage"]).split())
        for id, each in (listed.theirs | listed.theirs_flat).items()
    }


def test_the_original_finds_the_sessions_of_a_project(listed):
    """Ours too: by the folder they are in, and where all projects share one, by what the header says."""
    assert len(listed.of_the_project) == 3
    assert listed.of_the_project == listed.by_folder <= listed.ours.keys()
    assert len(listed.of_the_project_flat) == 2


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_the_folder_of_a_project_has_the_same_name_in_both(listed, directory):
    """So that each finds the other's sessions of that project."""
    assert pi_folder(directory) == listed.folder_of[directory]


# --- its command line -----------------------------------------------------------------------------


def test_its_options_for_continuing_find_ours(pi, store, project):
    """`-c` takes the newest session of the project, `--session` the start of an id."""
    with Session.create(store) as older:
        older.append(user("Old."))
    with Session.create(store) as newer:
        newer.append(user("New."))
    os.utime(older.ref.path, (1, 1))
    pi.say("To the newer.", "-c", cwd=project)
    pi.say("To the older.", "--session", older.id[:8], cwd=project)
    assert texts(Session.view(store, newer.ref)) == ["New.", "To the newer.", "You said: To the newer."]
    assert texts(Session.view(store, older.ref)) == ["Old.", "To the older.", "You said: To the older."]


def test_its_export_holds_every_entry_of_ours(ours, pi, project):
    """The page it makes of a session carries the session's records."""
    path = ours["our own kinds"].path
    exported = pi.export(path, cwd=project)
    assert [as_javascript_reads(json.dumps(each)) for each in exported["entries"]] == here(path).entries


@pytest.fixture(scope="module")
def requests(tmp_path_factory, model) -> dict[str, tuple[list[str], list[str]]]:
    """Of each session of ours, continued by the original: the roles we would send, and those it sent."""
    place = tmp_path_factory.mktemp("requests")
    pi = OriginalPi(place / "agent", model)
    store = PiStore(str(pi.home), cwd=str(place), durability="process")
    found = {}
    with Session.create(store) as session:
        session.append(user("Only to begin with."))
    with pi.talk(session.ref.path, cwd=place) as conversation:
        for name in SENT:
            with Session.create(store) as session:
                OURS[name](session)
                session.append(user("Go on."))
                ours = [type(message).__name__ for message in session.context().messages]
            conversation.ask("switch_session", sessionPath=session.ref.path)
            conversation.say("Go on.")
            sent = [ROLES[role] for role, _ in spoken_to(model.requests[-1]) if role != "system"]
            found[name] = [*ours, "User"], sent
    return found


SENT = [
    "a plain talk",
    "an unanswered call",
    "an answer that failed",
    "a compaction",
    "branches",
    "a branch summary",
    "our own kinds",
    "kinds nobody knows",
    "commands of the user",
]
ROLES = {"user": "User", "assistant": "Assistant", "tool": "ToolResult"}


@pytest.mark.parametrize("name", SENT)
def test_its_model_is_sent_the_messages_ours_would_be(requests, name):
    """As the request leaves its process: calls that never ended are answered, failed answers left out."""
    ours, sent = requests[name]
    assert sent == ours


@pytest.mark.parametrize(
    "usage",
    [{"input": 31, "output": 9}, {"input_tokens": 5}],
    ids=["a part of it", "another provider's names"],
)
def test_its_command_line_goes_on_with_an_answer_whose_usage_is_not_whole(pi, manager, project, usage):
    """It counts on members of an answer that a program here need not name: they are there all the same."""
    id = manager.create_session()
    prompt, answer = (
        SessionEntry.message("user", "Go."),
        SessionEntry.message("assistant", "Ok.", usage=usage),
    )
    manager.save(id, [prompt, answer])
    pi.say("From them.", "--session", id, cwd=project)
    stored = json.loads(manager.load_session(id)[1].raw)["message"]["usage"]
    assert {"input", "output", "cacheRead", "cacheWrite", "totalTokens", "cost"} <= stored.keys()
    assert stored["cost"]["total"] == 0
    assert usage.items() <= stored.items()
    assert len(manager.load_session(id)) >= 4
