"""What makes the shell one program's: which sessions it talks in, who answers, what can be typed, and what is
said at its beginning and at its end. As it stands here it is pi's; another program overrides what it does
otherwise, and the shell knows no program by name."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, TypedDict

from perdure import __version__
from perdure.agent.aside import in_thread
from perdure.agent.session import AgentSession
from perdure.errors import PerdureError, UsageError
from perdure.front import opening, recalling, starting
from perdure.front.opening import Meant
from perdure.front.output import Copyable, Styled
from perdure.front.own_settings import OwnSettings
from perdure.front.slash import COMMANDS, Slash
from perdure.session.entry import Entry
from perdure.session.layouts import LAYOUTS, home_of
from perdure.session.session import Session

if TYPE_CHECKING:
    from perdure.front.conversation import Conversation
    from perdure.front.shell import Shell


_SHORT = 8


class Wishes(TypedDict, total=False):
    """For a conversation that is opened."""

    model: str
    thinking: str
    name: str


class Profile:
    layout = "pi"
    commands: Mapping[str, Slash] = COMMANDS
    goes_to = "/resume"
    """What its user types to go on with another session."""
    takes_agents_commands = True
    """Whether what the agent brings can be typed, too: `/compact`, `/name`, skills, templates, extensions."""
    runs_command_lines = True
    """Whether `!make test` is one."""
    has_tools = True
    """Whether its agent may have some."""
    asks_where = True
    """Whether it matters to which directory a session belongs."""
    goes_on_alone = False
    """Whether there is something to do without a conversation."""
    continues_lines = False
    """Whether a line that ends with a backslash goes on in the next one, also through pipes."""

    def __init__(self, options: SimpleNamespace) -> None:
        self.options = options
        self._are_slips_named = False
        self.asked_about: set[str] = set()
        """Folders whose own settings are waiting for a yes, of which its user was told."""
        self.first: Callable[[Shell], Awaitable[None]] | None = None
        """What is done as soon as there is a conversation."""

    @property
    def home(self) -> str:
        """The folder that keeps what was typed."""
        return home_of(self.layout)

    @property
    def is_kept(self) -> bool:
        """Whether sessions outlive the program."""
        return not self.options.no_session

    # --- which session -----------------------------------------------------------------------------------

    async def begin(self, shell: Shell) -> Meant | None:
        """The session to begin with; None if its user wants none after all."""
        options = self.options
        opening.check(options)
        if first := " ".join(options.message):
            self.first = lambda shell: shell.handle(first)
        if options.resume is not None and shell.face.is_drawn:
            return await shell.find(options.resume)
        return await in_thread(opening.find_session, options, shell.out, shell.cwd)

    def new(self, cwd: str) -> Meant:
        """A session in which nothing was said yet."""
        return opening.new(cwd, is_kept=self.is_kept)

    async def opened(self, shell: Shell, meant: Meant) -> Session:
        """To talk in; `Held`, at once, if another process does."""
        return await in_thread(meant.open)

    def when_held(self, program: str, id: str) -> str:
        """What to do about a session that another process talks in."""
        return starting.when_held(id, program)

    def hint_when_held(self, shell: Shell, id: str) -> str:
        """The same; in a conversation nobody can type a command of the program's."""
        return "leave it there first" if shell.is_talking else self.when_held(shell.out.program, id)

    def unheard(self) -> PerdureError:
        """Where something is said, and no conversation is open to say it in."""
        return UsageError("No conversation is open", "/help says how to begin one")

    # --- who answers -------------------------------------------------------------------------------------

    @property
    def wishes(self) -> Wishes:
        """What was asked for."""
        return {"model": self.options.model, "thinking": self.options.thinking, "name": self.options.name}

    @property
    def default_model(self) -> str | None:
        """By the program's own settings, where it has some beside pi's."""
        return None

    def agent(self, meant: Meant, cwd: str, *, trusted: bool) -> AgentSession:
        return starting.agent_of(self.options, cwd, trusted=trusted)

    def used(self, agent: AgentSession) -> tuple[int, int]:
        """Tokens that are sent with the next request, and the most that can be."""
        return agent.spent.tokens, agent.spent.window

    async def prepare(self, conversation: Conversation) -> None:
        """Before its agent is started. At a terminal, slips in settings are named when the first one is."""
        if conversation.face.is_terminal and not self._are_slips_named:
            self._are_slips_named = True
            conversation.agent.notices += await in_thread(conversation.agent.slips_in_settings)

    # --- what is said ------------------------------------------------------------------------------------

    def entered(self, conversation: Conversation) -> None:
        """Something that its user has typed is dealt with now."""

    @property
    def empty_line(self) -> str:
        """The command that Enter on an empty line stands for now; empty where it stands for none."""
        return ""

    async def saying(self, conversation: Conversation) -> None:
        """A message is about to be recorded."""

    async def answered(self, conversation: Conversation) -> None:
        """An answer is on disk."""

    async def save(self, conversation: Conversation) -> bool:
        """Whether there was something that was not on disk before, and is now. A changed setting is none: it
        is written with what is said next."""
        return conversation.agent.has_unsaved and await conversation.agent.save()

    # --- what is shown -----------------------------------------------------------------------------------

    def prompt(self, shell: Shell) -> str:
        return "> "

    def short_id(self, session: Session) -> str:
        """As much of it as people need to recognise it."""
        layout = LAYOUTS.get(session.store.name)
        return session.id[: layout.shortest if layout else _SHORT]

    def greet(self, shell: Shell) -> None:
        """Above all that is said in a session; once for each."""
        if shell.conversation.session.is_empty:
            greeting = f"Perdure {__version__}. /help says what can be typed here."
            shell.face.line(Styled(greeting, "dim"))

    def last_exchange(self, session: Session) -> list[Entry]:
        """What its user sees again of one that goes on."""
        return recalling.last_exchange(session)

    async def say_what_was_restored(self, shell: Shell, conversation: Conversation) -> None:
        reference = conversation.agent.model.reference
        said = await in_thread(recalling.restored, conversation.session, reference)
        shell.face.note(Styled(said, "dim"))

    def doctor(self, program: str, id: str) -> str:
        return f"{program} sessions doctor {shlex.quote(id)}"

    def say_how_to_go_on(self, shell: Shell, *, is_saved: bool) -> None:
        """The last words, of a session that there is something of."""
        command = starting.command_for(shell.conversation.meant.ref, shell.out.program)
        shell.out.line(Copyable(f"Resume: {command}", "dim"))

    async def end(self, conversation: Conversation) -> None:
        """What runs beside a conversation ends before it is saved for the last time."""


class OwnProfile(Profile):
    """Of a program with a home of its own: its sessions are loaded by their ids, and nothing can be typed but
    what it knows."""

    title = ""
    """What it calls itself."""
    goes_to = "/load"
    takes_agents_commands = False
    asks_where = False
    is_kept = True

    def __init__(self, options: SimpleNamespace, settings: OwnSettings) -> None:
        super().__init__(options)
        self.settings = settings

    @property
    def wishes(self) -> Wishes:
        return {"model": self.options.model}

    @property
    def default_model(self) -> str | None:
        return self.settings.values.get("default_model")

    async def prepare(self, conversation: Conversation) -> None:
        await super().prepare(conversation)
        conversation.agent.notices += self.settings.notices
        self.settings.notices.clear()  # said once

    def greet(self, shell: Shell) -> None:
        if shell.conversation.session.is_empty:
            greeting = f"{self.title}, of Perdure {__version__}. /help says what can be typed here."
            shell.face.line(Styled(greeting, "dim"))

    def doctor(self, program: str, id: str) -> str:
        return super().doctor("pi", id)
