"""The edit tool: exactly one place changes, and every other byte stays."""

import asyncio
import itertools
import os
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.tools import checked
from perdure.agent.tools import edit as edit_module
from perdure.agent.tools.edit import EDIT, replaced
from perdure.agent.tools.replacing import changes, replace
from perdure.agent.tools.workspace import Place, Refused
from tests.other_users import GROUP, OTHER, ROOT, USER, act, home_of_user, needs_root


@pytest.mark.parametrize(
    "arguments",
    [
        {"oldText": "b", "newText": "B"},
        {"old_text": "b", "new_text": "B"},
        {"oldText": "b", "new_text": "B"},
        {"edits": [{"oldText": "b", "newText": "B"}]},
        {"edits": [{"old_text": "b", "new_text": "B"}]},
        {"edits": '[{"oldText": "b", "newText": "B"}]'},
        {"edits": [{"oldText": "b", "newText": "x"}, {"oldText": "x", "newText": "B"}]},
        {"oldText": "b", "newText": "x", "edits": [{"old_text": "x", "new_text": "B"}]},
        {"oldText": "b", "newText": "B", "edits": None},
    ],
)
def test_pi_10_every_way_to_say_it(tmp_path, call, arguments):
    """Camel and snake case, one edit or several, which are made one after the other."""
    (tmp_path / "f").write_text("a\nb\nc\n")
    assert call(EDIT, path="f", **arguments).text.startswith("Edited f.\n")
    assert (tmp_path / "f").read_text() == "a\nB\nc\n"


def test_pi_10_a_leading_at_is_no_part_of_the_name(tmp_path, call):
    """Neither in what is said nor in the diff."""
    (tmp_path / "f").write_text("a\n")
    result = call(EDIT, path="@f", oldText="a", newText="b")
    assert result.text == "Edited f.\nReplaced line 1."
    assert result.details["diff"].startswith("--- a/f\n+++ b/f\n")


def test_pi_10_the_first_occurrence_is_replaced_and_the_others_are_named(tmp_path, call):
    """The model learns that there were more, and where."""
    (tmp_path / "f").write_text("x = 1\ny = 1\nx = 1\nx = 1\n")
    result = call(EDIT, path="f", oldText="x = 1", newText="x = 2")
    assert "Replaced the first of 3 occurrences, at line 1; the others are at line 3, 4." in result.text
    assert (tmp_path / "f").read_text() == "x = 2\ny = 1\nx = 1\nx = 1\n"
    result = call(EDIT, path="f", oldText="y = 1\nx", newText="z")
    assert result.text == "Edited f.\nReplaced lines 2-3."


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "1\n2\n3", b"1\r\n2\r\n3\r\nc\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "1\r\n2", b"1\r\n2\r\n"),
        (b"a\nb\n", "a\r\nb", "1\r\n2", b"1\n2\n"),
        (b"a\r\nb", "b", "1\n2", b"a\r\n1\r\n2"),
        (b"a\nb\r\nc\r\n", "a", "1\n2", b"1\n2\nb\r\nc\r\n"),
        (b"a\nb\r\nc\r\n", "c", "1\n2", b"a\nb\r\n1\r\n2\r\n"),
        (b"a\r\nb\r\n", "\nb", "", b"a\r\n"),
        (b"\xef\xbb\xbfa\nb", "a\n", "", b"\xef\xbb\xbfb"),
        (b"\xff\xfea\n"[2:] + b"\xe9\xff\n", "a", "b", b"b\n\xe9\xff\n"),
        (b"no end", "end", "ends", b"no ends"),
        ("ü\r\nö".encode("utf-16"), "ü\nö", "a\nb", "a\r\nb".encode("utf-16")),
        (b"\xfe\xff" + "ü\n".encode("utf-16-be"), "ü", "€", b"\xfe\xff" + "€\n".encode("utf-16-be")),
        (b"a.*[b]$\\n(c)", "a.*[b]$\\n(c)", "\\1\\g<0>", b"\\1\\g<0>"),
        (b"a\rb\rc", "b", "x", b"a\rx\rc"),
    ],
)
def test_pi_10_line_ends_marks_and_odd_bytes_stay(tmp_path, call, before, old, new, after):
    """New lines end like those around them; nothing in either text has a meaning of its own."""
    (tmp_path / "f").write_bytes(before)
    result = call(EDIT, path="f", oldText=old, newText=new)
    assert not result.is_error, result.text
    assert (tmp_path / "f").read_bytes() == after


