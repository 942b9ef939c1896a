"""What an agent works with, wherever it comes from: extensions, templates, skills and MCP servers.

Of a project only what is trusted: `project` is its folder if it is, and None if not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from perdure import config
from perdure.agent import places
from perdure.agent.extensions import Command, Extensions, Register
from perdure.agent.hooks import Hooks
from perdure.agent.installed import Installed
from perdure.agent.reading import Reader, brought_by, users_text
from perdure.agent.settings import McpServer, Settings
from perdure.agent.tools import Tool
from perdure.errors import UsageError

if TYPE_CHECKING:
    from perdure.agent.mcp import Servers
    from perdure.agent.models.registry_extensions import Provided
    from perdure.agent.skills import Skill

_OF_THE_ORIGINAL = (".ts", ".js", ".mjs")
"""Extensions of the original pi, which reads the same settings."""
Notice = Callable[[str], None]


class Equipment:
    def __init__(
        self,
        settings: Settings,
        cwd: str,
        *,
        project: str | None,
        tools: Iterable[Tool | str] | None = None,
        own: Iterable[Register] | None = None,
        notice: Notice,
    ) -> None:
        """`tools` are those that are wanted, themselves or by name; None is all there are. `own` are
        extensions of the program's, in place of those that would be found."""
        self._registered = registered(settings, project=project, own=own, notice=notice)
        self._notice = notice
        for path in settings.skills:
            if not os.path.exists(path):
                notice(f"{config.as_typed(path)}, named for skills in the settings, is not there")
        for path in () if own is not None else settings.extensions:
            if not (os.path.exists(path) or path.endswith(_OF_THE_ORIGINAL) or ":" in path):
                notice(f"{config.as_typed(path)}, named for extensions in the settings, is not there")
        self._skills = self._found_skills(settings, project)
        self._find_templates(settings, project)
        self._own_tools, self._awaited = self._chosen(tools, settings.mcp_servers)
        self._servers = self._configured(settings.mcp_servers, cwd)

    @property
    def commands(self) -> Mapping[str, Command]:
        return self._registered.commands

    @property
    def providers(self) -> Mapping[str, Provided]:
        return self._registered.providers

    @property
    def hooks(self) -> Hooks:
        return self._registered.hooks

    @property
    def tools(self) -> dict[str, Tool]:
        """Those that are there at once."""
        return self._own_tools

    @property
    def has_servers(self) -> bool:
        return self._servers is not None

    @property
    def waiting_for(self) -> list[str]:
        """The MCP servers that are still starting."""
        return self._servers.waiting_for if self._servers is not None else []

    async def all_tools(self) -> dict[str, Tool]:
        """With those of the MCP servers, which are started for it, when each is ready or has failed."""
        if self._servers is None:
            return self._own_tools
        found = dict(self._own_tools)
        for tool in await self._servers.tools():
            if self._awaited is not None and tool.name not in self._awaited:
                continue
            if found.setdefault(tool.name, tool) is not tool:
                self._notice(f"MCP tool {tool.name} is left out: another tool has that name")
        for name in sorted(self._awaited or ()):
            if name not in found:
                self._notice(f"There is no tool {name!r}: its MCP server has none of that name, or failed")
        return found

    def prompts(self, tools: Iterable[str]) -> list[str]:
        """What extensions tell the model, and, if it has a tool to read them with, which skills there are."""
        can_read = not {"read", "bash"}.isdisjoint(tools)
        if not (can_read and self._skills):
            return [*self._registered.prompts]
        from perdure.agent.skills import listing

        return [*self._registered.prompts, listing(self._skills)]

    async def close(self) -> None:
        if self._servers is not None:
            await self._servers.close()

    def _found_skills(self, settings: Settings, project: str | None) -> list[Skill]:
        """What reads them is loaded where there may be some."""
        own, brought = places.of_user("skills"), places.of_project("skills", project)
        folders = _there(*own, *settings.skills, *brought)
        if not folders:
            return []
        from perdure.agent import skills

        readers = _readers(own, brought)
        found = skills.find(folders, self._notice, readers)
        for skill in found:
            self._register(partial(skills.register, skills=[skill], readers=readers), skill.path)
        return found

    def _find_templates(self, settings: Settings, project: str | None) -> None:
        own, brought = places.of_user("prompts"), places.of_project("prompts", project)
        folders = _there(*own, *brought)
        if not (folders or settings.templates):
            return
        from perdure.agent import templates

        readers = _readers(own, brought)
        for each in templates.find(folders, settings.templates, self._notice, readers):
            self._register(partial(templates.register, templates=[each]), each.path)

    def _register(self, register: Register, path: str) -> None:
        self._registered.register(register, config.as_typed(path), path)

    def _chosen(
        self, wanted: Iterable[Tool | str] | None, servers: Mapping[str, McpServer]
    ) -> tuple[dict[str, Tool], set[str] | None]:
        """The tools that are there, and the names of those that a server has to have; None is all it has."""
        known = self._registered.tools
        if wanted is None:
            return {name: self._registered.tool(name) for name in known}, None
        found: dict[str, Tool] = {}
        awaited: set[str] = set()
        for each in wanted:
            if isinstance(each, Tool):
                found[each.name] = each
            elif each in known:
                found[each] = self._registered.tool(each)
            elif any(_is_of(each, server) for server in servers):
                awaited.add(each)
            else:
                raise UsageError(f"There is no tool {each!r}", f"the tools are {', '.join(known)}")
        return found, awaited

    def _configured(self, servers: Mapping[str, McpServer], cwd: str) -> Servers | None:
        names = [
            name
            for name in servers
            if self._awaited is None or any(_is_of(tool, name) for tool in self._awaited)
        ]
        if not names:
            return None
        from perdure.agent.mcp import Servers

        wanted = {name: servers[name] for name in names}
        return Servers(wanted, cwd=cwd, environment=config.environment(), notice=self._notice)


def registered(
    settings: Settings, *, project: str | None, own: Iterable[Register] | None = None, notice: Notice
) -> Extensions:
    """What is built in, and what extensions add."""
    found = Extensions(notice)
    if own is None:
        found.load(Installed.find(settings, project))
    for register in own or ():
        code = getattr(register, "__code__", None)
        source = f"{register.__module__}.{getattr(register, '__qualname__', 'register')}"
        found.register(register, source, code.co_filename if code else "")
    return found


def _there(*paths: str) -> list[str]:
    return [path for path in paths if os.path.lexists(path)]


def _readers(own: Iterable[str], brought: Iterable[str]) -> dict[str, Reader]:
    """What reads the texts in folders of the user's and in those of a project, each of which is two steps
    down in the folder that brings it. What the user names in the settings needs no such reader."""
    readers: dict[str, Reader] = {os.path.abspath(folder): users_text for folder in own}
    for folder in map(os.path.abspath, brought):
        readers[folder] = brought_by(os.path.dirname(os.path.dirname(folder)))
    return readers


def _is_of(tool: str, server: str) -> bool:
    from perdure.agent.mcp import tool_name

    return tool.startswith(tool_name(server, ""))
