"""What the tests of the catalog share."""

import pytest

from tests.catalog_scan import HOUR, World, make_workspace


@pytest.fixture
def workspace(home):
    return make_workspace(home)


@pytest.fixture
def later(home):
    """An hour after all that was written: what a file says of its times is settled."""
    with World(str(home), HOUR).entered():
        yield
