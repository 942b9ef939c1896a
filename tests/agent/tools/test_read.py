"""The read tool: real files of every kind a model may point at."""

import asyncio
import base64
import errno
import os
import re
import socket
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.tools import ToolContext, checked
from perdure.agent.tools.output import BYTES, LINES
from perdure.agent.tools.read import LARGEST_IMAGE, READ
from perdure.agent.tools.workspace import Place, refusal
from perdure.session.entry import Image
from tests.effort import FEW

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({}, "1\n2\n3\n4"),
        ({"offset": 3}, "3\n4"),
        ({"offset": 0}, "1\n2\n3\n4"),
        ({"limit": 2}, "1\n2\n\n[Lines 1-2 of 4. Use offset=3 to continue.]"),
        ({"offset": 2, "limit": 2}, "2\n3\n\n[Lines 2-3 of 4. Use offset=4 to continue.]"),
        ({"offset": 3, "limit": 2}, "3\n4"),
        ({"offset": 4, "limit": 10**30}, "4"),
        ({"offset": "2", "limit": None}, "2\n3\n4"),
    ],
)
@pytest.mark.parametrize("end", ["\n", ""])
def test_pi_08_offset_and_limit(tmp_path, call, arguments, shown, end):
    """Lines are counted from 1, and the result says how to go on, whether or not the last line has an end."""
    (tmp_path / "f").write_text(f"1\n2\n3\n4{end}")
    result = call(READ, path="f", **arguments)
    assert (result.text, result.is_error) == (shown, False)


