"""What could stand where the cursor is, in a conversation: a command, what it takes, or a file behind `@`."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory

from perdure import config
from perdure.front.visible import one_line
from perdure.session.stores import files, owners

_MOST = 200
_MOST_REMEMBERED = 2**20
"""Bytes of what was typed before. Older lines are forgotten."""


class Aid(Completer):
    def __init__(
        self,
        commands: Callable[[], Mapping[str, str]],
        values: Callable[[str, str], Iterable[str]],
        cwd: Callable[[], str],
    ) -> None:
        """`commands` are names and what each does; `values` is what a command of a name takes, given what is
        typed of it."""
        self._commands = commands
        self._values = values
        self._cwd = cwd

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterator[Completion]:
        text = document.text_before_cursor
        if text.startswith("/") and not re.search(r"\s", text):
            for name, meaning in self._commands().items():
                if name.startswith(text[1:]):
                    yield Completion(f"/{name}", -len(text), display_meta=one_line(meaning))
            return
        if word := _file_begun(text):
            yield from islice(self._files(word), _MOST)
        elif found := re.fullmatch(r"/(\S+)\s+(\S*)", text):
            for value in islice(self._values(found[1], found[2]), _MOST):
                if value.startswith(found[2]):
                    yield Completion(value, -len(found[2]), display=one_line(value))

    def _files(self, word: str) -> Iterator[Completion]:
        typed = word[1:].lstrip('"')
        folder, name = os.path.split(typed)
        try:
            found = sorted(
                os.scandir(os.path.join(self._cwd(), config.expanded_to_read(folder))), key=lambda e: e.name
            )
        except OSError:
            return
        for each in found:
            if not each.name.startswith(name) or (each.name.startswith(".") and not name.startswith(".")):
                continue
            is_folder = each.is_dir()
            path = os.path.join(folder, each.name) + ("/" if is_folder else "")
            if not path.isprintable():
                continue  # nobody could see what they chose
            is_quoted = " " in path
            shown = f'@"{path}{"" if is_folder else chr(34)}' if is_quoted else f"@{path}"
            yield Completion(shown, -len(word), display=each.name + ("/" if is_folder else ""))


def _file_begun(text: str) -> str:
    """The `@…` that ends at the cursor; empty if there is none."""
    line = text.rpartition("\n")[2]
    if quoted := re.search(r'(?:^|\s)(@"[^"]*)$', line):
        return quoted[1]
    found = re.search(r"(?:^|\s)(@\S*)$", line)
    return found[1] if found else ""


class Remembered(FileHistory):
    """What was typed before, in a file that is its user's alone."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        try:
            if not os.path.lexists(path):
                files.make_empty(path)
            if os.path.getsize(path) > 2 * _MOST_REMEMBERED:
                self._forget_the_oldest(path)
        except OSError:
            pass  # what cannot be kept is remembered until the end

    def store_string(self, string: str) -> None:
        try:
            super().store_string(string)
        except OSError:
            pass

    def _forget_the_oldest(self, path: str) -> None:
        with open(path, "rb") as file:
            file.seek(-_MOST_REMEMBERED, os.SEEK_END)
            kept = file.read()
        unfinished = f"{path}.{os.getpid()}"
        try:
            with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                owners.keep(file.fileno(), os.stat(path))
                file.write(kept[kept.find(b"\n#") + 1 :])
            os.replace(unfinished, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
            raise
