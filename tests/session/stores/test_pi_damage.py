"""Whatever happened to a file of pi's layout, what is whole in it is shown, and what is not is named.

"Incident n" is a session that was lost or hidden in another program; each has its file in
`tests/golden/pi/damaged`, or is made here.
"""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from perdure import SessionManager
from perdure.errors import PerdureError
from perdure.session.session import Session
from perdure.session.stores import Page, Problem
from perdure.testing import user_entry
from perdure.testing.durable import process
from tests.effort import some_bits
from tests.layouts import Seen
from tests.needs import needs
from tests.pi_files import (
    DAMAGED,
    GOLDEN,
    HEADER,
    OUR_HEADER,
    STAMP,
    chain,
    in_memory,
    put,
    said,
    sealed,
    text_of,
)

FOUR_TURNS = ["one", "two", "three", "four"]


def see(tmp_path: Path, name: str) -> Seen:
    return Seen(*put(tmp_path, (GOLDEN / "damaged" / name).read_bytes()))


def see_after_append(tmp_path: Path, name: str) -> Seen:
    store, ref = put(tmp_path, (GOLDEN / "damaged" / name).read_bytes())
    with Session.open(store, ref) as session:
        session.append(user_entry("five").body)
    return Seen(store, ref)


def is_whole(seen: Seen) -> bool:
    """All four turns, in their order, in one chain."""
    return seen.path == FOUR_TURNS


# --- torn and glued lines ---------------------------------------------------------------------------


def test_a_torn_tail_costs_that_line_alone(tmp_path):
    """Incident 1 (claude-code#53821): every complete turn is shown, and a notice names the line."""
    seen = see(tmp_path, "torn-tail.jsonl")
    assert seen.path == FOUR_TURNS[:3]
    assert (seen.lines, seen.reasons) == ([5], ["the last line is unfinished (70 bytes); left out"])


def test_an_append_behind_a_torn_tail_is_not_glued_to_it(tmp_path):
    """Incident 2 (earendil-works/pi#8575): the fragment is sealed, and neither neighbour is lost."""
    seen = see_after_append(tmp_path, "torn-tail.jsonl")
    assert seen.path == [*FOUR_TURNS[:3], "five"]
    assert seen.lines == [5]


def test_a_record_glued_to_a_torn_one_is_saved(tmp_path):
    """Incident 2, as it lies on other programs' disks: the prefix is lost, the whole record is not."""
    seen = see(tmp_path, "torn-prefix-glued.jsonl")
    assert seen.path == ["one", "two", "four"]
    assert seen.lines == [4]
    assert len(seen.notices) == 1


def test_glued_records_are_two(tmp_path):
    """Incident 3 (qwen-code#3656): `}{` on one line; the chain through both stays whole."""
    seen = see(tmp_path, "glued.jsonl")
    assert is_whole(seen)
    assert (seen.lines, seen.notices) == ([3], [])


def test_a_prefix_before_a_complete_record_costs_nothing(tmp_path):
    """Incident 4 (copilot-cli#4098): three times in a file, and again after the session was resumed."""
    seen = see(tmp_path, "prefix-three-times.jsonl")
    assert is_whole(seen)
    assert seen.lines == [3, 4, 5]
    assert see_after_append(tmp_path, "prefix-three-times.jsonl").path == [*FOUR_TURNS, "five"]


def test_glued_records_of_ours_are_checked_one_by_one(tmp_path):
    """Each has its own checksum, and only the wrong one is reported as wrong."""
    one, two, three = map(sealed, chain(3))
    data = text_of(sealed(OUR_HEADER), one + two.replace(b"text 2", b"text 7") + three)
    seen = Seen(*put(tmp_path, data))
    assert seen.path == ["text 1", "text 7", "text 3"]
    assert ["checksum" in reason for reason in seen.reasons] == [True, False]


def test_a_damaged_line_in_the_middle_costs_that_line_alone(tmp_path):
    """Its child follows the entry before it, with a notice."""
    seen = see(tmp_path, "corrupt-middle.jsonl")
    assert seen.path == ["one", "two", "four"]
    assert seen.lines == [4]
    assert len(seen.notices) == 1


