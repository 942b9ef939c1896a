"""The page: well made whatever is in the session, with no element, attribute or link but those we chose."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.front import html, render
from perdure.front.render import Call, Note, Picture, Prose, Result, Turn
from perdure.front.visible import visible
from perdure.testing import user_entry
from perdure.testing.writing import child
from tests.front.test_markdown import FRAGMENTS, documents, messages, words
from tests.front.test_render import ANSWER, conversation, kept, png
from tests.generated import sessions, texts
from tests.layouts import store_of

VOID = {"meta", "br", "hr", "img"}
PLAIN = {
    "title",
    "style",
    "head",
    "body",
    "dt",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "ul",
    "li",
    "p",
    "blockquote",
}
PLAIN |= {
    "em",
    "strong",
    "s",
    "table",
    "thead",
    "tbody",
    "tr",
    "bdi",
    "footer",
    "main",
    "nav",
    "summary",
    "br",
    "hr",
}
ALLOWED: dict[str, set[str]] = {
    **{name: set() for name in PLAIN},
    **{name: {"class"} for name in ("dl", "dd", "details", "div", "span", "td", "th", "p", "header")},
    "html": {"lang"},
    "meta": {"charset", "http-equiv", "content", "name"},
    "article": {"class", "id"},
    "p": {"class", "id"},
    "div": {"class", "dir"},
    "pre": {"class", "dir"},
    "code": {"class"},
    "a": {"class", "href", "rel", "title"},
    "time": {"datetime"},
    "img": {"src", "alt"},
    "ol": {"start"},
    "li": {"value"},
}
OUR_LINKS = re.compile(r"#t\d+")
LINKS = re.compile(r"(?:https?://|mailto:)[!-~]*")
PICTURES = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")


class Page(HTMLParser):
    """A page taken apart, with everything that is wrong with it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.wrong: list[str] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.classes: set[str] = set()
        self.ids: list[str] = []
        self.metas: dict[str, str] = {}
        self.style = ""
        self.feed(text)
        self.close()
        if self.open:
            self.wrong.append(f"left open: {self.open}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if tag not in ALLOWED:
            self.wrong.append(f"<{tag}>")
        elif extra := {name for name in names if name not in ALLOWED[tag]}:
            self.wrong.append(f"<{tag} {extra}>")
        if len(names) != len(attrs) or None in names.values():
            self.wrong.append(f"<{tag} {attrs}>")
        if tag == "a":
            link, is_ours = names.get("href") or "", "rel" not in names
            if not (OUR_LINKS if is_ours else LINKS).fullmatch(link):
                self.wrong.append(f"link {link!r}")
            if not is_ours and names["rel"] != "noopener noreferrer nofollow":
                self.wrong.append(f"rel {names['rel']!r}")
            if "a" in self.open:
                self.wrong.append("a link in a link")
        if tag == "img" and not PICTURES.fullmatch(names.get("src") or ""):
            self.wrong.append(f"picture {names.get('src')!r}")
        self.classes |= set((names.get("class") or "").split())
        self.ids += [names["id"] or ""] if "id" in names else []
        self.metas[names.get("http-equiv") or names.get("name") or ""] = names.get("content") or ""
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.style += data
        else:
            self.text.append(data)

    def handle_comment(self, data: str) -> None:
        self.wrong.append(f"<!--{data}-->")

    def handle_pi(self, data: str) -> None:
        self.wrong.append(f"<?{data}>")

    def unknown_decl(self, data: str) -> None:
        self.wrong.append(f"<![{data}")


def page_of(*parts: render.Part, speaker: str = "assistant", title: str = "t") -> Page:
    turn = Turn("id", speaker, "model", "2026-01-31T09:05:00Z", "", list(parts))
    return Page(html.document(render.Document(title, [("program", "pi")], [turn])))


@pytest.mark.slow
@given(given_document=documents)
def test_a_page_is_well_made_whatever_is_in_it(given_document):
    """Balanced, and nothing in it but what we put there."""
    page = Page(html.document(given_document))
    assert page.wrong == []
    assert page.ids == [f"t{number}" for number in range(len(given_document.turns))]


@given(entries=sessions())
def test_any_session_is_a_page(entries):
    """Unknown kinds and lone surrogates included."""
    text = html.document(render.Document("t", [], render.turns(entries)))
    assert Page(text).wrong == []
    assert text.encode().decode() == text


@given(text=messages)
@example(text="|a|b|\n|-|-|\n|1|2|three|")
@example(text="[hidden]: http://example.org")
@example(text="~~~ python one two\nx\n~~~")
def test_every_word_of_a_message_can_be_read(text):
    """On the page, or behind a link of it."""
    made = html.document(render.Document("t", [], [Turn("i", "user", "", "", "", [Prose(text)])]))
    assert Page(made).wrong == []
    read = words(" ".join([*Page(made).text, *re.findall(r'(?:href|title|value)="([^"]*)"', made)]))
    wanted = {word for word in words(visible(text)) if word.isascii()} - {"amp", "x202e", "27"}
    assert {word for word in wanted - read if word.lstrip("0") not in read} == set()


@given(given_document=documents)
def test_nothing_on_a_page_turns_the_reading_direction_or_is_a_control(given_document):
    """Neither in its text nor in an attribute, and also not written as a reference."""
    text = html.document(given_document)
    assert text == visible(text)
    assert visible("".join(Page(text).text)) == "".join(Page(text).text)


@pytest.mark.parametrize(
    "scheme",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:1",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        "//host/x",
    ],
)
@pytest.mark.parametrize("form", ["[a]({})", "<{}>", "![a]({})", "[a](<{}>)", "[a][b]\n\n[b]: {}"])
def test_a_link_of_another_scheme_is_text(scheme, form):
    """As it was written."""
    page = page_of(Prose(form.format(scheme)))
    assert page.wrong == []
    assert scheme in "".join(page.text)


