"""What a command loads, module by module. Importing costs more than the work itself, so each list is pinned:
a module that joins one of them has to be worth it to everybody who only lists."""

import ast
import contextlib
import io
import subprocess
import sys

import pytest

from perdure.programs.cortext.command_line import main as cortext
from perdure.session.catalog import Catalog, Scope
from perdure.session.stores import Header, open_store
from perdure.testing import user_entry

pytestmark = pytest.mark.process

# pip's console scripts load `re` and `sys` themselves.
BEFORE = "import re, sys; before = set(sys.modules)\n"
MAIN = """
from perdure.programs.{module} import main
code = main({words!r})
print(repr((code, set(sys.modules) - before)), file=sys.stderr)
"""
COMMAND_LINE = ("", ".command_line")
VERSION = {"perdure", "perdure.programs", "perdure.programs.pi"}
COMMAND = VERSION | {
    "perdure.config",
    "perdure.errors",
    "perdure.front",
    "perdure.front.command_line",
    "perdure.front.commands",
    "perdure.front.output",
    "perdure.front.visible",
    "perdure.registry",
    "perdure.session",
    "perdure.session.layouts",
    "perdure.session.strangers",
}
CATALOG = COMMAND | {
    "perdure.front.ages",
    "perdure.session.catalog",
    "perdure.session.catalog_file",
    "perdure.session.holder",
    "perdure.session.listing",
}
OF_PI = {"perdure.programs.pi"}
AUR = (CATALOG - OF_PI) | {
    "perdure.front.amounts",
    "perdure.front.table",
    *(
        f"perdure.programs.aur{name}"
        for name in ("", ".background", ".command_line", ".commands", ".listing", ".settings")
    ),
}
CORTEXT = (CATALOG - OF_PI) | {
    "perdure.front.table",
    *(
        f"perdure.programs.cortext{name}"
        for name in ("", ".command_line", ".commands", ".listing", ".workspace")
    ),
}
LS = CATALOG | {"perdure.front.commands.ls", "perdure.front.table"}
SEARCH = CATALOG | {"perdure.front.commands.search", "perdure.session.query"}

# What sqlite3 brings, and small modules of the interpreter. Neither typing nor json, argparse, msgspec, rich.
SMALL = {
    *("__future__", "_datetime", "_sqlite3", "collections.abc", "datetime", "errno", "fcntl", "math", "os"),
    "shlex",
    *(
        "sqlite3",
        "sqlite3.dbapi2",
        "time",
        "types",
        "warnings",
        "_struct",
        "struct",
        "_pydatetime",
        "_locale",
    ),
}


def loaded(*words: str, module: str = "pi") -> tuple[int, set[str]]:
    done = subprocess.run(
        [sys.executable, "-c", BEFORE + MAIN.format(module=module, words=[*words])],
        capture_output=True,
        text=True,
        check=True,
    )
    code, modules = ast.literal_eval(done.stderr.splitlines()[-1])
    return code, modules


def parts(modules: set[str]) -> tuple[set[str], set[str]]:
    own = {name for name in modules if name.partition(".")[0] == "perdure"}
    return own, modules - own


@pytest.fixture
def settled(home, monkeypatch, tmp_path):
    """Sessions of a project that the catalog knows, text included."""
    monkeypatch.chdir(tmp_path)
    store = open_store("pi")
    for text in ("the zebra", "the giraffe"):
        header = Header("", "2026-01-31T09:05:00.123Z")
        store.create(header._replace(id=store.new_id(header)), [user_entry(text)])
    monkeypatch.setattr("perdure.session.indexing._SETTLED", 0)  # as if they had been there for a while
    with Catalog() as catalog:
        catalog.catch_up(Scope.everything(), text=True)


