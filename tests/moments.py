"""Waiting for the clock: what happens within one millisecond has one time, and so no order of its own."""

import time

from perdure.session import ids


def next_moment() -> None:
    """Return once what is saved has a later time than all that was saved before."""
    before = ids.clock_milliseconds()
    while ids.clock_milliseconds() <= before:
        time.sleep(0.0005)
