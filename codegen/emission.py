"""The result of emitting one kernel: symbols to launch, memory that they use, and packed forms of the operands."""

from __future__ import annotations

from typing import Protocol

from ..ir.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """A function of the program's code and its parallel extent: [0, count), in chunks of at least `grain`.

    On a CPU the function is `void(ptr arguments, i64 begin, i64 end, i32 worker)`, see runtime/host/threads.py. On a
    GPU `count` is the size of the one-dimensional grid, and a chunk is one of its programs. `kind` is set if it differs
    from the kind of the kernel; see `Launch`. `numbers` are more arguments of this launch, after the workspace.
    `taken` are the arguments before them that the launch takes: pairs of a position in the emission's arguments and a
    number of bytes that is added to the address; None for all, in order.
    """

    symbol: str
    count: int
    grain: int
    kind: str = ""
    numbers: tuple[int, ...] = ()
    taken: tuple[tuple[int, int], ...] | None = None


class Packing(Protocol):
    """A form in which an operand is stored for speed, computed once for parameters and on every run for other values.

    Implementations are frozen and compare by value. The emitter that returned a packing also emits its kernel, whose
    arguments are (source, packed).
    """

    @property
    def nbytes(self) -> int:
        """Bytes of the packed operand; its memory is zeroed before the first packing."""
        ...


@dataclass(frozen=True, slots=True)
class Emission:
    """The launches of one kernel, in order. The arguments of each are the kernel's buffers, then `extents`, then the
    workspace if there is one.

    `workspace` is in bytes, for the whole kernel (an emitter that needs one per worker multiplies by the target's
    threads).
    `packings` pairs positions of buffers with the form in which the kernel reads them. These are positions because
    equal kernels, whose buffers can have different names, share an emission.
    `cleared` are the positions of buffers with halos, of any content before, which the first launches zero.
    `fallback` is the reason why a contraction runs as plain loops.
    `saves_products`: the launches do fewer multiply-adds than the definition of their contraction.
    `operands` are the positions of the buffers that the launches take; None for all, in order. A buffer can occur more
    than once.
    """

    launches: tuple[LaunchSpec, ...]
    workspace: int = 0
    packings: tuple[tuple[int, Packing], ...] = ()
    fallback: str = ""
    saves_products: bool = False
    operands: tuple[int, ...] | None = None
    extents: tuple[int, ...] = ()
    cleared: tuple[int, ...] = ()
