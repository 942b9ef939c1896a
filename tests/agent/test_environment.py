"""What children see of the user's environment."""

import json
import random
import string
import sys
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.environment import _NEEDED, NOBODY_IS_THERE, ShellEnvironment, for_children
from perdure.agent.secret_tokens import tokens
from perdure.agent.secret_variables import is_secret
from perdure.agent.tools import ToolContext, checked
from perdure.agent.tools.bash import BASH
from tests.agent.environments import (
    KEY_IN_USE,
    MARK,
    ORDINARY,
    PROVIDERS,
    SECRET,
    SHORT_BY_NAME,
    SHORT_KEY_IN_USE,
    UNMARKED,
)
from tests.front.planted import planted

KEYS_IN_USE = [KEY_IN_USE, SHORT_KEY_IN_USE, ""]
CANARIES = [*SECRET.items(), *SHORT_BY_NAME.items(), *UNMARKED.items()]


def test_there_are_enough_of_both():
    """RELIABILITY asks for fifty canaries; false alarms break builds."""
    assert len(SECRET) >= 50
    assert len(ORDINARY) >= 150
    assert all(MARK in value for value in SECRET.values())


@pytest.mark.parametrize(("name", "value"), CANARIES, ids=[name for name, _ in CANARIES])
def test_a_secret_is_left_out(name, value):
    """Alone too, so that none hides behind another."""
    assert for_children({name: value}, PROVIDERS, secret_values=KEYS_IN_USE) == NOBODY_IS_THERE


TOKENS = [each for each in planted() if [*tokens(each.secret.encode())]]


@pytest.mark.parametrize("secret", TOKENS, ids=[each.kind for each in TOKENS])
def test_s6_a_token_that_is_found_in_a_text_is_kept_from_commands_whatever_its_name(secret):
    """One list of forms says what is one, wherever it stands."""
    assert is_secret("THING", secret.secret)


def test_a_place_whose_name_looks_like_a_token_is_no_secret():
    """Among others that are none, and beside a relative one."""
    id = f"sdk-{UUID(int=random.Random(1).getrandbits(128))}"
    for value in (f"/opt/cache/{id}/bin:/usr/bin:node_modules/bin64/tools", f"/opt/{id}/bin"):
        assert not is_secret("LIBRARY_PATH", value)
    assert is_secret("THING", id)


@pytest.mark.parametrize(
    "name", ["DBPWD", "USERPWD", "BINDPW", "LDAP_BINDPW", "ROOTPW", "FOO_TKN", "WIFI_PSK"]
)
def test_s6_a_short_name_of_a_secret_is_known_for_one(name):
    """Also as the end of a word, but for directories."""
    assert is_secret(name, "plain words")
    assert not is_secret("OLDPWD", "/home/me")


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_variable_stays_as_it_is(name):
    """Words that only begin or end like a secret's are none, nor is what programs write everywhere."""
    kept = for_children({name: ORDINARY[name]}, PROVIDERS, secret_values=KEYS_IN_USE)
    assert kept == {name: ORDINARY[name], **NOBODY_IS_THERE}


@pytest.mark.parametrize("name", SECRET)
def test_what_the_user_allows_by_name_stays(name):
    """The user's own word counts more than any rule, for that one name."""
    choice = ShellEnvironment(allow=(name,))
    kept = for_children(SECRET, PROVIDERS, choice, secret_values=KEYS_IN_USE)
    assert kept == {name: SECRET[name], **NOBODY_IS_THERE}


SOME = {
    **{"PATH": "/bin", "HOME": "/home/u", "LC_TIME": "C", "TZ": "UTC", "LC_TOKEN": "t", "JAVA_HOME": "/jvm"},
    **{"AWS_PROFILE": "dev", "AWS_SECRET_ACCESS_KEY": "k", "OPENAI_API_KEY": "o", "MY_VENDOR": "v"},
}
CORE = {"PATH", "HOME", "LC_TIME", "TZ"}
NOT_SECRET = CORE | {"JAVA_HOME", "AWS_PROFILE"}


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ({}, NOT_SECRET),
        ({"inherit": "core"}, CORE),
        ({"inherit": "all"}, {*SOME}),
        ({"allow": ("AWS_*",)}, NOT_SECRET | {"AWS_SECRET_ACCESS_KEY"}),
        ({"inherit": "core", "allow": ("*_HOME", "MY_VENDOR")}, CORE | {"JAVA_HOME", "MY_VENDOR"}),
        ({"allow": ("*",)}, {*SOME}),
        ({"inherit": "all", "deny": ("*KEY*",)}, {*SOME} - {"AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY"}),
        ({"deny": ("AWS_*",), "allow": ("AWS_*", "LC_TOKEN")}, NOT_SECRET - {"AWS_PROFILE"} | {"LC_TOKEN"}),
        ({"deny": ("PATH",)}, NOT_SECRET - {"PATH"}),
        ({"deny": ("*",), "allow": ("*",), "inherit": "all"}, set()),
        ({"allow": ("aws_*", "OPENAI", "?")}, NOT_SECRET),
    ],
)
def test_the_user_chooses_what_commands_see(choice, names):
    """Whatever is chosen, what is denied is not there, and what is there is as it was."""
    kept = for_children(SOME, PROVIDERS, ShellEnvironment(**choice))
    assert kept == {name: SOME[name] for name in names} | NOBODY_IS_THERE


