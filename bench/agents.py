"""The rows of the agent: its own work in a turn, and how soon `pi --print` answers (P13, P14)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from typing import NamedTuple

from msgspec import Struct

from bench.ground import Ground
from bench.measure import Contender
from bench.row import Scale
from bench.sessions import turns
from perdure.agent.agent import Agent, Voice
from perdure.agent.compaction import NoCompaction
from perdure.agent.loop import Bench
from perdure.agent.models import Finished, Model, Piece, Request, Usage
from perdure.agent.settings import Retry
from perdure.agent.tools import AgentToolResult, Tool, ToolContext
from perdure.session.entry import Assistant, Body, Message, Text, Thinking, ToolCall, ToolResult, User
from perdure.session.record import dumps
from perdure.session.session import Session

Answer = tuple[Piece | Finished, ...]


class Ready:
    """A model whose answers are made before anybody asks: what is measured is the loop's own work."""

    model = Model(id="ready", provider="bench", api="bench")

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = cycle(answers)

    async def stream(self, request: Request) -> AsyncGenerator[Piece | Finished, None]:
        for piece in next(self._answers):
            yield piece


def turn_cpu(ground: Ground, scale: Scale, stack: ExitStack) -> list[Contender]:
    """A block is a session from its first turn to its last."""
    count, edge = scale.calls * 100, scale.calls * 10
    said = turns()
    ...