def test_a_last_line_without_a_newline_is_a_line(tmp_path):
    """The writer only left the newline out; the next append puts it there first."""
    seen = see(tmp_path, "no-last-newline.jsonl")
    assert is_whole(seen)
    assert seen.lines == []
    assert see_after_append(tmp_path, "no-last-newline.jsonl").path == [*FOUR_TURNS, "five"]


@pytest.mark.parametrize(
    "noise", [b"xyz", b"J", b"}", b'ole":"user"}}', bytes(512), b'{"type":"mess'], ids=ascii
)
def test_a_whole_record_before_noise_is_saved(tmp_path, noise):
    """Nothing torn is before it, so it can be nothing but what it looks like."""
    one, two, three = chain(3)
    seen = Seen(*put(tmp_path, text_of(HEADER, one, two + noise, three)))
    assert seen.path == ["text 1", "text 2", "text 3"]
    assert seen.lines == [3]


def test_a_file_that_lost_its_newlines_is_read(tmp_path):
    """All of its records, however many they are."""
    seen = Seen(*put(tmp_path, HEADER + b"".join(chain(300)) + b"\n"))
    assert seen.path == [f"text {number}" for number in range(1, 301)]
    assert seen.header.cwd == "/home/me/code"
    assert seen.lines == [1]


def test_what_only_looks_like_a_record_inside_a_record_is_not_one(tmp_path):
    """A tool call's arguments may be shaped like anything; a torn one invents no entry."""
    inner = said("m9", None, "never said")
    line = (
        b'{"type":"custom","id":"m2","parentId":"m1","timestamp":"%b","customType":"x","data":%b,"more":"te'
    )
    seen = Seen(*put(tmp_path, text_of(HEADER, *chain(1), line % (STAMP.encode(), inner))))
    assert seen.path == ["text 1"]
    assert seen.lines == [3]


# --- NULs, stale bytes, blank lines -----------------------------------------------------------------


def test_nuls_at_the_end_cost_nothing(tmp_path):
    """Incident 5 (copilot-cli#1864): a block that was never filled; said, and sealed by the next append."""
    seen = see(tmp_path, "nul-tail.jsonl")
    assert is_whole(seen)
    assert seen.lines == [6]
    after = see_after_append(tmp_path, "nul-tail.jsonl")
    assert after.path == [*FOUR_TURNS, "five"]
    assert after.lines == [6]


def test_a_file_of_nuls_is_an_empty_session_with_a_problem(tmp_path):
    """Incident 5 (opencode#10904): it hides no neighbour, and one can go on in it."""
    put(tmp_path, (GOLDEN / "ours.jsonl").read_bytes(), "good.jsonl")
    seen = see(tmp_path, "nul-file.jsonl")
    assert (seen.entries, seen.lines) == ([], [1])
    listed = {each.id: each.problem for each in SessionManager(tmp_path).list_sessions()}
    assert listed["good"] is None
    assert "line 1" in (listed["s1"] or "")
    assert see_after_append(tmp_path, "nul-file.jsonl").path == ["five"]


def test_a_sector_of_nuls_in_the_middle_costs_what_it_covers(tmp_path):
    """Incident 5: before a whole record nothing, over a part of one that record."""
    seen = see(tmp_path, "nul-sector.jsonl")
    assert is_whole(seen)
    assert seen.lines == [3]
    seen = see(tmp_path, "nul-over-a-record.jsonl")
    assert seen.path == ["one", "three", "four"]
    assert seen.lines == [3]


def test_a_run_of_nuls_on_a_line_of_its_own_is_named_as_what_it_is(tmp_path):
    """With its length."""
    seen = Seen(*put(tmp_path, text_of(HEADER, *chain(1), bytes(4096), *chain(1, start=2))))
    assert seen.path == ["text 1", "text 2"]
    assert (seen.lines, seen.reasons) == ([3], ["a run of 4096 NUL bytes; left out"])


def test_stale_bytes_behind_the_end_cost_nothing(tmp_path):
    """Incident 6 (goose#2529): the rest of an older, longer file."""
    seen = see(tmp_path, "stale-end.jsonl")
    assert is_whole(seen)
    assert seen.lines == [6]


