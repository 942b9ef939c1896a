"""A session as one HTML file that can be sent to anyone: it loads nothing, runs nothing and needs nothing.

What is in a session may be hostile. Three walls, each enough by itself: every character of content is
escaped, and the only markup around it is made here; the page has no script and takes nothing from content
into an attribute but links of three schemes and pictures that were decoded first; and a policy in its head
forbids a browser all but the one style sheet that is in the file, named by its hash.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

from markdown_it.presets import commonmark
from markdown_it.renderer import RendererHTML
from markdown_it.utils import OptionsDict

from perdure import __version__
from perdure.front import markdown, render
from perdure.front.ages import seconds
from perdure.front.amounts import counted, size
from perdure.front.render import Call, Command, Note, Picture, Prose, Result, Thought, Turn
from perdure.front.visible import one_line, visible

if TYPE_CHECKING:
    from markdown_it.token import Token

_FEW = 3
"""So many prompts need no table of contents."""


def document(given: render.Document) -> str:
    """The conversation as a page."""
    style = _style()
    body = "\n".join([*_head(given), *_contents(given.turns), *_main(given.turns)])
    return _PAGE.format(
        policy=_policy(style, has_pictures=f'<img src="{_DATA}' in body),
        title=_words(given.title),
        style=style,
        body=body,
        version=__version__,
    )


_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
<footer>Exported by Perdure {version}</footer>
</body>
</html>
"""


@cache
def _style() -> str:
    return resources.files("perdure.front").joinpath("page.css").read_text(encoding="utf-8")


def _policy(style: str, *, has_pictures: bool) -> str:
    hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    pictures = " img-src data:;" if has_pictures else ""
    return f"default-src 'none'; style-src 'sha256-{hashed}';{pictures} base-uri 'none'; form-action 'none'"


# --- the page -------------------------------------------------------------------------------------------


def _head(given: render.Document) -> Iterator[str]:
    yield f'<header>\n<h1>{_bdi(given.title)}</h1>\n<dl class="facts">'
    for name, fact in given.facts:
        yield f"<dt>{_words(name)}</dt><dd>{_time(fact) if name == 'began' else _bdi(fact)}</dd>"
    yield "</dl>\n</header>"


def _contents(turns: Sequence[Turn]) -> Iterator[str]:
    prompts = [(number, turn) for number, turn in enumerate(turns) if turn.speaker == "user"]
    if len(prompts) > _FEW:
        yield f'<nav><details class="contents"><summary>{len(prompts)} prompts</summary><ol>'
        for number, turn in prompts:
            yield f'<li><a href="#t{number}">{_bdi(render.gist(turn) or "(nothing)")}</a></li>'
        yield "</ol></details></nav>"


def _main(turns: Sequence[Turn]) -> Iterator[str]:
    yield "<main>"
    before: Turn | None = None
    for number, turn in enumerate(turns):
        if turn.speaker == "note":
            yield f'<p class="turn note" id="t{number}">{_bdi(render.gist(turn))}</p>'
            continue
        is_more = before is not None and (turn.speaker, turn.detail) == (before.speaker, before.detail)
        kind = turn.speaker if turn.speaker in _KINDS else "other"
        more = " more" if is_more and not turn.label else ""
        yield f'<article class="turn {kind}{more}" id="t{number}">'
        if not more:
            yield _heading(turn, number)
        yield from (_prompt(part) if turn.speaker == "system" else _part(part) for part in turn.parts)
        yield "</article>"
        before = turn
    yield "</main>"


_KINDS = frozenset({"user", "assistant", "tool", "bash", "system", "program", "summary"})


def _heading(turn: Turn, number: int) -> str:
    detail = f"<span>{_bdi(turn.detail)}</span>" if turn.detail else ""
    label = f'<span class="label">{_bdi(turn.label)}</span>' if turn.label else ""
    when = f'<a class="time" href="#t{number}">{_time(turn.timestamp)}</a>' if turn.timestamp else ""
    return f"<header><h2>{_bdi(turn.speaker.capitalize())}</h2>{detail}{label}{when}</header>"


def _time(timestamp: str) -> str:
    shown = _words(render.clock(timestamp))
    known = seconds(timestamp) is not None
    return f'<time datetime="{escape(timestamp.strip())}">{shown}</time>' if known else shown


def _part(part: render.Part) -> str:
    match part:
        case Prose(text=text):
            return f'<div class="prose" dir="auto">{_prose(text)}</div>'
        case Thought(text=""):
            return _aside("thinking that its provider keeps to itself")
        case Thought(text=text):
            inside = f'<div class="prose" dir="auto">{_prose(text)}</div>'
            return _folded("thought", "Thinking", render.first_line(text), "", inside)
        case Picture():
            return _picture(part)
        case Call():
            return _call(part)
        case Result():
            return _folded("call", "Result", render.first_line(part.text), _outcome(part), _answer(part))
        case Command(command=command, output=output, outcome=outcome):
            inside = _code(command, "bash") + (_text(output) if output else _aside("no output"))
            state = f'<span class="outcome error">{_words(outcome)}</span>' if outcome else _counted(output)
            return _folded("call", "$", render.first_line(command), state, inside)
        case Note(text=text, is_error=is_error):
            return _aside(text, is_error=is_error)


def _prompt(part: render.Part) -> str:
    """What a program told its model: long, as a rule, and not what people come for."""
    glance = render.first_line(part.text) if isinstance(part, Prose) else ""
    return _folded("thought", "Prompt", glance, "", _part(part))


