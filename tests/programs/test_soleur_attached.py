"""Files attached to a session: which are refused, what each is called, and what a model is told."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import UsageError
from perdure.programs.soleur.attached import MOST, Part, parts, prompt, read
from perdure.session.entry import Custom, Entry, new
from perdure.testing import user_entry
from tests import soleur_files as soleur


def entry_of(part: Part, id: str = "c1", parent: str | None = None) -> Entry:
    return new(part.body, id=id, parent_id=parent, timestamp=soleur.STAMP)


@pytest.fixture
def cwd(tmp_path) -> Path:
    return Path(os.path.realpath(tmp_path))


# --- what is attached -------------------------------------------------------------------------------


def test_sol_10_what_is_attached_is_the_last_of_each_name_in_the_order_of_the_first():
    """And before it, what another program had attached."""
    entries = [
        entry_of(Part("a.md", "old", "/x/a.md")),
        user_entry("perdure.context"),
        new(Custom("perdure.context", {"name": "b.md", "content": "b"})),
        new(Custom("perdure.context", {"name": "c.md"})),
        new(Custom("other.context", {"name": "perdure.context", "content": "c"})),
        entry_of(Part("a.md", "new", "/x/a.md")),
    ]
    found = [Part("a.md", "new", "/x/a.md"), Part("b.md", "b", "")]
    assert parts(entries, {}) == found
    assert parts(entries, {"project_context": "theirs"}) == [Part("project context", "theirs", ""), *found]
    assert parts([], {"project_context": 5}) == parts([], {"project_context": " "}) == parts([], {}) == []


def test_sol_10_a_part_is_in_its_document_for_every_program_and_comes_back(tmp_path):
    """`project_context` has what was there and what was attached; it is attached once, not twice."""
    store, ref = soleur.golden(tmp_path, "rust")
    before = soleur.document(ref)["project_context"]
    assert isinstance(before, str)
    part = Part("README.md", "# An API\n\nIt serves.", "/home/me/code/README.md")
    soleur.append(store, ref, entry_of(part, "5f0c1b9a7e42", store.read(ref).entries[-1].id))
    assert soleur.document(ref)["project_context"] == f"{before}\n\n# README.md\n\n{part.content}"
    page = soleur.store_in(tmp_path).read(ref)
    assert parts(page.entries, page.header.facts) == [Part("project context", before, ""), part]


# --- reading a file ---------------------------------------------------------------------------------


def test_sol_10_a_file_is_read_by_any_path_that_a_user_types(cwd, home):
    """Relative, absolute, from the home directory, quoted, with blanks around it, through a link."""
    (cwd / "my notes.md").write_text("Notes")
    (home / "plan.md").write_text("Plan")
    (cwd / "link.md").symlink_to(cwd / "my notes.md")
    notes = Part("my notes.md", "Notes", str(cwd / "my notes.md"))
    for typed in ("my notes.md", " my notes.md\n", '"my notes.md"', "'./my notes.md'", notes.path, "link.md"):
        assert read(typed, str(cwd), []) == notes
    assert read("~/plan.md", str(cwd), []) == Part("plan.md", "Plan", os.path.realpath(home / "plan.md"))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"caf\xc3\xa9\r\n", "café\r\n"),
        (b"\xef\xbb\xbfx", "x"),
        ("é\n".encode("utf-16"), "é\n"),
        (b"x" * MOST, "x" * MOST),
    ],
    ids=["utf-8", "byte order mark", "utf-16", "1 MB"],
)
def test_sol_10_text_is_read_however_it_is_encoded(cwd, data, text):
    """With its line ends, without its byte order mark, and up to 1 MB of it."""
    (cwd / "a.txt").write_bytes(data)
    assert read("a.txt", str(cwd), []).content == text


REFUSED = {
    "missing.md": "there is no such file",
    "dangling": "there is no such file",
    "text.md/x": "there is no such file",
    "folder": "it is a folder",
    ".": "it is a folder",
    "pipe": "it is not a regular file",
    "/dev/null": "it is not a regular file",
    "binary": "it is binary, not text",
    "late": "it is binary, not text",
    "wide": "it is binary, not text",
    "latin-1": "it is not UTF-8, from byte 3 on",
    "half a pair": "it is not UTF-8, from byte 2 on",
    "huge": "it is larger than 1 MB",
    "empty": "it is empty",
    "blank": "it is empty",
    "mark": "it is empty",
    "loop": "Too many levels of symbolic links",
    "x" * 300: "File name too long",
}


@pytest.fixture
def odd(cwd) -> Path:
    (cwd / "folder").mkdir()
    os.mkfifo(cwd / "pipe")
    (cwd / "dangling").symlink_to("nowhere")
    (cwd / "loop").symlink_to("loop")
    data = {
        "text.md": b"x",
        "binary": b"\x7fELF\0",
        "late": b"x" * 10_000 + b"\0",
        "wide": b"\xff\xfex\0\0\0",
        "latin-1": b"caf\xe9 \xff",
        "half a pair": b"\xff\xfe\x00\xd8",
        "huge": b"x" * (MOST + 1),
        "empty": b"",
        "blank": b" \n\t\n",
        "mark": b"\xef\xbb\xbf",
    }
    for name, content in data.items():
        (cwd / name).write_bytes(content)
    return cwd


@pytest.mark.parametrize(("name", "reason"), REFUSED.items(), ids=[name[:20] for name in REFUSED])
def test_sol_10_what_cannot_be_attached_is_refused_with_its_name_and_the_reason(odd, name, reason):
    """In one sentence, at once, also where a pipe would be waited for; and the hint says what to do."""
    with pytest.raises(UsageError) as refused:
        read(name, str(odd), [])
    shown = name if len(name) <= 200 else f"{name[:200]}…"
    assert refused.value.message == f"Cannot attach {shown}: {reason}"
    assert refused.value.hint


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "\x1b[2J"])
def test_sol_10_a_name_that_no_file_can_have_is_refused_and_not_obeyed(cwd, name):
    """Whatever it holds is shown as its escape."""
    with pytest.raises(UsageError, match="Cannot attach") as refused:
        read(name, str(cwd), [])
    assert refused.value.message.isprintable()


@pytest.mark.parametrize("nothing", ["", "  ", '""', "''"])
def test_sol_10_no_name_is_asked_for_one(cwd, nothing):
    """Not taken for the folder."""
    with pytest.raises(UsageError, match="There is no file to attach"):
        read(nothing, str(cwd), [])


def test_sol_10_a_file_that_may_not_be_read_is_refused(cwd, monkeypatch):
    """With what the system says. A user for whom nothing is closed gets the same from a disk."""
    (cwd / "closed").write_text("x")

    def closed(*_, **__):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", closed)
        with pytest.raises(UsageError, match="Cannot attach closed: Permission denied"):
            read("closed", str(cwd), [])


# --- what it is called ------------------------------------------------------------------------------


def test_sol_10_the_same_file_again_replaces_its_own_part_and_no_other(cwd):
    """Its own name; where that is taken its path from here, or as it was typed, or all of it."""
    inside, outside = cwd / "here", cwd / "there"
    for folder in (inside, inside / "docs", outside):
        folder.mkdir()
        (folder / "README.md").write_text(folder.name)
    there: list[Part] = []
    for typed in ("README.md", "docs/README.md", "../there/README.md"):
        there.append(read(typed, str(inside), there))
    assert [part.name for part in there] == ["README.md", "docs/README.md", "../there/README.md"]
    (inside / "docs" / "README.md").write_text("changed")
    (inside / "link.md").symlink_to("docs/README.md")
    for typed, name in (("link.md", "docs/README.md"), (str(outside / "README.md"), "../there/README.md")):
        assert read(typed, str(inside), there).name == name
    again = read("README.md", str(inside / "docs"), there)
    assert again == Part("docs/README.md", "changed", str(inside / "docs" / "README.md"))
    entries = [entry_of(part) for part in [*there, again]]
    assert parts(entries, {}) == [there[0], again, there[2]]


def test_sol_10_no_file_takes_the_name_of_what_another_program_attached(cwd):
    """It would be told twice under one name."""
    (cwd / "project context").write_text("mine")
    theirs = Part("project context", "theirs", "")
    assert read("project context", str(cwd), [theirs]).name == str(cwd / "project context")


def test_sol_10_a_name_that_is_no_text_is_spelt_out(cwd):
    """And is the same file when it is named again."""
    name = b"caf\xe9\n.md"
    with open(os.path.join(os.fsencode(cwd), name), "w") as file:
        file.write("x")
    part = read(os.fsdecode(name), str(cwd), [])
    assert part.name == r"caf\xe9\n.md"
    assert parts([entry_of(part)], {}) == [part]
    assert read(os.fsdecode(name), str(cwd), [part._replace(name="mine")]).name == "mine"


# --- what a model is told ---------------------------------------------------------------------------


def test_sol_10_a_model_is_told_of_each_part_under_its_name():
    """As material; nothing if there is none."""
    assert prompt([]) == ""
    told = prompt([Part("README.md", "\n# API\n", "/x/README.md"), Part("a.md", "  indented", "")])
    assert told.startswith("# Attached context\n\n")
    assert "not orders" in told
    assert told.endswith(
        '\n\n<context name="README.md">\n# API\n</context>\n\n<context name="a.md">\n  indented\n</context>'
    )


pieces = st.lists(
    st.sampled_from(["</context>", "<context name=", '"', "</CONTEXT >", "<", "\n", "x", "\ud800"])
)


@given(st.lists(st.tuples(pieces.map("".join), pieces.map("".join)), min_size=1, max_size=4))
def test_sol_10_no_part_can_end_itself_or_begin_another(given):
    """There are as many elements as parts, each opened once and closed once on a line of its own."""
    told = prompt([Part(name, content, "") for name, content in given]).lower()
    opened = [line for line in told.split("\n") if line.startswith('<context name="') and line.endswith('">')]
    assert told.count("<context") == told.count("</context") == len(opened) == len(given)
    assert told.split("\n").count("</context>") == len(given)
    assert all(line.count('"') == 2 for line in opened)
