"""A conversation in a few kilobytes, in the words that were said: nothing is invented, and the size is bound.

What the user asked for first and last is kept in their own words; what an earlier summary held is merged, so
a second summary does not lose what the first one kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from perdure.agent.models.offline import WITHOUT_TOOLS
from perdure.agent.models.offline.wording import one_line
from perdure.agent.transcript import render, without
from perdure.session.entry import AnyMessage

SECTIONS = (
    "Goal",
    "Constraints & Preferences",
    "Progress",
    "Key Decisions",
    "Next Steps",
    "Critical Context",
)
STAGES = ("Done", "In Progress", "Blocked")
_MOST = {
    **{"Goal": 5, "Constraints & Preferences": 8, "Done": 8, "In Progress": 3, "Blocked": 3},
    **{"Key Decisions": 8, "Next Steps": 3, "Critical Context": 12},
}
_WIDTH = 170
_WHOLE = 400
"""Characters of a request that is kept word for word."""
_OF_A_PROGRAM = ("<resumed at ", "<summary>")
"""What is said in a user's place, by whoever resumes or condenses a conversation."""
_OF_ITSELF = re.compile(
    r"This is the built-in `offline` model: no language model, but a program that [^\n]*"
    rf"|{re.escape(WITHOUT_TOOLS)}"
)
"""What this program says, or said in older versions, of itself at the beginning of an answer."""
LAST_REQUEST = "The last request, word for word: "

_CONVERSATION = ("<conversation>", "</conversation>")
_PREVIOUS = ("<previous-summary>", "</previous-summary>")
_CONDENSED = ("<summary>", "</summary>")
_REQUEST = ("<request>\n", "\n</request>")
_SPEAKER = re.compile(r"(?m)^\[(User|Assistant|Assistant thinking|Assistant tool calls|Tool result)\]: ?")
_RULE = re.compile(r"(?i)\b(?:must|never|always|don't|do not|only|prefer|avoid|should|without|keep)\b")
_DECISION = re.compile(
    r"(?i)\b(?:decided|decision|let's|let us|we'll|we will|agreed|instead of|chose|choose|going with)\b"
)
_FAILURE = re.compile(
    r"(?i)\b\w*(?:error|exception)\b"
    r"|\b(?:traceback|failed|failure|fatal|denied|interrupted|no such file|not found)\b"
)
_PATH = re.compile(r"""(?:path|file|file_path)["']?\s*[=:]\s*["']?([^"',;)}\s]+)""")
_BULLET = r"^\s*(?:[-*]|\d+[.)])\s+(?:\[.\]\s*)?"
_FAILED = "(failed) "
_CHANGED = "Changed: "
_READ = "Looked at: "
_LISTS = {f"<{tag}>": f"</{tag}>" for tag in ("read-files", "modified-files", "request")}
"""What is kept beside a summary, and not by it."""
_CHANGING = re.compile(r"\b(?:edit|write)\b")


class Said(NamedTuple):
    who: str
    text: str


def is_request(text: str) -> bool:
    return _up_to_last(text, _CONVERSATION) is not None


def _up_to_next(text: str, marks: tuple[str, str]) -> str | None:
    """What stands between the first of the one mark and the next of the other; None without both."""
    _, begun, rest = text.partition(marks[0])
    inside, ended, _ = rest.partition(marks[1])
    return inside if begun and ended else None


def _up_to_last(text: str, marks: tuple[str, str]) -> str | None:
    """The same up to the last of the other."""
    _, begun, rest = text.partition(marks[0])
    inside, ended, _ = rest.rpartition(marks[1])
    return inside if begun and ended else None


def requested(text: str) -> str:
    """The summary a request for one asks for."""
    conversation = _up_to_last(text, _CONVERSATION)
    around = text if conversation is None else text.replace(conversation.join(_CONVERSATION), "", 1)
    said = _conversation_of(conversation or "")
    earlier = _up_to_next(around, _PREVIOUS)
    if said and said[0].who == "User" and (condensed := _up_to_last(said[0].text, _CONDENSED)) is not None:
        earlier, said = condensed, said[1:]
    focus = re.search(r"(?m)^Look at this in particular: (.+)$", around)
    return summary(said, earlier or "", focus[1] if focus else "")


def _conversation_of(text: str) -> list[Said]:
    """Who said what. What this program says of itself is no part of its answers."""
    parts = _SPEAKER.split(text)
    texts = (_without_its_name(each.strip()) for each in parts[2::2])
    return [Said(who, said) for who, said in zip(parts[1::2], texts, strict=True) if said]


def _without_its_name(said: str) -> str:
    found = _OF_ITSELF.match(said)
    return said[found.end() :].lstrip() if found else said


def summary(said: Sequence[Said], previous: str = "", focus: str = "") -> str:
    """In the sections that a reader of summaries expects."""
    old, new = _sections(without(previous, _LISTS)), _extracted(said)
    if focus:
        new["Critical Context"].insert(0, f"To be looked at in particular: {one_line(focus, _WIDTH)}")
    merged = {}
    for name, most in _MOST.items():
        before = [line for line in old.get(name, []) if line != _NOTHING]
        # What was under way has either been done or is asked for again.
        lines = _unique(
            new[name] if name in ("In Progress", "Next Steps") and new[name] else [*before, *new[name]]
        )
        merged[name] = lines if len(lines) <= most else [lines[0], *lines[1 - most :]]
    parts = []
    for name in SECTIONS:
        if name == "Progress":
            stages = (f"### {stage}\n{_bullets(merged[stage])}" for stage in STAGES)
            parts.append("\n".join([f"## {name}", *stages]))
        else:
            parts.append(f"## {name}\n{_bullets(merged[name])}")
    return "\n\n".join(parts)