ALPHABETS = {
    "letters and digits": string.ascii_letters + string.digits,
    "small letters and digits": string.ascii_lowercase + string.digits,
    "base64": string.ascii_letters + string.digits + "+/",
    "base64 for addresses": string.ascii_letters + string.digits + "-_",
}


@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_most_of_what_nobody_would_write_by_hand_is_left_out(alphabet):
    """Whatever it is called: nine of ten keys of 32 characters at least."""
    chance = random.Random(7)
    keys = ["".join(chance.choices(ALPHABETS[alphabet], k=32)) for _ in range(500)]
    kept = [key for key in keys if "THING" in for_children({"THING": key}, ())]
    assert len(kept) < 50


@pytest.mark.slow
@given(
    st.dictionaries(st.text().filter(lambda name: not _NEEDED.fullmatch(name)), st.text(), max_size=5),
    st.lists(st.uuids().map(str), max_size=3),
    st.data(),
)
def test_no_key_in_use_is_ever_passed_on(environment, keys, data):
    """Whatever the variables are called, but for those that no program can do without, and whatever stands
    around it; nothing is changed or invented."""
    for name in data.draw(st.sets(st.sampled_from(sorted(environment)))) if environment and keys else ():
        environment[name] += data.draw(st.sampled_from(keys)) + data.draw(st.text(max_size=3))
    kept = for_children(environment, (), secret_values=keys)
    own = {name: value for name, value in kept.items() if NOBODY_IS_THERE.get(name) != value}
    assert own.items() <= environment.items()
    assert not [value for value in own.values() for key in keys if key in value]


@pytest.mark.parametrize("key", ["1", "ollama", "lm-studio", "not-needed", "12345678", "EMPTY", "No key 2"])
def test_a_key_that_is_none_takes_nothing_away(key):
    """What is written where a server asks for no key stands in other variables by chance."""
    others = {"PATH": f"/opt/{key}/bin:/bin", "FLAG": key, "EXTRA": f"with {key} in it"}
    assert for_children(others, (), secret_values=[key]) == {**others, **NOBODY_IS_THERE}


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "SHELL", "USER", "LANG", "LC_ALL", "LC_TIME", "TMPDIR", "PWD"]
)
@pytest.mark.parametrize("value", [f"/home/{KEY_IN_USE}/bin", "/x/sk-proj-canarycanarycanary/bin"])
def test_what_no_program_can_do_without_stays_whatever_is_in_it(name, value):
    """A command without PATH or HOME would not even be found."""
    assert for_children({name: value}, (), secret_values=[KEY_IN_USE])[name] == value


@pytest.mark.process
@pytest.mark.anyio
async def test_s6_no_canary_reaches_a_command_and_everything_ordinary_does(tmp_path, monkeypatch):
    """Asked of the real bash tool: what a program started by it finds in its environment."""
    for name, value in SECRET.items():
        monkeypatch.setenv(name, value)
    environment = for_children({**ORDINARY, **SECRET}, PROVIDERS, secret_values=KEYS_IN_USE)
    dump = f"{sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"
    command = checked(BASH, {"command": dump})
    result = await BASH.run(command, ToolContext(str(tmp_path), environment=environment))
    seen = json.loads(result.text)
    assert seen.keys() & SECRET.keys() == set()
    assert not [value for value in SECRET.values() if value in seen.values()]
    assert MARK not in result.text
    changed_by_us_or_bash = {"PERDURE_CALL", "PS1", "SHLVL", "_"}
    assert {name: seen.get(name) for name in ORDINARY.keys() - changed_by_us_or_bash} == {
        name: ORDINARY[name] for name in ORDINARY.keys() - changed_by_us_or_bash
    }
    assert NOBODY_IS_THERE.items() <= seen.items()


LONGEST = 2**17 - 16  # that Linux gives a process
PIECES = [
    *("\n", "- ", "a b", "a:", "a@", "x:a@", "=", "aB1", "1", "é", "sk-", "sk-a"),
    *("https://a", "x://", "x://a:", "x://a:b ", "x://::::::::", f"x://{':' * 200}", "://"),
    *("authorization:", "authorization: ", "authorization: x ", "authorization:a", "bearer ", "bearer-"),
    *("eyJ", "eyJ-", "-eyJ", "eyJaaaaaaaa-", "eyJaaaaaaaa.", "eyJaaaaaaaa.eyJaaaaaaaa-", "SG.", "SG.-"),
    *("-----BEGIN ", "PRIVATE ", "token", 'token" ', "token:\n", "password", "secret'", "a/", "a./", "0x"),
]


def hidden(value: str) -> set[str]:
    environment = {"THING": value, "THING_ENCRYPTION": value, "THING_DATA": value}
    return environment.keys() - for_children(environment, ()).keys()


@pytest.mark.slow
@pytest.mark.parametrize("piece", PIECES)
def test_the_same_is_found_in_a_value_of_any_length(piece):
    """Wherever in it a secret is, and whatever else: nothing is passed on because there is much of it."""
    short, long = ((piece * length)[:length] for length in (LONGEST // 64, LONGEST))
    assert hidden(long) == hidden(short)
    secrets = ("https://me:word@host/", "Authorization: Basic YWJj", "eyJhbGciOiJI.eyJzdWIiOiIx.c2ln")
    for secret, at in zip(secrets, (0, LONGEST // 2, LONGEST), strict=True):
        assert "THING" in hidden(f"{long[:at]} {secret} {long[at:]}")
