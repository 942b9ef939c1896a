"""Tells which variables of an environment look as if they held a secret: by their names, or by their values.

It is a guess, and it leans to the safe side: a harmless variable that is taken for a secret is named by the
user in the settings, and a key that got through would be in a model's context and on a provider's disks.
Still, commands have to work. A value alone tells of a secret only if it is of a known kind, or if nobody
would write it by hand: letters and digits without any order. What computers write everywhere is none: paths,
versions, UUIDs, the hashes of commits and packages.
"""

from __future__ import annotations

import re

_WORDS = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORD = re.compile(
    "KEYS?|TOKEN|TOK|O?AUTH|AUTHORIZATION|PAT|JWT|BEARER|COOKIES?|WEBHOOK|MNEMONIC|DSN|CREDS?|PASSCODE"
    "|PASSWRD|PSWD|TKN|PSK|.+(?<!OLD)PWD|.{2,}PW|[HT]OTP|[A-Z]*SESSID|JSESSIONID"
    "|.*(SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL).*"
    "|.*TOKEN|(API|AUTH|ACCESS|BOT)TOK|.*(?<!ASK)(?<!BY)(?<!COM)PASS"
    "|.*(API|ACCESS|AUTH|PRIVATE|SIGNING|ENCRYPTION|MASTER|DEPLOY|LICENSE|SSH)KEYS?"
)
_SECRET_UNLESS_PLAIN = re.compile("SID|(EN|DE)CRYPT(ION|ED)?|HMAC")
_SECRET_AT_THE_END = {"PW", "SAS", "SALT", "PEPPER"}  # at the beginning, the names of programs
_LENGTH_OF_A_PIN = 4
_SEEDS_OF_SECRETS = {"OTP", "MFA", "WALLET", "PHRASE"}  # others begin random numbers
_CONTENT = re.compile(".*_(DATA|CONTENTS?|BLOB|B64|BASE64|PEM|P12|PFX|JKS|KEYTAB|CERTS?|CERTIFICATES?)")
"""Where the name of a file would be, there may be what is in it."""
_HARMLESS = {  # places; git over ssh needs the first; and the name of a database
    *("SSH_AUTH_SOCK", "PASSWORD_STORE_DIR", "PWD", "OLDPWD", "ORACLE_SID"),
}
_PLAIN_VALUE = re.compile(
    r"(?i)|[01]|true|false|yes|no|on|off|none|null|auto|always|never|required|optional|(en|dis)abled"
    r"|(start)?tls|ssl|(aws:)?kms|(?!\d+$)(aes|rsa|sha|ecdsa|ed|chacha|gcm|cbc|poly|xts|[hre]s|[-_:\d]){1,12}"
)
"""Whether, or with which method."""
_PATH = re.compile(r"([/~]|\.\.?/|[A-Za-z]:[\\/]|[\w.-]+/[\w./-]+\.[a-z]{1,5}$)[^+=]*")

_SECRET_VALUE = re.compile(
    r"""
      (?<![^\s@])(?=[^\s@]++@)[^\s@]*?\w://[^\s/@:]*+:[^\s@]   # a URL with a password
    | https?://[^\s/@]+@                                # on the web, a user without one is a token
    | ^[^\s/:@]+:[^\s/:@]+@[\w.-]+(:\d+)?/?$            # a proxy, written without its scheme
    | (?i:passw(or)?d|pwd|secret|token|(api|access|account|private|shared)_?key)=[^\s;&]
    | (?i:passw(or)?d|secret|token|private_key)["']\s*:\s*["']?[^\s"',}]               # in JSON
    | (?im:^[ \t-]*(passw(or)?d|secret|token|client-key-data):\s+\S)                    # in YAML
    | (?i:[?&;]sig(nature)?|x-amz-(signature|credential|security-token))=
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY
    | LS0tLS1CRUdJTi                                    # the same, in base64
    | \b[Bb]earer\s+\S{6}
    | (?i:(?<!\S)(?>\S*?\bauthorization:)\s*+\S++\s+\S)  # the first one in a word: it says as much as others
    | \b(sk|xai|glpat|pypi|xox[abeprs]|xapp|nvapi|pplx|tvly)-[\w-]{16}
    | \bkey-[0-9a-f]{32}
    | \b(sk|xai|glpat|pypi|xox[abeprs])-(?=[\w-]{0,40}\d)[\w-]{6}
    | \b(gh[oprsu]|github_pat|[rs]k_(live|test)|dop_v1|shp(at|ss|ca|pa)|dckr_pat|glsa|lin_api|whsec)_
        (?=\w{0,40}\d)[A-Za-z0-9]{6}
    | \b(gh[oprsu]|github_pat|hf|npm|gsk|[rs]k_live)_[A-Za-z0-9]{16}
    | \b(AKIA|ASIA)[0-9A-Z]{16}\b
    | \b(AC|SK)[0-9a-f]{32}\b                           # Twilio
    | \bAIza[\w-]{35}
    | \bya29\.[\w-]{10}
    | \bhv[sbr]\.[\w-]{10}
    | \bSG\.[\w-]{16,}\.[\w-]{16}
    | \bAGE-SECRET-KEY-1
    | (?<![\w-])(?>[\w-]*?\beyJ)[\w-]{8,}+\.eyJ[\w-]{8,}+\.    # a JSON web token
    | ^eyJ[\w+/-]{16,}=*$                               # JSON, in base64
    | hooks\.slack\.com/services/\w | /api/webhooks/\d+/\w | api\.telegram\.org/bot\d
    """,
    re.VERBOSE,
)
"""A value may be as long as the system allows, and anything may stand in it, so the time for a search grows
with its length alone: what may be long is looked at once, from where its letters begin, and not from each
place in it where one could begin."""

