"""Markdown: reading hides nothing, and in a document no message reaches beyond itself."""

import re
import unicodedata
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from perdure.front import markdown, render
from perdure.front.render import Call, Command, Note, Picture, Prose, Result, Thought, Turn
from perdure.front.visible import visible
from tests.front.test_render import ANSWER, STAMP, conversation, kept
from tests.generated import sessions, texts
from tests.layouts import store_of

FRAGMENTS = [
    *(
        "word",
        "two words",
        "**bold**",
        "`code`",
        "``a ` b``",
        "# heading",
        "## User · scripted",
        "Setext\n===",
        "---",
    ),
    *(
        "```python\nx = 1\n```",
        "```\nopen",
        "~~~~\nopen too",
        "````md\n```\n````",
        "    indented",
        "- item\n  - inner",
    ),
    *(
        "1. one\n2. two",
        "7) seven",
        "> quote\n> more",
        "> ```\n> in quote",
        "- ```\n  in item",
        "* * *",
        "\\",
        "`",
        "``",
    ),
    *(
        "<b>bold</b>",
        "<div>\n\ninner",
        "</div>",
        "<!-- hidden",
        "-->",
        "<details>",
        "</details>",
        "<summary>x</summary>",
    ),
    *(
        "<script>alert(1)",
        "</script>",
        "<pre>\nraw",
        "<?php echo 1",
        "<![CDATA[ x",
        "<!DOCTYPE html>",
        "<x-y a='>'>",
    ),
    *(
        "<style>",
        "</style>",
        "<textarea>",
        "<img src=x onerror=alert(1)>",
        "`<b>` <i>",
        "\\<b>",
        "a < b > c",
        "<",
    ),
    *(
        "[link](http://a.example/x)",
        "[bad](javascript:alert(1))",
        "<http://b.example>",
        "<me@c.example>",
        "[ref]: http://d",
    ),
    *(
        "[ref][ref]",
        "![picture](http://e.example/p.png)",
        "![](data:image/png;base64,aGk=)",
        "[![in](http://f)](http://g)",
    ),
    *(
        "|a|b|\n|-|:-:|\n|1|2|3|",
        "|a|b|\n|-|-|\n|1|2|",
        "|only",
        "~~gone~~",
        "&amp; &#x202e; &#27;[31m",
        "a\\\nb",
        "x  \ny",
    ),
    *(
        "\u202eevil",
        "\x1b[31mred",
        "\x00",
        "\ud800",
        "\u2028",
        "\t- tab",
        ">" * 60 + " deep",
        "[" * 40,
        "*" * 40,
        "_a_b_",
    ),
]
messages = st.lists(st.one_of(st.sampled_from(FRAGMENTS), texts), min_size=1, max_size=5).map("\n".join)


def words(text: str) -> set[str]:
    """What is read of a text, whatever is around it."""
    return set(re.findall(r"[^\W_]+", text))


def shown_by(tokens: Iterable[Token]) -> str:
    """All that a reader of these tokens sees, or finds behind a link."""
    found = []
    for token in tokens:
        found += [token.content, token.info, *map(str, token.attrs.values())]
        found.append(shown_by(token.children or ()))
    return "\n".join(found)


# --- reading ------------------------------------------------------------------------------------------


@given(text=messages)
@example(text="|a|b|\n|-|-|\n|1|2|3 words too many|")
@example(text=">" * 60 + " deep")
@example(text="".join("  " * depth + f"- level{depth}\n" for depth in range(60)))
@example(text="[hidden]: http://example.org 'title'")
@example(text='[a](http://x "title")')
@example(text="```python title=x\ncode\n```")
def test_nothing_that_was_said_is_hidden(text):
    """Every word of a message is in what is shown, or the message is to be shown as it stands."""
    found = markdown.tokens(text)
    if found is not None:
        shown = shown_by(found)
        missing = {word for word in words(visible(text)) - words(shown) if word.isascii()}
        assert missing - {"amp", "x202e", "27"} <= set(), shown


@given(text=messages)
def test_only_links_of_three_kinds_are_links_and_nothing_is_a_picture(text):
    """And no token is HTML."""
    found = markdown.tokens(text) or []
    every = [*found, *(child for token in found for child in token.children or ())]
    assert not {"image", "html_block", "html_inline"} & {token.type for token in every}
    links = [str(token.attrs["href"]) for token in every if token.type == "link_open"]
    assert all(link.startswith(("http://", "https://", "mailto:")) for link in links)


@given(text=messages)
def test_what_is_read_is_fit_to_be_seen(text):
    """Also what only becomes a character by reading, as `&#x202e;` does."""
    for token in markdown.tokens(text) or []:
        for child in token.children or [token]:
            assert child.content == visible(child.content)


def test_a_line_break_stays_one():
    """People mean those they type."""
    (_, inline, _) = markdown.tokens("a\nb") or []
    assert [child.type for child in inline.children or ()] == ["text", "hardbreak", "text"]


def test_a_picture_is_a_link_to_it_and_in_a_link_its_name():
    """Nothing is fetched by looking at a message."""
    (_, inline, _) = markdown.tokens("![a](http://x/p.png) [![b](http://y/q.png)](http://z)") or []
    children = inline.children or []
    links = [child.attrs["href"] for child in children if child.type == "link_open"]
    assert links == ["http://x/p.png", "http://z"]
    assert [child.content for child in children if "image" in child.content] == [
        "[image: a]",
        "[image: b, http://y/q.png]",
    ]


@pytest.mark.parametrize(
    "text", ["[" * 50_000, "![[" * 30_000, "a " * 60_000], ids=["brackets", "images", "long"]
)
def test_what_would_take_too_long_to_read_is_not_read(text):
    """It is to be shown as it stands."""
    assert markdown.tokens(text) is None


