"""Which disks keep no modes: the table of mounts tells, and there everybody's right to write is no doubt."""

import json
import os

import pytest

from perdure.agent.settings import Settings
from perdure.errors import OthersMayWrite
from perdure.session import disks, strangers
from perdure.session.disks import keeps_modes
from perdure.session.stores import open_store
from tests.disk_without_modes import call_modeless, line_of, mounted, needs_fuse
from tests.other_users import needs_root

DRIVE = "C:\\134"
OPTIONS = "rw,dirsync,aname=drvfs;path=C:\\;uid=1000;gid=1000;{}symlinkroot=/mnt/,mmap,trans=virtio"


@pytest.fixture
def table(tmp_path, monkeypatch):
    path = tmp_path / "mountinfo"
    monkeypatch.setattr(disks, "MOUNTS", str(path))
    return path


@pytest.mark.parametrize(
    ("kind", "source", "options", "expected"),
    [
        *((kind, "/dev/sdb1", "rw", False) for kind in ("vfat", "msdos", "exfat", "ntfs", "ntfs3")),
        ("fuseblk", "/dev/sda3", "rw,user_id=0,allow_other,blksize=4096", False),
        ("drvfs", "C:", "rw", False),
        ("9p", DRIVE, OPTIONS.format(""), False),
        ("9p", "drvfs", OPTIONS.format(""), False),
        ("9p", DRIVE, OPTIONS.format("metadata;"), True),
        ("virtiofs", "drvfsC1", "rw", False),
        ("9p", "share", "rw,trans=virtio", True),
        ("virtiofs", "share", "rw", True),
        ("cifs", "//server/share", "rw,uid=0,file_mode=0777", False),
        ("cifs", "//server/share", "rw,unix,posixpaths", True),
        *((kind, "/dev/sda1", "rw", True) for kind in ("ext4", "btrfs", "tmpfs", "overlay", "fuse.sshfs")),
    ],
)
def test_the_kind_of_a_disk_and_its_options_tell_whether_it_keeps_modes(
    table, tmp_path, kind, source, options, expected
):
    table.write_text(line_of(tmp_path, kind, source, options))
    assert keeps_modes(tmp_path.stat().st_dev) is expected


def test_only_the_disk_itself_is_meant(table, tmp_path):
    """Whatever other disks there are, and how many fields a line has before its `-`."""
    own = tmp_path.stat().st_dev
    other = f"{os.major(own)}:{os.minor(own) + 1}"
    modeless, plain = line_of(tmp_path, "vfat"), line_of(tmp_path, "ext4")
    here = f"{os.major(own)}:{os.minor(own)}"
    table.write_text(modeless.replace(here, other) + plain)
    assert keeps_modes(own)
    for more in ("", "shared:1 master:2 "):
        table.write_text(plain.replace(here, other) + modeless.replace("shared:1 ", more))
        assert not keeps_modes(own)


@pytest.mark.parametrize(
    "text", ["", "\n", "36 25\n", "36 25 8:1 / / rw - vfat\n", " - vfat a rw\n", "- - - -"]
)
def test_a_table_that_says_nothing_leaves_modes_what_they_are(table, tmp_path, text):
    table.write_text(text)
    assert keeps_modes(tmp_path.stat().st_dev)


def test_a_system_without_such_a_table_keeps_modes(table, tmp_path):
    assert keeps_modes(tmp_path.stat().st_dev)


def test_the_table_of_this_machine_can_be_read(tmp_path):
    assert keeps_modes(tmp_path.stat().st_dev)


def test_the_table_is_read_for_a_doubt_alone(tmp_path, monkeypatch):
    """So that an ordinary start does not pay for it."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(disks, "keeps_modes", lambda device: pytest.fail("read"))
    for mode in (0o700, 0o755, 0o775):
        tmp_path.chmod(mode)
        assert strangers.doubt(str(tmp_path / "file")) is None
        strangers.refuse_open(str(tmp_path))
        assert not strangers.is_everybodys(str(tmp_path))


# --- what follows from it -------------------------------------------------------------------------------


@pytest.fixture
def open_folder(tmp_path):
    """Everybody may write to it, and to all that is in it, if its disk keeps modes."""
    folder = tmp_path / "open"
    (folder / ".pi").mkdir(parents=True)
    (folder / ".pi" / "settings.json").write_text(json.dumps({"defaultModel": "x"}))
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777)
    return folder


def test_there_everybody_s_right_to_write_is_no_doubt(open_folder, tmp_path, monkeypatch):
    """A trusted project's settings are read, a store is opened; and not on a disk that keeps modes."""
    settings = open_folder / ".pi" / "settings.json"
    for use in (
        lambda: Settings.load(project=str(open_folder)),
        lambda: strangers.refuse(str(settings)),
        lambda: open_store("pi", str(open_folder)),
    ):
        with pytest.raises(OthersMayWrite):
            use()
    assert strangers.is_everybodys(str(open_folder))
    call_modeless(open_folder, tmp_path / "mountinfo", monkeypatch)
    assert Settings.load(project=str(open_folder)).default_model == "x"
    assert strangers.doubt(str(settings)) is None
    assert not strangers.is_everybodys(str(open_folder))
    open_store("pi", str(open_folder))


@needs_root
def test_there_owners_still_tell(open_folder, tmp_path, monkeypatch):
    """Whose a disk is was said when it was mounted, and nothing is said of modes, which cannot be changed."""
    settings = open_folder / ".pi" / "settings.json"
    os.chown(settings, 12345, 12345)
    call_modeless(open_folder, tmp_path / "mountinfo", monkeypatch)
    found = strangers.doubt(str(settings))
    assert found is not None
    assert not found.is_open
    assert "chmod" not in found.remedy


@needs_fuse
def test_a_real_disk_without_modes_is_known_for_one(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    settings = json.dumps({"defaultModel": "x"}).encode()
    with mounted(place, {".pi/settings.json": settings, ".pi/extensions/one.py": b""}):
        for path in (place, place / ".pi" / "settings.json"):
            assert path.stat().st_mode & 0o777 == 0o777
        assert Settings.load(project=str(place)).default_model == "x"
        assert strangers.doubt(str(place / ".pi" / "extensions" / "one.py")) is None
        strangers.refuse_open(str(place))
