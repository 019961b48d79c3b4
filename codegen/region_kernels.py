"""Lowers regions to kernels, each structure once: layers and steps of one kind have equal regions."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ..ir.dialects.core import Fused
from ..ir.graph import Graph
from ..ir.kernel import Kernel
from ..ir.symbolic import without_guards
from ..ir.types import TensorType
from .lower import Strides, lower_concat, lower_region
from .lower_contract import separate_operands
from .subpixel import subpixel_kernels

Kernels = tuple[tuple[Kernel, tuple[int, ...]], ...]
"""Kernels, and for each of their buffers its position among the inputs and results of the region."""


class RegionKernels:
    """The kernels of the regions of one graph. Equal regions have the same Kernel objects, which stay alive, so
    what is known of a kernel can be found by its identity."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Kernels] = {}

    def of_region(self, op: Fused, strides: tuple[Strides, ...]) -> Kernels:
        """The kernels of a region, whose inputs and results have these strides."""

        def lower() -> Kernels:
            return tuple([separate_operands(part) for part in subpixel_kernels(lower_region(op, strides=strides))])

        return self._get((_structure(op.body), op.kind, strides), lower)

    def of_piece(
        self, piece: TensorType, whole: TensorType, axis: int, begin: int, strides: tuple[Strides, ...]
    ) -> Kernel:
        """The kernel that copies a piece of a concatenation; see `lower_concat`."""

        def lower() -> Kernels:
            return ((lower_concat(piece, whole, axis, begin, "kernel", strides), (0, 1)),)

        ((kernel, _),) = self._get((piece, whole, axis, begin, strides), lower)
        return kernel

    def _get(self, key: Hashable, lower: Callable[[], Kernels]) -> Kernels:
        with without_guards():
            known = self._known.get(key)
        if known is None:
            known = lower()
            with without_guards():
                self._known[key] = known
        return known


def _structure(body: Graph) -> Hashable:
    """A key that is equal for bodies of the same ops and types, whatever their values and nodes are called."""
    numbers = {v: i for i, v in enumerate(body.inputs)}
    nodes: list[Hashable] = []
    for node in body.nodes:
        nodes.append((node.op, tuple([numbers[v] for v in node.inputs]), *[v.type for v in node.outputs]))
        for v in node.outputs:
            numbers[v] = len(numbers)
    return tuple([v.type for v in body.inputs]), tuple(nodes), tuple([numbers[v] for v in body.outputs])
