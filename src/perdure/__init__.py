"""Perdure: conversations with AI agents that last.

These names are the public API. Each is imported when it is first used, so that `import perdure`,
and every command that does not touch a session, costs nothing.
"""

__version__ = "0.1.0"

__all__ = [
    "AgentEvent",
    "AgentSession",
    "AgentToolResult",
    "Model",
    "ModelRegistry",
    "ModelResolver",
    "NoCompaction",
    "PerdureError",
    "Session",
    "SessionEntry",
    "SessionManager",
    "SessionSummary",
    "Settings",
    "SummaryCompaction",
    "Tool",
]

_HOME = {
    "AgentEvent": ("perdure.agent.events", "AgentEvent"),
    "AgentSession": ("perdure.agent.session", "AgentSession"),
    "AgentToolResult": ("perdure.agent.tools", "AgentToolResult"),
    "Model": ("perdure.agent.models", "Model"),
    "ModelRegistry": ("perdure.agent.models.registry", "ModelRegistry"),
    "ModelResolver": ("perdure.agent.models.resolver", "ModelResolver"),
    "NoCompaction": ("perdure.agent.compaction", "NoCompaction"),
    "PerdureError": ("perdure.errors", "PerdureError"),
    "Session": ("perdure.session.session", "Session"),
    "SessionEntry": ("perdure.session.entry", "Entry"),
    "SessionManager": ("perdure.session.manager", "SessionManager"),
    "SessionSummary": ("perdure.session.manager", "SessionSummary"),
    "Settings": ("perdure.agent.settings", "Settings"),
    "SummaryCompaction": ("perdure.agent.compaction", "SummaryCompaction"),
    "Tool": ("perdure.agent.tools", "Tool"),
}

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from perdure.agent.compaction import NoCompaction, SummaryCompaction
    from perdure.agent.events import AgentEvent
    from perdure.agent.models import Model
    from perdure.agent.models.registry import ModelRegistry
    from perdure.agent.models.resolver import ModelResolver
    from perdure.agent.session import AgentSession
    from perdure.agent.settings import Settings
    from perdure.agent.tools import AgentToolResult, Tool
    from perdure.errors import PerdureError
    from perdure.session.entry import Entry as SessionEntry
    from perdure.session.manager import SessionManager, SessionSummary
    from perdure.session.session import Session


def __getattr__(name: str) -> object:
    try:
        module, attribute = _HOME[name]
    except KeyError:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}") from None
    import importlib

    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
