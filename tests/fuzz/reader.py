"""A process that reads damaged files and checks what it sees, so that its memory can be measured.

    python -m tests.fuzz.reader lines SEED COUNT FOLDER    make and read COUNT damaged lines
    python -m tests.fuzz.reader file PATH                  read one file, every way there is
    python -m tests.fuzz.reader home LAYOUT FOLDER         read all sessions there, likewise

Prints one JSON object. The lines are valid ones that were flipped, cut, glued, filled with NULs, nested and
so on; what each physical line then is, is decided here by the standard library alone.
"""

import json
import random
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from perdure import SessionManager
from perdure.session import summary, tree
from perdure.session.entry import Entry
from perdure.session.session import Session
from perdure.session.stores import Found, Problem
from perdure.session.stores.pi_jsonl import PiStore
from tests.layouts import store_of
from tests.pi_files import HEADER, OUR_HEADER, WHOLE, put, said, sealed, store_in

LINES_A_FILE = 200  # of which not so many are damaged that they are only counted
TOUCHED = 0.4

TEMPLATES = [
    line
    for path in WHOLE
    if path.stem not in ("pi-v1", "pi-v2")
    for line in path.read_bytes().splitlines()[1:]
]


# --- damage -----------------------------------------------------------------------------------------


def flip(rng: random.Random, line: bytes) -> bytes:
    data = bytearray(line)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def cut_end(rng: random.Random, line: bytes) -> bytes:
    return line[: rng.randrange(len(line))]


def cut_start(rng: random.Random, line: bytes) -> bytes:
    return line[rng.randrange(len(line)) :]


def cut_middle(rng: random.Random, line: bytes) -> bytes:
    start, end = sorted(rng.randrange(len(line) + 1) for _ in "se")
    return line[:start] + line[end:]


def glue(rng: random.Random, line: bytes) -> bytes:
    return line + rng.choice((b"", b"", b" ", b"\0", b",")) + said(f"g{rng.getrandbits(40):x}", None, "glued")


def glue_half(rng: random.Random, line: bytes) -> bytes:
    return line[: rng.randrange(len(line))] + line


def nuls(rng: random.Random, line: bytes) -> bytes:
    at, count = rng.randrange(len(line) + 1), rng.choice((1, 7, 512))
    return line[:at] + bytes(count) + line[at + rng.choice((0, count)) :]


def noise(rng: random.Random, line: bytes) -> bytes:
    at = rng.randrange(len(line) + 1)
    return line[:at] + rng.randbytes(rng.choice((1, 3, 40))) + line[at:]


def all_noise(rng: random.Random, line: bytes) -> bytes:
    return rng.randbytes(rng.randrange(200))


def nested(rng: random.Random, line: bytes) -> bytes:
    depth = rng.choice((10, 300, 900, 1100, 3000))
    shell = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
    return (
        line[:-1]
        + b',"x":'
        + shell[0] * depth
        + b"1"
        + shell[1] * rng.choice((depth, depth, depth - 1))
        + b"}"
    )


def number(rng: random.Random, line: bytes) -> bytes:
    odd = (
        b"1e400",
        b"-0",
        b"01",
        b"1.",
        b"9" * 5000,
        b"NaN",
        b"-Infinity",
        b"1e-999999",
        b"0x1",
        b"+1",
        b"1_0",
    )
    return line[:-1] + b',"x":' + rng.choice(odd) + b"}"


def odd_envelope(rng: random.Random, line: bytes) -> bytes:
    member = rng.choice(
        (b'"id"', b'"type"', b'"parentId"', b'"timestamp"', b'"message"', b'"role"', b'"content"')
    )
    value = rng.choice(
        (b"null", b"7", b"[]", b"{}", b'""', b'"\\ud800"', b'"\xff"', b"1e400", b"true", b'"session"')
    )
    return line[:-1] + b"," + member + b":" + value + b"}"


