"""Typical mistakes of users: short programs that raise, with MXNet's error type and mxforge's error text.

Each file `data/mistakes/GROUP.txt` is a sequence of

    ### name
    program, which raises in its last statement
    --- MXNet: MXNetError, 3 frames
    text of mxforge's error

`data/make_mistakes.py` records MXNet's line, `pytest --update-golden` mxforge's text. Runs in Python 3.9 too.
"""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "data" / "mistakes"
PROGRAM = "<program>"
COMPILER_WORDS = re.compile(
    r"tensor<|\bcore\.|\bmx\.(?!operator\.register)\w|\b(b?f|u?i)\d+\b|incompatible shapes|index out of range|<ast"
)
"""Words that an error text must not contain."""
SETUP = """
nd, sym, gluon, nn = mx.nd, mx.sym, mx.gluon, mx.gluon.nn
x23, x34, x5 = nd.ones((2, 3)), nd.ones((3, 4)), nd.ones((5,))
i23 = nd.ones((2, 3), dtype="int32")
image = nd.ones((1, 3, 8, 8))
data = sym.Variable("data")
"""


@dataclass
class Mistake:
    """One program. `mxnet` is MXNet's error type or "none"; `frames` is the length of its traceback inside MXNet."""

    name: str
    program: str
    mxnet: str
    frames: int
    text: str

    def __str__(self) -> str:
        frames = f", {self.frames} frames" if self.mxnet != "none" else ""
        return f"### {self.name}\n{self.program}\n--- MXNet: {self.mxnet}{frames}\n{self.text}\n"

    def run(self, mx: Any) -> Exception | None:
        """The error that the program raises with `mx` as the package."""
        import numpy as np

        scope = {"mx": mx, "np": np}
        exec(compile(SETUP, "<setup>", "exec"), scope)
        try:
            exec(compile(self.program, PROGRAM, "exec"), scope)
            mx.nd.waitall()
        except Exception as error:
            return error
        return None


def groups() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.txt"))


def read(group: str) -> list[Mistake]:
    """The mistakes of a file."""
    parts = re.split(r"^### ", (FOLDER / f"{group}.txt").read_text(), flags=re.M)[1:]
    return [_parse(part) for part in parts]


def write(group: str, mistakes: list[Mistake]) -> None:
    (FOLDER / f"{group}.txt").write_text("\n".join(map(str, mistakes)))


def _parse(part: str) -> Mistake:
    name, _, rest = part.partition("\n")
    program, _, rest = rest.partition("\n--- MXNet: ")
    recorded, _, text = rest.partition("\n")
    kind, _, frames = recorded.partition(", ")
    return Mistake(name, program, kind, int(frames.split()[0]) if frames else 0, text.strip("\n"))


def inner_frames(error: Exception) -> list[str]:
    """The files of the traceback's frames that belong neither to the program nor to a test."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f.filename for f in frames if f.filename not in (PROGRAM, __file__)]
