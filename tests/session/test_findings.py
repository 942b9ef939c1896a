"""Of very many findings a hundred are told and the others counted, in every layout and wherever told."""

from pathlib import Path

import pytest

from perdure.session import doctor, summary, tree
from perdure.session.entry import Message, User, new
from perdure.session.findings import MOST, how_many
from perdure.session.stores import Found, Header, Problem, Store, note
from perdure.testing.writing import turns
from tests.layouts import ALL, store_of

MANY = 1000
STAMP = "2026-01-31T09:05:00.123Z"


def damaged(layout: str, home: Path) -> tuple[Store, Found]:
    """A session of three turns with a thousand bad places among them."""
    store = store_of(layout, home)
    header = Header("", STAMP, cwd="/home/me/api")
    ref = store.create(header._replace(id=store.new_id(header)), turns(3))
    path = Path(ref.path, "messages.jsonl") if Path(ref.path).is_dir() else Path(ref.path)
    text = path.read_bytes()
    match layout:
        case "soleur":
            bad = b'"entries": [%b],\n  "decisions": []' % b",".join([b'{"after": 1, "record": "no"}'] * MANY)
            text = text.replace(b'"decisions": []', bad.replace(b'{"after"', b'\n    {"after"'))
        case "sibyl":
            text = text.replace(b":messages (\n", b":messages (\n" + b'(:role "")\n' * MANY)
        case _:
            first, _, rest = text.partition(b"\n")
            text = first + b"\n" + b"no record\n" * MANY + rest
    path.write_bytes(text)
    return store, ref


@pytest.mark.parametrize("layout", ALL)
def test_r13_of_a_thousand_bad_places_a_hundred_are_told_and_all_counted(layout, tmp_path):
    """By every reading, by doctor, and in the one line of a listing; what is whole is read."""
    store, ref = damaged(layout, tmp_path)
    page = store.read(ref)
    assert sum(entry.type == "message" for entry in page.entries) == len(turns(3))
    assert MOST < len(page.problems) < MOST + 10
    assert how_many(page.problems) >= MANY
    assert len({problem.line for problem in page.problems}) >= MOST
    back: list[Problem] = []
    assert [entry.id for entry in store.read_back(ref, back)][::-1] == [entry.id for entry in page.entries]
    assert MOST < len(back) < MOST + 10
    assert how_many(back) >= MANY
    findings = doctor.examine(store, ref).findings
    assert len(findings) < MOST + 10
    assert how_many(findings) >= MANY
    told = summary.first_of([problem.brief for problem in page.problems])
    assert told
    assert f"(and {how_many(page.problems) - 1:,} more)" in told


@pytest.mark.parametrize("layout", ["pi", "aurora"])
def test_a_repair_leaves_out_also_what_is_only_counted(layout, tmp_path):
    """And keeps the good lines behind it byte for byte."""
    store, ref = damaged(layout, tmp_path)
    path = Path(ref.path)
    good = [line for line in path.read_bytes().splitlines() if line != b"no record"]
    assert store.repair(ref)
    assert path.read_bytes().splitlines() == good


def test_what_is_wrong_with_a_tree_is_counted_beyond_a_hundred():
    """A thousand entries whose parents are missing give a hundred notices, and one for the rest."""
    lost = [new(Message(User("hello")), id=f"e{n}", parent_id="gone", timestamp=STAMP) for n in range(MANY)]
    folded = tree.fold(lost)
    assert len(folded.entries) == MANY
    assert len(folded.notices) == MOST + 1
    assert how_many(folded.notices) == MANY
    assert f"{MANY - MOST:,}" in folded.notices[-1]


def test_a_problem_that_is_the_last_of_few_is_told_itself():
    """No more is said of one problem than of a hundred others."""
    problems: list[Problem] = []
    for number in range(1, MOST + 2):
        note(problems, Problem("f", number, "bad"))
    assert problems[-1].line == MOST + 1
    note(problems, Problem("f", MOST + 2, "bad"))
    assert problems[-1].stands_for == 2
    assert not problems[-1].is_torn_end
    assert str(problems[-1]) == problems[-1].brief
    assert str(problems[-1]).startswith("2 ")
