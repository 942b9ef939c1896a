"""A real disk that is soon full. It is in memory, and who may mount none has none."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

BALLAST = "ballast"


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[bool]:
    """At this folder, which is made. Whether there is one."""
    place.mkdir(mode=0o700)
    options = ["-t", "tmpfs", "-o", f"size={size},mode=700", "perdure-test", str(place)]
    is_there = subprocess.run(["mount", *options], capture_output=True).returncode == 0
    try:
        yield is_there
    finally:
        if is_there:
            subprocess.run(["umount", "--lazy", place], check=True)


@contextmanager
def needed_disk(place: Path, size: str) -> Iterator[Path]:
    """Or the test is skipped."""
    with small_disk(place, size) as is_there:
        if not is_there:
            pytest.skip("needs the right to mount a tmpfs")
        yield place


def fill(place: Path) -> None:
    """Until nothing more can be written there."""
    with (place / BALLAST).open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def make_room(place: Path) -> None:
    (place / BALLAST).unlink()
