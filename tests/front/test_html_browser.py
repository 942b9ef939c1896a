"""The exported page in a real browser: it reads well, and whatever is in it, nothing runs or is fetched.

One browser for all of them, in one worker.
"""

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from perdure.front import html, render
from perdure.front.render import Call, Command, Note, Picture, Prose, Result, Thought, Turn
from perdure.testing import user_entry
from perdure.testing.writing import child
from tests.front.test_markdown import FRAGMENTS
from tests.front.test_render import STAMP, conversation, kept
from tests.layouts import store_of
from tests.needs import needs

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), "")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
pytestmark = [
    pytest.mark.process,
    needs("chromium", given=bool(CHROMIUM)),
    pytest.mark.xdist_group("browser"),
]

HOSTILE = [
    "<script>window.ran = 1; alert(1)</script>",
    "</script><script>window.ran = 1</script>",
    "</style><script>window.ran = 1</script><style>body{display:none}",
    "</title><script>window.ran = 1</script>",
    "</pre></code></div></details></article></main><script>window.ran = 1</script>",
    "<img src=x onerror='window.ran = 1'>",
    "<img src=http://127.0.0.1:9/pixel.png>",
    "<svg onload='window.ran = 1'><script>window.ran = 1</script></svg>",
    "<svg><animate onbegin='window.ran = 1' attributeName=x dur=1s>",
    "<body onload='window.ran = 1'>",
    "<details open ontoggle='window.ran = 1'>",
    "<iframe src='javascript:window.ran = 1'></iframe><iframe srcdoc='<script>parent.ran=1</script>'>",
    "<object data='data:text/html,<script>1</script>'></object><embed src='http://127.0.0.1:9/e'>",
    "<meta http-equiv=refresh content='0; url=http://127.0.0.1:9/gone'>",
    "<meta http-equiv='Content-Security-Policy' content='default-src *'>",
    "<base href='http://127.0.0.1:9/'><link rel=stylesheet href=http://127.0.0.1:9/s.css>",
    "<style>@import 'http://127.0.0.1:9/i.css'; body { background: url(http://127.0.0.1:9/b.png) }</style>",
    "<form action='http://127.0.0.1:9/'><input autofocus onfocus='window.ran = 1'><button>go</button></form>",
    "<a href='javascript:window.ran = 1'>click</a>",
    "[click](javascript:window.ran=1)",
    "[click](JAVASCRIPT:window.ran=1)",
    "[click](java\tscript:window.ran=1)",
    "[click](&#106;avascript:window.ran=1)",
    "[click](data:text/html;base64,PHNjcmlwdD4xPC9zY3JpcHQ+)",
    "[click](//127.0.0.1:9/x)",
    "[click](vbscript:x) [click](file:///etc/passwd) [click](blob:x) [click](view-source:x)",
    "<javascript:window.ran=1>",
    "![x](javascript:window.ran=1) ![x](http://127.0.0.1:9/p.png) ![x](data:image/svg+xml;base64,PHN2Zz4=)",
    '![x](http://127.0.0.1:9/p.png"onerror="window.ran=1)',
    '[a](http://127.0.0.1:9/"onmouseover="window.ran=1 "t" onclick="window.ran=1")',
    '```"><script>window.ran=1</script>\nopen',
    "``` html\n<script>window.ran = 1</script>\n```",
    "<!-- <script>window.ran = 1</script>",
    "<![CDATA[<script>window.ran = 1</script>]]>",
    "<noscript><p title='</noscript><img src=x onerror=window.ran=1>'>",
    "<math><mtext></mtext><mglyph><svg><mtext><style><path id='</style><img onerror=window.ran=1 src>'>",
    "<template><script>window.ran = 1</script></template><slot><portal src=x><frameset><plaintext>",
    "&lt;script&gt;window.ran = 1&lt;/script&gt; &#60;script&#62;window.ran = 1&#60;/script&#62;",
    "\u202e</\u2066script\u2069> \x00<scr\x00ipt>window.ran = 1</script>",
    "<p id=t0 name=body class=turn style='position:fixed;inset:0'>over all</p>",
    "{{constructor.constructor('window.ran=1')()}} ${window.ran=1} <%= 1 %>",
]


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


