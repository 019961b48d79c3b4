"""The program IR: steps over planned buffers, in order.

    program = Program(name, inputs, outputs, parameters, steps, prepare, sizes, constants, code, ...)
    step    = Launch(symbol, arguments, count, grain, ...)     a call of a compiled kernel
            | Copy(target, source, nbytes)
            | Fill(target, nbytes)                             writes zeros
            | HostCall(function, arguments, ...)               a call of a Python function
            | Loop(body, count, flag, ...)                     runs steps several times
            | Branch(flag, then, otherwise, ...)               runs steps or others
            | Collective(operation, dtype, target, ...)        combines the values of a group's members
    groups: how many consecutive steps run together
    argument: a Place, or an int (extent, stride, scalar bits)
    place   = Place(space, index, offset)     INPUT i | OUTPUT i | ARENA | PREPARED | CONSTANT; the offset is in bytes

`steps.py` declares the kinds of steps, `places.py` places and what steps do with them.

`prepare` holds the steps that depend only on parameters (folded batch norms, packed weights). They fill the PREPARED
space, and run again only after a parameter changed. `program_rewrite.py` derives programs from programs. Ahead-of-time
compilation writes a program as a manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from .graph import Check, Op, RandomKey
from .lazy_dataclass import dataclass
from .places import Access, Place, Space, writing
from .steps import (
    CHAIN,
    JOINED,
    LAYOUT,
    PACK,
    UNBOUNDED,
    Branch,
    Computation,
    Copy,
    Fill,
    HostCall,
    Launch,
    Loop,
    Step,
    all_steps,
    nested_steps,
    own_places,
    places_of,
    walk,
)
from .types import TensorType

__all__ = [
    "CHAIN",
    "JOINED",
    "LAYOUT",
    "PACK",
    "UNBOUNDED",
    "Access",
    "Branch",
    "Computation",
    "Copy",
    "Fill",
    "HostCall",
    "HostFunction",
    "Launch",
    "Loop",
    "Place",
    "Program",
    "Space",
    "Step",
    "all_steps",
    "nested_steps",
    "own_places",
    "places_of",
    "walk",
]


@dataclass(frozen=True, eq=False)
class HostFunction:
    """A Python function, which host calls name by its position.

    It takes copies of the operands and returns arrays of the results' types; BF16 tensors are float32 arrays. What it
    writes to the copies at the positions `writes` is written to the operands. It is what the primitive `op` computes,
    or a user's `function`, with which a program exists only in its process; the other is None.
    """

    function: Callable[..., Sequence[np.ndarray[Any, Any]]] | None
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    label: str = ""
    writes: tuple[int, ...] = ()
    op: Op | None = None

    def __call__(self, *operands: np.ndarray[Any, Any]) -> Sequence[np.ndarray[Any, Any]]:
        """The results for these operands."""
        function: Any = self.function if self.op is None else getattr(self.op, "evaluate")  # noqa: B009  (a primitive)
        return function(*operands)

    @property
    def accesses(self) -> tuple[Access, ...]:
        """What a call does with each operand and each result."""
        operands = [Access(t.nbytes, reads=True, writes=i in self.writes) for i, t in enumerate(self.inputs)]
        return (*operands, *(writing(t.nbytes) for t in self.outputs))


@dataclass(frozen=True, eq=False)
class Program:
    """The unit that the runtime executes. `code` holds the object files that define the launches' symbols.

    `state` lists the inputs that a run replaces; steps write their new values in place. `random` is the
    input that takes the run's random key. Element i of an input in `elementwise` is read only to compute element i of
    results, so an output can overwrite the input; see `Executable.may_overwrite`.

    The last outputs are those of `checks`: bytes that are 1 if the condition holds. The runtime passes memory for them
    and reads it after a run.

    `groups` divides `steps`: each number is the length of a group of consecutive steps that are independent of each
    other, so they can run at the same time. Empty: every step is a group of its own.

    `arena_bytes` and `prepared_bytes` are the sizes of the program's own memory. Both are zeroed once, when they are
    allocated (halos and channel padding stay zero). The first `scratch_bytes` of the arena hold nothing between runs:
    programs that run one after another can share them. `constants` is the content of the CONSTANT space.

    `name` is the graph's name, and `names` are the names of its layers. Equal graphs with other names share all other
    fields.
    """

    name: str
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    parameters: frozenset[int]
    steps: tuple[Step, ...]
    prepare: tuple[Step, ...]
    arena_bytes: int
    prepared_bytes: int
    constants: bytes
    code: tuple[bytes, ...]
    functions: tuple[HostFunction, ...] = ()
    state: tuple[int, ...] = ()
    random: RandomKey | None = None
    elementwise: frozenset[int] = frozenset()
    names: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()
    checks: tuple[Check, ...] = ()
    scratch_bytes: int = 0

    @property
    def calls_python(self) -> bool:
        """True if it calls users' functions."""
        return any(f.op is None for f in self.functions)

    @property
    def results(self) -> tuple[TensorType, ...]:
        """The types of the outputs that callers see."""
        return self.outputs[: len(self.outputs) - len(self.checks)]

    @property
    def computations(self) -> tuple[Computation, ...]:
        """The steps of `steps` that compute, in order."""
        return tuple([step for step in self.steps if isinstance(step, Computation)])

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The launches of `steps`, in order, without those in loops and branches."""
        return tuple([step for step in self.steps if isinstance(step, Launch)])

    @property
    def copies(self) -> tuple[Copy, ...]:
        """The copies of `steps`, in order."""
        return tuple([step for step in self.steps if isinstance(step, Copy)])

    def extent(self, place: Place) -> int:
        """The bytes of the block of memory that contains a place."""
        match place.space:
            case Space.INPUT:
                return self.inputs[place.index].nbytes
            case Space.OUTPUT:
                return self.outputs[place.index].nbytes
            case Space.ARENA:
                return self.arena_bytes
            case Space.PREPARED:
                return self.prepared_bytes
            case Space.CONSTANT:
                return len(self.constants)

    def accesses(self, step: Step) -> tuple[Access, ...]:
        """What a step does with each of `own_places`; () if that is not known."""
        return self.functions[step.function].accesses if isinstance(step, HostCall) else step.accesses

    def grouped(self) -> list[tuple[Step, ...]]:
        """The steps by group."""
        ends = list(accumulate(self.groups)) or range(1, len(self.steps) + 1)
        return [self.steps[start:end] for start, end in pairwise((0, *ends))]

    def renamed(self, name: str, names: Sequence[str]) -> Program:
        """This program for an equal graph that has the name `name` and the layer names `names`."""
        return replace(self, name=name, names=(*names, *self.names[len(names) :]))

    def fallbacks(self) -> list[tuple[str, str]]:
        """(label, reason) of each contraction that runs as plain loops, and each primitive that the host computes."""
        steps = all_steps((*self.prepare, *self.steps))
        return [(self.label(x), x.fallback) for x in steps if isinstance(x, Launch | HostCall) and x.fallback]

    def label(self, launch: Computation) -> str:
        """The layers that a launch computes, or `conv0 (layout)`, `conv0 (pack)` if it only moves their data.

        A launch without named layers gets the program's name.
        """
        layers = " + ".join(self.names[i] for i in launch.layers) or self.name
        return f"{layers} ({launch.kind})" if launch.kind in (LAYOUT, PACK) else layers
