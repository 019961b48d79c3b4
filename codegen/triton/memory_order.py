"""Orders the axes of a kernel as memory has them: programs and threads that follow each other access neighbours."""

from __future__ import annotations

from dataclasses import replace

from ...ir.kernel import AxisKind, Kernel, contracts
from .accesses import Access, accesses


def in_memory_order(kernel: Kernel) -> Kernel:
    """The same kernel with its axes in the order of decreasing strides, if a buffer is channels-last. (Graphs index
    tensors channels first, so the order of row-major kernels is that of memory already.)

    The strides are those of a result, and for axes that no result has those of an operand, channels-last ones first.
    Operands of a contraction, which programs read often, come before a result in rows.
    """
    layouts = {b.name: b.layout for b in kernel.buffers}
    if not any(layouts.values()):
        return kernel
    written = {b.name for b in kernel.buffers if b.written}

    reads_often = bool(contracts(kernel))

    def rank(access: Access) -> tuple[bool, bool]:
        is_read, in_rows = access.buffer not in written, layouts[access.buffer] is None
        return (in_rows, is_read) if reads_often else (is_read, in_rows)

    strides: dict[str, int] = {}
    for access in sorted(accesses(kernel), key=rank):
        for axis, stride in access.strides:
            strides.setdefault(axis, abs(stride.typical))
    axes = sorted(kernel.axes, key=lambda a: (a.kind is AxisKind.REDUCE, -strides.get(a.name, 0)))
    return replace(kernel, axes=tuple(axes))
