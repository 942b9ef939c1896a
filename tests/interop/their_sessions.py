"""Sessions as the original pi writes them: scripts for its own API, one for each thing that can append."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.interop.original_pi import Json, Script
from tests.interop.our_sessions import HOSTILE

USAGE = {"input": 3, "output": 5, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 8, "cost": {"total": 0.25}}


def spoken(role: str, content: Any, **fields: Any) -> Json:
    """A message as the original takes it."""
    if role == "assistant":
        fields = {
            "api": "api",
            "provider": "maker",
            "model": "m-1",
            "usage": USAGE,
            "stopReason": "stop",
            **fields,
        }
        content = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {"role": role, "content": content, "timestamp": 1_763_000_000_000, **fields}


def everything(script: Script) -> None:
    """All that its API can append to a session, with every optional part."""
    picture = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    thought = {"type": "thinking", "thinking": "Hm.", "thinkingSignature": "c2lnbmVk"}
    hidden = {"type": "thinking", "thinking": "", "thinkingSignature": "b3BhcXVl", "redacted": True}
    calls = {
        "type": "toolCall",
        "id": "c1",
        "name": "bash",
        "arguments": {"n": 1},
        "thoughtSignature": "dA==",
    }
    done = {"toolCallId": "c1", "toolName": "bash", "isError": False, "details": {"exit": 0}}
    ran = {"command": "ls", "output": "a\n", "exitCode": 0, "cancelled": False, "truncated": False}
    script("appendModelChange", "maker", "m-0")
    script("appendThinkingLevelChange", "high")
    script(
        "appendMessage", spoken("system", "", sections={"rules": "<rules>"}, toolsAdded=[{"name": "bash"}])
    )
    first = script("appendMessage", spoken("user", HOSTILE))
    script("appendMessage", spoken("user", [{"type": "text", "text": "This?"}, picture]))
    answer = script(
        "appendMessage", spoken("assistant", [thought, hidden, calls], responseId="r", rawStopReason="x")
    )
    script("appendMessage", spoken("toolResult", [{"type": "text", "text": "ok"}, picture], **done))
    script("appendMessage", {"role": "bashExecution", **ran, "timestamp": 1})
    script("appendMessage", {"role": "bashExecution", **ran, "excludeFromContext": True, "timestamp": 1})
    script("appendMessage", spoken("custom", "from an extension", customType="ext", display=True))
    script("appendMessage", spoken("assistant", [], stopReason="error", errorMessage="overloaded"))
    script("appendCustomEntry", "ext", {"state": [1, 2]})
    script("appendCustomEntry", "ext")
    script("appendCustomMessageEntry", "ext", "Injected.", True, {"d": 1})
    script("appendCustomMessageEntry", "ext", [{"type": "text", "text": "Hidden."}], False)
    script("appendLabelChange", first, "start")
    script("appendLabelChange", answer, "answer")
    script("appendLabelChange", answer)
    script("appendSessionInfo", "  A name\nof two lines ")
    script("appendUsage", "cache_warm", "maker", "m-1", USAGE, "kept warm")
    script("appendMessage", spoken("user", "And now?"))


def compactions(script: Script) -> None:
    script("appendMessage", spoken("system", "Be brief."))
    for number in range(3):
        kept = script("appendMessage", spoken("user", f"Prompt {number}."))
        script("appendMessage", spoken("assistant", f"Answer {number}."))
    script("appendCompaction", "Older.", kept, 5000, {"readFiles": ["a"]}, True, USAGE)
    script("appendMessage", spoken("user", "Between."))
    script("appendCompaction", "Newer.", kept, 6000)
    script("appendMessage", spoken("assistant", "After."))


def a_compaction_that_keeps_nothing(script: Script) -> None:
    script("appendMessage", spoken("user", "One."))
    script("appendMessage", spoken("assistant", "1"))
    script("appendCompaction", "All of it.", None, 5000)
    script("appendMessage", spoken("user", "Two."))


def edits(script: Script) -> None:
    user_said = script("appendMessage", spoken("user", "Long."))
    model_said = script("appendMessage", spoken("assistant", "Longer."))
    wrong = script("appendMessage", spoken("user", "Wrong."))
    script("appendContextEdit", user_said, {"content": "Short."})
    script("appendContextEdit", model_said, {"content": "Shorter."})
    script("appendContextEdit", wrong, None)
    script("appendMessage", spoken("user", "On."))


def an_edit_of_what_an_extension_said(script: Script) -> None:
    script("appendMessage", spoken("user", "One."))
    noise = script("appendCustomMessageEntry", "ext", "Too much.", True)
    script("appendMessage", spoken("assistant", "1"))
    script("appendContextEdit", noise, {"content": "Enough."})


def branches(script: Script) -> None:
    first = script("appendMessage", spoken("user", "One."))
    answer = script("appendMessage", spoken("assistant", "1"))
    script("appendMessage", spoken("user", "A detour."))
    script("branchWithSummary", answer, "Nothing there.", {"files": []}, False, USAGE)
    script("appendMessage", spoken("user", "Two."))
    script("branch", first)
    script("appendMessage", spoken("assistant", "1b"))
    script("resetLeaf")
    script("branchWithSummary", None, "Two tries.")
    script("appendMessage", spoken("user", "From the top."))


def one_branch_of_several(script: Script) -> None:
    """A session of its own, made of one path: labels on it are taken out and written again at its end."""
    branches(script)
    prompt = script("appendMessage", spoken("user", "Three."))
    label = script("appendLabelChange", prompt, "here")
    script("appendMessage", spoken("assistant", "3"))
    script("appendCompaction", "Until here.", label, 100)
    script("createBranchedSession", script("appendMessage", spoken("assistant", "4")))


def metadata_last(script: Script) -> None:
    """The last line is where the original goes on, whatever it is."""
    script("appendMessage", spoken("user", "One."))
    script("appendMessage", spoken("assistant", "1"))
    script("appendUsage", "cache_warm", "maker", "m-1", USAGE)
    script("appendSessionInfo", "named last")


THEIRS: dict[str, Callable[[Script], None]] = {
    build.__name__.replace("_", " "): build
    for build in (
        everything,
        compactions,
        a_compaction_that_keeps_nothing,
        edits,
        an_edit_of_what_an_extension_said,
        branches,
        one_branch_of_several,
        metadata_last,
    )
}


# --- any session ----------------------------------------------------------------------------------


def at_random(script: Script, chance: random.Random) -> None:
    """Anything, in any order, on any branch."""
    prompts = [script("appendMessage", spoken("user", "First."))]
    entries = [*prompts, script("appendMessage", spoken("assistant", "Yes?"))]
    steps: list[Callable[[], str]] = [
        lambda: script("appendMessage", spoken("assistant", "Answer.")),
        lambda: script("appendModelChange", "maker", f"m-{chance.randrange(9)}"),
        lambda: script("appendThinkingLevelChange", chance.choice(["off", "low", "high"])),
        lambda: script("appendCompaction", "Summary.", chance.choice([None, *entries]), 100),
        lambda: script("appendCustomEntry", "ext", {"n": chance.random()}),
        lambda: script("appendCustomMessageEntry", "ext", "Injected.", True),
        lambda: script("appendLabelChange", chance.choice(entries), *chance.choice([[], ["mark"]])),
        lambda: script("appendSessionInfo", chance.choice(["", "a name"])),
        lambda: script("branchWithSummary", chance.choice([None, *entries]), chance.choice(["", "Branch."])),
        # Refused, and so of no effect, where the prompt is not on the current branch.
        lambda: script(
            "appendContextEdit", chance.choice(prompts), chance.choice([None, {"content": "Edited."}])
        ),
    ]
    for _ in range(chance.randrange(25)):
        moves = chance.random() < 0.3
        if moves:
            script(*chance.choice([["resetLeaf"], ["branch", chance.choice(entries)]]))
        if (
            moves or chance.random() < 0.4
        ):  # after a move something is said: metadata there would not take us along
            prompts.append(script("appendMessage", spoken("user", "Prompt.")))
            entries.append(prompts[-1])
        else:
            entries.append(chance.choice(steps)())
