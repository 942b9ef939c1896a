"""The find tool and what .gitignore leaves out, by rg and without it: the same answers."""

import asyncio
import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.tools import ToolContext, checked, ripgrep, walk
from perdure.agent.tools.find import FIND
from perdure.agent.tools.walk import Glob
from tests.agent.tools.rg_programs import needs_rg
from tests.effort import FEW
from tests.needs import needs_tool

pytestmark = pytest.mark.process


def made(root, names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


@pytest.fixture
def tree(tmp_path, finder):
    made(
        tmp_path,
        [
            *("a.py", "B.py", "src/c.py", "src/deep/d.py", "src/deep/e.js", "src.py", ".env", ".cfg/f.py"),
            *("node_modules/g.js", "x/node_modules/h.js", ".git/HEAD", "sub/.git", "src/a b.txt"),
        ],
    )
    (tmp_path / "empty").mkdir()
    (tmp_path / "link.py").symlink_to("a.py")
    (tmp_path / "linked").symlink_to("src")
    (tmp_path / ".gitignore").write_text("node_modules\n")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("*.py", ".", [".cfg/f.py", "B.py", "a.py", "src/c.py", "src/deep/d.py", "src.py"]),
        ("*.py", "src", ["src/c.py", "src/deep/d.py"]),
        ("src/**/*.py", ".", ["src/c.py", "src/deep/d.py"]),
        ("deep/*", "src", ["src/deep/d.py", "src/deep/e.js"]),
        ("**/*.js", ".", ["src/deep/e.js"]),
        ("**/deep/**", ".", ["src/deep/d.py", "src/deep/e.js"]),
        ("/*.py", ".", ["B.py", "a.py", "src.py"]),
        ("./a.py", ".", ["a.py"]),
        ("*.{js,txt}", ".", ["src/a b.txt", "src/deep/e.js"]),
        ("{src,.cfg}/*.py", ".", [".cfg/f.py", "src/c.py"]),
        ("src*", ".", ["src/", "src.py"]),
        ("src/", ".", ["src/"]),
        ("d*", ".", ["src/deep/", "src/deep/d.py"]),
        (".*", ".", [".cfg/", ".env", ".gitignore"]),
        ("[a-c].py", ".", ["a.py", "src/c.py"]),
        ("[!a-c].py", ".", [".cfg/f.py", "B.py", "src/deep/d.py"]),
        ("?.py", "src/deep", ["src/deep/d.py"]),
        ("*", "src", ["src/a b.txt", "src/c.py", "src/deep/", "src/deep/d.py", "src/deep/e.js"]),
        ("*.js", "node_modules", ["node_modules/g.js"]),
        ("*.py", "linked", ["linked/c.py", "linked/deep/d.py"]),
        ("*.nope", ".", ["No files found."]),
        ("*", "empty", ["No files found."]),
    ],
)
def test_pi_12_globs(tree, call, pattern, path, found):
    """At any depth without a slash, from the path on with one; in order; ignored files are left out."""
    result = call(FIND, pattern=pattern, path=path)
    assert (result.text.split("\n"), result.is_error) == (found, False)


def test_pi_12_the_limit_is_said(tree, call):
    """Exactly as many as there are is no limit reached."""
    result = call(FIND, pattern="*.py", limit=5)
    assert result.text.endswith(
        "src/deep/d.py\n\n[The first 5; there are more. Use limit=10, or a narrower pattern.]"
    )
    assert result.details == {"resultLimitReached": 5}
    assert "[" not in call(FIND, pattern="*.py", limit=6).text


def test_pi_12_what_is_shown_is_bounded(tmp_path, finder, call):
    """50 KB of paths, whatever the limit."""
    made(tmp_path, [f"{'d' * 100}/{n:03}{'x' * 200}" for n in range(300)])
    text = call(FIND, pattern="*").text
    assert len(text) < 52_000
    assert "are shown; there are more." in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"pattern": "*", "path": "scr"}, "scr does not exist. Did you mean src"),
        ({"pattern": "*", "path": "a.py"}, "a.py is not a directory"),
        ({"pattern": "a["}, "is not a glob: a [ is not closed"),
        ({"pattern": "a\\"}, "is not a glob"),
        ({"pattern": "[z-a]"}, "is not a glob"),
        ({"pattern": "{a,b}" * 20}, "more than 1000 alternatives"),
        ({"pattern": "a\nb"}, "cannot be printed"),
        ({"pattern": "a" * 2000}, "longer than 1000 characters"),
    ],
)
def test_pi_12_what_cannot_be_found_is_refused(tree, refused, arguments, said):
    """With the reason."""
    assert said in refused(FIND, **arguments)


