"""A prompt, put together from what somebody typed, named and piped in."""

from __future__ import annotations

import base64
import codecs
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from perdure import config
from perdure.agent.tools.read import LARGEST_IMAGE, image_kind
from perdure.agent.tools.workspace import SNIFFED, is_binary
from perdure.errors import UsageError
from perdure.front.amounts import size
from perdure.front.output import Output
from perdure.front.visible import fit
from perdure.session.entry import Block, Content, Image, Text

_MOST_BYTES = 20 * 1024 * 1024
"""Of stdin, and of a file: more is no prompt."""


_SHOWN = 200
"""Columns of a name that is in no file's place."""


class Asked(NamedTuple):
    """A prompt in its parts."""

    said: str
    """The words of the command line."""
    texts: list[str]
    """What was piped in, and files."""
    blocks: list[Block]

    def content(self, said: str) -> Content:
        """What was piped in, the files, and what is said in place of the words, in this order."""
        text = "\n".join([*self.texts, *([said] if said.strip() else [])])
        return [Text(text), *self.blocks] if self.blocks else text


def prompt(words: Sequence[str], cwd: str, out: Output) -> Asked:
    """From what was piped in, the files named with `@`, and the words of the command line."""
    files = [word[1:] for word in words if word.startswith("@") and len(word) > 1]
    said = " ".join(word for word in words if not (word.startswith("@") and len(word) > 1))
    blocks: list[Block] = []
    texts = [piped] if (piped := _piped(out)) else []
    for name in files:
        _attach(name, cwd, texts, blocks)
    if not any(text.strip() for text in (*texts, said)):
        raise UsageError("There is no prompt", 'say something: --print "explain this code"')
    return Asked(said, texts, blocks)


def typed(text: str, cwd: str, note: Callable[[str], None]) -> Asked:
    """What somebody typed, and the files that it names with `@`: those that there are. `note` is told which
    these are, and which are not there."""
    texts, blocks = list[str](), list[Block]()
    for name in dict.fromkeys(found[1] or found[2].rstrip(".,;:!?)") for found in _NAMED.finditer(text)):
        path = os.path.join(cwd, config.expanded(name))
        if os.path.isfile(path):
            _attach(name, cwd, texts, blocks)
            note(f"with {name}, {size(os.path.getsize(path))}")
        elif os.path.isdir(path):
            note(f"@{name} is a folder, and is sent as the word it is")
        elif re.search(r"[./]", name):
            note(f"@{fit(name, _SHOWN)} is no file that there is, and is sent as the word it is")
    return Asked(text, texts, blocks)


def names_files(text: str) -> bool:
    """Whether it may."""
    return _NAMED.search(text) is not None


_NAMED = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|([^\s"]\S*))')


def _attach(name: str, cwd: str, texts: list[str], blocks: list[Block]) -> None:
    attached = _attached(name, cwd)
    if isinstance(attached, Image):
        blocks.append(attached)
        attached = f'<file name="{name}"></file>'
    texts.append(attached)


def _piped(out: Output) -> str:
    """What comes through a pipe or from a file. A terminal is not waited for."""
    stdin = sys.stdin
    if stdin is None or stdin.isatty():
        return ""
    try:
        out.transient("Reading stdin")
        data = stdin.buffer.read(_MOST_BYTES + 1)
    except (OSError, ValueError):
        return ""
    finally:
        out.transient("")
    if len(data) > _MOST_BYTES:
        raise UsageError(f"stdin has more than {_MOST_BYTES >> 20} MB", "name the file in the prompt instead")
    if is_binary(data[:SNIFFED]):
        raise UsageError("stdin is no text", "name the file in the prompt instead")
    return _text(data).strip("\n")


def _attached(name: str, cwd: str) -> str | Image:
    path = os.path.join(cwd, config.expanded(name))
    try:
        if not os.path.isfile(path):
            reason = "it is no file" if os.path.exists(path) else "there is no such file"
            shown = fit(name, _SHOWN)
            raise UsageError(f"Cannot read @{shown}: {reason}", "a prompt that begins with @ can be piped in")
        if os.path.getsize(path) > _MOST_BYTES:
            raise UsageError(f"@{name} has more than {_MOST_BYTES >> 20} MB", "name it in the prompt instead")
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise UsageError(f"Cannot read @{name}: {error.strerror}") from None
    kind = image_kind(data)
    if kind and len(data) > LARGEST_IMAGE:
        raise UsageError(f"@{name} is an image of more than {LARGEST_IMAGE >> 20} MB", "make it smaller")
    if kind:
        return Image(base64.b64encode(data).decode(), kind)
    if is_binary(data[:SNIFFED]):
        raise UsageError(f"@{name} is neither text nor an image", "name it in the prompt instead")
    return f'<file name="{name}">\n{_text(data)}\n</file>'


def _text(data: bytes) -> str:
    is_utf_16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if is_utf_16 else "utf-8-sig", "replace")
