"""The write tool: the old file or the new one, whatever happens in between."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from perdure.agent.tools import checked
from perdure.agent.tools.read import READ
from perdure.agent.tools.write import WRITE
from tests import processes


def test_pi_09_a_new_file_and_its_parents(tmp_path, call):
    """What was written is said, and is what is there."""
    result = call(WRITE, path="a/b/c.txt", content="ü\nx")
    assert result.text == "Wrote 4 bytes (2 lines) to a/b/c.txt, a new file."
    assert result.details == {"isNew": True}
    assert (tmp_path / "a/b/c.txt").read_bytes() == "ü\nx".encode()


def test_pi_09_an_old_file_is_replaced(tmp_path, call):
    """What the content is, is the model's: line ends are written as given. The change is in the details."""
    (tmp_path / "f").write_bytes(b"one\r\ntwo\r\n")
    result = call(WRITE, path="f", content="one\r\n2\n")
    assert result.text == "Wrote 7 bytes (2 lines) to f, replacing what was there."
    assert (tmp_path / "f").read_bytes() == b"one\r\n2\n"
    assert result.details == {
        "isNew": False,
        "diff": "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n one\r\n-two\r\n+2\n",
        "firstChangedLine": 2,
    }


def test_pi_09_a_leading_at_is_no_part_of_the_name(tmp_path, call):
    """Neither in what is said nor in the diff."""
    (tmp_path / "f").write_text("old\n")
    result = call(WRITE, path="@f", content="new\n")
    assert result.text == "Wrote 4 bytes (1 line) to f, replacing what was there."
    assert result.details["diff"].startswith("--- a/f\n+++ b/f\n")


def test_pi_09_a_leading_at_is_a_part_of_the_name_where_there_is_one(tmp_path, call):
    """A file that begins with one, or a new file in such a folder."""
    (tmp_path / "@at").write_text("old")
    (tmp_path / "@types").mkdir()
    assert "to @at, replacing" in call(WRITE, path="@at", content="new").text
    assert "to @types/x.ts, a new file" in call(WRITE, path="@types/x.ts", content="new").text
    assert "to src/x.ts, a new file" in call(WRITE, path="@src/x.ts", content="new").text
    assert (tmp_path / "@at").read_text() == (tmp_path / "@types/x.ts").read_text() == "new"


@pytest.mark.parametrize("old", [b"\0\1", b"\xff", b"x\n" * 2**20])
def test_pi_09_no_diff_of_what_is_no_text_or_too_long(tmp_path, call, old):
    """It is written all the same."""
    (tmp_path / "f").write_bytes(old)
    assert call(WRITE, path="f", content="new").details == {"isNew": False}
    assert (tmp_path / "f").read_text() == "new"


def test_pi_09_mode_and_links_stay(tmp_path, call):
    """A link is followed to its target, also to one that is not there yet; a program stays executable."""
    (tmp_path / "run").write_text("old")
    (tmp_path / "run").chmod(0o751)
    (tmp_path / "link").symlink_to("run")
    (tmp_path / "to-new").symlink_to("new")
    call(WRITE, path="link", content="text")
    call(WRITE, path="to-new", content="text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "to-new").is_symlink()
    assert (tmp_path / "run").read_text() == (tmp_path / "new").read_text() == "text"
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o751


def test_pi_09_a_name_as_long_as_can_be(tmp_path, call):
    """What is written beside it has a name of its own."""
    name = "x" * 255
    assert not call(WRITE, path=name, content="").is_error
    assert os.listdir(tmp_path) == [name]


def test_pi_09_a_disk_that_refuses_leaves_the_old_file(tmp_path, refused):
    """As a full disk does: the kernel takes a part of the data and no more."""
    (tmp_path / "f").write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        assert refused(WRITE, path="f", content="x" * 2000) == "f: File too large."
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "f").read_text() == "old"
    assert os.listdir(tmp_path) == ["f"]