def test_pi_12_a_repository_ends_what_counts(tmp_path, finder, call):
    """Inside a repository rules come from its root on, and from .git/info/exclude; one inside it has its own.

    Outside of one they come from the searched directory on: not from the home directory of somebody who keeps
    their settings in git and ignores everything else.
    """
    made(
        tmp_path,
        [f"{at}/{name}" for at in ("repo", "repo/sub", "repo/inner") for name in ("a.1", "a.2", "a.3")],
    )
    (tmp_path / ".gitignore").write_text("*.1\n")
    (tmp_path / "repo/.gitignore").write_text("*.2\n")
    (tmp_path / "repo/.git/info").mkdir(parents=True)
    (tmp_path / "repo/.git/info/exclude").write_text("*.3\n")
    (tmp_path / "repo/inner/.git").mkdir()

    def found(path):
        return call(FIND, pattern="a.*", path=path).text.split("\n")

    assert found("repo/sub") == ["repo/sub/a.1"]
    assert found("repo/inner") == [f"repo/inner/a.{n}" for n in (1, 2, 3)]
    assert found("repo") == ["repo/a.1", *(f"repo/inner/a.{n}" for n in (1, 2, 3)), "repo/sub/a.1"]
    assert found(".") == ["No files found."]


RULES = r"""
# a comment, and an empty line

*.log
!important.log
/top.txt
only-dir/
sub/inner.txt
**/anywhere/deep.txt
docs/**/*.md
all/**
a/*/z
trailing{space}
spaces\{space}
\#hash
\!bang
[0-9]file
[!a-z]odd
question?
blocked/
!blocked/keep
""".format(space=" ")
NAMES = [
    *("x.log", "important.log", "deep/important.log", "top.txt", "deep/top.txt", "only-dir/f"),
    *("deep/only-dir", "sub/inner.txt", "deep/sub/inner.txt", "anywhere/deep.txt", "q/anywhere/deep.txt"),
    *("docs/r.md", "docs/x/y/r.md", "docs/r.txt", "all/f", "all/d/f", "a/b/z", "a/z", "a/b/c/z", "trailing"),
    *("spaces", "spaces ", "#hash", "!bang", "1file", "xfile", "1odd", "xodd", "question", "question1"),
    *("nested/f.log", "nested/kept.tmp", "nested/x.tmp", "nested/deeper/y.tmp", "nested/top.txt"),
    *("blocked/f", "blocked/keep"),
]


def by_walk(root):
    return list(walk.files(str(root)))


def by_rg(root):
    found: list[str] = []
    ctx = ToolContext(str(root))
    assert asyncio.run(ripgrep.files(str(root), ctx, found.append))
    return found


def by_git(root):
    command = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout.decode()
    return sorted(filter(None, listed.split("\0")), key=lambda path: path.split("/"))


