"""`pi --print`: one prompt, its answer on stdout, and nothing else there.

The answer is written when it is saved. Whatever ends the run early (a signal, a reader that went away, a full
disk) leaves a session that goes on from what was saved, and an exit code that says so.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from types import SimpleNamespace

from perdure import config
from perdure.agent.events import (
    AgentEvent,
    AutoRetryStart,
    CompactionEnd,
    MessageEnd,
    ToolExecutionEnd,
    ToolExecutionStart,
    to_json,
)
from perdure.agent.models.resolver import wanted
from perdure.agent.session import AgentSession
from perdure.agent.settings import Settings, untrusted
from perdure.agent.tools import BUILT_IN
from perdure.agent.tools.read import image_kind
from perdure.errors import PerdureError, UsageError
from perdure.front.opening import Opened, open_session
from perdure.front.output import Output, Styled
from perdure.front.visible import fit, one_line
from perdure.session import reference
from perdure.session.entry import Assistant, Block, Content, Image, SessionInfo, Text, text_of
from perdure.session.record import dumps

_MOST_BYTES = 20 * 1024 * 1024
"""Of stdin, and of a file: more is no prompt."""


def oneshot(options: SimpleNamespace, out: Output) -> int:
    cwd = _in_directory(options.C)
    content = _prompt(options.message, cwd)
    tools = _tools(options)
    settings = Settings.load()
    notice = untrusted(cwd)
    if notice:
        out.note(Styled(notice, "yellow"))
    agent = AgentSession(
        cwd=cwd,
        settings=settings,
        tools=tools,
        system_prompt=_text_or_file(options.system_prompt),
        append_system_prompt=[text] if (text := _text_or_file(options.append_system_prompt)) else [],
    )
    if options.model:
        agent.find_model(options.model)  # or a fork would be made for nothing
    opened = open_session(options, out, cwd)
    return asyncio.run(_Run(agent, opened, options, out).talk(content))


class _Run:
    def __init__(self, agent: AgentSession, opened: Opened, options: SimpleNamespace, out: Output) -> None:
        self._agent = agent
        self._opened = opened
        self._options = options
        self._out = out
        self._signal = 0
        self._is_json = options.mode == "json"
        self._last: Assistant | None = None
        self._is_said = False

    async def talk(self, content: Content) -> int:
        async with self._agent:
            await self._agent.start(
                self._options.model or None,
                session=self._opened.session,
                is_new=self._opened.is_new,
                default_model=wanted(None),
                thinking=self._options.thinking or None,
            )
            self._say_what_is_unexpected()
            if self._options.name:
                self._agent.agent.note_change(SessionInfo(self._options.name))
            if self._is_json:
                self._line(dumps(self._header()))
            try:
                with self._signals():
                    async with aclosing(self._agent.send_message(content)) as events:
                        async for event in events:
                            self._see(event)
                return self._answer()
            finally:
                self._say_how_to_go_on()

    # --- what is shown -------------------------------------------------------------------------------

    def _see(self, event: AgentEvent) -> None:
        if self._is_json:
            self._line(to_json(event))
        match event:
            case MessageEnd(message=message):
                self._is_said = True
                if isinstance(message, Assistant):
                    self._last = message
            case ToolExecutionStart(tool_name=name, args=arguments) if self._out.is_watched:
                from perdure.front.render import glance

                self._progress(f"{name} {glance(arguments)}")
            case ToolExecutionEnd(tool_name=name, is_error=True, result=result):
                self._progress(f"{name} failed: {result.text.strip().partition(chr(10))[0]}")
            case AutoRetryStart(attempt=attempt, max_attempts=most, delay_ms=delay, error_message=why):
                self._note(f"{why}; trying again in {delay / 1000:.0f} s ({attempt} of {most})")
            case CompactionEnd(result=dict()):
                self._note("The conversation was condensed to make room; all of it is still in the session.")
            case CompactionEnd(error_message=str(why)):
                self._note(f"The conversation could not be condensed: {why}")

    def _progress(self, text: str) -> None:
        """What is going on, for somebody who watches."""
        if self._out.is_watched:
            self._out.note(Styled(fit(one_line(text), self._out.note_columns - 1), "dim"))

    def _note(self, text: str) -> None:
        self._out.note(Styled(one_line(text), "yellow"))

    def _line(self, data: bytes) -> None:
        self._out.raw(data + b"\n")
        self._out.flush()

    def _header(self) -> dict[str, object]:
        header = self._opened.header
        return {
            "type": "session",
            "version": 3,
            "id": header.id,
            "timestamp": header.timestamp,
            "cwd": header.cwd or config.here(),
        }

    def _answer(self) -> int:
        last = self._last
        if self._signal:
            return 128 + self._signal
        if last is None:
            raise PerdureError("There was no answer")
        if last.stop_reason in ("error", "aborted"):
            why = last.error_message if isinstance(last.error_message, str) else "the model failed"
            raise PerdureError(why)
        if not self._is_json:
            text = text_of(last.content)
            if text:
                self._out.raw((text if text.endswith("\n") else f"{text}\n").encode("utf-8", "replace"))
            else:
                self._note("The model said nothing.")
        if last.stop_reason == "length":
            self._note("The answer was cut off: the model may not say more at once.")
        return 0

    def _say_what_is_unexpected(self) -> None:
        for notice in self._agent.notices:
            self._note(notice)
        here = config.here()
        cwd = self._opened.header.cwd
        if cwd and os.path.realpath(cwd) != os.path.realpath(here):
            home = config.as_typed(cwd)
            self._note(f"This session belongs to {home}; staying in {config.as_typed(here)}.")

    def _say_how_to_go_on(self) -> None:
        if not self._is_said or self._options.no_session:
            return
        import shlex

        session = self._opened.session
        is_listed = any(session.ref.path == ref.path for _, ref in reference.listed())
        name = session.id if is_listed else session.ref.path
        self._out.note(Styled(f"Go on: {self._out.program} --session {shlex.quote(name)} -p TEXT", "dim"))

    # --- signals -------------------------------------------------------------------------------------

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Each ends the turn, which keeps what arrived. A second one does not wait for that."""
        loop = asyncio.get_running_loop()
        caught = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
        task = asyncio.current_task()

        def stop(number: int) -> None:
            if self._signal and task is not None:
                task.cancel()
            self._signal = number
            self._agent.abort()

        for each in caught:
            try:
                loop.add_signal_handler(each, stop, int(each))
            except (NotImplementedError, RuntimeError):
                pass  # where loops have no signals, Ctrl+C cancels this task
        try:
            yield
        finally:
            for each in caught:
                try:
                    loop.remove_signal_handler(each)
                except NotImplementedError:
                    pass