class Watched:
    """A page that is open, and all that happened in it that should not."""

    def __init__(self, browser: Browser, file: Path, **options) -> None:
        self.context = browser.new_context(**options)
        self.page: Page = self.context.new_page()
        self.seen: list[str] = []
        address = file.as_uri()
        self.page.on("console", lambda message: self.seen.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.seen.append(f"error: {error}"))
        self.page.on("dialog", self._asked)
        self.page.on("popup", lambda popup: self.seen.append(f"popup: {popup.url}"))
        self.page.on("request", lambda request: self._requested(request.url, address))
        self.page.on("framenavigated", lambda frame: self._requested(frame.url, address))
        # Before anything of the page: what the policy refuses is heard as an event.
        self.page.add_init_script(
            "document.addEventListener('securitypolicyviolation',"
            " event => console.log('refused: ' + event.violatedDirective + ' ' + event.blockedURI))"
        )
        self.page.goto(address)

    def _asked(self, dialog: Dialog) -> None:
        self.seen.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _requested(self, url: str, address: str) -> None:
        if url.partition("#")[0] != address and not url.startswith("data:image/"):
            self.seen.append(f"request: {url}")

    def __enter__(self) -> "Watched":
        return self

    def __exit__(self, *exception: object) -> None:
        self.context.close()

    @property
    def text(self) -> str:
        return self.page.inner_text("body")

    def open_all(self) -> None:
        self.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")


@pytest.fixture(scope="module")
def usual(tmp_path_factory) -> Path:
    """A conversation with everything in it, as a file."""
    folder = tmp_path_factory.mktemp("usual")
    entries = conversation()
    for number in range(3):
        entries.append(child(user_entry(f"question {number}"), entries[-1]))
    file = folder / "talk.html"
    file.write_text(html.document(render.document(kept(store_of("pi", folder / "home"), entries))))
    return file


@pytest.fixture(scope="module")
def hostile(browser, tmp_path_factory):
    """Everything hostile, in every place of a page, open and unfolded."""
    turns = [Turn("", "user", "", "", "", [Prose(text)]) for text in FRAGMENTS]
    for text in HOSTILE:
        result = Result(text, text, text, [Picture(text, "aGk="), Picture("image/svg+xml", text)], True, text)
        call = Call(text, text, {text: text, "path": text, "b": f"\n{text}"}, result)
        parts: list[render.Part] = [Prose(text), Thought(text), call, result, Command(text, text, text)]
        parts += [Note(text, True), Picture(text, text)]
        turns.append(Turn(text, text, text, text, text, parts))
        turns.append(Turn(text, "note", text, STAMP, text, [Note(text)]))
    file = tmp_path_factory.mktemp("hostile") / "talk.html"
    facts = [(text, text) for text in HOSTILE]
    file.write_text(html.document(render.Document("".join(HOSTILE), facts, turns)))
    with Watched(browser, file) as watched:
        watched.open_all()
        yield watched


# --- a usual session ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_a_usual_session_opens_without_a_complaint_and_nothing_sticks_out(browser, usual, scheme, width):
    """No error, no refusal, no request; and nobody has to scroll sideways, on a phone or a screen."""
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
    with Watched(browser, usual, **options) as watched:
        watched.open_all()
        watched.page.wait_for_function("document.querySelector('img').naturalWidth > 0")
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
        assert watched.seen == []


def test_light_and_dark_are_different_and_both_can_be_read(browser, usual):
    """Text and background are far apart in both: 7 to 1 for what is said, 4.5 to 1 for what is faint."""
    grounds = set()
    for scheme in ("light", "dark"):
        with Watched(browser, usual, color_scheme=scheme) as watched:
            watched.open_all()
            ground = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
            grounds.add(ground)
            for selector, least in [
                ("body", 7),
                (".facts dt", 4.5),
                (".turn.user h2", 4.5),
                (".turn .time", 4.5),
                (".fold .glance", 4.5),
                (".outcome.error", 4.5),
                (".code .k", 4.5),
                (".code .c1", 4.5),
                (".code .s2", 4.5),
            ]:
                assert contrast(watched.page, selector) >= least, (scheme, selector)
    assert len(grounds) == 2


def contrast(page: Page, selector: str) -> float:
    """Of an element's text to what is behind it, as WCAG counts it."""
    colours = page.evaluate(
        """selector => {
            let at = document.querySelector(selector)
            const text = getComputedStyle(at).color
            while (getComputedStyle(at).backgroundColor === 'rgba(0, 0, 0, 0)') at = at.parentElement
            return [text, getComputedStyle(at).backgroundColor]
        }""",
        selector,
    )
    one, other = sorted(luminance([int(part) for part in each[4:-1].split(",")]) for each in colours)
    return (other + 0.05) / (one + 0.05)


