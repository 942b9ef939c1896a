"""Disks that keep no modes: those of Windows, cameras and virtual machines.

Their files all have one mode, which was said when the disk was mounted and is often 0777, and `chmod` does
nothing. So the mode of a file there does not tell who may write to it. Linux names the kind of a disk in its
table of mounts; on other systems every disk is taken for one that keeps modes.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Iterator

MOUNTS = "/proc/self/mountinfo"
_KEEP_NO_MODES = {
    *("vfat", "msdos", "umsdos", "exfat", "ntfs", "ntfs3", "fuseblk", "fuse.exfat", "fuse.ntfs-3g", "hfs"),
    *("drvfs", "cifs", "smb3", "vboxsf", "vmhgfs", "fuse.vmhgfs-fuse", "prl_fs"),
}
_WINDOWS = "drvfs"
"""How WSL calls a disk of Windows, whose type is 9p or virtiofs. Other disks of these types keep modes."""
_KEEPS_THEM = {"metadata", "unix", "posix", "cifsacl", "modefromsid"}
"""Options with which a disk of Windows, or of a server, keeps modes all the same."""


def keeps_modes(device: int) -> bool:
    """Whether modes count on the disk with this number, which is the `st_dev` of each file on it."""
    try:
        with open(MOUNTS, encoding="utf-8", errors="replace") as file:
            numbers = {*_without_modes(file.read())}
    except OSError:
        return True  # no system that has such a table
    return (os.major(device), os.minor(device)) not in numbers


def _without_modes(mounts: str) -> Iterator[tuple[int, int]]:
    """The numbers of the disks that keep no modes, by the text of a table of mounts. Its lines read
    `ID PARENT MAJOR:MINOR ROOT PLACE OPTIONS [MORE …] - TYPE SOURCE OPTIONS`; no field has a blank in it."""
    for line in mounts.split("\n"):
        mount, _, disk = line.partition(" - ")
        numbers, fields = mount.split(" ")[2:3], disk.split(" ")
        if len(fields) != 3 or not numbers:
            continue
        kind, source, options = fields
        is_without = kind in _KEEP_NO_MODES or _is_of_windows(source, options)
        major, _, minor = numbers[0].partition(":")
        if is_without and not _KEEPS_THEM & {*options.replace(";", ",").split(",")}:
            yield int(major), int(minor)


def _is_of_windows(source: str, options: str) -> bool:
    is_drive = source[:1].isalpha() and source[1:].startswith(":\\")  # a backslash is written as \134
    return is_drive or source.startswith(_WINDOWS) or f"aname={_WINDOWS}" in options