def test_a_file_is_never_rewritten_in_place(tmp_path):
    """Incident 6: whatever is appended, what was there stays as it was, in the same file."""
    store, ref = put(tmp_path, (GOLDEN / "damaged" / "stale-end.jsonl").read_bytes())
    before, inode = Path(ref.path).read_bytes(), os.stat(ref.path).st_ino
    with Session.open(store, ref) as session:
        for text in ("longer than what was there before " * 20, "x", ""):
            session.append(user_entry(text).body)
            assert Path(ref.path).read_bytes().startswith(before)
    assert os.stat(ref.path).st_ino == inode


def test_blank_lines_are_nothing(tmp_path):
    """Incident 6 (goose#1946): empty, of spaces, between records and at the end; not even a problem."""
    seen = see(tmp_path, "blank-lines.jsonl")
    assert is_whole(seen)
    assert seen.lines == []


def test_lines_that_end_like_on_windows_are_lines(tmp_path):
    """The carriage return belongs to the line's end; what is appended to such a file is read as well."""
    seen = see(tmp_path, "crlf.jsonl")
    assert is_whole(seen)
    assert seen.lines == []
    assert [b"\r" in entry.raw for entry in seen.entries] == [False] * 4
    assert see_after_append(tmp_path, "crlf.jsonl").path == [*FOUR_TURNS, "five"]


def test_a_byte_order_mark_is_nothing(tmp_path):
    """The header behind it is the header."""
    seen = see(tmp_path, "byte-order-mark.jsonl")
    assert is_whole(seen)
    assert seen.lines == []
    assert seen.header.cwd == "/home/me/proj"


def test_lines_that_are_json_but_no_record_are_reported(tmp_path):
    """Numbers, strings, lists, null: each by its line."""
    seen = see(tmp_path, "not-objects.jsonl")
    assert is_whole(seen)
    assert seen.lines == [3, 4, 5, 6, 8]


# --- the same again ---------------------------------------------------------------------------------


def test_a_record_written_half_and_then_whole_counts_once(tmp_path):
    """Incident 7 (codex#24425): and the session is in the listing."""
    seen = see(tmp_path, "half-then-whole.jsonl")
    assert is_whole(seen)
    assert seen.lines == [4]
    assert [each.message_count for each in SessionManager(tmp_path).list_sessions()] == [4]


def test_a_record_written_twice_counts_once(tmp_path):
    """Incident 7: identical lines collapse without a word, wherever the second one stands."""
    one, two, three = chain(3)
    seen = Seen(*put(tmp_path, text_of(HEADER, one, two, two, one, three, two)))
    assert seen.ids == ["m1", "m2", "m3"]
    assert (seen.lines, seen.notices) == ([], [])


def test_a_file_written_twice_is_one_session(tmp_path):
    """The original pi of some versions writes header and entries again when the first answer comes."""
    seen = see(tmp_path, "written-twice.jsonl")
    assert is_whole(seen)
    assert (seen.lines, seen.notices) == ([], [])
    assert [each.message_count for each in SessionManager(tmp_path).list_sessions()] == [4]


def test_two_different_entries_of_one_id_are_both_shown(tmp_path):
    """Incident 18 (claude-code#22526): the second under a new id, with a notice, and its child follows it."""
    seen = see(tmp_path, "same-id-twice.jsonl")
    assert seen.ids == ["d0000001", "d0000002", "d0000002.2", "d0000004"]
    assert seen.path == ["one", "three", "four"]
    assert len(seen.notices) == 1


# --- header and chain -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dangling-parent.jsonl", "corrupt-middle.jsonl"])
def test_an_entry_whose_parent_is_missing_follows_the_one_before_it(tmp_path, name):
    """Incident 18 (claude-code#24304): not only the last message is shown; a notice says what was done."""
    seen = see(tmp_path, name)
    assert seen.path == ["one", "two", "four"]
    assert seen.notices == ["the parent of entry d0000004 is missing; it follows the entry before it"]


def test_entries_that_are_each_others_parents_are_all_shown(tmp_path):
    """Incident 18: a circle, or an entry that is its own parent, keeps no reader busy for ever."""
    lines = [said("a", "b", "one"), said("b", "a", "two"), said("c", "c", "three"), said("d", "c", "four")]
    seen = Seen(*put(tmp_path, text_of(HEADER, *lines)))
    assert is_whole(seen)
    assert len(seen.notices) == 2


