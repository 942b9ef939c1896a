"""What the user has set for `aur`: `config.json` in its home, and never in a project."""

from __future__ import annotations

import os

from perdure.session import layouts

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from perdure.front.own_settings import OwnSettings

DEFAULT_MODEL = "default_model"
MAX_TOKENS = "spawner.interactive.max_tokens"
EXPIRY_DAYS = "spawner.interactive.session_expiry_days"
USUAL_MAX_TOKENS = 100_000


def path() -> str:
    return os.path.join(layouts.home_of("aurora"), "config.json")


def settings() -> OwnSettings:
    """By the names above; what is not set is not among its values."""
    from perdure.front.own_settings import Kind, Number, OwnSettings

    known: dict[str, Kind] = {
        DEFAULT_MODEL: str,
        MAX_TOKENS: Number(1, 10**9, is_whole=True),
        EXPIRY_DAYS: Number(1, 36_500),
    }
    return OwnSettings.read(path(), known)