def where_it_stopped(messages: Sequence[AnyMessage]) -> str:
    """The last request and the gist of what was answered, in the words that were said."""
    asked = answered = ""
    is_users = is_open = False
    spoken = render(messages).removeprefix("<conversation>\n").removesuffix("\n</conversation>")
    for each in _conversation_of(spoken):
        if each.who == "User":
            is_users = not each.text.startswith(_OF_A_PROGRAM)
            if is_users:
                asked, answered, is_open = one_line(each.text, _WIDTH), "", True
        elif is_users:
            is_open = each.who != "Assistant"
            answered = _gist(each.text) if not is_open else answered
    told = [f"The last question was: {asked}" if asked else "Nothing has been said yet."]
    told += [f"{'So far' if is_open else 'The answer'}: {answered}"] if answered else []
    return "\n".join(told)


def last_request(summary: str) -> str:
    """What the user had asked for last, if the summary of an unfinished turn says so; else empty."""
    if (quoted := _up_to_next(summary, _REQUEST)) is not None:
        return quoted
    # The turn's own summary stands behind that of what came before it.
    _, found, rest = summary.rpartition(LAST_REQUEST)
    return rest.partition("\n")[0].strip() if found else ""


_NOTHING = "(none)"


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines or [_NOTHING])


def _sections(text: str) -> dict[str, list[str]]:
    """The lines under each heading of an earlier summary; what stands under none is context."""
    found: dict[str, list[str]] = {}
    name = "Critical Context"
    for line in text.split("\n"):
        heading = re.match(r"#{1,4}\s*(.+)", line)
        if heading:
            title = heading[1].lower()
            name = next((each for each in _MOST if title.startswith(each.lower()[:8])), "Critical Context")
        elif words := one_line(re.sub(_BULLET, "", line), _WHOLE if name == "Goal" else _WIDTH + len(_READ)):
            found.setdefault(name, []).append(words)
    found["Next Steps"] = [line for line in found.get("Next Steps", []) if not line.startswith(LAST_REQUEST)]
    return found


def _extracted(said: Sequence[Said]) -> dict[str, list[str]]:
    asked = [each.text for each in said if each.who == "User" and not each.text.lstrip().startswith("<")]
    answers = [each.text for each in said if each.who == "Assistant"]
    calls = [each.text for each in said if each.who == "Assistant tool calls"]
    is_open = not said or said[-1].who != "Assistant"
    done = answers[:-1] if is_open else answers
    results = [each.text for each in said if each.who == "Tool result"]
    failures = [_failure(each.removeprefix(_FAILED)) for each in results if each.startswith(_FAILED)]
    spoken = [
        sentence for each in said if each.who in ("User", "Assistant") for sentence in _sentences(each.text)
    ]
    last = one_line(asked[-1], _WHOLE) if asked else ""
    context = [f"The user also asked: {one_line(each, _WIDTH)}" for each in asked[1:-1][-4:]]
    changed = _paths(call for call in calls if _CHANGING.search(call))
    read = [path for path in _paths(calls) if path not in changed]
    context += [_CHANGED + one_line(", ".join(changed[-12:]), _WIDTH)] if changed else []
    context += [_READ + one_line(", ".join(read[-12:]), _WIDTH)] if read else []
    context += [f"Error seen: {line}" for line in _unique(failures)[-3:]]
    return {
        "Goal": [one_line(asked[0], _WHOLE)] if asked else [],
        "Constraints & Preferences": [
            sentence for each in asked for sentence in _sentences(each) if _RULE.search(sentence)
        ],
        "Done": [*map(_gist, done)],
        "In Progress": [*filter(None, map(_gist, answers[len(done) :]))],
        "Blocked": [failures[-1]] if is_open and failures and said[-1].who == "Tool result" else [],
        "Key Decisions": [sentence for sentence in spoken if _DECISION.search(sentence)],
        "Next Steps": [f"{LAST_REQUEST}{last}"] if last else [],
        "Critical Context": context,
    }


def _gist(answer: str) -> str:
    """The first thing it says that is no heading; of a list also the first item."""
    lines = (re.sub(_BULLET, "", line).strip("> ") for line in answer.split("\n"))
    told = [line for line in lines if len(line) > 3 and not line.startswith(("#", "```", "|"))]
    return one_line(" ".join(told[: 2 if told and told[0].endswith(":") else 1]), _WIDTH)


def _failure(result: str) -> str:
    """Its first line that speaks of an error, or else its first."""
    lines = result.split("\n")
    return one_line(next(filter(_FAILURE.search, lines), lines[0]), _WIDTH)


def _paths(calls: Iterable[str]) -> list[str]:
    return _unique(one_line(path, 80) for call in calls for path in _PATH.findall(call))


def _sentences(text: str) -> list[str]:
    prose = re.sub(r"(?s)```.*?(?:```|\Z)", " ", text[:4000])
    parts = re.split(r"(?<=[.!?])\s+|\n+", prose)
    return [one_line(part, _WIDTH) for part in parts if 8 <= len(part.strip()) <= 400]


def _unique(lines: Iterable[str]) -> list[str]:
    return [*dict.fromkeys(line for line in lines if line)]
