"""What the launches of a program do with the places of their arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress

from ..ir.graph import Value
from ..ir.places import Access, Place, reading, writing
from ..ir.symbolic import is_symbolic
from ..passes.plan_memory import Sharing
from .compiler import Step
from .emission import LaunchSpec, Packing


class Accesses:
    """The accesses of steps in the order of the program.

    A launch that writes memory after another one can keep a part of it, so it reads it too: launches after the first
    one of a kernel, and kernels that compute parts of a result.
    """

    def __init__(self, sharing: Sharing) -> None:
        self.sharing = sharing
        self._written: set[Value] = set()  # values in whose memory a step wrote

    def of(self, step: Step, packings: Mapping[int, Packing]) -> list[Access]:
        """The accesses of a step's first launch to its operands, and to its workspace if it has one. `packings` are the
        packed forms that it reads, by the position of the operand."""
        results = {v for node in step.nodes for v in node.outputs}
        writes = [self.sharing.whole(v) in results for v in step.operands]
        accesses = [
            reading(packings[position].nbytes) if position in packings else self._access(value, written)
            for position, (value, written) in enumerate(zip(step.operands, writes, strict=True))
        ]
        self._written.update(self.sharing.resolve(v).base for v in compress(step.operands, writes))
        return [*accesses, writing(step.emission.workspace)] if step.emission.workspace else accesses

    def packing(self, value: Value, packing: Packing) -> tuple[Access, ...]:
        """The accesses of a launch that packs a value."""
        return self._access(value, False), writing(packing.nbytes)

    def _access(self, value: Value, writes: bool) -> Access:
        nbytes, has_gaps = self._span(value)
        reads = not writes or has_gaps or self.sharing.resolve(value).base in self._written
        return Access(nbytes, reads, writes)

    def _span(self, value: Value) -> tuple[int, bool]:
        """The bytes from the first to the last element of a value, and whether some of them belong to other values. If
        extents are symbolic, the bytes reach to the end of the value which contains it."""
        view, type = self.sharing.resolve(value), value.type
        if view.strides is None:
            return type.nbytes, False
        shape = type.shape if type.layout is None else type.layout.physical_shape(type.shape)
        if any(map(is_symbolic, (*shape, *view.strides, view.offset))):
            return view.base.type.nbytes - view.offset * type.dtype.itemsize, True
        last = sum((n - 1) * stride for n, stride in zip(shape, view.strides, strict=True))
        elements = last + 1 if type.physical_size else 0
        return elements * type.dtype.itemsize, elements != type.physical_size


def after_first(accesses: Sequence[Access]) -> tuple[Access, ...]:
    """The accesses of a kernel's launches after the first one."""
    return tuple([replace(access, reads=True) for access in accesses])


def taken(
    spec: LaunchSpec, arguments: Sequence[Place | int], accesses: tuple[Access, ...]
) -> tuple[tuple[Place | int, ...], tuple[Access, ...]]:
    """The arguments of an emission that a launch takes, and its accesses to those that are places."""
    if spec.taken is None:
        return tuple(arguments), accesses
    known = dict(zip([i for i, a in enumerate(arguments) if isinstance(a, Place)], accesses, strict=True))
    places = [(i, offset) for i, offset in spec.taken if i in known]
    return (
        tuple([a.at(offset) if isinstance(a := arguments[i], Place) else a for i, offset in spec.taken]),
        tuple([replace(known[i], nbytes=known[i].nbytes - offset) for i, offset in places]),
    )