def odd_name(rng: random.Random, line: bytes) -> bytes:
    return line.replace(
        rng.choice((b'"id"', b'"type"', b'"role"', b'"text"')), rng.choice((b'"\\ud800"', b'"\xe9"')), 1
    )


def odd_text(rng: random.Random, line: bytes) -> bytes:
    odd = (
        b"\\ud83d",
        b"\xff\xfe",
        b"\xe2\x80\xa8",
        b"\xc2\x85",
        b"\\u0000",
        b"\x0b",
        b"\t",
        b"\\x",
        b"\xf0\x9f",
    )
    at = line.rfind(b'"', 0, len(line) - 4)
    return line[:at] + rng.choice(odd) + line[at:]


def broken_in_two(rng: random.Random, line: bytes) -> bytes:
    at = rng.randrange(len(line))
    return line[:at] + b"\n" + line[at:]


def other_json(rng: random.Random, line: bytes) -> bytes:
    return rng.choice(
        (b"5", b"null", b'"text"', b"[%b]" % line, b"{}", b"true", b"-", b"{", b"}", b'{"type":"session"}')
    )


def padded(rng: random.Random, line: bytes) -> bytes:
    return rng.choice((b"  %b\t", b"%b\r", b"\t%b", b"\xef\xbb\xbf%b", b"\x0c%b")) % line


def again(rng: random.Random, line: bytes) -> bytes:
    return line + b"\n" + line


def nothing(rng: random.Random, line: bytes) -> bytes:
    return rng.choice((b"", b"\n\n", b" ", b"\r"))


DAMAGE: list[Callable[[random.Random, bytes], bytes]] = [
    *(flip, cut_end, cut_start, cut_middle, glue, glue_half, nuls, noise, all_noise, nested, number),
    *(odd_envelope, odd_name, odd_text, broken_in_two, other_json, padded, again, nothing),
]


TAKE_IDS = {odd_envelope, odd_name, other_json}
"""They leave records without an id. A file with such a record is read from its start even by those who come
from its end, so half of the files have none."""


def damaged_file(rng: random.Random, count: int) -> tuple[bytes, list[bytes]]:
    """A file, and those of its records that are as they were made, in order."""
    ours = rng.random() < 0.5
    damage = DAMAGE if rng.random() < 0.5 else [each for each in DAMAGE if each not in TAKE_IDS]
    lines = [sealed(OUR_HEADER) if ours else HEADER]
    untouched = []
    parent = b"null"
    for _ in range(count):
        id = b'"%012x"' % rng.getrandbits(48)
        record = json.loads(rng.choice(TEMPLATES))
        record.pop("crc", None)
        record |= {"id": "ID", "parentId": "PARENT"}
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "backslashreplace"
        )
        line = line.replace(b'"ID"', id, 1).replace(b'"PARENT"', parent, 1)
        parent = id
        written = sealed(line) if ours else line
        if rng.random() < TOUCHED:
            lines.append(rng.choice(damage)(rng, written))
        else:
            lines.append(written)
            untouched.append(line)
    return b"\n".join(lines) + rng.choice((b"\n", b"")), untouched


# --- what is seen -----------------------------------------------------------------------------------


def verdict(line: bytes, number: int) -> str:
    """What a line is: blank, a record, no record; or unsure, where even the standard library gives up."""
    text = line.strip(b" \t\r")
    if number == 1:
        text = text.removeprefix(b"\xef\xbb\xbf")
    if not text:
        return "blank"
    try:
        value = json.loads(text.decode("utf-8", "replace"), parse_int=float)
    except RecursionError:
        return "unsure"
    except ValueError:
        return "no record"
    return "record" if isinstance(value, dict) else "no record"


