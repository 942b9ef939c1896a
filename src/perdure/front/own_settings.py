"""What a program's own settings say: a TOML or JSON file in its home, which need not be there."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from perdure import config
from perdure.agent.reading import Bytes, Strange, users_bytes
from perdure.agent.setting_names import AURORAS_OWN, nearest_name
from perdure.errors import OthersMayWrite, PerdureError, Unreadable

_MOST = 1 << 20
_REMEDY = "correct it there, or remove it"
_IN_WORDS = {str: "text", bool: "true or false"}


class Number(NamedTuple):
    """A setting that is one."""

    least: float
    most: float
    is_whole: bool = False

    def has(self, value: object) -> bool:
        is_one = isinstance(value, int if self.is_whole else int | float) and not isinstance(value, bool)
        return is_one and self.least <= value <= self.most  # type: ignore[operator]

    @property
    def in_words(self) -> str:
        return f"a {'whole ' if self.is_whole else ''}number from {self.least:,} to {self.most:,}"


Kind = type | Number


class OwnSettings(NamedTuple):
    values: Mapping[str, Any]
    """By the names in `known`."""
    notices: list[str]
    """What is written there and not known here, if it looks like something that is, or is it elsewhere."""

    @classmethod
    def read(
        cls, path: str, known: Mapping[str, Kind], read: Callable[[str, int], Bytes] = users_bytes
    ) -> OwnSettings:
        """`known` are the keys, each with what its value is. A dot in one leads into a group of keys. What
        JSON leaves open, as null, is not set. `read` reads the file, which is the user's own, unless it says
        otherwise."""
        source = config.as_typed(path)
        form = "JSON" if path.endswith(".json") else "TOML"
        try:
            data, is_cut, _ = read(path, _MOST)
            if is_cut:
                raise PerdureError(f"Cannot read {source}: it is larger than {_MOST >> 20} MB", _REMEDY)
            text = data.decode("utf-8-sig")
            found = _loaded(text) if form == "JSON" else tomllib.loads(text)
        except (FileNotFoundError, NotADirectoryError):
            return cls({}, [])
        except Strange as error:
            raise OthersMayWrite(source, error.doubt.why, error.doubt.advice) from None
        except OSError as error:
            unreadable = Unreadable(source, error)
            unreadable.hint = unreadable.hint or _REMEDY
            raise unreadable from None
        except UnicodeDecodeError as error:
            what = f"it is not UTF-8, from byte {error.start} on"
            raise PerdureError(f"Cannot read {source}: {what}", _REMEDY) from None
        except RecursionError:
            raise PerdureError(f"{source} is not {form}: it is nested too deeply", _REMEDY) from None
        except ValueError as error:
            raise PerdureError(f"{source} is not {form}: {error}", _REMEDY) from None
        if not isinstance(found, dict):
            raise PerdureError(f"{source} is not an object of settings, in braces", _REMEDY)
        return cls(*_taken(found, known, source, _places(known)))


def _places(known: Mapping[str, Kind]) -> dict[str, str]:
    """The group that each key and each group is in; empty for the outermost."""
    places: dict[str, str] = {}
    for name in known:
        while name:
            group, _, key = name.rpartition(".")
            places[key], name = group, group
    return places


def _loaded(text: str) -> object:
    import json  # for those alone whose settings it is

    return json.loads(text)


def _taken(
    found: Mapping[str, Any],
    known: Mapping[str, Kind],
    source: str,
    places: Mapping[str, str],
    group: str = "",
) -> tuple[dict[str, Any], list[str]]:
    values: dict[str, Any] = {}
    notices: list[str] = []
    groups = {name.partition(".")[0] for name in known if "." in name}
    for key, value in found.items():
        name = f"{group}{key}"
        if key in known:
            if value is None:
                continue
            if not _is(value, known[key]):
                raise PerdureError(f"{source}: {name} is not {_in_words(known[key])}", _REMEDY)
            values[name] = value
        elif key in groups:
            if value is None:
                continue
            if not isinstance(value, dict):
                raise PerdureError(f"{source}: {name} is not a group of settings", _REMEDY)
            inside = {
                each.removeprefix(f"{key}."): kind
                for each, kind in known.items()
                if each.startswith(f"{key}.")
            }
            more, further = _taken(value, inside, source, places, f"{name}.")
            values |= more
            notices += further
        elif key in places:
            where = f"in {places[key]}" if places[key] else "outside of all groups"
            notices.append(f"{source}: {name!r} is not known there: it belongs {where}")
        elif near := nearest_name(key, {each.partition(".")[0] for each in known}, AURORAS_OWN):
            notices.append(f"{source}: {name!r} is not known: did you mean {near}?")
    return values, notices


def _is(value: object, kind: Kind) -> bool:
    return kind.has(value) if isinstance(kind, Number) else isinstance(value, kind)


def _in_words(kind: Kind) -> str:
    return kind.in_words if isinstance(kind, Number) else _IN_WORDS[kind]
