"""A session leaves without its secrets: of every kind, in every field, in every format."""

import html
import json
import random
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.front.outgoing import Outgoing
from perdure.front.redaction import Redaction
from perdure.session.entry import Entry, decode, placed
from perdure.session.session import Session
from perdure.session.stores import Found, Header, Page, Store
from perdure.session.stores.memory import MemoryStore
from perdure.testing import user_entry
from perdure.testing.writing import child
from tests.front.commands.machine import Machine
from tests.front.planted import OPENSSH_KEYS, Planted, armored, planted
from tests.front.secret_fields import ENTRIES, STAMP, planted_entries
from tests.front.test_html import Page as WebPage
from tests.layouts import ALL

PLANTED = planted()
KINDS = {each.kind: each for each in reversed(PLANTED)}
FEW = [
    KINDS[kind]
    for kind in (
        "GitHub personal access token",
        "AWS access key",
        "Azure storage key",
        "private key",
        "value of DB_PASSWORD",
        "password in an address",
    )
]
SHORT = KINDS["value of DB_PASSWORD"].secret + "!"
KEY, OTHER = (KINDS["AWS access key"].secret, KINDS["GitHub personal access token"].secret)


_OF_USE = 12
"""Characters of a secret that nobody else may see. A password may be shorter."""


def leaks(text: str, *planted: Planted) -> list[str]:
    """The kinds of those of which a piece that could be used is in a text."""
    pieces = {text[at : at + _OF_USE] for at in range(len(text))}
    return [each.kind for each in planted if not pieces.isdisjoint(parts(each.secret)) or each.secret in text]


def parts(secret: str) -> set[str]:
    """All pieces of it, but for words: `access_token`, with which some begin, is of no use."""
    lines = secret.split("\n")
    pieces = {line[at : at + _OF_USE] for line in lines for at in range(len(line) - _OF_USE + 1)}
    return {piece for piece in pieces if not piece.replace("_", "").isalpha() or not piece.islower()}


def kept(store: Store, entries: list[Entry], cwd: str = "/home/me/api", **facts: object) -> Found:
    header = Header("", STAMP, cwd, facts=facts)
    return store.create(header._replace(id=store.new_id(header)), entries)


def read(leaving: Outgoing) -> Page:
    store, ref = leaving.redacted()
    return store.read(ref)


def redacted(entries: list[Entry], **facts: Any) -> tuple[str, Outgoing]:
    """All that is known of the session without its secrets, in UTF-8."""
    store = MemoryStore()
    leaving = Outgoing(store, kept(store, entries, **facts))
    page = read(leaving)
    about = {**page.header._asdict(), "facts": dict(page.header.facts)}
    return "\n".join([json.dumps(about), *(entry.raw.decode() for entry in page.entries)]), leaving


# --- every kind in every field --------------------------------------------------------------------------


def test_two_hundred_kinds_are_planted() -> None:
    """One of each at least."""
    assert len(KINDS) >= 200


@pytest.mark.parametrize("field", ENTRIES)
def test_s4_no_kind_of_secret_leaves_in_any_field(field: str) -> None:
    """Each is masked, and named before by its entry; what is around it stays."""
    text, leaving = redacted(planted_entries(ENTRIES[field], *(each.text for each in PLANTED)))
    assert leaks(text, *PLANTED) == []
    assert text.count("[redacted") >= len(PLANTED)
    named = {each.where.split()[1] for each in leaving.found}
    assert named == {f"{number:08x}" for number in range(1, len(PLANTED) + 1)}
    assert "hello" in text
    assert "bye" in text


@pytest.mark.slow
@pytest.mark.parametrize("field", ["title", "cwd", "context_summary", "tags"])
def test_s4_no_kind_of_secret_leaves_with_what_is_known_of_a_session(field: str) -> None:
    """Its title, its directory, and whatever a layout keeps."""
    for each in PLANTED:
        value = [{"x": each.text}] if field == "tags" else f"about {each.text} here"
        text, leaving = redacted([child(user_entry("hello"), None)], **{field: value})
        assert leaks(text, each) == []
        assert len(leaving.found) == 1


@pytest.mark.parametrize("to", ["md", "html", "json", *ALL])
def test_s4_no_format_has_a_secret_of_any_field(to: str, machine: Machine, tmp_path: Path) -> None:
    """What is written is whole, as its format has it."""
    entries = [child(user_entry("hello"), None)]
    for plant in ENTRIES.values():
        for entry in planted_entries(plant, *(each.text for each in FEW))[1:-1]:
            entries.append(placed(entry, id=f"{len(entries):08x}", parent_id=entries[-1].id))
    ref = kept(machine.store("pi"), entries, f"/home/me/{KEY}")
    output = tmp_path / "exported"
    done = machine.run("export", ref.id, "--to", to, "-o", str(output), "--redact")
    assert done.code == 0, done.err
    assert "Masked " in done.err
    files = [path for path in [output, *output.rglob("*")] if path.is_file()]
    text = "\n".join(path.read_text() for path in files)
    assert leaks(text + html.unescape(text) + done.err, *FEW) == []
    if to == "html":
        assert WebPage(text).wrong == []
    if to in ("json", "soleur"):
        json.loads(text)
    if to in ("pi", "aurora"):
        assert all(json.loads(line) for line in text.splitlines())


