"""A disk whose power can be cut: an ext4 image on a loop device, which the kernel shuts down on request.

That drops everything that was not on the disk, as a cut does. Only what was heard before the call counts as
acknowledged: a sync under way may still return afterwards, which after a real cut nobody would see.
"""

import os
import shutil
import struct
import subprocess
import time

import pytest

SHUTDOWN = 0x8004587D
LOG_FLUSH, NO_LOG_FLUSH = 1, 2


@pytest.fixture
def disk(tmp_path):
    """An ext4 image and the place where it is mounted."""
    image, place = tmp_path / "disk.img", tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        pytest.skip("needs root and mkfs.ext4")
    with image.open("wb") as file:
        file.truncate(128 * 2**20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True, capture_output=True)
    if subprocess.run(["mount", "-o", "loop", image, place], capture_output=True).returncode:
        pytest.skip("needs the right to mount an ext4 image on a loop device")
    yield {"image": str(image), "place": str(place)}
    subprocess.run(["umount", "--lazy", place], capture_output=True)


def cut(place: str, how: int) -> None:
    import fcntl

    descriptor = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", how))
    finally:
        os.close(descriptor)


def power_on(image: str, place: str) -> None:
    for _ in range(500):  # what a killed process had open is let go a moment later
        done = subprocess.run(["umount", place], capture_output=True, text=True)
        if done.returncode == 0:
            subprocess.run(["mount", "-o", "loop", image, place], check=True)
            if is_on(place):
                return
        time.sleep(0.01)
    raise AssertionError(done.stderr or "the disk is still shut down")


def is_on(place: str) -> bool:
    """Not yet, if somebody else, in a sandbox of theirs, still has the disk as it was."""
    probe = os.path.join(place, "probe")
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_WRONLY))
        os.unlink(probe)
    except OSError:
        return False
    return True
