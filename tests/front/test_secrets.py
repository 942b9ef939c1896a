import base64
import hashlib
import json
import shutil
import subprocess
import time
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.secret_forms import FORMS
from perdure.front import secrets
from perdure.front.secrets import Secret
from tests.front.planted import OPENSSH_KEYS, OTHER_ED25519_KEY, Planted, armored, planted

ROOT = Path(__file__).parents[2]
PLANTED = planted()
KEY = next(each for each in PLANTED if each.kind == "GitHub personal access token").secret


def shown(secret: str) -> str:
    return secret[: min(4, len(secret) // 3)] + "…"


def alarms(*lines: str) -> list[Secret]:
    return [*secrets.valued(enumerate(lines, 1)).values()]


@pytest.mark.parametrize(
    "each", PLANTED, ids=[f"{number} {each.kind}" for number, each in enumerate(PLANTED)]
)
def test_one_of_each_kind_is_found_in_prose_in_json_and_in_json_within_json(each: Planted) -> None:
    """Once, on its line, and by its kind."""
    prose = f"this is it:\n{each.text}\nkeep it safe"
    in_json = json.dumps({"role": "user", "content": prose})
    found = alarms("hello", each.text, "bye", in_json, json.dumps({"arguments": in_json}))
    assert found == [Secret(line, each.kind, shown(each.secret)) for line in (2, 4, 5)]


def test_every_form_has_its_planted_secret() -> None:
    """A kind that is not planted is not tested."""
    assert {form.kind for forms in FORMS.values() for form in forms} <= {each.kind for each in PLANTED}


@pytest.mark.process
@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="needs ssh-keygen")
@pytest.mark.parametrize("options", ["-t ed25519", "-t ecdsa", "-t rsa -b 2048", "-t rsa -b 2048 -m PEM"])
@pytest.mark.parametrize("passphrase", ["", "correct horse"])
def test_the_key_that_ssh_keygen_makes_is_found_whole(options: str, passphrase: str, tmp_path: Path) -> None:
    """As it is, and as a string of JSON. Much of it is the same in every key."""
    command = ["ssh-keygen", "-q", *options.split(), "-N", passphrase, "-f", str(tmp_path / "key")]
    subprocess.run(command, check=True)
    text = (tmp_path / "key").read_text()
    body = [line for line in text.splitlines() if line and not line.startswith("-----") and ":" not in line]
    for lines in (text.splitlines(), [json.dumps(text)], [json.dumps({"text": json.dumps(text)})]):
        ((_, value), secret), *others = secrets.valued(enumerate(lines)).items()
        assert (value.split("\n")[-len(body) :], secret.kind, others) == (body, "private key", [])


def test_private_keys_that_begin_with_the_same_line_are_told_apart() -> None:
    """All lines of one are what it is known by."""
    first, second = OPENSSH_KEYS[0], OTHER_ED25519_KEY
    assert first.split("\n")[0] == second.split("\n")[0]
    found = secrets.valued(enumerate([json.dumps(armored(first)), json.dumps(armored(second))]))
    assert [*found] == [(0, first), (1, second)]


def test_what_is_shown_is_at_most_four_characters_and_a_third() -> None:
    """Whoever reads the warning learns nothing to log in with."""
    assert [found.shown for found in alarms("DB_PASSWORD=" + "hunter22")] == ["hu…"]
    for each in PLANTED:
        (found,) = alarms(each.text)
        assert len(found.shown) - 1 <= min(4, len(each.secret) // 3)


BEFORE = [" ", '"', "'", "=", "(", "`", "\n", "\t", "é", "密", "\x1b[32m", ": ", "%3D"]
AFTER = [" ", '"', "'", "\n", ",", ";", "<", ")", "`", "\x1b[0m"]


@given(
    st.sampled_from(PLANTED),
    st.text(),
    st.sampled_from(BEFORE),
    st.sampled_from(AFTER),
    st.text(),
    st.booleans(),
)
def test_no_text_around_it_hides_a_secret(
    each: Planted, start: str, before: str, after: str, end: str, is_json: bool
) -> None:
    """Whatever stands before and after it, as it is or in JSON."""
    line = f"{start}{before}{each.text}{after}{end}"
    found = alarms("", json.dumps(line) if is_json else line)
    begun = [one for one in found if one.line == 2 and each.secret.startswith(one.shown[:2])]
    assert begun, found


PLACEHOLDERS = [
    "ANTHROPIC_API_KEY=sk-ant-...",
    "ANTHROPIC_API_KEY=sk-ant-your-key-goes-in-this-place",
    "OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "export OPENAI_API_KEY=$OPENAI_KEY_2024_FROM_VAULT",
    "API_KEY=YOUR_API_KEY_1234",
    "api_key: <your token 1a2b3c4d5e6f7g8h>",
    "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "GITHUB_TOKEN=${{ secrets.GITHUB_TOKEN_2 }}",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    'curl -H "Authorization: Bearer ${GITHUB_TOKEN_V2}" https://host/',
    "postgres://user:password@localhost:5432/db",
    "postgresql://postgres:postgres@localhost/app",
    "postgres://app:${DB_PASSWORD}@db/app",
    "-----BEGIN PRIVATE KEY-----\\n...\\n-----END PRIVATE KEY-----",
    "-----BEGIN RSA PRIVATE KEY-----\n" + "x" * 64 + "\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA" + "EXAMPLE" * 8 + "\n-----END RSA PRIVATE KEY-----",
    "DB_PASSWORD=********",
    "password: changeme123",
    "PASSWORD=$(openssl rand -hex 16)",
    "DB_PASSWORD='${DB_PASSWORD_2}' TOKEN=\"{{ vault_token_2 }}\" SECRET='<your-secret-1>'",
    "'password': 'required|min:8', \"password\": \"{settings.password1}\", password='[A-Za-z0-9]{8,20}'",
]
ORDINARY = [
    "How do I reset my password? The password is stored as a hash, the token expires in 3600 seconds.",
    "password: str = Field(min_length=8), token: Optional[str] = None",
    'api_key = os.environ["OPENAI_API_KEY"]; token = get_token(user_id=42)',
    "const apiKey = process.env.API_KEY_V2_PRODUCTION_2024;",
    '{"usage": {"input_tokens": 18234, "max_tokens": 200000, "cache_key": "a1b2c3d4e5f60718"}}',
    '{"nextPageToken": "CiAKGjBpNDd2Nmp2Zml2cXRwYjBpOXA4c3Q"}',
    "git checkout 9fceb02d0ae598e95dc970b74767f19372d61af8 && docker run -u 1000:1000 app",
    "The task-runner ships disk-usage-report-2024-11-17T18-42-43-733Z in risk-assessment-of-the-year.",
    "see https://host:8443/a@b and ssh://git@github.com:22/me/code.git",
    "primary_key=0198a3f27b7c7d6e8f901a2b3c4d5e6f, PWD=/home/me/project2",
    "curl -u me https://host/ # asks for the password",
]


@pytest.mark.parametrize("line", [*PLACEHOLDERS, *ORDINARY])
def test_a_placeholder_and_ordinary_talk_are_no_secrets(line: str) -> None:
    """Also as a string of JSON, which is how a session has it."""
    assert alarms(line, json.dumps(line)) == []


def test_ids_hashes_and_pictures_are_no_secrets() -> None:
    """A session is full of them: ids of entries and calls, the hash of its instructions, signatures."""
    digests = [hashlib.sha256(b"%d" % number).digest() for number in range(200)]
    lines = []
    for digest in digests:
        blob = base64.b64encode(digest * 40).decode()
        call = base64.b64encode(digest, b"ab")[:24].decode()
        lines += [
            json.dumps({"id": digest.hex()[:8], "parentId": str(uuid.UUID(bytes=digest[:16]))}),
            json.dumps({"system_prompt_hash": f"sha256:{digest.hex()}"}),
            json.dumps(
                {"type": "toolCall", "id": f"toolu_01{call}", "callId": f"call_{call}|fc_{digest.hex()}"}
            ),
            json.dumps({"type": "image", "data": blob, "thinkingSignature": blob}),
            f"commit {digest.hex()[:40]} of /tmp/{digest.hex()[:12]}.log, md5 {digest.hex()[:32]}",
        ]
    assert alarms(*lines) == []


@pytest.mark.slow
def test_this_repository_raises_no_alarm() -> None:
    """Megabytes of prose, code and tests. If a test does: put what it plants together at run time."""
    raised: list[tuple[Path, Secret]] = []
    for folder, pattern in [
        (".", "*.md"),
        ("docs", "*"),
        ("src", "*.py"),
        ("tests", "*.py"),
        ("bench", "*.py"),
    ]:
        found = ROOT.glob(pattern) if folder == "." else (ROOT / folder).rglob(pattern)
        for path in found:
            if path.is_file() and "node_modules" not in path.parts:
                lines = path.read_text("utf-8", "replace").split("\n")
                raised += [(path.relative_to(ROOT), secret) for secret in alarms(*lines)]
    assert raised == []


@pytest.mark.slow
def test_a_secret_at_the_end_of_a_huge_line_is_found() -> None:
    """A picture in a message makes a line of megabytes."""
    (found,) = alarms("", '{"data":"' + "QUJDRA1b" * 640_000 + '","text":"' + KEY + '"}')
    assert (found.line, found.kind) == (2, "GitHub personal access token")


def test_a_line_with_the_same_secret_twice_is_told_of_once() -> None:
    """And each line that has it is."""
    assert [found.line for found in alarms(f"{KEY} {KEY}", "", f"{KEY}")] == [1, 3]


def test_characters_of_any_width_and_halves_of_them_shift_nothing() -> None:
    """Line numbers and values stay right after text that is not ASCII."""
    found = secrets.valued([(10, "İ密😀\ud83d" * 50), (20, f"é DB_PASSWORD={'pä55wörter!'} {KEY[:8]}")])
    assert [*found.values()] == [Secret(20, "value of DB_PASSWORD", "pä5…")]


# What each would be slow with: the beginnings of secrets, over and over, that never become one.
HOSTILE = [
    *(
        "sk-",
        "sk-ant-",
        "eyJ-eyJ.",
        "AKIA",
        "://a:",
        "token=",
        "secret:'",
        "curl x -u",
        "login a",
        "bearer a",
    ),
    *("PRIVATE KEY-----" + "A" * 59 + "-", "dp.st." + "a-" * 17, "\\n", "a_", "key-", "password\\\\\\"),
    *("tok" + "en=\"aB3dE5fG7hJ9kL1m',", "A_PASS" + "WORD='Ab1(cd$2", "PASSWORD=aB3dE5,", 'pwd:\\"a1\\\\'),
]


@pytest.mark.slow
def test_time_is_linear_in_the_text_however_hostile() -> None:
    """Eight times the text takes about eight times as long; quadratic would be 64 times."""

    def work(size: int) -> float:
        text = "\n".join((part * (size // len(part) + 1))[:size] for part in HOSTILE)
        taken = []
        for _ in range(3):
            start = time.process_time()
            secrets.valued([(1, text)])
            taken.append(time.process_time() - start)
        return min(taken)

    assert work(16_000) < 32 * work(2_000)
