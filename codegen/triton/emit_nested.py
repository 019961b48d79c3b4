"""Emits a product of which one operand is computed from other products, block by block."""

from __future__ import annotations

from ...ir.kernel import Kernel, Store, dtype_of
from ...ir.types import DType
from .block_emitter import RESULT, BlockEmitter
from .expressions import as_tensor
from .nested import NestedProduct
from .schedule import TritonSchedule
from .source import Source, Value
from .types import NAMES


def emit_nested(kernel: Kernel, product: NestedProduct, schedule: TritonSchedule, source: Source) -> None:
    """Emit the body of the kernel's function: each program computes a block of rows of the result."""
    emitter = BlockEmitter(kernel, schedule, source)
    tile = emitter.tile
    emitter.define_tile()
    acc = source.let("acc", "tl.zeros((M_BLOCK, N_BLOCK), tl.float32)")
    start = source.fresh("r_start")
    with source.loop(f"for {start} in range(0, {tile.total('r')}, R_BLOCK):", "r"):
        emitter.define_block(start)
        for dim, inner in zip(product.inner_dims, product.inner, strict=True):
            emitter.multiply(inner.node, inner.left, inner.right, dim)
        computed = emitter.inside(as_tensor(tile.value(product.computed)).text, "0.0")
        other = emitter.operand("other", product.other, ("r", "n"))
        dtype = dtype_of(kernel, product.other)
        computed = computed if dtype is DType.F32 else f"{computed}.to({NAMES[dtype]})"
        emitter.add_product(product.other, product.keys, computed, other, acc)
    tile.frame = RESULT
    both = frozenset(RESULT)
    source.remember(product.last, Value(acc, both, product.last.dtype))
    stage = kernel.stages[-1]
    assert isinstance(stage, Store)
    tile.store(stage, both)
