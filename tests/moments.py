"""Waiting for the clock: what happens within one of its ticks has one time, and so no order of its own."""

import time

from perdure.session import ids

# Where many kernels take the times of files from: it moves by ticks of some milliseconds, behind the other.
CLOCK = getattr(time, "CLOCK_REALTIME_COARSE", time.CLOCK_REALTIME)


def next_moment() -> None:
    """Return once what is saved has a later time than all before, in what it says and as a file."""
    before = ids.clock_milliseconds()
    while time.clock_gettime_ns(CLOCK) // 10**6 <= before:
        time.sleep(0.0005)
