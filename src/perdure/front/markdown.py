"""Markdown, both ways: messages read as Markdown, and a whole session written as one document of it.

Reading hides nothing. Markdown has ways to say what no reader sees (definitions of links, cells a table has
no column for, lists nested too deeply), and those are shown as they were written. Only links that a browser
or a mail program opens are links, and no picture is fetched from anywhere.

In a document a message is the Markdown it was, but cannot reach beyond itself: what it leaves open is closed,
and its HTML is text. That is checked with a parser, not believed: a message that still reaches out stands
in a fence.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from perdure.front import render
from perdure.front.ages import seconds
from perdure.front.amounts import counted, size
from perdure.front.render import Call, Command, Note, Picture, Prose, Result, Thought, Turn
from perdure.front.visible import one_line, visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

# --- reading ------------------------------------------------------------------------------------------

_DEEPEST = 40
_LONGEST = 100_000  # characters of one text; beyond that the parser takes its time
_MOST_BRACKETS = 1_000  # in one paragraph, for which that time grows with the square
SCHEMES = ("http://", "https://", "mailto:")


def tokens(text: str) -> list[Token] | None:
    """A text as Markdown, with only what is fit to be seen in it. None if it says more than a reader of
    Markdown would see, or takes too long to read: then it is to be shown as it stands."""
    shown = visible(text)
    found = _parsed(shown, is_html=False)
    if found is None or _has_spare_cells(found, shown.split("\n")):
        return None
    for token in found:
        if token.children:
            token.children = list(_inline(token.children))
    return found


def _parsed(text: str, *, is_html: bool) -> list[Token] | None:
    if len(text) > _LONGEST or max(each.count("[") for each in text.split("\n\n")) > _MOST_BRACKETS:
        return None
    try:
        found = _parser(is_html).parse(text)
    except (IndexError, RecursionError, ValueError):
        return None  # a defect of the parser's is none of the reader's
    return None if any(token.level >= _DEEPEST - 1 for token in found) else found


@cache
def _parser(is_html: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt

    class Parser(MarkdownIt):
        def validateLink(self, url: str) -> bool:
            return url.lower().startswith(SCHEMES)

    parser = Parser("commonmark", {"html": is_html, "maxNesting": _DEEPEST})
    return parser.enable(["table", "strikethrough"]).disable("reference")


def _has_spare_cells(found: Sequence[Token], lines: Sequence[str]) -> bool:
    """Whether a row has more cells than its table has columns: those are not shown."""
    for table in found:
        if table.type == "table_open":
            first, last = table.map or (0, 0)
            rows = (line.strip().strip("|") for line in lines[first:last])
            counts = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
            if counts and max(counts) > counts[0]:
                return True
    return False


def _inline(children: Sequence[Token]) -> Iterator[Token]:
    """Line breaks stay, and a picture is a link to it."""
    from markdown_it.token import Token

    links = 0
    for token in children:
        links += token.nesting if token.type in ("link_open", "link_close") else 0
        if token.type == "softbreak":
            yield Token("hardbreak", "br", 0)
        elif token.type == "image":
            target = str(token.attrs.get("src", ""))
            name = token.content or target
            if links:  # which leads elsewhere
                yield Token("text", "", 0, content=visible(f"[image: {name}, {target}]"))
                continue
            yield Token("link_open", "a", 1, attrs={"href": target})
            yield Token("text", "", 0, content=visible(f"[image: {name}]"))
            yield Token("link_close", "a", -1)
        else:
            token.content = visible(token.content)  # once more: `&#x202e;` is a character only now
            yield token


# --- writing ------------------------------------------------------------------------------------------


def document(given: render.Document) -> str:
    """The conversation as one Markdown document."""
    pieces = [f"# {_plain(given.title)}"]
    pieces.append("\n".join(f"- {name.capitalize()}: {_fact(name, fact)}" for name, fact in given.facts))
    before: Turn | None = None
    for turn in given.turns:
        if turn.speaker == "note":
            pieces += [f"*{_plain(part.text)}*" for part in turn.parts if isinstance(part, Note)]
            continue
        if before is None or turn.label or (turn.speaker, turn.detail) != (before.speaker, before.detail):
            pieces.append(_heading(turn))
        for part in turn.parts:
            pieces += _written(part)
        before = turn
    return "\n\n".join(filter(None, pieces)) + "\n"


def _heading(turn: Turn) -> str:
    words = [turn.speaker.capitalize(), turn.detail, render.clock(turn.timestamp)]
    words.append(f"“{turn.label}”" if turn.label else "")
    return "## " + " · ".join(_plain(word) for word in words if word)


def _fact(name: str, fact: str) -> str:
    return render.clock(fact) if name == "began" and seconds(fact) is not None else _code(fact)


def _written(part: render.Part) -> Iterator[str]:
    match part:
        case Prose(text=text):
            yield contained(text)
        case Thought(text=""):
            yield "*(thinking that its provider keeps to itself)*"
        case Thought(text=text):
            quoted = "\n".join(f"> {line}".rstrip() for line in contained(text).split("\n"))
            yield from _folded("Thinking", quoted)
        case Picture():
            yield _picture(part)
        case Call(name=name, result=result):
            yield f"**{_plain(name)}**"
            yield from _arguments(part)
            yield from _written(result) if result else ["*(no result)*"]
        case Result():
            lines = counted(len(render.lines(part.text)), "line")
            summary = f"{'Error' if part.is_error else 'Result'}, {lines}"
            yield from _folded(
                summary, *([fenced(part.text)] if part.text else []), *map(_picture, part.pictures)
            )
        case Command(command=command, output=output, outcome=outcome):
            yield fenced(command, "bash")
            yield from _folded("Output", fenced(output)) if output else ["*(no output)*"]
            yield f"*({_plain(outcome)})*" if outcome else ""
        case Note(text=text):
            yield f"*({_plain(text)})*"


def _arguments(call: Call) -> Iterator[str]:
    every = render.fields(call.arguments)
    short = [field for field in every if not field.is_long]
    if [field.hint for field in every] == ["bash"]:
        yield fenced(every[0].text, "bash")
        return
    if short:
        yield fenced(
            "\n".join(f"{field.name}: {field.text}" if field.name else field.text for field in short)
        )
    for field in every:
        if field.is_long:
            yield f"{_code(field.name)}:" if field.name else ""
            yield fenced(field.text, field.hint.rpartition(".")[2])


def _folded(summary: str, *inner: str) -> Iterator[str]:
    yield f"<details>\n<summary>{html.escape(one_line(summary))}</summary>"
    yield from inner
    yield "</details>"


def _picture(picture: Picture) -> str:
    return f"*(a picture: {_plain(picture.media_type)}, {size(picture.size)})*"


def fenced(text: str, info: str = "") -> str:
    """A block of code that nothing inside it can end."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    info = info if re.fullmatch(r"[A-Za-z0-9+#-]{1,20}", info) else ""
    return "\n".join([f"{fence}{info}", visible(text).rstrip("\n"), fence])


def _code(text: str) -> str:
    """A few words of code."""
    shown = one_line(text)
    longest = max(map(len, re.findall("`+", shown)), default=0)
    mark = "`" * (longest + 1)
    blank = " " if shown[:1] == "`" or shown[-1:] == "`" else ""
    return f"{mark}{blank}{shown}{blank}{mark}" if shown.strip() else ""


def _plain(text: str) -> str:
    """Words that are no Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&!])", r"\\\1", one_line(text).strip())


# --- containing a message -------------------------------------------------------------------------------

_BEHIND = "behind"
_TAG = re.compile(
    r"\\.|(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)"  # neither what is escaped nor code holds any
    r"|<[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*>|<[^\s<>@]+@[^\s<>@]+>"  # a link
    r"|(?P<tag><)(?=[A-Za-z/!?])",
    re.DOTALL,
)


def contained(text: str) -> str:
    """A message as the Markdown it is, but closed at its end and without HTML."""
    shown = visible(text).strip("\n")
    if "<" not in shown and "```" not in shown and "~~~" not in shown:
        return shown
    for _ in range(4):
        found = _parsed(f"{shown}\n\n{_BEHIND}", is_html=True)
        if found is None:
            break
        lines = shown.split("\n")
        if tagged := [token.map for token in found if _is_html(token) and token.map]:
            for first, last in reversed(tagged):
                lines[first:last] = [_escaped("\n".join(lines[first:last]))]
            shown = "\n".join(lines)
        elif found[-1].type == "paragraph_close" and found[-1].level == 0 and found[-2].content == _BEHIND:
            return shown
        elif found[-1].type == "fence":
            shown = f"{shown}\n{found[-1].markup}"
        else:
            break
    return fenced(text)


def _is_html(token: Token) -> bool:
    return token.type == "html_block" or any(child.type == "html_inline" for child in token.children or ())


def _escaped(text: str) -> str:
    return _TAG.sub(lambda found: "\\<" if found["tag"] else found[0], text)
