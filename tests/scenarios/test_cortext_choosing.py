"""cortext, from outside: choosing a conversation, and the list of them (COR-07, COR-14, COR-20)."""

import json
import re
import shlex
import unicodedata

import pytest

from perdure.front.completion import candidates
from perdure.programs.pi import main as pi
from tests.agent.models.wire_server import wire_server
from tests.front.terminal import Tmux
from tests.needs import needs_tool
from tests.programs.started import first_on_path
from tests.programs.workspaces import cortext
from tests.scenarios.test_cortext_resume import DAYS, QUESTION, held

__all__ = ["cortext", "held", "wire_server"]

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("7", "There is no number 7: they go from 1 to 3."),
        ("0", "There is no number 0: they go from 1 to 3."),
        ("7" * 5000, "There is no number 7777777777777777777…: they go from 1 to 3."),
        ("2099", "There is no number 2099: they go from 1 to 3."),
        ("?", "'?' cannot be searched for: type a number, or words."),
        ("** -", "'** -' cannot be searched for: type a number, or words."),
        ("0070", "Nothing here is called or says '0070'."),
    ],
)
def test_cor_07_a_number_is_only_a_number_and_what_cannot_be_searched_for_is_asked_again(
    cortext, held, answer, told
):
    """Whatever conversations say: these are full of sevens. The next answer counts."""
    cortext.talked("7 2099 0070 ?", "7?", "** 7.", ago=40 * DAYS, status="completed")
    done = cortext.within("resume", "--status", "paused", stdin=f"{answer}\n2\n")
    assert (done.code, told in done.err.splitlines()) == (0, True)
    assert done.out.count(QUESTION) == 2
    assert done.out.count("Here are your") == 1
    assert '[Resuming "Auth Token Expiry"]' in done.out


def test_cor_07_behind_the_command_too_a_number_is_only_a_number(cortext, held):
    """In the shell and from outside it: that of the list, or else the beginning of an id."""
    cortext.talked("Route 66", "66?", "66.", ago=40 * DAYS)
    done = cortext.within(stdin="/workspace.resume 66\n/workspace.resume 4\n")
    assert "Session not found: 66" in done.err
    assert '[Resuming "Route 66"]' in done.out
    assert cortext.within("resume", "66").code == 3
    assert cortext.within("resume", "3").out.startswith('[Resuming "Auth Token Expiry"]\n')
    assert cortext.within("resume", "?").code == 3
    assert cortext.within("resume", "route", "66").out.startswith('[Resuming "Route 66"]\n')
    year = held["old"].id[:4]
    assert cortext.within("resume", year, stdin="1\n").out.startswith("Here are your")


def test_cor_07_a_number_is_no_beginning_of_a_year_or_of_another_number(cortext, held):
    """Every id begins with a 2, and every number with a 0: one of three is meant by no 20, and by no 0."""
    for text in ("4", "20", "0", "00"):
        assert cortext.within("resume", text).code == 3
        assert json.loads(cortext.within("resume", text, "--list", "--json").out) == []
    assert cortext.within("resume", "2", "--type", "plan").code == 3
    assert cortext.within("resume", "1", "--type", "plan").out.startswith('[Resuming "Team retreat"]\n')


@needs_tool("tmux")
def test_cor_07_a_number_out_of_range_behind_the_command_is_asked_again_at_a_terminal(cortext, held):
    """From outside the shell and in it."""
    for command, typed in ((["resume", "7"], ""), ([], "/workspace.resume 7")):
        with Tmux(*cortext.command, *command, cwd=cortext.project) as tmux:
            if typed:
                tmux.until("cortext>")
                tmux.send(typed)
                tmux.send_keys("Enter")
            tmux.until("There is no number 7: they go from 1 to 3.")
            tmux.until("(number or search)")
            tmux.send("retreat")
            tmux.send_keys("Enter")
            tmux.until('[Resuming "Team retreat"]')


@needs_tool("tmux")
def test_cor_07_at_a_terminal_the_newest_ten_are_on_the_screen_and_more_when_asked_for(cortext, wire_server):
    """Of thirty. Their numbers stay what they are, and words are searched for in all."""
    cortext.answers(wire_server, "We were at it.")
    for at in range(30):
        cortext.talked(f"Topic {at} of a rather long list", "Well?", f"Answer {at}.", ago=at * DAYS)
    with Tmux(*cortext.command, "resume", cwd=cortext.project) as tmux:
        tmux.until("(number or search)")
        shown = tmux.screen
        assert [line for line in shown if re.match(" *[0-9]+[.]", line)] == [
            f"{at + 1:>2}. [brainstorm] Topic {at} of a rather long list  "
            f"{f'{at} d ago' if at else 'just now'}, paused"
            for at in range(10)
        ]
        assert "20 more: type `more` to see them, or words to search in all." in shown
        tmux.send("more")
        tmux.send_keys("Enter")
        tmux.until("10 more: type `more`")
        assert any(line.startswith("20. [brainstorm] Topic 19 ") for line in tmux.screen)
        tmux.send("25")
        tmux.send_keys("Enter")
        tmux.until('[Resuming "Topic 24 of a rather long list"]')


