"""Where extensions, templates and skills lie: whose a place is, and that whatever is loaded was told of."""

import json
import os
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent import places, reading
from perdure.agent import settings as settings_module
from perdure.agent.equipment import Equipment
from perdure.agent.project import Project
from perdure.agent.settings import Settings
from perdure.agent.trust import Trust

KINDS: tuple[places.Kind, ...] = ("extensions", "prompts", "skills")


@pytest.fixture
def cwd(tmp_path) -> Path:
    path = tmp_path / "repository" / "a" / "b"
    path.mkdir(parents=True)
    return path


def agents(folder: Path) -> Path:
    path = folder / ".agents" / "skills"
    path.mkdir(parents=True, exist_ok=True)
    return path


def test_without_a_project_there_are_the_users_places_alone(home):
    pi = home / ".pi" / "agent"
    assert places.of_user("extensions") == [str(pi / "extensions")]
    assert places.of_user("prompts") == [str(pi / "prompts")]
    assert places.of_user("skills") == [str(pi / "skills"), str(home / ".agents" / "skills")]
    assert [places.of_project(kind, None) for kind in KINDS] == [[], [], []]


def test_a_projects_places_need_not_be_there(cwd):
    assert places.of_project("extensions", str(cwd)) == [str(cwd / ".pi" / "extensions")]
    assert places.of_project("prompts", str(cwd)) == [str(cwd / ".pi" / "prompts")]
    expected = [str(cwd / ".pi" / "skills"), str(cwd / ".agents" / "skills")]
    assert places.of_project("skills", str(cwd)) == expected


def test_g_10_what_is_the_users_own_is_no_projects(home, cwd, monkeypatch):
    """Exactly their places, by whatever name; what lies inside of them may be anybody's."""
    assert places.of_project("skills", str(home)) == [str(home / ".pi" / "skills")]
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(cwd / ".pi"))
    assert places.is_users(str(cwd))
    assert places.of_project("extensions", str(cwd)) == places.of_project("prompts", str(cwd)) == []
    assert places.of_project("skills", str(cwd)) == [str(cwd / ".agents" / "skills")]
    inside = cwd / ".pi" / "extensions" / "package"
    assert not places.is_users(str(inside))
    assert places.of_project("extensions", str(inside)) == [str(inside / ".pi" / "extensions")]


@pytest.mark.parametrize("marker", ["folder", "file"])
def test_g_10_skills_above_need_a_yes_of_their_own(cwd, marker):
    """Up to the repository's root, whose `.git` is a file in a work tree; one for a folder is none for what
    is above it."""
    git = cwd.parent.parent / ".git"
    git.mkdir() if marker == "folder" else git.write_text("gitdir: elsewhere")
    near, above, root, _ = (
        str(agents(folder)) for folder in (cwd, cwd.parent, cwd.parent.parent, git.parent.parent)
    )
    own = [str(cwd / ".pi" / "skills"), near]
    trust = Trust()
    assert places.of_project("skills", str(cwd)) == own
    trust.decide(str(cwd), True)
    assert places.of_project("skills", str(cwd)) == own
    trust.decide(str(cwd.parent), True)
    assert places.of_project("skills", str(cwd)) == [*own, above]
    trust.decide("/", True)
    assert places.of_project("skills", str(cwd)) == [*own, above, root]
    trust.decide(str(cwd.parent), False)
    assert places.of_project("skills", str(cwd)) == [*own, root]


def test_g_10_outside_of_a_repository_only_the_folder_itself_counts(cwd):
    """Who put something in a folder above is nobody's business here."""
    near, _ = str(agents(cwd)), agents(cwd.parent)
    Trust().decide("/", True)
    assert places.of_project("skills", str(cwd)) == [str(cwd / ".pi" / "skills"), near]


def test_g_10_skills_above_are_those_above_the_real_folder(cwd, tmp_path):
    """Not above a link to it."""
    (tmp_path / ".git").mkdir()
    agents(tmp_path)
    elsewhere = tmp_path / "link"
    (cwd / ".git").mkdir()
    elsewhere.symlink_to(cwd)
    Trust().decide("/", True)
    expected = [str(elsewhere / ".pi" / "skills"), str(elsewhere / ".agents" / "skills")]
    assert places.of_project("skills", str(elsewhere)) == expected


@pytest.mark.parametrize(("name", "expected"), [(".pi", True), (".agents", True), ("src", False)])
def test_a_quick_look_tells_who_brings_nothing(cwd, name, expected):
    (cwd / name).mkdir()
    assert places.may_bring_something(str(cwd)) is expected


