"""What children see of the user's environment."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.environment import _NEEDED, NOBODY_IS_THERE, for_children
from perdure.agent.tools import ToolContext, checked
from perdure.agent.tools.bash import BASH

KEY_IN_USE = "3f9a1c77d2e84b06"

SECRET = {
    # Keys of providers, by the names that their adapters read.
    **dict.fromkeys(
        ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "MY_VENDOR"], "canary-provider"
    ),
    # By their names.
    **dict.fromkeys(
        [
            *("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "GITHUB_TOKEN", "GH_TOKEN"),
            *(
                "HF_TOKEN",
                "NPM_TOKEN",
                "npm_config__authToken",
                "DJANGO_SECRET_KEY",
                "SECRET_KEY_BASE",
                "KEY",
            ),
            *(
                "PGPASSWORD",
                "MYSQL_PWD",
                "DB_PASS",
                "SSHPASS",
                "MYSQL_ROOT_PASSWORD",
                "ENC_PASSPHRASE",
                "LDAP_PASSWD",
            ),
            *("GOOGLE_APPLICATION_CREDENTIALS", "DOCKER_AUTH_CONFIG", "OAUTH2_CLIENT", "HTTP_AUTHORIZATION"),
            *("AZURE_DEVOPS_EXT_PAT", "SLACK_WEBHOOK_URL", "SESSION_COOKIE", "SERVICE_JWT", "StripeApiKey"),
            *("DB_PW", "SMTP_PW", "DB_CREDS", "MY_PASSCODE", "TOTP_SEED", "WALLET_SEED_PHRASE", "AZURE_SAS"),
            *("APIKEY", "MYAPP_APIKEY", "X_ACCESSTOKEN", "S3KEY", "API_KEYS", "BOT_TOKENS", "openai_api_key"),
        ],
        "canary-named",
    ),
    # By their values, whatever they are called.
    "DATABASE_URL": "postgres://app:canary@db.example/app",
    "CACHE": "redis://:canary@cache:6379/0",
    "PIP_EXTRA_INDEX_URL": "https://one.example/simple https://canary@two.example/simple",
    "HTTPS_PROXY": "user:canary@proxy.example:3128",
    "STORAGE": "DefaultEndpointsProtocol=https;AccountKey=canary",
    "JAVA_OPTS": "-Xmx1g -Djavax.net.ssl.keyStorePassword=canary",
    "DEPLOY": "-----BEGIN OPENSSH PRIVATE KEY-----\ncanary",
    "OPENAI": "sk-proj-canarycanarycanary",
    "GIT_THING": "ghp_canarycanarycanary00",
    "ENDPOINT": "https://api.example/?token=canary",
    "ANY": KEY_IN_USE,
    "HEADERS": f"X-Canary: {KEY_IN_USE}",
}
ORDINARY = {
    **{"PATH": "/usr/bin:/bin", "HOME": "/home/u", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "USER": "u"},
    **{"VIRTUAL_ENV": "/home/u/.venv", "NODE_OPTIONS": "--max-old-space-size=4096", "EDITOR": "vi"},
    **{"SSH_AUTH_SOCK": "/run/user/1000/agent", "XAUTHORITY": "/home/u/.Xauthority", "GPG_TTY": "/dev/pts/0"},
    **{"KEYBOARD_LAYOUT": "de", "XKB_KEYMAP": "us", "KEYTIMEOUT": "1", "MONKEY": "yes", "HOTKEY_DAEMON": "x"},
    **{"COLORTERM": "truecolor", "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com", "AUTHOR": "a"},
    **{"TOKENIZERS_PARALLELISM": "false", "MAX_TOKENS": "4096", "SSH_ASKPASS": "/usr/bin/ask", "BYPASS": "1"},
    **{
        "COMPASS_URL": "https://compass.example:8080/a",
        "GNOME_KEYRING_CONTROL": "/run/keyring",
        "PATTERN": "x",
    },
    **{"HTTP_PROXY": "http://proxy.example:3128", "REMOTE": "ssh://git@git.example/r", "PASSAGE": "x"},
    **{"DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/1000/bus", "PASSWORD_STORE_DIR": "/home/u/.pw"},
    **{"OLDPWD": "/tmp", "LS_COLORS": "di=01;34:ln=01;36", "PS1": r"\u@\h:\w\$ ", "EMPTY": ""},
    **{"NOTE": "café \u6c34", "PERDURE_CALL": "outer"},
    **{"PYTHONHASHSEED": "0", "RANDOM_SEED": "42", "SEED": "7", "PW_TEST_REPORTER": "x", "PWDEBUG": "1"},
    **{"SAS_HOME": "/opt/sas", "CREDITS": "3", "SASS_PATH": "scss"},
}
KEYS = st.uuids().map(str)
PROVIDERS = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "MY_VENDOR"]


def test_there_are_at_least_fifty_canaries():
    """RELIABILITY asks for fifty."""
    assert len(SECRET) >= 50


@pytest.mark.parametrize("name", SECRET)
def test_a_secret_is_left_out(name):
    """Alone too, so that none hides behind another."""
    assert for_children({name: SECRET[name]}, PROVIDERS, secret_values=[KEY_IN_USE]) == NOBODY_IS_THERE


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_variable_stays_as_it_is(name):
    """Words that only begin or end like a secret's are none."""
    kept = for_children({name: ORDINARY[name]}, PROVIDERS, secret_values=[KEY_IN_USE, ""])
    assert kept == {name: ORDINARY[name], **NOBODY_IS_THERE}


@pytest.mark.parametrize("name", SECRET)
def test_what_the_user_allows_by_name_stays(name):
    """The user's own word counts more than any rule, for that one name."""
    kept = for_children(SECRET, PROVIDERS, allowed=[name], secret_values=[KEY_IN_USE])
    assert kept == {name: SECRET[name], **NOBODY_IS_THERE}


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
    environment = for_children({**ORDINARY, **SECRET}, PROVIDERS, secret_values=[KEY_IN_USE])
    dump = f"{sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"
    command = checked(BASH, {"command": dump})
    result = await BASH.run(command, ToolContext(str(tmp_path), environment=environment))
    seen = json.loads(result.text)
    assert seen.keys() & SECRET.keys() == set()
    assert not [value for value in SECRET.values() if value in seen.values()]
    assert KEY_IN_USE not in result.text
    changed_by_us_or_bash = {"PERDURE_CALL", "PS1"}
    assert {name: seen.get(name) for name in ORDINARY.keys() - changed_by_us_or_bash} == {
        name: ORDINARY[name] for name in ORDINARY.keys() - changed_by_us_or_bash
    }
    assert NOBODY_IS_THERE.items() <= seen.items()
