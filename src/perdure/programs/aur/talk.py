"""`aur spawn`: the shell as a spawned agent's. What can be typed there is in `typed`.

A session is active while a process talks in it, completed when its user has left, and interrupted when
something else ended that: a signal, or a death that nobody could record, which whoever opens it next does.
"""

from __future__ import annotations

import shlex
import time
from types import SimpleNamespace

from perdure import config
from perdure.agent.aside import in_thread
from perdure.agent.session import AgentSession
from perdure.errors import NotFound, PerdureError, UsageError
from perdure.front import opening, recalling, repl, slash, starting, waiting
from perdure.front.ages import ago, seconds
from perdure.front.amounts import counted, size
from perdure.front.conversation import Conversation
from perdure.front.opening import Meant
from perdure.front.output import Copyable, Output, Styled
from perdure.front.profile import OwnProfile
from perdure.front.shell import Shell
from perdure.front.slash import Slash
from perdure.front.visible import one_line
from perdure.programs.aur import agents, damaged
from perdure.programs.aur.agents import DEFAULT, Agent
from perdure.programs.aur.budget import Budget
from perdure.programs.aur.settings import MAX_TOKENS, USUAL_MAX_TOKENS, settings
from perdure.session import reference
from perdure.session.entry import (
    Assistant,
    BashExecution,
    ContextEdit,
    Custom,
    CustomRole,
    Entry,
    Message,
)
from perdure.session.layouts import Home
from perdure.session.lifecycle import AURORA
from perdure.session.session import Session
from perdure.session.stores import open_store

BANNER = "Aurora Spawn Interactive Mode"
AGENT = "perdure.agent"
"""The entry that says who answers from then on."""
_SMALL = 4096  # bytes, in which there may be nothing but the metadata
_MOST_TRIES = 20
"""Answers in a row that failed."""
_TYPED = "perdure.programs.aur.typed"


def talk(options: SimpleNamespace, out: Output) -> int:
    if options.session is not None and not options.session.strip():
        raise UsageError("NAME is empty", "as in --session login-review")
    return repl.talk(Aurora(options), out, config.here())


def _slash(
    name: str, usage: str, summary: str, *, runs: str = "", completes: str = "", may_run_beside: bool = False
) -> Slash:
    values = f"{_TYPED}:{completes}" if completes else ""
    return Slash(name, f"{_TYPED}:{runs or name}", usage, summary, values, may_run_beside)


COMMANDS = {
    each.name: each
    for each in (
        _slash(
            "save",
            "FILE.md [--redact]",
            "write this session as a document; --redact masks secrets",
        ),
        _slash("history", "[N]", "show the last turns again: 10, or N of them", may_run_beside=True),
        _slash("clear", "", "begin anew in this session; all that was said stays in it"),
        _slash("agent", "[NAME]", "talk with another agent; without a name, list them", completes="names"),
        _slash("stats", "", "turns, tokens, cost, and how much of the context is used", may_run_beside=True),
        _slash("export", "FILE.json [--redact]", "write this session as JSON"),
        _slash("import", "FILE.json", "take in the turns of a session that was exported", runs="take_in"),
        slash.COMMANDS["model"],
        slash.COMMANDS["help"],
        slash.COMMANDS["quit"]._replace(name="exit"),
    )
}


