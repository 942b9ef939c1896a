"""`cortext` as tests start it, in a workspace of its own, with conversations that are there already."""

import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.programs.cortext import making
from perdure.session.lifecycle import CORTEXT
from perdure.session.session import Session
from perdure.session.stores import Found, open_store
from perdure.testing import assistant_entry, user_entry
from tests.programs.started import Program

GIT_CONFIG = "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"
BRAINSTORM = (Path(making.TEMPLATE) / "commands" / "workspace.brainstorm.md").read_text()


class Cortext(Program):
    def __init__(self, home: Path) -> None:
        super().__init__("cortext", home, home / "work")
        (home / ".gitconfig").write_text(GIT_CONFIG)
        done = self.within("init")
        assert done.code == 0, done.err

    @property
    def store(self):
        return open_store("cortext", str(self.project))

    @property
    def refs(self) -> list[Found]:
        return sorted(self.store.list(), key=lambda ref: ref.id)

    @property
    def ref(self) -> Found:
        (only,) = self.refs
        return only

    def folder(self, ref: Found | None = None) -> Path:
        return Path((ref or self.ref).path).parents[1]

    def state(self, ref: Found | None = None) -> Any:
        return json.loads((self.folder(ref) / ".session" / "session.json").read_text())

    def lines(self, ref: Found | None = None) -> list[Any]:
        return [json.loads(line) for line in Path((ref or self.ref).path).read_text().splitlines()]

    def transcript(self, ref: Found | None = None) -> str:
        (path,) = self.folder(ref).glob("*.md")
        return path.read_text()

    def prompt_file(self, kind: str) -> Path:
        return self.project / ".workspace" / "commands" / f"workspace.{kind}.md"

    def set(self, **settings: Any) -> None:
        """In the registry, which its user trusts."""
        path = self.project / ".workspace" / "registry.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))
        trust = self.home / ".pi" / "agent" / "trust.json"
        trust.parent.mkdir(parents=True, exist_ok=True)
        trust.write_text(json.dumps({str(self.project.resolve()): True}))

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.project, capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout

    @property
    def subjects(self) -> list[str]:
        """Of all commits but the one of `init`, the newest first."""
        done = subprocess.run(
            ["git", "log", "--format=%s"], cwd=self.project, capture_output=True, text=True, timeout=60
        )
        return [each for each in done.stdout.splitlines() if each != "[workspace] Begin"]

    def is_committed(self) -> bool:
        """Whether all of every conversation is in HEAD, and in the index as it is there."""
        return self.git("status", "--porcelain", "--", "conversations") == ""

    def talked(
        self,
        title: str,
        *said: str,
        kind: str = "brainstorm",
        status: str = "paused",
        ago: timedelta = timedelta(),
        summary: str = "",
    ) -> Found:
        """A conversation that was held so long ago, a question and an answer in turn."""
        moment = datetime.now(UTC) - ago
        facts: dict[str, Any] = {"conversation_type": kind, "title": title}
        facts |= {"context_summary": summary} if summary else {}
        facts |= {"agent_config": {"command": f"/workspace.{kind}", "system_prompt_hash": ""}}
        with Session.create(self.store, facts=facts, clock=lambda: moment) as session:
            for at, text in enumerate(said or ("Well?",)):
                answer = assistant_entry(text, provider="custom", model="test")
                session.append((answer if at % 2 else user_entry(text)).body)  # which has no time of its own
            if status != "active":
                CORTEXT.change(session, status)
            return session.ref


@pytest.fixture
def cortext(home: Path) -> Cortext:
    return Cortext(home)