@pytest.mark.parametrize("path", ["f", "@f", "./x/../f", "~/f"])
def test_pi_08_paths_as_models_write_them(tmp_path, call, monkeypatch, path):
    """A leading @ and ~ are understood."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "f").write_text("text")
    assert call(READ, path=path).text == "text"


def test_pi_08_a_leading_at_is_a_part_of_the_name_of_a_file_that_has_one(tmp_path, call, refused):
    """The name as it is written comes first, and is what is said of it."""
    (tmp_path / "@at.txt").write_text("with")
    (tmp_path / "at.txt").write_text("without")
    (tmp_path / "@types").mkdir()
    (tmp_path / "types").mkdir()
    (tmp_path / "types" / "b.ts").write_text("only here")
    assert call(READ, path="@at.txt").text == "with"
    assert call(READ, path="at.txt").text == "without"
    assert call(READ, path="@types/b.ts").text == "only here"
    assert refused(READ, path="@types") == "@types is a directory: use ls."
    assert refused(READ, path="@types/c.ts").startswith("@types/c.ts does not exist.")
    (tmp_path / "@link").symlink_to("gone")
    assert refused(READ, path="@link").startswith("@link does not exist. It is a symbolic link to gone")


def test_pi_08_a_leading_at_is_no_part_of_the_name(tmp_path, refused):
    """What is said of a file is said by the path that leads there."""
    (tmp_path / "f").write_text("text")
    assert refused(READ, path="@f", offset=9) == "offset 9 is past the end: f has 1 line."
    assert refused(READ, path="@g").startswith("g does not exist.")
    assert refused(READ, path="@") == ". is a directory: use ls."


def test_pi_08_an_offset_past_the_end_says_how_many_lines_there_are(tmp_path, refused):
    """With and without an end to the last line."""
    (tmp_path / "f").write_text("1\n2\n")
    (tmp_path / "g").write_text("1\n2")
    (tmp_path / "h").write_text("1")
    assert refused(READ, path="f", offset=3) == "offset 3 is past the end: f has 2 lines."
    assert refused(READ, path="g", offset=9) == "offset 9 is past the end: g has 2 lines."
    assert refused(READ, path="h", offset=2) == "offset 2 is past the end: h has 1 line."


def test_pi_08_an_empty_file_says_so(tmp_path, call):
    """Nothing at all would look like a failure."""
    (tmp_path / "f").touch()
    assert call(READ, path="f", offset=5).text == "(empty file)"


def test_pi_08_no_more_than_2000_lines_or_50_kb(tmp_path, call):
    """Whichever comes first, in whole lines."""
    (tmp_path / "many").write_text("x\n" * 3000)
    text = call(READ, path="many").text
    assert text.endswith("[Lines 1-2,000 of 3,000. Use offset=2001 to continue.]")
    assert text.count("\n") == LINES + 1
    (tmp_path / "wide").write_text(("y" * 999 + "\n") * 100)
    text = call(READ, path="wide").text
    assert text.endswith("[Lines 1-51 of 100. Use offset=52 to continue.]")
    assert len(text.partition("\n\n[")[0]) == 51 * 1000 - 1


LINE = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"), max_size=20)


LINES_OF_ALL_LENGTHS = st.lists(st.tuples(LINE, st.sampled_from([0, 0, 0, 600, 20_000])), max_size=12)


@given(LINES_OF_ALL_LENGTHS, st.sampled_from(["\n", "\r\n"]))
@FEW
def test_pi_08_following_the_offsets_reads_every_line_once(tmp_path_factory, lines, end):
    """Whatever the lines are, the pages put together are the file."""
    lines = ["x" + line + "é" * more for line, more in lines]
    path = tmp_path_factory.mktemp("pages") / "f"
    path.write_bytes(end.join([*lines, ""]).encode())

    async def pages():
        offset, found = 1, []
        while offset:
            arguments = {"path": str(path), "offset": offset, "limit": 3}
            result = await READ.run(checked(READ, arguments), ToolContext("/"))
            assert not result.is_error
            body, _, note = result.text.partition("\n\n[Lines")
            found += body.split("\n")
            more = re.search(r"offset=(\d+)", note)
            offset = int(more[1]) if more else 0
        return found

    assert asyncio.run(pages()) == (lines or ["(empty file)"])


def test_pi_08_a_line_too_long_to_show_has_a_hint(tmp_path, call, refused):
    """It stops before such a line, and says how else to see it."""
    (tmp_path / "f").write_text("short\n" + "x" * (BYTES + 1) + "\nshort\n")
    assert call(READ, path="f").text == "short\n\n[Lines 1-1 of 3. Use offset=2 to continue.]"
    assert "`sed -n 2p FILE | head -c 2000`" in refused(READ, path="f", offset=2)
    assert call(READ, path="f", offset=3).text == "short"


# --- what kind of file it is ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
        (b"GIF89a\1\0\1\0", "image/gif"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
def test_pi_08_an_image_is_an_image_block(tmp_path, call, data, kind):
    """Told by its bytes and not by its name, with a line of text."""
    (tmp_path / "f.txt").write_bytes(data)
    result = call(READ, path="f.txt")
    assert result.text == f"f.txt: {kind}, {len(data)} bytes"
    assert result.blocks[1] == Image(base64.b64encode(data).decode(), kind)


def test_pi_08_an_image_may_have_5_mb(tmp_path, call, refused):
    """One byte more is refused, and read no further."""
    path = tmp_path / "f.png"
    path.write_bytes(PNG)
    os.truncate(path, LARGEST_IMAGE)
    assert isinstance(call(READ, path="f.png").blocks[1], Image)
    os.truncate(path, LARGEST_IMAGE + 1)
    assert "5,242,881 bytes" in refused(READ, path="f.png")
    os.truncate(path, 2**40)
    assert "make a smaller copy" in refused(READ, path="f.png")


def test_pi_08_a_text_that_begins_like_an_image_is_text(tmp_path, call):
    """An image that is none would be refused by every provider, in every request from then on."""
    (tmp_path / "f").write_text("GIF89a is a format")
    assert call(READ, path="f").text == "GIF89a is a format"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x7fELF\2\1\1\0", "an ELF program or library of 8 bytes"),
        (b"%PDF-1.7\n", "a PDF document of 9 bytes"),
        (b"SQLite format 3\0", "an SQLite database of 16 bytes"),
        (b"PK\3\4", "a ZIP archive"),
        (b"text\0text", "a binary file of 9 bytes"),
        (bytes(range(128, 256)) * 3, "a binary file of 384 bytes"),
    ],
)
def test_pi_08_what_is_no_text_is_refused_with_its_kind_and_size(tmp_path, refused, data, said):
    """A model must not take bytes for text."""
    (tmp_path / "f").write_bytes(data)
    assert said in refused(READ, path="f")


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\xef\xbb\xbfbom\n", "bom"),
        ("ü\r\n€\n".encode("utf-16"), "ü\n€"),
        (b"\xfe\xff" + "ü\n€\n".encode("utf-16-be"), "ü\n€"),
        (b"a\r\nb\rc\r\n", "a\nb\rc"),
        (b"caf\xe9\n", "caf\ufffd\n\n[Bytes that are not UTF-8 are shown as \ufffd.]"),
        ("\ufffd\n".encode(), "\ufffd"),
        ("\u2028\x0c\x85\n".encode(), "\u2028\x0c\x85"),
    ],
)
def test_pi_08_text_in_other_encodings(tmp_path, call, data, shown):
    """Byte order marks are obeyed and not shown; bytes that are no text are replaced, and that is said."""
    (tmp_path / "f").write_bytes(data)
    assert call(READ, path="f").text == shown


# --- what cannot be read --------------------------------------------------------------------------


def test_pi_08_a_missing_file_has_its_neighbours_named(tmp_path, refused):
    """As the model would have to write them; also where a directory is wrong."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "Main.py").touch()
    assert refused(READ, path="src/main.pi") == "src/main.pi does not exist. Did you mean src/Main.py?"
    assert refused(READ, path="scr/Main.py") == "scr/Main.py does not exist. Did you mean src/Main.py?"
    assert refused(READ, path="zzz") == "zzz does not exist. Use ls or find."
    assert "There is no lib in the working directory." in refused(READ, path="lib/a/b.py")
    assert "a part of the path is a file" in refused(READ, path="src/Main.py/x")
    (tmp_path / "link").symlink_to("gone")
    assert "symbolic link to gone, which does not exist" in refused(READ, path="link")
    (tmp_path / "loop").symlink_to("loop")
    assert "leads back to itself" in refused(READ, path="loop")


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b", "x" * 300, "x/" * 3000])
def test_pi_08_a_path_that_none_can_be_is_refused(refused, path):
    """Without an exception from the system."""
    assert refused(READ, path=path)


