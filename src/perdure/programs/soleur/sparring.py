"""The questions of a sparring partner where there is no language model: drawn by rules from what is attached,
what was decided and what was said last.

Pure: the same conversation gets the same question. Each one quotes the claim, the number, the decision or the
plan that it is about, and none is asked twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from perdure.programs.soleur.sparring_rules import (
    AMOUNT,
    ANY,
    EXCLUSIVE,
    GENERAL,
    GREETING,
    MISSING,
    NO_PRICE,
    NOT_OF_FILES,
    OF_A_DECISION,
    OF_A_FILE,
    RULES,
    SHORT,
    Rule,
)
from perdure.programs.soleur.sparring_text import is_code, is_english, quote, sentences, topic, words

NOTICE = (
    "Its questions are drawn by rules from what is attached, what was decided and what you said last. It "
    "does not understand the answers."
)


class Material(NamedTuple):
    """What there is to ask about."""

    files: Sequence[tuple[str, str]]
    """Their names, and what they say."""
    decisions: Sequence[tuple[str, str]]
    """When each was made, and what it says; the oldest first."""
    said: Sequence[str]
    """By the user, in order."""
    asked: Sequence[str]
    """All that was answered so far."""


_NEGATIONS = frozenset(
    {"no", "not", "never", "without", "nobody", "none", "don't", "won't", "can't", "stop", "drop", "against"}
)
_MONEY = re.compile(AMOUNT, re.IGNORECASE)
_FREE = re.compile(NO_PRICE, re.IGNORECASE)
_TO_THE_PARTNER = re.compile(
    r"(?:(?:but|and|so|no|yes|hey),? )*(?:you\b|stop\b|please\b|tell me\b|ask me\b|help\b)", re.IGNORECASE
)
"""The beginning of what is said to the partner, and claims nothing."""
_COME_BACK = "Back to what is written down. "
_BETWEEN_NEGATION_AND_VERB = frozenset({"be", "to", "going", "the", "a", "an", "any", "ever", "longer"})
_QUOTED = re.compile("“[^”]*”")
_MOST_CONSIDERED = 500
_LAST_RESORT = (
    "{count} questions are asked, and the rules have no other. Which of them did you not answer, and why?"
)


def ask(material: Material) -> str:
    """A question, and what is to be said before it."""
    last = material.said[-1] if material.said else ""
    is_short = bool(words(last)) and not sentences(last) and not is_code(last)
    lead = ""
    if is_short and len(words(last)) <= 3 and "?" not in last and not GREETING.match(last.strip()):
        lead = SHORT[len(material.said) % len(SHORT)].format(it=quote(last)) + " "
    about_message = _of_message(last, len(material.said))
    others = [_of_decisions(material), _of_files(material)]
    if len(material.said) % 2:
        others.reverse()
    before = "\n".join(material.asked)
    if conflict := next((each for each in _conflicts(material, last) if each not in before), ""):
        return f"{lead}{conflict}\n"
    # Now and then it comes back to what is written down: who answers one question after the other forgets it.
    # But whoever has just given a number, or has asked something, is answered.
    is_time = len(material.said) % 4 == 0 and not re.search(r"\d|\?\s*$", last)
    if is_time and last and (question := _chosen(others, material.asked)):
        return f"{lead or _COME_BACK}{question}\n"
    question = _chosen([about_message, *others, iter(GENERAL)], material.asked)
    return f"{lead}{question or _LAST_RESORT.format(count=len(material.asked))}\n"


def _chosen(streams: Iterable[Iterator[str]], asked: Sequence[str]) -> str:
    """The first question that was not asked yet, also not of something else; then one that was; else none."""
    before = "\n".join(asked)
    kinds = {_kind(line) for answer in asked for line in answer.splitlines()}
    again: list[str] = []
    for stream in streams:
        for question in islice(stream, _MOST_CONSIDERED):
            if question in before:
                continue
            if not any(_kind(question) in kind for kind in kinds):
                return question
            again.append(question)
    return again[0] if again else ""


def _kind(question: str) -> str:
    """What is asked, without what it is asked of."""
    return _QUOTED.sub("", question)


def _conflicts(material: Material, last: str) -> Iterator[str]:
    """What was said now, or decided before, against an earlier decision."""
    for sentence in sentences(last):
        for when, decision in reversed(material.decisions):
            if _contradicts(sentence, decision):
                since = f"On {when[:10]} you" if when else "You"
                yield f"{since} decided {quote(decision)}. Now you say {quote(sentence)}. Which one stands?"
    every = [content for _, content in material.decisions][-50:]
    for at, later in reversed([*enumerate(every)]):
        for earlier in reversed(every[:at]):
            if _contradicts(later, earlier):
                yield f"You decided {quote(earlier)}, and later {quote(later)}. Which one stands?"


def _contradicts(one: str, other: str) -> bool:
    """Whether two sentences about the same thing differ in a negation, or in an amount."""
    shared = topic(one) & topic(other)
    amounts = [{re.sub(r"[^\d]", "", each) for each in _MONEY.findall(text)} for text in (one, other)]
    if any(amounts) and not all(amounts) and _FREE.search(other if amounts[0] else one):
        return True
    if not shared:
        return False
    if all(amounts):
        return not amounts[0] & amounts[1] and _is_same(one, other, shared)
    is_negated = [not shared.isdisjoint(_negated(text)) for text in (one, other)]
    return is_negated[0] != is_negated[1] and _is_same(one, other, shared)


def _negated(text: str) -> set[str]:
    """The stems of the words that a sentence negates: in "We do not hire" it is "hire", and so it
    is in "We hire nobody"."""
    found: set[str] = set()
    is_after = False
    before: set[str] = set()
    for word in words(text):
        if word in _NEGATIONS:
            is_after = True
            found |= before if word in ("nobody", "none") else set()
        elif is_after and word not in _BETWEEN_NEGATION_AND_VERB:
            found |= topic(word)
            is_after = False
        before = topic(word)
    return found


def _is_same(one: str, other: str, shared: set[str]) -> bool:
    return len(shared) * 2 >= min(len(topic(one)), len(topic(other)))


def _of_message(text: str, turn: int) -> Iterator[str]:
    """What the rules ask of its sentences, the last one first: it is what they came to say."""
    said = [each for each in reversed(sentences(text)) if not _is_to_the_partner(each)][:20]
    for number in range(len(RULES)):
        for sentence in said:
            found = _rules_for(sentence)
            if number < len(found):
                yield from _questions(found[number], sentence)
    for sentence in said:
        for at in range(len(ANY.questions)):
            yield _about(sentence, ANY.questions[(turn + at) % len(ANY.questions)])


def _is_to_the_partner(sentence: str) -> bool:
    """True for what claims nothing: a greeting, or something about the conversation."""
    is_greeting = GREETING.match(sentence) and len(words(sentence)) <= 5
    return bool(is_greeting or _TO_THE_PARTNER.match(sentence))


def _rules_for(sentence: str) -> list[Rule]:
    found = {rule.name: rule for rule in RULES if rule.pattern.search(sentence)}
    for name, without in EXCLUSIVE:
        if name in found:
            found = {each: rule for each, rule in found.items() if each not in without}
    return [*found.values()]


def _questions(rule: Rule, sentence: str) -> Iterator[str]:
    match = rule.pattern.search(sentence)
    found = " ".join(match[0].split()) if match else ""
    for question in rule.questions:
        yield _about(sentence, question, found)


def _about(sentence: str, question: str, found: str = "") -> str:
    """The question with what it is about. A quote that ends with a mark of its own needs no full stop."""
    quoted = quote(sentence)
    ends_itself = quoted.endswith(("?”", "!”"))
    return (question.replace("{it}.", "{it}") if ends_itself else question).format(found, it=quoted)


def _of_decisions(material: Material) -> Iterator[str]:
    """What the newest decisions lack."""
    for _, pattern, question in OF_A_DECISION:
        for _, content in [*reversed(material.decisions)][:20]:
            if not pattern.search(content):
                yield _about(content, question)


def _of_files(material: Material) -> Iterator[str]:
    """Claims of a file, and what it leaves out, by turns."""
    for name, content in material.files:
        said = sentences(content)
        if not said:
            continue
        claims = _claims(name, said)
        missing = (
            (question.format(name=name) for _, pattern, question in MISSING if not pattern.search(content))
            if is_english(" ".join(said))
            else iter(())
        )
        while True:
            pair = [each for each in (next(claims, None), next(missing, None)) if each]
            if not pair:
                break
            yield from pair


def _claims(name: str, said: Iterable[str]) -> Iterator[str]:
    """The boldest ones first."""
    every = {sentence: _rules_for(sentence) for sentence in islice(said, 200)}
    for rule in RULES:
        if rule.name not in NOT_OF_FILES:
            for sentence, found in every.items():
                if rule in found:
                    yield f"{name} says {next(_questions(rule, sentence))}"
    for number, sentence in enumerate(every):
        question = OF_A_FILE[number % len(OF_A_FILE)]
        yield f"{name} says {_about(sentence, question)}"
