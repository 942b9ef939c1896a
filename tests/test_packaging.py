"""What a user installs: a wheel with the package and nothing else, whose programs start.

Nothing is downloaded: the build uses this environment's hatchling, and what Perdure depends on is packed
into wheels again from where it is installed here.
"""

import importlib.metadata
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from perdure import __version__

ROOT = Path(__file__).parents[1]
# No test loads more than a few of the modules that are installed, so none is compiled before.
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INPUT": "1", "PIP_COMPILE": "0"}

# One worker, so that the wheel is built once.
pytestmark = [pytest.mark.process, pytest.mark.xdist_group("packaging")]


def run(*command, **environment) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **OFFLINE, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Perdure's wheel, in a folder that holds those of its dependencies too."""
    folder = tmp_path_factory.mktemp("wheels")
    pack_dependencies("perdure", folder)
    pip = (sys.executable, "-m", "pip")
    run(*pip, "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, ROOT)
    return next(folder.glob("perdure-*.whl"))


def pack_dependencies(name: str, folder: Path) -> None:
    for line in importlib.metadata.requires(name) or []:
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        installed = importlib.metadata.distribution(requirement.name)
        tag = (installed.read_text("WHEEL") or "").partition("\nTag: ")[2].splitlines()[0]
        stem = requirement.name.replace("-", "_")
        with zipfile.ZipFile(folder / f"{stem}-{installed.version}-{tag}.whl", "w") as archive:
            for file in installed.files or []:
                if file.suffix != ".pyc" and ".." not in file.parts:
                    archive.write(str(file.locate()), file.as_posix())
        pack_dependencies(requirement.name, folder)


def test_the_wheel_holds_the_package_and_its_description_only(wheel):
    """No tests, no benchmarks, no stray files; and every module of the source is in it."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    description = f"perdure-{__version__}.dist-info/"
    assert [name for name in names if not name.startswith(("perdure/", description))] == []
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/perdure").rglob("*.py")}
    assert sources == {name for name in names if name.endswith(".py")}
    assert {f"{description}licenses/LICENSE", f"{description}entry_points.txt"} <= set(names)


def test_installed_with_pip_both_names_answer(wheel, tmp_path):
    """In a new virtual environment, and the library in it works."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path)
    programs = tmp_path / ("Scripts" if os.name == "nt" else "bin")
    pip = (sys.executable, "-m", "pip", "--python", programs / "python")
    run(*pip, "install", "--quiet", wheel, PIP_FIND_LINKS=str(wheel.parent))
    assert run(programs / "pi", "--version") == f"pi {__version__}\n"
    assert run(programs / "perdure", "--version") == f"perdure {__version__}\n"
    assert run(programs / "python", "-c", "from perdure import *; SessionManager().create_session()") == ""


def test_installed_with_pipx_both_names_answer(wheel, tmp_path):
    """As an application of its own, in homes that pipx has never seen."""
    run(
        *(sys.executable, "-m", "pipx", "install", wheel),
        PIP_FIND_LINKS=str(wheel.parent),
        PIPX_HOME=str(tmp_path / "home"),
        PIPX_BIN_DIR=str(tmp_path / "bin"),
        PIPX_MAN_DIR=str(tmp_path / "man"),
        PIPX_DEFAULT_PYTHON=sys.executable,
        PIPX_DEFAULT_BACKEND="pip",
        # pipx would otherwise begin by fetching a newer pip for its own use.
        PIPX_DISABLE_SHARED_LIBS_AUTO_UPGRADE="1",
    )
    assert run(tmp_path / "bin" / "pi", "--version") == f"pi {__version__}\n"
    assert run(tmp_path / "bin" / "perdure", "--version") == f"perdure {__version__}\n"
