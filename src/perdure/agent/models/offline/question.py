"""What a person wants, told by the words they use. Nothing is understood; what fits no rule is `help`.

Most questions are told by single words. Patterns are kept as text, and made when a question may fit them: to
make them all would take longer than most answers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from perdure.agent.models.offline.source import language_of

Kind = Literal[
    "survey", "count", "tests", "path", "topic", "search", "defined", "callers", "files", "read", "list",
    "title", "recap", "stopped", "run", "change", "help", "unclear",
]  # fmt: skip


class Question(NamedTuple):
    kind: Kind
    subject: str = ""
    path: str = ""
    """The file or folder that it is about; empty is the working directory."""
    attached: str = ""
    """Text that came with it."""
    tongue: str = ""
    """What the answer should be written in, if that is not English."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_POLITE = _words(
    "please pls kindly can could would will you hey hi hello ok okay now then also and so just i want"
    " need like to help me us let's tell give try"
)
_RUN = _words("run execute exec launch install deploy commit push start stop kill")
_CHANGE = _words(
    "fix implement write add refactor create delete remove rename change update edit make build"
    " translate rewrite replace convert improve optimise optimize debug generate review"
)
_SHOW = _words("read cat open print view display head less show")
_LOOK = _words("find search grep look looking locate rg where where's which list show")
_EXPLAIN = _words(
    "explain describe overview summarise summarize summary explanation description about understand"
    " architecture structure structured organised organized walk tour introduce introduction purpose"
    " layout onboarding languages"
)
_ASK = _words("what what's whats how how's hows why")
_DESCRIPTION = _words("overview summary explanation description introduction")
_USES = _words(
    "usages usage uses use references reference occurrences callers caller calls call mentions imports"
)
_DEFINES = _words("definition definitions defined declared implemented")
_SAYS_NOTHING = (
    _POLITE
    | _EXPLAIN
    | _ASK
    | _words(
        "a an the this that these those it its is are was be do does did of in on for from with or by"
        " at as all any my our your we am s t who where when which should show go get lets into some"
        " more here there first through getting started high level quick quickly short brief briefly"
        " detail details detailed entire whole part parts thing things stuff code codebase repo"
        " repository project folder directory app application program package library source sources"
        " file files main run use used work works working look looks mean means test tests tested"
        " build install entry point points language written contents everything class function method"
        " module contain contains inside made current software tool system"
    )
)
"""A question of such words alone is about the whole folder."""
_COUNTED = _words("files file languages folders directories modules tests sources")
_POINTING = _words("it that this they them these those")
_KNOWN_NAMES = _words("readme makefile dockerfile license changelog justfile gemfile")

_FILE_BLOCK = r'(?s)<file name="([^"\n]+)"[^>]*>.*?(?:</file>|\Z)'
_TITLE = (
    r"\b(?:title|name)\b.*\b(?:this|the|our) (?:session|conversation|chat)\b"
    r"|\b(?:session|conversation|chat) title\b"
)
_RECAP = r"\b(?:summar|recap)\w*.*\b(?:(?:this|our|the) (?:session|conversation|chat)|so far)\b"
_STOPPED = r"\bwhere (?:we|it|(?:this|our|the) (?:session|conversation|chat)) (?:stopped|left off)\b"
_YOU = (
    r"(?:what|who|how) (?:can|could|do|are) you(?: (?:do|know|answer|offer|support|work))?(?: here| for me)?"
    r"|what can i (?:do|ask|say)(?: \w+)?"
)
_TESTS = (
    r"(?:where(?:'s| is| are| do)?|find|list|show)(?: me| all| the| its| unit)*"
    r" (?:tests|test (?:suite|files|folder|directory))(?: live| located| defined| kept| stored| here)?"
)
_TONGUE = (
    r"(?i)\s+(?:in|auf|en)\s+(German|Deutsch|French|Spanish|Italian|Portuguese|Dutch|Polish|Russian|Ukrainian"
    r"|Czech|Turkish|Arabic|Hebrew|Hindi|Chinese|Japanese|Korean|Vietnamese|Swedish|Norwegian|Danish|Finnish"
    r"|Greek|Latin)\b"
)
_SEARCH = (
    r"(?i)^(?:show (?:me )?)?(?:find|search(?: for)?|grep(?: for)?|look(?:ing)? (?:for|up)|locate|rg"
    r"|where(?:'s| is| are| does| do| was)?|which files?(?: \w+)?|list)\b\s*(.*)$"
)
_OF = (
    r"(?i)\b(?:usages?|uses?|references?|occurrences?|callers?|calls?|mentions?|definitions?|instances?)"
    r"\s+(?:of|to)\s+(.+)$"
)
_CALLS = r"(?i)\b(?:who|what|which \w+)\s+(?:calls?|uses|imports?|invokes?|references|is calling)\s+(.+)$"
_FILES = r"(?i)(?:all |any |the |every )*files?\s+(?:(?:named|called|matching|like|with name)\s+)?(.+)$"
# What stands around the thing to look for.
_IN_PATH = r"(?i)\s+(?:in|under|inside|within|below)\s+(?:the\s+)?(?:file\s+|folder\s+|directory\s+)?(\S+)$"
_HERE = (
    r"(?i)\s+(?:in|of|from|across|throughout)\s+(?:this|the|our|my|all)\s*(?:whole |entire )?"
    r"(?:repo(?:sitory)?|project|code\s?base|code|folder|directory|files?|sources?)?$"
)
_BEFORE = (
    r"(?i)^(?:for|all|any|every|each|the|a|an|me|out|text|string|word|symbol|function|method|class|variable"
    r"|constant|module|type|code|that|it says|is|are|does|do|where|this|named|called)\b\s*"
)
_BEHIND = (
    r"(?i)\s+(?:(?:is|are|gets?|was|being)\s+)?(?:defined|declared|implemented|used|called|located|set|stored"
    r"|lives?|comes? from|function|class|method)$"
)


