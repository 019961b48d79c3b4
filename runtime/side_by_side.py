"""Combines programs that are independent of each other into one program, which runs as one native call.

Launch k of all programs is a group: its launches run at the same time. Copies that a program does after its launches
become launches of the combination. It has the code of its programs and compiles nothing. The updates of all weights of
a network are such a program (`frontend/optimizer/fused.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from itertools import zip_longest

from ..codegen.llvm.shared import DYNAMIC, LOOPS, PRODUCTS
from ..codegen.llvm.support import COPY
from ..ir.lazy_dataclass import dataclass
from ..ir.program import Launch, Place, Program, Space
from ..ir.types import TensorType

_ALIGNMENT = 64
_COPIED = 64 << 10  # the least bytes of a copy that one thread copies


@dataclass(frozen=True)
class Use:
    """One program of a combination, which only replaces state: it has no outputs. `inputs` are the positions of its
    inputs among the inputs of the combination; programs can share inputs that none of them replaces."""

    program: Program
    inputs: tuple[int, ...]


def side_by_side(name: str, inputs: Sequence[TensorType], uses: Sequence[Use]) -> Program:
    """The program that runs these programs at the same time, on `inputs`. Random keys are inputs like all others: each
    program needs one of its own.

    ValueError for programs with outputs, with launches that prepare or call Python, or with code for fixed shapes,
    whose symbols are not unique.
    """
    made = _Combination()
    for use in uses:
        made.add(use)
    stages = [[x for x in stage if x is not None] for stage in zip_longest(*made.launches)]
    return Program(
        name=name,
        inputs=tuple(inputs),
        outputs=(),
        parameters=frozenset(),
        launches=tuple(launch for stage in stages for launch in stage),
        prepare=(),
        copies=(),
        arena_bytes=made.arena,
        prepared_bytes=0,
        constants=bytes(made.constants),
        code=tuple(made.code),
        state=tuple(dict.fromkeys(made.state)),
        names=tuple(made.names),
        groups=tuple(map(len, stages)),
    )


@dataclass
class _Combination:
    """What the programs that were added have in common. Each gets a part of the arena; equal constants are stored
    once."""

    launches: list[list[Launch]] = field(default_factory=list[list[Launch]])
    state: list[int] = field(default_factory=list[int])
    code: dict[bytes, None] = field(default_factory=dict[bytes, None])
    names: dict[str, int] = field(default_factory=dict[str, int])
    constants: bytearray = field(default_factory=bytearray)
    arena: int = 0
    _starts: dict[bytes, int] = field(default_factory=dict[bytes, int])  # of constants

    def add(self, use: Use) -> None:
        program = use.program
        reason = why_alone(program)
        if reason:
            raise ValueError(f"{program.name} {reason}")
        starts = {Space.ARENA: self.arena, Space.CONSTANT: self._constants(program.constants)}
        layers = [self.names.setdefault(name, len(self.names)) for name in program.names]

        def move(place: Place) -> Place:
            if place.space is Space.INPUT:
                return replace(place, index=use.inputs[place.index])
            return replace(place, offset=starts[place.space] + place.offset)

        copies = [Launch(COPY, (c.target, c.source), c.nbytes, _COPIED) for c in program.copies]
        self.launches.append(
            [
                replace(
                    launch,
                    arguments=tuple(a if isinstance(a, int) else move(a) for a in launch.arguments),
                    layers=tuple(layers[i] for i in launch.layers),
                )
                for launch in (*program.launches, *copies)
            ]
        )
        self.state += [use.inputs[i] for i in program.state]
        self.code.update(dict.fromkeys(program.code))
        self.arena += _rounded(program.arena_bytes)

    def _constants(self, content: bytes) -> int:
        start = self._starts.setdefault(content, len(self.constants))
        if start == len(self.constants):
            self.constants += content.ljust(_rounded(len(content)), b"\0")
        return start


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def why_alone(program: Program) -> str:
    """Why a program cannot be part of a combination; "" if it can."""
    if program.outputs or program.prepare or program.functions:
        return "has outputs, launches that prepare, or Python functions"
    fixed = [x.symbol for x in program.launches if not x.symbol.startswith((LOOPS, PRODUCTS, DYNAMIC))]
    return f"has code for fixed shapes: {fixed[0]}" if fixed else ""