# --- one message --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", [ANSWER, "a < b and `<b>`", "<http://x.example> <me@x.example>", "```\n<b>\n```"]
)
def test_a_message_that_reaches_nowhere_stays_as_it_is(text):
    """Character by character."""
    assert markdown.contained(text) == text.strip("\n")


@pytest.mark.parametrize(
    ("text", "contained"),
    [
        ("```py\nopen", "```py\nopen\n```"),
        ("~~~~\n```\n", "~~~~\n```\n~~~~"),
        ("<details>", "\\<details>"),
        ("<!-- open", "\\<!-- open"),
        ("`<b>` <i>x</i>", "`<b>` \\<i>x\\</i>"),
        ("<?php\n\n<b>", "\\<?php\n\n\\<b>"),
        ("- ```\n  open", "- ```\n  open"),
        (">" * 60 + "<b>", "```\n" + ">" * 60 + "<b>\n```"),
    ],
)
def test_what_a_message_leaves_open_is_closed_and_its_html_is_text(text, contained):
    """And nothing else of it is changed; what cannot be read with certainty is fenced."""
    assert markdown.contained(text) == contained


@pytest.mark.parametrize("text", ["", "`", "```", "a ```` b", "x\n", "\n\nx"], ids=repr)
def test_nothing_inside_a_fence_ends_it(text):
    """It is longer than any inside."""
    (token,) = MarkdownIt().parse(markdown.fenced(text, "py"))
    assert token.type == "fence"
    assert token.content.strip("\n") == text.strip("\n")


# --- a document ---------------------------------------------------------------------------------------

parts = st.one_of(
    st.builds(Prose, messages),
    st.builds(Thought, messages),
    st.builds(Note, messages),
    st.builds(Command, messages, messages, messages),
    st.builds(Picture, texts, st.just("aGk=")),
    st.builds(
        Call,
        texts,
        messages,
        st.dictionaries(texts, messages, max_size=2),
        st.none() | st.builds(Result, texts, texts, messages, st.just([]), st.booleans(), texts),
    ),
)
speakers = st.sampled_from(["user", "assistant", "system", "note", "oracle"])
documents = st.builds(
    render.Document,
    messages,
    st.lists(st.tuples(st.sampled_from(["program", "began", "directory"]), messages), max_size=2),
    st.lists(st.builds(Turn, texts, speakers, texts, texts, texts, st.lists(parts, max_size=3)), max_size=4),
)


def outline(text: str) -> tuple[list[str], list[str]]:
    """The headings at the outermost level, and all HTML, as other programs read the document."""
    found = MarkdownIt("commonmark", {"maxNesting": 200}).enable(["table", "strikethrough"]).parse(text)
    headings = [
        found[at + 1].content
        for at, token in enumerate(found)
        if token.type == "heading_open" and token.level == 0 and token.tag in ("h1", "h2")
    ]
    every = [*found, *(child for token in found for child in token.children or ())]
    return headings, [token.content for token in every if token.type in ("html_block", "html_inline")]


@pytest.mark.slow
@given(given_document=documents)
def test_every_turn_of_a_document_is_where_it_should_be(given_document):
    """No message swallows what follows it, and the only HTML is that of our own folds, each of which ends."""
    turns = [turn._replace(detail=f"nr{number}") for number, turn in enumerate(given_document.turns)]
    headings, tags = outline(markdown.document(given_document._replace(turns=turns)))
    found = [match[1] for heading in headings if (match := re.match(r"\w+ · (nr\d+)", heading))]
    assert found == [turn.detail for turn in turns if turn.speaker != "note"]
    opened = [tag for tag in tags if tag.startswith("<details>\n<summary>")]
    closed = [tag for tag in tags if tag.rstrip("\n") == "</details>"]
    assert len(opened) == len(closed)
    assert len(opened) + len(closed) == len(tags)


@pytest.mark.slow
@given(given_document=documents)
def test_a_document_is_fit_to_be_seen(given_document):
    """Nothing in it is a control, turns the reading direction, or cannot be written at all."""
    text = markdown.document(given_document)
    assert text.encode().decode() == text
    assert text == visible(text)
    assert not any(unicodedata.category(character) == "Cc" for character in text if character not in "\n\t")


@given(entries=sessions())
def test_any_session_is_a_document(entries):
    """Unknown kinds and lone surrogates included, and all that was said is in it."""
    text = markdown.document(render.Document("t", [], render.turns(entries)))
    for entry in entries:
        if entry.type == "message" and entry.role in ("user", "assistant") and entry.text.isalnum():
            assert visible(entry.text) in text


def test_a_whole_conversation_reads_well(tmp_path):
    """Facts first, a heading for each who speaks, calls in fences, results and thinking folded."""
    session = kept(store_of("pi", tmp_path), conversation())
    text = markdown.document(render.document(session))
    assert text.startswith(
        f"# The auth bug is back. See the log:\n\n- Program: `pi`\n- Session: `{session.id}`\n"
    )
    assert "- Began: 2026-01-31 09:05 UTC\n- Directory: `/home/me/api`\n" in text
    assert ANSWER.strip() in text
    assert (
        "**bash**\n\n```bash\nrg -n 'def refresh' src\n```\n\n<details>\n<summary>Result, 1 line</summary>"
        in text
    )
    assert "<details>\n<summary>Thinking</summary>\n\n> Two requests, one token.\n>\n> Which one" in text
    assert "`newText`:\n\n```py\nasync def refresh(self):\n" in text
    assert "<summary>Error, 1 line</summary>\n\n```\noldText was not found\n```\n\n</details>" in text
    assert text.count("\n## Assistant · scripted-1 · ") == 1  # who goes on speaking is named once
    assert STAMP not in text