@pytest.mark.parametrize(
    "fragment", [*FRAGMENTS, "</style>", "</title>", "]]>", '"', "'", "\" onload='x'", "</details>"]
)
def test_hostile_words_stay_words_in_every_place(fragment):
    """In titles, facts, names of models and tools, labels, times, results and kinds of pictures."""
    result = Result("i", fragment, fragment, [Picture(fragment, "aGk=")], True, fragment)
    turn = Turn(
        fragment, fragment, fragment, fragment, fragment, [Call("c", fragment, {fragment: fragment}, result)]
    )
    note = turn._replace(speaker="note", parts=[Note(fragment)])
    page = Page(
        html.document(render.Document(fragment, [(fragment, fragment), ("began", fragment)], [turn, note]))
    )
    assert page.wrong == []
    assert page.ids == ["t0", "t1"]


# --- the head -----------------------------------------------------------------------------------------


def test_the_policy_allows_the_style_sheet_by_its_hash_and_nothing_else():
    """Not even pictures, unless there are some."""
    plain, pictured = page_of(Prose("x")), page_of(Picture("image/png", png()))
    hashed = base64.b64encode(hashlib.sha256(plain.style.encode()).digest()).decode()
    rest = "base-uri 'none'; form-action 'none'"
    start = f"default-src 'none'; style-src 'sha256-{hashed}';"
    assert plain.metas["Content-Security-Policy"] == f"{start} {rest}"
    assert pictured.metas["Content-Security-Policy"] == f"{start} img-src data:; {rest}"


def test_the_page_needs_nothing_from_anywhere():
    """No address in it but those that were said; and none in its style sheet."""
    text = html.document(render.Document("t", [], [Turn("i", "user", "", "", "", [Prose("hello")])]))
    assert "http" not in text.replace("http-equiv", "")
    assert "url(" not in text
    assert "@import" not in text


def test_both_themes_have_every_colour():
    """A colour that only one of them sets would be the other's by accident."""
    light, dark, printed = re.findall(r":root \{(.*?)\}", html._style(), re.DOTALL)
    named = [set(re.findall(r"(--[a-z]+):", each)) for each in (light, dark, printed)]
    assert named[0] == named[1] == named[2]
    assert set(re.findall(r"var\((--[a-z]+)\)", html._style())) == named[0]


