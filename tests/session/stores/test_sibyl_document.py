"""How many commands there were: what a session's file says, what is counted, and what is not."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.session import context
from perdure.session.entry import Compaction, Custom, Entry, Label, new
from perdure.session.session import Session
from perdure.session.sexp import Keyword
from perdure.session.stores import Header
from perdure.session.stores.sibyl_document import COMMANDS, commands_of, is_counted, text_of
from perdure.session.stores.sibyl_format import properties
from perdure.session.stores.sibyl_reader import document_of
from perdure.session.stores.whole_file import Document
from perdure.testing import assistant_entry, tool_result_entry, user_entry
from perdure.testing.writing import child
from tests.generated import sessions
from tests.sibyl_files import GOLDEN, read_form, store_in

STAMP = "2026-01-31T09:05:00.123Z"


def commands(count) -> Entry:
    return new(Custom(COMMANDS, {"count": count}), id="")


def header(told: object = None) -> Header:
    return Header("s1", STAMP, facts={} if told is None else {"command_count": told})


def chained(entries, after: Entry | None = None) -> list[Entry]:
    """The same, each the child of the one before it and with an id of its own."""
    made: list[Entry] = []
    for number, entry in enumerate(entries):
        record = entry if entry.id else new(entry.body, id=f"c{number}-{after.id if after else ''}")
        made.append(child(record, made[-1] if made else after))
    return made


def printed_count(document: Document) -> object:
    form = read_form(text_of(document, STAMP))
    return properties(form[2:])[Keyword("command-count")]


def read_again(document: Document) -> Document:
    again = document_of("s1", "s1", text_of(document, STAMP).encode())
    assert again.problems == []
    return again


def of(entries, told: object = None) -> Document:
    return Document(header(told), list(entries), [], {})


NO_COUNT = [True, False, -1, 2.5, "7", None, [], {}]
counts = st.one_of(st.integers(0, 20), st.just(10**30))
steps = st.one_of(
    st.just("user"),
    st.just("assistant"),
    st.just("tool"),
    st.just("reset"),
    st.just("label"),
    st.just("summary"),
    st.tuples(st.just(COMMANDS), counts),
    st.tuples(st.just(COMMANDS), st.sampled_from(NO_COUNT)),
)


def entry_of(step) -> Entry:
    match step:
        case "user":
            return user_entry("do this")
        case "assistant":
            return assistant_entry("done")
        case "tool":
            return tool_result_entry("file")
        case "reset":
            return new(Custom(context.RESET), id="")
        case "label":
            return new(Label("x", "y"), id="")
        case "summary":
            return new(Compaction("they spoke"), id="")
    return commands(step[1])


def expected(steps, told: object) -> int:
    """The same said in another way."""
    counted: int | None = None
    for step in steps:
        if isinstance(step, tuple) and not any(step[1] is each for each in NO_COUNT):
            counted = step[1]
        elif step == "user" and counted is not None:
            counted += 1
    return max(counted or 0, told if isinstance(told, int) and not isinstance(told, bool) else 0, 0)


@given(
    st.lists(steps, max_size=12), st.lists(steps, max_size=6), st.one_of(counts, st.sampled_from(NO_COUNT))
)
@example([(COMMANDS, 0), "user", "assistant", "user"], ["user"], None)
@example(["user", (COMMANDS, 5), "user", (COMMANDS, 2), "user"], ["reset", "user"], 4)
@example([(COMMANDS, 3), "user", (COMMANDS, True), "user"], [], True)
def test_sib_16_the_file_says_what_is_counted(before, after, told):
    """The last number that an entry gave and one for each prompt behind it, or what the file spoke of if that
    is more; the same when it is read again, and when the conversation goes on."""
    document = of(chained(map(entry_of, before)), told)
    count = commands_of(document.entries, document.header)
    assert printed_count(document) == count == expected(before, told)
    again = read_again(document)
    assert printed_count(again) == commands_of(again.entries, again.header) == count
    more = chained(map(entry_of, after), again.entries[-1] if again.entries else None)
    longer = again._replace(entries=[*again.entries, *more])
    count = commands_of(longer.entries, longer.header)
    assert printed_count(longer) == count == max(expected([*before, *after], told), expected(before, told))


@given(sessions(), st.lists(st.tuples(st.integers(0, 30), counts), max_size=3))
def test_sib_16_on_whichever_branch_the_conversation_stands(made, bases):
    """Whatever else there is: only the active path counts, and reading it again changes nothing."""
    entries = [*made]
    for number, (at, count) in enumerate(bases):
        parent = entries[at % len(entries)] if entries else None
        entries.append(child(new(Custom(COMMANDS, {"count": count}), id=f"base-{number}"), parent))
        entries.append(child(user_entry("more"), entries[-1]))
    document = of(entries)
    count = commands_of(document.entries, document.header)
    assert printed_count(document) == count
    if bases:
        assert count == bases[-1][1] + 1
    again = document_of("s1", "s1", text_of(document, STAMP).encode())
    assert printed_count(again) == commands_of(again.entries, again.header) == count


@given(st.lists(steps, max_size=12), st.one_of(counts, st.none()))
def test_sib_16_the_next_prompt_is_one_more(before, told):
    """By itself where it is said so, and else behind one entry, after which it is so by itself."""
    document = of(chained(map(entry_of, before)), told)
    entries, count = document.entries, commands_of(document.entries, document.header)
    if not is_counted(entries, document.header):
        entries += chained([commands(count)], entries[-1] if entries else None)
    for number in range(1, 4):
        assert is_counted(entries, document.header)
        entries += chained([user_entry("next"), assistant_entry("done")], entries[-1])
        assert commands_of(entries, document.header) == printed_count(document) == count + number


def test_sib_16_one_entry_is_enough_for_a_conversation(tmp_path):
    """An open session and its file say the same after each message, and after a restart."""
    store = store_in(tmp_path)
    ref = store.create(Header("s1", STAMP), [])
    for first in (0, 3):
        with Session.open(store, ref) as session:
            assert commands_of(session.entries, session.header) == first
            assert is_counted(session.entries, session.header) == bool(first)
            if not first:
                session.append(Custom(COMMANDS, {"count": 0}))
            for number in range(first + 1, first + 4):
                session.append(user_entry(f"prompt {number}"))
                session.append(assistant_entry("done"))
                assert commands_of(session.entries, session.header) == number
                page = store.read(ref)
                assert page.header.facts == {"command_count": number}
    kinds = [entry.type for entry in page.entries]
    assert (kinds.count("custom"), kinds.count("message")) == (1, 12)


def test_sib_16_another_programs_count_stays_as_it_is():
    """Nobody counts for it: its commands are not only what its user said."""
    document = document_of("s1", "s1", (GOLDEN / "document.lisp").read_bytes())
    assert not is_counted(document.entries, document.header)
    more = chained([user_entry("more"), user_entry("and more")], document.entries[-1])
    longer = document._replace(entries=[*document.entries, *more])
    assert printed_count(longer) == printed_count(document) == 3


@pytest.mark.parametrize(("text", "count"), [("t", 0), ("-4", 0), ("2.5", 0), ('"7"', 0), ("9" * 5000, None)])
def test_sib_16_a_count_of_any_kind_is_read_and_printed(text, count):
    """One that is none is none, and one that is far too long is one all the same; the file stays sound."""
    form = f'(:repl-session (:session-version 1) :id "s1" :command-count {text} :messages nil)'
    document = read_again(document_of("s1", "s1", form.encode()))
    assert commands_of(document.entries, document.header) == (10**5000 - 1 if count is None else count)
    assert (f" :command-count {text}\n" in text_of(document, STAMP)) == (count is None)