def test_a_first_line_that_is_no_header_is_an_entry(tmp_path):
    """Incident 19 (claude-code#62851): the header that follows is still found."""
    seen = see(tmp_path, "first-line-no-header.jsonl")
    assert is_whole(seen)
    assert seen.lines == [1]
    assert seen.header.cwd == "/home/me/proj"


def test_a_missing_header_is_made_up_from_the_file_name(tmp_path):
    """Incident 19 (codex#38341): the session is listed, shown and continued."""
    name = "2026-01-31T09-05-00-123Z_lost.jsonl"
    store, ref = put(tmp_path, (GOLDEN / "damaged" / "no-header.jsonl").read_bytes(), name)
    seen = Seen(store, ref)
    assert is_whole(seen)
    assert (seen.header.id, seen.header.timestamp) == ("lost", STAMP)
    assert seen.lines == [1]
    manager = SessionManager(tmp_path)
    assert [each.id for each in manager.list_sessions()] == ["lost"]
    manager.save("lost", [user_entry("five")])
    assert [entry.text for entry in manager.load_session("lost")] == [*FOUR_TURNS, "five"]


@pytest.mark.parametrize("at", range(1, 5))
def test_a_header_may_stand_anywhere(tmp_path, at):
    """Incident 19: any order of lines opens, and says that it is an odd one."""
    lines = chain(4)
    lines.insert(at, HEADER)
    seen = Seen(*put(tmp_path, text_of(*lines)))
    assert seen.path == ["text 1", "text 2", "text 3", "text 4"]
    assert seen.header.cwd == "/home/me/code"
    assert seen.lines == [1]


@pytest.mark.parametrize("before", [b"\n", b"\r\n", b"  ", b"\xef\xbb\xbf", b"\0\n", b"garbage\n"], ids=ascii)
@pytest.mark.parametrize("version", [b'"version":3,', b'"version":2,', b""], ids=["v3", "v2", "v1"])
def test_what_stands_before_the_header_does_not_hide_it(tmp_path, before, version):
    """From whichever end the file is read, and for whoever appends to it, the session is of its version."""
    lines = [line.replace(b'"role":"user"', b'"role":"hookMessage"') for line in chain(2)]
    store, ref = put(tmp_path, before + text_of(HEADER.replace(b'"version":3,', version), *lines))
    roles = ["hookMessage" if b"3" in version else "custom"] * 2
    assert [entry.role for entry in store.read(ref).entries] == roles
    assert [entry.role for entry in store.read_back(ref)] == roles
    with store.writer(ref, after=None) as writer:
        writer.append([user_entry("more")])
    assert [entry.role for entry in store.read(ref).entries] == [*roles, "user"]
    assert store.read(ref).header.cwd == "/home/me/code"


def test_a_header_may_be_long(tmp_path):
    """The path of a directory, or a member another program adds, is as long as it is."""
    header = sealed(OUR_HEADER.replace(b"/home/me/code", b"/long" * 5000))
    store, ref = put(tmp_path, text_of(header, *map(sealed, chain(2))))
    with store.writer(ref, after=None) as writer:
        writer.append([user_entry("more")])
    assert [entry.text for entry in store.read_back(ref)] == ["more", "text 2", "text 1"]
    assert store.read(ref).problems == []
    assert Path(ref.path).read_bytes().count(b'"crc"') == 4


def test_a_header_again_is_nothing_and_another_one_is_a_problem(tmp_path):
    """The first one rules."""
    seen = Seen(*put(tmp_path, text_of(HEADER, *chain(2), HEADER, *chain(2, start=3))))
    assert seen.path == ["text 1", "text 2", "text 3", "text 4"]
    assert seen.lines == []
    seen = see(tmp_path, "other-header.jsonl")
    assert is_whole(seen)
    assert seen.lines == [4]
    assert seen.header.id == "5c2d0a6e-1b7f-4a58-8f29-3d0c5e9b7a10"


