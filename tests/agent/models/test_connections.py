"""From a model and its key to one that answers: over the wire, by an extension, or on this machine."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from perdure.agent.models import Finished, LanguageModel, Model, Piece, Request
from perdure.agent.models.connections import Connections
from perdure.agent.models.registry import ModelRegistry
from perdure.agent.models.registry_extensions import Provided, provided
from perdure.agent.settings import Settings
from perdure.errors import ContextOverflow, ModelError, ModelUnavailable
from perdure.session.entry import User
from perdure.testing import ScriptedModel
from tests.agent.models.wire_server import WireServer, events

pytestmark = pytest.mark.anyio

SECRET = "sk-0123456789abcdef"
ASKED = Request(messages=[User("hello")])
ANSWER = events(
    b'data: {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}\n\n',
    b"data: [DONE]\n\n",
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def lab(**said: Any) -> dict[str, Provided]:
    """An extension's provider, with the model `lab/m`."""
    return {"lab": provided("lab", **{"models": [{"id": "m"}], "source": "~/lab.py", **said})}


def speaker(
    extensions: dict[str, Provided], connections: Connections | None = None, reference: str = "lab/m"
) -> LanguageModel:
    registry = ModelRegistry(Settings(), environment={}, extensions=extensions)
    model = registry.get(reference)
    assert model is not None
    return (connections or Connections(extensions)).to(registry.connected(model), registry.key(model))


async def answer(asked: LanguageModel) -> str:
    pieces = [piece async for piece in asked.stream(ASKED)]
    assert isinstance(pieces.pop(), Finished)
    return "".join(piece.text for piece in pieces if isinstance(piece, Piece))


@pytest.mark.process
async def test_pi_16_what_commands_print_reaches_the_server_and_nothing_else_does(wire_server: WireServer):
    wire_server.script(ANSWER)
    extensions = lab(
        base_url=f"{wire_server.url}/v1",
        api_key=f"!echo {SECRET}",
        headers={"x-auth": "!echo Bearer tok-9876543210", "x-plain": "1"},
    )
    connections = Connections(extensions)
    try:
        asked = speaker(extensions, connections)
        assert await answer(asked) == "hi"
    finally:
        await connections.aclose()
    (request,) = wire_server.requests
    assert request.headers["authorization"] == f"Bearer {SECRET}"
    assert request.headers["x-auth"] == "Bearer tok-9876543210"
    assert request.headers["x-plain"] == "1"
    assert SECRET not in f"{asked!r}{asked.model!r}"


@pytest.mark.process
async def test_an_extension_connects_to_its_model_itself():
    """It is given the model and the key; what it makes answers."""
    given: list[tuple[Model, str]] = []

    def connect(model: Model, key: str) -> LanguageModel:
        given.append((model, key))
        return ScriptedModel("hello")

    extensions = lab(connect=connect, api_key=SECRET, headers={"x": "!echo printed"})
    connections = Connections(extensions)
    asked = speaker(extensions, connections)
    ((model, key),) = given
    assert (model.reference, model.headers, key) == ("lab/m", {"x": "printed"}, SECRET)
    assert await answer(asked) == "hello"
    assert asked.model == model, "a session finds it again by this, whatever the extension calls it"
    assert SECRET not in repr(asked)
    offline = speaker(extensions, connections, "offline/offline")
    assert offline.model.reference == "offline/offline"
    await connections.aclose()


@pytest.mark.parametrize("made", [None, "a model", object()])
async def test_what_cannot_answer_is_refused_when_it_is_connected_to(made):
    extensions = lab(connect=lambda model, key: made)
    with pytest.raises(ModelError, match=r"~/lab\.py: provider 'lab' failed: TypeError: connect returned"):
        speaker(extensions)


async def test_an_extension_that_cannot_connect_is_a_model_that_cannot_be_asked():
    """And its error holds no key."""

    def connect(model: Model, key: str) -> LanguageModel:
        raise ValueError(f"no such token: {key}\n\x1b[31m")

    extensions = lab(connect=connect, api_key=SECRET)
    with pytest.raises(ModelError) as caught:
        speaker(extensions)
    assert caught.value.message == "~/lab.py: provider 'lab' failed: ValueError: no such token: … [31m"


class Failing:
    """Says something, and then fails."""

    def __init__(self, error: Exception) -> None:
        self.model = Model(id="x", provider="x", api="x")
        self.is_closed = False
        self._error = error

    async def stream(self, request: Request) -> AsyncGenerator[Piece | Finished, None]:
        try:
            yield Piece(0, "text", "half")
            raise self._error
        finally:
            self.is_closed = True


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (KeyError(SECRET), ModelError, "~/lab.py: provider 'lab' failed: KeyError: '…'"),
        (
            OSError(111, "refused"),
            ModelError,
            "~/lab.py: provider 'lab' failed: ConnectionRefusedError: [Err",
        ),
        (ModelUnavailable(f"busy: {SECRET}"), ModelUnavailable, "busy: …"),
        (ContextOverflow("too long"), ContextOverflow, "too long"),
    ],
)
async def test_whatever_goes_wrong_in_its_answer_is_a_models_error(error, kind, message):
    """Those that say what to do about it stay what they are."""
    failing = Failing(error)
    extensions = lab(connect=lambda model, key: failing, api_key=SECRET)
    asked = speaker(extensions)
    stream = asked.stream(ASKED)
    assert await anext(stream) == Piece(0, "text", "half")
    with pytest.raises(ModelError) as caught:
        await anext(stream)
    assert type(caught.value) is kind
    assert caught.value.message.startswith(message)
    assert SECRET not in str(caught.value)


async def test_an_answer_that_is_left_early_is_closed():
    failing = Failing(ValueError("never"))
    extensions = lab(connect=lambda model, key: failing)
    stream = speaker(extensions).stream(ASKED)
    assert await anext(stream)
    await stream.aclose()
    assert failing.is_closed
