"""The text of hand-written kernels: one function of a file in `kernels/`, with what it imports from other files."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).with_name("kernels")
_IMPORT = re.compile(r"^from \.(\w+) import .*\n+", re.MULTILINE)
_TRITON = re.compile(r"^import triton.*\n+", re.MULTILINE)
_DOCSTRING = re.compile(r'\A""".*?"""\n+', re.DOTALL)


def kernel_text(file: str, function: str, name: str) -> str:
    """A module with the function `function` of a file, which is called `name` in it, and its helpers."""
    functions = re.sub(rf"\b{function}\b(?=\()", name, _functions(file))
    return f'"""{function} of {file}.py."""\n\nimport triton\nimport triton.language as tl\n{functions}'


@cache
def parameters_of(file: str, function: str) -> tuple[str, ...]:
    """The names of the parameters of a function of a file, in order."""
    tree = ast.parse(_functions(file))
    chosen = next(f for f in tree.body if isinstance(f, ast.FunctionDef) and f.name == function)
    return tuple(a.arg for a in chosen.args.args)


@cache
def _functions(file: str) -> str:
    """The functions of a file, after those of the files that it imports."""
    text = (_FOLDER / f"{file}.py").read_text()
    imported = "".join(_functions(other) for other in _IMPORT.findall(text))
    for part in (_DOCSTRING, _TRITON, _IMPORT):
        text = part.sub("", text)
    return f"{imported}\n\n{text}"
