"""The ls tool: what is in a directory, of every kind."""

import os
import socket

import pytest

from perdure.agent.tools.ls import LS


def test_pi_13_names_and_types(tmp_path, call, monkeypatch):
    """In alphabetical order whatever the case, dot files too, and each kind has its mark."""
    for name in ("b", "A", ".dot", "ä", "a b"):
        (tmp_path / name).touch()
    (tmp_path / "Dir").mkdir()
    (tmp_path / "to-file").symlink_to("b")
    (tmp_path / "to-dir").symlink_to("Dir")
    (tmp_path / "to-nothing").symlink_to("gone")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")
        assert call(LS).text.split("\n") == [
            *(".dot", "A", "a b", "b", "Dir/", "pipe|", "sock=", "to-dir@ -> Dir/", "to-file@ -> b"),
            *("to-nothing@ -> gone (which does not exist)", "ä"),
        ]


def test_pi_13_devices_are_marked(call):
    """They are not files to read."""
    assert "null%" in call(LS, path="/dev").text.split("\n")


def test_pi_13_an_empty_directory_says_so(tmp_path, call):
    """Nothing at all would look like a failure."""
    assert call(LS, path=".").text == "(empty directory)"


def test_pi_13_the_limit_is_said(tmp_path, call):
    """500 names if nothing else is said, the first in order, and how many there are."""
    for number in range(501):
        (tmp_path / f"{number:03}").touch()
    result = call(LS)
    assert result.text.startswith("000\n001\n")
    assert result.text.endswith("499\n\n[500 of 501 are shown. Use limit=1000, or find.]")
    assert result.details == {"entryLimitReached": 500}
    assert "[" not in call(LS, limit=501).text


def test_pi_13_what_is_shown_is_bounded(tmp_path, call):
    """50 KB, whatever the limit."""
    for number in range(250):
        (tmp_path / f"{number:03}{'x' * 240}").touch()
    text = call(LS).text
    assert len(text) < 52_000
    assert "of 250 are shown. Use find with a pattern.]" in text


def test_pi_13_names_of_any_kind_take_one_line(tmp_path, call):
    """Bytes that are no text and control characters are shown as escapes."""
    for name in (b"a\nb", b"c\xff", b"e\x1b[31m", "ü\u202e".encode()):
        open(os.path.join(os.fsencode(tmp_path), name), "wb").close()
    assert call(LS).text.split("\n") == ["a\\nb", "c\\xff", "e\\x1b[31m", "ü\u202e"]


@pytest.mark.parametrize(
    ("path", "said"), [("f", "f is not a directory: use read"), ("g", "g does not exist")]
)
def test_pi_13_what_is_no_directory_is_refused(tmp_path, refused, path, said):
    """With what to do instead."""
    (tmp_path / "f").touch()
    assert said in refused(LS, path=path)