@needs_tool("tmux")
def test_cor_07_a_narrow_terminal_shows_titles_rather_than_ages(cortext, wire_server):
    """Of a type with a long name too: a row without a title is of no use."""
    cortext.answers(wire_server, "We were at it.")
    for at in range(10):
        cortext.talked(f"Topic {at} of many", "Well?", "Yes.", kind="projectmanage", ago=at * DAYS)
    with Tmux(*cortext.command, "resume", cwd=cortext.project, columns=40) as tmux:
        tmux.until("(number or search)")
        shown = [line for line in tmux.screen if re.match(" *[0-9]+[.]", line)]
        assert shown == [f"{at + 1:>2}. [projectmanage] Topic {at} of many" for at in range(10)]


def test_cor_14_words_type_and_status_filter_the_list(cortext, held):
    """Those that `resume` would choose from with the same words."""
    cortext.talked("Design of the retreat", "Well?", "Nice.", kind="plan", status="completed")

    def titles(*words: str) -> list[str]:
        done = cortext.within("resume", *words, "--list", "--json")
        assert (done.code, done.err) == (0, "")
        return [row["title"] for row in json.loads(done.out)]

    assert titles("retreat") == ["Design of the retreat", "Team retreat"]
    assert titles("retreat", "--status", "paused") == ["Team retreat"]
    assert titles("design", "--type", "brainstorm") == ["API Design Discussion"]
    assert titles("race") == ["Auth Token Expiry"]
    assert titles(held["old"].id) == ["Team retreat"]
    assert titles("2") == ["API Design Discussion"]
    assert titles("2", "--type", "plan") == ["Team retreat"]
    assert titles("?") == titles("xyzzy") == []
    shown = cortext.within("resume", "retreat", "--list", "--type", "plan").out.splitlines()
    assert [line.split()[0] for line in shown[1:]] == [cortext.refs[-1].id, held["old"].id]
    done = cortext.within("resume", "xyzzy", "--list", "--type", "plan")
    assert (done.code, done.out) == (0, "No conversations of type plan that are called or say 'xyzzy'.\n")


@needs_tool("tmux")
def test_cor_14_rows_fit_eighty_columns_with_a_readable_title(cortext, monkeypatch):
    """Wide characters count as the two columns they take; the ids that are shown are taken by `resume`."""
    monkeypatch.setenv("PATH", first_on_path())
    titles = ["An API design that is discussed at length", "日本語のタイトルについての長い会話の題名です"]
    kinds = ["projectmanage", "a-type-with-a-name-of-32-letters"]
    refs = [
        cortext.talked(title, kind=kind, status="completed", ago=at * DAYS)
        for at, (title, kind) in enumerate(zip(titles, kinds, strict=True))
    ]
    with Tmux(*cortext.command, "list", cwd=cortext.project) as tmux:
        assert tmux.wait() == 0
        head, *rows = filter(None, tmux.screen)
    assert re.split("  +", head) == ["ID", "TYPE", "TITLE", "STATUS", "LAST ACTIVE"]
    assert len(rows) == 2
    assert [row.split()[0] for row in rows] == [ref.id[:14] for ref in refs]
    assert titles[0][:20] in rows[0]
    assert titles[1][:10] in rows[1]
    assert [row.partition("completed")[2].strip() for row in rows] == ["just now", "1 d ago"]
    for ref in refs:
        found = json.loads(cortext.within("resume", ref.id[:14], "--list", "--json").out)
        assert [row["id"] for row in found] == [ref.id]


def test_cor_20_a_slug_keeps_the_letters_of_every_script(cortext, wire_server, monkeypatch):
    """The conversation is listed, committed, resumed, found by its beginning in either form of Unicode, and
    completed by a shell; what it prints last resumes it."""
    cortext.answers(wire_server, "Да.")
    for at, title in enumerate(["Привет, Йод!", "日本語のタイトル", "नमस्ते दुनिया"], 1):
        done = cortext.within("start", "debug", title, stdin="Well?\n")
        name = f"{at:03d}-debug-{title.replace(', ', '-').replace(' ', '-').rstrip('!').lower()}"
        assert cortext.refs[-1].id.endswith(f"/{name}")
        assert shlex.split(done.out.splitlines()[-1])[1:] == ["cortext", "resume", cortext.refs[-1].id]
        assert "Committed" in done.err
    assert cortext.is_committed()
    first = cortext.refs[0]
    for text in ("001-debug-приве", unicodedata.normalize("NFD", first.id), first.id.partition("/")[2]):
        assert cortext.within("resume", text).out.startswith('[Resuming "Привет, Йод!"]\n')
    monkeypatch.chdir(cortext.project)
    assert pi(["sessions", "show", unicodedata.normalize("NFD", first.id)]) == 0
    assert first.id in [each.text for each in candidates(["resume"], first.id[:-2], {}, "cortext")]
    assert pi(["sessions", "rm", first.id]) == 0
    assert pi(["sessions", "restore", first.id]) == 0
    assert first.id in [ref.id for ref in cortext.refs]
