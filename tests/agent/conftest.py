"""What the agent's tests share."""

from typing import Any

import pytest


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Commands(dict[str, Any]):
    """Stands in for what extensions register with."""

    def command(self, name, function, description=""):
        self[name] = (function, description)


@pytest.fixture
def commands():
    return Commands()
