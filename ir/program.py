"""The program IR: steps over planned buffers, in order.

    program = Program(name, inputs, outputs, parameters, steps, prepare, sizes, constants, code, ...)
    step    = Launch(symbol, arguments, count, grain, kind, layers)     a call of a compiled kernel
            | Copy(target, source, nbytes)
    groups: how many consecutive steps run together
    argument: a Place, or an int (extent, stride, scalar bits)
    place   = Place(space, index, offset)     INPUT i | OUTPUT i | ARENA | PREPARED | CONSTANT; the offset is in bytes

`prepare` holds the launches that depend only on parameters (folded batch norms, packed weights). They fill the PREPARED
space, and run again only after a parameter changed. `program_rewrite.py` derives programs from programs. Ahead-of-time
compilation writes a program as a manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from .graph import Check, RandomKey
from .lazy_dataclass import dataclass
from .types import TensorType


class Space(Enum):
    """The memory that holds a place: a tensor of the caller, or a block that the program owns."""

    INPUT = "input"
    OUTPUT = "output"
    ARENA = "arena"
    PREPARED = "prepared"
    CONSTANT = "constant"

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Place:
    """`index` is the position of an INPUT or OUTPUT and 0 elsewhere; `offset` counts bytes."""

    space: Space
    index: int = 0
    offset: int = 0


LAYOUT, PACK, CHAIN = "layout", "pack", "chain"


@dataclass(frozen=True, slots=True)
class Launch:
    """One call of a kernel over [0, count) of its parallel axis, in chunks of at least `grain` iterations.

    `kind` is the kind of the region that the kernel computes, or the mnemonic of the primitive; LAYOUT for a kernel
    that only changes layouts, PACK for one that packs an operand, CHAIN for several kernels in blocks of rows. `layers`
    are positions in the program's `names`.
    `fallback` is the reason why a contraction runs as plain loops, "" for any other kernel.
    """

    symbol: str
    arguments: tuple[Place | int, ...]
    count: int
    grain: int
    kind: str = ""
    layers: tuple[int, ...] = ()
    fallback: str = ""


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of `nbytes` bytes from `source` to `target`: an output that no launch computes, an input that the program
    replaces, or the arena. The ranges do not overlap.
    """

    target: Place
    source: Place
    nbytes: int


Step = Launch | Copy


def places_of(step: Step) -> list[Place]:
    """The places that a step reads or writes."""
    if isinstance(step, Copy):
        return [step.target, step.source]
    return [a for a in step.arguments if isinstance(a, Place)]


@dataclass(frozen=True, eq=False)
class HostFunction:
    """A Python function that launches call by `symbol`, with the addresses of its operands and then of its results.

    It takes copies of the operands and returns arrays of the results' types; BF16 tensors are float32 arrays. What it
    writes to the copies at the positions `writes` is written to the operands. A program with host functions exists only
    in its process.
    """

    symbol: str
    function: Callable[..., Sequence[np.ndarray[Any, Any]]]
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    label: str = ""
    writes: tuple[int, ...] = ()


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
    prepare: tuple[Launch, ...]
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
    def results(self) -> tuple[TensorType, ...]:
        """The types of the outputs that callers see."""
        return self.outputs[: len(self.outputs) - len(self.checks)]

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The launches of `steps`, in order."""
        return tuple([step for step in self.steps if isinstance(step, Launch)])

    @property
    def copies(self) -> tuple[Copy, ...]:
        """The copies of `steps`, in order."""
        return tuple([step for step in self.steps if isinstance(step, Copy)])

    def grouped(self) -> list[tuple[Step, ...]]:
        """The steps by group."""
        ends = list(accumulate(self.groups)) or range(1, len(self.steps) + 1)
        return [self.steps[start:end] for start, end in pairwise((0, *ends))]

    def renamed(self, name: str, names: Sequence[str]) -> Program:
        """This program for an equal graph that has the name `name` and the layer names `names`."""
        return replace(self, name=name, names=(*names, *self.names[len(names) :]))

    def fallbacks(self) -> list[tuple[str, str]]:
        """(label, reason) of each contraction launch that runs as plain loops."""
        return [(self.label(x), x.fallback) for x in (*self.prepare, *self.launches) if x.fallback]

    def label(self, launch: Launch) -> str:
        """The layers that a launch computes, or `conv0 (layout)`, `conv0 (pack)` if it only moves their data.

        A launch without named layers gets the program's name.
        """
        layers = " + ".join(self.names[i] for i in launch.layers) or self.name
        return f"{layers} ({launch.kind})" if launch.kind in (LAYOUT, PACK) else layers
