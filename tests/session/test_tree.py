"""Entries as a tree: pure, and no entry without a place."""

from hypothesis import given
from hypothesis import strategies as st

from perdure.session import tree
from perdure.session.entry import Custom, Entry, Label, Message, SessionInfo, User, decode, new, placed
from tests.generated import sessions


def said(id: str, parent: str | None, text: str = "") -> Entry:
    return new(Message(User(text or id)), id=id, parent_id=parent, timestamp="2026-01-31T09:05:00.000Z")


def texts(entries):
    return [entry.text for entry in entries]


@given(sessions())
def test_a_sound_session_folds_to_itself(entries):
    """Without damage the fold keeps every entry as it is, and has nothing to say."""
    folded = tree.fold(entries)
    assert folded.entries == entries
    assert folded.notices == []


@given(sessions(), st.randoms(use_true_random=False))
def test_whatever_the_damage_every_entry_gets_one_place(entries, random):
    """Entries lost, repeated and shuffled: each id once, parents before children, nothing dropped."""
    damaged = [entry for entry in entries if random.random() > 0.2]
    damaged += [random.choice(damaged) for _ in range(3) if damaged]
    damaged += [placed(random.choice(damaged), parent_id=None) for _ in range(2) if damaged]
    random.shuffle(damaged)
    folded = tree.fold(damaged)
    seen: set[str | None] = {None}
    for entry in folded.entries:
        assert entry.id not in seen
        assert entry.parent_id in seen
        seen.add(entry.id)
    assert {entry.id for entry in damaged} <= seen
    again = tree.fold(folded.entries)
    assert (again.entries, again.notices) == (folded.entries, [])
    for leaf in tree.leaves(folded.entries):
        assert tree.path(folded.entries, leaf.id)[-1] == leaf


@given(sessions())
def test_the_path_read_from_the_end_is_the_path(entries):
    """Walking back from the head meets the same entries as folding the whole file."""
    folded = tree.fold(entries)
    head = folded.ends.head
    forwards = tree.path(folded.entries, head)
    assert list(tree.path_back(reversed(entries), head)) == forwards[::-1]


@given(sessions(), st.data())
def test_ends_do_not_depend_on_how_much_is_read_at_once(entries, data):
    """Reading a file in two parts ends where reading it in one does."""
    at = data.draw(st.integers(0, len(entries)))
    first = tree.ends(reversed(entries[:at]))
    assert tree.advanced(first, entries[at:]).head == tree.ends(reversed(entries)).head


@given(sessions(), st.randoms(use_true_random=False))
def test_the_ends_read_from_the_end_are_those_of_the_tree(entries, random):
    """Entries lost and names put anywhere: the same head and the same tip, or none without the whole file."""
    damaged = [entry for entry in entries if random.random() > 0.2]
    for number in range(3):
        parent = random.choice([None, "gone", *(entry.id for entry in damaged)])
        name = new(SessionInfo("x"), id=f"n{number}", parent_id=parent, timestamp="2026-01-31T09:05:00.000Z")
        damaged.insert(random.randrange(len(damaged) + 1), name)
    try:
        assert tree.ends(reversed(damaged)) == tree.fold(damaged).ends
    except LookupError:
        assert tree.fold(damaged).notices


def test_ends_read_no_more_than_it_takes():
    """One entry where nothing is noted behind the head, and all of what is, back to where that belongs."""
    talk = [said("a", None), said("b", "a"), said("c", "b"), said("d", "c")]
    for parent, read in ((None, 1), ("d", 2), ("b", 4)):
        note = [] if parent is None else [new(SessionInfo("x"), id="n", parent_id=parent, timestamp="")]
        newest_first = iter([*talk, *note][::-1])
        assert tree.ends(newest_first) == tree.Ends("d", "n" if parent == "d" else "d")
        assert len(list(newest_first)) == len(talk) + len(note) - read


def test_an_entry_written_twice_counts_once():
    """openai/codex#24425: the same record again collapses, silently."""
    a, b = said("a", None), said("b", "a")
    folded = tree.fold([a, b, a, b])
    assert (folded.entries, folded.notices) == ([a, b], [])


