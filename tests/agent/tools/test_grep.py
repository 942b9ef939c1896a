"""The grep tool, by rg and without it: one suite, the same answers."""

import asyncio
import os
import time

import pytest
from msgspec import structs

from perdure.agent.tools import ToolContext, checked, ripgrep
from perdure.agent.tools.find import FIND
from perdure.agent.tools.grep import GREP

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("finder")]


@pytest.fixture
def tree(tmp_path):
    files = {
        "a.py": "import os\n# Needle\nneedle = 1\n",
        "src/b.ts": "let needle = 2;\r\nlet x;\r\n",
        "src/deep/c.tsx": "x\n",
        ".hidden/d.py": "needle\n",
        "build/e.py": "needle\n",
        "log.txt": "needle\n",
        "kept.log": "needle\n",
        ".git/config": "needle\n",
        ".gitignore": "build/\n*.txt\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    (tmp_path / "binary").write_bytes(b"needle\0needle\n")
    (tmp_path / "link.py").symlink_to("a.py")
    return tmp_path


HIDDEN, A, B, KEPT = (
    ".hidden/d.py:1: needle",
    "a.py:3: needle = 1",
    "src/b.ts:1: let needle = 2;",
    "kept.log:1: needle",
)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"pattern": "needle"}, [HIDDEN, A, KEPT, B]),
        ({"pattern": "^needle$"}, [HIDDEN, KEPT]),
        ({"pattern": r"needle = \d;?$"}, [A, B]),
        ({"pattern": "needle =", "path": "src"}, [B]),
        ({"pattern": "needle", "path": "a.py"}, [A]),
        ({"pattern": "needle", "path": "build/e.py"}, ["build/e.py:1: needle"]),
        ({"pattern": "needle", "path": "build"}, ["build/e.py:1: needle"]),
        ({"pattern": "needle", "path": "link.py"}, ["link.py:3: needle = 1"]),
        ({"pattern": "NEEDLE =", "ignoreCase": True}, [A, B]),
        ({"pattern": "(?<=le )= 1"}, [A]),
        ({"pattern": r"\bx\b", "glob": "*.{ts,tsx}"}, ["src/b.ts:2: let x;", "src/deep/c.tsx:1: x"]),
        ({"pattern": "needle", "glob": "*.txt"}, ["No matches found."]),
        ({"pattern": "needle", "glob": "*.py"}, [HIDDEN, A]),
        ({"pattern": "needle", "glob": "src/**"}, [B]),
        ({"pattern": "needle", "glob": "/*.py"}, [A]),
        ({"pattern": "needle", "glob": "deep/*", "path": "src"}, ["No matches found."]),
        ({"pattern": "x", "glob": "deep/*", "path": "src"}, ["src/deep/c.tsx:1: x"]),
        ({"pattern": "needle.", "literal": True}, ["No matches found."]),
        ({"pattern": "let x;", "context": 1}, ["src/b.ts-1- let needle = 2;", "src/b.ts:2: let x;"]),
        ({"pattern": "-needle"}, ["No matches found."]),
        ({"pattern": "--files"}, ["No matches found."]),
    ],
)
def test_pi_11_lines_with_their_paths(tree, call, arguments, shown):
    """path:line: text, in the order of paths; hidden files are searched, ignored and binary ones are not."""
    result = call(GREP, **arguments)
    assert (result.text.split("\n"), result.is_error) == (shown, False)


@pytest.mark.parametrize("where", ["../outside", "{tmp}/outside"])
def test_pi_11_paths_are_those_that_read_takes(tmp_path, call, where):
    """Relative inside the working directory, absolute outside of it."""
    (tmp_path / "in").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("x")
    ctx = ToolContext(str(tmp_path / "in"))
    result = call(GREP, within=ctx, pattern="x", path=where.format(tmp=tmp_path))
    assert result.text == f"{tmp_path}/outside/f:1: x"


