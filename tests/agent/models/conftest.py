"""Servers for the models' tests."""

from tests.agent.models.aimock import aimock
from tests.agent.models.wire_server import wire_server

__all__ = ["aimock", "wire_server"]
