"""A kernel as a part of others: what its source text is, and how it is called (`join.py`)."""

from __future__ import annotations

import re
from dataclasses import asdict
from math import prod
from typing import TYPE_CHECKING, Any

from ...ir.lazy_dataclass import dataclass
from .split import COUNTERS

if TYPE_CHECKING:
    from .emit import TritonSource

PROGRAM_ID = "tl.program_id(0)"

_FUNCTION = re.compile(r"^@triton\.jit\ndef (\w+)\(.*?(?=\n+@triton\.jit|\Z)", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"\b\w+\b")
_LOOP = re.compile(r"\bin range\((.*)\):$", re.MULTILINE)
_WARPS = 1, 2, 4, 8, 16
_ACROSS_THREADS = (
    "tl.dot",
    "tl.sum",
    "tl.reduce",
    "tl.max(",
    "tl.min(",
    "tl.arg",
    "scan",
    "tl.sort",
    "barrier",
    "atomic",
)
"""What threads of a program compute together."""

NUMBER = "_program"
"""The parameter that is the number of the program."""


@dataclass(frozen=True, slots=True)
class Part:
    """The fields are those of `TritonSource` and of its schedule that determine the compiled kernel. `divisible` is
    sorted."""

    name: str
    text: str
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, int | str], ...]
    divisible: tuple[str, ...]
    num_warps: int
    num_stages: int
    fp_fusion: bool

    def to_record(self) -> dict[str, Any]:
        """The part as JSON can hold it."""
        return asdict(self)

    @staticmethod
    def from_record(record: dict[str, Any]) -> Part:
        """The part of which `to_record` made this. KeyError or TypeError for anything else."""
        pairs = {name: tuple([(a, b) for a, b in record[name]]) for name in ("signature", "constants")}
        fields: dict[str, Any] = {**record, **pairs, "divisible": tuple(record["divisible"])}
        return Part(**fields)

    @property
    def counts(self) -> bool:
        """True if the last argument is counters of the device, one for each program or fewer; launches do not have
        it."""
        return self.signature[-1][0] == COUNTERS

    @property
    def multiplies(self) -> bool:
        """True for a product, which needs most registers and much of the shared memory of a multiprocessor."""
        return "tl.dot" in self.text

    @property
    def elements(self) -> int:
        """The elements of the block that a program computes."""
        return prod(n for name, n in self.constants if name.endswith("BLOCK") and isinstance(n, int))

    @property
    def warps(self) -> frozenset[int]:
        """The numbers of warps with which it computes the same bits: they decide the order of sums."""
        fixed = any(name in text for text in self.functions().values() for name in _ACROSS_THREADS)
        return frozenset((self.num_warps,) if fixed else (w for w in _WARPS if w >= self.num_warps))

    def functions(self) -> dict[str, str]:
        """The texts of its function, which comes last, and of those that it calls, by name. The number of the program
        is an argument of those that depend on it. Its loops have stages of their own."""
        every = {match.group(1): match.group(0).rstrip() for match in _FUNCTION.finditer(self.text)}
        called = _reached({self.name}, {name: _names(text) & every.keys() for name, text in every.items()})
        callers = {name: {f for f in called if name in _names(every[f])} for name in called}
        numbered = _reached({name for name in called if PROGRAM_ID in every[name]}, callers)
        texts = {name: _numbered(every[name], numbered) if name in numbered else every[name] for name in called}
        texts[self.name] = _LOOP.sub(rf"in tl.range(\1, num_stages={self.num_stages}):", texts[self.name])
        return {name: texts[name] for name in (*(f for f in every if f in called and f != self.name), self.name)}

    def imports(self) -> list[str]:
        """The lines that import what the functions need."""
        return [line for line in self.text.splitlines() if line.startswith(("import ", "from "))]


def _names(text: str) -> set[str]:
    """The words in a function after its name."""
    return set(_WORD.findall(text.partition("(")[2]))


def _reached(names: set[str], edges: dict[str, set[str]]) -> set[str]:
    """These names and those that edges lead to."""
    waiting = list(names)
    while waiting:
        new = edges[waiting.pop()] - names
        names = names | new
        waiting += new
    return names


def _numbered(text: str, functions: set[str]) -> str:
    """A function with the number of the program as its first parameter, which it passes to `functions`."""
    calls = re.compile(rf"\b({'|'.join(sorted(functions))})\(")
    return calls.sub(rf"\1({NUMBER}, ", text).replace(PROGRAM_ID, NUMBER)


def part_of(source: TritonSource) -> Part | None:
    """A kernel as a part; None if it depends on its grid in other ways than by the number of a program, and for
    attention, which needs a multiprocessor for itself."""
    schedule = source.schedule
    settings = schedule.num_warps, schedule.num_stages, schedule.fp_fusion
    divisible = tuple(sorted(source.divisible))
    part = Part(source.name, source.text, source.signature, source.constants, divisible, *settings)
    text = "\n".join(part.functions().values())
    is_attention = "tl.dot" in text and any(name == "R_BLOCK" for name, _ in source.constants)
    return None if is_attention or "tl.program_id" in text or "num_programs" in text else part