@given(st.binary(), st.binary(), st.text(min_size=1), st.text())
def test_pi_10_all_bytes_but_the_text_stay(before, after, old, new):
    """In a file with one kind of line ends, an edit is a replacement of bytes."""
    before, after = before.replace(b"\r\n", b""), after.replace(b"\r\n", b"")
    old, new = old.replace("\r", ""), new.replace("\r", "")
    data = before + old.encode() + after
    if b"\r\n" in data or not old or old == new:
        return
    assert replaced(data, old, new)[0] == data.replace(old.encode(), new.encode(), 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"oldText": "", "newText": "x"}, "oldText is empty"),
        ({"oldText": "one", "newText": "one"}, "are the same"),
        ({"oldText": "one\ntwo", "newText": "one\r\ntwo"}, "are the same"),
        ({"oldText": "\n\n\n\n", "newText": ""}, "Give some text with the white space."),
        ({"oldText": "tree", "newText": ""}, "\n4: three\n"),
        (
            {"oldText": "def  f( ):\n\treturn “1”", "newText": ""},
            '\n5: def f():\n6:     return "1"\nIt differs only',
        ),
        ({"oldText": "f():\nreturn", "newText": ""}, "It differs only in white space"),
        ({"oldText": "qqqq zzzz", "newText": ""}, "Nothing in it is like that"),
        ({"oldText": "\ud800", "newText": ""}, "lone surrogates"),
    ],
)
def test_pi_10_what_is_not_found_is_shown_as_it_is(tmp_path, refused, arguments, said):
    """The nearest text with its line numbers, so that the next try can be right. The file stays."""
    text = 'one\ntwo\n\nthree\ndef f():\n    return "1"\n'
    (tmp_path / "f").write_text(text)
    assert said in refused(EDIT, path="f", **arguments)
    assert (tmp_path / "f").read_text() == text


def test_pi_10_all_edits_or_none(tmp_path, refused):
    """One that fails takes the others with it, and says which it is."""
    (tmp_path / "f").write_text("a\nb\n")
    edits = [{"oldText": "a", "newText": "1"}, {"oldText": "zz", "newText": "2"}]
    said = refused(EDIT, path="f", edits=edits)
    assert said.startswith("f was not edited. Edit 2 of 2: oldText is not in the file.")
    assert said.endswith("None of the edits was made.")
    assert (tmp_path / "f").read_text() == "a\nb\n"


def test_pi_10_what_cannot_be_edited_is_refused(tmp_path, refused):
    """Missing, a directory, binary, endless."""
    (tmp_path / "binary").write_bytes(b"a\0b")
    (tmp_path / "odd").write_bytes(b"\xff\xfea")
    for path, said in {
        "binari": "Did you mean binary?",
        ".": "is a directory",
        "binary": "is a binary file",
        "odd": "begins like UTF-16 and is none",
        "/dev/zero": "is a character device",
    }.items():
        assert said in refused(EDIT, path=path, oldText="a", newText="b")


def test_pi_10_edits_of_one_message_are_all_kept(tmp_path, ctx):
    """They run side by side, each builds on the one before, and links lead to the same file."""
    (tmp_path / "f").write_text("0\n")
    (tmp_path / "link").symlink_to("f")
    (tmp_path / "here").symlink_to(".")
    paths = itertools.cycle(["f", "link", "here/f", "here/link", str(tmp_path / "link")])

    async def together():
        edits = [{"path": next(paths), "oldText": f"{n}\n", "newText": f"{n}\n{n + 1}\n"} for n in range(30)]
        return await asyncio.gather(*(EDIT.run(checked(EDIT, each), ctx) for each in edits))

    assert not any(result.is_error for result in asyncio.run(together()))
    assert (tmp_path / "f").read_text() == "".join(f"{n}\n" for n in range(31))


