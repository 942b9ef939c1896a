"""`soleur spar` and `soleur load`: the shell as a sparring partner's, and what can be typed there."""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from types import SimpleNamespace

from perdure import config
from perdure.agent.aside import in_thread
from perdure.agent.models import OFFLINE, Model
from perdure.agent.session import AgentSession
from perdure.agent.tokens import of_message
from perdure.errors import NotFound, PerdureError, UsageError
from perdure.front import opening, repl, slash, starting
from perdure.front.amounts import counted, size
from perdure.front.conversation import Conversation
from perdure.front.opening import Meant
from perdure.front.output import Copyable, Output, Styled
from perdure.front.profile import OwnProfile
from perdure.front.shell import Shell
from perdure.front.slash import Slash
from perdure.front.visible import one_line
from perdure.programs.soleur import (
    attached,
    damaged,
    ledger_question,
    listing,
    persona,
    project_files,
    sparring,
)
from perdure.programs.soleur.attached import Part
from perdure.programs.soleur.decisions import Decision
from perdure.programs.soleur.notebook import Notebook
from perdure.programs.soleur.sparring import Material
from perdure.session import reference
from perdure.session.entry import Assistant, Body, Message, User
from perdure.session.layouts import Home
from perdure.session.projects import Project
from perdure.session.session import Session
from perdure.session.stores import open_store

README = "README.md"
_TYPED = "perdure.programs.soleur.typed:"


def spar(options: SimpleNamespace, out: Output) -> int:
    if options.session is not None and options.fresh:
        raise UsageError("--session and --fresh mean different sessions", "give one of them")
    if options.context is not None and options.no_context:
        raise UsageError("--context and --no-context contradict each other", "give one of them")
    return repl.talk(Soleur(options), out, config.here())


def load(options: SimpleNamespace, out: Output) -> int:
    given = {"session": options.id, "model": options.model, "max_cost": options.max_cost}
    return spar(SimpleNamespace(**given, fresh=False, project=None, context=None, no_context=False), out)


def _slash(
    name: str, usage: str, summary: str, *, runs: str = "", completes: str = "", may_run_beside: bool = False
) -> Slash:
    completer = _TYPED + completes if completes else ""
    return Slash(name, _TYPED + (runs or name), usage, summary, completer, may_run_beside)


COMMANDS = {
    each.name: each
    for each in (
        _slash(
            "context", "PATH", "attach a file: it is part of every prompt from then on", completes="paths"
        ),
        _slash("detach", "NAME", "take an attached file out of the prompts", completes="attached_names"),
        _slash("start", "", "let the partner speak first, when something is attached; Enter, too"),
        _slash("decide", "TEXT", "record a decision; #words at its end are tags"),
        _slash("undecide", "N|TEXT", "withdraw a decision, by its number in /decisions or its text"),
        _slash(
            "decisions", "[#TAG]", "what was decided in this project", completes="tags", may_run_beside=True
        ),
        _slash("autorecord", "[on|off]", "whether decisions in answers are recorded", completes="switch"),
        _slash("new", "", "begin a new session", runs="new_session"),
        _slash("sessions", "", "list all sessions", may_run_beside=True),
        _slash("load", "ID", "go on with another session", runs="load_session", completes="ids"),
        _slash("save", "", "everything is saved by itself; this says where"),
        slash.COMMANDS["model"],
        slash.COMMANDS["help"],
        slash.COMMANDS["quit"],
    )
}


