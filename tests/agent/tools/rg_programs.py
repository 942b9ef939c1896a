"""The `rg` that tests use: the one installed with Perdure, or a script that says it is some version."""

from pathlib import Path

from perdure.agent.tools import ripgrep
from tests.needs import needs

needs_rg = needs("rg (the extra `rg`)", given=ripgrep._packaged() is not None)
"""For a test of rg itself. One on the PATH is not enough: which one that is depends on the machine."""

NEW_ENOUGH = "ripgrep 15.0.0 (rev 3a612f88b8)\n\nfeatures:+pcre2\nsimd(compile):+SSE2"


def make_rg(folder: Path, version: str, then: str = "exit 3") -> Path:
    """A script called rg. When it is asked for its version it runs the first lines of shell, else the second.

    It writes into `asked` and `used`, beside it, how often each happened.
    """
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "rg"
    script.write_text(
        f"""#!/bin/sh
case "$*" in
*--version*)
    echo . >>'{folder}/asked'
    {version}
    ;;
*)
    echo . >>'{folder}/used'
    {then}
    ;;
esac
"""
    )
    script.chmod(0o755)
    return script


def count(folder: Path, what: str) -> int:
    """How often a script made by `make_rg` was `asked`, or `used`."""
    counted = folder / what
    return counted.read_text().count(".") if counted.exists() else 0
