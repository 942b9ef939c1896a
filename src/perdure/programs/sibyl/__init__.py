"""sibyl: a conversation that saves itself, as S-expressions a Lisp can read.

    start_repl(session_id=None)              the conversation, at this terminal
    save_session(id, messages, summary)      what is new in them is saved; nothing that is there is lost
    load_session(id)                         (messages, summary); None, with a warning, if that cannot be
    list_sessions()                          the last saved first
    generate_session_id()                    session-20250220-143022-847291
    start_auto_save_timer(get_state)         what that returns is saved every five minutes
    stop_auto_save_timer()                   within five seconds

`directory` is that of the sessions: `~/.sibyl/sessions` if none is given, and SIBYL_HOME moves it. Any number
of threads and processes may save and load at once.

Each name is imported when it is first used, so that a command that needs none of them costs nothing.
"""

__all__ = [
    "generate_session_id",
    "list_sessions",
    "load_session",
    "message_to_sexp",
    "save_session",
    "session_to_sexp",
    "sexp_to_message",
    "sexp_to_session",
    "sexp_to_tool_call",
    "start_auto_save_timer",
    "start_repl",
    "stop_auto_save_timer",
    "tool_call_to_sexp",
]

_HOME = {
    "generate_session_id": "saving",
    "list_sessions": "saving",
    "load_session": "saving",
    "message_to_sexp": "forms",
    "save_session": "saving",
    "session_to_sexp": "forms",
    "sexp_to_message": "forms",
    "sexp_to_session": "forms",
    "sexp_to_tool_call": "forms",
    "start_auto_save_timer": "saving",
    "start_repl": "talk",
    "stop_auto_save_timer": "saving",
    "tool_call_to_sexp": "forms",
}

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from perdure.programs.sibyl.forms import (
        message_to_sexp,
        session_to_sexp,
        sexp_to_message,
        sexp_to_session,
        sexp_to_tool_call,
        tool_call_to_sexp,
    )
    from perdure.programs.sibyl.saving import (
        generate_session_id,
        list_sessions,
        load_session,
        save_session,
        start_auto_save_timer,
        stop_auto_save_timer,
    )
    from perdure.programs.sibyl.talk import start_repl


def __getattr__(name: str) -> object:
    try:
        module = _HOME[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
