"""The questions of soleur without a language model: about what there is, quoted, and none twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.programs.soleur.sparring import Material, ask
from perdure.programs.soleur.sparring_text import sentences
from tests.generated import texts

README = """# Rota

[![tests](https://example.com/x.svg)](https://example.com)

Rota is the easiest way for small teams to plan shifts. **Managers** need it every week.

```
pip install rota
```

- We plan to charge per seat once we have 100 teams.
"""
PRICE = ("2026-01-31T09:05:00.000Z", "We charge 20 dollars a seat.")


def asked_of(*said: str, files=(), decisions=()) -> list[str]:
    """The answers of a conversation, one after the other."""
    asked: list[str] = []
    for count in range(len(said)):
        asked.append(ask(Material(files, decisions, said[: count + 1], asked)))
    return asked


def test_who_speaks_first_asks_about_a_claim_of_the_readme():
    """Quoted as it stands there."""
    answer = ask(Material([("README.md", README)], [], [], []))
    assert answer.startswith("README.md says “We plan to charge per seat once we have 100 teams”. ")
    assert answer.endswith("?\n")


@pytest.mark.parametrize(
    ("said", "asks"),
    [
        ("Everybody needs this.", "Name one of them."),
        ("We will sell it for 20 dollars.", "Who has paid 20 dollars already"),
        ("Three teams paid 20 dollars each.", "How many did you ask who did not"),
        ("It is faster than all others.", "Compared with what"),
        ("I think so, but I am not sure.", "within a week"),
        ("It will be free.", "Who pays then"),
        ("We will ship it soon.", "By which day"),
        ("Should we hire somebody?", "decide tonight"),
        ("What do you think?", "What is your own answer"),
        ("I don't know.", "Who does know"),
        ("I am tired.", "What would change that"),
        ("I asked 20 people and 18 said no.", "Which reason did most of them give"),
        ("The market is worth $4B.", "How many of those can you reach"),
        ("We raised $2M in 2024.", "How many months does that buy"),
        ("We are at $3k MRR.", "From how many customers"),
        ("We have 40 users on the waitlist.", "Where does the 40 come from"),
    ],
)
def test_a_question_is_about_what_was_said_and_quotes_it(said, asks):
    """By the first rule that finds something in it."""
    (answer,) = asked_of(said)
    assert asks in answer
    assert said.rstrip(".") in answer


@pytest.mark.parametrize(
    "said",
    [
        "Let us make it free.",
        "We should charge 40 dollars a seat.",
        "We charge nothing, never a seat.",
        "We charge nobody for a seat.",
    ],
)
def test_what_contradicts_a_decision_is_held_against_it(said):
    """Another amount, none, or a negation: with the day of the decision, before anything else."""
    (answer,) = asked_of(said, decisions=[PRICE])
    assert answer.startswith("On 2026-01-31 you decided “We charge 20 dollars a seat”. Now you say ")
    assert answer.endswith("Which one stands?\n")


@pytest.mark.parametrize(
    ("said", "decision"),
    [
        ("Our server costs $40 per month.", "We charge $12 per month."),
        ("I have free time next week.", "We charge $12 per month."),
        ("We don't have customers.", "Talk to customers."),
    ],
)
def test_what_only_shares_words_with_a_decision_is_not_held_against_it(said, decision):
    """Another thing that costs money, another meaning of free, a negation of something else."""
    (answer,) = asked_of(said, decisions=[("", decision)])
    assert "Which one stands" not in answer
    assert said.rstrip(".") in answer


@pytest.mark.parametrize(
    ("said", "never"),
    [
        ("The market is worth $4B.", "Who has paid"),
        ("We raised $2M in 2024.", "Who has paid"),
        ("We charge $12 per month.", "What is the price, as a number"),
        ("Teams of ten pay for it by the seat, at 20 dollars.", "How many months does that buy"),
        ("We use Python 3.11 and Postgres.", "come from"),
        ("We started in 2024 with this.", "come from"),
        ("What do you think?", "Which of the two answers"),
        ("I have free time next week.", "Who pays then"),
        ("You already asked that.", "You already asked that"),
        ("Hello there my friend.", "Hello there my friend"),
        ("Why?", "could be said of anything"),
        ("The launch is on 2026-05-01.", "could be said of anything"),
    ],
)
def test_however_often_it_is_said_no_question_is_asked_that_does_not_fit(said, never):
    """All that the rules have for it."""
    assert not any(never in answer for answer in asked_of(*[said] * 12))


@pytest.mark.parametrize("said", ["Should we charge for it?", "Everybody needs this!"])
def test_a_quote_that_ends_with_a_mark_of_its_own_gets_no_full_stop(said):
    """By whichever rule."""
    for answer in asked_of(*[said] * 4):
        assert f"“{said}” " in answer


def test_what_a_file_is_about_is_asked_for_somebody_who_waits_for_it():
    """A sentence that only says what something is cannot be wrong."""
    answer = ask(Material([("plan.md", "Foo is made of steel.")], [], [], []))
    assert answer.startswith("plan.md says “Foo is made of steel”. Who waits for that")


def test_who_gives_a_number_or_asks_something_is_answered_and_others_hear_why_not():
    """Each fourth time it comes back to what is written down, and says so."""
    files = [("README.md", README)]
    for last, is_answered in [
        ("I asked 20 people.", True),
        ("Who else does it?", True),
        ("We wait for spring.", False),
    ]:
        answer = asked_of("Hello", "Hello", "Hello", last, files=files)[-1]
        assert answer.startswith(f"“{last.rstrip('.')}”") == is_answered
        assert answer.startswith("Back to what is written down. README.md") != is_answered


def test_decisions_that_contradict_each_other_are_named_once():
    """Whatever is said."""
    decisions = [("", "We hire two sales people."), ("", "We hire no sales people.")]
    first, second = asked_of("Hello", "Good morning", decisions=decisions)
    assert (
        first
        == "You decided “We hire two sales people”, and later “We hire no sales people”. Which one stands?\n"
    )
    assert "Which one stands" not in second


def test_a_word_is_no_evidence_and_a_decision_without_a_number_is_asked_for_one():
    """What is said is quoted, and the question is about something that is written down."""
    (answer,) = asked_of("yes", decisions=[("", "Only in Europe.")])
    assert answer.startswith("“yes”")
    assert "You decided “Only in Europe”. " in answer


@pytest.mark.parametrize(
    "odd",
    [
        "",
        "   ",
        "?????",
        "https://example.com/a",
        "x = [1, 2]",
        "```\ncode()\n```",
        "{}",
        "日本",
        "🙂",
        "\x1b[2J",
        "“",
        "{it} {0}",
    ],
    ids=ascii,
)
def test_of_what_is_no_sentence_something_else_is_asked(odd):
    """And nothing of it is a question's template."""
    (answer,) = asked_of(odd, files=[("main.py", "def main():\n    return {1: 2}\n"), ("empty.md", " \n")])
    assert answer.endswith("?\n")
    assert "main.py" not in answer


def test_what_is_said_in_another_language_is_quoted_too():
    """Its words are not looked for in vain: nothing is said to be missing in a text that is not English."""
    german = [("LIESMICH.md", "Wir verkaufen Ziegel an Bauherren in Bayern. Der Markt wächst.")]
    answers = asked_of("Die Kunden haben das gesagt.", "Ja.", "Wir bauen das jetzt.", files=german)
    assert "“Die Kunden haben das gesagt”" in answers[0]
    assert not any("has no word of" in answer for answer in answers)


def test_sentences_are_prose_without_markdown():
    """No code, no headings, no badges."""
    assert sentences(README) == [
        "Rota is the easiest way for small teams to plan shifts.",
        "Managers need it every week.",
        "We plan to charge per seat once we have 100 teams.",
    ]


lines = st.one_of(
    texts, st.sampled_from(["yes", "ok", "Everybody needs it.", "We charge 20 dollars.", "Why?"])
)


@given(
    st.lists(st.tuples(texts, st.one_of(texts, st.just(README))), max_size=2),
    st.lists(st.tuples(texts, lines), max_size=4),
    st.lists(lines, min_size=1, max_size=8),
)
def test_whatever_there_is_one_question_is_asked_and_never_the_same_again(files, decisions, said):
    """Of the same conversation the same one."""
    answers = asked_of(*said, files=files, decisions=decisions)
    assert answers == asked_of(*said, files=files, decisions=decisions)
    assert all(answer.rstrip().endswith("?") and len(answer) < 1500 for answer in answers)
    assert len({*answers}) == len(answers)


def test_a_long_conversation_goes_on_without_a_question_twice():
    """With a README, and an answer that says nothing, thirty times."""
    answers = asked_of(
        *["It is better for everybody."] * 30, files=[("README.md", README)], decisions=[PRICE]
    )
    assert len({*answers}) == 30


@pytest.mark.slow
@pytest.mark.parametrize("mark", ["[", "![", "<", "[a](", "1", "1."])
def test_a_file_of_marks_without_an_end_is_asked_about(mark):
    """In steps that grow with its length."""
    said = "This is what all of the users that we have do with it in a week."
    question = ask(Material([("plan.md", f"{said}\n\n{mark * 200_000}")], [], ["It is going on."] * 4, []))
    assert question.rstrip().endswith("?")
