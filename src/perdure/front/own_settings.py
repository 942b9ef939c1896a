"""What a program's own settings say: a TOML file in its home, which need not be there."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

from perdure import config
from perdure.agent.reading import bytes_of
from perdure.errors import PerdureError
from perdure.front.command_line import did_you_mean

_MOST = 1 << 20
_REMEDY = "correct it there, or remove it"
_IN_WORDS = {str: "text", bool: "true or false"}


class OwnSettings(NamedTuple):
    values: Mapping[str, Any]
    notices: list[str]
    """What is written there and not known here, if it looks like something that is."""

    @classmethod
    def read(cls, path: str, known: Mapping[str, type]) -> OwnSettings:
        """`known` are the keys, each with the type of its value."""
        source = config.as_typed(path)
        try:
            data, is_cut, _ = bytes_of(path, _MOST)
            if is_cut:
                raise PerdureError(f"Cannot read {source}: it is larger than {_MOST >> 20} MB", _REMEDY)
            found = tomllib.loads(data.decode("utf-8-sig"))
        except FileNotFoundError:
            return cls({}, [])
        except OSError as error:
            raise PerdureError(f"Cannot read {source}: {error.strerror or error}", _REMEDY) from None
        except UnicodeDecodeError as error:
            what = f"it is not UTF-8, from byte {error.start} on"
            raise PerdureError(f"Cannot read {source}: {what}", _REMEDY) from None
        except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
            raise PerdureError(f"{source} is not TOML: {error}", _REMEDY) from None
        for key, kind in known.items():
            if key in found and not isinstance(found[key], kind):
                raise PerdureError(f"{source}: {key} is not {_IN_WORDS[kind]}", _REMEDY)
        near = {key: did_you_mean(key, known) for key in found if key not in known}
        notices = [f"{source}: {key!r} is not known{meant}" for key, meant in near.items() if meant]
        return cls({key: found[key] for key in known if key in found}, notices)