def test_pi_10_a_change_by_another_is_not_lost(tmp_path, refused, monkeypatch):
    """An editor saved the file between our reading and our writing."""
    (tmp_path / "f").write_text("a")

    def meanwhile(data, old, new):
        (tmp_path / "f").write_text("theirs")
        return replaced(data, old, new)

    monkeypatch.setattr(edit_module, "replaced", meanwhile)
    assert "was changed by something else" in refused(EDIT, path="f", oldText="a", newText="b")
    assert (tmp_path / "f").read_text() == "theirs"


@pytest.mark.slow
def test_pi_10_looking_for_the_nearest_takes_no_longer_than_is_useful():
    """Also in a big file of lines that are all a little alike."""
    data = b"".join(b"    value_%d = compute(%d, some=thing)\n" % (n, n * 7) for n in range(100_000))
    started = time.process_time()
    with pytest.raises(Refused, match="oldText is not in the file"):
        replaced(data, "    valeu = compute(1, some=thing)\n    other", "x")
    assert time.process_time() - started < 4


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\r\n", "\n", "\x0cd\n"]), max_size=30)


@given(LINES, LINES, LINES, LINES, st.sampled_from(["", "end"]))
def test_pi_10_the_diff_says_what_changed(start, old, new, end, last):
    """Applied to the old text it gives the new one, and the first line that differs is named."""
    before, after = "".join([*start, *old, *end, last]), "".join([*start, *new, *end, last])
    details = changes(before, after, "f")
    if before != after:
        assert applied(details["diff"], before) == after
        first = details["firstChangedLine"] - 1
        old, new = lines_of(before), lines_of(after)
        assert old[:first] == new[:first]
        assert old[first : first + 1] != new[first : first + 1]


def lines_of(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def applied(diff: str, text: str) -> str:
    """A small patch program: it takes line numbers and context at their word."""
    old = lines_of(text)
    lines = re.findall(r"[^\n]*\n", diff.replace("\n\\ No newline at end of file\n", "\0\n"))[2:]
    new, at = [], 0
    for line in lines:
        if header := re.match(r"@@ -(\d+)(?:,(\d+))? ", line):
            start = int(header[1]) - (header[2] != "0")
            new += old[at:start]
            at = start
            continue
        content = line[1:].replace("\0\n", "")
        if line[0] in " -":
            assert old[at] == content
            at += 1
        if line[0] in " +":
            new.append(content)
    return "".join([*new, *old[at:]])


def test_pi_10_a_change_too_big_to_compare_has_no_diff():
    """Comparing is quadratic; where a change begins is known all the same."""
    assert changes("a\n" + "x\n" * 9000, "a\n" + "y\n" * 9000, "f") == {"firstChangedLine": 2}
    assert changes("x" * 2**24, "y", "f") == {}


# --- other users' files ---------------------------------------------------------------------------------


@pytest.mark.process
@needs_root
def test_a_file_of_another_user_keeps_its_owner_or_stays_as_it_is():
    """Root gives it back. Another user who may write to it cannot, and is told whose it is and what to do."""
    with home_of_user() as home:
        os.chown(home, USER, GROUP)
        os.chmod(home, 0o770)
        (home / "f").write_text("a\n")
        os.chmod(home / "f", 0o664)
        os.chown(home / "f", USER, GROUP)

        def edit(old: str, new: str) -> None:
            found = Place(str(home / "f"), "f")
            assert (home / "f").read_text() == old
            replace(found, new.encode())

        act(ROOT, lambda: edit("a\n", "b\n"))
        found = (home / "f").stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (USER, GROUP, 0o664)

        def refused() -> None:
            with pytest.raises(Refused, match=r"f was not replaced: it belongs to .*bash"):
                edit("b\n", "c\n")

        act(OTHER, refused, GROUP)
        assert (home / "f").read_text() == "b\n"
        assert os.listdir(home) == ["f"]
