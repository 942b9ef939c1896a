"""Keys of settings that are slips of ours: which are named, and which are somebody else's."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import fields

from perdure.agent.setting_names import AURORAS_OWN, PIS_OWN, nearest_name
from perdure.agent.settings import Compaction, Retry, Settings, slips
from tests.needs import needs

OURS = [field.encode_name for field in fields(Settings)]
PI = (
    Path(__file__).parents[1]
    / "peers/node_modules/@earendil-works/pi-coding-agent/dist/core/settings-manager.d.ts"
)


def written(home: Path, text: str, folder: str = ".pi/agent") -> None:
    (home / folder).mkdir(parents=True, exist_ok=True)
    (home / folder / "settings.json").write_text(text)


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("defaultModle", "defaultModel"),
        ("defaultMode", "defaultModel"),
        ("DefaultModel", "defaultModel"),
        ("compation", "compaction"),
        ("extention", "extensions"),
        ("extens", ""),
        ("defaultModel", ""),
        ("theme", ""),
        ("anything", ""),
        ("", ""),
    ],
)
def test_a_key_is_a_slip_of_the_one_that_it_nearly_is(key, near):
    """Two letters may be wrong."""
    assert nearest_name(key, OURS, PIS_OWN[""]) == near


def test_a_short_name_is_no_slip_of_another_one():
    """`id` and `ui` are two edits apart, and are two words."""
    assert nearest_name("ui", ["id"]) == ""
    assert nearest_name("uri", ["url"]) == "url"


@given(name=st.sampled_from(OURS), at=st.integers(0, 30), letter=st.sampled_from("xyz"))
def test_one_letter_too_many_too_few_or_another_one_is_a_slip(name, at, letter):
    """Wherever it is; but for what is a key of the original pi's then."""
    at = min(at, len(name) - 1)
    for key in (
        name[:at] + letter + name[at:],
        name[:at] + name[at + 1 :],
        name[:at] + letter + name[at + 1 :],
    ):
        assert nearest_name(key, OURS) == name or key in OURS


@needs("the original pi (make peers)", given=PI.exists())
@pytest.mark.parametrize(
    ("interface", "group"),
    [("Settings", ""), ("CompactionSettings", "compaction"), ("RetrySettings", "retry")],
)
def test_no_key_of_the_original_pi_is_called_a_slip(interface, group):
    """By the declaration of its own settings, as it is installed."""
    kinds: dict[str, type[Struct]] = {"": Settings, "compaction": Compaction, "retry": Retry}
    known = [field.encode_name for field in fields(kinds[group])]
    declared = re.search(rf"export interface {interface} \{{(.*?)\n\}}", PI.read_text(), re.DOTALL)
    assert declared
    keys = re.findall(r"^    (\w+)\?:", declared[1], re.MULTILINE)
    assert keys
    assert [key for key in keys if nearest_name(key, known, PIS_OWN[group])] == []
    assert {*keys} <= {*known, *PIS_OWN[group]}


def test_no_key_of_auroras_is_called_a_slip():
    """Of those beside which `aur`'s own stand."""
    for known in (["default_model", "spawner"], ["interactive"], ["max_tokens", "session_expiry_days"]):
        assert [key for key in AURORAS_OWN if nearest_name(key, known, AURORAS_OWN)] == []


def test_slips_are_named_with_their_file_and_group_in_the_spelling_of_their_writer(home):
    """What pi and others keep there is not."""
    data = {
        "default_modle": "x",
        "theme": "dark",
        "packages": [],
        "retry": {"maxRetrys": 3, "maxAgentDelayMs": 1, "enabled": True},
        "compaction": {"reserveTokens": 5},
        "models": [{"id": "a", "baseUrll": "http://127.0.0.1"}],
        "mcpServers": {"x": {"comand": "y"}},
    }
    written(home, json.dumps(data))
    assert slips() == [
        "~/.pi/agent/settings.json: 'default_modle' is not known: did you mean default_model?",
        "~/.pi/agent/settings.json: retry: 'maxRetrys' is not known: did you mean maxRetries?",
        "~/.pi/agent/settings.json: models: 'baseUrll' is not known: did you mean baseUrl?",
        "~/.pi/agent/settings.json: mcpServers.x: 'comand' is not known: did you mean command?",
    ]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"retry": 3, "models": {}, "mcpServers": []}', '"x"'])
def test_settings_that_are_no_settings_have_no_slips(home, text):
    """What is wrong with them is said by whoever reads them."""
    written(home, text)
    assert slips() == []


def test_a_projects_settings_are_looked_at_if_it_is_trusted(home, tmp_path):
    """And named by their own file; of very many slips a few are named."""
    written(tmp_path, '{"skils": []}', ".pi")
    assert slips() == []
    assert slips(project=str(tmp_path)) == [
        f"{tmp_path}/.pi/settings.json: 'skils' is not known: did you mean skills?"
    ]
    written(tmp_path, json.dumps({f"skills{number}": [] for number in range(100)}), ".pi")
    assert 0 < len(slips(project=str(tmp_path))) < 10