# --- what is loaded was told of -----------------------------------------------------------------------

FOLDERS = st.sampled_from(
    [
        *(".pi/extensions", ".pi/prompts", ".pi/skills", ".agents/skills", "../.agents/skills"),
        *("../../.agents/skills", "../.pi/extensions", ".pi/named", "named", "users/extensions"),
    ]
)
NAMES = st.sampled_from(
    [
        *("a.py", "b.py", "_c.py", ".d.py", "_c/a.py", "x.py", "x.py/y.py", "e.md", ".f.md", "e.md/z.md"),
        *("SKILL.md", "SKILL.md/SKILL.md", "s/SKILL.md", "s/t/SKILL.md", "node_modules/SKILL.md"),
        ".h/SKILL.md",
    ]
)
LINKS = st.dictionaries(
    st.sampled_from([".pi/extensions", ".pi/prompts", ".pi/skills", ".agents/skills", ".pi/prompts/l.md"]),
    st.sampled_from(["outside", "users/extensions", "users/skills", "outside/SKILL.md", "outside/a.py"]),
    max_size=2,
)
NAMED = st.lists(st.sampled_from(["named", "../named", "named/a.py", "named/e.md", "../named/s"]), max_size=2)
TREES = st.fixed_dictionaries(
    {
        "is_in_home": st.booleans(),
        "is_repository": st.booleans(),
        "files": st.dictionaries(FOLDERS, st.sets(NAMES, min_size=4), min_size=3),
        "links": LINKS,
        "settings": st.dictionaries(st.sampled_from(["extensions", "skills", "templates"]), NAMED),
        "decisions": st.tuples(*[st.none() | st.booleans()] * 3),
    }
)
TEXTS = {".py": "def register(api): pass\n", ".md": "---\ndescription: x\n---\nx"}


def grown(root: Path, tree: dict[str, Any]) -> Path:
    """A folder with all this in it and around it, and pi's home beside it or above it."""
    users = root / "users"
    project = (users / "git" if tree["is_in_home"] else root) / "repository" / "a" / "b"
    (project / ".pi").mkdir(parents=True)
    users.mkdir(exist_ok=True)
    for place, target in tree["links"].items():
        with suppress(OSError):  # one that would lie in another
            link = project / place
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(root / target)
    for folder, names in {"outside": ["SKILL.md", "a.py"], **tree["files"]}.items():
        base = root if folder in ("outside", "users/extensions") else project
        for path in (base / folder / name for name in sorted(names)):
            with suppress(OSError):  # a file where there is to be a folder
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(TEXTS[path.suffix])
    if tree["is_repository"]:
        (project.parents[1] / ".git").mkdir()
    (project / ".pi" / "settings.json").write_text(json.dumps(tree["settings"]))
    for folder, decision in zip((project, *project.parents), tree["decisions"], strict=False):
        Trust().decide(str(folder), decision)
    return project


def read_for(project: str) -> set[str]:
    """Every file that is opened to equip an agent there."""
    read: set[str] = set()

    def noted(path: str, most: int) -> Any:
        read.add(path)
        return real(path, most)

    real = reading.bytes_of
    with patch.object(reading, "bytes_of", noted), patch.object(settings_module, "bytes_of", noted):
        Equipment(Settings.load(project=project), project, project=project, notice=lambda _: None)
    return read


def is_told(path: str, project: Project, items: set[str]) -> bool:
    """By its name, or by that of a folder it lies in."""
    names = [project.seen_from_here(str(each)) for each in (Path(path), *Path(path).parents)]
    return any(
        item == name or item.startswith((f"{name} (a link to ", f"{name}, named by "))
        for name in names
        for item in items
    )


@given(TREES)
def test_g_10_whatever_is_loaded_from_a_project_was_told_of(tree):
    """For any tree of files, links and settings, wherever it lies and whatever is decided around it."""
    with ExitStack() as stack:
        root = Path(os.path.realpath(stack.enter_context(TemporaryDirectory())))
        stack.enter_context(patch.dict(os.environ, {"PI_CODING_AGENT_DIR": str(root / "users")}))
        folder = str(grown(root, tree))
        project = Project(folder)
        items = {item for offer in project.offers() for item in offer.items}
        users = [os.path.join(place, "") for kind in KINDS for place in places.of_user(kind)]
        users += [str(root / "users" / "settings.json"), os.path.join(folder, ".pi", "settings.json")]
        for path in read_for(folder):
            assert path.startswith(tuple(users)) or is_told(path, project, items), (path, items)
