"""Who may import whom, who may read the environment, and what is not written here at all.

Each rule is a function from one module to the sentences that say what is wrong with it. It is run over all
of `src/perdure`, and over small examples that prove that it can fail and that it does not fail too easily.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "perdure"

# A module may import its own layer and those after it.
LAYERS = ["programs", "front", "agent", "session", "registry", "config", "errors"]
# `perdure` itself and `python -m perdure` stand above all layers, and nothing but the tests above `testing`.
DOORS = {"", "__main__"}
TESTING_MAY_IMPORT = {"testing", "agent", "session", "registry", "config", "errors"}

# Folders of interchangeable things. One may be removed, or come from an extension, without the others
# noticing, so no module of the folder imports one of them; what they share is named here.
FAMILIES = {
    "session.stores": {
        "document_size",
        "file_store",
        "files",
        "folders",
        "json_text",
        "jsonl",
        "line_reader",
        "lines",
        "lock",
        "log",
        "owners",
        "plain",
        "whole_file",
    },
    "session.importers": set(),
    "agent.tools": {"output", "processes", "replacing", "ripgrep", "walk", "workspace"},
    "agent.models": {"history", "http", "http_errors", "registry", "resolver"},
    "front.commands": set(),
    "programs": set(),
}

# `config` bounds it; the others load nothing of ours, and ask only where they were started themselves.
FOLLOW_OWN_PATHS = {"config", "__main__", "agent.tools.walk"}
POSIX_ONLY = {"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"}
# These turn data into running code; a session file is data somebody else may have written.
RUN_DATA = {"dill", "jsonpickle", "marshal", "pickle", "shelve", "yaml"}
RUNS_CODE = {"agent.extensions"}  # files that the user put there to be run
SAYS_NOTHING = {"common", "constants", "helper", "helpers", "misc", "types", "util", "utils"}
MOST_LINES = 500


@dataclass(frozen=True)
class Module:
    """One source file; `name` is dotted and relative to `perdure`, which itself is the empty name."""

    name: str
    source: str
    is_package: bool = False
    known: frozenset[str] = frozenset()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return [*ast.walk(self.tree)]

    @property
    def layer(self) -> str:
        return self.name.partition(".")[0]

    def imports(self) -> Iterator[tuple[str, int]]:
        """Absolute names of all imports, also of those inside functions, with their lines."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                origin = self._origin(node)
                yield from ((f"{origin}.{alias.name}", node.lineno) for alias in node.names)

    def _origin(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        here = ["perdure", *filter(None, self.name.split("."))]
        package = here if self.is_package else here[:-1]
        return ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])

    def own_imports(self) -> Iterator[tuple[str, int]]:
        """The imported modules of Perdure, named like `name`; an imported class counts as its module."""
        for name, line in self.imports():
            if name == "perdure" or name.startswith("perdure."):
                target = name.removeprefix("perdure").removeprefix(".")
                while target and self.known and target not in self.known:
                    target = target.rpartition(".")[0]
                yield target or f".{name.rpartition('.')[2]}", line


def import_direction(module: Module) -> Iterator[str]:
    if module.name in DOORS:
        return
    if module.layer not in [*LAYERS, "testing"]:
        yield f"{module.name} is in no layer"
        return
    allowed = LAYERS[LAYERS.index(module.layer) :] if module.layer in LAYERS else TESTING_MAY_IMPORT
    for target, line in module.own_imports():
        if target.startswith("."):  # from perdure itself
            if target != ".__version__":
                yield f"line {line}: imports {target[1:]} through the public door, not from its module"
        elif target.partition(".")[0] not in allowed:
            yield f"line {line}: {module.layer} must not import {target}"


def never_sideways(module: Module) -> Iterator[str]:
    for family, shared in FAMILIES.items():
        if not f"{module.name}.".startswith(f"{family}."):
            continue
        own = module.name[len(family) + 1 :].partition(".")[0]
        for target, line in module.own_imports():
            if target.startswith(f"{family}."):
                sibling = target[len(family) + 1 :].partition(".")[0]
                # The files of one layout begin alike: sibyl_sexp, sibyl_format.
                if own.partition("_")[0] != sibling.partition("_")[0] and sibling not in shared:
                    yield f"line {line}: {family} has one file a kind, and none imports {sibling}"


def only_config_reads_the_environment(module: Module) -> Iterator[str]:
    if module.name == "config":
        return
    reading = {"environ", "environb", "getenv", "getenvb"}
    names_of_os = {"os"}
    for node in module.nodes:
        if isinstance(node, ast.Import):
            names_of_os |= {alias.asname for alias in node.names if alias.name == "os" and alias.asname}
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and node.attr in ("expanduser", "home"):
            # What they make of an empty HOME is `/`.
            found = node.attr == "expanduser" or (
                isinstance(node.value, ast.Name) and node.value.id == "Path"
            )
        elif isinstance(node, ast.Attribute) and node.attr in reading:
            found = isinstance(node.value, ast.Name) and node.value.id in names_of_os
        elif isinstance(node, ast.ImportFrom):
            found = node.module == "os" and any(alias.name in reading for alias in node.names)
        else:
            continue
        if found:
            yield f"line {node.lineno}: reads the environment; ask perdure.config"


