"""A process that makes, lists or opens one large session, so that its memory can be measured.

    python -m tests.crash.large_files make LAYOUT HOME MEGABYTES [whole]
    python -m tests.crash.large_files list|open|resume LAYOUT HOME
    python -m tests.crash.large_files run HOME CWD PROGRAM WORD...

`make` puts a summary before the last turns, if it is not to be `whole`. `resume` goes as far as what a model
is sent; `open` also reads all of it. `run` says one thing to one of our programs, which goes on with one.
Prints one JSON object.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

from perdure.session import summary
from perdure.session.entry import Assistant, Compaction, Entry, Message, Text, User, new
from perdure.session.session import Session
from perdure.session.stores import Found, Header, Store
from perdure.session.stores.jsonl import JsonlStore
from tests.fuzz.reader import peak_megabytes
from tests.layouts import store_of

STAMP = "2026-01-31T09:05:00.123Z"
TEXT = "lorem ipsum dolor sit amet " * 38
"""With what is around it, a turn takes about a kilobyte."""
SENT = 20
"""Turns behind the last summary, which alone are sent."""
A_BATCH = 1000


def turns(count: int, sent: int) -> Iterator[Entry]:
    parent: str | None = None
    for number in range(count):
        said = f"{number} {TEXT}"
        body = Message(User(said) if number % 2 == 0 else Assistant([Text(said)]))
        id = f"m{number:07d}"
        yield new(body, id=id, parent_id=parent, timestamp=STAMP)
        parent = id
        if number == count - sent:
            yield new(Compaction("all of it", id, 1), id="summary", parent_id=id, timestamp=STAMP)
            parent = "summary"


def make(store: Store, megabytes: int, sent: int = SENT) -> Found:
    header = Header(store.new_id(Header("", STAMP)), STAMP, cwd="/home/me/api")
    count = megabytes * 1000
    if not isinstance(store, JsonlStore):
        return store.create(header, turns(count, sent))
    ref = store.create(header, [])
    with store.writer(ref) as writer:
        writer.catch_up()
        batch: list[Entry] = []
        for entry in turns(count, sent):
            batch.append(entry)
            if len(batch) == A_BATCH:
                writer.append(batch)
                batch = []
        writer.append(batch)
    return ref


def run(home: str, cwd: str, program: str, *words: str) -> dict[str, object]:
    """From a small process: what is measured of a child is at least what its parent took."""
    ran = subprocess.run(
        [os.path.join(os.path.dirname(sys.executable), program), *words],
        cwd=cwd,
        env={"HOME": home, "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        input="hello\n",
        capture_output=True,
        text=True,
    )
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    megabytes = most / (2**20 if sys.platform == "darwin" else 2**10)
    return {"exit_code": ran.returncode, "told": ran.stderr[-3000:], "megabytes": megabytes}


def main(what: str, layout: str, home: str, *more: str) -> dict[str, object]:
    if what == "run":
        return run(layout, home, *more)
    store = store_of(layout, home)
    if what == "make":
        made = make(store, int(more[0]), *([-1] if "whole" in more else []))
        return {"id": made.id, "path": made.path}
    (ref,) = store.list()
    base, started = peak_megabytes(), time.process_time()
    result: dict[str, object] = {"size": os.path.getsize(ref.path) / 2**20}
    if what == "list":
        about = summary.of_session(store, ref)
        result |= {"title": about.title, "problem": about.problem}
    else:
        with Session.open(store, ref) as session:
            sent = session.context().messages
            result |= {"sent": len(sent), "last": session.tail(1)[0].text[:20]}
            if what == "open":
                result["entries"] = len(session.entries)
    seconds = time.process_time() - started
    return {**result, "base": base, "megabytes": peak_megabytes() - base, "seconds": seconds}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])))