@needs_tool("git")
@pytest.mark.parametrize("find", [by_walk, pytest.param(by_rg, marks=needs_rg)])
def test_pi_12_gitignore_means_what_git_says(tmp_path, find):
    """Anchors, directories, **, negation, escapes, nested files: git itself is asked."""
    made(tmp_path, NAMES)
    (tmp_path / ".gitignore").write_text(RULES)
    (tmp_path / "nested/.gitignore").write_bytes(b"\xef\xbb\xbf!f.log\r\n*.tmp\r\n!/kept.tmp\r\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert find(tmp_path) == by_git(tmp_path)


PART = st.sampled_from(["a", "b", "ab", "*", "a*", "*b", "?", "[ab]", "[!a]", "**", "a**", "\\a"])
RULE = st.builds(
    lambda bang, slash, parts, end: f"{bang}{slash}{'/'.join(parts)}{end}",
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(PART, min_size=1, max_size=3),
    st.sampled_from(["", "", "/"]),
)
PATH = st.lists(st.sampled_from(["a", "b", "ab", "c"]), min_size=1, max_size=3).map("/".join)


def made_with_rules(root, paths, rules):
    root.mkdir(exist_ok=True)
    made(root, {f"{each}/f" for each in paths})
    for where, lines in rules.items():
        made(root, [f"{where}.gitignore"])
        (root / f"{where}.gitignore").write_text("\n".join(lines))


RULES_OF_ALL = st.dictionaries(st.sampled_from(["", "a/", "b/a/"]), st.lists(RULE, max_size=4))


@needs_rg
@given(st.lists(PATH, max_size=8), RULES_OF_ALL)
@FEW
def test_pi_12_both_find_the_same(tmp_path_factory, paths, rules):
    """Whatever the rules."""
    root = tmp_path_factory.mktemp("tree")
    made_with_rules(root, paths, rules)
    assert by_walk(root) == by_rg(root)


@needs_rg
@given(st.lists(PATH, max_size=8), RULES_OF_ALL, st.lists(RULE, min_size=1, max_size=3))
@FEW
def test_pi_12_both_find_the_same_in_a_directory_of_a_repository(tmp_path_factory, paths, rules, above):
    """Where the rules of the directories above count, too."""
    top = tmp_path_factory.mktemp("repository")
    made(top, [".git/HEAD"])
    (top / ".gitignore").write_text("\n".join(above))
    made_with_rules(top / "b", paths, rules)
    assert by_walk(top / "b") == by_rg(top / "b")


@pytest.mark.parametrize("pattern", ["*a" * 200 + "b", "**/" * 300 + "b", "*" * 900 + "b", "?*" * 400 + "b"])
def test_pi_12_no_glob_takes_long(pattern):
    """A glob is matched in the process that talks to the model."""
    started = time.process_time()
    assert not Glob(pattern).matches("/".join(["a" * 250] * 16) + "/.c")
    assert time.process_time() - started < 2


@given(st.text(max_size=30))
def test_pi_12_a_glob_is_one_or_says_why_not(text):
    """Never another error; and a name is found by itself, if nothing in it means something else."""
    try:
        glob = Glob(text)
    except ValueError:
        return
    if text and not set(text) & set("*?[]{}\\/,!"):
        assert glob.matches(text)
        assert glob.matches(f"deep/{text}")


def test_pi_12_a_cancelled_search_is_over(tmp_path, ctx):
    """Before the first file is seen, too."""

    async def cancelled():
        call = asyncio.ensure_future(FIND.run(checked(FIND, {"pattern": "*", "path": "/usr"}), ctx))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(cancelled())


@pytest.fixture
def elsewhere(tmp_path, finder, monkeypatch):
    """A working directory, and folders that are not in it."""
    made(
        tmp_path,
        ["conf/a.conf", "conf/b.txt", "conf/deep/c.conf", "conf/[x]/d.conf", "work/own.py", "@at/e.py"],
    )
    made(tmp_path, ["work/conf/local.conf", "work/@at/f.py"])
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("{root}/conf/*.conf", ".", ["{root}/conf/a.conf"]),
        (
            "{root}/conf/**/*.conf",
            ".",
            ["{root}/conf/[x]/d.conf", "{root}/conf/a.conf", "{root}/conf/deep/c.conf"],
        ),
        ("{root}/conf/*.conf", "conf", ["{root}/conf/a.conf"]),
        ("{root}/conf/a.conf", ".", ["{root}/conf/a.conf"]),
        ("{root}/conf/d*/", ".", ["{root}/conf/deep/"]),
        ("{root}/{{conf,none}}/*.conf", ".", ["{root}/conf/a.conf"]),
        ("{root}/work/*.py", ".", ["own.py"]),
        ("~/conf/*.conf", ".", ["{root}/conf/a.conf"]),
        ("../conf/*.conf", ".", ["{root}/conf/a.conf"]),
        ("../conf/*.conf", "conf", ["conf/local.conf"]),
        ("/conf/*.conf", ".", ["conf/local.conf"]),
        ("conf/*.conf", ".", ["conf/local.conf"]),
    ],
)
def test_pi_12_a_glob_may_lead_out_of_the_directory(elsewhere, call, pattern, path, found):
    """It is looked for where it leads. `/conf` is the folder of that name where the file system has none."""
    root = str(elsewhere)
    within = ToolContext(f"{root}/work", environment={"PATH": "/usr/bin:/bin"})
    result = call(FIND, within, pattern=pattern.format(root=root), path=path)
    assert result.text.splitlines() == [each.format(root=root) for each in found]


def test_pi_12_only_the_place_that_a_glob_names_is_looked_through(elsewhere, call, monkeypatch):
    """Never the whole file system: not for an absolute glob, nor from a root that the call itself names."""
    looked = []
    real = ripgrep.files

    async def files(directory, ctx, take):
        looked.append(directory)
        return await real(directory, ctx, take)

    monkeypatch.setattr("perdure.agent.tools.find.files", files)
    root = str(elsewhere)
    call(FIND, pattern=f"{root}/conf/*.conf")
    assert call(FIND, pattern=f"{root[1:]}/conf/*.conf", path="/").text == "conf/a.conf"
    within = ToolContext(f"{root}/work")
    up = "../" * len(root.split("/"))
    for pattern in ("/*.conf", "/**/*.conf", f"{up}*.conf"):
        call(FIND, within, pattern=pattern)
    assert looked == [f"{root}/conf"] * 2 + [f"{root}/work"] * 3


def test_pi_12_a_glob_that_leads_nowhere_says_so(elsewhere, refused):
    assert refused(FIND, pattern=f"{elsewhere}/cnof/*.conf").startswith(
        f"{elsewhere}/cnof does not exist. Did you mean {elsewhere}/conf?"
    )
    assert "conf/a.conf is not a directory" in refused(FIND, pattern=f"{elsewhere}/conf/a.conf/*.conf")


def test_pi_12_a_folder_may_begin_with_an_at(elsewhere, call):
    within = ToolContext(f"{elsewhere}/work")
    assert call(FIND, within, pattern="*.py", path="@at").text == "@at/f.py"
