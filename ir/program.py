"""The program IR: launches of compiled kernels over planned buffers, in order.

    program = Program(name, inputs, outputs, parameters, launches, prepare, copies, sizes, constants, code, ...)
    launch  = Launch(symbol, arguments, count, grain, kind, layers)
    argument: a Place, or an int (extent, stride, scalar bits)
    place   = Place(space, index, offset)                 INPUT i | OUTPUT i | ARENA | PREPARED | CONSTANT, offset in
    bytes

`prepare` holds the launches that depend on parameters alone (folded batch norms, packed weights): they run again only
when a parameter changed, and fill the PREPARED space. The runtime executes `launches` in one native call, then
`copies` in order; ahead-of-time compilation writes the program as a manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from .graph import RandomKey
from .types import TensorType


class Space(Enum):
    """Where a place stands: a caller's tensor, or one of the program's own blocks of memory."""

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


LAYOUT, PACK = "layout", "pack"


@dataclass(frozen=True, slots=True)
class Launch:
    """One call of a kernel over [0, count) of its parallel axis, in chunks of at least `grain`.

    `kind` is the kind of the region that the kernel computes, or the mnemonic of the primitive; LAYOUT for a kernel
    that only changes layouts, PACK for one that packs an operand. `layers` are positions in the program's `names`.
    `fallback`: why a contraction runs as plain loops, "" for any other kernel.
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
    """`nbytes` bytes that the runtime copies from `source` to `target` after the launches.

    The target is an output that no launch computes, an input that the program replaces, or the arena. The two do not
    overlap.
    """

    target: Place
    source: Place
    nbytes: int


@dataclass(frozen=True, eq=False)
class HostFunction:
    """A Python function that launches call by `symbol`, with the addresses of its operands and then of its results.

    It takes arrays of the operands' types and gives arrays of the results'; BF16 tensors are float32 arrays. A program
    that has one lives in its process alone.
    """

    symbol: str
    function: Callable[..., Sequence[np.ndarray[Any, Any]]]
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    label: str = ""


@dataclass(frozen=True, eq=False)
class Program:
    """What the runtime executes. `code` holds the object files that define the launches' symbols.

    `state` lists the inputs that a run replaces; launches and copies write their new values in place. `random` names
    the input that takes the run's random key. Each element of the inputs `elementwise` is read only to compute results
    at the same place, so that an output may overwrite them; see `Executable.may_overwrite`.

    `arena_bytes` and `prepared_bytes` are the sizes of the program's own memory, both zeroed once when they are
    allocated (halos and channel padding stay zero); `constants` is the content of the CONSTANT space.

    `name` and `names` (those of the layers) are the graph's; equal graphs with other names share all else.
    """

    name: str
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    parameters: frozenset[int]
    launches: tuple[Launch, ...]
    prepare: tuple[Launch, ...]
    copies: tuple[Copy, ...]
    arena_bytes: int
    prepared_bytes: int
    constants: bytes
    code: tuple[bytes, ...]
    functions: tuple[HostFunction, ...] = ()
    state: tuple[int, ...] = ()
    random: RandomKey | None = None
    elementwise: frozenset[int] = frozenset()
    names: tuple[str, ...] = ()

    def renamed(self, name: str, names: Sequence[str]) -> Program:
        """This program for an equal graph, with the name and the names of that graph."""
        return replace(self, name=name, names=(*names, *self.names[len(names) :]))

    def fallbacks(self) -> list[tuple[str, str]]:
        """Label and reason of each launch of a contraction that runs as plain loops."""
        return [(self.label(x), x.fallback) for x in (*self.prepare, *self.launches) if x.fallback]

    def label(self, launch: Launch) -> str:
        """The layers that a launch computes, `conv0 (layout)` or `conv0 (pack)` if it only moves their data. A layer
        without a name has that of the program."""
        layers = " + ".join(self.names[i] for i in launch.layers) or self.name
        return f"{layers} ({launch.kind})" if launch.kind in (LAYOUT, PACK) else layers
