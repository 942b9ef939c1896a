"""What is to be said to an agent that is at work: once its tools have ended, or when it has no more to do.

No text is lost. One that was taken to be said and could not be recorded, and all that waited when the turn
ended otherwise (aborted, failed, left), is what was given up: whoever typed it can have it back.
"""

from __future__ import annotations

from perdure.agent.events import QueueUpdate
from perdure.errors import UsageError


class Queue:
    def __init__(self) -> None:
        self.has_changed = False
        """Since somebody was last told."""
        self.given_up: list[str] = []
        """What the last turn left unsaid, in the order in which it would have been said."""
        self._steering: list[str] = []
        self._follow_ups: list[str] = []
        self._taken: list[str] = []
        """To be said now."""
        self._is_open = False
        """Whether something that is queued now will be said."""

    def open(self) -> None:
        self._is_open, self.has_changed = True, False
        self.given_up = []

    def steer(self, text: str) -> None:
        self._add(self._steering, text)

    def follow_up(self, text: str) -> None:
        self._add(self._follow_ups, text)

    def _add(self, waiting: list[str], text: str) -> None:
        if not self._is_open:
            raise UsageError("The agent is not at work", "send it a message")
        waiting.append(text)
        self.has_changed = True

    def take(self, *, has_results: bool) -> list[str]:
        """What is said next: all that steers; else one that follows up, if no tool has given something that
        the model has to see first."""
        if self._steering:
            self._taken, self._steering = self._steering, []
        elif self._follow_ups and not has_results:
            self._taken, self._follow_ups = self._follow_ups[:1], self._follow_ups[1:]
        else:
            return []
        self.has_changed = True
        return [*self._taken]

    def said(self) -> None:
        """The first of what was taken is on disk."""
        del self._taken[:1]

    def close(self) -> bool:
        """Nothing more is said. Whether something was given up by that."""
        self._is_open = False
        left = [*self._taken, *self._steering, *self._follow_ups]
        self._taken, self._steering, self._follow_ups = [], [], []
        self.given_up += left
        return bool(left)

    def update(self) -> QueueUpdate:
        """Tells of it."""
        self.has_changed = False
        return QueueUpdate([*self._steering], [*self._follow_ups])
