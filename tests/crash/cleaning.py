"""Random homes to be cleaned up, and what must become of each session, known from what was written.

No code under test is asked how old a session is, whether it is damaged or who is in it: a plan says so, and
the files are made from the plan.
"""

import errno
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any, NamedTuple
from unittest.mock import patch

from perdure.errors import UsageError
from perdure.session import expiry
from perdure.session.expiry import Cleaned
from perdure.session.layouts import Home
from perdure.session.stores import Found
from perdure.session.stores.aurora_jsonl import AuroraStore
from perdure.session.stores.file_store import FileStore
from perdure.session.stores.lock import Lock
from perdure.testing.durable import holding

DAY = 86_400_000  # milliseconds
YEAR = 365 * DAY
BAD_DAYS = (-1, -0.5, float("nan"), float("inf"), -float("inf"), True, None, "30", [30], 10**400)
NO_TIMES: tuple[object, ...] = (
    "",
    "garbage",
    "2026-02-31T00:00:00Z",
    None,
    True,
    {},
    0,
    -1,
    "1970-01-01T00:00:00Z",
    "0001-01-01",
)
DAMAGE = (
    b"{broken",
    b"17",
    b"\0" * 64,
    b'{"type":"metadata","created_at":"2001-01-01T00:00:00Z"}',
    b"\xff\xfe",
)
TORN = b'{"type":"turn","role":"assi'
EVENTS = (
    "grow",
    "grow by what is old",
    "replace",
    "touch",
    "damage",
    "hold",
    "sweep",
    "delete",
    "vanish",
    "bear",
)
FAULTS = ("trash", "locks", "link")


class Plan(NamedTuple):
    ref: Found
    data: bytes
    is_old: bool
    """By each of its times; else it is young, or its age is not known."""
    is_dated: bool
    is_damaged: bool
    holder: str
    """`ours`, `theirs`, or nobody."""
    event: str
    """What happens to it when it is about to be moved."""

    @property
    def goes(self) -> bool:
        """Unless something happens."""
        return self.is_old and not self.is_damaged and not self.holder


class Clock(NamedTuple):
    random: Random
    now: datetime

    def ago(self, milliseconds: int, *, as_text: bool) -> object:
        """A time as one of many programs would write it."""
        when = self.now - timedelta(milliseconds=milliseconds)
        stamp = when.isoformat(timespec="milliseconds")
        zone = timezone(timedelta(minutes=self.random.randrange(-720, 840)))
        forms: list[object] = [stamp, stamp.replace("+00:00", "Z"), stamp.replace("+00:00", "")]
        forms.append(when.astimezone(zone).isoformat())
        if not as_text:
            forms += [round(when.timestamp() * 1000), round(when.timestamp(), 3)]
        return self.random.choice(forms)

    def none(self, *, as_text: bool) -> object:
        """What is no time, or one that is still to come."""
        if self.random.random() < 0.4:
            return self.ago(
                -self.random.choice([1, DAY, self.random.randrange(1, 10 * YEAR)]), as_text=as_text
            )
        return self.random.choice(NO_TIMES)


