"""For every crash test: the layout it runs against."""

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
