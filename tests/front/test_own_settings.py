"""A program's own settings: read if they are there, named if they are wrong."""

import pytest

from perdure.errors import PerdureError
from perdure.front.own_settings import Kind, Number, OwnSettings

KNOWN = {"default_model": str, "autorecord": bool}
IN_GROUPS: dict[str, Kind] = {
    "default_model": str,
    "spawner.turns.most": Number(1, 10, is_whole=True),
    "spawner.days": Number(1, 9),
}


def read(tmp_path, data: bytes) -> OwnSettings:
    (tmp_path / "config.toml").write_bytes(data)
    return OwnSettings.read(str(tmp_path / "config.toml"), KNOWN)


def test_what_is_set_is_read_and_nothing_else(tmp_path):
    """Also behind a byte order mark; keys of other programs are theirs."""
    data = b'\xef\xbb\xbfdefault_model = "openai/gpt-4o"\nautorecord = false\n[other]\nx = 1\n'
    assert read(tmp_path, data) == ({"default_model": "openai/gpt-4o", "autorecord": False}, [])
    assert OwnSettings.read(str(tmp_path / "none.toml"), KNOWN) == ({}, [])


def test_what_is_nearly_a_key_is_said_to_be_none(tmp_path):
    found = read(tmp_path, b'auto_record = false\ncolour = "red"\n')
    assert found.values == {}
    (notice,) = found.notices
    assert notice.endswith("config.toml: 'auto_record' is not known: did you mean autorecord?")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"autorecord = 1", "autorecord is not true or false"),
        (b"default_model = []", "default_model is not text"),
        (b"autorecord = tru", "is not TOML"),
        (b"a = " + b"[" * 5000, "is not TOML"),
        (b"a = 1" + b"0" * 5000, "is not TOML"),
        (b"\xff", "not UTF-8, from byte 0 on"),
        (b"#" * ((1 << 20) + 1), "larger than 1 MB"),
    ],
)
def test_what_is_wrong_is_an_error_that_names_the_file(tmp_path, data, says):
    with pytest.raises(PerdureError) as error:
        read(tmp_path, data)
    assert "config.toml" in error.value.message
    assert says in error.value.said


def test_a_folder_in_its_place_is_one_too(tmp_path):
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(PerdureError, match=r"config\.toml"):
        OwnSettings.read(str(tmp_path / "config.toml"), KNOWN)


def read_json(tmp_path, text: str) -> OwnSettings:
    (tmp_path / "config.json").write_text(text)
    return OwnSettings.read(str(tmp_path / "config.json"), IN_GROUPS)


def test_json_is_read_by_its_suffix_and_groups_by_dotted_names(tmp_path):
    """Keys of other programs are theirs, in every group; null leaves open."""
    text = '{"spawner": {"turns": {"most": 3, "colour": 1}, "days": 2.5}, "default_model": null, "other": []}'
    assert read_json(tmp_path, text) == ({"spawner.turns.most": 3, "spawner.days": 2.5}, [])
    assert read_json(tmp_path, '{"spawner.days": 1, "spawner": null}') == ({"spawner.days": 1}, [])


def test_what_is_nearly_a_key_is_said_to_be_none_in_a_group_too(tmp_path):
    found = read_json(tmp_path, '{"spawner": {"day": 1}, "spwaner": {}, "theirs": {"day": 1}}')
    assert found.values == {}
    inside, outside = found.notices
    assert inside.endswith("config.json: 'spawner.day' is not known: did you mean days?")
    assert outside.endswith("config.json: 'spwaner' is not known: did you mean spawner?")


def test_what_is_in_the_wrong_group_is_said_to_belong_elsewhere(tmp_path):
    """A key, and a group; at the top and inside. What is in a group of others is theirs."""
    text = '{"most": 3, "turns": {"most": 3}, "spawner": {"default_model": "", "most": 1}, "a": {"days": 1}}'
    found = read_json(tmp_path, text)
    assert found.values == {}
    assert [each.partition("config.json: ")[2] for each in found.notices] == [
        "'most' is not known there: it belongs in spawner.turns",
        "'turns' is not known there: it belongs in spawner",
        "'spawner.default_model' is not known there: it belongs outside of all groups",
        "'spawner.most' is not known there: it belongs in spawner.turns",
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"spawner": {"turns": {"most": 11}}}', "spawner.turns.most is not a whole number from 1 to 10"),
        ('{"spawner": {"turns": {"most": 1.0}}}', "spawner.turns.most is not a whole number from 1 to 10"),
        ('{"spawner": {"days": 0}}', "spawner.days is not a number from 1 to 9"),
        ('{"spawner": {"days": NaN}}', "spawner.days is not a number from 1 to 9"),
        ('{"spawner": {"days": 1e999}}', "spawner.days is not a number from 1 to 9"),
        ('{"spawner": {"days": true}}', "spawner.days is not a number from 1 to 9"),
        ('{"spawner": {"days": "3"}}', "spawner.days is not a number from 1 to 9"),
        ('{"spawner": 3}', "spawner is not a group of settings"),
        ("[]", "is not an object of settings"),
        ('{"a": 1,}', "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("", "is not JSON"),
    ],
)
def test_what_is_wrong_in_json_is_an_error_that_names_file_and_key(tmp_path, text, says):
    with pytest.raises(PerdureError) as error:
        read_json(tmp_path, text)
    assert "config.json" in error.value.message
    assert says in error.value.said