@pytest.mark.parametrize(
    "member", [b'"id":7', b'"id":null', b'"cwd":[]', b'"timestamp":{}', b'"version":"x"']
)
def test_a_header_with_odd_members_is_a_header(tmp_path, member):
    """What it does not tell is taken from the file's name; the entries are there."""
    name = member.partition(b":")[0]
    header = b",".join(part for part in HEADER[1:-1].split(b",") if not part.startswith(name))
    seen = Seen(*put(tmp_path, text_of(b"{" + header + b"," + member + b"}", *chain(2))))
    assert seen.path == ["text 1", "text 2"]
    assert seen.header.id == "s1"


def test_records_without_ids_are_named_by_their_place(tmp_path):
    """Each follows the one before it, whether the file is read from its start, its end or a cursor."""
    seen = see(tmp_path, "without-ids.jsonl")
    assert seen.ids == ["d0000001", "r2", "r3", "d0000004"]
    assert is_whole(seen)
    store, ref = put(tmp_path, (GOLDEN / "damaged" / "without-ids.jsonl").read_bytes())
    assert [entry.id for entry in store.read_back(ref)] == seen.ids[::-1]
    cursor = store.read(ref).cursor
    with open(ref.path, "ab") as file:
        file.write(b'{"type":"from_the_future"}\n')
    more = store.read(ref, cursor).entries
    assert [(entry.id, entry.parent_id) for entry in more] == [("r5", "d0000004")]
    assert [entry.raw for entry in store.read(ref).entries[4:]] == [entry.raw for entry in more]


def test_metadata_at_the_end_does_not_move_the_head(tmp_path):
    """Incident 24 (pi-web#943): a name given on a dead branch leaves the conversation where it was."""
    seen = see(tmp_path, "metadata-last.jsonl")
    assert seen.path == ["one", "two", "three"]
    assert [entry.text for entry in SessionManager(tmp_path).load_session("s1")] == ["one", "two", "three"]
    assert see_after_append(tmp_path, "metadata-last.jsonl").path == ["one", "two", "three", "five"]


# --- text -------------------------------------------------------------------------------------------


def test_separators_inside_strings_end_no_line(tmp_path):
    """Incident 36 (tau#354, OpenViking#3984): in text, in names and in values, twelve of them."""
    golden = (GOLDEN / "damaged" / "separators.jsonl").read_bytes()
    store, ref = put(tmp_path, golden)
    page = store.read(ref)
    assert page.problems == []
    assert [entry.raw for entry in page.entries] == golden.split(b"\n")[1:-1]
    texts = [entry.text for entry in SessionManager(tmp_path).load_session("s1")]
    assert texts == [f"a{sep}b" for sep in "\u2028\u2029\x85\x7f\x0b\x0c\x1c\x1d\x1e\r\n\u2028"]


def test_a_session_with_separators_is_listed_and_continued(tmp_path):
    """Incident 36: also as its title, which is one line, and behind everything we append."""
    manager = SessionManager(tmp_path, durability="process")
    id = manager.create_session()
    manager.save(id, [user_entry(f"a{sep}b") for sep in "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\r\n"])
    manager.save(id, [user_entry("after")])
    assert len(manager.load_session(id)) == 11
    assert [each.title for each in manager.list_sessions()] == ["a b"]


def test_text_that_is_no_text_is_shown_and_kept(tmp_path):
    """Incident 37 (aider#1418, hermes-agent#57754): lone surrogates, invalid UTF-8: bytes in, bytes out."""
    golden = (GOLDEN / "damaged" / "bad-text.jsonl").read_bytes()
    store, ref = put(tmp_path, golden)
    page = store.read(ref)
    assert [entry.text for entry in page.entries] == [
        *("one", "two \ud83d lone", "three \ufffd\ufffd\ufffd bytes", "four")
    ]
    copy = store.create(page.header._replace(id="copy"), page.entries)
    assert [entry.raw for entry in store.read(copy).entries] == golden.splitlines()[1:]
    assert [each.title for each in SessionManager(tmp_path).list_sessions()] == ["one", "one"]


def test_text_that_is_no_text_can_be_said(tmp_path):
    """Incident 37: a prompt with a lone surrogate is saved, listed and loaded."""
    manager = SessionManager(tmp_path, durability="process")
    id = manager.create_session()
    manager.save(id, [user_entry("a \ud83d b")])
    assert [entry.text for entry in SessionManager(tmp_path).load_session(id)] == ["a \ud83d b"]
    assert [each.title.encode() for each in manager.list_sessions()] == [b"a ? b"]


