"""A trash over months, seen by starts whose clock is right, or up to ten years off; and what may go when.

No code under test is asked whether a clock is right: the plan knows the true time.
"""

import json
import os
import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from perdure.session import expiry, ids, last_seen
from perdure.session.layouts import Home
from perdure.session.trash_note import NOTE

DAY = timedelta(days=1)
MONTH = 30 * DAY


class Months:
    def __init__(self, folder: Path, seed: int) -> None:
        self.random = Random(seed)
        shutil.rmtree(folder, ignore_errors=True)
        self.home = Home("aurora", str(folder / ".aurora"))
        os.makedirs(folder / ".aurora" / "trash")
        os.environ["HOME"] = str(folder)
        self.time = datetime(2026, 6, 1, tzinfo=UTC)
        """The true one."""
        self.error = timedelta()
        self.errors: list[timedelta] = []
        """Those that there were. One may come back, a little different."""
        self.files: list[datetime] = []
        """What the clock said when each session's file was written."""
        self.starts: list[datetime] = []
        """And at the starts since it last leapt, or was set back, or a leap was told."""
        self.untold: datetime | None = None
        """What it said before a leap that is still to be told."""
        self.may_leap = True
        """Whether there was a leap since one was told, or nearly one: the clock is noted once a day."""
        self.has_started = False
        self.deleted: dict[str, datetime] = {}
        """What is in the trash, and when it came there, by the clock."""
        self.counted: Counter[str] = Counter()

    @property
    def clock(self) -> datetime:
        return self.time + self.error

    def run(self) -> dict[str, int]:
        for _ in range(self.random.randint(4, 9)):
            self.time += self.random.choice([0.01, 0.5, 2, 2, 7, 20, 29, 35, 90]) * DAY
            if self.error and self.random.random() < 0.6:
                self.error = timedelta()
            elif self.random.random() < 0.3:
                self.err()
            for act in self.random.sample([self.delete, self.talk, self.look, self.start], 3):
                act()
        self.end_well()
        return self.counted

    def err(self) -> None:
        if self.errors and self.random.random() < 0.5:
            self.error = self.random.choice(self.errors) + self.random.uniform(-20, 20) * DAY
        else:
            self.error = self.random.uniform(-3650, 3650) * DAY
        self.errors.append(self.error)

    def delete(self) -> None:
        name = f"s{len(self.counted) + self.random.randrange(10**9)}"
        folder = Path(self.home.path, "trash", name)
        folder.mkdir()
        (folder / f"{name}.jsonl").write_bytes(b"{}\n")
        when = ids.stamp(self.clock)
        (folder / NOTE).write_text(
            json.dumps({"id": name, "program": "aurora", "deleted": when, "root": "", "names": []})
        )
        self.deleted[name] = self.clock

    def talk(self) -> None:
        """A session's file gets the time of the clock."""
        if self.random.random() < 0.5:
            return
        path = Path(self.home.path, "spawn", "sessions", f"{len(self.files)}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}\n")
        when = self.clock.timestamp()
        os.utime(path, (when, when))
        self.files.append(self.clock)

    def start(self) -> None:
        """As `aur` does it by itself."""
        clock = self.clock
        told: list[datetime] = []
        is_believed = last_seen.judge_clock(told.append, lambda: clock)
        gone: set[str] = set()
        if is_believed:
            gone = {each.id for each in expiry.empty_trash([self.home], now=lambda: clock).gone}
        old = {name for name, when in self.deleted.items() if clock - when > MONTH}
        assert gone <= old
        has_witness = self.compare(clock)
        assert has_witness or not gone, f"{len(gone)} went by a clock that stands alone: {clock}"
        assert has_witness or not is_believed
        assert told or not self.untold, "a leap is not told"
        if told:
            assert self.may_leap, "a leap is told twice"
            assert not is_believed
            assert clock - told[0] > MONTH
            self.starts, self.untold, self.may_leap = [], None, False
        for name in gone:
            del self.deleted[name]
        assert set(os.listdir(os.path.join(self.home.path, "trash"))) == set(self.deleted)
        self.starts.append(clock)
        self.counted["gone"] += len(gone)
        self.counted["kept by a clock alone"] += 0 if is_believed else len(old)
        self.counted["leaps told"] += len(told)

    def look(self) -> None:
        """As `pi` does it for its logs: it tells nothing."""
        clock = self.clock
        is_believed = last_seen.judge_clock(now=lambda: clock)
        assert self.compare(clock) or not is_believed
        self.starts.append(clock)
        self.counted["leaps left to be told"] += self.untold is not None

    def compare(self, clock: datetime) -> bool:
        """Whether a start of an earlier day agrees with the clock. What was seen before a leap, or before the
        clock was set back by more than a day, agrees with nothing any more. Files agree with the first."""
        if not self.has_started:
            self.has_started = True
            self.starts = [each for each in self.files if DAY <= clock - each <= MONTH]
        else:
            last = self.starts[-1]
            if self.untold and clock - self.untold <= MONTH:
                self.untold = None  # the clock is back
            if clock - last > MONTH:
                self.untold = self.untold or last
            self.may_leap |= clock - last > MONTH - DAY
            if clock - last > MONTH or last - clock > DAY:
                self.starts = []
        return any(clock - each >= DAY for each in self.starts)

    def end_well(self) -> None:
        """With a clock that is right, three starts on three days are enough for all that is old."""
        self.error = timedelta()
        for _ in range(3):
            self.time += 1.1 * DAY
            self.start()
        assert not [name for name, when in self.deleted.items() if self.clock - when > MONTH]
