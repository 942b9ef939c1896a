"""Whatever is in a file of any layout, reading it does not fail, and says the same from both ends."""

import os
import random
from pathlib import Path

import pytest

from perdure.session import doctor, tree
from perdure.session.entry import Entry
from perdure.session.stores import Header
from perdure.testing import tool_call_entry, tool_result_entry
from perdure.testing.corpus import KINDS
from perdure.testing.writing import child, turns
from tests.fuzz import reader
from tests.layouts import ALL, store_of

LINES = int(os.environ.get("PERDURE_FUZZ_LINES") or 20_000)
LINES_A_FILE = 40
FILES = LINES // LINES_A_FILE if LINES >= 1_000_000 else LINES // 1000
DAMAGES = [reader.flip, reader.cut_end, reader.cut_start, reader.cut_middle, reader.glue]
NOISE = [
    b"\0" * 50,
    b"}{",
    b'"',
    b"\\",
    b"\n",
    b")",
    b"(:role :user",
    b'{"role":"user"',
    b"#.(quit)",
    b"\xff\xfe",
]


def damaged(rng: random.Random, data: bytes) -> bytes:
    """One or two places hit: the bytes, a line of them, or all of it."""
    for _ in range(rng.choice((1, 1, 2))):
        lines = data.split(b"\n")
        at = rng.randrange(len(lines))
        match rng.randrange(4):
            case 0:
                lines[at] = rng.choice(DAMAGES)(rng, lines[at] or b"{")
                data = b"\n".join(lines)
            case 1:
                place = rng.randrange(len(data) + 1)
                data = data[:place] + rng.choice(NOISE) + data[place:]
            case 2:
                rng.shuffle(lines)
                data = b"\n".join(lines)
            case _:
                data = rng.choice(DAMAGES)(rng, data or b"{")
    return data


def _is_kept_as_it_was(new: Entry, old: Entry) -> bool:
    """True if a repair changed nothing, or where the entry stands: its id, its parent."""
    return new == old or (new.type == old.type and (new.id, new.parent_id) != (old.id, old.parent_id))


@pytest.mark.slow
@pytest.mark.parametrize("layout", ALL)
def test_r13_a_damaged_file_is_read_and_what_is_wrong_with_it_is_told(layout, seed, tmp_path):
    """No exception but of a file that cannot be opened; problems name lines there are; every way agrees."""
    rng = random.Random(seed)
    store = store_of(layout, tmp_path)
    said = turns(12)
    said += [child(tool_call_entry("bash", {"command": "ls"}), said[-1]), tool_result_entry("a.py")]
    said += [child(make(), said[-1]) for make in KINDS.values()]
    header = Header("", "2026-01-31T09:05:00.123Z", cwd="/home/me/code")
    ref = store.create(header._replace(id=store.new_id(header)), said)
    path = Path(ref.path)
    whole = path.read_bytes()
    told = 0
    for _ in range(FILES):
        path.write_bytes(data := damaged(rng, whole))
        page = store.read(ref)
        assert [each.id for each in store.read_back(ref)][::-1] == [each.id for each in page.entries]
        last = data.count(b"\n") + 1
        assert all(0 <= problem.line <= last for problem in page.problems if problem.path == ref.path)
        kept = doctor.examine(store, ref).kept
        assert all(_is_kept_as_it_was(new, old) for new, old in zip(kept, page.entries, strict=True))
        assert tree.in_place(kept) == (list(kept), [])
        told += bool(page.problems)
    assert told > FILES // 3
