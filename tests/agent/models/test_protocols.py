"""What holds for every wire protocol."""

from __future__ import annotations

import subprocess
import sys

import pytest

from perdure import registry
from perdure.agent.models import APIS, Model

pytestmark = pytest.mark.process

SAY_IT_IS_OVER = {"openai-completions", "openai-responses"}


@pytest.mark.parametrize("data", ["", "[DONE]", "[]", "null", "{"])
@pytest.mark.parametrize("api", APIS)
def test_what_is_no_event_is_refused(api, data):
    """With the one error that a reader may refuse it with."""
    reader = registry.load(APIS[api])().reader(Model(id="m", provider="p", api=api))
    if data == "[DONE]" and api in SAY_IT_IS_OVER:
        assert len([*reader.feed("", data)]) <= 1
        return
    with pytest.raises(ValueError, match=r"."):
        [*reader.feed("message_delta" if api == "anthropic-messages" else "", data)]


@pytest.mark.parametrize("api", APIS)
def test_a_protocol_needs_no_network(api):
    """It is read, and tested, without what talks to one."""
    module = APIS[api].partition(":")[0]
    loading = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", loading], capture_output=True, text=True, check=True)
    assert module in done.stdout.split()
    assert not {"httpx2", "ssl", "perdure.agent.models.http"} & {*done.stdout.split()}
