"""Places the buffers of a function in one block of memory, the workspace of its launch."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from ...ir.assign_offsets import Block, assign_offsets
from ..stablehlo.upstream import Upstream


def keep_arguments(upstream: Upstream, function: Any) -> None:
    """Make bufferization safe for a function on tensors: arguments are not written, and each result is a value of its
    own, without which `buffer-results-to-out-params` fails."""
    ir, block = upstream.ir, function.regions[0].blocks[0]
    known = list(ir.ArrayAttr(function.attributes["arg_attrs"])) if "arg_attrs" in function.attributes else []
    fixed: list[Any] = []
    for i in range(len(block.arguments)):
        named = {a.name: a.attr for a in ir.DictAttr(known[i])} if known else {}
        fixed.append(ir.DictAttr.get({**named, "bufferization.writable": ir.BoolAttr.get(False)}))
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(fixed)
    terminator = list(block.operations)[-1]
    seen: list[Any] = []
    for i, value in enumerate(terminator.operands):
        if value in seen:
            with ir.InsertionPoint(terminator), terminator.location:
                sizes = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 1, 0])}
                copy = ir.Operation.create("bufferization.alloc_tensor", [value.type], [value], attributes=sizes)
            terminator.operands[i] = copy.result
        seen.append(value)


def place_buffers(upstream: Upstream, function: Any) -> int:
    """Replace the allocations in the body of a function by parts of a new last argument; returns its size in bytes.

    Buffers that are in use at different times share memory: a buffer is in use from its allocation to its deallocation.
    Allocations in nested regions, and those of unknown size, stay.
    """
    ir, entry = upstream.ir, function.regions[0].blocks[0]
    operations = list(entry.operations)
    blocks: dict[Any, Block] = {}
    frees: list[Any] = []
    for position, op in enumerate(operations):
        if op.name == "memref.alloc" and _is_static(ir, op):
            blocks[op.results[0]] = Block(_nbytes(ir, op.results[0].type), position, len(operations))
        elif op.name == "memref.dealloc" and op.operands[0] in blocks:
            blocks[op.operands[0]].end = position
            frees.append(op)
    if not blocks:
        return 0
    nbytes, _ = assign_offsets(list(blocks.values()))
    location = function.location
    workspace = entry.add_argument(ir.MemRefType.get((nbytes,), ir.IntegerType.get_signless(8)), location)
    types = [argument.type for argument in entry.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
    if "arg_attrs" in function.attributes:
        known = list(ir.ArrayAttr(function.attributes["arg_attrs"]))
        function.attributes["arg_attrs"] = ir.ArrayAttr.get([*known, ir.DictAttr.get({})])
    for op in frees:
        op.erase()
    for buffer, block in blocks.items():
        _replace(upstream, buffer, workspace, block.offset)
    return nbytes


def expand_copies(upstream: Upstream, module: Any) -> None:
    """Replace copies by loops: LLVM's dialect calls a library for copies with strides."""
    copies: list[Any] = []
    walk(module.operation, lambda op: copies.append(op) if op.name == "memref.copy" else None)
    for op in copies:
        source, target = op.operands
        with upstream.ir.InsertionPoint(op), op.location:
            upstream.linalg.copy(source, outs=[target])
        op.erase()


def walk(op: Any, visit: Callable[[Any], None]) -> None:
    """Call `visit` with an operation and all in its regions."""
    visit(op)
    for region in op.regions:
        for block in region:
            for inner in block.operations:
                walk(inner, visit)


def _replace(upstream: Upstream, buffer: Any, workspace: Any, offset: int) -> None:
    ir = upstream.ir
    op = buffer.owner
    with ir.InsertionPoint(op), op.location:
        index = ir.IndexType.get()
        at = ir.Operation.create("arith.constant", [index], attributes={"value": ir.IntegerAttr.get(index, offset)})
        view = ir.Operation.create("memref.view", [buffer.type], [workspace, at.result])
    buffer.replace_all_uses_with(view.result)
    op.erase()


def _is_static(ir: Any, op: Any) -> bool:
    type = ir.MemRefType(op.results[0].type)
    return type.has_static_shape and type.layout == ir.AffineMapAttr.get(ir.AffineMap.get_identity(type.rank))


def _nbytes(ir: Any, type: Any) -> int:
    type = ir.MemRefType(type)
    element = type.element_type
    width = 64 if isinstance(element, ir.IndexType) else element.width
    return max(1, prod(type.shape)) * -(-width // 8)
