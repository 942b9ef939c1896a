"""pi's layout keeps the contract of every durable store; and its files look as they are said to."""

import errno
import json
import os
from pathlib import Path

import pytest

from perdure import SessionManager
from perdure.errors import Conflict, Held, NotSaved, PerdureError
from perdure.session import tree
from perdure.session.findings import how_many
from perdure.session.session import Session
from perdure.session.stores import START, Found, Header, Problem, files
from perdure.session.stores.pi_jsonl import PiStore
from perdure.testing import DurableStoreContract, user_entry
from tests.pi_files import GOLDEN, HEADER, OUR_HEADER, STAMP, chain, put, said, sealed, store_in, text_of


class TestPiStore(DurableStoreContract):
    def make_store(self, tmp_path):
        return PiStore(str(tmp_path / "pi"), cwd="/home/me/code", durability="process")

    def write_behind(self, store, ref, entry):
        """As the original pi does: a line at the end of the file, without a look at what is there."""
        with open(ref.path, "ab") as file:
            file.write(entry.raw + b"\n")

    def steps_to(self, store, ref):
        return [Path(ref.path).parent, Path(ref.path)]


class TestPiStoreInOneFolder(TestPiStore):
    """The same promises where somebody named the folder of the sessions, and there are none for projects."""

    # What is in a file does not depend on where that is.
    test_each_kind_of_entry_is_kept = None  # type: ignore[assignment]
    test_hostile_text_comes_back = None  # type: ignore[assignment]
    test_hostile_values_come_back = None  # type: ignore[assignment]

    def make_store(self, tmp_path):
        return store_in(tmp_path / "sessions")

    def steps_to(self, store, ref):
        return [Path(ref.path)]


def append(store, ref, *entries):
    with store.writer(ref) as writer:
        writer.catch_up()
        writer.append(entries)


def ids_in(store, ref) -> list[str]:
    return [entry.id for entry in store.read(ref).entries]


# --- names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cwd", "folder"),
    [
        ("/home/me/code", "--home-me-code--"),
        ("/", "----"),
        ("/a:b/c\\d", "--a-b-c-d--"),
        ("/with space/é", "--with space-é--"),
        ("C:\\Users\\me", "--C--Users-me--"),
        ("/..", "--..--"),
        ("//srv/x", "---srv-x--"),
    ],
)
def test_a_project_has_a_folder_named_as_pi_names_it(tmp_path, cwd, folder):
    """One leading separator goes, each other one and each colon becomes a dash."""
    ref = PiStore(str(tmp_path)).create(Header("s1", STAMP, cwd))
    assert Path(ref.path) == tmp_path / "sessions" / folder / "2026-01-31T09-05-00-123Z_s1.jsonl"


def test_with_a_folder_of_its_own_a_store_has_none_for_projects(tmp_path):
    """What pi does with `--session-dir`."""
    ref = store_in(tmp_path).create(Header("s1", STAMP, "/home/me/code"))
    assert Path(ref.path) == tmp_path / "2026-01-31T09-05-00-123Z_s1.jsonl"


def test_sessions_are_found_in_project_folders_and_beside_them(tmp_path):
    """Whatever their files are called; the name gives the id, other files are none."""
    names = ["flat.jsonl", "--a--/2026-01-31T09-05-00-123Z_x.y.jsonl", "--b--/z.jsonl", ".hidden.jsonl"]
    for name in [*names, "notes.txt", "--a--/z.jsonl.v1", "--a--/deeper/no.jsonl", "x.jsonl.tmp"]:
        path = tmp_path / "sessions" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text_of(HEADER, *chain(1)))
    store = PiStore(str(tmp_path))
    found = {ref.id: os.path.relpath(ref.path, store.root) for ref in store.list()}
    assert found == {"flat": names[0], "x.y": names[1], "z": names[2], ".hidden": names[3]}