def test_pi_08_a_directory_is_for_ls(tmp_path, refused):
    """The tool to use is named."""
    assert refused(READ, path=".") == ". is a directory: use ls."


def test_pi_08_devices_fifos_and_sockets_are_not_opened(tmp_path, refused):
    """Nobody writes to the FIFO, and zeros never end."""
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(tmp_path)  # the path of a socket is short
        server.bind("socket")
        os.chdir(here)
        assert "is a FIFO, not a file" in refused(READ, path="fifo")
        assert "is a socket, not a file" in refused(READ, path="socket")
        assert "is a character device" in refused(READ, path="/dev/zero")


def test_pi_08_a_file_that_the_kernel_makes_is_read(call):
    """Its size is said to be 0, and it is not empty."""
    assert call(READ, path="/proc/self/status", limit=1).text.startswith("Name:")


def test_pi_08_no_permission_is_said():
    """As root, who runs tests in a container, nothing is forbidden: only the words are tested."""
    error = OSError(errno.EACCES, "Permission denied")
    assert str(refusal(error, Place("/x", "x"))).startswith("No permission: x may not be opened")


def test_pi_08_a_huge_file_costs_what_is_shown(tmp_path, call):
    """8 GB, of which the beginning is read, in little memory."""
    (tmp_path / "f").write_bytes(b"line\n" * 50_000)
    os.truncate(tmp_path / "f", 8 * 2**30)
    tracemalloc.start()
    try:
        started = time.process_time()
        text = call(READ, path="f", offset=40_000, limit=2).text
        assert time.process_time() - started < 2
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()
    assert text == "line\nline\n\n[Lines 40,000-40,001. Use offset=40002 to continue.]"


def test_pi_08_a_cancelled_scan_ends(tmp_path, ctx):
    """Nothing goes on reading in the background."""
    (tmp_path / "f").write_bytes(b"line\n" * 10_000)
    os.truncate(tmp_path / "f", 2**40)

    async def cancelled():
        call = asyncio.ensure_future(READ.run(checked(READ, {"path": "f", "offset": 10**9}), ctx))
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    started = time.monotonic()
    asyncio.run(cancelled())  # which waits for threads
    assert time.monotonic() - started < 20
