"""The files of a folder, found by the names that code has for them."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from perdure.agent.models.offline.source import absolute, is_aside, is_code, language_of

_PYTHON = re.compile(r"\s*(?:from\s+([.\w]+)\s+import\s+(.*)|import\s+([.\w]+))")
_RELATIVE = re.compile(r"""["'](\.[^"']*)["']""")


class Files:
    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = sorted(set(paths))
        code = [path for path in self.paths if is_code(path)]
        self.code = [path for path in code if not is_aside(path)] or code
        """What the project is about; its tests and examples only if there is nothing else."""
        counted = Counter(map(language_of, self.code))
        self.main_language = min(counted, key=lambda name: (-counted[name], name), default="")
        self._known = frozenset(self.paths)
        self._modules: dict[str, str] = {}
        self._stems: dict[str, list[str]] = {}
        for path in sorted(self.code, key=depth):
            stem = posixpath.splitext(path)[0]
            for name in (stem, stem.removesuffix("/index"), posixpath.basename(stem)):
                self._stems.setdefault(name, []).append(path)
            if path.endswith(".py"):
                steps = stem.removesuffix("/__init__").split("/")
                for start in range(len(steps)):
                    self._modules.setdefault(".".join(steps[start:]), path)

    def __contains__(self, path: str) -> bool:
        return path in self._known

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def main_folder(self) -> str:
        """The one at the top that holds nearly all code of the main language, if there is one."""
        code = [path for path in self.code if language_of(path) == self.main_language]
        counted = Counter(path.partition("/")[0] if "/" in path else "" for path in code)
        folder, count = counted.most_common(1)[0] if counted else ("", 0)
        return folder if count >= 0.8 * len(code) else ""

    def importing(self, roots: Iterable[str]) -> str:
        """A pattern of lines that import from this project, and from no other if that can be told."""
        match self.main_language:
            case "Python":
                packages = {posixpath.basename(posixpath.dirname(path)) for path in roots} - {""}
                own = "".join(f"|{re.escape(name)}\\b" for name in sorted(packages))
                return rf"^(from|import) (\.{own})" if packages else r"^(from|import) \w"
            case "TypeScript" | "JavaScript":
                return r"""^(import|export|const|let|var|\}).*["']\.\.?/"""
            case "Rust":
                return r"^(pub )?(use (crate|super|self)|mod )"
            case _:
                return r"^\s*(import|use|using|require|include|#include|from)\b"

    def module(self, name: str) -> str:
        """The file of a Python module, from whichever folder its name is counted; else empty."""
        return self._modules.get(name, "")

    def imported(self, who: str, line: str) -> Iterator[str]:
        """The files that a line of imports names."""
        match language_of(who):
            case "Python":
                yield from dict.fromkeys(filter(None, map(self.module, _python_modules(who, line))))
            case "TypeScript" | "JavaScript":
                if named := _RELATIVE.search(line):
                    target = posixpath.normpath(posixpath.join(posixpath.dirname(who), named[1]))
                    yield from self._stems.get(re.sub(r"\.[cm]?[jt]sx?$", "", target), [])[:1]
            case _:
                for word in dict.fromkeys(re.findall(r"\w+", line)):
                    yield from self._stems.get(word, [])[:1]


def depth(path: str) -> tuple[int, str]:
    """For an order that begins at the top."""
    return path.count("/"), path


def _python_modules(who: str, line: str) -> Iterator[str]:
    """Also `a.b.name` of `from a.b import name`, which may be a module."""
    match = _PYTHON.match(line)
    if match is None:
        return
    written = match[1] or match[3]
    named = written.lstrip(".")
    module = absolute(who, len(written) - len(named), named)
    yield module
    yield from (f"{module}.{name}" for name in re.findall(r"\w+", match[2] or ""))
