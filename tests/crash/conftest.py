"""For every crash test: the layout it runs against, and the seed that repeats it."""

import os
import secrets
import sys

import pytest

from tests.crash.killing import LAYOUTS


@pytest.fixture(autouse=True)
def linux():
    """Faults are made with what Linux offers for it: fdatasync, resource limits, strace, mounts."""
    if sys.platform != "linux":
        pytest.skip("needs Linux")


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return request.param


@pytest.fixture
def seed():
    """Shown when the test fails, and with -s. The same seed makes the same choices again."""
    number = int(os.environ.get("PERDURE_SEED") or secrets.randbits(32))
    print(f"PERDURE_SEED={number}")
    return number