def _call(call: Call) -> str:
    every = render.fields(call.arguments)
    short = [
        f"<dt>{_bdi(field.name)}</dt><dd><code>{_words(field.text)}</code></dd>"
        for field in every
        if field.name and not field.is_long
    ]
    inside = f'<dl class="arguments">{"".join(short)}</dl>' if short else ""
    for field in every:
        if field.is_long or not field.name:
            inside += (f"<h3>{_bdi(field.name)}</h3>" if field.name else "") + _code(field.text, field.hint)
    if call.result is None:
        outcome, answer = '<span class="outcome">no result</span>', ""
    else:
        outcome, answer = _outcome(call.result), f"<h3>Result</h3>{_answer(call.result)}"
    return _folded("call", call.name, render.glance(call.arguments), outcome, inside + answer)


def _answer(result: Result) -> str:
    text = _text(result.text) if result.text else ""
    return (text + "".join(map(_picture, result.pictures))) or _aside("nothing")


def _outcome(result: Result) -> str:
    return '<span class="outcome error">error</span>' if result.is_error else _counted(result.text)


def _counted(text: str) -> str:
    return f'<span class="outcome">{counted(len(render.lines(text)), "line")}</span>'


def _folded(kind: str, what: str, glance: str, outcome: str, inside: str) -> str:
    return (
        f'<details class="fold {kind}"><summary><span class="what">{_bdi(what)}</span>'
        f'<code class="glance">{_bdi(glance)}</code>{outcome}</summary>'
        f'<div class="inside">{inside}</div></details>'
    )


def _aside(text: str, *, is_error: bool = False) -> str:
    return f'<p class="aside{" error" if is_error else ""}">{_bdi(text)}</p>'


def _text(text: str) -> str:
    return f'<pre class="text" dir="auto">{escape(visible(text))}</pre>'


def _words(text: str) -> str:
    return escape(one_line(text))


def _bdi(text: str) -> str:
    """A few words that may be written in any direction, among ours."""
    return f"<bdi>{_words(text)}</bdi>"


# --- pictures -------------------------------------------------------------------------------------------

_DATA = "data:image/"
_SHOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def _picture(picture: Picture) -> str:
    about = f"{picture.media_type}, {size(picture.size)}"
    try:
        decoded = base64.b64decode("".join(picture.data.split()), validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    if picture.media_type not in _SHOWN or not decoded:
        return _aside(f"a picture that is not shown: {about}")
    data = base64.b64encode(decoded).decode()
    return f'<img src="data:{picture.media_type};base64,{data}" alt="{_words(about)}">'


# --- Markdown and code ----------------------------------------------------------------------------------


def _prose(text: str) -> str:
    found = markdown.tokens(text)
    if found is None:
        return _text(text)
    for token in found:
        _adapt(token)
        for child in token.children or ():
            _adapt(child)
    renderer, options = _renderer()
    return renderer.render(found, options, {})


def _adapt(token: Token) -> None:
    """To its place in the page: below our headings, with links that tell nothing, and without styles."""
    if token.type in ("heading_open", "heading_close"):
        token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
    elif token.type == "link_open":
        title = token.attrs.get("title")
        token.attrs = {"href": visible(str(token.attrs["href"])), "rel": "noopener noreferrer nofollow"}
        if title:
            token.attrs["title"] = visible(str(title))
    elif token.type == "list_item_open" and token.info:
        token.attrs = {"value": int(token.info)}  # the number that was written, whatever came before it
    elif token.type in ("td_open", "th_open"):
        side = str(token.attrs.get("style", "")).removeprefix("text-align:")
        token.attrs = {"class": side} if side in ("center", "right") else {}


class _Renderer(RendererHTML):
    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        info = tokens[idx].info.strip()
        return _code(tokens[idx].content, info.split()[0] if info else "", info)

    def code_block(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return _code(tokens[idx].content, "")

    def table_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return '<div class="table"><table>\n'

    def table_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "</table></div>\n"


@cache
def _renderer() -> tuple[_Renderer, OptionsDict]:
    return _Renderer(), OptionsDict(commonmark.make()["options"])


def _code(text: str, hint: str, info: str = "") -> str:
    about = f'<div class="info">{_bdi(info)}</div>' if info else ""
    return f'<div class="code">{about}<pre dir="auto"><code>{_highlighted(text, hint)}</code></pre></div>'


_LONGEST = 50_000  # characters of code to be highlighted


def _highlighted(text: str, hint: str) -> str:
    """Code with its words in spans of Pygments' classes; plain, where nobody knows the language."""
    shown = visible(text)
    lexer = _lexer(hint) if hint and len(shown) <= _LONGEST else None
    if lexer is None:
        return escape(shown)
    from pygments.token import STANDARD_TYPES

    try:
        words = list(lexer.get_tokens(shown))
    except Exception:  # one of hundreds of lexers, at work on anything
        words = []
    if "".join(word for _, word in words) != shown:
        return escape(shown)
    classes = ((STANDARD_TYPES.get(kind) or STANDARD_TYPES.get(kind.parent), word) for kind, word in words)
    return "".join(
        f'<span class="{name}">{escape(word)}</span>' if name else escape(word) for name, word in classes
    )


@cache
def _lexer(hint: str) -> Any:
    """By the name of a language, or of a file."""
    from pygments import lexers

    try:
        kind = lexers.find_lexer_class_by_name(hint)
    except lexers.ClassNotFound:
        kind = lexers.find_lexer_class_for_filename(hint)
    return kind(stripnl=False, ensurenl=False) if kind else None
