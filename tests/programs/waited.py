"""How long a module is ready to wait for a lock, without a clock."""

from types import ModuleType

import pytest

from perdure.session.stores.lock import Lock


def waits_for(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds, each time it wants one, in this order."""
    waited: list[float] = []

    def noted(root: str, relative: str, name: str, wait: float) -> Lock:
        waited.append(wait)
        return Lock(root, relative, name, wait)

    monkeypatch.setattr(module, "Lock", noted)
    return waited
