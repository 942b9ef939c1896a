"""A file cut off at any byte opens with every turn that is complete, and is as good as new after the next.

Incident 1 (claude-code#53821): a power cut tore the last line of a session, and none of it was shown.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import SessionManager
from perdure.session.stores import Found
from perdure.session.stores.pi_jsonl import PiStore
from perdure.testing import user_entry
from tests.effort import some_sizes
from tests.pi_files import GOLDEN, WHOLE, in_memory, put


@pytest.fixture
def folder(tmp_path):
    """Files are cut and replaced here ten thousand times."""
    with in_memory(tmp_path) as path:
        yield path


def cuts(golden: bytes) -> Iterator[tuple[int, int, bool]]:
    """For lengths of the file: the length, how many lines of it are whole, and whether one is not."""
    for size in some_sizes(golden, step=7):
        *lines, rest = golden[:size].split(b"\n")
        whole = is_record(rest)
        yield size, len(lines) + whole, rest != b"" and not whole


def is_record(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def append(store: PiStore, ref: Found, entry) -> None:
    with store.writer(ref, after=None) as writer:
        writer.append([entry])


def restore(path: Path) -> bool:
    """Put an old version's file back if it was replaced. What was appended goes with the next cut."""
    originals = list(path.parent.glob("*.v?"))
    for original in originals:
        original.replace(path)
    return bool(originals)


@pytest.mark.long
@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_every_complete_turn_of_a_file_cut_anywhere_is_read(folder, path):
    """Each record that is there to its last brace, as it was; a notice if, and only if, one is torn."""
    golden = path.read_bytes()
    store, ref = put(folder, golden)
    whole = [entry.raw for entry in store.read(ref).entries]
    for size, lines, torn in cuts(golden):
        os.truncate(ref.path, size)
        page = store.read(ref)
        assert [entry.raw for entry in page.entries] == whole[: max(lines - 1, 0)], size
        assert [problem.line for problem in page.problems] == [lines + 1] * torn, size


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_the_append_after_a_cut_is_clean(folder, path):
    """Every complete turn and the new one are read, the torn one is still reported, nothing is glued."""
    golden = path.read_bytes()
    store, ref = put(folder, golden)
    whole = [entry.raw for entry in store.read(ref).entries]
    new = user_entry("after the cut")
    for size, lines, torn in cuts(golden):
        os.truncate(ref.path, size)
        append(store, ref, new)
        page = store.read(ref)
        assert [entry.raw for entry in page.entries] == [*whole[: max(lines - 1, 0)], new.raw], size
        replaced = restore(Path(ref.path))  # an old file's damage is in the original, not in what replaced it
        assert [problem.line for problem in page.problems] == [lines + 1] * (torn and not replaced), size


@pytest.mark.slow
@pytest.mark.long
def test_a_user_sees_every_complete_turn_of_a_file_cut_anywhere(folder):
    """Loaded, listed with a reason, saved to and loaded again, as a program does it."""
    golden = (GOLDEN / "ours.jsonl").read_bytes()
    _, ref = put(folder, golden)
    texts = [entry.text for entry in SessionManager(folder).load_session("s1")]
    messages = [number for number, line in enumerate(golden.splitlines()) if b'"message"' in line]
    for size, lines, torn in cuts(golden):
        os.truncate(ref.path, size)
        manager = SessionManager(folder, durability="process")
        complete = texts[: sum(number < lines for number in messages)]
        assert [entry.text for entry in manager.load_session("s1")] == complete, size
        assert [each.problem is not None for each in manager.list_sessions()] == [torn], size
        manager.save("s1", [user_entry("after the cut")])
        assert [entry.text for entry in manager.load_session("s1")] == [*complete, "after the cut"], size