_NAMES_OF_THINGS = {
    *("ID", "IDS", "UUID", "GUID", "SHA", "COMMIT", "REV", "REVISION", "VERSION"),
    *("HASH", "DIGEST", "CHECKSUM", "INTEGRITY", "FINGERPRINT"),
}
"""What they call is without order, and no secret."""
_WRITTEN_BY_PROGRAMS = re.compile("_ModuleTable.*|__LMOD_.*|MEMORY_PRESSURE_WRITE")
"""Text in base64, of Lmod and systemd, which commands need."""
_UUID = re.compile("(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NOT_A_WORD = ("%", "@", "$", "-", ".")  # but a variable, an option, a package
_CHECKSUM = re.compile("(?i)sha[0-9]+-")
_APART = re.compile(r"""[\s,;:='"|<>(){}\[\]?&#@%\\!]+""")
_PIECE = re.compile("[A-Za-z0-9+/_-]{16,}")
_NO_LETTER_OR_DIGIT = re.compile("[^A-Za-z0-9]")
_HEX = re.compile("(?i)(0x)?[0-9a-f]*")
_PARTS = re.compile("[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_NUMBERS = re.compile("[0-9]+")
# Measured: of random letters and digits, 95 % of 32 and 80 % of 20 are known by this, and of 2,200 names with
# capitals and digits in packages and system files, none but those that are random themselves.
_SHORTEST = 16
_MOST_LETTERS_A_PART = 1 / 0.38
_LONG = 24
_MOST_LETTERS_A_PART_IN_ONE_CASE = 1 / 0.28


def is_secret(name: str, value: str) -> bool:
    return sounds_secret(name, value) or looks_secret(value) or _is_random(name, value)


def sounds_secret(name: str, value: str) -> bool:
    """By its name; what the value is decides where the name may mean something else."""
    if name.upper() in _HARMLESS:
        return False
    words = [word.upper() for word in _WORDS.findall(name)]
    return (
        any(map(_SECRET_WORD.fullmatch, words))
        # How many of them is the other thing it can mean, and which one of a chip.
        or (not {"TOKENS", "TOKS"}.isdisjoint(words) and not value.isdecimal())
        or (words[-1:] == ["PIN"] and not (value.isdecimal() and len(value) < _LENGTH_OF_A_PIN))
        or ("PWD" in words and not value.startswith("/"))
        or not _SECRET_AT_THE_END.isdisjoint(words[-1:])
        or ("SEED" in words and not _SEEDS_OF_SECRETS.isdisjoint(words))
        or (any(map(_SECRET_UNLESS_PLAIN.fullmatch, words)) and not _is_plain(value))
        or (_CONTENT.fullmatch(name.upper()) is not None and _is_content(words, value))
    )


def looks_secret(value: str) -> bool:
    return _SECRET_VALUE.search(value) is not None or _has_token(value)


def _has_token(value: str) -> bool:
    """Of a form that a service gives them. The forms are loaded only for what could be one."""
    parts = _APART.split(value)
    texts = [text for text in parts if not _is_place(text)]
    if not any(len(text) >= _SHORTEST and _NUMBERS.search(text) for text in texts):
        return False
    searched = value if texts == parts else " ".join(texts)  # a place may have the name of anything in it
    from perdure.agent.secret_tokens import tokens

    return next(tokens(searched.encode("ascii", "replace")), None) is not None


def _is_plain(value: str) -> bool:
    return _PLAIN_VALUE.fullmatch(value.strip()) is not None or _PATH.fullmatch(value) is not None


def _is_content(words: list[str], value: str) -> bool:
    """And not where to find it."""
    if _is_plain(value):
        return False
    text = "".join(value.split())
    is_long = len(text) >= _SHORTEST and _PIECE.fullmatch(text.rstrip("=")) is not None
    return "KUBECONFIG" in words or "\n" in value.strip() or (is_long and not text.isalpha())


def _is_random(name: str, value: str) -> bool:
    words = {word.upper() for word in _WORDS.findall(name)}
    if not words.isdisjoint(_NAMES_OF_THINGS) or _WRITTEN_BY_PROGRAMS.fullmatch(name):
        return False
    texts = [text for text in _APART.split(_UUID.sub("", value)) if not _is_place(text)]
    return any(_is_without_order(piece, len(texts) == 1) for text in texts for piece in _PIECE.findall(text))


def _is_place(text: str) -> bool:
    return text.startswith(_NOT_A_WORD) or (_PATH.match(text) or _CHECKSUM.match(text)) is not None


def _is_without_order(piece: str, is_alone: bool) -> bool:
    """People write words and numbers, which are longer than what chance makes of letters and digits."""
    text = _NO_LETTER_OR_DIGIT.sub("", piece)
    parts, numbers = len(_PARTS.findall(text)), len(_NUMBERS.findall(text))
    if _HEX.fullmatch(text) or len(text) < _SHORTEST or not numbers:
        return False
    if text.lower() != text != text.upper():
        return len(text) <= _MOST_LETTERS_A_PART * parts and numbers > 1
    return is_alone and len(text) >= _LONG and len(text) <= _MOST_LETTERS_A_PART_IN_ONE_CASE * parts
