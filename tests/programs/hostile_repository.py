"""A repository that runs a program of its own wherever git lets it, and tells which of them ran.

Everything that git can be set to run is set: in the repository, in a file it includes, and in its user's own
settings. Each program leaves a file of its name and does no more.
"""

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

HOOKS = """
applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg
post-commit pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive
post-update reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate
fsmonitor-watchman p4-changelist p4-prepare-changelist p4-post-changelist p4-pre-submit post-index-change
"""
ATTRIBUTES = """\
*.md filter=cleans diff=shows merge=merges
*.jsonl filter=processes
*.json filter=smudges diff=diffs
"""


class Hostile:
    def __init__(self, top: Path, home: Path, traces: Path) -> None:
        """Made at `top`, with one commit in it."""
        self.top, self.home, self.traces = top, home, traces
        traces.mkdir()
        top.mkdir()
        self.git("init", "-q", "-b", "main", "--template=")
        self.git("config", "user.name", "Ada")
        self.git("config", "user.email", "ada@example.org")
        (top / ".gitattributes").write_text(ATTRIBUTES)
        (top / ".gitmodules").write_text(
            f'[submodule "sub"]\n\tpath = sub\n\turl = ext::{self._runs("submodule")}\n'
            f"\tupdate = !{self._runs('submodule-update')}\n"
        )
        (top / "README.md").write_text("# mine\n")
        os.utime(top / "README.md", (4e9, 4e9))  # younger than any index, which is why git looks into it
        self.git("add", ".")
        self.git("commit", "-q", "-m", "mine")
        self._make_hooks(top / ".git" / "hooks")
        self._make_hooks(home / "template" / "hooks")
        included = traces.parent / "included.config"
        included.write_text("")
        for name, value in self._settings():
            self.git("config", "--file", str(included), "--add", name, value)
        self.git("config", f"includeIf.gitdir:{top}/.path", str(included))
        self.git("config", "core.repositoryFormatVersion", "1")
        self.git("config", "extensions.partialClone", "origin")
        for name, value in self._user_settings():
            self.git("config", "--global", "--add", name, value)

    def git(self, *words: str, check: bool = True) -> str:
        run = subprocess.run(
            ["git", "-C", str(self.top), *words],
            capture_output=True,
            text=True,
            check=check,
            stdin=subprocess.DEVNULL,
        )
        return run.stdout

    def ran(self) -> set[str]:
        return {trace.name for trace in self.traces.iterdir()}

    def forget(self) -> None:
        for trace in self.traces.iterdir():
            trace.unlink()

    def _runs(self, name: str, then: str = "true") -> str:
        """A command line for a shell."""
        return f"touch {shlex.quote(str(self.traces / name))}; {then} #"

    def _make_hooks(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        for name in HOOKS.split():
            self._make_program(folder / name, name)

    def _make_program(self, path: Path, name: str) -> str:
        path.write_text(f"#!/bin/sh\n{self._runs(name)}\n")
        path.chmod(0o755)
        return str(path)

    def _settings(self) -> Iterator[tuple[str, str]]:
        yield "core.fsmonitor", self._make_program(self.traces.parent / "monitor", "fsmonitor")
        yield "core.editor", self._runs("editor")
        yield "core.pager", self._runs("pager", "cat")
        yield "core.sshCommand", self._runs("ssh")
        yield "core.askPass", self._make_program(self.traces.parent / "asks", "askPass")
        yield "core.gitProxy", self._runs("proxy")
        yield "core.alternateRefsCommand", self._runs("alternateRefs")
        yield "sequence.editor", self._runs("sequence-editor")
        yield "credential.helper", f"!{self._runs('credential')}"
        yield "gpg.program", self._make_program(self.traces.parent / "signs", "gpg")
        yield "commit.gpgSign", "true"
        yield "user.signingKey", "ada"
        yield "filter.cleans.clean", self._runs("clean", "cat")
        yield "filter.smudges.smudge", self._runs("smudge", "cat")
        yield "filter.processes.process", self._runs("process")
        yield "diff.shows.textconv", self._make_program(self.traces.parent / "converts", "textconv")
        yield "diff.diffs.command", self._runs("diff")
        yield "diff.external", self._runs("external-diff")
        yield "merge.merges.driver", self._runs("merge")
        yield "uploadpack.packObjectsHook", self._runs("pack-objects")
        for word in ("commit", "hash-object", "update-ref", "evil"):
            yield f"alias.{word}", f"!{self._runs('alias')}"
        yield "hook.evil.command", self._runs("configured-hook")
        for event in ("pre-commit", "post-index-change", "reference-transaction"):
            yield "hook.evil.event", event
        yield "protocol.allow", "always"
        yield "protocol.ext.allow", "always"
        yield "remote.origin.url", f"ext::sh -c {self._runs('remote').replace(' ', '% ')}"
        yield "remote.origin.promisor", "true"
        yield "remote.origin.partialCloneFilter", "blob:none"

    def _user_settings(self) -> Iterator[tuple[str, str]]:
        yield "init.templateDir", str(self.home / "template")
        yield "core.hooksPath", str(self.home / "template" / "hooks")
        yield "core.attributesFile", str(self.top / ".gitattributes")
        yield "commit.template", str(self.top / "README.md")
