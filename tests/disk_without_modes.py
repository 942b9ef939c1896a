"""A disk that keeps no modes: said of a folder by a table of mounts, or a real one that the kernel mounts.

The real one is a FUSE file system, of the kind of a camera's card, with a few files that can be read, all of
them 0777 and root's. A thread of the test serves it.
"""

import ctypes
import errno
import os
import stat
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from perdure.session import disks
from tests.needs import needs

DETACH = 2
ROOT = 1
LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, OPENDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = (
    *(1, 2, 3, 14, 15, 18, 25, 26, 27, 29, 36),
    42,
)

needs_fuse = needs("root and FUSE", given=os.access("/dev/fuse", os.W_OK) and os.geteuid() == 0)


def line_of(place: Path, kind: str, source: str = "/dev/sdb1", options: str = "rw") -> str:
    """A line of the table of mounts for the disk that a folder is on."""
    device = place.stat().st_dev
    numbers = f"{os.major(device)}:{os.minor(device)}"
    return f"36 25 {numbers} / /mnt/disk rw,noatime shared:1 - {kind} {source} {options}\n"


def call_modeless(place: Path, table: Path, monkeypatch) -> None:
    """Make a table of mounts say that the disk of a folder keeps no modes."""
    table.write_text(line_of(place, "vfat"))
    monkeypatch.setattr(disks, "MOUNTS", str(table))


@contextmanager
def mounted(place: Path, files: Mapping[str, bytes]) -> Iterator[None]:
    """A disk at this folder, with these files."""
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    try:
        if libc.mount(b"card", os.fsencode(place), b"fuse.exfat", 0, options):
            raise OSError(ctypes.get_errno(), "mount")
        served = threading.Thread(target=_Disk(device, files).serve, daemon=True)
        served.start()
        try:
            yield
        finally:
            libc.umount2(os.fsencode(place), DETACH)
            served.join(10)
    finally:
        os.close(device)


class _Disk:
    def __init__(self, device: int, files: Mapping[str, bytes]) -> None:
        self.device = device
        folders = {str(above) for name in files for above in Path(name).parents}
        self.paths = [*sorted(folders | {"."}), *files]  # the first is the root, whose number is 1
        self.files = files

    def serve(self) -> None:
        while True:
            try:
                asked = os.read(self.device, 2**20)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT):
                    continue
                return  # it is unmounted
            _, kind, unique, node = struct.unpack_from("=IIQQ", asked)
            if kind in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            answer = self.answer(kind, node, asked[40:])
            failed, data = (-answer, b"") if isinstance(answer, int) else (0, answer)
            os.write(self.device, struct.pack("=IiQ", 16 + len(data), failed, unique) + data)

    def answer(self, kind: int, node: int, body: bytes) -> bytes | int:
        """What is answered, or the number of an error."""
        if kind == INIT:
            return struct.pack("=IIIIHHII", 7, 31, 0, 0, 1, 1, 4096, 1) + bytes(36)
        path = self.paths[node - ROOT]
        if kind == LOOKUP:
            name = str(Path(path, body.rstrip(b"\0").decode()))
            if name not in self.paths:
                return errno.ENOENT
            found = self.paths.index(name) + ROOT
            return struct.pack("=QQQQII", found, 0, 1, 1, 0, 0) + self.attributes(found)
        if kind == GETATTR:
            return struct.pack("=QII", 1, 0, 0) + self.attributes(node)
        if kind in (OPEN, OPENDIR):
            return bytes(16)
        if kind == READ:
            _, offset, size = struct.unpack_from("=QQI", body)
            return self.files[path][offset : offset + size]
        return b"" if kind in (FLUSH, RELEASE, RELEASEDIR) else errno.ENOSYS

    def attributes(self, node: int) -> bytes:
        data = self.files.get(self.paths[node - ROOT])
        mode = (stat.S_IFDIR if data is None else stat.S_IFREG) | 0o777
        times = (0,) * 6
        return struct.pack("=QQQQQQIIIIIIIIII", node, len(data or b""), 0, *times, mode, 1, 0, 0, 0, 512, 0)
