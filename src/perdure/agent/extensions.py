"""Extensions: Python that gives an agent tools, prompts, commands and providers, and a say in what tools do.

    def register(api):
        api.tool(Tool("add", "Add two numbers.", Add, add))

They are files in pi's `extensions` folder, in that of a trusted project, and functions of installed packages
(entry points of the group `perdure`). What is built in comes in by the same door, first of all.

One that fails, while it is read or while it registers, is told of with its file and line and is left out as a
whole; nothing else stops. What has a name has it once: a tool of an extension takes the place of a built-in
one, and of two extensions the first keeps the name.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args

from msgspec import structs

from perdure import config, registry
from perdure.agent.events import AgentEvent
from perdure.agent.hooks import Hook, Hooks, Place, in_words
from perdure.agent.installed import Installed
from perdure.agent.reading import text_of
from perdure.agent.tools import Tool, check_schema
from perdure.session import strangers
from perdure.session.record import dumps

if TYPE_CHECKING:
    from perdure.agent.models import LanguageModel, Model
    from perdure.agent.models.registry_extensions import Provided
    from perdure.agent.session import AgentSession

BUILT_IN = ("perdure.agent.tools:register", "perdure.agent.commands:register")

_MOST = 4 * 1024 * 1024
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what every provider takes
_COMMAND_NAME = re.compile(r"[^\s/]{1,261}")  # a file's name, perhaps behind `skill:`
_EVENTS = [str(kind.__struct_config__.tag) for kind in get_args(AgentEvent)]
_Function = TypeVar("_Function", bound=Callable[..., Any])

Register = Callable[["Api"], object]
Notice = Callable[[str], None]


class CommandContext(NamedTuple):
    """Where a command runs."""

    session: AgentSession
    cwd: str
    show: Callable[[str], None]
    """Shows something to whoever typed the command. The model does not see it."""


class Command(NamedTuple):
    """What is typed as `/name arguments`."""

    name: str
    run: Callable[[str, CommandContext], Any]
    """What it returns, or what it returns when awaited, is said to the model; None is nothing."""
    description: str
    source: str
    """Whose it is; empty if it is built in."""
    place: Place


class Api:
    """What an extension registers with. Functions may be plain or `async`."""

    def __init__(self, source: str, place: Place) -> None:
        self._registered = _Registered()
        self._source = source
        self._place = place

    def __getattr__(self, name: str) -> Any:
        import difflib

        near = difflib.get_close_matches(name, [each for each in dir(self) if not each.startswith("_")], 1)
        raise AttributeError(f"there is no api.{name}{f'; did you mean api.{near[0]}?' if near else ''}")

    def tool(self, tool: Tool | str, *, name: str = "") -> None:
        """One that the model may call, under a name of its own or another. What is built in is `module:attr`,
        which is imported when it is wanted."""
        if self._source:
            tool = _sound(registry.load(tool) if isinstance(tool, str) and ":" in tool else tool, name)
        name = tool.name if isinstance(tool, Tool) else name
        if name in self._registered.tools:
            raise ValueError(f"there are two tools {name}")
        self._registered.tools[name] = tool

    def prompt(self, text: str) -> None:
        """Added to the system prompt, behind the project's own instructions."""
        if not isinstance(text, str):
            raise TypeError(f"api.prompt takes text, not {type(text).__name__}")
        self._registered.prompts.append(text)

    def command(
        self, name: str, function: Callable[[str, CommandContext], Any], description: str = ""
    ) -> None:
        """`/name arguments`: what the function makes of the arguments is said to the model, None is not."""
        name = name.removeprefix("/")
        if not _COMMAND_NAME.fullmatch(name):
            raise ValueError(f"no name for a command: {name!r}; it has no spaces and no slashes")
        _callable(function, "api.command")
        self._registered.commands[name] = Command(
            name, function, description or _first_line(function), self._source, self._place
        )

    def provider(
        self,
        name: str,
        *,
        base_url: str = "",
        api: str = "",
        api_key: str = "",
        headers: Mapping[str, str] | None = None,
        models: Sequence[Any] = (),
        connect: Callable[[Model, str], LanguageModel] | None = None,
    ) -> None:
        """A provider of models: where it is reached and what is spoken there, as in `models.json`; or
        `connect`, which is given a model and its key and returns what answers."""
        from perdure.agent.models.registry_extensions import provided

        self._registered.providers[name] = provided(
            name,
            base_url=base_url,
            api=api,
            api_key=api_key,
            headers=headers or {},
            models=models,
            connect=connect,
            source=self._source,
        )

    def before_tool(self, function: _Function) -> _Function:
        """`function(call)` returns the call as it is to be run, or the result it is answered with instead."""
        self._registered.before.append(self._hook(function, "api.before_tool"))
        return function

    def after_tool(self, function: _Function) -> _Function:
        """`function(call, result)` returns the result as the model is to read it."""
        self._registered.after.append(self._hook(function, "api.after_tool"))
        return function

    def on(self, event_type: str, function: Callable[[Any], Any] | None = None) -> Any:
        """`function(event)` is called at each event of this type, before anybody else is told. Without a
        function it is a decorator."""
        if event_type not in _EVENTS:
            raise ValueError(f"no event is called {event_type!r}; they are {', '.join(_EVENTS)}")
        if function is None:
            return partial(self.on, event_type)
        self._registered.listeners.append((event_type, self._hook(function, "api.on")))
        return function

    def _hook(self, function: Callable[..., Any], what: str) -> Hook:
        _callable(function, what)
        return Hook(function, self._source, self._place)


