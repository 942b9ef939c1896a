"""What was decided, as a session keeps it and as an answer marks it."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.programs.soleur.decisions import (
    LONGEST,
    Decision,
    autorecord,
    autorecords,
    decided,
    filed,
    likeness,
    marked,
    one_line,
    unfiled,
    with_tags,
)
from perdure.session.entry import Custom, Entry, new
from perdure.testing import user_entry
from tests import soleur_files as soleur

STAMP = soleur.STAMP
FIELDS = ["content", "timestamp", "session_id", "tags", "source"]


def entry_of(body: Custom, id: str = "d1", parent: str | None = None) -> Entry:
    return new(body, id=id, parent_id=parent, timestamp=STAMP)


# --- in a session -----------------------------------------------------------------------------------


def test_sol_12_a_decision_is_laid_out_among_the_decisions_of_its_document(tmp_path):
    """Its five members first, in their order, in `decisions[]`; and it is the same when it is read again."""
    made = Decision("Use SQLite — not Postgres.\nFor now.", STAMP, soleur.ID, ("db", "cost"), "AutoDetected")
    store, ref = soleur.golden(tmp_path, "plain")
    last = store.read(ref).entries[-1].id
    soleur.append(store, ref, entry_of(made.body, "5f0c1b9a7e42", last))
    document = soleur.document(ref)
    assert [*document["decisions"][-1]][:5] == FIELDS
    assert {name: document["decisions"][-1][name] for name in FIELDS} == made._asdict() | {
        "tags": ["db", "cost"]
    }
    assert "entries" not in document or "perdure.decision" not in str(document["entries"])
    assert decided(soleur.store_in(tmp_path).read(ref).entries)[-1] == made


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)


@given(
    st.builds(
        Decision,
        texts,
        st.sampled_from([STAMP, "2025-12-31T23:59:59Z", "2026-01-31T09:05:00.123456Z"]),
        st.text(st.characters(exclude_categories=["Cs"])),
        st.lists(texts).map(tuple),
        st.sampled_from(["Manual", "AutoDetected"]),
    )
)
def test_sol_12_every_decision_comes_back_from_its_entry_and_from_its_document(decision):
    """Whatever was decided."""
    entry = entry_of(decision.body)
    assert Decision.of(entry) == decision
    assert decided(soleur.rewritten([entry]).entries) == [decision]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ({"content": "x"}, Decision("x", STAMP, "")),
        ({"content": "x", "timestamp": "yesterday", "tags": None, "source": None}, Decision("x", STAMP, "")),
        ({"content": "x", "tags": ["a", 1, "b"], "session_id": 7}, Decision("x", STAMP, "", ("a", "b"))),
        (
            {"content": "x", "timestamp": "2026-01-31T10:05:00+01:00", "source": "auto"},
            Decision("x", "2026-01-31T09:05:00.000Z", "", (), "AutoDetected"),
        ),
        ({"content": " \n"}, None),
        ({"content": 5}, None),
        (["x"], None),
        (None, None),
    ],
)
def test_sol_12_what_other_programs_call_a_decision_is_read_as_far_as_it_is_one(data, found):
    """Time in UTC; what is missing or makes no sense is left open."""
    assert Decision.of(entry_of(Custom("perdure.decision", data))) == found


def test_sol_12_only_decisions_are_decided():
    """Not what only mentions one, nor the state of another program."""
    other = entry_of(Custom("other.decision", {"content": "perdure.decision"}))
    assert decided([user_entry("perdure.decision"), other, entry_of(Custom("perdure.decision"))]) == []


# --- what an answer marks ---------------------------------------------------------------------------

MARKS = {
    "one": ("So: [DECISION: Use SQLite.] Next?", ["Use SQLite."]),
    "any case": ("[Decision:a] [decision: b] [DECISION:c]", ["a", "b", "c"]),
    "not another alphabet": ("[DECİSİON: a]", []),
    "in bold, in a list, in a quote": ("- **[DECISION: a]**\n> [DECISION: b]", ["a", "b"]),
    "brackets inside": ("[DECISION: use list[int] and [[x]]]", ["use list[int] and [[x]]"]),
    "over lines": ("[DECISION:\n  use\tSQLite\r\n  for now\n\n (really)\n]", ["use SQLite for now (really)"]),
    "once": ("[DECISION: Use X] [DECISION: use  x.] [DECISION: Use X]", ["Use X"]),
    "nothing": ("[DECISION:] [DECISION:  ] [DECISION: …] [DECISION: ...] [DECISION: ....]", []),
    "not closed": ("[DECISION: use SQLite\n\nand more", []),
    "not closed, brackets": ("[DECISION: half-open [0, 1) is used]", []),
    "not closed before the next": ("[DECISION: a [DECISION: b]", ["b"]),
    "one in another": ("[DECISION: a [DECISION: b] c]", ["b"]),
    "closed without one": ("] [a]] [DECISION: b]]", ["b"]),
    "in a line of code": ("Write `[DECISION: a]` or ``x ` [DECISION: b]``. [DECISION: c]", ["c"]),
    "code inside": ("[DECISION: use `]` and `[DECISION: x]`, `[`]", ["use `]` and `[DECISION: x]`, `[`"]),
    "a lone backtick": ("it`s so: [DECISION: a]\n\nthat`s it", ["a"]),
    "backticks of other lengths": ("``a` [DECISION: b]", ["b"]),
    "code ends with its paragraph": ("a ` b\n\n[DECISION: c] `", ["c"]),
    "in a block": ("```\n[DECISION: a]\n```\n[DECISION: b]", ["b"]),
    "in a longer block": ("~~~~ text\n```\n~~~\n[DECISION: a]\n~~~~\n[DECISION: b]", ["b"]),
    "in a block that goes on": ("[DECISION: a]\n```md\n[DECISION: b]", ["a"]),
    "in a block of an item": ("1. ```\n   [DECISION: a]\n   ```\n2. [DECISION: b]", ["b"]),
    "in a block of a quote": ("> ```\n> [DECISION: a]\n> ```\n[DECISION: b]", ["b"]),
    "no block": ("```a``` [DECISION: b]\n[DECISION: c]", ["b", "c"]),
    "escaped": (r"\[DECISION: a\] and [DECISION: b \] c]", [r"b \] c"]),
    "an escaped backtick": (r"\`[DECISION: a]`", ["a"]),
    "as long as can be": (f"[DECISION: {'x' * LONGEST}]", ["x" * LONGEST]),
    "too long": (f"[DECISION: {'x' * (LONGEST + 1)}] [DECISION: b]", ["b"]),
    "only the blanks are too long": (f"[DECISION:{' ' * LONGEST}a{' ' * LONGEST}b]", ["a b"]),
}


@pytest.mark.parametrize(("text", "found"), MARKS.values(), ids=MARKS)
def test_sol_12_a_mark_in_an_answer_is_a_decision(text, found):
    """[DECISION: …] where it is said, and not where it is shown."""
    assert marked(text) == found


prose = st.text(st.characters(exclude_characters="[]`~\\\n", exclude_categories=["Cs"]), min_size=1)
plain = prose.filter(lambda text: text.strip(" .…\t") and len(text) <= LONGEST and text.split())
pieces = st.one_of(
    plain.map(lambda text: ("said", text)),
    prose.map(lambda text: ("prose", f" {text} ")),
    prose.map(lambda text: ("prose", f" `[DECISION: {text}]` ")),
    prose.map(lambda text: ("prose", f"\n\n~~~\n[DECISION: {text}]\n~~~\n\n")),
)


@given(st.lists(pieces))
def test_sol_12_all_marks_are_found_whatever_stands_around_them(pieces):
    """Each decision that was said, once, in order; no example of one."""
    text = "".join(f"[DECISION: {text}]" if kind == "said" else text for kind, text in pieces)
    said = [" ".join(text.split()) for kind, text in pieces if kind == "said"]
    first = {likeness(each): each for each in reversed(said)}
    assert sorted(marked(text)) == sorted(first.values())
    assert marked(text) == [
        each for number, each in enumerate(said) if likeness(each) not in _like(said[:number])
    ]


def _like(texts):
    return {likeness(each) for each in texts}


@given(
    st.lists(st.sampled_from([*"[]`~\\ \n>…", "[DECISION:", "[decision: a]", "```\n", "é", "- ", "x"])).map(
        "".join
    )
)
def test_sol_12_whatever_an_answer_is_its_decisions_are_short_lines(text):
    """On one line, bounded, each once, none with another in it but as code."""
    found = marked(text)
    assert len({likeness(each) for each in found}) == len(found)
    for each in found:
        assert each == " ".join(each.split())
        assert 0 < len(each) <= LONGEST
        assert "[decision:" not in each.lower() or "`" in each or "\\" in each


HOSTILE = {
    "marks": lambda size: "[DECISION:" * (size // 10),
    "marks that are closed": lambda size: "[DECISION:a" * (size // 22) + "]" * (size // 2),
    "brackets": lambda size: "[DECISION: " + "[" * size,
    "closing brackets": lambda size: "]" * size,
    "backticks of all lengths": lambda size: " ".join("`" * n for n in range(1, int((2 * size) ** 0.5))),
    "lone backticks": lambda size: "`\n\n" * (size // 3),
    "fences": lambda size: "~~~\n```\n" * (size // 8),
    "deep quotes": lambda size: ">" * (size // 2) + "- " * (size // 4),
    "backslashes": lambda size: "\\" * size,
    "blanks": lambda size: "[DECISION:" + " \n" * (size // 2) + "]",
}


@pytest.mark.parametrize("made", HOSTILE.values(), ids=HOSTILE)
def test_sol_12_a_hostile_answer_takes_steps_in_proportion_to_its_length(made):
    """Twice the text, at most about twice the steps."""
    steps = []
    for size in (4_000, 8_000):
        counted = 0

        def count(*_):
            nonlocal counted
            counted += 1

        text, before = made(size), sys.getprofile()
        sys.setprofile(count)
        try:
            marked(text)
        finally:
            sys.setprofile(before)
        steps.append(counted)
    assert steps[1] < 2.2 * steps[0] + 100


@pytest.mark.slow
def test_sol_12_a_megabyte_of_unclosed_marks_has_no_decision():
    """Nor anything else that goes on for ever."""
    assert [marked(HOSTILE[name](2**20)) for name in ("marks", "deep quotes")] == [[], []]


# --- tags -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Use SQLite #db #cost", ("Use SQLite", ("db", "cost"))),
        ("  Use SQLite   #db, #cost\n", ("Use SQLite", ("db", "cost"))),
        ("Use #SQLite for now", ("Use #SQLite for now", ())),
        ("Fix #1 first #bug", ("Fix #1 first", ("bug",))),
        ("Fix issue #1", ("Fix issue #1", ())),
        ("Use C# #lang #c++ #a/b #v1.2", ("Use C#", ("lang", "c++", "a/b", "v1.2"))),
        ("Use it #db #db", ("Use it", ("db",))),
        ("Use it #", ("Use it #", ())),
        ("Use it #_x", ("Use it #_x", ())),
        ("Use it #db.", ("Use it", ("db",))),
        ("We charge per seat. #pricing!", ("We charge per seat.", ("pricing",))),
        ("Use it #a,#b", ("Use it", ("a", "b"))),
        ("Use it #a;#b, #v1.2.", ("Use it", ("a", "b", "v1.2"))),
        ("Use it #a,b", ("Use it #a,b", ())),
        ("Use it #a,#1", ("Use it #a,#1", ())),
        ("Über #größe #日本", ("Über", ("größe", "日本"))),
        ("#db #cost", ("#db #cost", ())),
        ("", ("", ())),
    ],
)
def test_sol_12_words_with_a_number_sign_at_the_end_are_tags(text, found):
    """Those that begin with a letter; there is always a text left."""
    assert with_tags(text) == found


@given(
    texts.map(str.strip), st.lists(st.from_regex(r"[a-z][a-z0-9_-]{0,8}[a-z]", fullmatch=True), unique=True)
)
def test_sol_12_tags_that_were_put_behind_a_text_are_found(text, tags):
    """And the text is as it was, unless it ended in tags itself."""
    rest, before = with_tags(text)
    said = " ".join([text, *(f"#{tag}" for tag in tags)])
    if rest == text:
        only_tags = with_tags(f"x {text}")[0] == "x"
        assert with_tags(said) == ((said, ()) if only_tags else (text, tuple(tags)))
    else:
        assert with_tags(said) == (rest, tuple(dict.fromkeys([*before, *tags])))


# --- which are the same -----------------------------------------------------------------------------------


@given(st.text())
def test_sol_12_a_decision_is_like_itself_however_it_is_spaced_and_ended(text):
    """And its likeness is that of a line in a list."""
    like = likeness(text)
    assert likeness(like) == like
    assert likeness(one_line(text)) == like
    assert likeness(f" \n{text}\t") == like
    if text.split():
        assert likeness(" \r\n".join(text.split())) == like
    if like.strip(" .,;:!?"):
        assert likeness(f"{text} .!") == like
        assert likeness(f"{text} and more") != like


@pytest.mark.parametrize(
    "around", ["**{}**", "_{}_", "`{}`", '"{}"', "'{}'", "“{}”", "\u2018{}\u2019.", "«{}»", "**“{}.”**"]
)
def test_sol_12_a_decision_is_the_same_however_it_is_stressed_quoted_and_spelled(around):
    """With its accents in the letters, or behind them."""
    composed, apart = "Caf\N{LATIN SMALL LETTER E WITH ACUTE}s pay", "Cafe\N{COMBINING ACUTE ACCENT}s pay"
    assert likeness(around.format(apart)) == likeness(around.format(composed)) == likeness(composed)


def test_sol_12_what_differs_in_more_is_another_decision():
    """But signs alone are something too."""
    assert likeness("Use  SQLITE.") == likeness("use sqlite") == likeness("Use SQLite…")
    assert likeness("Use SQLite") != likeness("Do not use SQLite")
    assert len({likeness(signs) for signs in ("???", "!!!", "*", "**", '"', "")}) == 6
    assert likeness("Use *SQLite* only") != likeness("Use SQLite only")


# --- whether answers are searched -------------------------------------------------------------------------


def test_sol_12_what_a_session_said_last_of_autorecord_counts():
    """Else the default; what is no word on it is none."""
    on, off = entry_of(autorecord(True)), entry_of(autorecord(False))
    nothing = [entry_of(Custom("perdure.autorecord", data)) for data in ({"on": "no"}, {}, None)]
    assert [autorecords([user_entry("hi"), *nothing], default) for default in (True, False)] == [True, False]
    assert autorecords([on, off, *nothing], True) is False
    assert autorecords([off, user_entry("hi"), on], False) is True


def test_sol_12_a_session_knows_which_of_its_decisions_have_come_into_the_ledger():
    """The first ones, as the highest mark says. Without one, none has."""
    entries = [new(Decision(text, "", "s").body, id=text) for text in ("one", "two", "three")]
    assert [each.content for each in unfiled(entries)] == ["one", "two", "three"]
    marked_at = [*entries[:2], new(filed(2), id="m"), entries[2], new(filed(1), id="n")]
    assert [each.content for each in unfiled(marked_at)] == ["three"]
    assert unfiled([*marked_at, new(filed(7), id="o")]) == []
    odd = [new(Custom("perdure.filed", data), id="p") for data in ({"count": "3"}, {}, None, [3])]
    assert len(unfiled([*entries, *odd])) == 3
