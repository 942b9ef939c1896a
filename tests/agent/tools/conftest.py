"""Calls of the file tools, in a directory of the test's own."""

import asyncio
import os

import pytest

from perdure.agent.tools import ToolContext, checked, ripgrep
from tests.agent.tools.rg_programs import needs_rg


@pytest.fixture
def ctx(tmp_path):
    return ToolContext(str(tmp_path), environment={"PATH": os.defpath})


@pytest.fixture
def call(ctx):
    """A call as a model makes it, and its result."""

    def call(tool, within=ctx, **arguments):
        async def soon():
            return await asyncio.wait_for(tool.run(checked(tool, arguments), within), 20)

        return asyncio.run(soon())

    return call


@pytest.fixture
def refused(call):
    """What a call that must fail says."""

    def refused(tool, **arguments):
        result = call(tool, **arguments)
        assert result.is_error, result.text
        return result.text

    return refused


@pytest.fixture(params=[pytest.param("rg", marks=needs_rg), "walk"])
def finder(request, monkeypatch):
    """Both programs that look for files: they must give the same answers."""

    async def program(environment):
        return ripgrep._packaged() if request.param == "rg" else None

    monkeypatch.setattr(ripgrep, "program", program)
    return request.param