class _Registered:
    """What one extension has registered, until it is known that all of it is sound."""

    def __init__(self) -> None:
        self.tools: dict[str, Tool | str] = {}
        self.prompts: list[str] = []
        self.commands: dict[str, Command] = {}
        self.providers: dict[str, Provided] = {}
        self.before: list[Hook] = []
        self.after: list[Hook] = []
        self.listeners: list[tuple[str, Hook]] = []


class Extensions:
    """All that was registered, by whomever."""

    def __init__(self, notice: Notice) -> None:
        self.prompts: list[str] = []
        self.commands: dict[str, Command] = {}
        self.providers: dict[str, Provided] = {}
        self.hooks = Hooks(notice)
        self._tools: dict[str, tuple[Tool | str, str]] = {}
        self._notice = notice
        for each in BUILT_IN:
            self.register(registry.load(each), "")

    @property
    def tools(self) -> list[str]:
        """Their names."""
        return [*self._tools]

    def tool(self, name: str) -> Tool:
        found, _ = self._tools[name]
        loaded: Tool = registry.load(found) if isinstance(found, str) else found
        return loaded

    def register(self, register: Register, source: str, path: str = "") -> None:
        """What it registers, all of it or nothing. Without a source it is built in, and may not fail."""
        place = _Place(source, path)
        api = Api(source, place)
        try:
            with redirect_stdout(sys.stderr):  # stdout is for the answer
                if inspect.iscoroutine(left := register(api)):
                    left.close()
                    raise TypeError("register(api) is async, and would never be awaited")
        except BaseException as error:
            if not source or isinstance(error, KeyboardInterrupt):
                raise
            self._left_out(place(error), error)
            return
        new = api._registered
        for name, tool in new.tools.items():
            _, owner = self._tools.get(name, (None, ""))
            if owner:
                self._refuse(f"tool {name}", owner, source)
            else:
                self._tools[name] = (tool, source)
        for name, command in new.commands.items():
            if self.commands.setdefault(name, command) is not command:
                self._refuse(f"command /{name}", self.commands[name].source, source)
        for name, provider in new.providers.items():
            if self.providers.setdefault(name, provider) is not provider:
                self._refuse(f"provider {name}", self.providers[name].source, source)
        self.prompts += new.prompts
        self.hooks.before += new.before
        self.hooks.after += new.after
        for event_type, hook in new.listeners:
            self.hooks.listeners.setdefault(event_type, []).append(hook)

    def load(self, installed: Installed) -> None:
        for path in installed.files:
            source = config.as_typed(path)
            if doubt := strangers.doubt(path):  # also of a folder that is trusted: nobody was shown the code
                self._notice(f"{source} is left out: {doubt.why}; {doubt.advice}")
                continue
            try:
                with redirect_stdout(sys.stderr):
                    register = _in_file(path)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                self._left_out(_Place(source, path)(error), error)
            else:
                self.register(register, source, path)
        for entry in installed.packages:
            source = f"{entry.value} ({entry.dist.name if entry.dist else entry.name})"
            try:
                with redirect_stdout(sys.stderr):
                    found = entry.load()
                    register = found if callable(found) else found.register
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                self._left_out(_Place(source, "")(error), error)
            else:
                self.register(register, source)

    def _refuse(self, what: str, owner: str, source: str) -> None:
        whose = f"of {owner}" if owner else "built in"
        self._notice(f"{source}: there is a {what} already, {whose}; this one is left out")

    def _left_out(self, place: str, error: BaseException) -> None:
        self._notice(f"{place}: {in_words(error)}; the extension is left out")


