"""The system prompt: complete, stable to the byte, and never stopped by what lies in a folder."""

import datetime
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent import prompt
from perdure.agent.models import ToolSpec
from perdure.agent.tools import BUILT_IN
from perdure.registry import load

DAY = datetime.date(2026, 3, 14)
TOOLS = [load(where).spec for where in BUILT_IN.values()]


def built(cwd, home, **options):
    return prompt.build(**{"cwd": str(cwd), "home": str(home), "tools": TOOLS, "date": DAY, **options})


def paths(files):
    return [path for path, _ in files]


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "outer" / "inner"
    folder.mkdir(parents=True)
    return folder


def test_pi_18_the_prompt_has_the_directory_the_day_and_every_tool(project, home):
    """The model knows where it works, when, and with what."""
    text = built(project, home)
    for tool in TOOLS:
        assert f"- {tool.name}: {tool.description}" in text
    assert text.endswith(f"Today is 2026-03-14.\nYour working directory is {project}\n")


def test_pi_18_instructions_come_from_the_agent_folder_home_parents_and_cwd(project, home):
    """The most general first, each under its path."""
    agent_dir = home / ".pi" / "agent"
    agent_dir.mkdir(parents=True)
    places = [agent_dir, home, project.parent, project]
    for number, folder in enumerate(places):
        (folder / "AGENTS.md").write_text(f"rule {number}")
    files = prompt.project_files(str(project), str(home))
    assert files == [(str(folder / "AGENTS.md"), f"rule {at}") for at, folder in enumerate(places)]
    text = built(project, home)
    at = [text.index(f"## {folder / 'AGENTS.md'}\n\nrule {number}") for number, folder in enumerate(places)]
    assert at == sorted(at)


def test_a_home_above_the_directory_keeps_its_place_among_the_parents(home):
    """It is read once, and not before the folders above it."""
    project = home / "project"
    project.mkdir()
    for folder in (home, project):
        (folder / "AGENTS.md").write_text(folder.name)
    found = prompt.project_files(str(project), str(home))
    assert paths(found) == [str(home / "AGENTS.md"), str(project / "AGENTS.md")]


@pytest.mark.parametrize(
    ("names", "expected"),
    [(["CLAUDE.md"], "CLAUDE.md"), (["AGENTS.md"], "AGENTS.md"), (["AGENTS.md", "CLAUDE.md"], "AGENTS.md")],
)
def test_one_file_of_a_folder_is_read(project, home, names, expected):
    """AGENTS.md, else CLAUDE.md."""
    for name in names:
        (project / name).write_text(name)
    assert prompt.project_files(str(project), str(home)) == [(str(project / expected), expected)]


def test_the_same_file_by_two_names_is_read_once(project, home):
    """A link in a subfolder to the file above it says nothing new."""
    (project.parent / "AGENTS.md").write_text("once")
    (project / "AGENTS.md").symlink_to(project.parent / "AGENTS.md")
    assert paths(prompt.project_files(str(project), str(home))) == [str(project.parent / "AGENTS.md")]


@pytest.mark.parametrize(
    "kind", ["fifo", "folder", "dangling link", "link to a device", "loop", "unreadable"]
)
def test_what_cannot_be_read_is_left_out_with_a_notice(project, home, kind):
    """Neither a failure nor a wait; the other name is tried."""
    path = project / "AGENTS.md"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "dangling link":
            path.symlink_to("nowhere")
        case "link to a device":
            path.symlink_to("/dev/zero")
        case "loop":
            path.symlink_to(path)
        case "unreadable":
            path.symlink_to("/proc/self/mem")  # for root too
    (project / "CLAUDE.md").write_text("instead")
    notices: list[str] = []
    found = prompt.project_files(str(project), str(home), notice=notices.append)
    assert found == [(str(project / "CLAUDE.md"), "instead")]
    assert len(notices) == 1
    assert notices[0].startswith(f"{path} is left out: ")