def question(text: str) -> Question:
    files: list[str] = []
    rest = text.strip()
    if "<file name=" in text:
        files = [match[1] for match in re.finditer(_FILE_BLOCK, text)]
        rest = re.sub(_FILE_BLOCK, " ", text).strip()
    asked, attached = _among(rest) if "\n" in rest else (_one(rest), "")
    if files and asked.kind in ("survey", "topic", "help", "path"):
        asked = Question("path", path=files[0])
    return asked._replace(attached=attached)


def _among(text: str) -> tuple[Question, str]:
    """A question with text that came with it, before it or behind it."""
    paragraphs = re.split(r"\n\s*\n", text)
    lines = text.split("\n")
    for words, others in (
        (lines[-1], "\n".join(lines[:-1])),  # what is piped in comes first
        (paragraphs[-1], text[: -len(paragraphs[-1])]),
        (lines[0], "\n".join(lines[1:])),
        (paragraphs[0], text[len(paragraphs[0]) :]),
    ):
        if len(words) < 500 and (found := _one(words)).kind != "help":
            return found, others.strip("\n")
    return Question("help"), ""


def _one(text: str) -> Question:
    """One sentence or two."""
    tokens = text.rstrip("?! \n").split()
    if tokens and tokens[-1] not in (".", ".."):
        tokens[-1:] = filter(None, [tokens[-1].rstrip("?!.")])
    while len(tokens) > 1 and tokens[0].lower().rstrip(",!") in _POLITE:
        del tokens[0]
    words = " ".join(tokens)
    low = [token.lower().strip("`'\",;:?!.()") for token in tokens]
    first, second = (*low, "", "")[:2]
    said = " ".join(low)
    if ("title" in said or "name" in said) and re.search(_TITLE, said):
        return Question("title")
    if ("summar" in said or "recap" in said) and re.search(_RECAP, said):
        return Question("recap")
    if "where" in low and re.search(_STOPPED, said):
        return Question("stopped")
    if re.fullmatch(_YOU, said):
        return Question("help")
    if said.startswith("how many ") and _COUNTED.intersection(low):
        return Question("count")
    if "test" in said and re.fullmatch(_TESTS, said):
        return Question("tests")
    if words.startswith("!") or (first in _RUN and second not in ("through", "with")):
        return Question("run", words.partition(" ")[2])
    if first in _CHANGE:
        if _DESCRIPTION.isdisjoint(low):
            return Question("change")
        words, low = words.partition(" ")[2], low[1:]
    path = _path_in(words)
    if path and first in _SHOW:
        return Question("read", path=path)
    return _search(words, low) or _explain(words, low, path)


