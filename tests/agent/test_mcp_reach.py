"""Where an MCP server is, and what it is given, from what the settings say."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.mcp.reach import Local, Misconfigured, Remote, reached, shown
from perdure.agent.mcp.secrets import with_variables, without_credentials, without_secrets
from perdure.agent.models.http_errors import masked
from perdure.agent.settings import McpServer

ENVIRONMENT = {"HOME": "/home/me", "PATH": "/bin", "KEY": "very-secret", "EMPTY": "", "PORT": "8080"}


def server(**settings: Any) -> McpServer:
    return msgspec.convert(settings, McpServer)


def local(**settings: Any) -> Local:
    found = reached(server(**settings), ENVIRONMENT, "/project")
    assert isinstance(found, Local)
    return found


def remote(**settings: Any) -> Remote:
    found = reached(server(**settings), ENVIRONMENT, "/project")
    assert isinstance(found, Remote)
    return found


def test_variables_stand_in_every_text():
    found = local(
        command="${PATH}/run",
        args=["--port=${PORT}", "${NOT_SET:-a b}", "${EMPTY:-none}", "${EMPTY}", "$PORT ${1} ${ PORT }"],
        env={"TOKEN": "Bearer ${KEY}", "OTHER": "${NOT_SET:-}"},
        cwd="sub/${PORT}",
    )
    assert found.command == ("/bin/run", "--port=8080", "a b", "none", "", "$PORT ${1} ${ PORT }")
    assert found.cwd == "/project/sub/8080"
    assert found.environment["TOKEN"] == "Bearer very-secret"
    assert found.environment["OTHER"] == ""
    there = remote(url="http://localhost:${PORT}/mcp", headers={"Authorization": "Bearer ${KEY}"})
    assert there[:2] == ("http://localhost:8080/mcp", {"Authorization": "Bearer very-secret"})


def test_what_a_variable_holds_is_not_looked_at_again():
    assert reached(server(command="x", args=["${A}"]), {"A": "${B}", "B": "secret"}, "/")[0] == ("x", "${B}")


@pytest.mark.parametrize(
    "settings",
    [
        {"command": "x", "args": ["${NOT_SET}"]},
        {"command": "x", "env": {"A": "b${NOT_SET}"}},
        {"command": "${NOT_SET}"},
        {"command": "x", "cwd": "${NOT_SET}"},
        {"url": "http://x/${NOT_SET}"},
        {"url": "http://x", "headers": {"a": "${NOT_SET}"}},
    ],
)
def test_a_variable_that_is_not_set_is_named(settings):
    with pytest.raises(Misconfigured, match="needs the variable NOT_SET, which is not set"):
        reached(server(**settings), ENVIRONMENT, "/project")


def test_a_server_starts_where_its_settings_say(home):
    """Else where it is told to."""
    assert local(command="x").cwd == "/project"
    assert local(command="x", cwd="sub").cwd == "/project/sub"
    for cwd, where in (("/elsewhere", "/elsewhere"), ("~/own", f"{home}/own"), ("${HOME}", "/home/me")):
        assert local(command="x", cwd=cwd).cwd == where


def test_g_10_a_server_in_a_home_that_is_none_is_misconfigured(monkeypatch):
    monkeypatch.setenv("HOME", "")
    for settings in ({"command": "~/x"}, {"command": "x", "cwd": "~"}):
        with pytest.raises(Misconfigured, match="HOME is empty"):
            reached(server(**settings), ENVIRONMENT, "/project")


def test_a_server_is_given_what_nothing_works_without_and_its_own():
    found = local(command="x", env={"PATH": "/own:${PATH}", "A": "b"})
    assert found.environment == {"HOME": "/home/me", "PATH": "/own:/bin", "A": "b"}


def test_a_function_of_a_shell_is_not_passed_on():
    found = reached(server(command="x"), {"SHELL": "() { :; }; run", "USER": "me"}, "/")
    assert found[:3] == (("x",), "/", {"USER": "me"})


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({}, 'neither a command nor a url; write "command"'),
        ({"command": "x", "url": "http://x"}, "both a command and a url"),
        ({"url": "http://x", "type": "sse"}, 'sse.*write "type": "http"'),
        ({"url": "http://x", "type": "websocket"}, "unknown type 'websocket'"),
        ({"url": "http://x", "type": "stdio"}, 'no command; write "command"'),
        ({"command": "x", "type": "http"}, 'no url; write "url"'),
        ({"command": "x", "args": ["\0"]}, "NUL"),
        ({"command": "x", "env": {"A": "a\0"}}, "NUL"),
        *(
            ({"url": url}, "no usable url")
            for url in ("x", "ftp://x", "http://", "http://[", "http://x:99999")
        ),
        ({"url": "http://x", "headers": {"a b": "c"}}, "header 'a b'"),
        ({"url": "http://x", "headers": {"a": "very\nsecret"}}, "header 'a'"),
        ({"url": "http://x", "headers": {"a": "sécret"}}, "header 'a'"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_write(settings, what):
    """And never what is in a header, or in the environment."""
    with pytest.raises(Misconfigured, match=what) as caught:
        reached(server(**settings), ENVIRONMENT, "/project")
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize("kind", ["", "http", "streamable-http", "streamableHttp", "streamable_http", "HTTP"])
def test_an_address_has_many_types(kind):
    assert remote(url="https://x/mcp", type=kind).url == "https://x/mcp"


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"command": "npx", "args": ["-y", "a b"]}, "npx -y 'a b'"),
        ({"command": "x", "args": ["--key=${KEY}", "${A:-b}"]}, "x --key=${KEY} ${A:-b}"),
        (
            {"command": "x", "args": ["postgres://me:secret@host/db?key=secret#secret"]},
            "x postgres://host/db",
        ),
        ({"command": "x", "env": {"A": "secret"}}, "x"),
        ({"url": "https://secret@host:1/mcp?key=secret"}, "https://host:1/mcp"),
        ({"url": "https://me:${KEY}@host/mcp#secret", "headers": {"a": "secret"}}, "https://host/mcp"),
        *(
            ({"command": "x", "args": args}, f"x {where}")
            for args, where in [
                (["--api-key", "secret", "-v"], "--api-key … -v"),
                (["--token=secret"], "--token=…"),
                (["--password", "secret=", "dir"], "--password … dir"),
                (["--db-password", "-secret", "y"], "--db-password … y"),
                (["-e", "API_KEY=secret", "-e", "MODE=dev", "image"], "-e API_KEY=… -e MODE=dev image"),
                (["--env=GITHUB_TOKEN=secret"], "--env=GITHUB_TOKEN=…"),
                (["--header", "Authorization: Bearer secret"], "--header Authorization: …"),
                (["--header", "Authorization: Bearer ${KEY}"], "--header Authorization: Bearer ${KEY}"),
                (["-H", "X-Api-Key:secret"], "-H X-Api-Key:…"),
                (["--config", '{"mode": "a", "apiKey": "secret"}'], '--config {"mode": "a", "apiKey": …'),
                (["--token", "${KEY}", "--key=${KEY:-secret}"], "--token ${KEY} --key=${KEY:-…}"),
                (["--token=${KEY}", "${A:-b}"], "--token=${KEY} ${A:-b}"),
                (["Server=db;Password=secret;"], "Server=db;Password=…"),
                (["sk-secretsecretsecret01="], "…"),
                (["--max-tokens", "100", "--auth", "--verbose", "y"], "--max-tokens 100 --auth --verbose y"),
                (["-y", "@scope/name@1.2", "C:\\dir"], "-y @scope/name@1.2 'C:\\dir'"),
            ]
        ),
    ],
)
def test_where_a_server_is_can_be_shown(settings, where):
    """It is as it was written, without what is named like a secret, or looks like one."""
    assert shown(server(**settings)) == where
    assert "secret" not in where


def test_what_may_not_be_in_a_message():
    """What is named like a secret, all of a header, and of an address what is not its place."""
    assert local(command="x", env={"TOKEN": "very-secret", "MODE": "production"}).secrets == ("very-secret",)
    found = remote(url="https://me:pass@host/?key=abc", headers={"Authorization": "Bearer very-secret"})
    assert {*found.secrets} == {
        *("me", "pass", "key=abc", "abc"),
        *("Bearer", "very-secret", "Bearer very-secret"),
    }
    args = ["--header", "X-Key: Bearer abc", "db://me:pass@host", "--token=def", "-v", "ghi"]
    secrets = local(command="x", args=args).secrets
    assert {*secrets} >= {"abc", "pass", "def"}
    assert "ghi" not in secrets
    assert [*map(len, secrets)] == sorted(map(len, secrets), reverse=True)


@pytest.mark.slow
def test_a_long_argument_takes_no_time():
    """It is looked at once."""
    for part in ('{"key": {"$ref": "a"}, ', "a-", "x", "token:", "a=b;", "http://", "${A:-b}", '"a" : '):
        word = part * (5_000 // len(part))
        shown(server(command="x", args=["--config", word]))
        assert isinstance(reached(server(command="x", args=[word]), {}, "/"), Local)


@given(st.text(st.characters(codec="ascii", categories=["L", "N", "S", "P"]), min_size=8))
def test_a_variable_of_the_users_may_not_be_in_a_message(value):
    """Wherever it stands. Only plain words may, and places."""
    digits = f"{value}0x7"
    environment = {"X": digits, "HOME": "/home/me-0x7", "PWD": "/home/me-0x7/project", "MODE": "production"}
    harmless = ["${HOME}", "${PWD}/src", "${MODE}"]
    for settings in (
        {"command": "x", "args": ["-v", "a${X}", *harmless]},
        {"command": "${X}", "args": harmless},
        {"command": "x", "env": {"PLAIN": "${X}", "WHERE": "${PWD}", "MODE": "${MODE}"}},
        {"command": "x", "cwd": "/${X:-y}"},
    ):
        found = reached(server(**settings), environment, "/")
        assert digits in found.secrets
        assert masked(f"no access with {digits}!", found.secrets) == "no access with …!"
        assert masked("/home/me-0x7/project is for production", found.secrets).endswith(" is for production")
    if "#" not in value and "?" not in value:
        assert digits in reached(server(url="http://host/${X}"), environment, "/").secrets


def test_any_number_of_variables_without_an_end_stay():
    """In steps that grow with their number."""
    word = "${KEY}" + "${A:-" * 200_000
    assert with_variables(word, lambda _: "x") == "x" + "${A:-" * 200_000


def test_any_number_of_addresses_in_one_are_one():
    """In steps that grow with their number; what is asked of it is left out."""
    assert without_credentials("a://" * 300_000 + "?key=x") == "a://" * 300_000
    assert without_credentials("a://" * 300_000) == "a://" * 300_000


def test_a_word_of_very_many_names_is_hidden_as_a_whole():
    """To look at the value of each would take minutes; of a few, each is looked at."""
    assert without_secrets(["--env", "a=1;" * 300_000]) == ["--env", "…"]
    assert without_secrets(["--env", "a=1;" * 20]) == ["--env", "a=1;" * 20]
