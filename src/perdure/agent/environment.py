"""What the programs that we start may see of the user's environment: everything but secrets.

A command of the model's needs the user's PATH, proxies, virtual environment and agent sockets to work at all,
so a list of what is allowed would always be too short. What looks like a secret is left out instead: by its
name, by its value, or because it is a key in use. A harmless variable lost that way is named by the user in
the settings and then stays; a key that got through would be in a model's context and on a provider's disks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

NOBODY_IS_THERE = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "TERM": "dumb",
}
"""No program may wait for a key press. What shows pages shows all of them. Git takes the message it has, as
an editor with a window would wait for ever, and fails rather than ask for a password. What draws on a
terminal learns that there is none. EDITOR stays: a command may well want to know it."""

_WORDS = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORD = re.compile(
    "KEYS?|TOKEN|O?AUTH|AUTHORIZATION|PAT|JWT|BEARER|COOKIES?|WEBHOOK|MNEMONIC|DSN|CREDS|PASSCODE"
    "|.*(SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL).*"
    "|.*TOKEN|.*(?<!ASK)(?<!BY)(?<!COM)PASS"
    "|.*(API|ACCESS|AUTH|PRIVATE|SIGNING|ENCRYPTION|MASTER|DEPLOY|LICENSE|SSH)KEYS?"
)
_SECRET_AT_THE_END = {"PW", "SAS"}  # at the beginning they are Playwright and SAS, the company
_SEEDS_OF_SECRETS = {"TOTP", "HOTP", "OTP", "MFA", "WALLET", "PHRASE"}  # others begin random numbers
_HARMLESS = {"SSH_AUTH_SOCK", "PASSWORD_STORE_DIR", "PWD", "OLDPWD"}  # places; git over ssh needs the first
_SECRET_VALUE = re.compile(
    r"""
      \w://[^\s/@]*:[^\s@]+@                            # a URL with a password
    | https?://[^\s/@]+@                                # on the web, a user without one is a token
    | ^[^\s/:@]+:[^\s/:@]+@[\w.-]+(:\d+)?/?$            # a proxy, written without its scheme
    | (?i:passw(or)?d|pwd|secret|token|api_?key|access_?key|account_?key)=[^\s;&]
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY
    | \b(sk|xai|glpat|pypi|xox[abeprs])-[\w-]{16}
    | \b(gh[oprsu]|github_pat|hf|npm|gsk|[rs]k_live)_[A-Za-z0-9]{16}
    | \b(AKIA|ASIA)[0-9A-Z]{16}\b
    | \bAIza[\w-]{35}
    | \beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.                    # a JSON web token
    """,
    re.VERBOSE,
)
_NEEDED = re.compile("PATH|HOME|SHELL|USER|LOGNAME|LANG|LC_.*|TERM|TMPDIR|PWD")
"""Nothing works without these, so they stay whatever is in them."""
_LENGTH_OF_A_KEY = 8  # anything may contain a shorter one by chance
_PLAIN = re.compile(r"(?:(?:[A-Z]?[a-z]{1,20}|[A-Z]{1,20}|\d+)(?:[-_. ]|$))+")
"""Words and numbers, as one writes for a server that asks for no key: `lm-studio`, `not-needed`."""


def for_children(
    environment: Mapping[str, str],
    secret_names: Collection[str],
    allowed: Collection[str] = (),
    secret_values: Collection[str] = (),
) -> dict[str, str]:
    """The environment of a program that we start. `secret_names` are the variables that providers' keys come
    from, `secret_values` the keys in use, wherever they come from. What is `allowed` by name stays in any
    case: only the user can say so."""
    always = {name.upper() for name in secret_names}
    keys = [key for key in secret_values if len(key) >= _LENGTH_OF_A_KEY and not _PLAIN.fullmatch(key)]
    kept = {
        name: value
        for name, value in environment.items()
        if name in allowed
        or not (name.upper() in always or _sounds_secret(name, value) or _holds_secret(name, value, keys))
    }
    return kept | NOBODY_IS_THERE


def _sounds_secret(name: str, value: str) -> bool:
    if name.upper() in _HARMLESS:
        return False
    words = [word.upper() for word in _WORDS.findall(name)]
    return (
        any(map(_SECRET_WORD.fullmatch, words))
        or ("TOKENS" in words and not value.isdecimal())  # how many of them is the other thing it can mean
        or ("PWD" in words and not value.startswith("/"))
        or not _SECRET_AT_THE_END.isdisjoint(words[-1:])
        or ("SEED" in words and not _SEEDS_OF_SECRETS.isdisjoint(words))
    )


def _holds_secret(name: str, value: str, keys: Collection[str]) -> bool:
    """A key counts wherever it stands: mostly it is in a header or an address."""
    if _NEEDED.fullmatch(name):
        return False
    return any(key in value for key in keys) or _SECRET_VALUE.search(value) is not None
