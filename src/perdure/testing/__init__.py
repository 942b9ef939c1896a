"""For those who test programs built on Perdure, and stores written for it.

`StoreContract` states what every store promises, `DurableStoreContract` what one promises that outlives
the process; a store's own test class inherits one of them. They need pytest, so they are imported when
they are first used. The builders make entries to save, and `ScriptedModel` stands in for a model.
"""

from perdure.testing.builders import assistant_entry, tool_call_entry, tool_result_entry, user_entry

__all__ = [
    "DurableStoreContract",
    "ScriptedModel",
    "StoreContract",
    "assistant_entry",
    "tool_call_entry",
    "tool_result_entry",
    "user_entry",
]

_CONTRACTS = {
    "DurableStoreContract": "perdure.testing.durable",
    "StoreContract": "perdure.testing.contract",
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.testing.contract import StoreContract
    from perdure.testing.durable import DurableStoreContract
    from perdure.testing.scripted import ScriptedModel


def __getattr__(name: str) -> object:
    if name == "ScriptedModel":
        from perdure.testing.scripted import ScriptedModel

        return ScriptedModel
    if name not in _CONTRACTS:
        raise AttributeError(f"module 'perdure.testing' has no attribute {name!r}")
    import importlib
    import sys

    import pytest

    # A failed clause then says what the two sides were, as in any test.
    modules = [*_CONTRACTS.values(), "perdure.testing.writing"]
    pytest.register_assert_rewrite(*(module for module in modules if module not in sys.modules))
    return getattr(importlib.import_module(_CONTRACTS[name]), name)