def check_file(store: PiStore, ref: Found, data: bytes, untouched: list[bytes]) -> None:
    page = store.read(ref)
    named = {problem.line for problem in page.problems}
    unnamed = [
        (number, line[:200])
        for number, line in enumerate(data.split(b"\n"), 1)
        if number not in named and verdict(line, number) == "no record"
    ]
    assert not unnamed, f"not reported: {unnamed[:3]}"
    entries = iter(entry.raw for entry in page.entries)
    lost = [line for line in untouched if line not in entries]
    assert not lost, f"not loaded: {lost[:1]}"
    check_back(store, ref, page.entries, page.problems)
    use(page.entries)


def check_back(store: PiStore, ref: Found, entries: list[Entry], problems: list[Problem]) -> None:
    back_problems: list[Problem] = []
    back = [entry.raw for entry in store.read_back(ref, back_problems)]
    assert back[::-1] == [entry.raw for entry in entries], "read from the end it is another session"
    # Whether a header is where it should be is for a reading from the start to say.
    here, there = (
        sorted({each.line for each in some if "header" not in each.reason})
        for some in (problems, back_problems)
    )
    assert here == there, f"read from the end it has other problems: {here} and {there}"


def use(entries: list[Entry]) -> None:
    """Everything a program asks of entries, whatever they hold."""
    folded = tree.fold(entries)
    tree.path(folded.entries, folded.ends.head)
    for entry in folded.entries:
        assert isinstance(entry.role + entry.text, str)
    tree.labels(folded.entries)
    tree.name(folded.entries)
    tree.leaves(folded.entries)


def read_lines(seed: int, count: int, folder: Path) -> dict[str, object]:
    rng = random.Random(seed)
    touched = 0
    for start in range(0, count, LINES_A_FILE):
        data, untouched = damaged_file(rng, min(LINES_A_FILE, count - start))
        touched += LINES_A_FILE - len(untouched)
        store, ref = put(folder, data)
        check_file(store, ref, data, untouched)
        if start % (10 * LINES_A_FILE) == 0:
            manager = SessionManager(folder)
            assert [each.id for each in manager.list_sessions()] == [ref.id]
            manager.load_session(ref.id)
    return {"lines": count, "touched": touched}


def read_file(path: Path) -> dict[str, object]:
    store = store_in(path.parent)
    ref = Found(path.stem, str(path))
    started = time.process_time()
    page = store.read(ref)
    seconds = time.process_time() - started
    check_back(store, ref, page.entries, page.problems)
    manager = SessionManager(path.parent)
    listed = manager.list_sessions()[0]
    return {
        "entries": [entry.id for entry in page.entries],
        "problems": [problem.line for problem in page.problems],
        "listed": listed.problem is not None,
        "loaded": [entry.id for entry in manager.load_session(ref.id)],
        "seconds": seconds,
    }


def read_home(layout: str, folder: str) -> dict[str, object]:
    store = store_of(layout, folder)
    texts, told, seconds = [], [], 0.0
    for ref in store.list():
        started = time.process_time()
        told.append(bool(store.read(ref).problems))
        seconds = max(seconds, time.process_time() - started)
        for _ in store.read_back(ref):
            pass
        summary.of_session(store, ref)
        session = Session.view(store, ref)
        session.context()
        texts.append([entry.text for entry in session.entries])
        del session  # one is measured at a time
    return {"texts": texts, "told": told, "seconds": seconds}


def peak_megabytes() -> float:
    """The most memory this process ever had; its parent's, which `getrusage` may count in, left out."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / (2**20 if sys.platform == "darwin" else 2**10)
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def main(arguments: list[str]) -> None:
    if arguments[0] == "home":
        store_of(arguments[1], arguments[2])  # so that its modules are loaded
    base = peak_megabytes()
    match arguments:
        case ["lines", seed, count, folder]:
            result = read_lines(int(seed), int(count), Path(folder))
        case ["file", path]:
            result = read_file(Path(path))
        case ["home", layout, folder]:
            result = read_home(layout, folder)
    peak = peak_megabytes()
    print(json.dumps({**result, "megabytes": peak, "over_base": peak - base}))


if __name__ == "__main__":
    main(sys.argv[1:])
