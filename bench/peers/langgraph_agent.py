"""langgraph: a graph of a model and its tools. The conversation is in memory; there is no checkpoint, which
would keep all of it once more with every step."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import GenericFakeChatModel  # type: ignore[import-not-found]
from langchain_core.messages import AIMessage, HumanMessage  # type: ignore[import-not-found]
from langchain_core.tools import tool  # type: ignore[import-not-found]
from langgraph.graph import START, MessagesState, StateGraph  # type: ignore[import-not-found]
from langgraph.prebuilt import ToolNode, tools_condition  # type: ignore[import-not-found]

from bench.peers.protocol import Json, Say, conversations, serve


def conversation(script: list[list[Json]]) -> Say:
    results = iter([turn[2]["content"][0]["text"] for turn in script])
    model = GenericFakeChatModel(messages=iter([_answer(turn[at]) for turn in script for at in (1, 3)]))
    history: list[Any] = []

    @tool
    async def read(path: str, limit: int) -> str:
        """Read a file."""
        text: str = next(results)
        return text

    async def answer(state: Json) -> Json:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", answer)
    graph.add_node("tools", ToolNode([read]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    compiled = graph.compile()

    async def say(prompt: str) -> None:
        history[:] = (await compiled.ainvoke({"messages": [*history, HumanMessage(prompt)]}))["messages"]

    return say


def _answer(message: Json) -> Any:
    calls = [part for part in message["content"] if part["type"] == "toolCall"]
    others = [part for part in message["content"] if part["type"] != "toolCall"]
    tool_calls = [{"id": call["id"], "name": call["name"], "args": call["arguments"]} for call in calls]
    return AIMessage(content=others, tool_calls=tool_calls)


if __name__ == "__main__":
    serve({"turns": conversations(conversation)})
