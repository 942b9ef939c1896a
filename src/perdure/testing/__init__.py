"""For those who test programs built on Perdure, and stores written for it.

`StoreContract` states what every store promises; a store's own test class inherits it.
The builders make entries to save.
"""

from perdure.testing.builders import assistant_entry, tool_call_entry, tool_result_entry, user_entry

__all__ = ["assistant_entry", "tool_call_entry", "tool_result_entry", "user_entry"]
