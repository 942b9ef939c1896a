"""What a source file defines, read from its text: Python by its grammar, other languages by how they look.

Nothing here is run or imported, and no text is too broken: a file that cannot be parsed is looked at line by
line, like one in any other language.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from perdure.agent.models.offline.wording import one_line

if TYPE_CHECKING:
    import ast

LANGUAGES = {
    "Python": ("py", "pyi"),
    "TypeScript": ("ts", "tsx", "mts", "cts"),
    "JavaScript": ("js", "jsx", "mjs", "cjs"),
    "Go": ("go",),
    "Rust": ("rs",),
    "C": ("c", "h"),
    "C++": ("cc", "cpp", "cxx", "hpp", "hh"),
    "C#": ("cs",),
    "Java": ("java",),
    "Kotlin": ("kt", "kts"),
    "Scala": ("scala",),
    "Swift": ("swift",),
    "Ruby": ("rb",),
    "PHP": ("php",),
    "Elixir": ("ex", "exs"),
    "Lua": ("lua",),
    "Lisp": ("lisp", "el", "clj", "cljs", "scm"),
    "Shell": ("sh", "bash", "zsh", "fish"),
}
"""Those whose definitions are known by sight."""
OTHER_TEXT = {
    "Markdown": ("md", "markdown"),
    "reStructuredText": ("rst",),
    "text": ("txt",),
    "JSON": ("json", "jsonl", "json5"),
    "YAML": ("yml", "yaml"),
    "TOML": ("toml",),
    "HTML": ("html", "htm"),
    "CSS": ("css", "scss", "sass", "less"),
    "SQL": ("sql",),
    "Vue": ("vue",),
    "Svelte": ("svelte",),
    "Haskell": ("hs",),
    "OCaml": ("ml", "mli"),
    "Zig": ("zig",),
    "Dart": ("dart",),
    "R": ("r",),
    "Julia": ("jl",),
    "Jupyter notebooks": ("ipynb",),
    "Protocol Buffers": ("proto",),
    "XML": ("xml",),
    "settings": ("ini", "cfg", "conf", "env"),
}
_BY_ENDING = {ending: name for name, endings in (LANGUAGES | OTHER_TEXT).items() for ending in endings}

_WORD = r"(?P<name>[A-Za-z_$][\w$]*)"
_JS = (
    r"^(?:export\s+(?:default\s+)?)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?"
    rf"(?P<kind>function|class|interface|enum|type|namespace)\b\*?\s+{_WORD}"
    r"|^(?:export\s+)?(?P<kind2>const)\s+(?P<name2>[A-Za-z_$][\w$]*)(?:\s*:[^=]+)?\s*=\s*"
    r"(?:async\s+)?(?:function\b|\([^)]*\)\s*(?::[^=]+)?=>|\w+\s*=>)"
    r"|^(?:module\.)?(?P<kind3>exports)\.(?P<name3>[A-Za-z_$][\w$]*)\s*="
)
_CURLY = (
    r"^\s{0,4}(?:(?:public|protected|internal|static|final|abstract|sealed|open|data|partial|async|suspend|case"
    rf"|override|inline|export)\s+)*(?P<kind>class|interface|enum|record|object|struct|protocol|trait|fun|func)\s+{_WORD}"
)
_C = (
    rf"^(?:typedef\s+)?(?P<kind>struct|class|enum|union|namespace)\s+{_WORD}\s*(?:[{{:].*)?$"
    r"|^[A-Za-z_][\w\s*:<>,&]*?[\s*&](?P<name2>[A-Za-z_]\w*)\s*\([^;]*$"
)
PATTERNS = {
    "Python": rf"^(?:async\s+)?(?P<kind>def|class)\s+{_WORD}",
    "TypeScript": _JS,
    "JavaScript": _JS,
    "Go": rf"^(?P<kind>func|type)\s+(?:\([^)]*\)\s*)?{_WORD}",
    "Rust": r"^(?:pub(?:\([^)]*\))?\s+)?(?:(?:async|unsafe|const|default)\s+)*"
    rf"(?P<kind>fn|struct|enum|trait|type|union|macro_rules!)\s+{_WORD}",
    "C": _C,
    "C++": _C,
    **dict.fromkeys(("C#", "Java", "Kotlin", "Scala", "Swift"), _CURLY),
    "Ruby": r"^\s{0,4}(?P<kind>class|module|def)\s+(?P<name>[\w.:?!]+)",
    "PHP": r"^\s{0,4}(?:(?:abstract|final|public|static)\s+)*"
    rf"(?P<kind>class|interface|trait|function)\s+{_WORD}",
    "Elixir": r"^\s{0,2}(?P<kind>defmodule|defprotocol|def|defmacro)\s+(?P<name>[\w.?!]+)",
    "Lua": r"^(?:local\s+)?(?P<kind>function)\s+(?P<name>[\w.:]+)",
    "Lisp": r"^\((?P<kind>def[\w-]*)\s+\(?(?P<name>[^\s()]+)",
    "Shell": r"^(?:function\s+)?(?P<name>[A-Za-z_][\w-]*)\s*\(\)",
}
"""A definition on one line. Written so that both Python and ripgrep take them."""
_COMMENT = re.compile(r"^\s*(?://[/!]?|/\*+!?|\*+/?|#+|--+|;+)\s?(.*)")
_NOT_NAMES = frozenset({"if", "for", "while", "switch", "return", "sizeof", "else", "catch"})

TEST_FOLDERS = frozenset({"test", "tests", "spec", "specs", "__tests__", "e2e"})
_TEST_FILE = re.compile(
    r"(?:test_.*|.*_test|.*_spec|.*\.test|.*\.spec|.*Tests?|conftest)\.[A-Za-z0-9]+", re.ASCII
)
_OTHERS = re.compile(
    r"node_modules|bower_components|_?vendor(?:ed)?|third[-_]?party|site-packages|dist-packages|\.?venv"
)
_MADE = re.compile(
    r"__pycache__|.+\.egg-info"
    r"|\.(?:git|hg|svn|tox|nox|gradle|cache|hypothesis|mypy_cache|pytest_cache|ruff_cache)"
)
_CODE = re.compile(
    r"^[ \t]*(?:from\s+\S+\s+import\s|(?:import|#include|const|let|var)\s+\S+\s*(?:$|[=;:{]))"
    r"|[;{}][ \t]*$|^[ \t]*[\w.]+(?:\(.*\)| *:?= .+)$",
    re.M,
)
_ASIDE = re.compile(
    r"docs?|examples?|samples?|bench(?:es|marks?)?|scripts?|tools|migrations|fixtures|testdata|testing|generated"
    r"|dist|build|target|demos?|\.github",
    re.I,
)


class Definition(NamedTuple):
    path: str
    line: int
    kind: str
    name: str
    doc: str = ""
    """The first sentence or line of what is written about it."""
    size: int = 1
    """Lines, as far as known."""
    public: bool = True

    @property
    def in_words(self) -> str:
        return f"{self.kind} `{self.name}`" + (f": {self.doc}" if self.doc else "")

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"


class Source(NamedTuple):
    doc: str
    definitions: Sequence[Definition]
    exports: frozenset[str] = frozenset()
    """Names it hands on from elsewhere, and those it says are its own."""
    imports: tuple[str, ...] = ()
    """Dotted modules, also `a.b.name` where `name` may be a module of `a.b`."""


def language_of(path: str) -> str:
    return _BY_ENDING.get(posixpath.splitext(path)[1][1:].lower(), "")


def is_code(path: str) -> bool:
    return language_of(path) in LANGUAGES


def is_others(path: str) -> bool:
    """Other people's code, kept here."""
    return _is_below(_OTHERS, path)


