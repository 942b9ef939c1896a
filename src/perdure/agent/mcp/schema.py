"""What an MCP tool takes, said so that every provider accepts it and our own check can be compiled from it.

A server may describe its tool with anything that JSON Schema has, and providers differ in what they take: one
refuses a union at the top, another a list without `items`, and with one such tool the whole request. So only
what all of them know is kept, and references are replaced by what they refer to; none leads out of the
schema. A keyword that is not kept is told in the description, or left to the server, which checks its
arguments itself: what it would take is never refused by `plain`. Only a union at the top is told differently:
as one object with the parameters of all, each as it is where it is one.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import unquote

_MOST_PARTS = 2_000
_LARGEST = 64 * 1024  # characters, as JSON
_DEEPEST = 16  # a check is compiled to Python, which nests no more than twenty blocks
_LONGEST_TEXT = 2_000
_LONGEST_NOTE = 200
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_TOLD = ("format", "pattern", "multipleOf", "default")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""What Anthropic takes for the name of a parameter."""


class Unusable(ValueError):
    """Why a model cannot be given a tool."""


class Parameters(NamedTuple):
    schema: dict[str, Any]
    names: Mapping[str, str]
    """What the server calls those parameters that have another name here."""


def parameters(schema: Mapping[str, Any]) -> Parameters:
    """Unusable, if it is no schema of an object, larger than any should be, or refers to somewhere else."""
    taken = plain(schema)
    types = taken.pop("type", "object")
    if "object" not in types:
        raise Unusable("it does not take an object")
    taken.pop("enum", None)
    _add_properties(taken, taken.pop("anyOf", ()))
    properties, names = _renamed(taken.get("properties", {}))
    given = {theirs: ours for ours, theirs in names.items()}
    taken |= {"type": "object", "properties": properties}
    if required := [given.get(name, name) for name in taken.pop("required", ())]:
        taken["required"] = required
    if len(json.dumps(taken)) > _LARGEST:
        raise Unusable("its schema is too large")
    return Parameters(taken, names)


def plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    return _Reading(schema).plain(schema)


class _Reading:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._parts = 0

    def plain(self, schema: Any, depth: int = 0, within: tuple[str, ...] = ()) -> dict[str, Any]:
        """`within` are the references that led here; one of them again would go on for ever."""
        self._count()
        if not isinstance(schema, Mapping) or depth > _DEEPEST:
            return {}
        kept = {name: value for name, value in schema.items() if name in _KEPT and _KEPT[name](value)}
        if types := _types(schema.get("type")):
            kept["type"] = types
        if values := self._values(schema):
            kept["enum"] = values
        if text := _described(schema):
            kept["description"] = text

        def inner(part: Any, levels: int = 1) -> dict[str, Any]:
            return self.plain(part, depth + levels, within)

        self._keep_object(schema, kept, inner)
        self._keep_array(schema, kept, inner)
        for union in ("anyOf", "oneOf"):
            if "anyOf" not in kept and (choices := _several(schema.get(union))):
                kept["anyOf"] = [inner(each) for each in choices]
        for part in _several(schema.get("allOf")):
            _add(kept, inner(part))
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in within:
            _add(kept, self.plain(self._target(reference), depth + 1, (*within, reference)))
        return _whole(kept)

    def _keep_object(
        self, schema: Mapping[str, Any], kept: dict[str, Any], inner: Callable[..., dict[str, Any]]
    ) -> None:
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            kept["properties"] = {
                str(name): inner(part) for name, part in properties.items() if part is not False
            }
        required = schema.get("required")
        if isinstance(required, list) and (names := [each for each in required if isinstance(each, str)]):
            kept["required"] = [*dict.fromkeys(names)]
        others = schema.get("additionalProperties")
        if isinstance(others, Mapping | bool) and not schema.get("patternProperties"):
            kept["additionalProperties"] = inner(others) if isinstance(others, Mapping) else others

    def _keep_array(
        self, schema: Mapping[str, Any], kept: dict[str, Any], inner: Callable[..., dict[str, Any]]
    ) -> None:
        """What is said of single items holds for each: one of them it must be."""
        items = schema.get("items")
        first = items if isinstance(items, list) else schema.get("prefixItems")
        rest = schema.get("additionalItems") if isinstance(items, list) else items
        if not isinstance(first, list):
            if isinstance(items, Mapping):
                kept["items"] = inner(items)
        elif choices := [inner(each, 2) for each in first if each is not False]:
            if rest is not False:
                choices.append(inner(rest, 2))
            kept["items"] = {"anyOf": choices}

    def _values(self, schema: Mapping[str, Any]) -> list[Any]:
        """Those it is one of. What has parts of its own some providers do not take."""
        given = [schema["const"]] if "const" in schema else schema.get("enum")
        if not isinstance(given, list) or not all(map(_is_scalar, given)):
            return []
        for _ in given:
            self._count()
        return given

    def _target(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise Unusable(f"its schema refers to {reference:.100}, and nothing is fetched")
        found = self._root
        for part in unquote(reference[1:]).split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and name in found:
                found = found[name]
            elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                return {}
        return found

    def _count(self) -> None:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise Unusable("its schema is too large")


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | bool) or _is_number(value)


