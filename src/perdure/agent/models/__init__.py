"""What a model is, what it is asked, and what it answers, whoever serves it.

A wire protocol is two pure things: a `Call` made from a `Request`, and a `Reader` that turns the server's
events into `Piece`s. `http` does all talking, so a protocol can be read, and tested, without a network. What
has no wire at all (`offline`, a script in a test) is a `LanguageModel` by itself.

The pieces of an answer are numbered by the block they belong to: a number not seen before begins a block, and
its pieces are joined. `Finished` comes last and exactly once. A stream that breaks off raises `ModelError`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from perdure.session.context import OFFLINE as OFFLINE
from perdure.session.entry import Assistant, ToolCall, ToolResult, User

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh"]
THINKING_LEVELS: tuple[ThinkingLevel, ...] = ("off", "minimal", "low", "medium", "high", "xhigh")

APIS = {
    "openai-completions": "perdure.agent.models.openai_chat:OpenAIChat",
    "openai-responses": "perdure.agent.models.openai_responses:OpenAIResponses",
    "anthropic-messages": "perdure.agent.models.anthropic:AnthropicMessages",
    "google-generative-ai": "perdure.agent.models.google:GoogleGenerativeAI",
}
"""Wire protocols by the names pi's `models.json` uses."""
UNPARSED = "unparsed"
"""The one argument of a tool call whose arguments are no JSON object: their text as it came."""


class Cost(Struct, frozen=True, rename="camel"):
    """US dollars a million tokens."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0


class Model(Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    name: str = ""
    provider: str
    api: str
    base_url: str = ""
    context_window: int = 128_000
    max_tokens: int = 16_384
    """The most it answers with."""
    cost: Cost = Cost()
    reasoning: bool = False
    input: tuple[str, ...] = ("text",)
    """What it can be shown: `text`, `image`."""
    headers: Mapping[str, str] = {}
    """Sent with every request, beside the protocol's own."""

    @property
    def reference(self) -> str:
        return f"{self.provider}/{self.id}"


class ToolSpec(Struct, frozen=True):
    """A tool as a model is told of it. `parameters` is a JSON Schema without references."""

    name: str
    description: str
    parameters: Mapping[str, Any]


Sent = User | Assistant | ToolResult
"""The messages a model is sent. Every tool call in them has its result right behind it."""


class Request(Struct, frozen=True, kw_only=True):
    system: str = ""
    messages: Sequence[Sent]
    tools: Sequence[ToolSpec] = ()
    thinking: str = "off"
    max_tokens: int = 0
    """The most it shall answer with; 0 leaves that to the model."""
    session_id: str = ""
    """Where a provider routes requests of one conversation to one cache."""


class Piece(Struct, frozen=True, gc=False):
    """Some more of one block of an answer."""

    index: int
    """Which block: they are numbered from 0 in the order in which they began."""
    kind: Literal["text", "thinking", "toolCall"]
    text: str = ""
    """Of text and thinking what is said; of a tool call its arguments' JSON; the pieces are joined."""
    id: str = ""
    """A tool call's, with its first piece."""
    name: str = ""
    """Likewise."""
    signature: str = ""
    """What the provider wants back with the block, unchanged. The last one of a block counts."""
    redacted: bool = False
    """Thinking that only the provider can read; it is in `signature`."""


class Usage(Struct, frozen=True, rename="camel"):
    """Tokens of one answer. `input` is without what was read from or written to a cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write


class Finished(Struct, frozen=True):
    """The end of an answer."""

    reason: Literal["stop", "length", "toolUse"]
    usage: Usage = Usage()


class LanguageModel(Protocol):
    """Whatever can answer. `stream` raises `ModelError`; closing it early ends the request."""

    @property
    def model(self) -> Model: ...

    def stream(self, request: Request) -> AsyncGenerator[Piece | Finished, None]: ...


class Key(str):
    """A key, and what to do if its server does not accept it."""

    remedy: str

    def __new__(cls, text: str, remedy: str) -> Key:
        made = super().__new__(cls, text)
        made.remedy = remedy
        return made

    def __repr__(self) -> str:
        return "Key(…)"


Connect = Callable[[Model, str], LanguageModel]
"""From a model and its key to what answers, where no wire protocol leads there."""


class Call(Struct, frozen=True):
    """One HTTP request of a protocol. It is answered with server-sent events."""

    url: str
    headers: Mapping[str, str]
    """Without the model's own, which `http` adds."""
    body: Mapping[str, Any]


class Reader(Protocol):
    """What a server's events say."""

    def feed(self, event: str, data: str) -> Iterable[Piece | Finished]:
        """One event. ModelError if it says that the answer failed; ValueError if it is not the protocol's."""

    def end(self) -> Iterable[Piece | Finished]:
        """The server closed the stream. If the answer is not complete, nothing: `http` then says so."""


class WireProtocol(Protocol):
    def call(self, model: Model, request: Request, key: str) -> Call:
        """`key` is empty where no key is needed."""

    def reader(self, model: Model) -> Reader: ...


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """A call's arguments as every provider wants them back: an object."""
    return call.arguments if isinstance(call.arguments, dict) else {UNPARSED: call.arguments}


def is_own(message: Assistant, model: Model) -> bool:
    """Whether this very model said it: only then does it take its signatures back."""
    return (message.provider, message.model, message.api) == (model.provider, model.id, model.api)