@pytest.mark.parametrize("name", ["chats/work", "sessions/--work--"])
def test_a_session_has_one_lock_however_its_store_was_opened(tmp_path, name):
    """By its folder, or by the one above it: whoever comes second waits."""
    folder = tmp_path / name
    folder.mkdir(parents=True)
    (folder / "talk.jsonl").write_bytes(text_of(HEADER, *chain(1)))
    ways = [SessionManager(each, wait=0) for each in (folder, folder.parent)]
    for one, other in (ways, ways[::-1]):
        with Session.open(one._store, one._find("talk")), pytest.raises(Held):
            other.save("talk", [user_entry("me too")])


def test_a_listing_tells_what_is_needed_to_know_whether_a_file_changed(tmp_path):
    """Inode, size and time, from the file itself."""
    store, ref = put(tmp_path, text_of(HEADER))
    status = os.stat(ref.path)
    assert list(store.list()) == [Found("s1", ref.path, status.st_ino, status.st_size, status.st_mtime_ns)]


def test_where_there_is_no_folder_there_are_no_sessions(tmp_path):
    """Listing neither fails nor makes one."""
    assert list(store_in(tmp_path / "nothing").list()) == []
    assert not (tmp_path / "nothing").exists()


# --- header and checksum ----------------------------------------------------------------------------


def test_a_new_session_is_an_empty_file(tmp_path):
    """Its name gives id and time; there is nothing else to know yet."""
    store = store_in(tmp_path)
    ref = store.create(Header("s1", STAMP))
    assert Path(ref.path).read_bytes() == b""
    assert store.read(ref).header == Header("s1", STAMP)


def test_the_header_is_written_with_the_first_entry(tmp_path):
    """In one exact form, with the directory of the process that writes it, and a checksum like every line."""
    store = store_in(tmp_path)
    ref = store.create(Header("s1", STAMP, "/the/creators/own"))
    entry = user_entry("hello")
    append(store, ref, entry)
    assert Path(ref.path).read_bytes() == text_of(sealed(OUR_HEADER), sealed(entry.raw))
    assert store.read(ref).header == Header("s1", STAMP, "/home/me/code")


def test_an_empty_file_of_any_name_is_a_new_session(tmp_path):
    """Its first entry brings a header, with the time of that moment if the name has none."""
    store, ref = put(tmp_path, b"")
    append(store, ref, user_entry("hello"))
    header = json.loads(Path(ref.path).read_bytes().splitlines()[0])
    assert (header["id"], header["version"], header["writer"]) == ("s1", 3, "perdure")
    assert header["timestamp"] >= "2026"
    assert store.read(ref).problems == []


def test_a_fork_names_its_parent_in_the_header(tmp_path):
    """Where pi puts it, before what is ours."""
    store = store_in(tmp_path)
    ref = store.create(Header("s1", STAMP, "/home/me/code", "/old/file.jsonl"), [user_entry("x")])
    line = Path(ref.path).read_bytes().splitlines()[0]
    assert line == sealed(OUR_HEADER.replace(b',"writer"', b',"parentSession":"/old/file.jsonl","writer"'))
    assert store.read(ref).header.parent_session == "/old/file.jsonl"


def test_a_directory_whose_name_is_not_text_can_be_in_a_header(tmp_path):
    """Bytes that are no UTF-8 arrive as lone surrogates, and leave as their escapes."""
    store = PiStore(str(tmp_path), cwd=os.fsdecode(b"/home/\xff"), durability="process")
    ref = store.create(Header("s1", STAMP))
    append(store, ref, user_entry("hello"))
    assert store.read(ref).header.cwd == os.fsdecode(b"/home/\xff")
    assert store.read(ref).problems == []


