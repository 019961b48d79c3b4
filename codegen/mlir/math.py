"""Mathematical functions for translated modules: those of the CPU target, which LLVM inlines and vectorises.

MLIR leaves them as LLVM's intrinsics or calls of the C library, of which only scalars exist.
"""

from __future__ import annotations

import re
from collections import Counter

from ..llvm.cpu import Cpu
from ..llvm.emitter import ModuleBuilder
from ..llvm.types import F32, Type
from ..llvm.vmath import math_symbol

_NAMES = (
    "acos|acosh|asin|asinh|atan|atan2|atanh|cbrt|cos|cosh|erf|exp|exp2|expm1|log|log10|log1p|log2|pow|sin|sinh|tan|tanh"
)
_FUNCTION = re.compile(rf"@(?:llvm\.({_NAMES})\.(?:v(\d+))?f32|({_NAMES})f)(?=\()")
_OWN = re.compile(r"@vm\.[\w.]+")
_INLINED = 8
"""The most calls of a function of vectors that are inlined."""
_DECLARED = re.compile(r"^declare .*?(@[\w.$]+)\(", re.MULTILINE)


def with_functions(text: str, cpu: Cpu) -> str:
    """LLVM IR that calls functions of this package instead of LLVM's and those of the C library, with their code."""
    module = ModuleBuilder(cpu)
    lines = [line for line in text.splitlines() if not (line.startswith("declare") and _FUNCTION.search(line))]

    def own(match: re.Match[str]) -> str:
        lanes = int(match[2] or 1)
        return math_symbol(module, match[1] or match[3], F32 if lanes == 1 else Type.of("float", lanes))

    called = _FUNCTION.sub(own, "\n".join(lines))
    calls = Counter(_OWN.findall(called))
    known = set(_DECLARED.findall(called))
    code = [
        line
        for line in module.text().splitlines()
        if not line.startswith("target ") and not ((name := _DECLARED.match(line)) and name[1] in known)
    ]
    return "\n".join([called, *(_kept_whole(line, calls) for line in code), ""])


def _kept_whole(line: str, calls: Counter[str]) -> str:
    """A line of a function's code. A function of vectors that is called often is not inlined: its code is long."""
    name = _OWN.search(line) if line.startswith("define") else None
    often = name is not None and calls[name[0]] > _INLINED and not name[0].endswith(".v1")
    return line.replace("alwaysinline", "noinline") if often else line