def test_pi_11_context_is_grouped(tmp_path, call):
    """Lines that follow one another stand together, and -- is between groups."""
    (tmp_path / "f").write_text("".join(f"{n}{' x' * (n in (2, 4, 9))}\n" for n in range(1, 12)))
    (tmp_path / "g").write_text("x\n")
    assert call(GREP, pattern="x", context=1).text.split("\n") == [
        *("f-1- 1", "f:2: 2 x", "f-3- 3", "f:4: 4 x", "f-5- 5", "--"),
        *("f-8- 8", "f:9: 9 x", "f-10- 10", "--", "g:1: x"),
    ]
    limited = call(GREP, pattern="x", context=1, limit=2).text
    assert limited.split("\n\n")[0].endswith("f:4: 4 x\nf-5- 5")
    assert "f:9:" not in limited


def test_pi_11_the_limit_is_said(tmp_path, call):
    """100 matches if nothing else is said; exactly as many as there are is no limit reached."""
    (tmp_path / "f").write_text("x\n" * 101)
    result = call(GREP, pattern="x")
    assert result.text.count("f:") == 100
    assert result.text.endswith(
        "[The first 100 matches; there are more. Use limit=200, or a narrower pattern.]"
    )
    assert result.details == {"matchLimitReached": 100}
    assert "[" not in call(GREP, pattern="x", limit=101).text


def test_pi_11_what_is_shown_is_bounded(tmp_path, call):
    """Lines are cut at 500 characters, and all of it at 50 KB; a line of megabytes is no trouble."""
    (tmp_path / "long").write_text("é" * 600 + "x\n" + "é" * 500 + "\n")
    text = call(GREP, pattern="é").text
    first, second, _, note = text.split("\n")
    assert first == f"long:1: {'é' * 500}…"
    assert second == f"long:2: {'é' * 500}"
    assert "cut at 500 characters" in note
    (tmp_path / "long").write_text("y" * 5_000_000 + "\n")
    assert len(call(GREP, pattern="y").text) < 700
    (tmp_path / "many").write_text(("z" * 400 + "\n") * 1000)
    text = call(GREP, pattern="z", limit=900).text
    assert len(text) < 52_000
    assert text.endswith("[There is more than can be shown. Use a narrower pattern, path or glob.]")
    (tmp_path / "many").write_text("z\n" * 5000)
    assert call(GREP, pattern="z", limit=4000).text.count("many:") == 2000


@pytest.mark.parametrize("pattern", ["fo(o", "[a", "a{2", "*", "(?=a", "a)"])
def test_pi_11_a_pattern_that_is_none_is_explained(tmp_path, call, pattern):
    """In one sentence, with what to do; as plain text it is found."""
    (tmp_path / "f").write_text(f"{pattern}\n")
    result = call(GREP, pattern=pattern)
    if result.is_error:  # `a{2` is one in Python
        assert result.text.startswith("The pattern is not a regular expression: ")
        assert result.text.endswith("or set literal to true.")
        assert "\n" not in result.text
    else:
        assert pattern == "a{2"
    assert call(GREP, pattern=pattern, literal=True).text == f"f:1: {pattern}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"pattern": "a\\nb"}, "grep looks at single lines"),
        ({"pattern": "a\nb", "literal": True}, "grep looks at single lines"),
        ({"pattern": "\0"}, "not text"),
        ({"pattern": "\ud800"}, "not text"),
        ({"pattern": "x", "path": "binry"}, "Did you mean binary?"),
        ({"pattern": "x", "path": "binary"}, "is a binary file"),
        ({"pattern": "x", "path": "/dev/zero"}, "is a character device"),
        ({"pattern": "x", "glob": "{a"}, "is not a glob: a { is not closed"),
        ({"pattern": "x", "glob": "[a"}, "is not a glob: a [ is not closed"),
    ],
)
def test_pi_11_what_cannot_be_searched_is_refused(tree, refused, arguments, said):
    """With the reason; nothing hangs."""
    assert said in refused(GREP, **arguments)