def test_every_line_of_ours_ends_with_the_crc_of_what_is_before_it(tmp_path):
    """And the entry that is read is what was written, without it."""
    store = store_in(tmp_path)
    ref = store.create(Header("s1", STAMP))
    entries = [user_entry("one"), user_entry("\u2028 two 👀"), user_entry("")]
    append(store, ref, *entries)
    append(store, ref, user_entry("four"))
    lines = Path(ref.path).read_bytes().splitlines()
    assert all(line == sealed(line[: line.rindex(b',"crc":')] + b"}") for line in lines)
    assert [entry.raw for entry in store.read(ref).entries[:3]] == [entry.raw for entry in entries]


def test_a_checksum_that_does_not_match_is_reported_and_the_entry_shown(tmp_path):
    """With its line number. Who knows what else is wrong with it, but it may be all there is."""
    lines = [sealed(OUR_HEADER), *map(sealed, chain(3))]
    lines[2] = lines[2].replace(b"text 2", b"text 7")
    store, ref = put(tmp_path, text_of(*lines))
    page = store.read(ref)
    assert [(problem.line, "checksum" in problem.reason) for problem in page.problems] == [(3, True)]
    assert [entry.text for entry in page.entries] == ["text 1", "text 7", "text 3"]
    assert [b"crc" in entry.raw for entry in page.entries] == [False] * 3


def test_a_line_without_a_checksum_is_fine(tmp_path):
    """Another program that goes on in our file need not know of them."""
    store, ref = put(tmp_path, text_of(sealed(OUR_HEADER), sealed(chain(1)[0]), *chain(2, start=2)))
    assert store.read(ref).problems == []
    assert ids_in(store, ref) == ["m1", "m2", "m3"]


def test_in_a_file_of_others_a_crc_is_a_member_like_any_other(tmp_path):
    """Right or wrong, it is neither checked nor taken off: the original pi copies lines it has changed."""
    line = sealed(chain(1)[0]).replace(b"text 1", b"text 7")
    store, ref = put(tmp_path, text_of(HEADER, line))
    page = store.read(ref)
    assert page.problems == []
    assert [entry.raw for entry in page.entries] == [line]


def test_what_we_append_to_a_file_of_others_looks_like_theirs(tmp_path):
    """No checksum, no second header, and not one byte of what was there changes."""
    before = (GOLDEN / "pi-v3.jsonl").read_bytes()
    store, ref = put(tmp_path, before)
    entry = user_entry("and now")
    append(store, ref, entry)
    assert Path(ref.path).read_bytes() == before + entry.raw + b"\n"


def test_an_entry_copied_from_one_of_our_files_keeps_its_line(tmp_path):
    """A fork of a fork is made of the same bytes."""
    golden = (GOLDEN / "ours.jsonl").read_bytes()
    store, ref = put(tmp_path, golden)
    copy = store.create(Header("s2", STAMP), store.read(ref).entries)
    assert Path(copy.path).read_bytes().splitlines()[1:] == golden.splitlines()[1:]


def test_an_entry_copied_to_a_file_of_others_leaves_its_checksum(tmp_path):
    """It would mean nothing there."""
    store, ref = put(tmp_path, (GOLDEN / "ours.jsonl").read_bytes())
    entries = store.read(ref).entries
    store, other = put(tmp_path, text_of(HEADER), "other.jsonl")
    append(store, other, *entries)
    assert b"crc" not in Path(other.path).read_bytes()
    assert [entry.raw for entry in store.read(other).entries] == [entry.raw for entry in entries]


@pytest.mark.slow
def test_a_record_too_long_to_be_read_again_is_not_written(tmp_path):
    """The error says so before a byte of it, or of its neighbour, is on disk."""
    store = store_in(tmp_path)
    ref = store.create(Header("s1", STAMP))
    with store.writer(ref) as writer, pytest.raises(NotSaved, match="64 MB"):
        writer.append([user_entry("before"), user_entry("x" * (64 * 2**20))])
    assert Path(ref.path).read_bytes() == b""


# --- how much is read -------------------------------------------------------------------------------