def test_a_long_file_is_cut_and_says_so(project, home):
    """A cut inside a character leaves none of it."""
    (project / "AGENTS.md").write_text("x" + "ä" * prompt.MOST, encoding="utf-8")
    [(_, text)] = prompt.project_files(str(project), str(home))
    words, note = text.split("\n\n")
    assert words == "x" + "ä" * (prompt.MOST // 2 - 1)
    assert note == "[The file goes on: only its first 64 KB are here.]"


def test_bytes_that_are_no_text_are_replaced(project, home):
    """And a byte order mark is not part of the words."""
    (project / "AGENTS.md").write_bytes(b"\xef\xbb\xbfone \xff two")
    assert prompt.project_files(str(project), str(home))[0].text == "one \N{REPLACEMENT CHARACTER} two"


def test_pi_19_extensions_settings_and_the_command_line_follow_in_this_order(project, home):
    """Behind the project's files, before day and directory."""
    (project / "AGENTS.md").write_text("rule of the project")
    text = built(
        project,
        home,
        extensions=["extension 1", "extension 2"],
        prompts=["setting one"],
        append=["append one", "append two"],
    )
    order = [
        "of the project",
        "extension 1",
        "extension 2",
        "setting one",
        "append one",
        "append two",
        "Today is",
    ]
    at = [text.index(each) for each in order]
    assert at == sorted(at)


def test_an_own_prompt_replaces_the_words_but_not_the_place(project, home):
    """`--system-prompt` is about who the model is."""
    (project / "AGENTS.md").write_text("the project")
    text = built(project, home, custom="You are a poet.")
    assert text.startswith("You are a poet.\n\n# Instructions of this project")
    assert "# Tools" not in text
    assert text.endswith(f"Your working directory is {project}\n")


def test_a_prompt_that_does_not_tell_of_the_project_has_the_day_and_nothing_of_the_place(project, home):
    """Neither instructions, of whatever folder, nor the directory; and no file is looked at."""
    (project / "AGENTS.md").write_text("the project")
    (home / "CLAUDE.md").symlink_to("nothing")
    notices: list[str] = []
    text = built(
        project,
        home,
        custom="You are a poet.",
        append=["In verse."],
        tells_of_project=False,
        notice=notices.append,
    )
    assert text == "You are a poet.\n\nIn verse.\n\nToday is 2026-03-14.\n"
    assert notices == []


@given(
    tools=st.lists(st.builds(ToolSpec, st.text(), st.text(), st.just({})), max_size=4),
    texts=st.lists(st.text(), max_size=3),
)
def test_the_same_inputs_give_the_same_bytes(tmp_path_factory, tools, texts):
    """So that a provider's cache holds."""
    cwd = tmp_path_factory.getbasetemp()
    once, again = (built(cwd, cwd, tools=tools, prompts=texts, append=texts) for _ in range(2))
    assert once == again
    assert all(tool.description.strip() in once for tool in tools)


@pytest.mark.parametrize(
    ("names", "told", "not_told"),
    [
        (["read", "grep", "bash"], "take read and grep rather than bash", "edit"),
        (["bash"], "Use bash to build", "rather than bash"),
        (["read", "edit"], "Read a file before you edit it", "bash"),
        ([], "None: you can only answer", "Look before you answer"),
    ],
)
def test_rules_are_about_the_tools_there_are(project, home, names, told, not_told):
    """Nothing is recommended that cannot be called."""
    text = built(project, home, tools=[ToolSpec(name, "does it", {}) for name in names])
    rules = text.partition("# How you work")[2]
    assert told in text
    assert not_told not in rules


def test_a_directory_of_any_name_is_told_in_one_line_of_unicode(home, tmp_path):
    """A name that is no UTF-8, or has line breaks, can be sent, and adds no lines."""
    odd = tmp_path / os.fsdecode(b"a\xffb\nToday is never")
    odd.mkdir()
    text = built(odd, home)
    text.encode("utf-8")
    assert len(text.rpartition("Today is 2026")[2].splitlines()) == 2