def test_pi_11_names_and_bytes_of_any_kind(tmp_path, call):
    """Names with line breaks and odd bytes stay on one line; UTF-16 is read; lines around binary are left."""
    os.mkdir(os.path.join(os.fsencode(tmp_path), b"\xff\n"))
    with open(os.path.join(os.fsencode(tmp_path), b"\xff\n", b"a:1:b"), "wb") as file:
        file.write(b"x \xff\n")
    (tmp_path / "utf16").write_bytes("ü x\r\n".encode("utf-16"))
    (tmp_path / "late").write_bytes(b"x early\n" + b"-" * 200_000 + b"\0\nx late\n")
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbfx\n")
    assert call(GREP, pattern="^(ü )?x").text.split("\n") == [
        *("late:1: x early", "marked:1: x", "utf16:1: ü x", "\\xff\\n/a:1:b:1: x \ufffd")
    ]


def test_pi_11_settings_of_the_user_change_nothing(tree, call):
    """Neither rg's own nor git's; a .ignore file is for other programs."""
    (tree / "rc").write_text("--no-hidden\n")
    (tree / ".ignore").write_text("*\n")
    ctx = ToolContext(str(tree), environment={"RIPGREP_CONFIG_PATH": str(tree / "rc"), "HOME": str(tree)})
    result = call(GREP, within=ctx, pattern="needle$")
    assert result.text.split("\n") == [HIDDEN, KEPT]


def test_pi_11_a_cancelled_search_ends(tmp_path, ctx):
    """Also one whose pattern takes for ever."""
    (tmp_path / "f").write_text(("a" * 25 + "!\n") * 20_000)
    pattern = r"(?=a)(a|aa)+$"

    async def cancelled():
        call = asyncio.ensure_future(GREP.run(checked(GREP, {"pattern": pattern}), ctx))
        await asyncio.sleep(0.3)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    started = time.monotonic()
    asyncio.run(cancelled())
    assert time.monotonic() - started < 20


def test_pi_11_a_search_that_takes_for_ever_is_given_up(tmp_path, refused, monkeypatch):
    """Where nobody is there to cancel it."""
    (tmp_path / "f").write_text(("a" * 25 + "!\n") * 20_000)
    monkeypatch.setattr(ripgrep, "_PATIENCE", 0.2)
    assert "took longer than 0.2 seconds" in refused(GREP, pattern=r"(?=a)(a|aa)+$")


def test_pi_11_a_glob_may_lead_out_of_the_directory(tmp_path, call, finder):
    """As that of find does."""
    for name in ("conf/a.conf", "conf/deep/b.conf", "work/own.conf"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("needle\n")
    within = ToolContext(str(tmp_path / "work"), environment={"PATH": "/usr/bin:/bin"})
    for glob in (f"{tmp_path}/conf/*.conf", "../conf/*.conf"):
        assert call(GREP, within, pattern="needle", glob=glob).text == f"{tmp_path}/conf/a.conf:1: needle"
    assert call(GREP, within, pattern="needle", glob="*.conf").text == "own.conf:1: needle"


@pytest.mark.parametrize("name", ["ignoreCase", "ignore_case", "ignorecase", "IgnoreCase"])
def test_pi_11_the_case_of_a_parameters_name_does_not_matter(tmp_path, call, finder, name):
    (tmp_path / "f").write_text("Needle\n")
    assert call(GREP, pattern="needle", **{name: True}).text == "f:1: Needle"


def test_pi_11_the_conversations_own_files_are_left_out_of_a_search_around_them(tmp_path, call, ctx):
    """They do not count for the limit either. A search that is about them finds them."""
    for name in ("a/own/log.jsonl", "a/own/deep/more.md", "a/owner.md", "b.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("needle\n" * 3)
    within = structs.replace(ctx, own_paths=(str(tmp_path / "a" / "own"), str(tmp_path / "b.md")))
    assert call(GREP, within, pattern="needle", limit=3).text == "\n".join(
        f"a/owner.md:{at}: needle" for at in (1, 2, 3)
    )
    assert call(FIND, within, pattern="**/*").text.split("\n") == ["a/", "a/owner.md"]
    assert call(GREP, within, pattern="needle", path="a/own/log.jsonl").text.count("needle") == 3
    assert call(GREP, within, pattern="needle", path="b.md").text.count("needle") == 3
    assert "a/own/deep/more.md" in call(FIND, within, pattern="**/*", path="a/own").text