def is_made(path: str) -> bool:
    """What programs keep for themselves."""
    return _is_below(_MADE, path)


def _is_below(folders: re.Pattern[str], path: str) -> bool:
    return any(map(folders.fullmatch, path.split("/")[:-1]))


def is_test(path: str) -> bool:
    *folders, name = path.split("/")
    in_tests = any(folder.lower() in TEST_FOLDERS for folder in folders)
    return is_code(path) and (_TEST_FILE.fullmatch(name) is not None or in_tests)


def is_aside(path: str) -> bool:
    """Not what the project is about: its documents, examples, tests, and what is not its own."""
    return is_test(path) or _is_below(_ASIDE, path) or is_others(path) or is_made(path)


def looks_like_code(text: str) -> bool:
    return _CODE.search(text) is not None


def source(path: str, text: str) -> Source:
    if language_of(path) == "Python":
        for part in (text, _whole_statements(text)):
            if (parsed := _parsed(part)) is not None:
                whole = _python(path, parsed)
                last = part.count("\n") + bool(part)
                cut = [one for one in by_pattern(path, text) if one.line > last] if part != text else []
                return whole._replace(definitions=[*whole.definitions, *cut])
    return Source(_leading_comment(text), [*by_pattern(path, text)])


def definition_in(path: str, line: int, text: str) -> Definition | None:
    """What one line of a file defines."""
    pattern = PATTERNS.get(language_of(path))
    match = re.match(pattern, text) if pattern else None
    if match is None:
        return None
    groups = match.groupdict()
    name = next(value for key, value in groups.items() if key.startswith("name") and value)
    kind = next((value for key, value in groups.items() if key.startswith("kind") and value), "function")
    if name in _NOT_NAMES:
        return None
    return Definition(path, line, _KINDS.get(kind, kind), name, public=_is_public(path, name, text))