@pytest.mark.parametrize("layout", ALL)
def test_a_redacted_session_opens_again_in_its_own_layout(
    layout: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same entries in the same tree; installed, it is told apart by its masks alone."""
    said = [f"with {KEY}", f"and {OTHER} and {KEY}", "done"]
    ref = machine.add(layout, *said)
    monkeypatch.chdir(machine.homes["cortext"].path)
    done = machine.run("export", f"{layout}:{ref.id}", "--to", layout, "--install", "--redact")
    assert done.code == 0, done.err
    (made,) = [each for each in machine.store(layout).list() if each.id != ref.id]
    assert machine.texts(layout, made) == [
        "with AKIA…[redacted]",
        "and ghp_…[redacted] and AKIA…[redacted]",
        "done",
    ]
    assert machine.texts(layout, ref) == said
    assert not Session.view(machine.store(layout), made).problems


# --- how it is masked -------------------------------------------------------------------------------------


def mask(*values: Any) -> list[Any]:
    search = Redaction(len(values), values.__getitem__)
    return [search.redacted(at) for at in range(len(values))]


def test_a_secret_has_one_mask_wherever_it_is_and_no_other_has_it() -> None:
    """So that ids stay apart, and people see what is the same."""
    first, second = ("AKIA" + "QYLPMN5HFIQR7XYA", "AKIA" + "QYLPMN5HFIQR7XYB")
    assert mask({"id": first}, {"parentId": first, "id": second}, [second]) == [
        {"id": "AKIA…[redacted]"},
        {"parentId": "AKIA…[redacted]", "id": "AKIA…[redacted-2]"},
        ["AKIA…[redacted-2]"],
    ]
    assert mask({first: 1, second: 2}) == [{"AKIA…[redacted]": 1, "AKIA…[redacted-2]": 2}]


def test_what_only_its_name_tells_of_is_masked_without_it_too() -> None:
    """A password is said again, without saying that it is one."""
    secret = "hunter22" + "Q4x"
    assert mask({"text": f"DB_PASSWORD={secret}"}, {"text": f"I typed {secret} twice: {secret}."}) == [
        {"text": "DB_PASSWORD=hun…[redacted]"},
        {"text": "I typed hun…[redacted] twice: hun…[redacted]."},
    ]
    assert mask({"api_key": "q1W2e3R4t5" + "Y6u7I8o9P0"}) == [{"api_key": "q1W2…[redacted]"}]


def characters(but: str, **kinds: Any) -> st.SearchStrategy[str]:
    """Some characters, none of them twice: what repeats itself is no password."""
    some = st.characters(exclude_characters=but, **kinds)
    return st.lists(some, unique=True, max_size=60).map("".join)


BLANKS_AND_QUOTES = "".join(map(chr, range(33))) + "\\\"'`<"
OF_TEMPLATES = "$%{[|?"


@given(characters("\0\n", max_codepoint=126))
def test_a_value_in_quotes_is_masked_to_its_end(middle: str) -> None:
    """Whatever it holds: as a member, in JSON, in JSON within JSON. What is around it stays."""
    value = f'Tr0ub4dor&3{middle}\\""\' abcTAILPART9'
    inner = json.dumps({"db_password": value, "b": "stays"})
    made = mask({"db_password": value}, {"text": f"so: {inner}"}, {"text": json.dumps([inner, "stays"])})
    assert leaks(json.dumps(made, ensure_ascii=False), Planted("", "", value)) == []
    assert set(made[0]["db_password"]) <= set("Tr0u…[redacted]")
    assert json.loads(made[1]["text"].removeprefix("so: "))["b"] == "stays"
    assert json.loads(json.loads(made[2]["text"])[0])["b"] == "stays"


@given(characters(BLANKS_AND_QUOTES + OF_TEMPLATES, max_codepoint=126))
def test_a_value_without_quotes_is_masked_to_the_next_blank(middle: str) -> None:
    """Also in quotes that are not those of JSON; `</` is the end of an element."""
    value = f"Tr0ub4dor&3{middle},abcTAILPART9"
    made = mask(f"DB_PASSWORD={value} stays\nhere, {{DB_PASSWORD={value}}}; 'DB_PASSWORD={value}', stays")
    assert leaks(str(made), Planted("", "", value)) == []
    assert "stays\\nhere" in str(made)
    made = mask(f"password: '{value}', stays")
    assert made == ["password: 'Tr0u…[redacted]', stays"]


@pytest.mark.parametrize("text", ["Bearer {}", "REFRESH_TOKEN={}", "curl -u me:{}", "postgres://me:{}@host/"])
def test_a_long_value_is_masked_to_its_end(text: str) -> None:
    """Of thousands of characters, as some services give out."""
    value = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=3900))
    (made,) = mask(f"so: {text.format(value)} stays")
    assert leaks(str(made), Planted("", "", value)) == []
    assert str(made).endswith(" stays")


def test_json_in_a_text_stays_json() -> None:
    """Also behind escapes, of which no half may go with a secret."""
    inner = {"password": "éx" + "9!hunter", "a": KEY, "pem": KINDS["private key"].text, "b": "\\"}
    for text in (json.dumps(inner), json.dumps(inner, ensure_ascii=False), json.dumps([json.dumps(inner)])):
        (made,) = mask({"output": text})
        assert isinstance(made, dict)
        loaded = json.loads(made["output"])
        there = json.loads(loaded[0]) if isinstance(loaded, list) else loaded
        assert there["b"] == "\\"
        assert "hunter" not in made["output"]
        assert leaks(made["output"], KINDS["private key"], KINDS["AWS access key"]) == []


def test_all_of_a_private_key_is_masked() -> None:
    """Every line of it, in whatever the lines are written: a file, JSON, the source of a program."""
    key = KINDS["private key"]
    lines = key.text.strip().split("\n")
    for text in ("\n".join(lines), "\r\n".join(lines), ' +\n  "'.join(f'{line}\\n"' for line in lines)):
        (made,) = mask({"text": f"{text}\n-----END RSA PRIVATE KEY-----\nwords stay here"})
        assert leaks(str(made), key) == []
        assert "words stay here" in str(made)
        assert "-----END RSA PRIVATE KEY-----" in str(made)


def test_lines_of_a_private_key_are_masked_without_its_first_line_too() -> None:
    """As the end of a file shows them. What is a word of its first lines stays a word."""
    key = KINDS["private key"]
    first, *lines = key.text.strip().split("\n")
    encrypted = "\n".join([first, "Proc-Type: 4,ENCRYPTED", *lines, "-----END RSA PRIVATE KEY-----"])
    made = mask({"text": encrypted}, {"text": "\n".join([*lines[1:], "is ENCRYPTED"])})
    assert leaks(str(made), key) == []
    assert "is ENCRYPTED" in str(made[1])


def random_text(seed: int, size: int) -> str:
    return "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=size))


def private_key(seed: int, lines: int = 50) -> Planted:
    text = "\n".join(random_text(seed * 1000 + line, 64) for line in range(lines))
    return Planted(
        "private key", f"-----BEGIN RSA PRIVATE KEY-----\n{text}\n-----END RSA PRIVATE KEY-----", text
    )


def test_a_password_is_masked_where_it_is_said_again_behind_any_number_of_private_keys() -> None:
    """Four keys of 4096 bits have 200 lines; and each of these is masked where it is said again."""
    keys = [private_key(seed) for seed in range(8)]
    secret = "hunter22" + "Q4x"
    values = [*(key.text for key in keys), f"DB_PASSWORD={secret}", f"I typed {secret}."]
    values += [key.secret.replace("\n", separator) for key in keys for separator in ("\n", "\\n", "\n+", "")]
    made = mask(*values)
    assert leaks(str(made), *keys, Planted("", "", secret)) == []


def test_as_many_secrets_are_masked_as_there_are() -> None:
    """Several of an entry that look alike are several; one that many entries have is one."""
    keys = ["AKIA" + "".join(random.Random(seed).choices("QRSTUVW234567", k=16)) for seed in range(5)]
    said = [" ".join(keys), keys[0], keys[0]]
    entries: list[Entry] = []
    for text in said:
        entries.append(child(user_entry(text), entries[-1] if entries else None))
    _, leaving = redacted(entries)
    assert len(leaving.found) == 7
    assert leaving.how_many(leaving.found) == "5 secrets"


def test_values_beyond_a_bound_are_masked_behind_their_names_and_that_is_told(machine: Machine) -> None:
    """Nobody is told that all is masked where it is not known."""
    settings = [f"DB_PASSWORD={random_text(seed, 12)}7" for seed in range(230)]
    ref = machine.add("pi", "\n".join(settings))
    done = machine.run("export", ref.id, "--redact")
    assert not [each for each in settings if each.partition("=")[2] in done.out]
    assert "Masked 230 secrets, 30 of them only where" in done.err


def test_a_token_that_is_longer_than_its_form_is_masked_to_its_end() -> None:
    """The last characters of one are of use, too."""
    (made,) = mask({"text": f"{OTHER}{KINDS['AWS session token'].secret * 3} stays"})
    assert made == {"text": "ghp_…[redacted] stays"}


@pytest.mark.parametrize("depth", [50, 900, *range(940, 1000, 6)])
def test_what_is_nested_as_deeply_as_a_session_is_read_is_searched(depth: int) -> None:
    """As values, or as text, where a number that no float holds makes values too dear."""
    inner = (
        f'"id":"00000001","parentId":null,"timestamp":"{STAMP}","a":{"[" * depth}1e999,"{KEY}"{"]" * depth}'
    )
    try:
        entry = decode(f'{{"type":"from_the_future",{inner}}}'.encode())
    except ValueError:
        return  # nobody reads it
    text, leaving = redacted([entry])
    assert len(leaving.found) == 1
    assert f'1e999,"AKIA…[redacted]"{"]" * depth}' in text


@pytest.mark.parametrize("name", ["content", "c\\u006fntent"])
@pytest.mark.parametrize("secret", [KEY, f"\\u0041{KEY[1:]}"])
@pytest.mark.parametrize("hides", ['"{}","content":"harmless"', '[{{"text":"{}"}}],"content":"harmless"'])
def test_a_member_that_another_one_hides_is_searched(
    name: str, secret: str, hides: str, machine: Machine, tmp_path: Path
) -> None:
    """Who reads the session does not see it, but it is in the file. It is named; masked, it is gone."""
    said = f'{{"role":"user","{name}":{hides.format(secret)},"timestamp":0}}'
    line = f'{{"type":"message","id":"00000001","parentId":null,"timestamp":"{STAMP}","message":{said}}}'
    ref = kept(machine.store("pi"), [decode(line.encode()), child(user_entry("bye"), None)])
    for more, is_there in ([], True), (["--redact"], False):
        output = tmp_path / "exported.jsonl"
        done = machine.run("export", ref.id, "--to", "pi", "-o", str(output), *more)
        assert done.code == 0, done.err
        text = output.read_text()
        assert (secret in text) == is_there
        assert ("entry 00000001 (user): AWS access key (AKIA…)" in done.err) == is_there
        assert "harmless" in text
    assert "Masked 1 secret." in done.err
    assert secret[2:] not in text


def test_what_is_told_of_a_secret_has_none_in_it() -> None:
    """Neither as the id of its entry, nor as a role, nor in the name of a value or of a fact."""
    record = {"type": "message", "id": KEY, "parentId": None, "timestamp": STAMP}
    said = {"role": OTHER, "content": f"{KEY}_password={SHORT}", "timestamp": 0}
    entry = decode(json.dumps({**record, "message": said}).encode())
    _, leaving = redacted([entry], **{OTHER: KEY})
    told = "\n".join(map(str, leaving.found))
    assert len(leaving.found) >= 4
    assert KEY not in told
    assert OTHER not in told


def test_nothing_is_masked_in_a_session_without_secrets(machine: Machine) -> None:
    """Byte for byte."""
    ref = machine.add("pi", "hello", "there")
    page = machine.store("pi").read(ref)
    leaving = Outgoing(machine.store("pi"), ref)
    assert leaving.found == []
    store, same = leaving.redacted()
    assert [each.line for each in store.read(same).entries] == [each.line for each in page.entries]
    assert (store.read(same).header, same) == (page.header, ref)


@pytest.fixture
def machine(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Machine:
    (home / "elsewhere").mkdir()
    monkeypatch.chdir(home / "elsewhere")
    return Machine(home, monkeypatch, capsys)


@pytest.mark.parametrize("key", OPENSSH_KEYS, ids=["ed25519", "rsa", "ecdsa"])
@given(st.data())
def test_s4_a_part_of_a_private_key_is_masked_wherever_it_is_said_again(key, data):
    """As by a tool that took a line of it for a path; of a part of fewer than twelve characters nobody has
    any use. Words beside it stay."""
    line = key.replace("\n", "")
    start = data.draw(st.integers(0, len(line) - 12))
    part = line[start : data.draw(st.integers(start + 12, len(line)))]
    where = data.draw(st.sampled_from(["There is no {} here.", "pattern: **/{}*", "{}", "\\n{}\\n"]))
    values = [armored(key), {"error": where.format(part)}]
    search = Redaction(len(values), values.__getitem__)
    masked = search.redacted(1)["error"]
    before, after = where.split("{}")
    assert masked.startswith(before)
    assert masked.endswith(after)
    left = {masked[at : at + 12] for at in range(len(masked))} & parts(part)
    assert not [each for each in left if len({*each}) > 8]  # others are in every key
