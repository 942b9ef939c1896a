"""The shell as cortext's: whose conversation it is, what its agent is told, and how it is put down."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from perdure import __version__, config
from perdure.agent.aside import in_thread
from perdure.agent.models import OFFLINE
from perdure.agent.places import REGISTERED
from perdure.agent.session import AgentSession
from perdure.agent.trust import Trust
from perdure.errors import PerdureError, UsageError
from perdure.front import opening, recalling, signals, slash, starting
from perdure.front.autosave import Timer
from perdure.front.conversation import Conversation
from perdure.front.opening import Meant
from perdure.front.output import Copyable, Styled
from perdure.front.profile import OwnProfile
from perdure.front.shell import Shell
from perdure.front.slash import Slash
from perdure.front.visible import one_line
from perdure.programs.cortext import pausing, resuming
from perdure.programs.cortext.workspace import (
    COMMIT,
    FOLDER,
    REGISTRY,
    NoType,
    Workspace,
    inactivity,
    type_of,
)
from perdure.session import lifecycle, listing
from perdure.session.catalog import Row
from perdure.session.entry import Assistant, Custom, Entry, Message
from perdure.session.lifecycle import ACTIVE, CORTEXT
from perdure.session.session import Session
from perdure.session.stores import Header, open_store

_TALK = "perdure.programs.cortext.talk"
_CTRL_C = 130
_PATIENCE = 1.0
"""Seconds after which its user is told what is waited for."""
_CONFIG = "perdure.agent_config"
_NOBODY: dict[str, Any] = {"command": "", "system_prompt_hash": "", "model": "", "tools": []}

_OWN = {
    each.name: each
    for each in (
        Slash("workspace.stop-conversation", f"{_TALK}:stop", "", "save this conversation, and pause it"),
        Slash("workspace.complete", f"{_TALK}:complete", "", "save this conversation, and mark it complete"),
        Slash(
            "workspace.resume",
            f"{_TALK}:resume_one",
            "[--type T] [NUMBER|ID|TEXT]",
            "go on with another conversation; without a word, pick one",
            f"{_TALK}:ids",
        ),
        slash.COMMANDS["model"],
        slash.COMMANDS["help"],
        Slash(
            "exit",
            "perdure.front.slash:quit",
            "",
            "pause this conversation, and leave; Ctrl+D, too",
            "",
            True,
        ),
    )
}


class Cortext(OwnProfile):
    layout = "cortext"
    title = "Cortext"
    goes_to = "/workspace.resume"
    goes_on_alone = True
    runs_command_lines = False

    def __init__(self, options: SimpleNamespace, workspace: Workspace) -> None:
        settings = workspace.settings()
        said = settings.values if Trust().is_trusted(workspace.path) else {}
        super().__init__(options, settings._replace(values={**REGISTERED, **said}))
        self.workspace = workspace
        self.why_not_committed = ""
        """Why conversations are only saved; empty if they are committed, too."""
        if options.no_commit:
            self.why_not_committed = "--no-commit was given"
        elif not settings.values.get(COMMIT, True):
            self.why_not_committed = f"`{COMMIT}` is off in {FOLDER}/{REGISTRY}"
        self.starts_with: Meant | None = None
        self.commands = {
            **{
                f"workspace.{kind}": Slash(
                    f"workspace.{kind}",
                    f"{_TALK}:begin",
                    "TITLE",
                    f"begin a conversation: {kind}",
                    given=kind,
                )
                for kind in workspace.types
            },
            **_OWN,
        }
        self._pause_after = inactivity(self.settings.values)
        self._timer: Timer | None = None
        self._shell: Shell | None = None
        self._session: Session | None = None
        """The one that was taken up."""
        self._status = ACTIVE
        """Of that, as it is recorded."""
        self._instructions = ""
        """The prompt that the agent of the open conversation goes by; empty until one is opened."""
        self._instead: dict[str, str] = {}
        """Types for conversations whose own type has no prompt any more, by their ids."""
        self._known = ""
        """What its agent is told of it, as it was when it was taken up."""

    @property
    def home(self) -> str:
        return config.expanded("~/.cortext")

    @property
    def tool(self) -> str:
        """Who goes on with conversations, if nobody says otherwise."""
        return str(self.settings.values["tool"])

    # --- which conversation ------------------------------------------------------------------------------

    async def begin(self, shell: Shell) -> Meant | None:
        self._shell = shell
        if self.starts_with is None:
            self._greet_alone(shell)
        elif not self.starts_with.is_new:
            self.first = self.acknowledge
        return self.starts_with

    def facts(self, kind: str, title: str) -> dict[str, Any]:
        """Of a conversation that can be begun; UsageError says why it cannot."""
        title = " ".join(title.split())
        if not title:
            raise UsageError("A conversation needs a title", "such as: API design")
        return {
            "conversation_type": kind,
            "title": title,
            "agent_config": {
                **_NOBODY,
                "command": f"/workspace.{kind}",
                "system_prompt_hash": _hash(self.workspace.prompt(kind)),
            },
        }

    def notice_of_folder(self, kind: str) -> str:
        """Of a folder that the registry names for a type and that is not used; nothing, if all is well."""
        refused = listing.refused_folder(self.workspace.path, kind)
        if not refused:
            return ""
        what = f"{FOLDER}/{REGISTRY}: {refused!r:.60} is not used as the folder of {kind}"
        return one_line(f"{what}: it has to be a folder of the workspace, neither hidden nor a link.")

    def made(self, facts: Mapping[str, Any]) -> Meant:
        """A new conversation, in which nothing was said yet."""
        return opening.made(open_store("cortext", self.workspace.path), facts=facts)

    def resumed(self, row: Row, instead: str = "") -> Meant:
        """A conversation to go on with. `instead` is the type whose prompt is used where its own is gone."""
        meant = opening.at(row.path)
        try:
            self.workspace.prompt(_kind(meant.header))
        except NoType as error:
            if not instead:
                raise self._without_prompt(row, error) from None
            self.workspace.prompt(instead)
            self._instead[row.id] = instead
        return meant

    def _without_prompt(self, row: Row, error: NoType) -> PerdureError:
        other = next(iter(self.workspace.types), "TYPE")
        way = f"`cortext resume {shlex.quote(row.id)} --type {other}`"
        if self._shell is not None:
            way = f"/workspace.resume --type {other} {row.id}"
        what, hint = error.message, f"go on as another type: {way}"
        if error.path:
            what, hint = f"{config.as_typed(error.path)} is gone", f"put it back, or {hint}"
        return UsageError(f'"{one_line(row.title)}" cannot be opened: {what}', hint)

    def _type(self, header: Header) -> str:
        """That of which the agent has its instructions."""
        return self._instead.get(header.id) or _kind(header)

    def when_held(self, program: str, id: str) -> str:
        return "pause it there first"

    def unheard(self) -> PerdureError:
        kind = next(iter(self.workspace.types), "plan")
        return UsageError(
            "No conversation is open",
            f"/workspace.{kind} TITLE begins one, /workspace.resume goes on with one",
        )

    # --- who answers -------------------------------------------------------------------------------------

    def agent(self, meant: Meant, cwd: str, *, trusted: bool) -> AgentSession:
        return AgentSession(
            cwd=cwd,
            settings=starting.settings_of(self.options),
            system_prompt=self.instructions(meant.header),
            trusted=trusted,
        )

    async def prepare(self, conversation: Conversation) -> None:
        await super().prepare(conversation)
        session = conversation.session
        if session is not self._session:
            if notice := await in_thread(self.notice_of_change, session):
                conversation.face.note(Styled(notice, "yellow"))
            before = await in_thread(self.take_up, session)
            is_new = conversation.meant.is_new
            self._known = "" if is_new else await in_thread(resuming.block, session, before)
            if self._shell is not None:
                self._start_timer(self._shell)
        await self._tell(conversation)

    def take_up(self, session: Session) -> str:
        """Make it active, with the instructions that it goes on with. Returns what it was before."""
        before = ACTIVE
        if next(session.newest_first(), None):
            before = CORTEXT.resume(session, insist=True)  # of one that is complete, its user was asked
            if (wanted := self._config(session)) != _recorded(session):
                session.append(Custom(_CONFIG, wanted))
        self._session, self._status = session, ACTIVE
        return before

    def notice_of_change(self, session: Session) -> str:
        """Of instructions that are not those it was last talked in with; nothing, if they are."""
        known, now = _recorded(session), self._config(session)
        command = known.get("command") or now["command"]
        if command != now["command"]:
            return one_line(f"It goes on with the instructions of {now['command']}, not of {command}.")
        if known.get("system_prompt_hash", "") in (*_UNKNOWN, now["system_prompt_hash"]):
            return ""
        changed = f"The instructions of {command} changed since it was last talked in"
        return one_line(f"{changed}; they are used as they are now.")

    def instructions(self, header: Header) -> str:
        """What its agent is told to be, as it is now. From then on that is what it goes by, also if the file
        is changed or removed meanwhile."""
        self._instructions = self.workspace.prompt(self._type(header))
        return self._instructions

    async def _tell(self, conversation: Conversation) -> None:
        """What is part of every prompt, as it is now."""
        told, problems = await in_thread(self.workspace.memory)
        for problem in problems:
            if one_line(problem) not in conversation.agent.notices:
                conversation.agent.notices.append(one_line(problem))
        conversation.agent.tell(*told, self._known)

    # --- what is said ------------------------------------------------------------------------------------

    async def acknowledge(self, shell: Shell) -> None:
        """Whoever goes on says so, in one reply. Where that cannot be had, what was said last is shown."""
        conversation = shell.conversation
        before = await in_thread(recalling.last_exchange, conversation.session)
        await conversation.be_opened(resuming.request(), resuming.UNSHOWN, may_fail=True)
        if await in_thread(_is_unanswered, conversation.session):
            recalling.show(before, shell.face)

    def entered(self, conversation: Conversation) -> None:
        self._touch()

    async def saying(self, conversation: Conversation) -> None:
        await self._tell(conversation)
        if self._status == "paused":
            conversation.agent.agent.note_change(lifecycle.body(ACTIVE))
            self._status = ACTIVE
        if (config := self._config(conversation.session, conversation.agent)) != _recorded(
            conversation.session
        ):
            conversation.agent.agent.note_change(Custom(_CONFIG, config))

    async def answered(self, conversation: Conversation) -> None:
        """Tools of servers are known by now."""
        self._touch()
        if (config := self._config(conversation.session, conversation.agent)) != _recorded(
            conversation.session
        ):
            await conversation.agent.record(Custom(_CONFIG, config))

    def _config(self, session: Session, agent: AgentSession | None = None) -> dict[str, Any]:
        """What a conversation says of who answers, as it is now."""
        assert self._instructions, "`instructions` comes first: the hash of no prompt would be recorded"
        config = {
            **_NOBODY,
            **_recorded(session),
            "command": f"/workspace.{self._type(session.header)}",
            "system_prompt_hash": _hash(self._instructions),
        }
        if agent is not None:
            config |= {"model": agent.model.reference, "tools": sorted(agent.tools)}
        return config

    # --- how it ends -------------------------------------------------------------------------------------

    async def end(self, conversation: Conversation) -> None:
        """Left by its user it is committed; after a signal it is only saved."""
        await self._stop_timer()
        if is_silent(conversation):
            return
        if not conversation.is_ready:  # who was to answer cannot be had
            if self._session is conversation.session:
                await in_thread(CORTEXT.change, conversation.session, "paused")
            return
        await self.put_down(conversation, "paused")
        if self._shell is not None and self._shell.leaves_with == 0:
            await self.conclude(self._shell, conversation, "paused")

    async def put_down(self, conversation: Conversation, status: str) -> None:
        """Saved with that status. What is said meanwhile is said in one that has it already."""
        before, self._status = self._status, status
        try:
            await pausing.put_down(conversation, status)
        except BaseException:
            self._status = before
            raise

    async def conclude(self, shell: Shell, conversation: Conversation, status: str) -> None:
        """Sum it up and commit it. It is saved, so who presses Ctrl+C only has no summary."""
        if shell.face.is_drawn and conversation.agent.model.provider != OFFLINE:
            shell.face.note(Styled("Saved. Summing up where it stopped; Ctrl+C leaves that out.", "dim"))
        await pausing.summarise(conversation, shell.hurried)
        await self.commit(shell, conversation, status)

    async def commit(self, shell: Shell, conversation: Conversation, status: str) -> None:
        """It is saved: whoever, or whatever, ends this only keeps it from being committed now."""
        if self.why_not_committed:
            return shell.face.note(Styled(pausing.not_committed(self.why_not_committed), "dim"))
        session, workspace, out = conversation.session, self.workspace, shell.out
        try:
            searched = await in_thread(pausing.searched, session, workspace, status)
            if searched.found and not await shell.face.aside(lambda: searched.is_wanted(out)):
                return
        except signals.Interrupted as error:
            shell.face.note(Styled("Not committed; the next pause asks again.", "yellow"))
            if error.exit_code != _CTRL_C:
                shell.leave(error.exit_code)
            return
        except PerdureError as error:
            return shell.face.note(Styled(one_line(error.said), "yellow"))
        committing = asyncio.ensure_future(
            in_thread(pausing.committed, session, workspace, status, searched.seen)
        )
        if not (await asyncio.wait([committing], timeout=_PATIENCE))[0]:
            shell.face.note(Styled("Another git is at work in this repository; waiting for it.", "dim"))
        shell.face.note(await committing)

    async def let_go(self, shell: Shell) -> None:
        """Of a conversation that was put down; the shell goes on without one."""
        await self._stop_timer()
        await shell.let_go()

    def _touch(self) -> None:
        if self._timer is not None:
            self._timer.touch()

    def _start_timer(self, shell: Shell) -> None:
        loop = asyncio.get_running_loop()

        def work() -> bool | None:
            """In the timer's thread; paused is in the loop's, as everything is."""
            return asyncio.run_coroutine_threadsafe(self._pause_if_idle(shell), loop).result()

        def tell(text: str) -> None:
            loop.call_soon_threadsafe(shell.face.note, Styled(text, "yellow"))

        if self._timer is not None:
            self._timer.stop(0)
        self._timer = Timer(self._pause_after, work, name="Auto-pause", told=tell, once=True)
        self._timer.start()

    async def _stop_timer(self) -> None:
        if self._timer is not None:
            await in_thread(self._timer.stop)

    async def _pause_if_idle(self, shell: Shell) -> bool | None:
        if not shell.is_talking or shell.is_busy or not shell.conversation.is_ready:
            return None
        if is_silent(shell.conversation) or self._status != ACTIVE:
            return None
        await self.put_down(shell.conversation, "paused")
        told = (
            "Nobody said anything for a while: the conversation is saved and paused. Just go on to resume it."
        )
        shell.face.note(Styled(told, "yellow"))
        return True

    # --- what is shown -----------------------------------------------------------------------------------

    def prompt(self, shell: Shell) -> str:
        return f"{self._type(shell.conversation.meant.header)}> " if shell.is_talking else "cortext> "

    def short_id(self, session: Session) -> str:
        return session.id

    def _greet_alone(self, shell: Shell) -> None:
        greeting = f"Cortext, of Perdure {__version__}, in {config.as_typed(self.workspace.path)}."
        shell.face.line(Styled(one_line(greeting), "dim"))
        shell.face.line(Styled("/help says what can be typed here.", "dim"))

    def greet(self, shell: Shell) -> None:
        conversation = shell.conversation
        if conversation.meant.is_new:
            facts = conversation.meant.header.facts
            about = f"[{facts['conversation_type']}] {facts['title']}"
            shell.face.line(Styled(one_line(about), "bold"))
            shell.face.line(Styled(conversation.session.id, "dim"))
        else:
            title = one_line(pausing.title_of(conversation.session))
            shell.face.line(f'[Resuming "{title}"]')

    def last_exchange(self, session: Session) -> list[Entry]:
        """None: the agent says where it stopped."""
        return []

    async def say_what_was_restored(self, shell: Shell, conversation: Conversation) -> None:
        """The agent does."""

    def say_how_to_go_on(self, shell: Shell, *, is_saved: bool) -> None:
        shell.out.line(Copyable(resume_line(shell.conversation.session.id), "dim"))


def resume_line(id: str) -> str:
    return f"Resume: cortext resume {shlex.quote(id)}"


def is_silent(conversation: Conversation) -> bool:
    """Whether nothing was said in it, also nothing that waits for the disk."""
    return conversation.session.is_empty and not conversation.agent.has_unsaved


def _is_unanswered(session: Session) -> bool:
    match session.tail(1):
        case [Entry(body=Message(message=Assistant() as answer))]:
            return answer.is_broken_off
    return True


def _kind(header: Header) -> str:
    """The type of a conversation: that of the command it was begun with."""
    agent = header.facts.get("agent_config")
    command = agent.get("command") if isinstance(agent, dict) else None
    if isinstance(command, str) and command.startswith("/workspace."):
        return type_of(command)
    return str(header.facts.get("conversation_type", ""))


def _recorded(session: Session) -> dict[str, Any]:
    """What the conversation says of who answers."""
    for entry in session.newer(_CONFIG.encode()):
        match entry.body if entry.type == "custom" else None:
            case Custom(custom_type="perdure.agent_config", data=dict(data)):
                return data
    known = session.header.facts.get("agent_config")
    return known if isinstance(known, dict) else {}


def _hash(prompt: str) -> str:
    return f"sha256:{hashlib.sha256(prompt.encode('utf-8', 'surrogatepass')).hexdigest()}"


_UNKNOWN = ("", _hash(""))
"""What stands in a conversation for a hash that was never taken. No prompt is empty; an older version
recorded that of none when it started another tool."""
