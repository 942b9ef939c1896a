"""The rows of the shell: until it can be typed in, and what a word of an answer costs (P15, P16)."""

from __future__ import annotations

import asyncio
import io
import os
import re
import subprocess
import time
from contextlib import ExitStack
from typing import Any, cast

from bench.ground import Ground
from bench.measure import Contender
from bench.row import Scale
from bench.sessions import entries
from perdure.session import ids
from perdure.session.stores import Header
from perdure.session.stores.pi_jsonl import PiStore

_PROMPT = re.compile(rb"starting|offline")
"""The line below it."""
_DELTA = 8
_PARAGRAPH = """\
## Part {number}

A paragraph with **bold words**, `code` and a [link](https://example.com) that is long enough to be wrapped
at the end of a line or two of a terminal, as most are.

- an item
- another one, with *emphasis*

```python
def part_{number}(total: int) -> int:
    return total + {number}
```

"""


def to_the_prompt(ground: Ground, scale: Scale, stack: ExitStack) -> list[Contender]:
    installed = ground.installation()
    home = os.path.join(ground.folder, "p15")
    project = os.path.join(home, "project")
    os.makedirs(project)
    environment = {"HOME": home, "PATH": os.environ["PATH"], "TERM": "xterm-256color"}
    store = PiStore(ground.folder, cwd=project, durability="process")
    long = store.create(Header(ids.new_id(), ids.stamp(ids.now()), project), entries(scale.of(100_000)))

    def ended(*command: str) -> None:
        subprocess.run(command, cwd=project, env=environment, check=True)

    bare = 'python -c "import prompt_toolkit"'
    pi = installed.script("pi", "perdure.programs.pi")
    resumed = f"pi --session, of {scale.of(100_000):,} messages"
    return [
        Contender(bare, lambda: ended(installed.python, "-c", "import prompt_toolkit")),
        Contender("pi", lambda: _prompted(project, environment, pi), bare, 1.8, after=_left),
        Contender(
            resumed, lambda: _prompted(project, environment, pi, "--session", long.path), bare, after=_left
        ),
    ]


def _prompted(project: str, environment: dict[str, str], *command: str) -> tuple[int, int]:
    """A process on a terminal of its own, which has shown its prompt, and that terminal."""
    import fcntl
    import pty
    import struct
    import termios

    process, terminal = pty.fork()
    if not process:
        os.chdir(project)
        os.execve(command[0], command, environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    shown = b""
    while not _PROMPT.search(shown):
        shown += os.read(terminal, 65536)
    return process, terminal


def _left(started: tuple[int, int]) -> None:
    process, terminal = started
    os.kill(process, 9)
    os.waitpid(process, 0)
    os.close(terminal)


def a_word(ground: Ground, scale: Scale, stack: ExitStack) -> list[Contender]:
    """Blocks of one answer, early and late in it: what is drawn, and what a delta of it costs."""
    size = 200_000 // scale.divisor
    early, late = f"the first tenth of {size // 1000} KB", "the last tenth"
    shown = _Shown(size)
    return [
        Contender(early, lambda: shown.part(is_late=False), reports=True),
        Contender(late, lambda: shown.part(is_late=True), early, 1.1, reports=True),
    ]


class _Shown:
    """An answer on a terminal that is not there, up to its beginning or to its end."""

    def __init__(self, size: int) -> None:
        parts = size // len(_PARAGRAPH) + 10
        self._text = "".join(_PARAGRAPH.format(number=10_000 + number) for number in range(parts))
        self._tenth = len(self._text) // 10

    def part(self, *, is_late: bool) -> list[float]:
        return [asyncio.run(self._measured(9 * self._tenth if is_late else 0))]

    async def _measured(self, start: int) -> float:
        """Seconds of CPU for a delta, when so much was said before."""
        from prompt_toolkit.completion import DummyCompleter
        from prompt_toolkit.data_structures import Size
        from prompt_toolkit.history import DummyHistory
        from prompt_toolkit.input import create_pipe_input
        from prompt_toolkit.output.vt100 import Vt100_Output

        from perdure.front.output import Output
        from perdure.front.screen import Screen

        with create_pipe_input() as keys:
            nowhere = Vt100_Output(_Nowhere(), lambda: Size(rows=24, columns=80), enable_cpr=False)
            out = Output(stdout=_Nowhere(), stderr=_Nowhere())
            screen = Screen(
                out,
                prompt=lambda: "> ",
                history=DummyHistory(),
                completer=DummyCompleter(),
                input=keys,
                output=nowhere,
            )
            talking = asyncio.ensure_future(screen.talk(cast(Any, _NoShell())))
            await self._said(screen, self._text[:start], 10 * _DELTA)
            begun = time.process_time()
            await self._said(screen, self._text[start : start + self._tenth], _DELTA)
            spent = time.process_time() - begun
            screen.leave()
            await talking
            return spent * _DELTA / self._tenth

    async def _said(self, screen: Any, text: str, size: int) -> None:
        for at in range(0, len(text), size):
            screen.answer(text[at : at + size])
            await asyncio.sleep(0)


class _NoShell:
    facts = ("a model", "a session")


class _Nowhere(io.StringIO):
    """A terminal that nobody looks at."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        return len(text)

    def isatty(self) -> bool:
        return True
