"""pydantic-ai: its agent with the model it has for tests. The conversation is in memory; nothing is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic_ai import Agent  # type: ignore[import-not-found]
from pydantic_ai import messages as said
from pydantic_ai.models.function import FunctionModel  # type: ignore[import-not-found]
from pydantic_ai.usage import RequestUsage  # type: ignore[import-not-found]

from bench.peers.protocol import Json, Say, conversations, serve


def conversation(script: list[list[Json]]) -> Say:
    answers: Iterator[Any] = iter([_answer(turn[at]) for turn in script for at in (1, 3)])
    results = iter([turn[2]["content"][0]["text"] for turn in script])
    history: list[Any] = []

    async def read(path: str, limit: int) -> str:
        """Read a file."""
        text: str = next(results)
        return text

    async def model(*_: Any) -> Any:
        return next(answers)

    agent = Agent(FunctionModel(model), system_prompt="You are measured.", tools=[read])

    async def say(prompt: str) -> None:
        history[:] = (await agent.run(prompt, message_history=history)).all_messages()

    return say


def _answer(message: Json) -> Any:
    parts = [_part(part) for part in message["content"]]
    return said.ModelResponse(parts=parts, usage=RequestUsage(input_tokens=2_000, output_tokens=200))


def _part(part: Json) -> Any:
    match part:
        case {"type": "thinking", "thinking": text, "thinkingSignature": signature}:
            return said.ThinkingPart(text, signature=signature)
        case {"type": "toolCall", "id": id, "name": name, "arguments": arguments}:
            return said.ToolCallPart(name, arguments, tool_call_id=id)
    return said.TextPart(part["text"])


if __name__ == "__main__":
    serve({"turns": conversations(conversation)})