class World:
    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random = Random(seed)
        shutil.rmtree(folder, ignore_errors=True)
        self.folder = folder
        self.home = Home("aurora", str(folder))
        self.store = AuroraStore(str(folder), durability="process")
        os.makedirs(self.store.root)
        skew = random.randrange(-10 * YEAR, 10 * YEAR)
        self.now = datetime(2026, 6, 1, tzinfo=UTC) + timedelta(milliseconds=skew)
        self.clock = Clock(random, self.now)
        self.days: Any = random.choice([0, 0.5, 1, 7, 30, 30, 365, 3650])
        self.fault = random.choice(FAULTS) if random.random() < 0.12 else ""
        self.are_two = not self.fault and random.random() < 0.04
        self.plans = [self._plan(number) for number in range(random.randint(3, 6))]
        if any(
            plan.event == "sweep" for plan in self.plans
        ):  # what one leaves alone, the other finds at rest
            self.plans = [plan._replace(event="sweep" if plan.event else "") for plan in self.plans]
        self.expected = {plan.ref.path: plan.data for plan in self.plans}
        """What there must be, in its place or in the trash."""
        self.happened: dict[str, str] = {}
        self.others: list[Cleaned] = []
        """What other sweeps did."""
        self.failed_links: set[str] = set()

    # --- a home ------------------------------------------------------------------------------------------

    def _plan(self, number: int) -> Plan:
        random, limit = self.random, round(self.days * DAY)
        beyond = [0, -1, -random.randrange(limit + 1), *(1, random.randrange(1, 10 * YEAR)) * 3]
        latest = max(0, limit + random.choice(beyond))
        ages = [latest, *(latest + random.randrange(YEAR) for _ in range(random.randint(0, 4)))]
        random.shuffle(ages)
        is_dated = random.random() < 0.7
        spoilt = -1 if is_dated else random.randrange(len(ages))
        id = f"session-{number:x}{random.randrange(16**11):011x}"
        lines = [self._line(id, at, age, at == spoilt) for at, age in enumerate(ages)]
        is_damaged = random.random() < 0.1
        if is_damaged:
            lines.insert(random.randint(1, len(lines)), random.choice(DAMAGE))
        data = b"".join(line + b"\n" for line in lines) + (TORN if random.random() < 0.1 else b"")
        ref = Found(id, os.path.join(self.store.root, f"{id}.jsonl"))
        Path(ref.path).write_bytes(data)
        self.touch(ref.path)
        chance = random.random()
        holder = "theirs" if chance < 0.001 else "ours" if chance < 0.15 else ""
        if self.fault == "locks":
            holder = ""
        may_happen = not self.fault and not self.are_two and random.random() < 0.4
        event = random.choice(EVENTS) if may_happen else ""
        return Plan(ref, data, is_dated and latest > limit, is_dated, is_damaged, holder, event)

    def _line(self, id: str, at: int, age: int, is_spoilt: bool) -> bytes:
        kind = (
            "metadata"
            if not at
            else self.random.choice(["turn", "turn", "tool_result", "status", "entry", "note"])
        )
        as_text = kind in ("entry", "note")
        when = self.clock.none(as_text=as_text) if is_spoilt else self.clock.ago(age, as_text=as_text)
        records: dict[str, dict[str, object]] = {
            "metadata": {"session_id": id, "agent": "default", "created_at": when, "status": "active"},
            "turn": {"role": self.random.choice(["user", "assistant"]), "content": "said", "timestamp": when},
            "tool_result": {"tool_call_id": "c", "name": "ls", "content": "said", "timestamp": when},
            "status": {"status": "completed", "timestamp": when},
            "entry": {"entry": {"type": "label", "id": f"e{at}", "parentId": None, "timestamp": when}},
            "note": {"text": "somebody else's", "timestamp": when},
        }
        record = {"type": kind, **records[kind]}
        if is_spoilt and when is None and self.random.random() < 0.5:
            record = {name: value for name, value in record.items() if value is not None}
        return json.dumps(record).encode()

    def touch(self, path: str) -> None:
        """Anything may stand there."""
        now = int(self.now.timestamp())
        when = self.random.choice([0, -1, 1, now, now + 10**8, now - 10**8, 2**33])
        os.utime(path, (when, when))

    # --- a sweep -----------------------------------------------------------------------------------------

    def sweep(self) -> Cleaned:
        return expiry.clean(self.home, self.days, now=lambda: self.now)

    def run(self) -> dict[str, int]:
        """Returns how often there was what."""
        has_bad_days = self.random.random() < 0.05
        if has_bad_days:
            self._refuse_bad_days()
        with ExitStack() as stack:
            self._hold(stack)
            self._break(stack)
            stack.enter_context(self._events(stack))
            if self.are_two:
                other = Thread(target=lambda: self.others.append(self.sweep()))
                other.start()
                done = self.sweep()
                other.join()
            else:
                done = self.sweep()
            self._check(done)
        self._bring_back()
        counted = Counter(self.happened.values())
        counted.update(
            name for name in (self.fault, "two at once" * self.are_two, "bad days" * has_bad_days) if name
        )
        for each in (done, *self.others):
            counted.update({name: len(of_it) for name, of_it in each._asdict().items()})
        return counted

    def _refuse_bad_days(self) -> None:
        before = snapshot(self.folder)
        days, self.days = self.days, self.random.choice(BAD_DAYS)
        try:
            self.sweep()
            raise AssertionError(f"{self.days!r} was taken for a number of days")
        except UsageError:
            assert snapshot(self.folder) == before
        self.days = days

    def _hold(self, stack: ExitStack) -> None:
        for plan in self.plans:
            if plan.holder == "ours":
                stack.enter_context(self.store.lock(plan.ref, 0))
            elif plan.holder == "theirs":
                stack.enter_context(holding(partial(self.store.writer, plan.ref)))

    def _break(self, stack: ExitStack) -> None:
        if self.fault in ("trash", "locks"):
            place = self.folder / self.fault
            if not place.exists():
                place.touch()
                stack.callback(place.unlink)
            else:  # somebody holds a lock there
                self.fault = ""
        elif self.fault == "link":
            link = os.link

            def refused(source: str, target: str, **options: Any) -> None:
                if self.random.random() < 0.5:
                    self.failed_links.add(str(source))
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                link(source, target, **options)

            stack.enter_context(patch("os.link", refused))

    # --- what others do meanwhile ------------------------------------------------------------------------

    @contextmanager
    def _events(self, stack: ExitStack) -> Iterator[None]:
        waiting = {plan.ref.id: plan for plan in self.plans if plan.event}
        lock = FileStore.lock

        def locked(store: FileStore, ref: Found, wait: float) -> Lock:
            if plan := waiting.pop(ref.id, None):
                self.happened[ref.id] = plan.event
                self._happen(plan, stack)
            return lock(store, ref, wait)

        with patch.object(FileStore, "lock", locked):
            yield

    def _happen(self, plan: Plan, stack: ExitStack) -> None:
        path = plan.ref.path
        match plan.event:
            case "grow":
                self._put(path, plan.data + self._line(plan.ref.id, 1, 0, False) + b"\n")
            case "grow by what is old":
                self._put(
                    path, plan.data + self._line(plan.ref.id, 1, round(self.days * DAY) + 1, False) + b"\n"
                )
            case "damage":
                self._put(path, b"{broken\n" + plan.data)
            case "replace":
                Path(f"{path}.new").write_bytes(plan.data)
                os.replace(f"{path}.new", path)
            case "touch":
                os.utime(path)
            case "hold":
                stack.enter_context(self.store.lock(plan.ref, 0))
            case "sweep":
                self.others.append(self.sweep())
            case "delete":
                self.store.delete(plan.ref)
            case "vanish":
                os.unlink(path)
                del self.expected[path]
            case "bear":
                born = os.path.join(self.store.root, f"born-{plan.ref.id}.jsonl")
                self._put(
                    born,
                    self._line(f"born-{plan.ref.id}", 0, -self.random.choice([0, 1, DAY]), False) + b"\n",
                )

    def _put(self, path: str, data: bytes) -> None:
        Path(path).write_bytes(data)
        self.expected[path] = data

    # --- what must be so ---------------------------------------------------------------------------------

    def _goes(self, plan: Plan) -> bool:
        if self.fault in ("trash", "locks") or plan.ref.id in {
            each.partition(".")[0] for each in self.failed_links
        }:
            return False
        return plan.goes and self.happened.get(plan.ref.id, "") in ("", "bear", "sweep")

    def _check(self, done: Cleaned) -> None:
        swept = [done, *self.others]
        removed = sorted(each.id for each in (gone for each in swept for gone in each.removed))
        assert removed == sorted(plan.ref.id for plan in self.plans if self._goes(plan))
        reported = {id for each in swept for id in (*each.held, *each.undated)}
        reported |= {said.split()[0] for each in swept for said in (*each.damaged, *each.problems)}
        for plan in self.plans:
            id, is_reported = plan.ref.id, plan.ref.id in reported
            if plan.is_old and id not in removed:
                assert is_reported or self.happened.get(id), f"{id} is old, was kept, and nobody says so"
            if plan.holder and plan.is_old and not plan.is_damaged:
                assert any(id in each.held for each in swept)
            assert not plan.is_dated or all(id not in each.undated for each in swept)
        in_place = {path: Path(path).read_bytes() for path in self.expected if os.path.exists(path)}
        trashed = removed + [id for id, event in self.happened.items() if event == "delete"]
        paths = {plan.ref.path for plan in self.plans if plan.ref.id in trashed}
        assert in_place == {path: data for path, data in self.expected.items() if path not in paths}

    def _bring_back(self) -> None:
        """All that was removed is there again with its bytes, and the trash is empty."""
        for each in self.store.trashed():
            self.store.bring_back(each)
        found = snapshot(self.folder)
        sessions = {path: data for path, data in found.items() if path.startswith(self.store.root)}
        assert sessions == self.expected
        others = {os.path.relpath(path, self.folder) for path in found.keys() - sessions.keys()}
        assert all(each.startswith("locks") and each.endswith(".lock") for each in others)
        assert not (self.folder / "trash").is_dir() or not os.listdir(self.folder / "trash")


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