def _is_number(value: Any) -> bool:
    return _is_integer(value) or (isinstance(value, float) and math.isfinite(value))


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _is_count(value: Any) -> bool:
    return _is_integer(value) and value >= 0


_KEPT: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_count),
    **dict.fromkeys(("minProperties", "maxProperties"), _is_count),
}


def _types(given: Any) -> str | list[str]:
    if isinstance(given, list):
        known = [each for each in _TYPES if each in given]
        return known if len(known) == len(given) else []
    return given if given in _TYPES else ""


def _several(given: Any) -> list[Any]:
    return [each for each in given if each is not False] if isinstance(given, list) else []


def _described(schema: Mapping[str, Any]) -> str:
    text = schema.get("description")
    text = text[:_LONGEST_TEXT] if isinstance(text, str) else ""
    notes = [f"{name}: {_note(schema[name])}" for name in _TOLD if schema.get(name) is not None]
    return f"{text} ({'; '.join(notes)})".strip() if notes else text


def _note(value: Any) -> str:
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_NOTE else f"{text[:_LONGEST_NOTE]}…"


def _add(kept: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Both hold. Where both say something of the same, what was there stays."""
    if "properties" in more:
        kept["properties"] = {**more["properties"], **kept.get("properties", {})}
    if "required" in more:
        kept["required"] = [*dict.fromkeys([*kept.get("required", ()), *more["required"]])]
    for name, value in more.items():
        kept.setdefault(name, value)


def _add_properties(kept: dict[str, Any], choices: Iterable[Mapping[str, Any]]) -> None:
    """A union at the top, which providers refuse: any parameter of any of the choices."""
    found: dict[str, list[Any]] = {}
    for choice in choices:
        for name, schema in choice.get("properties", {}).items():
            if schema not in found.setdefault(name, []):
                found[name].append(schema)
    for name, schemas in found.items():
        several = {"anyOf": schemas} if len(schemas) > 1 else schemas[0]
        kept.setdefault("properties", {}).setdefault(name, several)


def _whole(kept: dict[str, Any]) -> dict[str, Any]:
    """With what some provider misses otherwise."""
    if "required" in kept:
        kept.setdefault("properties", {}).update(
            {name: {} for name in kept["required"] if name not in kept.get("properties", {})}
        )
    if "array" in kept.get("type", ()):
        kept.setdefault("items", {})
    return kept


def _renamed(properties: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    found: dict[str, Any] = {name: each for name, each in properties.items() if _NAME.fullmatch(name)}
    names = {}
    for name in [name for name in properties if name not in found]:
        alike = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:56]
        ours = next(each for number in count(1) if (each := f"{alike}_{number}") not in found)
        found[ours] = properties[name]
        names[ours] = name
    return found, names
