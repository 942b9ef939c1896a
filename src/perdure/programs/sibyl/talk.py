"""The conversation: the shell as sibyl's, and what can be typed there."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Iterable
from types import SimpleNamespace

from perdure import config
from perdure.agent.aside import in_thread
from perdure.agent.session import AgentSession
from perdure.errors import NewerFormat, NotFound, PerdureError, Unreadable, UsageError
from perdure.front import opening, recalling, repl, slash
from perdure.front.ages import seconds, when
from perdure.front.autosave import Timer
from perdure.front.conversation import Conversation
from perdure.front.damaged import note_damaged
from perdure.front.opening import Meant
from perdure.front.output import Copyable, Output, Styled
from perdure.front.own_settings import OwnSettings
from perdure.front.profile import OwnProfile
from perdure.front.shell import Shell
from perdure.front.slash import Slash
from perdure.front.table import table
from perdure.front.visible import one_line
from perdure.programs.sibyl.commands import INTERVAL
from perdure.programs.sibyl.saving import folder_of, problem_of, remedy_of
from perdure.session import context, ids
from perdure.session.entry import Custom, Entry
from perdure.session.layouts import home_of
from perdure.session.session import Session
from perdure.session.stores import Found
from perdure.session.stores.sibyl_document import commands_of, is_counted
from perdure.session.stores.sibyl_index import Row
from perdure.session.stores.sibyl_sexp import SibylStore

_HERE = __name__


def start_repl(
    *,
    model: str | None = None,
    system_prompt: str | None = None,
    name: str = "Sibyl",
    session_id: str | None = None,
    auto_save_interval: float = INTERVAL,
    directory: str | os.PathLike[str] | None = None,
) -> int:
    """Talk at this terminal, or through pipes, until the user leaves; returns the exit code. What keeps it
    from beginning, an unknown model or a session that another process talks in, is raised: a PerdureError.

    With a `session_id` it goes on with that session. `directory` is that of the sessions, `system_prompt`
    takes the place of the usual one, `name` is what it greets with, and every `auto_save_interval` seconds
    what is not saved is saved."""
    if session_id is not None and not session_id.strip():
        raise UsageError("session_id is empty", "list_sessions() says what there is")
    if not isinstance(auto_save_interval, int | float):
        raise UsageError("auto_save_interval is no number of seconds", "0 is never")
    options = SimpleNamespace(model=model or "", session_id=session_id, auto_save_interval=auto_save_interval)
    profile = Sibyl(options, directory=directory, system_prompt=system_prompt)
    profile.title = name
    out = Output(program="sibyl")
    try:
        return repl.talk(profile, out, config.here())
    finally:
        out.flush()


def talk(options: SimpleNamespace, out: Output) -> int:
    return repl.talk(Sibyl(options), out, config.here())


COMMANDS = {
    each.name: each
    for each in (
        Slash("sessions", f"{_HERE}:sessions", "", "list saved sessions", may_run_beside=True),
        Slash("save", f"{_HERE}:save", "", "save this session now"),
        Slash("load", f"{_HERE}:load", "ID", "save this session, and go on with another", f"{_HERE}:saved"),
        Slash("reset", f"{_HERE}:reset", "", "begin anew in this session; all that was said stays in it"),
        slash.COMMANDS["model"],
        slash.COMMANDS["help"],
        slash.COMMANDS["quit"],
    )
}


class Sibyl(OwnProfile):
    layout = "sibyl"
    title = "Sibyl"
    commands = COMMANDS

    def __init__(
        self,
        options: SimpleNamespace,
        *,
        directory: str | os.PathLike[str] | None = None,
        system_prompt: str | None = None,
    ) -> None:
        home = home_of("sibyl")
        settings = OwnSettings.read(os.path.join(home, "config.toml"), {"default_model": str})
        super().__init__(options, settings)
        self._directory = None if directory is None else folder_of(directory)
        self.store = SibylStore(self._directory or home, sessions_dir=self._directory)
        self._system_prompt = system_prompt
        self._commands: dict[str, int] = {}
        """How many its user has entered in each session."""
        self._known: set[str] = set()
        """Those of which it is known how many there were before."""
        self._shell: Shell | None = None
        self._timer: Timer | None = None

    # --- which session -----------------------------------------------------------------------------------

    async def begin(self, shell: Shell) -> Meant | None:
        """One that is missing or corrupt is left alone, and another one is begun."""
        self._shell = shell
        wanted = self.options.session_id
        if wanted is not None:
            try:
                return await in_thread(self.found, wanted)
            except (NotFound, Unreadable, NewerFormat) as error:
                said = f"{error.said}. This is a new session instead."
                shell.face.note(Styled(one_line(said), "yellow"))
        return await in_thread(self.new, shell.cwd)

    def found(self, text: str) -> Meant:
        """Unreadable if it is damaged: what is complete of it is for the doctor to save."""
        there = {ref.id: ref for ref in self.store.list()}
        ref = there[ids.resolve(text.removeprefix("sibyl:"), there, "Session")]
        document = self.store.parse(ref, self.store.bytes_of(ref))
        if document.refusal is not None:
            raise document.refusal
        if problem := problem_of(document):
            raise Unreadable(ref.path, f"{problem.brief}; {remedy_of(document, ref.id, self._directory)}")
        return opening.kept(self.store, ref)

    def new(self, cwd: str) -> Meant:
        return opening.made(self.store)

    def when_held(self, program: str, id: str) -> str:
        return "leave it there first"

    # --- who answers -------------------------------------------------------------------------------------

    def agent(self, meant: Meant, cwd: str, *, trusted: bool) -> AgentSession:
        return AgentSession(cwd=cwd, system_prompt=self._system_prompt, trusted=trusted)

    async def prepare(self, conversation: Conversation) -> None:
        await super().prepare(conversation)
        id, counted = conversation.session.id, await in_thread(_count_in, conversation)
        entered = self._commands.get(id, 0)
        self._commands[id] = max(counted, entered) if id in self._known else counted + entered
        self._known.add(id)
        if self._timer is None and self._shell is not None:
            self._start_timer(self._shell)
        await super().prepare(conversation)

    # --- saving ------------------------------------------------------------------------------------------

    def _start_timer(self, shell: Shell) -> None:
        loop = asyncio.get_running_loop()

        async def save() -> bool:
            return await shell.conversation.save()

        def work() -> bool:
            """In the timer's thread; saved is in the loop's, as everything is."""
            return asyncio.run_coroutine_threadsafe(save(), loop).result()

        def tell(text: str) -> None:
            loop.call_soon_threadsafe(shell.face.note, Styled(text, "yellow"))

        self._timer = Timer(self.options.auto_save_interval, work, name="Auto-save", told=tell)
        self._timer.start()

    def entered(self, conversation: Conversation) -> None:
        self._commands[conversation.session.id] = self._count(conversation) + 1

    def _count(self, conversation: Conversation) -> int:
        return self._commands.get(conversation.session.id, 0)

    async def saying(self, conversation: Conversation) -> None:
        """The file counts messages by itself, from the last number in it on."""
        before = self._count(conversation) - 1
        session = conversation.session
        if (
            not await in_thread(lambda: is_counted([*session.entries], session.header))
            or await in_thread(_count_in, conversation) != before
        ):
            conversation.agent.agent.note_change(_counted(before))

    async def save(self, conversation: Conversation) -> bool:
        """In a turn, what was typed may be a message that is still to be recorded, and counts with it."""
        if _is_silent(conversation):
            return False
        saved = await in_thread(_count_in, conversation)
        if not conversation.is_turn and saved != self._count(conversation):
            conversation.agent.agent.note_change(_counted(self._count(conversation)))
        return await conversation.agent.save()

    async def end(self, conversation: Conversation) -> None:
        if self._timer is not None:
            await in_thread(self._timer.stop)

    # --- what is shown -----------------------------------------------------------------------------------

    def prompt(self, shell: Shell) -> str:
        return f"sibyl[{self._count(shell.conversation) if shell.is_talking else 0}]> "

    def short_id(self, session: Session) -> str:
        """All of it: those of one day begin alike."""
        return session.id

    def greet(self, shell: Shell) -> None:
        super().greet(shell)
        shell.face.line(f"Session: {shell.conversation.session.id}")

    def last_exchange(self, session: Session) -> list[Entry]:
        return recalling.last_exchange_since_reset(session)

    async def say_what_was_restored(self, shell: Shell, conversation: Conversation) -> None:
        session = conversation.session
        count = _count_of_messages(await in_thread(session.path))
        since = await in_thread(_messages_since_reset, session)
        told = "" if since is None else f", {since or 'none'} since the reset"
        shell.face.line(f"Loaded session: {session.id} ({count} messages{told})")

    def say_how_to_go_on(self, shell: Shell, *, is_saved: bool) -> None:
        id = shell.conversation.session.id
        if is_saved:
            shell.out.line(f"Session saved: {id}")
        command = f"sibyl --session-id {shlex.quote(id)}"
        if self._directory is not None:  # where the program does not look
            command = f"start_repl(session_id={id!r}, directory={self._directory!r})"
        shell.out.line(Copyable(f"Resume with: {command}"))


def _count_in(conversation: Conversation) -> int:
    """How many commands the session says there were. Of a copy: it may grow meanwhile."""
    session = conversation.session
    return commands_of([*session.entries], session.header)


def _messages_since_reset(session: Session) -> int | None:
    """How many messages the model is sent, but for what a summary stands for; None if there was no reset."""
    entries = [*session.entries]
    for at in range(len(entries), 0, -1):
        if context.is_reset(entries[at - 1]):
            return _count_of_messages(entries[at:])
    return None


def _count_of_messages(entries: Iterable[Entry]) -> int:
    return sum(entry.role in ("user", "assistant", "toolResult") for entry in entries)


def _counted(commands: int) -> Custom:
    return Custom("perdure.commands", {"count": commands})


def _is_silent(conversation: Conversation) -> bool:
    """Whether nothing was said in it, also nothing that waits for the disk."""
    return conversation.session.is_empty and not conversation.agent.has_unsaved


def _of(shell: Shell) -> Sibyl:
    assert isinstance(shell.profile, Sibyl)
    return shell.profile


# --- what can be typed -----------------------------------------------------------------------------------


async def sessions(shell: Shell, arguments: str) -> None:
    store, current = _of(shell).store, shell.conversation.session.id
    await shell.face.aside(lambda: _list(store, current, shell.out))


def _list(store: SibylStore, current: str, out: Output) -> None:
    rows = store.listing()
    broken = {row.id: row.problem for row in rows if row.problem and _is_corrupt(store, row)}
    sound = [row for row in rows if row.id not in broken and (row.message_count or _holds(store, row))]
    if sound:
        lines = [
            (
                Styled(f"{row.id} (current)" if row.id == current else row.id, "cyan"),
                when(seconds(row.last_modified)) or "-",
                f"{row.message_count}",
            )
            for row in sound
        ]
        table(out, ("ID", "DATE", "MESSAGES"), lines, flexible=0, right=(2,))
    else:
        out.line("No saved sessions.")
    note_damaged(broken, out)


def _is_corrupt(store: SibylStore, row: Row) -> bool:
    """Else it can be loaded, and says what is odd about it when it is."""
    try:
        ref = _ref(store, row)
        return problem_of(store.parse(ref, store.bytes_of(ref))) is not None
    except PerdureError:
        return True


def _holds(store: SibylStore, row: Row) -> bool:
    """Something that is no message: what a command printed, say."""
    try:
        return bool(store.read(_ref(store, row)).entries)
    except PerdureError:
        return False  # it is gone by now


def _ref(store: SibylStore, row: Row) -> Found:
    return Found(row.id, os.path.join(store.root, store.place(row.id)))


async def save(shell: Shell, arguments: str) -> None:
    if _is_silent(shell.conversation):
        raise UsageError("There is nothing to save yet", "say something first")
    await shell.conversation.save()
    shell.face.line(f"Session saved: {shell.conversation.session.id}")


async def load(shell: Shell, arguments: str) -> None:
    if not arguments:
        return shell.face.line("Usage: /load <session-id>")
    meant = await in_thread(_of(shell).found, arguments)
    # A sibyl session keeps no model, so a model that is named lasts for the whole run.
    await shell.change_to(meant, model=shell.conversation.named_model)


def saved(shell: Shell, typed: str) -> Iterable[str]:
    """The last saved first."""
    return (row.id for row in _of(shell).store.listing() if row.id.startswith(typed))


async def reset(shell: Shell, arguments: str) -> None:
    conversation = shell.conversation
    if _is_silent(conversation):
        raise UsageError("There is nothing to reset yet", "say something first")
    await conversation.save()
    shell.face.line(f"Session saved before reset: {conversation.session.id}")
    await conversation.agent.reset()
    shell.face.note(Styled("From here on it is a new conversation; all that was said stays in it.", "dim"))