def luminance(colour: list[int]) -> float:
    shares = [part / 255 for part in colour]
    linear = [share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(weight * share for weight, share in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_what_is_folded_opens_by_a_click_and_by_the_keyboard(browser, usual):
    """Without a script."""
    with Watched(browser, usual, java_script_enabled=True) as watched:
        fold = watched.page.locator("details.fold.call").first
        assert not fold.locator(".inside").is_visible()
        fold.locator("summary").click()
        assert fold.locator(".inside").is_visible()
        fold.locator("summary").press("Enter")
        assert not fold.locator(".inside").is_visible()
        watched.page.locator(".contents summary").click()
        watched.page.locator(".contents a").nth(2).click()
        assert watched.page.evaluate("location.hash").startswith("#t")
        assert watched.seen == []


def test_all_that_was_said_can_be_read(browser, usual, tmp_path):
    """Each line of each message, once what is folded is open."""
    with Watched(browser, usual) as watched:
        watched.open_all()
        text = " ".join(watched.text.split())
        for line in [
            "The auth bug is back.",
            "See the log:",
            "I look.",
            "Two requests, one token.",
            "make test",
        ]:
            assert line in text
        for line in [
            "12 passed",
            "2 warnings left",
            "question 2",
            "oldText was not found",
            "You are a careful",
        ]:
            assert line in text
        assert "src/auth/session.py:41:def refresh(self):" in text
        assert "async with self._lock: if self.token.age < LIMIT and not self._stale" in text


def test_the_page_needs_no_script(browser, usual):
    """It is the same with scripts turned off."""
    with Watched(browser, usual, java_script_enabled=False) as watched:
        watched.page.locator("details.fold.call summary").first.click()
        assert "src/auth/session.py:41" in watched.text


def test_it_prints(browser, usual, tmp_path):
    """On paper, in ink, also for who reads in the dark; and what was opened is printed."""
    with Watched(browser, usual, color_scheme="dark") as watched:
        watched.open_all()
        watched.page.emulate_media(media="print")
        assert (
            watched.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        )
        assert watched.page.pdf().startswith(b"%PDF")


# --- a hostile one ------------------------------------------------------------------------------------


def test_nothing_hostile_runs_or_asks_for_anything(hostile):
    """No script, no dialog, no request, and nothing the policy would even have to refuse."""
    hostile.page.mouse.move(200, 400)
    hostile.page.keyboard.press("Tab")
    hostile.page.wait_for_timeout(300)
    assert hostile.page.evaluate("window.ran") is None
    assert hostile.seen == []


def test_no_hostile_element_attribute_or_link_is_in_the_page(hostile):
    """As the browser understood it, which is what counts."""
    names, attributes, links = hostile.page.evaluate(
        """() => {
            const every = [...document.querySelectorAll('*')]
            const linked = [...document.querySelectorAll('[href], [src]')]
            return [
                [...new Set(every.map(each => each.localName))],
                [...new Set(every.flatMap(each => [...each.attributes].map(one => one.name)))],
                linked.map(each => each.getAttribute('href') ?? each.getAttribute('src')),
            ]
        }"""
    )
    forbidden = {
        "script",
        "iframe",
        "object",
        "embed",
        "form",
        "input",
        "button",
        "base",
        "link",
        "svg",
        "math",
    }
    assert not forbidden & set(names)
    assert not [name for name in attributes if name.startswith("on") or name in ("style", "srcdoc", "srcset")]
    allowed = ("http://", "https://", "mailto:", "#t")
    assert [link for link in links if not link.startswith(allowed)] == []
    for selector, count in [("style, title, body, main", 4), ("meta", 4), ("#t0", 1)]:
        assert hostile.page.evaluate(f"document.querySelectorAll('{selector}').length") == count
    assert hostile.page.evaluate("document.title").startswith("<script>window.ran = 1")


def test_hostile_words_can_be_read_and_nothing_covers_the_page(hostile):
    """They are shown as what they are."""
    text = " ".join(hostile.text.split())
    for words in [
        "<script>window.ran = 1; alert(1)</script>",
        "<svg onload='window.ran = 1'>",
        "<!-- <script>",
    ]:
        assert words in text
    assert "[click](javascript:window.ran=1)" in text
    assert "\\u202e</\\u2066script" in text
    assert hostile.page.evaluate("getComputedStyle(document.body).display") == "block"
    places = "[...document.querySelectorAll('body *')].map(each => getComputedStyle(each).position)"
    assert set(hostile.page.evaluate(places)) == {"static"}


def test_a_script_that_got_in_would_not_run(browser, usual, tmp_path):
    """The policy holds by itself: here a script, a style and a picture are put into the page by force."""
    forced = (
        "<main><script>window.ran = 1</script><img src=x onerror='window.ran = 1'>"
        "<p style='color:red'>x</p><style>body{display:none}</style><img src='http://127.0.0.1:9/p.png'>"
    )
    file = tmp_path / "forced.html"
    file.write_text(usual.read_text().replace("<main>", forced))
    with Watched(browser, file) as watched:
        watched.page.wait_for_timeout(200)
        assert watched.page.evaluate("window.ran") is None
        assert watched.page.evaluate("getComputedStyle(document.body).display") == "block"
        refused = {each.split()[2] for each in watched.seen if each.startswith("console: refused: ")}
        assert {"script-src-elem", "style-src-elem", "style-src-attr", "img-src"} <= refused