class Aurora(OwnProfile):
    layout = "aurora"
    title = "Aurora"
    commands = COMMANDS
    continues_lines = True

    def __init__(self, options: SimpleNamespace) -> None:
        super().__init__(options, settings())
        self.agent_name = DEFAULT if options.agent is None else options.agent
        self.budget = Budget(self.settings.values.get(MAX_TOKENS, USUAL_MAX_TOKENS))
        self.begun = time.monotonic()
        self._shell: Shell | None = None
        self._before = ""
        """The status of the session when it was opened; empty until it is active."""
        self._last_used: float | None = None
        """When the session was last used before it was opened, in seconds since 1970."""
        self._missed = ""
        """What is to be said of an agent that is gone."""
        self._change: Custom | None = None
        """Of the agent, to be recorded with what is said next."""

    # --- which session -----------------------------------------------------------------------------------

    async def begin(self, shell: Shell) -> Meant | None:
        self._shell = shell
        if self.options.agent is not None:
            await in_thread(agents.find, self.agent_name, shell.cwd)  # which is refused before one is made
        if self.options.resume is None:
            return await in_thread(self.new, shell.cwd)
        meant = await in_thread(self.found, self.options.resume)
        return meant if await damaged.may_go_on(shell, meant) else None

    def found(self, text: str) -> Meant:
        """One in which nothing was said, for it was killed, is like a new one: it goes if that stays so."""
        try:
            meant = opening.kept(*reference.find(text, [Home("aurora", self.home)]))
        except NotFound as error:
            if error.is_unheard_of:
                error.hint = "`aur spawn --list-sessions` lists them"
            raise
        page = meant.store.read(meant.ref) if meant.ref.size < _SMALL else None
        return meant._replace(is_new=page is not None and not page.entries and not page.problems)

    def new(self, cwd: str) -> Meant:
        store = open_store("aurora", cwd=cwd)
        wanted = self.options.session or ""
        if wanted and any(ref.id == wanted for ref in store.list()):
            hint = f"`aur spawn --resume {shlex.quote(wanted)}` goes on with it; or give another name"
            raise PerdureError(f"There is a session {one_line(wanted)} already", hint)
        return opening.made(store, cwd, wanted, {"agent": self.agent_name})

    async def opened(self, shell: Shell, meant: Meant) -> Session:
        session = await waiting.open_when_free(shell, meant)
        try:
            recorded = await in_thread(agent_of, session)
            self._last_used = await in_thread(_last_used, session)
        except BaseException:
            await in_thread(session.close)
            raise
        if self.options.agent is None:
            self.agent_name = recorded
            try:
                await in_thread(agents.find, recorded, shell.cwd)
            except PerdureError as error:  # it was there when the session was begun
                self._missed = one_line(f"{error.message}; {DEFAULT} answers instead")
                self.agent_name = DEFAULT
        elif self.agent_name != recorded:
            self._change = _changed(self.agent_name)
        return session

    def when_held(self, program: str, id: str) -> str:
        return f"leave it there first; `{program} spawn` begins another one"

    # --- who answers -------------------------------------------------------------------------------------

    def agent(self, meant: Meant, cwd: str, *, trusted: bool) -> AgentSession:
        settings = starting.settings_of(self.options)
        return AgentSession(cwd=cwd, settings=settings, compaction=self.budget.window, trusted=trusted)

    async def prepare(self, conversation: Conversation) -> None:
        await super().prepare(conversation)
        if not self._before:
            self._before = await in_thread(AURORA.resume, conversation.session)
        found = await in_thread(agents.find, self.agent_name, conversation.cwd)
        ignored = await in_thread(agents.notice_of_ignored, conversation.cwd)
        said = conversation.agent.notices
        said += [each for each in (self._missed, ignored) if each and each not in said]
        self._missed = ""
        conversation.agent.tell(found.prompt)

    async def change_agent(self, conversation: Conversation, found: Agent) -> None:
        """It is recorded at once, or with the first message: an empty session stays empty."""
        if found.name != self.agent_name:
            change = _changed(found.name)
            if conversation.session.is_empty:
                self._change = change
            else:
                await conversation.record(change)
                self._change = None
            self.agent_name = found.name
        conversation.agent.tell(found.prompt)

    # --- what is said ------------------------------------------------------------------------------------

    async def saying(self, conversation: Conversation) -> None:
        await self.leave_out_what_failed(conversation)
        if self._change is not None:
            conversation.agent.agent.note_change(self._change)
            self._change = None

    async def leave_out_what_failed(self, conversation: Conversation) -> None:
        """It is not sent again: all of it is asked for anew, or something else is."""
        if failed := await in_thread(_failed_prompt, conversation.session):
            await conversation.agent.record(ContextEdit(failed))

    def used(self, agent: AgentSession) -> tuple[int, int]:
        return agent.spent.tokens, self.budget.window.limit(agent.model)

    async def answered(self, conversation: Conversation) -> None:
        if news := await self.budget.news(conversation.agent):
            conversation.face.note(Styled(news, "yellow"))

    async def end(self, conversation: Conversation) -> None:
        await conversation.save()
        if self._before and (conversation.is_said or not conversation.meant.is_new):
            is_over = self._shell is not None and not self._shell.leaves_with
            status = "completed" if is_over else "interrupted"
            await in_thread(AURORA.change, conversation.session, status)

    # --- what is shown -----------------------------------------------------------------------------------

    def prompt(self, shell: Shell) -> str:
        return f"{one_line(self.agent_name)}> "

    def greet(self, shell: Shell) -> None:
        shell.face.line(Styled(BANNER, "bold"))
        shell.face.line(f"Agent: {one_line(self.agent_name)}")
        shell.face.line(f"Session: {shell.conversation.session.id}")
        shell.face.line(Styled("What can be typed here: /help", "dim"))

    def last_exchange(self, session: Session) -> list[Entry]:
        return recalling.last_exchange_since_reset(session)

    async def say_what_was_restored(self, shell: Shell, conversation: Conversation) -> None:
        what = await in_thread(_how_much, conversation.session)
        age = ago(self._last_used)
        used = f", last used {age}" if age else ""
        model = conversation.agent.model.reference
        among = f", {self.options.newest.among}" if self.options.newest else ""
        id = one_line(conversation.session.id)
        shell.face.line(f"Resumed session {id}{among}: {what}{used}, with {model}")
        await self.answered(conversation)

    def say_how_to_go_on(self, shell: Shell, *, is_saved: bool) -> None:
        id = shlex.quote(shell.conversation.session.id)
        command = f"{starting.as_called(shell.out.program)} spawn --resume {id}"
        shell.out.line(Copyable(f"Resume: {command}", "dim"))


def _changed(name: str) -> Custom:
    return Custom(AGENT, {"agent": name})


def agent_of(session: Session) -> str:
    """Who answers in it: whom its user last changed to, or whom it was begun with."""
    for entry in session.newer(AGENT.encode()):
        if entry.type == "custom" and AGENT.encode() in entry.line:
            match entry.body:
                case Custom(custom_type="perdure.agent", data={"agent": str(name)}):
                    return name
    begun_with = session.header.facts.get("agent")
    return begun_with if isinstance(begun_with, str) and begun_with else DEFAULT


def _last_used(session: Session) -> float | None:
    """By the last entry that says when it was; None if none does."""
    return next(filter(None, (seconds(entry.timestamp) for entry in session.newest_first())), None)


def _how_much(session: Session) -> str:
    """In turns; of a large session, which is not read for that, in bytes."""
    if session.is_large:
        return size(session.ref.size)
    return counted(count_of_turns(session), "turn")


def count_of_turns(session: Session) -> int:
    return sum(entry.role in ("user", "assistant", "system") for entry in session.path())


def _failed_prompt(session: Session) -> str:
    """What was said last, if no answer to it came; else empty. What tools did in between is an answer, and
    what its user ran meanwhile is none."""
    has_failed = False
    for entry in reversed(session.tail(_MOST_TRIES)):
        match entry.body:
            case Message(message=Assistant(stop_reason="error")):
                has_failed = True
                continue
            case Message(message=BashExecution() | CustomRole()):
                continue
        return entry.id if has_failed and entry.role == "user" else ""
    return ""
