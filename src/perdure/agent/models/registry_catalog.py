"""The built-in models: `catalog.json` as `make models` writes it. Nothing is read before somebody asks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

import msgspec
from msgspec import Struct

from perdure.agent.models import Cost

FILE = os.path.join(os.path.dirname(__file__), "catalog.json")


class Listed(Struct, frozen=True, kw_only=True, rename="camel"):
    """A line of it."""

    id: str
    name: str
    context_window: int
    max_tokens: int = 16_384
    cost: Cost = Cost()
    reasoning: bool = False
    input: tuple[str, ...] = ("text",)


class BuiltIn(Struct, frozen=True, kw_only=True, rename="camel"):
    """A provider."""

    name: str
    api: str
    base_url: str
    keys: tuple[str, ...]
    """Variables that may hold its key."""
    urls: tuple[str, ...]
    """Variables that may say where else it is reached."""
    default: str
    """Its model for everyday work."""
    models: tuple[Listed, ...]


class Catalog(Struct, frozen=True, rename="camel"):
    made_from: dict[str, str]
    """Packages and their versions."""
    on: str
    """The day of the prices."""
    providers: Mapping[str, BuiltIn]


@cache
def catalog() -> Catalog:
    with open(FILE, "rb") as file:
        return msgspec.json.decode(file.read(), type=Catalog)