@pytest.fixture
def bytes_read(monkeypatch):
    """A list that grows by the length of every read."""
    read: list[int] = []
    pread = os.pread

    def counted(descriptor, length, offset):
        data = pread(descriptor, length, offset)
        read.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counted)
    return read


@pytest.fixture
def long_session(tmp_path):
    """Some three megabytes."""
    return put(tmp_path, text_of(HEADER, *(said(f"m{n}", None, "x" * 1000) for n in range(3000))))


def test_the_end_of_a_session_is_read_without_the_rest(long_session, bytes_read):
    """The last entries cost a block or two, however long the session is."""
    store, ref = long_session
    back = store.read_back(ref)
    assert [next(back).id for _ in range(10)] == [f"m{n}" for n in range(2999, 2989, -1)]
    assert sum(bytes_read) < 200_000


def test_the_cost_of_reading_back_grows_with_the_file_and_not_with_its_damage(tmp_path, bytes_read):
    """To number a damaged line, the lines before it are counted once for all."""
    store, ref = put(tmp_path, text_of(HEADER, *chain(1), *[b"damage"] * 3000))
    problems: list[Problem] = []
    assert [entry.id for entry in store.read_back(ref, problems)] == ["m1"]
    assert [problem.line for problem in problems] == [*range(3002, 2902, -1), 0]
    assert how_many(problems) == 3000
    assert sum(bytes_read) < 5 * os.path.getsize(ref.path)


def test_a_session_is_followed_without_reading_it_again(long_session, bytes_read):
    """From a cursor, and by a writer that starts at the end."""
    store, ref = long_session
    cursor = store.read(ref).cursor
    append(store, ref, user_entry("more"))
    bytes_read.clear()
    assert len(store.read(ref, cursor).entries) == 1
    with store.writer(ref, after=None) as writer:
        writer.append([user_entry("and more")])
    assert sum(bytes_read) < 100_000


@pytest.mark.parametrize("change", ["replaced", "shortened", "rewritten"])
def test_a_cursor_into_another_file_is_refused(tmp_path, change):
    """What is behind it then is not what came after what was read."""
    store, ref = put(tmp_path, text_of(HEADER, *chain(3)))
    cursor = store.read(ref).cursor
    path = Path(ref.path)
    match change:
        case "replaced":
            (tmp_path / "new").write_bytes(path.read_bytes())
            (tmp_path / "new").replace(path)
        case "shortened":
            os.truncate(path, cursor.offset - 1)
        case "rewritten":
            with path.open("r+b") as file:
                file.write(path.read_bytes().replace(b"text 1", b"another text"))
    with pytest.raises(Conflict):
        store.read(ref, cursor)
    assert len(store.read(ref, START).entries) >= 2


def test_line_numbers_go_on_from_a_cursor(tmp_path):
    """A problem behind it is reported where an editor finds it."""
    store, ref = put(tmp_path, text_of(HEADER, *chain(2)))
    cursor = store.read(ref).cursor
    with open(ref.path, "ab") as file:
        file.write(text_of(*chain(1, start=3), b"damage"))
    assert [problem.line for problem in store.read(ref, cursor).problems] == [5]
    assert [problem.line for problem in store.read(ref).problems] == [5]


def test_a_line_that_was_read_before_its_newline_came_is_not_read_again(tmp_path):
    """Nor does it shift the numbers of those after it."""
    store, ref = put(tmp_path, text_of(HEADER, *chain(1)) + chain(2)[1])
    page = store.read(ref)
    assert [entry.id for entry in page.entries] == ["m1", "m2"]
    with open(ref.path, "ab") as file:
        file.write(b"\n" + text_of(chain(3)[2], b"damage"))
    more = store.read(ref, page.cursor)
    assert [entry.id for entry in more.entries] == ["m3"]
    assert [problem.line for problem in more.problems] == [5]