# --- the prompt -----------------------------------------------------------------------------------------


def _in_directory(wanted: str) -> str:
    if wanted:
        try:
            os.chdir(os.path.expanduser(wanted))
        except OSError as error:
            raise PerdureError(f"Cannot go to {wanted}: {error.strerror}", "give -C a folder") from None
    return config.here()


def _prompt(words: Sequence[str], cwd: str) -> Content:
    """What was piped in, the files named with `@`, and the words of the command line, in this order."""
    files = [word[1:] for word in words if word.startswith("@") and len(word) > 1]
    said = " ".join(word for word in words if not (word.startswith("@") and len(word) > 1))
    blocks: list[Block] = []
    texts = [piped] if (piped := _piped()) else []
    for name in files:
        attached = _attached(name, cwd)
        if isinstance(attached, Image):
            blocks.append(attached)
            texts.append(f'<file name="{name}"></file>')
        else:
            texts.append(attached)
    text = "\n".join([*texts, *([said] if said.strip() else [])])
    if not text.strip():
        raise UsageError("There is no prompt", 'say something: --print "explain this code"')
    return [Text(text), *blocks] if blocks else text


def _piped() -> str:
    """What comes through a pipe or from a file. A terminal is not waited for."""
    stdin = sys.stdin
    if stdin is None or stdin.isatty():
        return ""
    try:
        data = stdin.buffer.read(_MOST_BYTES + 1)
    except (OSError, ValueError):
        return ""
    if len(data) > _MOST_BYTES:
        raise UsageError(
            f"stdin has more than {_MOST_BYTES >> 20} MB", "give the file's name in the prompt instead"
        )
    return data.decode("utf-8", "replace").strip("\n")


def _attached(name: str, cwd: str) -> str | Image:
    path = os.path.join(cwd, os.path.expanduser(name))
    try:
        if not os.path.isfile(path):
            reason = "it is no file" if os.path.exists(path) else "there is no such file"
            raise UsageError(f"Cannot read @{name}: {reason}", "a prompt that begins with @ can be piped in")
        if os.path.getsize(path) > _MOST_BYTES:
            raise UsageError(f"@{name} has more than {_MOST_BYTES >> 20} MB", "name it in the prompt instead")
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise UsageError(f"Cannot read @{name}: {error.strerror}") from None
    kind = image_kind(data)
    if kind:
        return Image(base64.b64encode(data).decode(), kind)
    if b"\0" in data[:8192]:
        raise UsageError(f"@{name} is neither text nor an image", "name it in the prompt instead")
    return f'<file name="{name}">\n{data.decode("utf-8", "replace")}\n</file>'


def _tools(options: SimpleNamespace) -> list[str]:
    if options.no_tools:
        if options.tools:
            raise UsageError("--tools and --no-tools contradict each other")
        return []
    return (
        [name.strip() for name in options.tools.split(",") if name.strip()] if options.tools else [*BUILT_IN]
    )


def _text_or_file(given: str) -> str | None:
    """What an option says, or what is in the file that it names."""
    if not given:
        return None
    path = os.path.expanduser(given)
    try:
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
    except (OSError, ValueError):
        pass  # a text too long to be a name
    return given
