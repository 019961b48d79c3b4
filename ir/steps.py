"""The steps of a program.

A kind of step is declared once, here: a dataclass whose fields have types of `step_fields.py`, with the accesses to its
places. What visits all steps (moves, text, bytes, checks, graphs) works on fields and accesses. What runs steps knows
their kinds: `codegen/records.py` for the thread pool, `runtime/launched_program.py` for other devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from .lazy_dataclass import dataclass
from .places import Access, Place, reading, writing
from .step_fields import Layers, fields_of
from .types import DType

LAYOUT, PACK, CHAIN, JOINED = "layout", "pack", "chain", "joined"

UNBOUNDED = 1 << 62
"""The count of a loop that only its flag ends."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One call of a kernel over [0, count) of its parallel axis, in chunks of at least `grain` iterations.

    `accesses` are those of the whole launch to each place of the arguments; none if they are not known. `kind` is the
    kind of the region that the kernel computes, or the mnemonic of the primitive; LAYOUT for a kernel that only changes
    layouts, PACK for one that packs an operand, CHAIN for several kernels in blocks of rows, JOINED for kernels of
    several kinds that do not depend on each other. `layers` are positions in the program's `names`.
    `fallback` is the reason why a contraction runs as plain loops, "" for any other kernel.
    """

    symbol: str
    arguments: tuple[Place | int, ...]
    count: int
    grain: int
    kind: str = ""
    layers: Layers = ()
    fallback: str = ""
    accesses: tuple[Access, ...] = ()


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of `nbytes` bytes from `source` to `target`: an output that no launch computes, an input that the program
    replaces, or the arena. The ranges do not overlap.
    """

    target: Place
    source: Place
    nbytes: int

    @property
    def accesses(self) -> tuple[Access, ...]:
        """See `Launch`."""
        return writing(self.nbytes), reading(self.nbytes)


@dataclass(frozen=True, slots=True)
class Fill:
    """Writes zeros to `nbytes` bytes from `target` on."""

    target: Place
    nbytes: int

    @property
    def accesses(self) -> tuple[Access, ...]:
        """See `Launch`."""
        return (writing(self.nbytes),)


@dataclass(frozen=True, slots=True)
class HostCall:
    """A call of the Python function at position `function` of `Program.functions`. `arguments` are the places of its
    operands and then of its results. `fallback` is the reason why the target computes a primitive in this way, "" for a
    user's function. Its accesses are those of the function.
    """

    symbol, count, grain = "host_call", 1, 1  # for reports, which list it among launches
    function: int
    arguments: tuple[Place, ...]
    kind: str = ""
    layers: Layers = ()
    fallback: str = ""


@dataclass(frozen=True, slots=True)
class Loop:
    """Runs `body` `count` times, and not again when the byte at `flag` is 0 before an iteration."""

    symbol, grain, fallback = "loop", 1, ""
    body: Steps
    count: int
    flag: Place | None = None
    kind: str = ""
    layers: Layers = ()

    @property
    def accesses(self) -> tuple[Access, ...]:
        """See `Launch`."""
        return () if self.flag is None else (reading(1),)


@dataclass(frozen=True, slots=True)
class Branch:
    """Runs `then` if the byte at `flag` is not 0, else `otherwise`."""

    symbol, count, grain, fallback = "branch", 1, 1, ""
    flag: Place
    then: Steps
    otherwise: Steps
    kind: str = ""
    layers: Layers = ()

    @property
    def accesses(self) -> tuple[Access, ...]:
        """See `Launch`."""
        return (reading(1),)


@dataclass(frozen=True, slots=True)
class Collective:
    """Combines `count` values at `source` with those of the other members of a group, and writes the result to
    `target`, which can be the same place. All members take their collectives in the same order.

    `operation` is one of `REDUCTIONS`, and `dtype` the value of a `DType`. Members are combined in the order of their
    ranks, so all get the same bits.
    """

    symbol, grain, fallback = "collective", 1, ""
    operation: str
    dtype: str
    target: Place
    source: Place
    count: int
    kind: str = "all_reduce"
    layers: Layers = ()

    def __post_init__(self) -> None:
        if self.operation not in REDUCTIONS:
            raise ValueError(f"a collective has the unknown operation {self.operation!r}")
        DType(self.dtype)

    @property
    def accesses(self) -> tuple[Access, ...]:
        """See `Launch`."""
        nbytes = self.count * DType(self.dtype).itemsize
        return writing(nbytes), reading(nbytes)


REDUCTIONS = ("sum", "mean", "max", "min")
"""The operations of collectives."""

Computation = Launch | HostCall | Loop | Branch | Collective
"""A step that computes; the others move data."""

Step = Computation | Copy | Fill
Steps = tuple[Step, ...]
KINDS = {
    "launch": Launch,
    "copy": Copy,
    "fill": Fill,
    "host_call": HostCall,
    "loop": Loop,
    "branch": Branch,
    "collective": Collective,
}
MNEMONICS = {kind: mnemonic for mnemonic, kind in KINDS.items()}
"""The names that files and texts have for the kinds of steps."""


def own_places(step: Step) -> list[Place]:
    """The places that a step reads or writes itself, in the order of its accesses."""
    return [place for name, type in fields_of(step.__class__).places for place in type.places(getattr(step, name))]


def nested_steps(step: Step) -> list[Steps]:
    """The lists of steps in a step."""
    return [getattr(step, name) for name in fields_of(step.__class__).steps]


def walk(steps: Iterable[Step], counts: tuple[int, ...] = ()) -> Iterator[tuple[Step, tuple[int, ...]]]:
    """The steps, each before those in it, with the counts of the loops around them, the outermost first."""
    for step in steps:
        yield step, counts
        nested = nested_steps(step)
        if nested:
            inside = (*counts, step.count) if isinstance(step, Loop) else counts
            for inner in nested:
                yield from walk(inner, inside)


def all_steps(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps, each before those in it."""
    return (step for step, _ in walk(steps))


def places_of(step: Step) -> list[Place]:
    """The places that a step, or a step in it, reads or writes."""
    return [place for inner in all_steps((step,)) for place in own_places(inner)]


def map_nested(step: Step, change: Callable[[Steps], Steps]) -> Step:
    """The step with other lists of steps in it."""
    lists = {name: change(getattr(step, name)) for name in fields_of(step.__class__).steps}
    return replace(step, **lists) if lists else step