# --- files ------------------------------------------------------------------------------------------


def test_a_file_deleted_while_open_is_back_whole(tmp_path):
    """Incident 22 (earendil-works/pi#8939): not a file without a header, and not in silence."""
    store, ref = put(tmp_path, (GOLDEN / "ours.jsonl").read_bytes())
    with Session.open(store, ref) as session:
        os.unlink(ref.path)
        with pytest.raises(PerdureError, match="deleted while in use"):
            session.append(user_entry("unsaved").body)
        assert Path(ref.path).read_bytes() == (GOLDEN / "ours.jsonl").read_bytes()
        session.reload()
        session.append(user_entry("saved").body)
    assert Seen(store, ref).path[-1] == "saved"
    assert store.read(ref).problems == []


def test_a_file_replaced_while_open_is_kept_beside_the_new_one(tmp_path):
    """Incident 22: neither is written over, and the message says where the old one is."""
    ours = (GOLDEN / "ours.jsonl").read_bytes()
    store, ref = put(tmp_path, ours)
    with Session.open(store, ref) as session:
        put(tmp_path, (GOLDEN / "pi-v3.jsonl").read_bytes(), "new")
        os.replace(tmp_path / "new", ref.path)
        with pytest.raises(PerdureError, match=r"replaced while in use.*displaced") as error:
            session.append(user_entry("unsaved").body)
        kept = Path(error.value.message.rpartition(" ")[2])
        assert kept.read_bytes() == ours
        session.reload()
        session.append(user_entry("saved").body)
    assert Path(ref.path).read_bytes().startswith((GOLDEN / "pi-v3.jsonl").read_bytes())
    assert Seen(store, ref).path[-1] == "saved"


def test_files_of_no_bytes_hide_nothing(tmp_path):
    """Incident 10 (opencode#7607): each is a session in which nothing was said yet; the others open."""
    put(tmp_path, (GOLDEN / "ours.jsonl").read_bytes(), "good.jsonl")
    for name in ("a.jsonl", "b.jsonl"):
        put(tmp_path, b"", name)
    manager = SessionManager(tmp_path)
    listed = {each.id: (each.message_count, each.problem) for each in manager.list_sessions()}
    assert listed == {"good": (4, None), "a": (0, None), "b": (0, None)}
    assert len(manager.load_session("good")) == 4
    assert manager.load_session("a") == []


def write(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def as_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        # A socket's address is short, so it is made by its bare name.
        here = os.open(".", os.O_RDONLY)
        os.chdir(path.parent)
        try:
            server.bind(path.name)
        finally:
            os.fchdir(here)
            os.close(here)


BROKEN: dict[str, Callable[[Path], object]] = {
    "nuls": write(bytes(5000)),
    "noise": write(bytes(range(256)) * 20),
    "zip": write(b"PK\x03\x04" + bytes(range(200))),
    "html": write(b"<html>\n<body>503</body>\n</html>\n"),
    "text": write(b"hello\nworld\n"),
    "numbers": write(b"1\n2\n3\n"),
    "list": write(b'[{"type":"session"}]\n'),
    "pretty": write(b'{\n  "type": "session",\n  "version": 3\n}\n'),
    "half-header": write(HEADER[:40]),
    "no-header": write(text_of(*chain(2))),
    "newer": write(text_of(HEADER.replace(b'"version":3', b'"version":99'), *chain(1))),
    "torn": write(text_of(HEADER, *chain(2)) + b'{"type":"mess'),
    "deep": write(text_of(HEADER) + b"[" * 200_000 + b"\n"),
    "long": write(text_of(HEADER) + bytes(65 * 2**20)),
    "utf-16": write(text_of(HEADER, *chain(2)).decode().encode("utf-16")),
    "checksum": write(text_of(sealed(OUR_HEADER), sealed(chain(1)[0])[:-3] + b'0"}')),
    "loop": write(text_of(HEADER, said("a", "b"), said("b", "a"))),
    "orphan": write(text_of(HEADER, said("a", "nobody"))),
    "twins": write(text_of(HEADER, said("a", None, "x"), said("a", None, "y"))),
    "folder": Path.mkdir,
    "fifo": os.mkfifo,
    "socket": as_socket,
    "dangling-link": lambda path: path.symlink_to("nowhere"),
    "link-to-itself": lambda path: path.symlink_to(path.name),
    "link-to-a-session": lambda path: path.symlink_to("good-1.jsonl"),
    "link-to-a-device": lambda path: path.symlink_to("/dev/zero"),
    **{path.stem: write(path.read_bytes()) for path in DAMAGED if path.stem in ("glued", "stale-end")},
}


def test_broken_sessions_are_listed_with_a_reason_and_hide_no_good_one(tmp_path, monkeypatch):
    """Some of each kind among good ones, in the listing a user sees; and none takes the others' time."""
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path))
    folder = tmp_path / "sessions"
    folder.mkdir()
    good = [f"good-{number}" for number in range(10)]
    for name in good:
        put(folder, (GOLDEN / "ours.jsonl").read_bytes(), f"{name}.jsonl")
    for name, make in BROKEN.items():
        make(folder / f"{name}.jsonl")
    assert len(BROKEN) >= 20
    (folder / "linked-folder").symlink_to(folder)
    listed = {each.id: each for each in SessionManager().list_sessions()}
    assert listed.keys() == {*good, *BROKEN, "linked-folder"}
    assert [each.id for each in listed.values() if each.problem is None] == sorted(good, reverse=True)
    assert {listed[name].message_count for name in good} == {4}
    assert all(name in (listed[name].problem or "") for name in BROKEN.keys() - {"loop", "orphan", "twins"})


