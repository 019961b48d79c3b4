"""Divides float32 weights for tensor cores once, instead of in each kernel that multiplies by them.

In the mode float32 a kernel divides each factor into its nearest TF32 number and the rest (`_dot_float32` of
`helpers.py`), in registers. Divided weights are two arrays, which tensor cores read as they are.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...ir.kernel import Buffer, Kernel, Load, contracts, walk
from ...ir.lazy_dataclass import dataclass
from ...ir.symbolic import is_symbolic
from ...ir.types import DType, TensorType
from ..lower_contract import convolutions_as_products
from .emit import TritonSource
from .memory_order import in_memory_order
from .operands import LOW, find_contraction
from .routines.launches import Launches
from .schedule import TritonSchedule

_BLOCK = 1024


@dataclass(frozen=True, slots=True)
class HalvesPacking:
    """Implements `Packing`: one half of each of `count` float32 numbers."""

    count: int
    low: bool

    @property
    def nbytes(self) -> int:
        return 4 * self.count

    def source(self) -> TritonSource:
        """The kernel that packs."""
        type = TensorType((self.count,), DType.F32)
        launches = Launches((type, type), is_fixed=True, aligned=False, in_place=False)
        pointers = {"x": launches.memory(0), "y": launches.memory(1)}
        constants = {"LOW": int(self.low), "BLOCK": _BLOCK}
        launches.add("halves", "halve", pointers, {"count": self.count}, constants, -(-self.count // _BLOCK))
        return launches.sources[0]


Packings = tuple[tuple[int, HalvesPacking], ...]


def with_halves(
    kernel: Kernel, schedule: TritonSchedule, parameters: frozenset[str]
) -> tuple[Kernel, Packings, tuple[int, ...] | None]:
    """The kernel with two buffers for the halves of its weights, the packings of these buffers, and the positions of
    the original buffers; the same kernel, none and None if it does not multiply by weights in the mode float32."""
    position = _weights(kernel, schedule, parameters)
    if position is None:
        return kernel, (), None
    weights = kernel.buffers[position]
    low = replace(weights, name=f"{weights.name}{LOW}")
    buffers = (*kernel.buffers[: position + 1], low, *kernel.buffers[position + 1 :])
    count = prod(map(int, weights.shape))
    packings = (position, HalvesPacking(count, low=False)), (position + 1, HalvesPacking(count, low=True))
    order = range(len(kernel.buffers))
    return replace(kernel, buffers=buffers), packings, (*order[: position + 1], *order[position:])


def _weights(kernel: Kernel, schedule: TritonSchedule, parameters: frozenset[str]) -> int | None:
    """The position of the weights of a product, which are its right operand."""
    nodes = contracts(kernel)
    if len(nodes) != 1 or schedule.plain or schedule.precision != "float32" or not isinstance(nodes[0].rhs, Load):
        return None
    name = nodes[0].rhs.buffer
    product = find_contraction(in_memory_order(convolutions_as_products(kernel)))
    buffer = kernel.buffer(name)
    is_right = schedule.dim("m").axes == product.rows and product.rhs == nodes[0].rhs
    if not is_right or name not in parameters or product.dtypes[0] is not DType.F32 or not _is_dense(buffer):
        return None
    reads = {e for stage in kernel.stages for e in walk(stage.value) if isinstance(e, Load) and e.buffer == name}
    return kernel.buffers.index(buffer) if len(reads) == 1 else None


def _is_dense(buffer: Buffer) -> bool:
    return buffer.strides is None and not any(isinstance(n, str) or is_symbolic(n) for n in buffer.shape)
