"""Prose and names use the terms of docs/glossary.md: retired words stay out.

python tests/test_words.py PATH ...     prints the retired words in files and folders
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

RETIRED = {
    "abreast": "interleaved, side by side",
    "complain complains complaint complaints": "error, problem",
    "nobody": "unused, or name what does not happen",
    "said say saying says": "states, specifies, names, is lowered to",
    "stand standing stands stood": "is stored, is, is located",
    "straight": "directly; fast path",
    "tell telling tells told": "returns, passes, distinguishes",
    "turned": "transposed, changed",
    "want wanted wanting wants": "requires, requested, expects",
    "whoever": "the caller, the user",
    "whither hither thereof wherein therein": "plain words",
}
"""Words that prose does not use, with what to write instead."""

RETIRED_NAMES = re.compile(
    r"abreast|complain|(?<![a-z])[Ee]ndings?(?![a-z])|\bGiven\b|[Ss]traight(?!_through)|(?<![a-z])turned"
    r"|\b(take_off|elsewhere)\b"
)
"""Parts of identifiers that are retired."""

_VAGUE = "(found|made|given)"
VAGUE_NAMES = re.compile(rf"^ *{_VAGUE}(: [^\n=]+)? \+?=|\bfor {_VAGUE} in\b|[(,] ?{_VAGUE}: ", re.MULTILINE)
"""Variables and parameters whose names do not say what their values are, as "shape", "copy" and "passed" do."""

_WITH_VAGUE_NAMES = ("tests", "tools/bisect", "tools/schemas/bisect.py")
"""Files that compare what was found with what is expected."""

ALLOWED = re.compile(r"straight-through|Ellipsis stands|[Ii]f you (really )?want|\"[^\"]*\"|`[^`]*`")
"""Terms of the field, texts of MXNet, and quotations."""

_WORDS = re.compile(r"\b(" + "|".join(w for words in RETIRED for w in words.split()) + r")\b", re.IGNORECASE)
_SKIPPED = ("tests/data", "tests/packages/programs", "tests/test_words.py")
_CLEAN = (
    "README.md",
    "CONTRIBUTING.md",
    "codegen",
    "docs",
    "frontend",
    "ir",
    "passes",
    "runtime",
    "tests",
    "tools",
)
"""The files and folders without retired words."""


def files(path: Path) -> Iterator[Path]:
    """The Python and Markdown files of a path that this project wrote."""
    found = sorted(path.rglob("*")) if path.is_dir() else [path]
    for file in found:
        relative = file.relative_to(ROOT).as_posix()
        if file.suffix in (".py", ".md") and not relative.startswith(_SKIPPED):
            yield file


def problems(file: Path) -> Iterator[str]:
    """Each retired word of a file, with its line."""
    text = file.read_text()
    if file.suffix == ".py" and not file.relative_to(ROOT).as_posix().startswith(_WITH_VAGUE_NAMES):
        for match in VAGUE_NAMES.finditer(text):
            line = 1 + text.count("\n", 0, match.end())
            yield f"{file.relative_to(ROOT)}:{line}: vague name in {match[0].strip()!r}"
    if not (_WORDS.search(text) or RETIRED_NAMES.search(text)):  # without tokens, which take long
        return
    pieces = _python_pieces(text) if file.suffix == ".py" else enumerate(text.splitlines(), 1)
    for line, piece in pieces:
        for match in _WORDS.finditer(ALLOWED.sub("", piece)):
            yield f"{file.relative_to(ROOT)}:{line}: {match[0]!r}"
    if file.suffix == ".py":
        for token in _tokens(text):
            if token.type == tokenize.NAME and RETIRED_NAMES.search(token.string):
                yield f"{file.relative_to(ROOT)}:{token.start[0]}: name {token.string!r}"


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(io.StringIO(text).readline)


def _python_pieces(text: str) -> Iterator[tuple[int, str]]:
    """Comments and string literals, line by line. Quotations inside strings are not removed."""
    strings = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in _tokens(text):
        if token.type == tokenize.COMMENT or token.type in strings:
            for offset, line in enumerate(token.string.strip("\"'").splitlines()):
                yield token.start[0] + offset, line


@pytest.mark.parametrize("name", _CLEAN)
def test_no_retired_word(name: str) -> None:
    found = [problem for file in files(ROOT / name) for problem in problems(file)]
    assert found == []


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        for file in files(Path(argument).resolve()):
            for problem in problems(file):
                print(problem)