class Soleur(OwnProfile):
    layout = "soleur"
    title = "Soleur"
    commands = COMMANDS
    runs_command_lines = False
    has_tools = False

    def __init__(self, options: SimpleNamespace) -> None:
        super().__init__(options, persona.settings())
        self._prompt = persona.prompt()
        self._notebooks: dict[str, Notebook] = {}
        self._sessions: dict[str, Session] = {}
        self._to_attach: Part | None = None
        """A file that its user wanted before there was a session."""
        self._waits = False
        """Whether the partner speaks first when its user presses Enter: something is attached, and perhaps
        not all of it yet."""
        self._here = Project("", "")
        """The project of new sessions."""
        self._is_begun = False
        """Whether what its user types now is a command of the conversation's."""
        self._told_last = ""
        """Of the ledger: what fails again and again is told once."""

    # --- which session -----------------------------------------------------------------------------------

    async def begin(self, shell: Shell) -> Meant | None:
        meant = await self._meant_at_first(shell)
        self._is_begun = True
        return meant

    async def _meant_at_first(self, shell: Shell) -> Meant | None:
        """The last one, if its user wants that; else a new one, about this directory's README, if they do."""
        self._here = await in_thread(project_files.chosen, self.home, self.options.project, shell.cwd)
        if self.options.context is not None:
            self._to_attach = await in_thread(attached.read, self.options.context, shell.cwd, [])
            self.first = self.open_if_nothing_was_said
        if self.options.session is not None:
            self.first = self.open_if_nothing_was_said
            return await in_thread(self.found, self.options.session)
        if not self.options.fresh:
            row, lost = await in_thread(listing.last, self._here, shell.out)
            for each in lost:
                said = f"Not offered: {each.id}: {each.problem}"
                shell.face.note(Styled(one_line(said), "yellow"))
            if row is not None:
                for line in listing.offered(row, shell.face.columns, self._here):
                    shell.face.line(*line)
                is_wanted = await shell.ask("Resume last session?")
                if is_wanted is None:
                    return None
                if is_wanted:
                    self.first = self.open_if_nothing_was_said
                    return await in_thread(opening.at, row.path)
        return await self.begin_anew(shell)

    async def opened(self, shell: Shell, meant: Meant) -> Session:
        """A damaged one is repaired first, and the file as it was is named. Whose ledger that of an earlier
        version is, or of a project that is gone, its user is asked."""
        if not meant.is_new:
            await damaged.mend(shell, meant)
        project = project_files.of_session(self.home, meant.header, self._here)
        await ledger_question.settle(shell, self.home, project)
        return await super().opened(shell, meant)

    async def begin_anew(self, shell: Shell) -> Meant | None:
        """A new session. It is made when all is answered: however a question ends, there is no session
        without a word."""
        readme = None
        is_answered = self._to_attach is not None or self.options.no_context
        if not is_answered and os.path.isfile(os.path.join(shell.cwd, README)):
            try:
                readme = await in_thread(attached.offered, README, shell.cwd)
            except PerdureError as error:  # nobody need be asked
                shell.face.note(Styled(one_line(error.said), "dim"))
        if readme is not None:
            is_wanted = await shell.ask(f"Load {README} as project context?")
            if is_wanted is None:
                return None
            if is_wanted:
                self._to_attach = readme
                self.first = self.open_if_nothing_was_said
        return await in_thread(self.new, shell.cwd)

    def found(self, text: str) -> Meant:
        try:
            return opening.kept(*reference.find(text, [Home("soleur", self.home)]))
        except NotFound as error:
            if error.is_unheard_of:
                error.hint = f"{'/sessions' if self._is_begun else '`soleur sessions`'} lists them"
            raise

    def new(self, cwd: str) -> Meant:
        facts = {"project_name": self._here.name, "project_root": self._here.root}
        return opening.made(open_store("soleur", cwd=cwd), cwd, facts=facts)

    def when_held(self, program: str, id: str) -> str:
        return f"leave it there first; `{program} --fresh` begins another one"

    # --- who answers -------------------------------------------------------------------------------------

    def agent(self, meant: Meant, cwd: str, *, trusted: bool) -> AgentSession:
        def found_in(answer: Assistant) -> Iterable[Body]:
            return self._notebooks[meant.ref.id].found_in(answer)

        def answer_by_rules() -> str:
            bodies = (entry.body for entry in self._sessions[meant.ref.id].path())
            said = (body.message for body in bodies if isinstance(body, Message))
            if not any(isinstance(each, Assistant) and each.provider == OFFLINE for each in said):
                agent.notices.append(sparring.NOTICE)  # with that of the model: before its first answer
            return sparring.ask(self._material(meant.ref.id))

        agent = AgentSession(
            cwd=cwd,
            settings=starting.settings_of(self.options),
            tools=[],
            system_prompt=self._prompt,
            trusted=trusted,
            tells_of_project=False,
            alongside=found_in,
            offline_answer=answer_by_rules,
        )
        return agent

    async def prepare(self, conversation: Conversation) -> None:
        await super().prepare(conversation)
        default = self.settings.values.get("autorecord", True)
        project = await in_thread(
            project_files.of_session, self.home, conversation.session.header, self._here
        )
        notebook = await in_thread(
            lambda: Notebook(conversation.session, self.home, project, autorecords_by_default=default)
        )
        if before := self._notebooks.get(conversation.session.id):
            notebook.take_over(before)
        self._notebooks[conversation.session.id] = notebook
        self._sessions[conversation.session.id] = conversation.session
        await self._file(conversation, lambda mark: in_thread(conversation.session.append, mark))
        conversation.agent.tell(*await in_thread(notebook.told))
        if notebook.unreadable is not None:
            conversation.agent.notices.append(one_line(notebook.unreadable.said))
        for part in [] if conversation.meant.is_new else await in_thread(attached.changed, notebook.parts):
            again = f"/context {config.as_typed(part.path)}"
            said = f"{part.name} has changed since it was attached; {again} takes it as it is now."
            conversation.agent.notices.append(one_line(said))
        if notebook.set_aside:
            conversation.agent.notices.append(
                "The ledger could not be read, and is begun anew from the sessions; as it was: "
                + config.as_typed(notebook.set_aside)
            )
        if known := len(await in_thread(notebook.known)):
            said = f"Told of {counted(known, 'decision')} of {project.name}; /decisions lists them."
            conversation.face.note(Styled(one_line(said), "dim"))

    def _material(self, id: str) -> Material:
        """What a partner without a language model has to ask about."""
        notebook, path = self._notebooks[id], self._sessions[id].path()
        said = [(entry.role, entry.text) for entry in path if entry.type == "message"]
        return Material(
            [(part.name, part.content) for part in notebook.parts],
            [(each.timestamp, each.content) for each in notebook.known()],
            [text for role, text in said if role == "user"],
            [text for role, text in said if role == "assistant"],
        )

    def notebook(self, conversation: Conversation) -> Notebook:
        return self._notebooks[conversation.session.id]

    # --- what is said ------------------------------------------------------------------------------------

    async def open_if_nothing_was_said(self, shell: Shell) -> None:
        """Who has read something, and is asked nothing, asks."""
        conversation = shell.conversation
        notebook = self.notebook(conversation)
        if self._to_attach is not None:
            part, self._to_attach = self._to_attach, None
            await self.attach(shell, part)
        self._waits = False
        if notebook.parts and not await in_thread(_is_begun, conversation.session):
            await conversation.be_opened(persona.OPENING)

    async def wait_if_nothing_was_said(self, shell: Shell) -> None:
        """Who attaches a file by hand may want to attach another one first."""
        conversation = shell.conversation
        parts = self.notebook(conversation).parts
        self._waits = bool(parts) and not await in_thread(_is_begun, conversation.session)
        if self._waits:
            said = "Attach more, say something, or press Enter on an empty line: then it asks you first."
            shell.face.note(Styled(said, "dim"))

    @property
    def empty_line(self) -> str:
        return "/start" if self._waits else ""

    async def attach(self, shell: Shell, part: Part) -> None:
        conversation, notebook = shell.conversation, self.notebook(shell.conversation)
        if part in notebook.parts:
            return shell.face.note(Styled(one_line(f"{part.name} has not changed."), "dim"))
        _refuse_what_is_never_read(part, notebook.parts, conversation.agent.model)
        await self.record(conversation, part.body)
        is_again = notebook.attach(part)
        conversation.agent.tell(*await in_thread(notebook.told))
        how = "Read again" if is_again else "Attached"
        said = f"{how}: {part.name}, {size(len(part.content.encode()))}. It is in every prompt from now on."
        shell.face.note(Styled(one_line(said), "dim"))

    async def detach(self, shell: Shell, part: Part) -> None:
        conversation, notebook = shell.conversation, self.notebook(shell.conversation)
        await self.record(conversation, part.detached)
        notebook.detach(part)
        conversation.agent.tell(*await in_thread(notebook.told))
        said = f"Detached: {part.name}. It is in no prompt from now on."
        shell.face.note(Styled(one_line(said), "dim"))

    async def saying(self, conversation: Conversation) -> None:
        """Others may have decided something meanwhile, or edited the ledger."""
        notebook = self.notebook(conversation)
        self._waits = False
        for body in notebook.unrecorded:
            conversation.agent.agent.note_change(body)
        notebook.is_recorded()
        conversation.agent.tell(*await in_thread(notebook.told))

    async def answered(self, conversation: Conversation) -> None:
        if found := self.notebook(conversation).take_found():
            await self.tell_of(conversation, found)

    async def save(self, conversation: Conversation) -> bool:
        """And what is not in the ledger yet comes there."""
        is_written = await super().save(conversation)
        await self.answered(conversation)
        await self._file(conversation, conversation.agent.record)
        return is_written

    async def record(self, conversation: Conversation, *bodies: Body) -> None:
        """And with it an answer that the disk had refused, with what it decided."""
        notebook = self.notebook(conversation)
        await conversation.record(*notebook.unrecorded, *bodies)
        notebook.is_recorded()
        await self.answered(conversation)

    async def tell_of(self, conversation: Conversation, decisions: Iterable[Decision]) -> None:
        """They are in the session: into the ledger, to its user, and to the partner."""
        notebook = self.notebook(conversation)
        for each in decisions:
            said = " ".join([f"Decided: {each.content}", *(f"#{tag}" for tag in each.tags)])
            conversation.face.note(Styled(one_line(said), "green"))
        if notebook.has_no_ledger is not None:
            conversation.face.note(Styled(_not_filed(notebook.has_no_ledger), "yellow"))
        await self._file(conversation, conversation.agent.record)
        conversation.agent.tell(*await in_thread(notebook.told))

    async def _file(self, conversation: Conversation, record: Callable[[Body], Awaitable[object]]) -> None:
        """Into the ledger what is not there. The session says so then, or the next time: nothing is added
        twice."""
        notebook = self.notebook(conversation)
        try:
            is_filed = await in_thread(notebook.file)
        except PerdureError as error:
            if (said := _not_filed(error)) != self._told_last:
                conversation.face.note(Styled(said, "yellow"))
            self._told_last = said
            return
        self._told_last = ""
        if is_filed:
            with suppress(PerdureError):
                await record(notebook.mark)
                notebook.is_marked()

    # --- what is shown -----------------------------------------------------------------------------------

    def say_how_to_go_on(self, shell: Shell, *, is_saved: bool) -> None:
        command = f"{starting.as_called(shell.out.program)} load {shlex.quote(shell.conversation.session.id)}"
        shell.out.line(Copyable(f"Resume: {command}", "dim"))


def _is_begun(session: Session) -> bool:
    """Whether somebody has said something: an answer of which nothing came does not count."""
    return any(entry.type == "message" and (entry.role == "user" or entry.text) for entry in session.entries)


def _not_filed(error: PerdureError) -> str:
    return one_line(f"Not in the ledger: {error.message.removeprefix('Not saved: ')}; the session has it")


def _refuse_what_is_never_read(part: Part, there: Iterable[Part], model: Model) -> None:
    """It is in every prompt, so with too much of it nothing could be said any more."""
    everything = [part, *(each for each in there if each.name != part.name)]
    count = sum(of_message(User(each.content)) for each in everything)
    if count > model.context_window:
        beside = " with what is attached already" if len(everything) > 1 else ""
        raise UsageError(
            one_line(f"Cannot attach {part.name}: that is about {count:,} tokens{beside}")
            + f", and {model.reference} reads {model.context_window:,}",
            "attach the part of it that matters, or talk with a model that reads more",
        )
