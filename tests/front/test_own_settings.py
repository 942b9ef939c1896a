"""A program's own settings: read if they are there, named if they are wrong."""

import pytest

from perdure.errors import PerdureError
from perdure.front.own_settings import OwnSettings

KNOWN = {"default_model": str, "autorecord": bool}


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
