"""What `sibyl` can be called with; see `perdure.front.commands`."""

from __future__ import annotations

from perdure.front.commands import MODEL, Argument, Command

INTERVAL = 300
"""Seconds between two saves that nobody asked for."""

TALK = Command(
    "",
    "perdure.programs.sibyl.talk:talk",
    "a conversation with an agent that saves itself",
    (
        Argument(
            "--session-id",
            "go on with this session: its id, or the beginning of it",
            default=None,
            metavar="ID",
            completes="id:sibyl",
        ),
        Argument(
            "--auto-save-interval",
            f"save every so many seconds; 0 is never (default: {INTERVAL})",
            "number",
            INTERVAL,
            metavar="SECONDS",
        ),
        MODEL,
    ),
    ("sibyl", "sibyl --session-id session-20260131-090500-847291", "sibyl --auto-save-interval 60"),
)
COMMANDS = {TALK.name: TALK}
