"""The docs are true: what they show is run, what they list exists, what exists is listed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.session import tree
from tests.layouts import ALL, store_of
from tests.needs import needs_tool

pytestmark = pytest.mark.process

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "perdure"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def run(*command: str, **options) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, **options).stdout


@needs_tool("make")
def test_the_readmes_run_command_prints_what_the_readme_shows():
    """`make run` as a user types it, in this clone, with its notices; `…` stands for what is left out."""
    command, shown = blocks("README.md", "console")[0].removeprefix("$ ").split("\n", 1)
    assert command == """make run ARGS='--print "explain this code"'"""
    make = ("make", "--no-print-directory", "-s", "run", 'ARGS=--print "explain this code"')
    seen = run("sh", "-c", '"$@" 2>&1', "sh", *make, cwd=ROOT, stdin=subprocess.DEVNULL).splitlines()
    for line in filter(None, shown.splitlines()):
        assert any(each.startswith(line.rstrip("…")) for each in seen), line


@needs_tool("make")
def test_the_readmes_test_command_is_the_one_that_runs_everything():
    """`make test` is running this; that it lints, checks types and tests can be read off a dry run."""
    assert blocks("README.md", "console")[1] == "$ make test\n"
    steps = run("make", "--no-print-directory", "-n", "test", cwd=ROOT)
    for step in ("ruff check", "ruff format --check", "mypy", "pytest"):
        assert step in steps
    assert "make test" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_readmes_examples_print_what_the_readme_shows(number, tmp_path):
    programs = [block for block in blocks("README.md", "python") if "print(" in block]
    example, shown = programs[number], blocks("README.md", "text")[number]
    assert run(sys.executable, "-c", example, cwd=tmp_path) == shown


def test_the_agents_examples_are_one_program_that_runs(tmp_path):
    """All blocks of the page in order, asserts included."""
    program = "\n".join(blocks("docs/agent.md", "python"))
    printed = run(sys.executable, "-W", "error", "-c", program, cwd=tmp_path)
    assert "add gave 3" in printed


def test_the_librarys_examples_are_one_program_that_runs(tmp_path):
    """All blocks of the page in order, asserts included."""
    program = "\n".join(blocks("docs/library.md", "python"))
    printed = run(sys.executable, "-c", program, cwd=tmp_path)
    assert "the last line is unfinished" in printed
    assert "is held by process" in printed


FILES = {
    "pi": ["sessions/--home-me-code--/2026-01-31T09-05-00-123Z_5f0c1b9a7e42.jsonl"],
    "aurora": ["spawn/sessions/session-3f9c07d21ab4.jsonl"],
    "soleur": ["sessions/5f0c1b9a-7e42-4c1d-9a6b-2f3e4d5c6b7a.json"],
    "sibyl": ["sessions/session-20260131-090500-847291/session.lisp"],
    "cortext": [
        f"conversations/2025-11-22/001-brainstorm-api-design/.session/{name}"
        for name in ("messages.jsonl", "session.json")
    ],
}


@pytest.mark.parametrize("layout", ALL)
def test_the_session_formats_example_is_a_sound_session(layout, tmp_path):
    """What the page shows of each layout opens without a problem, and says what it should."""
    page = (ROOT / "docs" / "session-format.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", page, flags=re.MULTILINE)
    (own,) = [part for part in section if part.lower().startswith(f"{layout}\n")]
    shown = re.findall(r"```(?:jsonl|json|lisp)\n(.*?)```", own, re.DOTALL)
    for name, text in zip(FILES[layout], shown, strict=True):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    store = store_of(layout, tmp_path)
    (ref,) = store.list()
    read = store.read(ref)
    assert read.problems == []
    assert [entry.role for entry in read.entries][:2] == ["user", "assistant"]
    assert tree.fold(read.entries).notices == []
    assert read.header.timestamp


def test_the_contract_example_runs(tmp_path):
    """The test class in the document, as a file of its own, passes under pytest."""
    (example,) = blocks("docs/add-a-store.md", "python")
    (tmp_path / "test_mine.py").write_text(example, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "test_mine.py",
    ]
    assert re.search(r"\d+ passed", run(*command, cwd=tmp_path))


def test_every_module_is_in_the_house_and_nothing_else_is():
    """A module without a line in docs/architecture.md is not finished; a line without a module is a lie."""
    (house,) = (block for block in blocks("docs/architecture.md", "text") if block.startswith("src/perdure/"))
    listed, folders = set(), {-1: "", 0: ""}
    for line in house.splitlines()[1:]:
        name = line.split()[0]
        depth = (len(line) - len(line.lstrip())) // 2
        path = folders[depth - 1] + name
        if name.endswith("/"):
            folders[depth] = path
        else:
            listed.add(path)
    real = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py")}
    said_by_folder = {path for path in real if path.endswith("/__init__.py")}
    assert listed - said_by_folder == real - said_by_folder
    assert {path for path in folders.values() if path} <= {
        f"{p.parent.relative_to(SOURCE)}/" for p in SOURCE.rglob("*.py")
    }


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text(encoding="utf-8")):
        assert ((ROOT / page).parent / target).exists(), target
