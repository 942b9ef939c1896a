"""A real Lisp reads our sessions and our index, finds in them what the document says is there, and prints
them; and we read what it prints."""

import json
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.session.sexp import dumps, loads
from perdure.session.stores import Header
from perdure.session.stores.sibyl_sexp import SibylStore
from perdure.testing.corpus import HOSTILE_TEXT, HOSTILE_VALUES, KINDS, message_record, record
from perdure.testing.writing import child
from tests.generated import sessions
from tests.needs import needs_tool
from tests.sibyl_files import WHOLE, put, read_form, store_in

pytestmark = [pytest.mark.process, needs_tool("sbcl")]

STAMP = "2026-01-31T09:05:00.123Z"

# Each file that is named on stdin is read as the document's own program reads it, and printed as that prints
# it. What its accessors find is printed as well.
PROGRAM = """
(defun read-file (path)
  (with-open-file (in path :external-format :utf-8)
    (with-standard-io-syntax (let ((*read-eval* nil)) (read in)))))
(defun print-file (path form pretty)
  (with-open-file (out path :direction :output :if-exists :supersede :external-format :utf-8)
    (with-standard-io-syntax
      (let ((*print-case* (if pretty :upcase :downcase)) (*print-pretty* pretty)) (prin1 form out)))))
(loop for path = (read-line *standard-input* nil) while path do
  (let* ((form (read-file path)) (session (cddr form)) (messages (getf session :messages)))
    (print-file (concatenate 'string path ".down") form nil)
    (print-file (concatenate 'string path ".up") form t)
    (when (eq (car form) :repl-session)
      (print-file (concatenate 'string path ".seen")
                  (list (second (second form)) (getf session :id) (getf session :message-count)
                        (length messages) (getf session :summary)
                        (loop for m in messages collect (list (getf m :role) (getf m :tool-call-id)
                          (typecase (getf m :content) (string :string) (null :nil) (list :list))
                          (loop for c in (getf m :tool-calls) collect (getf c :name)))))
                  nil))))
"""


def through_lisp(*paths: Path) -> None:
    """Beside each file: what Lisp prints of it, in lower and in upper case, and what it finds in it."""
    subprocess.run(
        [
            "sbcl",
            "--noinform",
            "--no-sysinit",
            "--no-userinit",
            "--non-interactive",
            "--eval",
            f"(progn {PROGRAM})",
        ],
        input="".join(f"{path}\n" for path in paths),
        text=True,
        check=True,
        capture_output=True,
    )


def printed(path: Path, how: str) -> bytes:
    return path.with_name(f"{path.name}.{how}").read_bytes()


@settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(sessions(), min_size=15, max_size=15))
def test_sib_04_lisp_reads_and_prints_our_sessions(made):
    """Every entry is the same in what it prints, in either case; and so is the index."""
    with tempfile.TemporaryDirectory() as folder:
        store = store_in(Path(folder))
        refs = [store.create(Header(f"s{number}", STAMP, cwd="/ü"), each) for number, each in enumerate(made)]
        index = Path(store.root) / "index.lisp"
        through_lisp(index, *(Path(ref.path) for ref in refs))
        for how in ("down", "up"):
            assert loads(printed(index, how).decode()) == loads(index.read_text())
        for ref in refs:
            check(store, ref)


def check(store: SibylStore, ref) -> None:
    path = Path(ref.path)
    ours = store.read(ref)
    for how in ("down", "up"):
        theirs = store.parse(ref, printed(path, how))
        assert theirs.problems == ours.problems
        assert theirs.header == ours.header
        assert theirs.entries == ours.entries


def test_sib_04_lisp_finds_what_the_document_names(tmp_path):
    """By `getf`: the version, the fields, the messages and their tool calls."""
    store = store_in(tmp_path)
    entries = []
    for name, text in HOSTILE_TEXT.items():
        if "MB" not in name:
            entries.append(message_record(b'"%b"' % text()))
            entries.append(message_record(b'[{"type":"text","text":"%b"}]' % text(), b"assistant"))
    call = b'[{"type":"toolCall","id":"c","name":"n","arguments":{"x":%b}}]'
    for value in HOSTILE_VALUES.values():
        entries.append(message_record(call % value, b"assistant"))
        entries.append(record("custom", b',"customType":"x","data":%b' % value))
    entries += [make() for make in KINDS.values()]
    for number in range(1, len(entries)):
        entries[number] = child(entries[number], entries[number - 1])
    ref = store.create(Header("s1", STAMP), entries)
    through_lisp(Path(ref.path))
    check(store, ref)
    version, id, count, length, summary, messages = read_form(printed(Path(ref.path), "seen").decode())
    assert (version, id, count, summary) == (1, "s1", length, "s")
    kinds = {dumps(message) for message in messages}
    assert "(:user nil :string nil)" in kinds
    assert '(:assistant nil :nil ("n"))' in kinds
    assert "(:assistant nil :list nil)" in kinds
    assert json.loads(store.read(ref).entries[0].raw)["message"]["content"] == "a\u2028b\u2029c"


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_sib_04_lisp_and_we_read_the_same_in_other_programs_files(tmp_path, path):
    """The golden files, and what becomes of them when a message is added."""
    store, ref = put(tmp_path, path.read_bytes())
    with store.writer(ref, after=None) as writer:
        last = store.read(ref).entries[-1]
        writer.append([child(message_record(b'"more"'), last)])
    through_lisp(Path(ref.path))
    check(store, ref)
