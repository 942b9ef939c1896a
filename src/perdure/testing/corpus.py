"""What a store must be able to keep, and what it must refuse: records, texts, values and ids by name.

Records are given by their bytes, because what is asked for is that the bytes come back.
"""

from __future__ import annotations

from collections.abc import Callable

from perdure.session import ids
from perdure.session.entry import Entry, decode


def record(kind: str, members: bytes = b"") -> Entry:
    """An entry with these bytes for its body, exactly."""
    envelope = b'{"type":"%b","id":"%b","parentId":null,"timestamp":"2026-01-31T09:05:00.123Z"'
    return decode(envelope % (kind.encode(), ids.new_id().encode()) + members + b"}")


def message_record(content: bytes, role: bytes = b"user", members: bytes = b"") -> Entry:
    body = b',"message":{"role":"%b","content":%b,"timestamp":1769850300123%b}'
    return record("message", body % (role, content, members))


KINDS: dict[str, Callable[[], Entry]] = {
    "message": lambda: message_record(b'"said"'),
    "thinking": lambda: message_record(
        b'[{"type":"thinking","thinking":"hm","thinkingSignature":"x"}]', b"assistant"
    ),
    "usage": lambda: message_record(b"[]", b"assistant", b',"usage":{"input":1,"cost":{"total":0.1}}'),
    "system": lambda: message_record(b'"be brief"', b"system"),
    "model": lambda: record("model_change", b',"provider":"p","modelId":"m"'),
    "thinking level": lambda: record("thinking_level_change", b',"thinkingLevel":"high"'),
    "compaction": lambda: record("compaction", b',"summary":"s","firstKeptEntryId":"a","tokensBefore":0'),
    "branch summary": lambda: record("branch_summary", b',"fromId":"root","summary":"s"'),
    "custom": lambda: record("custom", b',"customType":"perdure.status","data":{"status":"active"}'),
    "custom message": lambda: record("custom_message", b',"customType":"x","content":"c","display":true'),
    "label": lambda: record("label", b',"targetId":"a","label":"l"'),
    "name": lambda: record("session_info", b',"name":"n"'),
    "unknown kind": lambda: record("from_the_future", b',"list":[1,{"two":null}]'),
    "unknown members": lambda: message_record(b'"said"', members=b',"mood":{"level":0.10}'),
    "unknown block": lambda: message_record(b'[{"type":"hologram","depth":3}]', b"assistant"),
    "unknown role": lambda: message_record(b'"said"', b"oracle"),
}

HOSTILE_TEXT: dict[str, Callable[[], bytes]] = {
    "U+2028": lambda: "a\u2028b\u2029c".encode(),
    "U+0085": lambda: "a\x85b".encode(),
    "vertical tab and form feed": lambda: rb"a\u000b\u000c\u001c\u001d\u001eb",
    "delete and no-break space": lambda: "a\x7f\xa0b".encode(),
    "lone surrogates": lambda: rb"a\ud800b\udfffc",
    "surrogates in the wrong order": lambda: rb"\ude00\ud83d",
    "NUL": lambda: rb"a\u0000b",
    "CRLF": lambda: rb"a\r\nb\rc\n",
    "needless escapes": lambda: rb"\u0041\/\u00e9",
    "emoji": lambda: "👩‍👩‍👧 \U0001f1e9\U0001f1ea".encode(),
    "direction marks": lambda: "a\u202eb\u2066c\ufeffd".encode(),
    "quotes": lambda: rb"\"\\\"}{\",\"crc\":\"00000000\"}",
    "Lisp": lambda: b"(:role :user) #.(quit) ; |a|",
    "a line of 17 MB": lambda: b"x" * (17 * 2**20),  # more than is looked through, or indexed, at once
}

HOSTILE_VALUES = {
    "2**53+1": b"9007199254740993",
    "2**64+1": b"18446744073709551617",
    "1e400": b"1e400",
    "-0.0": b"-0.0",
    "0.1 with zeros": b"0.1000",
    "many digits": b"3.14159265358979323846264338327950288",
    "a thousand digits": b"9" * 1000,
    "nested 400 deep": b"[" * 400 + b"]" * 400,
    "a name twice": b'{"a":1,"a":2}',
    "an empty name": b'{"":null}',
    "blanks": b'{ "a" : [ 1 ,\t2 ] }',
    "true, false, null": b"[true,false,null]",
}

HOSTILE_IDS = [
    *[
        "",
        ".",
        "..",
        "...",
        "../x",
        "a/../../x",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "..\\x",
        "C:\\x",
        "~",
        "~root",
    ],
    *[
        "a\0b",
        "\0",
        "a\nb",
        "a\n",
        "\n",
        " ",
        "a ",
        " a",
        ".a",
        "a.",
        "-a",
        "a-",
        "_a",
        "x" * 129,
        "x" * 10_000,
    ],
    *[
        "a\u2028",
        "é",
        "\uff41",
        "a\u0301",
        "a\ud800",
        "a:b",
        "a*",
        "a?",
        "a|b",
        "$HOME",
        "`id`",
        "%2e%2e%2fx",
    ],
]