def test_the_same_id_with_other_content_stays_under_a_new_id():
    """Both are kept, the second is announced, and its children follow it."""
    folded = tree.fold([said("a", None), said("x", "a", "one"), said("x", "a", "two"), said("c", "x")])
    assert [entry.id for entry in folded.entries] == ["a", "x", "x.2", "c"]
    assert texts(tree.path(folded.entries, folded.ends.head)) == ["a", "two", "c"]
    assert len(folded.notices) == 1
    assert "x.2" in folded.notices[0]


def test_a_dangling_parent_falls_back_to_file_order():
    """claude-code#24304, #22526: a lost parent costs that link, not the conversation before it."""
    folded = tree.fold([said("a", None), said("b", "lost"), said("c", "b")])
    assert texts(tree.path(folded.entries, "c")) == ["a", "b", "c"]
    assert len(folded.notices) == 1


def test_entries_that_are_each_others_parent_do_not_hang():
    folded = tree.fold([said("a", "b"), said("b", "a"), said("c", "c")])
    assert texts(tree.path(folded.entries, folded.ends.head)) == ["a", "b", "c"]
    assert len(folded.notices) == 2


def test_metadata_never_moves_the_head():
    """agegr/pi-web#943: a label or a name as last line leaves the conversation where it was."""
    talk = [said("a", None), said("b", "a"), said("c", "a")]
    for body in (Label("b", "old"), SessionInfo("name"), Custom("perdure.status")):
        entries = [*talk, new(body, id="m", parent_id="b")]
        assert tree.fold(entries).ends == tree.Ends("c", "c")


def test_what_follows_metadata_is_chained_behind_it():
    """As the original pi does: a label hangs behind the head, and the next message behind the label."""
    entries = [
        said("a", None),
        new(Label("a", "x"), id="m", parent_id="a"),
        new(SessionInfo("n"), id="n", parent_id="m"),
    ]
    assert tree.fold(entries).ends == tree.Ends("a", "n")


def test_labels_and_names_are_the_last_word():
    entries = [
        said("a", None),
        new(Label("a", "one"), id="1"),
        new(Label("a", "two"), id="2"),
        new(SessionInfo("first"), id="3"),
        new(SessionInfo(" second "), id="4"),
    ]
    assert tree.labels(entries) == {"a": "two"}
    assert tree.name(entries) == "second"
    assert tree.labels([*entries, new(Label("a"), id="5")]) == {}
    assert tree.name([*entries, new(SessionInfo(""), id="6")]) == ""


def test_branches_are_the_conversations_own():
    """A fork is where two messages follow one; a label beside a message is none."""
    entries = [
        said("a", None),
        said("b", "a"),
        said("c", "a"),
        new(Label("a", "x"), id="m", parent_id="c"),
        said("d", "m"),
    ]
    assert tree.forks(entries) == ["a"]
    assert [leaf.id for leaf in tree.leaves(entries)] == ["b", "d"]


def test_unknown_kinds_have_their_place_in_the_path():
    entries = [said("a", None), decode(b'{"type":"zebra","id":"z","parentId":"a"}'), said("b", "z")]
    assert [entry.id for entry in tree.path(entries, "b")] == ["a", "z", "b"]


def test_an_entry_that_stands_there_again_is_where_the_talk_goes_on():
    """The original pi, killed while it wrote a file anew: reading from either end finds the same head."""
    entries = [said("a", None), said("b", "a"), said("c", "b"), said("a", None)]
    assert tree.fold(entries).ends == tree.ends(reversed(entries)) == tree.Ends("a", "a")


def test_an_entry_whose_parent_is_missing_still_counts_once():
    """It was given another parent; the same record again is the same entry all the same."""
    lost = said("a", "gone")
    folded = tree.fold([lost, said("b", "a"), lost])
    assert [entry.id for entry in folded.entries] == ["a", "b"]
    assert len(folded.notices) == 1
