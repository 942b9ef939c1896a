"""Finds keys of settings that are slips of ours: `defaultModle`.

A key that we do not know may be another program's: the original pi reads the same file as we do, and Aurora
the same one as `aur`. So only a key that is nearly one of ours is named, and none that is one of theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

MOST_EDITS = 2
"""Letters that are added, left out or replaced; two letters in the wrong order are two edits."""
_SHORT = 4
"""In a name of so many letters, one edit makes another word of it more often than a slip."""

# fmt: off
PIS_OWN = {
    "": {
        "autocompleteMaxVisible", "branchSummary", "cacheWarming", "collapseChangelog", "compaction",
        "defaultModel", "defaultProjectTrust", "defaultProvider", "defaultThinkingLevel", "defaultTools",
        "doubleEscapeAction", "editorPaddingX", "enableAnalytics", "enableInstallTelemetry",
        "enableSkillCommands", "enabledModels", "extensions", "externalEditor", "followUpMode",
        "fullscreenCopyOnSelect", "fullscreenExitOutput", "fullscreenScrollbar", "hideThinkingBlock",
        "httpIdleTimeoutMs", "httpProxy", "images", "lastChangelogVersion", "markdown",
        "modelThinkingLevels", "npmCommand", "outputPad", "packages", "prompts", "queueMode",
        "quietStartup", "retry", "sessionDir", "shellCommandPrefix", "shellPath", "showCacheMissNotices",
        "showHardwareCursor", "skills", "steeringMode", "terminal", "theme", "themes", "thinkingBudgets",
        "trackingId", "transport", "treeFilterMode", "tuiMode", "warnings", "websocketConnectTimeoutMs",
        "websockets",
    },
    "compaction": {"modelOverrides"},
    "retry": {"maxAgentDelayMs", "provider"},
}
"""The keys of the original pi's settings.json, by the group that they are in."""

AURORAS_OWN = {
    "agents", "budget", "circuit_breaker", "database", "escalation", "fallback_to_llm", "headless",
    "interactive", "llm", "logging", "max_retries", "mcp", "memory", "model", "planning", "recovery",
    "search", "soar", "spawner", "tool", "version",
}
"""The keys of Aurora's config.json: the outermost, and those of `spawner`."""
# fmt: on


def nearest_name(key: str, known: Collection[str], others: Collection[str] = ()) -> str:
    """The one of our names that the key is a slip of; empty if there is none."""
    if key in known or key in others:
        return ""
    edits = {name: _edits(key, name) for name in known}
    near = [name for name, count in edits.items() if count <= (1 if len(name) <= _SHORT else MOST_EDITS)]
    return min(near, key=edits.__getitem__, default="")


def slips(
    data: Any, names: Mapping[str, str], others: Collection[str], spelt: Mapping[str, str]
) -> Iterator[str]:
    """For each slip in a group of settings, the end of a sentence. The keys are as pi spells them; those that
    were spelt otherwise are in `spelt`. `names` are ours, by pi's spelling."""
    for key in data if isinstance(data, dict) else ():
        if near := nearest_name(key, names, others):
            written = spelt.get(key, key)
            yield f"{written!r:.60} is not known: did you mean {names[near] if '_' in written else near}?"


def _edits(one: str, other: str) -> int:
    """How many letters are to be added, left out or replaced; more than `MOST_EDITS` are not counted."""
    if abs(len(one) - len(other)) > MOST_EDITS:
        return MOST_EDITS + 1
    row: list[int] = [*range(len(other) + 1)]
    for at, letter in enumerate(one, 1):
        before, row[0] = row[0], at
        for to, wanted in enumerate(other, 1):
            before, row[to] = row[to], min(row[to] + 1, row[to - 1] + 1, before + (letter != wanted))
    return row[-1]