class _Place:
    """Where in an extension something went wrong: the innermost line of its own file; for a package, the
    innermost line that is not ours."""

    def __init__(self, source: str, path: str) -> None:
        self._source = source
        self._path = path

    def __call__(self, error: BaseException) -> str:
        if isinstance(error, SyntaxError) and error.filename == self._path and error.lineno:
            return f"{self._source}:{error.lineno}"
        own = os.path.dirname(os.path.dirname(__file__))
        found = None
        at = error.__traceback__
        while at is not None:
            file = at.tb_frame.f_code.co_filename
            if file == self._path or (not self._path and not file.startswith((own, "<frozen"))):
                found = (file, at.tb_lineno)
            at = at.tb_next
        if found is None:
            return self._source
        file, line = found
        return f"{self._source}:{line}" if self._path else f"{self._source}: {config.as_typed(file)}:{line}"


def _in_file(path: str) -> Register:
    """The `register` of a file, which is run for it. Nothing is written beside it."""
    found = text_of(path, _MOST)
    if found.is_cut:
        raise ValueError(f"it is larger than {_MOST >> 20} MB")
    module = types.ModuleType(f"perdure_extension_{re.sub(r'[^0-9A-Za-z]', '_', path)}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # types look their annotations up there
    exec(compile(found.text, path, "exec", dont_inherit=True), module.__dict__)
    register = module.__dict__.get("register")
    if not callable(register):
        raise TypeError("it has no function register(api)")
    return register  # type: ignore[no-any-return]


def _sound(tool: Any, name: str) -> Tool:
    """A tool that a model can be told of: what is wrong with it is said where it is registered."""
    if not isinstance(tool, Tool):
        raise TypeError(f"api.tool takes a Tool, not {type(tool).__name__}")
    called: Tool = structs.replace(tool, name=name) if name else tool
    if not isinstance(called.name, str) or not _TOOL_NAME.fullmatch(called.name):
        raise ValueError(f"no name for a tool: {called.name!r}; letters, digits, _ and -, at most 64")
    if not isinstance(called.description, str):
        raise TypeError(
            f"the description of {called.name} is {type(called.description).__name__}, and not text"
        )
    _callable(called.run, "a Tool")
    if not isinstance(called.is_read_only, bool):
        raise TypeError(
            f"is_read_only of {called.name} is {called.is_read_only!r}, and neither True nor False"
        )
    if not isinstance(called.spec.parameters, Mapping):
        raise TypeError(f"the parameters of {called.name} are neither a Struct nor a JSON Schema")
    dumps(called.spec)  # what cannot be said to a model is no schema
    if not isinstance(called.parameters, type):
        check_schema(called.parameters)
    return called


def _callable(function: Any, what: str) -> None:
    if not callable(function):
        raise TypeError(f"{what} takes a function, not {type(function).__name__}")


def _first_line(function: Callable[..., Any]) -> str:
    return (getattr(function, "__doc__", None) or "").strip().partition("\n")[0]
