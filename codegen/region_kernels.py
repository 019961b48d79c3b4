"""Lowers regions to kernels, each structure once: layers and steps of one kind have equal regions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import NamedTuple

from ..ir.dialects.core import Fused
from ..ir.graph import Graph
from ..ir.kernel import Kernel
from ..ir.symbolic import without_guards
from ..ir.types import TensorType
from .lower import Strides, lower_concat, lower_region
from .lower_contract import separate_operands
from .narrow_buffers import Part, narrow_buffers
from .subpixel import subpixel_kernels


class RegionKernel(NamedTuple):
    """A kernel, for each of its buffers the position among the inputs and results of the region, and the part of that
    value if the kernel does not take all of it."""

    kernel: Kernel
    positions: tuple[int, ...]
    parts: tuple[Part | None, ...]


class RegionKernels:
    """The kernels of the regions of one graph. Equal regions have the same Kernel objects, which stay alive, so
    what is known of a kernel can be found by its identity. So have regions of different pieces of a value."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[RegionKernel, ...]] = {}
        self._narrowed: dict[Kernel, Kernel] = {}

    def of_region(self, op: Fused, strides: tuple[Strides, ...]) -> tuple[RegionKernel, ...]:
        """The kernels of a region, whose inputs and results have these strides."""

        def lower() -> Iterator[tuple[Kernel, tuple[int, ...]]]:
            return map(separate_operands, subpixel_kernels(lower_region(op, strides=strides)))

        return self._get((_structure(op.body), op.kind, strides), lower)

    def of_piece(
        self, piece: TensorType, whole: TensorType, axis: int, begin: int, strides: tuple[Strides, ...]
    ) -> RegionKernel:
        """The kernel that copies a piece of a concatenation; see `lower_concat`."""

        def lower() -> Iterator[tuple[Kernel, tuple[int, ...]]]:
            yield lower_concat(piece, whole, axis, begin, "kernel", strides), (0, 1)

        (kernel,) = self._get((piece, whole, axis, begin, strides), lower)
        return kernel

    def _get(
        self, key: Hashable, lower: Callable[[], Iterable[tuple[Kernel, tuple[int, ...]]]]
    ) -> tuple[RegionKernel, ...]:
        with without_guards():
            known = self._known.get(key)
        if known is None:
            known = tuple([self._narrow(kernel, positions) for kernel, positions in lower()])
            with without_guards():
                self._known[key] = known
        return known

    def _narrow(self, kernel: Kernel, positions: tuple[int, ...]) -> RegionKernel:
        narrowed, parts = narrow_buffers(kernel)
        if narrowed is not kernel:
            with without_guards():
                narrowed = self._narrowed.setdefault(narrowed, narrowed)
        return RegionKernel(narrowed, positions, parts)


def _structure(body: Graph) -> Hashable:
    """A key that is equal for bodies of the same ops and types, whatever their values and nodes are called."""
    numbers = {v: i for i, v in enumerate(body.inputs)}
    nodes: list[Hashable] = []
    for node in body.nodes:
        nodes.append((node.op, tuple([numbers[v] for v in node.inputs]), *[v.type for v in node.outputs]))
        for v in node.outputs:
            numbers[v] = len(numbers)
    return tuple([v.type for v in body.inputs]), tuple(nodes), tuple([numbers[v] for v in body.outputs])