def test_a_line_is_read_once_it_is_whole(tmp_path):
    """Somebody was still writing it when it was first looked at."""
    line = chain(3)[2]
    store, ref = put(tmp_path, text_of(HEADER, *chain(2)) + line[:50])
    page = store.read(ref)
    assert [problem.line for problem in page.problems] == [4]
    with open(ref.path, "ab") as file:
        file.write(line[50:] + b"\n")
    more = store.read(ref, page.cursor)
    assert ([entry.id for entry in more.entries], more.problems) == (["m3"], [])


@pytest.mark.parametrize(
    "name", ["pi-v3", "pi-v2", "pi-v1", "damaged/no-header", "damaged/first-line-no-header"]
)
def test_a_writer_at_the_end_is_not_given_what_is_before_it(tmp_path, name):
    """Whether or not the file can be understood without its beginning; nor by its cursors later."""
    store, ref = put(tmp_path, (GOLDEN / f"{name}.jsonl").read_bytes())
    with store.writer(ref, after=None) as writer:
        assert writer.catch_up().entries == []
        cursor = writer.append([user_entry("mine")])
        assert writer.catch_up().entries == []
    with open(ref.path, "ab") as file:
        file.write(text_of(b"damage", said("theirs", None), b'{"type":"from_the_future"}'))
    page = store.read(ref, cursor)
    everything = store.read(ref)
    assert [entry.raw for entry in page.entries] == [entry.raw for entry in everything.entries[-2:]]
    assert page.problems[-1] == everything.problems[-1]


# --- versions 1 and 2 -------------------------------------------------------------------------------


def test_version_1_is_read_as_one_chain(tmp_path):
    """Its records have no ids: each is named by its place and follows the one before it."""
    store, ref = put(tmp_path, (GOLDEN / "pi-v1.jsonl").read_bytes())
    page = store.read(ref)
    assert page.problems == []
    chained = [(entry.id, entry.parent_id) for entry in page.entries]
    assert chained == [("r1", None), ("r2", "r1"), ("r3", "r2"), ("r4", "r3"), ("r5", "r4")]
    assert [entry.id for entry in store.read_back(ref)] == ["r5", "r4", "r3", "r2", "r1"]
    assert page.header.id == "0b9e3a52-6f0e-4d0b-8c52-7d6b1b0a9f11"


@pytest.mark.parametrize(
    ("index", "kept"),
    [
        ("1", ["long ago", "yes", "kept"]),
        ("3", ["kept"]),
        *((odd, []) for odd in ("0", "4", "99", "-1", '"3"', "null", "2.5")),
    ],
)
def test_version_1_counts_the_first_kept_entry_by_lines(tmp_path, index, kept):
    """The header is line 0; what points at it, forward or nowhere keeps nothing but the summary."""
    old = (GOLDEN / "pi-v1.jsonl").read_text().replace('Index":3', f'Index":{index}')
    session = Session.view(*put(tmp_path, old.encode()))
    summary, *others = map(shown, session.context().messages)
    assert "it was long ago" in summary
    assert others == [*kept, "still here"]


