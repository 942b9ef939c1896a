"""What OpenAI's two protocols, and those who imitate them, share: images, and how hard to think.

Of efforts, a model is asked for the nearest it knows.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from perdure.agent.models import Model
from perdure.agent.models.history import Images
from perdure.session.entry import Image

NOTHING_SAID = "(empty message)"
IMAGES = Images(
    frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"}),
    (20 * 2**20 + 2) // 3 * 4,  # of 20 MiB
)


def data_url(image: Image) -> str:
    return f"data:{image.mime_type};base64,{image.data}"


def is_openai(model: Model) -> bool:
    """Whether OpenAI itself serves it. Others are told only what all of them understand."""
    host = urlsplit(model.base_url).hostname or ""
    return host == "openai.com" or host.endswith((".openai.com", ".openai.azure.com"))


# --- how hard to think ----------------------------------------------------------------------------

_LEVELS = ("minimal", "low", "medium", "high", "xhigh")
_COMMON = ("low", "medium", "high")
_GPT = re.compile(r"gpt-([5-9])(?:\.(\d+))?(?!\d)", re.ASCII)


def effort(model: Model, level: str) -> str:
    """The nearest to a level that the model knows; empty where it cannot be told anything fitting."""
    known = _efforts(model)
    if level not in _LEVELS:
        return "none" if "none" in known else ""
    thinking = [each for each in _LEVELS if each in known]
    at_most = [each for each in thinking if _LEVELS.index(each) <= _LEVELS.index(level)]
    return at_most[-1] if at_most else thinking[0]


def _efforts(model: Model) -> tuple[str, ...]:
    """What is not refused, by generation and kind. Others than OpenAI have mostly three."""
    found = _GPT.search(model.id.lower())
    if found is None or not is_openai(model):
        return _COMMON
    version, kinds = (int(found[1]), int(found[2] or 0)), model.id.lower().split("-")
    if "chat" in kinds:
        return ("medium",)
    if "pro" in kinds:
        return ("high",) if version == (5, 0) else ("medium", "high", "xhigh")
    if "codex" in kinds and "mini" in kinds:
        return ("medium", "high")
    most = ("xhigh",) if version >= (5, 2) or "max" in kinds else ()
    if "codex" in kinds or version >= (6, 0):  # these always think
        return (*_COMMON, *most)
    return ("minimal" if version == (5, 0) else "none", *_COMMON, *most)
