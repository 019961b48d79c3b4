"""The program IR: steps over planned buffers, in order.

    program = Program(name, inputs, outputs, parameters, steps, prepare, sizes, constants, code, ...)
    step    = Launch(symbol, arguments, count, grain, kind, layers)     a call of a compiled kernel
            | Copy(target, source, nbytes)
            | Fill(target, nbytes)                                      writes zeros
            | HostCall(function, arguments, kind, layers)               a call of a Python function
            | Loop(body, count, flag, kind, layers)                     runs steps several times
            | Branch(flag, then, otherwise, kind, layers)               runs steps or others
    groups: how many consecutive steps run together
    argument: a Place, or an int (extent, stride, scalar bits)
    place   = Place(space, index, offset)     INPUT i | OUTPUT i | ARENA | PREPARED | CONSTANT; the offset is in bytes

`prepare` holds the steps that depend only on parameters (folded batch norms, packed weights). They fill the PREPARED
space, and run again only after a parameter changed. `program_rewrite.py` derives programs from programs. Ahead-of-time
compilation writes a program as a manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from .graph import Check, Op, RandomKey
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
    """`index` is the position of an INPUT or OUTPUT and 0 elsewhere; `offset` counts bytes.

    Inside of loops, `strides` are the bytes by which the place moves from one iteration to the next, by loop, the
    outermost first; 0 for further loops.
    """

    space: Space
    index: int = 0
    offset: int = 0
    strides: tuple[int, ...] = ()

    def at(self, offset: int) -> Place:
        """The place `offset` bytes after this one."""
        return replace(self, offset=self.offset + offset)

    def reach(self, counts: Sequence[int]) -> tuple[int, int]:
        """The least and the largest offset of this place in loops with so many iterations, the outermost first."""
        ways = [stride * max(count - 1, 0) for stride, count in zip(self.strides, counts, strict=False)]
        return self.offset + sum(min(n, 0) for n in ways), self.offset + sum(max(n, 0) for n in ways)

    def behind(self, start: Place) -> Place:
        """This place of an operand or a block of memory that begins at `start`, which does not move."""
        return Place(start.space, start.index, start.offset + self.offset, self.strides)


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


@dataclass(frozen=True, slots=True)
class Fill:
    """Writes zeros to `nbytes` bytes from `target` on."""

    target: Place
    nbytes: int


@dataclass(frozen=True, slots=True)
class HostCall:
    """A call of the Python function at position `function` of `Program.functions`. `arguments` are the places of its
    operands and then of its results. `fallback` is the reason why the target computes a primitive in this way, "" for a
    user's function."""

    symbol, count, grain = "host_call", 1, 1  # for reports, which list it among launches
    function: int
    arguments: tuple[Place, ...]
    kind: str = ""
    layers: tuple[int, ...] = ()
    fallback: str = ""


UNBOUNDED = 1 << 62
"""The count of a loop that only its flag ends."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Runs `body` `count` times, and not again when the byte at `flag` is 0 before an iteration."""

    symbol, grain, fallback = "loop", 1, ""
    body: tuple[Step, ...]
    count: int
    flag: Place | None = None
    kind: str = ""
    layers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """Runs `then` if the byte at `flag` is not 0, else `otherwise`."""

    symbol, count, grain, fallback = "branch", 1, 1, ""
    flag: Place
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]
    kind: str = ""
    layers: tuple[int, ...] = ()


Computation = Launch | HostCall | Loop | Branch
"""A step that computes; the others move data."""

Step = Computation | Copy | Fill


def nested_steps(step: Step) -> tuple[tuple[Step, ...], ...]:
    """The lists of steps in a step."""
    match step:
        case Loop():
            return (step.body,)
        case Branch():
            return step.then, step.otherwise
        case _:
            return ()


def own_places(step: Step) -> list[Place]:
    """The places that a step reads or writes itself."""
    match step:
        case Launch() | HostCall():
            return [a for a in step.arguments if isinstance(a, Place)]
        case Copy():
            return [step.target, step.source]
        case Fill():
            return [step.target]
        case Loop():
            return [] if step.flag is None else [step.flag]
        case Branch():
            return [step.flag]


def walk(steps: Iterable[Step], counts: tuple[int, ...] = ()) -> Iterator[tuple[Step, tuple[int, ...]]]:
    """The steps, each before those in it, with the counts of the loops around them, the outermost first."""
    for step in steps:
        yield step, counts
        inside = (*counts, step.count) if isinstance(step, Loop) else counts
        for inner in nested_steps(step):
            yield from walk(inner, inside)


def all_steps(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps, each before those in it."""
    return (step for step, _ in walk(steps))


def places_of(step: Step) -> list[Place]:
    """The places that a step, or a step in it, reads or writes."""
    return [place for inner in all_steps((step,)) for place in own_places(inner)]


@dataclass(frozen=True, eq=False)
class HostFunction:
    """A Python function, which host calls name by its position.

    It takes copies of the operands and returns arrays of the results' types; BF16 tensors are float32 arrays. What it
    writes to the copies at the positions `writes` is written to the operands. `op` is the primitive that the function
    computes; None for a user's function, with which a program exists only in its process.
    """

    function: Callable[..., Sequence[np.ndarray[Any, Any]]]
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    label: str = ""
    writes: tuple[int, ...] = ()
    op: Op | None = None


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