def test_version_2_is_read_with_todays_name_for_hook_messages(tmp_path):
    """Its tree is as it is now."""
    store, ref = put(tmp_path, (GOLDEN / "pi-v2.jsonl").read_bytes())
    page = store.read(ref)
    assert page.problems == []
    assert [(entry.id, entry.role) for entry in page.entries] == [
        ("11aa22bb", "user"),
        ("22bb33cc", "custom"),
        ("33cc44dd", "assistant"),
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_reading_an_old_file_does_not_touch_it(tmp_path, version):
    """Nor does opening it to write, as long as nothing is written."""
    old = (GOLDEN / f"pi-v{version}.jsonl").read_bytes()
    store, ref = put(tmp_path, old)
    status = os.stat(ref.path)
    with store.writer(ref) as writer:
        writer.catch_up()
        writer.append([])
    assert Path(ref.path).read_bytes() == old
    assert os.stat(ref.path).st_mtime_ns == status.st_mtime_ns


@pytest.mark.parametrize("version", [1, 2])
def test_the_first_append_brings_an_old_file_up_to_date(tmp_path, version):
    """Entries and header keep what they say, the original stays beside the file, and the session goes on."""
    old = (GOLDEN / f"pi-v{version}.jsonl").read_bytes()
    store, ref = put(tmp_path, old)
    before = store.read(ref).entries
    more = [user_entry("one"), user_entry("two")]
    with store.writer(ref, after=None) as writer:
        writer.append(more[:1])
        writer.append(more[1:])
    page = store.read(ref)
    assert [entry.raw for entry in page.entries] == [entry.raw for entry in [*before, *more]]
    assert page.problems == []
    assert Path(f"{ref.path}.v{version}").read_bytes() == old
    first, *rest = Path(ref.path).read_bytes().splitlines()
    assert json.loads(first) == {**json.loads(old.splitlines()[0]), "version": 3}
    assert b"crc" not in b"".join(rest)
    assert [each.id for each in store.list()] == ["s1"]


def test_an_old_file_that_cannot_be_replaced_stays_as_it_is(tmp_path, monkeypatch):
    """The append fails; the next one succeeds, and the original is still beside the file."""
    old = (GOLDEN / "pi-v1.jsonl").read_bytes()
    store, ref = put(tmp_path, old)
    with store.writer(ref) as writer:
        writer.catch_up()
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", lambda *_, **__: refuse())
            with pytest.raises(NotSaved):
                writer.append([user_entry("lost")])
        assert Path(ref.path).read_bytes() == old
        writer.append([user_entry("kept")])
    assert [entry.text for entry in store.read(ref).entries][-2:] == ["still here", "kept"]
    assert old in [path.read_bytes() for path in tmp_path.glob("*.v1*")]
    assert list(tmp_path.glob("*.tmp")) == []


def refuse():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_damage_in_an_old_file_is_kept_in_the_original(tmp_path):
    """What could not be read is not in the new file, but nothing is thrown away."""
    old = (GOLDEN / "pi-v1.jsonl").read_bytes().replace(b'"yes"', b'"yes')
    store, ref = put(tmp_path, old)
    assert [problem.line for problem in store.read(ref).problems] == [3]
    append(store, ref, user_entry("more"))
    assert Path(f"{ref.path}.v1").read_bytes() == old
    assert store.read(ref).problems == []


def test_a_newer_version_is_read_and_said_to_be_newer(tmp_path):
    """Nobody knows what it means, but its entries are there."""
    store, ref = put(tmp_path, text_of(HEADER.replace(b'"version":3', b'"version":9'), *chain(2)))
    page = store.read(ref)
    assert [entry.id for entry in page.entries] == ["m1", "m2"]
    assert [(problem.line, "newer" in problem.reason) for problem in page.problems] == [(1, True)]


# --- what the golden files say ----------------------------------------------------------------------


def test_a_file_of_the_original_pi_is_read_whole(tmp_path):
    """Each of its kinds of line, byte for byte, in a session that goes on where pi would."""
    golden = (GOLDEN / "pi-v3.jsonl").read_bytes()
    store, ref = put(tmp_path, golden)
    page = store.read(ref)
    assert page.problems == []
    assert [entry.raw for entry in page.entries] == golden.splitlines()[1:]
    session = Session.view(store, ref)
    assert (session.name, session.labels) == ("My name", {"ba4c1bc9": "mark"})
    assert session.context().model == ("anthropic", "claude-x")
    assert session.head == "734cc520"


def test_branches_labels_and_a_compaction_are_read_from_a_file(tmp_path):
    """The branch left behind is there but not on the path; a label that was taken away is gone."""
    store, ref = put(tmp_path, (GOLDEN / "branched.jsonl").read_bytes())
    session = Session.view(store, ref)
    on_path = [entry.id[-2:] for entry in session.path()]
    assert on_path == ["01", "02", "06", "07", "08", "09", "10"]
    assert session.labels == {"c0000001": "start"}
    assert [entry.id for entry in tree.leaves(session.entries)] == ["c0000004", "c0000010"]
    sent = [shown(message) for message in session.context().messages]
    assert [text for text in sent if "<summary>" not in text] == ["right", "right answer", "go on"]


def shown(message) -> str:
    content = message.content
    return content if isinstance(content, str) else content[0].text


# --- the folder is not where it should be -----------------------------------------------------------


def test_a_handle_that_points_out_of_the_store_is_refused(tmp_path):
    """Whoever made it: no file outside is read, locked or moved."""
    outside = tmp_path / "outside.jsonl"
    outside.write_bytes(text_of(HEADER, *chain(1)))
    store = store_in(tmp_path / "store")
    (tmp_path / "store").mkdir()
    for path in (outside, tmp_path / "store" / ".." / "outside.jsonl", tmp_path / "store/a/b/c.jsonl"):
        ref = Found("x", str(path))
        for use in (store.read, store.writer, store.delete, lambda ref: next(store.read_back(ref))):
            with pytest.raises(PerdureError):
                use(ref)
    assert outside.exists()


def test_a_store_may_itself_be_behind_a_symbolic_link(tmp_path):
    """Where the user keeps the store is the user's choice; only inside it no link is followed."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    store = store_in(tmp_path / "link")
    ref = store.create(Header("s1", STAMP))
    append(store, ref, user_entry("hello"))
    assert [entry.text for entry in store.read(ref).entries] == ["hello"]
    assert [path.name for path in (tmp_path / "real").glob("*.jsonl")] == [
        "2026-01-31T09-05-00-123Z_s1.jsonl"
    ]


@pytest.mark.parametrize("folder", ["locks", "trash"])
def test_a_linked_folder_of_the_home_is_not_followed(tmp_path, folder):
    """Neither a lock nor a deleted session lands behind it."""
    store = store_in(tmp_path / "store")
    ref = store.create(Header("s1", STAMP), [user_entry("hello")])
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "store" / folder).symlink_to(outside)
    with pytest.raises(PerdureError):
        store.delete(ref)
    assert list(outside.iterdir()) == []
    assert [entry.text for entry in store.read(ref).entries] == ["hello"]


def test_a_linked_lock_is_not_followed(tmp_path):
    """What it leads to is neither emptied nor written to."""
    store = store_in(tmp_path / "store")
    ref = store.create(Header("s1", STAMP))
    victim = tmp_path / "victim"
    victim.write_text("precious")
    files.make_folder(str(tmp_path / "store" / "locks"))
    (tmp_path / "store" / "locks" / "s1.lock").symlink_to(victim)
    with pytest.raises(PerdureError):
        store.writer(ref)
    assert store.holder(ref) is None
    assert victim.read_text() == "precious"


def test_a_linked_sessions_folder_has_the_same_locks_under_both_names(tmp_path, monkeypatch):
    """Sessions kept on another disk: whoever comes by the link meets whoever does not."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "sessions").symlink_to(tmp_path / "disk")
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "agent"))
    usual = SessionManager(wait=0)
    id = usual.create_session()
    for other in (
        SessionManager(tmp_path / "agent" / "sessions", wait=0),
        SessionManager(tmp_path / "disk", wait=0),
    ):
        with usual.open_session(id), pytest.raises(Held):
            other.save(id, [user_entry("me too")])


def test_a_cursor_in_the_middle_of_a_line_keeps_its_line(tmp_path):
    """However often it is read on from while nothing whole follows."""
    store, ref = put(tmp_path, text_of(HEADER, *chain(3))[:-1])
    cursor = store.read(ref).cursor
    with open(ref.path, "ab") as file:
        file.write(b'{"type":"mess')
    for _ in range(5):
        page = store.read(ref, cursor)
        cursor = page.cursor
        assert (cursor.line, [problem.line for problem in page.problems]) == (4, [4])