WRITER = """
import asyncio, itertools
from perdure.agent.tools import ToolContext
from perdure.agent.tools.write import WRITE, Write

async def main():
    for number in itertools.count():
        await WRITE.run(Write("f", str(number % 10) * 1_000_000), ToolContext("."))

asyncio.run(main())
"""


@pytest.mark.process
def test_pi_09_a_kill_leaves_a_whole_file(tmp_path):
    """One content or the next, at every moment."""
    for attempt in range(3):
        process = processes.Popen([sys.executable, "-c", WRITER], cwd=tmp_path)
        with process:
            while not (tmp_path / "f").exists():
                time.sleep(0.01)
            try:
                process.wait(0.02 + attempt / 71)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
        text = (tmp_path / "f").read_text()
        assert len(text) == 1_000_000
        assert len(set(text)) == 1
        (tmp_path / "f").unlink()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"path": "d", "content": ""}, "d is a directory"),
        ({"path": "fifo", "content": ""}, "fifo is a FIFO, not a file"),
        ({"path": "f/x", "content": ""}, "a part of the path is a file"),
        ({"path": "f/x/y", "content": ""}, "a part of the path is a file"),
        ({"path": "a\0b", "content": ""}, "NUL"),
        ({"path": "n", "content": "\ud800"}, "lone surrogates"),
        ({"path": "/proc/nothing/here", "content": ""}, ""),
    ],
)
def test_pi_09_what_cannot_be_written_is_refused(tmp_path, refused, arguments, said):
    """With a reason, and nothing is made."""
    (tmp_path / "d").mkdir()
    (tmp_path / "f").write_text("old")
    os.mkfifo(tmp_path / "fifo")
    assert said in refused(WRITE, **arguments)
    assert sorted(os.listdir(tmp_path)) == ["d", "f", "fifo"]
    assert (tmp_path / "f").read_text() == "old"


def test_pi_09_calls_on_one_file_are_made_in_their_order(tmp_path, ctx):
    """As those of two agents in one process; a read after a write reads what was written."""

    async def together():
        calls = []
        for number in range(20):
            calls.append(WRITE.run(checked(WRITE, {"path": "f", "content": str(number)}), ctx))
            calls.append(READ.run(checked(READ, {"path": "f"}), ctx))
        return await asyncio.gather(*calls)

    assert [result.text for result in asyncio.run(together())[1::2]] == [str(number) for number in range(20)]


@pytest.mark.parametrize(
    ("old", "content", "written"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"a\r\n", "x", b"x"),
        (b"a\r\nb\n", "x\ny\n", b"x\ny\n"),
        (b"a\nb\r\n", "x\ny\n", b"x\ny\n"),
        (b"no break", "x\n", b"x\n"),
        (b"", "x\n", b"x\n"),
        (b"a\r\n", "x\r\ny\n", b"x\r\ny\n"),
        (b"a\n", "x\r\ny\r\n", b"x\r\ny\r\n"),
        (b"\0\r\n", "x\n", b"x\n"),
        ("a\r\n".encode("utf-16"), "x\n", b"x\n"),
        (b"y" * (2**20 - 1) + b"\r\n" + b"z\r\n" * 2**19, "x\n", b"x\r\n"),
        (b"y" * (2**20 - 1) + b"\r\n" + b"z\r\n" * 2**19 + b"\n", "x\n", b"x\n"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_pi_09_a_file_of_crlf_stays_one_and_the_result_says_so(tmp_path, call, old, content, written):
    """If it had no other line breaks and the content has none of these; anything else is written as given."""
    (tmp_path / "f").write_bytes(old)
    result = call(WRITE, path="f", content=content)
    assert (tmp_path / "f").read_bytes() == written
    is_kept = written != content.encode()
    assert ("CRLF" in result.text) == is_kept
    assert f"Wrote {len(written)} bytes" in result.text


def test_pi_09_the_diff_of_a_file_of_crlf_shows_only_what_changed(tmp_path, call):
    (tmp_path / "f").write_bytes(b"one\r\ntwo\r\n")
    result = call(WRITE, path="f", content="one\n2\n")
    assert result.details["diff"] == "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n one\r\n-two\r\n+2\r\n"