_KINDS = {"def": "function", "fn": "function", "func": "function", "fun": "function"} | {
    "exports": "export",
    "macro_rules!": "macro",
}


def _is_public(path: str, name: str, line: str) -> bool:
    match language_of(path):
        case "Go":
            return name[:1].isupper() or name == "main"
        case "Rust":
            return line.startswith("pub") or name == "main"
        case "TypeScript" | "JavaScript":
            return line.startswith(("export", "exports.", "module.exports"))
        case _:
            return not name.startswith("_") and "static " not in line.partition("(")[0]


def by_pattern(path: str, text: str) -> Iterator[Definition]:
    lines = text.split("\n")
    found = [
        definition
        for at, line in enumerate(lines, 1)
        if (definition := definition_in(path, at, line)) is not None
    ]
    ends = [*(definition.line for definition in found[1:]), len(lines) + 1]
    for definition, end in zip(found, ends, strict=False):
        doc = _comment_above(lines, definition.line - 1)
        yield definition._replace(doc=doc, size=end - definition.line)


def _comment_above(lines: Sequence[str], at: int) -> str:
    """The first words of the comment that ends right above; attributes may stand between."""
    said: list[str] = []
    for line in reversed(lines[max(0, at - 40) : at]):
        if line.lstrip().startswith(("#[", "@", "[")) and not said:
            continue
        words = _comment(line)
        if words is None or line.startswith("#!"):
            break
        said.append(words)
    return _first_words("\n".join(reversed(said)))


def _comment(line: str) -> str | None:
    """What a line that is a comment says."""
    match = _COMMENT.match(line)
    return match[1].removesuffix("*/").rstrip() if match else None


def _leading_comment(text: str) -> str:
    said: list[str] = []
    for line in text.split("\n")[:40]:
        comment = _comment(line)
        if line.startswith("#!") or (not line.strip() and not said):
            continue
        if comment is None:
            if line.strip():
                return ""  # it belongs to what comes right below
            break
        said.append(comment)
    words = _first_words("\n".join(said))
    return "" if _NO_WORDS.search(words) else words


_NO_WORDS = re.compile(r"(?i)copyright|licen[sc]e|eslint|\binclude\b|pragma|^todo|^fixme|^-\*-")


def _first_words(text: str) -> str:
    """The first paragraph's first sentence, on one line."""
    words = " ".join(text.strip().partition("\n\n")[0].split())
    if words.startswith(("@", "noqa", "type:", "eslint")):
        return ""
    sentence = re.match(r".{15,}?[.!?](?=\s|$)", words)
    return one_line((sentence[0] if sentence else words).rstrip(":;,"), 140)


# --- Python -------------------------------------------------------------------------------------------


def _parsed(text: str) -> ast.Module | None:
    import ast
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a file's own escapes are worth is not our business
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _whole_statements(text: str) -> str:
    """Without the last statement of the outermost level, which may have been cut off."""
    lines = text.split("\n")
    for at in range(len(lines) - 1, 0, -1):
        if re.match(r"(?:async def|def|class|@)", lines[at]):
            while at > 0 and lines[at - 1].startswith("@"):
                at -= 1
            return "\n".join(lines[:at])
    return ""


def _python(path: str, module: ast.Module) -> Source:
    import ast

    definitions: list[Definition] = []
    exports: set[str] = set()
    imports: list[str] = []
    waiting: list[ast.stmt] = module.body[::-1]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                kind = "class" if isinstance(node, ast.ClassDef) else "function"
                doc = _first_words(ast.get_docstring(node) or "")
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                public = not node.name.startswith("_")
                definitions.append(Definition(path, node.lineno, kind, node.name, doc, size, public))
            case ast.If() | ast.Try():
                waiting.extend(reversed(node.body))
            case ast.Import():
                imports += [alias.name for alias in node.names]
            case ast.ImportFrom():
                origin = absolute(path, node.level, node.module or "")
                imports += [origin, *(f"{origin}.{alias.name}" for alias in node.names)]
                exports.update(alias.name for alias in node.names)
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() | ast.Tuple() as names):
                exports.update(str(each.value) for each in names.elts if isinstance(each, ast.Constant))
    doc = _first_words(ast.get_docstring(module) or "")
    return Source(doc, definitions, frozenset(exports), tuple(imports))


def absolute(path: str, level: int, module: str) -> str:
    """The module that a file means by a name with so many dots before it."""
    folders = path.split("/")[:-1] if level else []
    return ".".join(filter(None, [*folders[: len(folders) - level + 1], module]))