@pytest.mark.process
@needs("root", given=hasattr(os, "geteuid") and os.geteuid() == 0)
def test_what_may_not_be_read_is_listed_with_the_reason(tmp_path):
    """A file and a folder of somebody else's hide no session of ours."""

    def list_as_nobody() -> None:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        os.environ["PI_CODING_AGENT_DIR"] = str(home)
        listed = {each.id: each.problem or "" for each in SessionManager().list_sessions()}
        assert listed.keys() == {"good", "closed", "--closed--"}
        assert listed["good"] == ""
        assert "Permission denied" in listed["closed"]
        assert "--closed--" in listed["--closed--"]

    with in_memory(tmp_path) as home:
        home.chmod(0o755)
        folder = home / "sessions"
        folder.mkdir()
        put(folder, (GOLDEN / "ours.jsonl").read_bytes(), "good.jsonl")
        put(folder, (GOLDEN / "ours.jsonl").read_bytes(), "closed.jsonl")
        (folder / "closed.jsonl").chmod(0)
        (folder / "--closed--").mkdir(0)
        with process(list_as_nobody):
            pass


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_session_can_be_deleted(tmp_path, name):
    """By the id the listing gives it; the file goes to the trash, whatever it is, and nothing else does."""
    put(tmp_path, (GOLDEN / "ours.jsonl").read_bytes(), "good-1.jsonl")
    BROKEN[name](tmp_path / f"{name}.jsonl")
    manager = SessionManager(tmp_path)
    manager.delete_session(name)
    assert [each.id for each in manager.list_sessions()] == ["good-1"]
    assert os.path.lexists(tmp_path / "trash" / name / f"{name}.jsonl")
    assert (tmp_path / "good-1.jsonl").read_bytes() == (GOLDEN / "ours.jsonl").read_bytes()


# --- one bit ----------------------------------------------------------------------------------------


class Flipped(NamedTuple):
    """The golden file with one bit changed."""

    at: int
    line: int
    page: Page


@pytest.fixture
def every_flip(tmp_path):
    """Read a file of ours once for each of its bits, with that bit flipped."""
    golden = (GOLDEN / "ours-small.jsonl").read_bytes()
    store, ref = put(tmp_path, golden)

    def flips(step: int = 1) -> Iterator[Flipped]:
        with open(ref.path, "r+b", buffering=0) as file:
            for at, byte in enumerate(golden):
                for bit in some_bits(at, step=step):
                    os.pwrite(file.fileno(), bytes([byte ^ 1 << bit]), at)
                    yield Flipped(at, golden[:at].count(b"\n") + 1, store.read(ref))
                os.pwrite(file.fileno(), bytes([byte]), at)

    return store, ref, flips


