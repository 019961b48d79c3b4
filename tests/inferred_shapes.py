"""Shape inference of mxforge from partly unknown shapes, for the same queries as `tests/data/make_inferred_shapes.py`.

`inferred_shapes.json` contains MXNet's answers. `inferred_otherwise.json` contains mxforge's answers where they differ;
after an intended change, `PYTHONPATH=tests/data python tests/inferred_shapes.py` rewrites it. Tests check which
differences are allowed.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import mxforge as mx
from goldens import DATA, symbol_function

recorder: Any = import_module("make_inferred_shapes")  # untyped: it also runs under MXNet's Python
DIED, REFUSED, answer, questions = recorder.DIED, recorder.REFUSED, recorder.answer, recorder.questions

OTHERWISE = DATA / "inferred_otherwise.json"


@dataclass(frozen=True)
class Asked:
    """One query about a use of an operator, with MXNet's answer. `number` counts the queries of the use."""

    number: int
    given: list[list[int] | None]
    with_output: bool
    theirs: Any

    @property
    def has_size_0(self) -> bool:
        """True if an input shape has no elements or no axes."""
        return any(shape is not None and (not shape or 0 in shape) for shape in self.given)


@dataclass(frozen=True)
class Use:
    """One use of an operator; `output` is the shape of its first result if all inputs are known."""

    op: str
    attributes: dict[str, str]
    shapes: list[list[int]]
    output: list[int] | None
    questions: list[Asked]

    def __str__(self) -> str:
        shown = [f"{key}={value}" for key, value in self.attributes.items()]
        return f"{self.op}({', '.join([*('x'.join(map(str, s)) for s in self.shapes), *shown])})"

    def ours(self, asked: Asked) -> Any:
        """The answer of mxforge, in the format of MXNet's answer."""
        function = symbol_function(self.op)
        question = asked.given, asked.with_output
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = answer(mx, lambda x: function(*x, **self.attributes, name="n"), self.shapes, self.output, question)
        return json.loads(json.dumps(found))


@cache
def uses() -> tuple[Use, ...]:
    return tuple(_use(*record) for record in json.loads((DATA / "inferred_shapes.json").read_text()))


def _use(op: str, attributes: dict[str, str], shapes: list[list[int]], output: Any, answers: list[Any]) -> Use:
    output = None if output == DIED else output
    asked = [q for q in questions(shapes) if output is not None or not q[1]]
    found = [Asked(i, q[0], q[1], theirs) for i, (q, theirs) in enumerate(zip(asked, answers, strict=True))]
    return Use(op, attributes, shapes, output, found)


@cache
def otherwise() -> dict[str, dict[str, Any]]:
    """The answers of mxforge that differ from MXNet's, by use and by query number."""
    return json.loads(OTHERWISE.read_text())


def _differences(use: Use) -> dict[str, Any]:
    answers = {str(asked.number): use.ours(asked) for asked in use.questions}
    return {number: ours for number, ours in answers.items() if ours != use.questions[int(number)].theirs}


def is_known_as_well(ours: Any, theirs: Any) -> bool:
    """True if mxforge knows every rank and extent that MXNet knows, with equal values."""
    if theirs is None or ours is None:
        return theirs is None
    return len(ours) == len(theirs) and all(n in (-1, m) for m, n in zip(ours, theirs, strict=True))


def how_different(asked: Asked, ours: Any) -> str:
    """The kind of difference between an answer and MXNet's."""
    if asked.theirs in (DIED, REFUSED):
        return asked.theirs
    if ours == REFUSED:
        return "refused here"
    return "more" if all(map(is_known_as_well, ours, asked.theirs)) else "less"


def main() -> None:
    found = {str(use): _differences(use) for use in uses()}
    lines = [f"{json.dumps(use)}: {json.dumps(d, separators=(',', ':'))}" for use, d in found.items() if d]
    Path(OTHERWISE).write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