def posix_modules_are_imported_where_used(module: Module) -> Iterator[str]:
    """At the top of a module they would make `import perdure` fail on Windows."""
    waiting: list[ast.AST] = [module.tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        waiting.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            continue
        for name in names:
            if name.partition(".")[0] in POSIX_ONLY:
                yield f"line {node.lineno}: {name} does not exist everywhere; import it in the function"


def data_is_never_run(module: Module) -> Iterator[str]:
    for name, line in module.imports():
        if name.partition(".")[0] in RUN_DATA:
            yield f"line {line}: {name.partition('.')[0]} can run what it reads"
    for node in module.nodes:
        match node:
            case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="builtins"), attr=name):
                if name in ("eval", "exec") and not (name == "exec" and module.name in RUNS_CODE):
                    yield f"line {node.lineno}: {name} runs what it is given"


def no_path_is_followed_by_recursion(module: Module) -> Iterator[str]:
    """These call themselves for each folder or link of a path, which may be more often than Python allows."""
    for node in module.nodes:
        match node:
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id="os"), attr="path"), attr="realpath"):
                if module.name not in FOLLOW_OWN_PATHS:
                    yield f"line {node.lineno}: os.path.realpath may not end; take config.real_path"
            case ast.Attribute(value=ast.Name(id="os"), attr="makedirs"):
                yield f"line {node.lineno}: os.makedirs may not end; make one folder after another"


def names_say_something(module: Module) -> Iterator[str]:
    for part in module.name.split("."):
        words = part.strip("_").split("_")
        if words[-1] in SAYS_NOTHING or words[-1] in ("factory", "service") or words[0] == "base":
            yield f"{part} says nothing about what is in it"


def short_enough(module: Module) -> Iterator[str]:
    lines = len(module.source.splitlines())
    if lines > MOST_LINES:
        yield f"{lines} lines want to be two files"


RULES: list[Callable[[Module], Iterator[str]]] = [
    import_direction,
    never_sideways,
    only_config_reads_the_environment,
    posix_modules_are_imported_where_used,
    data_is_never_run,
    no_path_is_followed_by_recursion,
    names_say_something,
    short_enough,
]