def _search(words: str, low: Sequence[str]) -> Question | None:
    if _USES.intersection(low) and (match := re.search(_CALLS, words)):
        return _looking("callers", match[1])
    if (_USES | _DEFINES).intersection(low) and (match := re.search(_OF, words)):
        return _looking("defined" if _DEFINES.intersection(low) else "callers", match[1])
    if low[:2] in (["what", "files"], ["which", "files"]) and {"are", "is", "do"}.intersection(low[2:3]):
        return Question("list", path=_path_in(words))
    if not low or low[0] not in _LOOK or low[:3] == ["where", "am", "i"]:
        return None
    match = re.match(_SEARCH, words)
    if match is None:
        return None
    if low[0] == "list":
        return Question("list", path=_path_in(words) or _folder_in(words))
    if low[0] != "which" and (named := re.match(_FILES, match[1])):
        return _looking("files", named[1])
    if re.fullmatch(r"[^\s`]*\*[^\s`]*\.\w+", match[1]):
        return _looking("files", match[1])
    is_defined = low[0].startswith("where") or not _DEFINES.isdisjoint(low)
    return _looking("defined" if is_defined else "search", match[1])


def _looking(kind: Kind, subject: str) -> Question | None:
    path = ""
    subject = re.sub(_HERE, "", subject)
    if (match := re.search(_IN_PATH, subject)) and _is_path(match[1].strip("`'\"")):
        path, subject = match[1].strip("`'\"").removeprefix("@"), subject[: match.start()]
    if quoted := re.search(r"`([^`]+)`|\"([^\"]+)\"|'([^']+)'", subject):
        subject = next(filter(None, quoted.groups()))
    else:
        for pattern in (_BEHIND, _BEFORE, _HERE):
            while (shorter := re.sub(pattern, "", subject)) != subject and shorter:
                subject = shorter
        subject = subject.strip(" ,;:'\"").removesuffix("()")
        if subject.lower() in _POINTING:
            return Question("unclear", subject)
    return Question(kind, subject, path) if subject else None


def _explain(words: str, low: Sequence[str], path: str) -> Question:
    if low[:1] in (["ls"], ["dir"], ["files"]) and len(low) < 3:
        return Question("list", path=words.partition(" ")[2].removeprefix("@"))
    if tongue := re.search(_TONGUE, words):
        words = words.replace(tongue[0], "")
        return _explain(words, words.lower().split(), path)._replace(tongue=tongue[1].capitalize())
    if path:
        return Question("path", path=path)
    if low[:3] != ["where", "am", "i"] and low[:1] and low[0] not in _ASK and not _EXPLAIN.intersection(low):
        return Question("help")
    if quoted := re.search(r"`([^`]+)`", words):
        return Question("topic", quoted[1].removesuffix("()"))
    left = [word for word in re.findall(r"[\w.'-]+", words) if word.lower().strip(".-'") not in _SAYS_NOTHING]
    if left and not re.search(r"[^\W\d_]", "".join(left)):
        return Question("help")  # a sum
    if left:
        return Question("topic", " ".join(left))
    return Question("survey") if low else Question("help")


def _path_in(words: str) -> str:
    tokens = re.findall(r"`[^`]+`|\"[^\"]+\"|\S+", words)[1:] if " " in words else [words]
    cleaned = [token.strip("`'\",;:?!()") for token in tokens]
    return next((token.removeprefix("@") for token in cleaned if _is_path(token)), "")


def _folder_in(words: str) -> str:
    """The last word of "list src" or "list the files in src"."""
    last = words.rpartition(" ")[2].strip("`'\"")
    return "" if last == words or last.lower() in _SAYS_NOTHING else last


def _is_path(token: str) -> bool:
    if "://" in token or not token.strip("@./~-"):
        return token in (".", "..", "~", "/", "./", "../")
    if token.startswith("@"):
        return True
    if "/" in token:
        return token.lower() not in ("and/or", "he/she", "i/o", "n/a")
    is_name = token.lower() in _KNOWN_NAMES
    return is_name or (language_of(token) != "" and not token.startswith("*") and len(token) > 3)


def keywords(subject: str) -> Sequence[str]:
    """What to look for when the whole is found nowhere: its words, the longest first."""
    words = dict.fromkeys(re.findall(r"[A-Za-z_]\w{2,}", subject))
    return sorted(words, key=lambda word: (-len(word), word))[:3]