@pytest.fixture
def listed(home, monkeypatch, tmp_path):
    """Makes sessions of a layout that the catalog knows, in a workspace."""
    monkeypatch.chdir(tmp_path)

    def make(layout: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            assert cortext(["init"]) == 0
        store = open_store(layout, durability="process")
        for text in ("the zebra", "the giraffe"):
            header = Header("", "2026-01-31T09:05:00.123Z", facts={"status": "paused"})
            store.create(header._replace(id=store.new_id(header)), [user_entry(text)])
        monkeypatch.setattr("perdure.session.indexing._SETTLED", 0)
        with Catalog() as catalog:
            catalog.catch_up(Scope.everything())

    return make


def test_the_version_loads_nothing_but_this_package():
    code, modules = loaded("--version")
    own, others = parts(modules)
    assert (code, own) == (0, VERSION)
    assert others == set()


def test_a_listing_loads_the_catalog_and_no_store(settled):
    """Neither a JSON decoder nor a parser of arguments."""
    code, modules = loaded("sessions", "ls")
    own, others = parts(modules)
    assert (code, own) == (0, LS)
    assert others <= SMALL


@pytest.mark.parametrize("program", ["aur", "cortext"])
def test_the_version_of_a_program_loads_nothing_but_this_package(program):
    code, modules = loaded("--version", module=f"{program}.command_line")
    own, others = parts(modules)
    names = {"perdure", "perdure.programs", *(f"perdure.programs.{program}{each}" for each in COMMAND_LINE)}
    assert (code, own, others) == (0, names, set())


@pytest.mark.parametrize(
    ("program", "layout", "words", "expected"),
    [
        ("aur", "aurora", ["spawn", "--list-sessions"], AUR),
        ("cortext", "cortext", ["resume", "--list"], CORTEXT),
    ],
)
def test_the_lists_of_aur_and_cortext_load_what_ls_does(program, layout, words, expected, home, listed):
    """Neither what talks, nor a JSON decoder: of a workspace as it is made, none reads the registry."""
    listed(layout)
    code, modules = loaded(*words, module=f"{program}.command_line")
    own, others = parts(modules)
    assert (code, own) == (0, expected)
    assert others <= SMALL


def test_a_search_loads_what_a_listing_does(settled):
    code, modules = loaded("sessions", "search", "zebra")
    own, others = parts(modules)
    assert (code, own) == (0, SEARCH)
    assert others <= SMALL


def test_only_a_change_loads_what_reads_sessions(settled):
    """Which shows that the lists above would show it."""
    store = open_store("pi")
    header = Header("", "2026-01-31T09:05:00.123Z")
    store.create(header._replace(id=store.new_id(header)), [user_entry("new")])
    code, modules = loaded("sessions", "ls")
    assert code == 0
    assert {"msgspec", "perdure.session.indexing", "perdure.session.stores.pi_jsonl"} <= modules


def test_a_prompt_loads_nothing_of_what_is_not_there(tmp_path):
    """No SDK, no reader of templates and skills, no list of packages, where there is nothing for them."""
    words = ["--print", "--no-session", "--model", "offline", "hello"]
    source = BEFORE + MAIN.format(module="pi", words=words)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, cwd=tmp_path)
    code, loaded = ast.literal_eval(done.stderr.splitlines()[-1])
    assert code == 0
    unwanted = {"mcp", "pydantic", "anyio", "httpx2", "importlib.metadata", "fastjsonschema", "rich"}
    unwanted |= {f"perdure.agent.{name}" for name in ("mcp", "skills", "templates", "project", "frontmatter")}
    assert loaded & unwanted == set()


def test_a_conversation_through_a_pipe_loads_nothing_that_draws_a_screen(tmp_path):
    """Nor what only a resumed session, a search or an exported document needs."""
    source = BEFORE + MAIN.format(module="pi", words=["--model", "offline"])
    lines = "hello\n/session\n/help\n!echo hi\n"
    done = subprocess.run(
        [sys.executable, "-c", source], input=lines, capture_output=True, text=True, cwd=tmp_path
    )
    code, loaded = ast.literal_eval(done.stderr.splitlines()[-1])
    assert (code, done.stdout.count("\n> ")) == (0, 5)
    unwanted = {"prompt_toolkit", "rich", "markdown_it", "pygments", "httpx2", "sqlite3", "mcp", "wcwidth"}
    unwanted |= {
        f"perdure.front.{name}" for name in ("screen", "foot", "picker", "tree_view", "typing_aid", "html")
    }
    assert loaded & unwanted == set()


def test_soleurs_decisions_are_listed_without_the_agent_and_the_shell(home):
    """Which the conversation needs, and take longer to load than many sessions to read."""
    code, modules = loaded("decisions", module="soleur.command_line")
    assert code == 0
    own, _ = parts(modules)
    assert not {name for name in own if name.startswith("perdure.agent") or name == "perdure.front.shell"}