@cache
def modules() -> list[Module]:
    paths = sorted(PACKAGE.rglob("*.py"))
    dotted = {path: ".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in paths}
    names = {path: name.removesuffix("__init__").removesuffix(".") for path, name in dotted.items()}
    known = frozenset(names.values())
    return [
        Module(names[path], path.read_text(encoding="utf-8"), path.name == "__init__.py", known)
        for path in paths
    ]


@pytest.mark.slow
@pytest.mark.xdist_group("architecture")  # all of it is parsed once
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_source_keeps_each_rule(rule):
    """No module of the package breaks the rule."""
    found = modules()
    assert {"", "errors", "programs.pi"} <= {module.name for module in found}
    assert [f"perdure.{module.name}: {wrong}" for module in found for wrong in rule(module)] == []


BROKEN = [
    (import_direction, "errors", "from perdure.config import home"),
    (import_direction, "session.tree", "import perdure.agent.loop"),
    (import_direction, "session.tree", "from perdure import front"),
    (import_direction, "session.tree", "from ..agent import loop"),
    (import_direction, "session.tree", "def later():\n    from perdure.programs.pi import main"),
    (import_direction, "session.tree", "from perdure import SessionManager"),
    (import_direction, "agent.loop", "from perdure.testing import ScriptedModel"),
    (import_direction, "testing.builders", "from perdure.front import render"),
    (import_direction, "somewhere", "x = 1"),
    (never_sideways, "session.stores.memory", "from perdure.session.stores.pi_jsonl import Store"),
    (never_sideways, "session.stores.memory", "from perdure.session.stores import pi_jsonl"),
    (never_sideways, "session.stores.memory", "from . import pi_jsonl"),
    (never_sideways, "session.stores.pi_format", "from . import memory"),
    (never_sideways, "session.stores.files", "from .memory import Store"),
    (never_sideways, "agent.tools.grep", "from perdure.agent.tools.find import run"),
    (never_sideways, "agent.models.openai_chat", "import perdure.agent.models.anthropic"),
    (never_sideways, "session.importers.claude_code", "from .codex import read"),
    (never_sideways, "front.commands.ls", "from perdure.front.commands.search import search"),
    (never_sideways, "programs.aur", "from perdure.programs.pi import main"),
    (only_config_reads_the_environment, "session.manager", "import os\nos.environ['HOME']"),
    (only_config_reads_the_environment, "session.manager", "import os\nos.getenv('HOME')"),
    (only_config_reads_the_environment, "session.manager", "import os as system\nsystem.environ"),
    (only_config_reads_the_environment, "session.manager", "from os import environ as settings"),
    (only_config_reads_the_environment, "session.manager", "import os\nos.path.expanduser('~')"),
    (only_config_reads_the_environment, "session.manager", "from pathlib import Path\nPath.home()"),
    (posix_modules_are_imported_where_used, "session.stores.lock", "import fcntl"),
    (posix_modules_are_imported_where_used, "session.stores.lock", "if 1:\n    from fcntl import flock"),
    (posix_modules_are_imported_where_used, "session.stores.lock", "class Lock:\n    import pwd"),
    (data_is_never_run, "session.entry", "import pickle"),
    (data_is_never_run, "session.entry", "def read():\n    from yaml import safe_load"),
    (data_is_never_run, "session.entry", "eval('1')"),
    (data_is_never_run, "session.entry", "run = exec"),
    (data_is_never_run, "session.entry", "import builtins\nbuiltins.eval('1')"),
    (data_is_never_run, "agent.extensions", "eval('1')"),
    (no_path_is_followed_by_recursion, "session.listing", "import os\nos.path.realpath('a')"),
    (no_path_is_followed_by_recursion, "session.listing", "import os\nos.makedirs('a')"),
    (names_say_something, "session.utils", ""),
    (names_say_something, "agent.tool_helpers", ""),
    (names_say_something, "common.clock", ""),
    (names_say_something, "session.base_store", ""),
    (names_say_something, "session.store_factory", ""),
    (short_enough, "session.entry", "x = 1\n" * 501),
]

SOUND = [
    (import_direction, "programs.pi", "from perdure import __version__\nfrom perdure.session import manager"),
    (import_direction, "session.manager", "from .tree import path\nfrom perdure.errors import PerdureError"),
    (import_direction, "testing.builders", "from perdure.session.entry import Entry"),
    (import_direction, "", "from perdure.session.manager import SessionManager"),
    (never_sideways, "session.stores.memory", "from perdure.session.stores import Store, files"),
    (never_sideways, "session.stores.pi_format", "from perdure.session.stores import pi_jsonl"),
    (never_sideways, "agent.tools.grep", "from perdure.agent.tools.output import bounded"),
    (never_sideways, "session.manager", "from perdure.session.stores.memory import Store"),
    (only_config_reads_the_environment, "config", "import os\nos.environ['HOME']"),
    (only_config_reads_the_environment, "session.manager", "import os\nos.path.join('a', 'b')"),
    (only_config_reads_the_environment, "session.manager", "store.home"),
    (posix_modules_are_imported_where_used, "session.stores.lock", "def hold():\n    import fcntl"),
    (data_is_never_run, "agent.tools.bash", "import asyncio\nasyncio.create_subprocess_exec('ls')"),
    (no_path_is_followed_by_recursion, "config", "import os\nos.path.realpath('a')"),
    (no_path_is_followed_by_recursion, "session.listing", "import os\nos.mkdir('a')"),
    (names_say_something, "session.stores.pi_jsonl", ""),
    (short_enough, "session.entry", "x = 1\n" * 500),
]

KNOWN = frozenset(
    {
        *("", "config", "errors", "registry", "session", "agent", "front", "programs", "testing"),
        *("agent.loop", "agent.models", "agent.models.anthropic", "agent.tools", "agent.tools.find"),
        *("agent.tools.output", "front.commands", "front.commands.search", "programs.pi", "session.entry"),
        *("session.importers", "session.importers.codex", "session.manager", "session.stores"),
        *("session.stores.files", "session.stores.memory", "session.stores.pi_jsonl", "session.tree"),
    }
)


@pytest.mark.parametrize(("rule", "name", "source"), BROKEN)
def test_a_broken_rule_is_found(rule, name, source):
    """Exactly one complaint for each example that breaks a rule once."""
    assert len(list(rule(Module(name, source, known=KNOWN)))) == 1


@pytest.mark.parametrize(("rule", "name", "source"), SOUND)
def test_a_kept_rule_is_left_alone(rule, name, source):
    """No complaint where the same words are allowed."""
    assert list(rule(Module(name, source, known=KNOWN))) == []


def test_every_rule_has_examples_of_both_kinds():
    """A rule nobody has seen fail, or pass, proves nothing."""
    assert {rule for rule, _, _ in BROKEN} == {rule for rule, _, _ in SOUND} == set(RULES)