def test_every_class_on_a_page_is_in_the_style_sheet(tmp_path):
    """And every one of our own in the style sheet is used by a conversation that has everything in it."""
    entries = conversation()
    for _ in range(5):
        entries.append(child(user_entry("more"), entries[-1]))
    labelled = render.document(kept(store_of("pi", tmp_path), entries))
    turns = [turn._replace(label="here") if turn.speaker == "user" else turn for turn in labelled.turns]
    page = Page(html.document(labelled._replace(turns=turns)))
    assert page.wrong == []
    ours = set(re.findall(r"\.([a-z]{3,})\b", re.sub(r"/\*.*?\*/", "", html._style(), flags=re.DOTALL)))
    ours -= {"cpf"}  # Pygments'
    assert ours <= page.classes
    assert {name for name in page.classes if len(name) > 3} <= ours | set(html._KINDS)


# --- Markdown, code, pictures -------------------------------------------------------------------------


def test_headings_of_a_message_are_below_ours():
    """The outline of the page stays: its title, and who speaks."""
    text = html.document(
        render.Document("t", [], [Turn("i", "user", "", "", "", [Prose("# a\n\n###### b")])])
    )
    assert "<h3>a</h3>" in text
    assert "<h6>b</h6>" in text


def test_a_numbered_list_has_the_numbers_that_were_written():
    """Where people count as they like, too."""
    assert re.findall(r'<li value="(\d+)">', html._prose("1. a\n5. b\n5. c")) == ["1", "5", "5"]


def test_code_is_highlighted_by_the_language_it_says_it_is_or_its_file():
    """By classes; and what nobody knows is plain."""
    assert '<span class="k">def</span>' in html._prose("```python\ndef f(): pass\n```")
    assert '<span class="k">def</span>' in html._code("def f():\n    pass\n", "src/a.py")
    assert "<span" not in html._prose("```no-such-language\ndef f(): pass\n```")
    assert "<span" not in html._code("x = 1\n" * 20_000, "python")


@given(
    text=texts,
    hint=st.one_of(texts, st.sampled_from(["python", "html", "diff", "json", "a.rs", "x/y.tex", "bash"])),
)
def test_highlighting_loses_nothing(text, hint):
    """Not a blank, and not at either end."""
    page = Page(f"<pre>{html._highlighted(text, hint)}</pre>")
    assert page.wrong == []
    assert "".join(page.text) == visible(text)


@pytest.mark.parametrize(
    ("media_type", "data", "is_shown"),
    [
        ("image/png", png(), True),
        ("image/png", png()[:40] + "\n" + png()[40:], True),
        ("image/svg+xml", base64.b64encode(b"<svg onload=alert(1)>").decode(), False),
        ("text/html", "aGk=", False),
        ("image/png", 'aGk="><script>alert(1)</script>', False),
        ("image/png", "", False),
        ("image/png", "not base64!", False),
        ('image/png" onerror="x', "aGk=", False),
    ],
)
def test_only_pictures_that_were_decoded_are_shown(media_type, data, is_shown):
    """Of four kinds; any other is named."""
    page = page_of(Picture(media_type, data))
    assert page.wrong == []
    assert ("img-src" in page.metas["Content-Security-Policy"]) == is_shown
    assert ("not shown" in "".join(page.text)) != is_shown


def test_a_whole_conversation_is_a_page_with_its_parts_folded(tmp_path):
    """All that was said is there, calls and thinking in folds; contents are listed where that helps."""
    session = kept(store_of("pi", tmp_path), conversation())
    text = html.document(render.document(session))
    page = Page(text)
    assert page.wrong == []
    read = " ".join(page.text)
    assert words(ANSWER) - {
        "https",
        "www",
        "rfc",
        "editor",
        "org",
        "rfc6749",
        "OAuth",
        "0",
        "example",
        "png",
    } <= words(read)
    assert text.count('<details class="fold call">') == 3
    assert text.count('<details class="fold thought">') == 2
    assert "prompts" not in read
    many = [Turn("i", "user", "", "", "", [Prose(f"ask {number}")]) for number in range(4)]
    assert "4 prompts" in " ".join(Page(html.document(render.Document("t", [], many))).text)
