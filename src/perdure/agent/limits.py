"""How much a model may say, ask for and cost before it is stopped.

The figures are in the settings. An answer is measured while it arrives, at the same price for every piece of
it. Whatever is reached is a `ModelError` that names its setting: like a model that fails, it ends the turn,
what arrived is kept, and nobody tries again.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from perdure.agent.models import Model, Piece
from perdure.agent.settings import Limits
from perdure.errors import ModelError

_LEAST = 8
"""What a piece counts for, however short it is: holding it takes memory, too."""
_LEAST_OF_BLOCK = 128
"""Likewise: every block has a frame of its own in the session."""
_FAR_TOO_MANY = 8
"""Every call is answered, also one that is not run. So many times the calls that are, end the answer."""


class AnswerRoom:
    """How much an answer may still have: bytes of text, thinking and arguments of calls together, and calls
    that are at least answered."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._left = limits.answer_bytes
        self._calls_left = _FAR_TOO_MANY * limits.calls_in_one_answer
        self._newest = -1
        """The last block that began: they are numbered in that order."""
        self._signature = ""
        """The last one: some short ones come with every piece, and count once."""
        self.is_full = False

    def take(self, piece: Piece) -> Piece | None:
        """The piece, or as much of its text as fits; None if nothing does."""
        text, beside = piece.text, 0
        size = len(text) if text.isascii() else len(_bytes(text))
        if piece.index > self._newest:
            self._newest = piece.index
            beside = _LEAST_OF_BLOCK
            if piece.kind == "toolCall":
                self._calls_left -= 1
        if piece.id or piece.name:
            beside += len(piece.id) + len(piece.name)
        if (signed := piece.signature) and (len(signed) > _LEAST_OF_BLOCK or signed != self._signature):
            beside += len(signed)
            self._signature = signed
        total = size + beside
        self._left -= total if total > _LEAST else _LEAST
        if self._left >= 0 and self._calls_left >= 0:
            return piece
        self.is_full = True
        left = self._left + size
        if left <= 0 or self._calls_left < 0:
            return None
        return structs.replace(piece, text=_bytes(text)[:left].decode("utf-8", "ignore"))

    def error(self, model: Model) -> ModelError:
        """Why an answer ends that filled it."""
        if self._calls_left < 0:
            most, what = self._limits.calls_in_one_answer, "limits.callsInOneAnswer"
            reached = f"after {_FAR_TOO_MANY * most:,} calls, when it may make {most:,}"
        else:
            what = "limits.answerBytes"
            reached = f"at its limit, {_shown(self._limits.answer_bytes)}"
        return ModelError(
            f"The answer of {model.reference} was ended {reached}",
            f"what arrived is kept; the limit is `{what}` in the settings",
        )


class Run:
    """What comes of one message of the user's: how often models were asked, and what may be spent."""

    def __init__(self, limits: Limits, spent: Callable[[], float]) -> None:
        """`spent` gives the dollars of the conversation so far."""
        self._limits = limits
        self._spent = spent
        self._asked = 0

    def begin(self) -> None:
        self._asked = 0

    def ask(self) -> None:
        """Counts a request that is made next. ModelError if there must be no request any more."""
        self.check()
        self._asked += 1

    def is_over(self) -> bool:
        """Whether all was spent that may be."""
        most = self._limits.cost
        return most is not None and not self._spent() < most  # also of a figure that is none

    def check(self) -> None:
        if self.is_over():
            raise ModelError(
                f"This conversation has cost ${self._spent():.4f} since it was opened, and its limit is "
                f"${self._limits.cost:.4f}",
                "all of it is kept; the limit is `--max-cost`, or `limits.cost` in the settings",
            )
        if self._asked >= self._limits.turns:
            raise ModelError(
                f"The model was asked {self._asked} times for one message, which is the limit",
                "all of it is kept, so say how it should go on; the limit is `limits.turns` in the settings",
            )


def uncounted(model: Model, limits: Limits) -> str:
    """A notice where nobody can know what the model costs; else empty."""
    price = model.cost
    if limits.cost is None or any(structs.astuple(price)):
        return ""
    return (
        f"{model.reference} has no price, so what it costs does not count towards the limit of "
        f"${limits.cost:.4f}; `cost` of a model in the settings says what it costs"
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _shown(size: int) -> str:
    return f"{size >> 20} MB" if size and size % 2**20 == 0 else f"{size:,} bytes"