@pytest.mark.slow
@pytest.mark.long
def test_every_flipped_bit_is_noticed(every_flip):
    """In a file of ours, from its first bit to its last."""
    _, _, flips = every_flip
    unnoticed = [each.at for each in flips() if not each.page.problems]
    assert unnoticed == []


@pytest.mark.slow
@pytest.mark.long
def test_a_flipped_bit_is_reported_where_it_is(every_flip):
    """On its own line; a flip that makes or removes a newline is seen on two."""
    _, _, flips = every_flip
    elsewhere = [
        (at, page.problems)
        for at, line, page in flips()
        if not {problem.line for problem in page.problems} <= {line, line + 1}
    ]
    assert elsewhere == []


@pytest.mark.slow
@pytest.mark.long
def test_a_flipped_bit_costs_one_record_at_most(every_flip):
    """All others are shown, and say what they said."""
    store, ref, flips = every_flip
    before = [(entry.id, entry.body) for entry in store.read(ref).entries]
    lost = []
    for at, _, page in flips():
        shown = [(entry.id, entry.body) for entry in page.entries]
        if sum(each not in shown for each in before) > 1:
            lost.append((at, page.problems))
    assert lost == []


@pytest.mark.slow
@pytest.mark.long
def test_a_flipped_bit_looks_the_same_from_the_end(every_flip):
    """Reading back finds the same entries, and the same problems but for the header's."""
    store, ref, flips = every_flip
    different = []
    for at, _, page in flips(step=3):
        problems: list[Problem] = []
        back = list(store.read_back(ref, problems))
        behind_header = [{each.line for each in some} - {1} for some in (problems, page.problems)]
        if back[::-1] != page.entries or behind_header[0] != behind_header[1]:
            different.append((at, problems, page.problems))
    assert different == []


# --- what a hard look found -------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b'{"type":"mess', b"\0\0\0", b"  ", b"}"])
def test_a_whole_record_before_a_torn_one_is_there_before_and_after_the_next_append(tmp_path, end):
    """On the last line, too: the next entry follows it, and nothing comes back as a side branch."""
    store, ref = put(tmp_path, text_of(HEADER, *chain(2))[:-1] + end)
    manager = SessionManager(tmp_path)
    assert [entry.text for entry in manager.load_session(ref.id)] == ["text 1", "text 2"]
    manager.save(ref.id, [user_entry("three")])
    assert [entry.text for entry in manager.load_session(ref.id)] == ["text 1", "text 2", "three"]
    assert [entry.text for entry in Session.view(store, ref).path()] == ["text 1", "text 2", "three"]


@pytest.mark.slow
def test_a_line_torn_at_any_byte_invents_no_entry(tmp_path):
    """Also where it holds what looks like one, and is torn right behind that."""
    inner = said("m9", None, "never said")
    line = b'{"type":"custom","id":"m2","parentId":"m1","timestamp":"%b","customType":"x","data":[%b,%b]}'
    line %= STAMP.encode(), inner, inner
    store, ref = put(tmp_path, b"")
    for size in range(len(line)):
        Path(ref.path).write_bytes(text_of(HEADER, *chain(1)) + line[:size])
        assert [entry.text for entry in store.read(ref).entries] == ["text 1"]


def test_a_flipped_bit_in_the_version_does_not_flatten_the_tree(tmp_path):
    """A file of ours was never of version 1, whatever its header says now."""
    store, ref = put(tmp_path, (GOLDEN / "ours.jsonl").read_bytes())
    before = Session.view(store, ref).entries
    Path(ref.path).write_bytes(Path(ref.path).read_bytes().replace(b'"version":3', b'"version":1', 1))
    assert Session.view(store, ref).entries == before
    assert [problem.line for problem in store.read(ref).problems] == [1]


@pytest.mark.slow
def test_a_long_damaged_line_costs_little(tmp_path):
    """However many beginnings of records it holds, it is read through a few times at most."""
    line = b'{"type":"x","id":' * 200_000
    store, ref = put(tmp_path, text_of(HEADER, *chain(1), line, said("m2", "m1", "text 2")))
    assert [entry.text for entry in store.read(ref).entries] == ["text 1", "text 2"]
