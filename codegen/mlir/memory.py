"""Places the buffers of a function in one block of memory, the workspace of its launch."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...ir.assign_offsets import Block, assign_offsets
from ..stablehlo.upstream import Upstream, find_all, walk


def set_type(ir: Any, function: Any, results: Sequence[Any] = ()) -> None:
    """Declare the arguments that the body of a function has, and results of these types."""
    types = [argument.type for argument in function.regions[0].blocks[0].arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, list(results)))
    if "arg_attrs" in function.attributes:
        known = list(ir.ArrayAttr(function.attributes["arg_attrs"]))
        new = [ir.DictAttr.get({})] * (len(types) - len(known))
        function.attributes["arg_attrs"] = ir.ArrayAttr.get([*known, *new])


def place_buffers(upstream: Upstream, function: Any) -> int:
    """Replace the allocations in the body of the function by parts of a new last argument; returns its size in bytes.

    Buffers that are in use at different times share memory: a buffer is in use from its allocation to its deallocation.
    Allocations in nested regions, and those of unknown size or lifetime, stay.
    """
    ir, entry = upstream.ir, function.regions[0].blocks[0]
    _use_results(ir, entry)
    allocated: dict[Any, int] = {}
    blocks: dict[Any, Block] = {}
    frees: list[Any] = []
    for position, op in enumerate(entry.operations):
        if op.name == "memref.alloc" and _is_static(ir, op):
            allocated[op.results[0]] = position
        elif op.name == "memref.dealloc" and op.operands[0] in allocated:
            buffer = op.operands[0]
            blocks[buffer] = Block(_nbytes(ir, buffer.type), allocated[buffer], position)
            frees.append(op)
    if not blocks:
        return 0
    nbytes, _ = assign_offsets(list(blocks.values()))
    location = function.location
    workspace = entry.add_argument(ir.MemRefType.get((nbytes,), ir.IntegerType.get_signless(8)), location)
    set_type(ir, function)
    for op in frees:
        op.erase()
    for buffer, block in blocks.items():
        _replace(upstream, buffer, workspace, block.offset)
    return nbytes


def _use_results(ir: Any, entry: Any) -> None:
    """Replace buffers that are only copied into a result, after their last use, by that result."""
    last: dict[Any, int] = {}
    operations = list(entry.operations)
    for position, op in enumerate(operations):

        def note(op: Any, position: int = position) -> None:
            if op.name != "memref.dealloc":
                last.update((v, position) for v in op.operands)

        walk(op, note)
    for position, op in enumerate(operations):
        if op.name != "memref.copy":
            continue
        source, target = op.operands
        is_result = isinstance(target, ir.BlockArgument) and len(list(target.uses)) == 1
        if is_result and source.type == target.type and _is_allocated(ir, source) and last[source] == position:
            frees = [use.owner for use in source.uses if use.owner.name == "memref.dealloc"]
            for user in (op, *frees):
                user.erase()
            allocation = source.owner
            source.replace_all_uses_with(target)
            allocation.erase()


def _is_allocated(ir: Any, value: Any) -> bool:
    return isinstance(value, ir.OpResult) and value.owner.name == "memref.alloc"


def expand_copies(upstream: Upstream, module: Any) -> None:
    """Replace copies by loops: LLVM's dialect calls a library for copies with strides."""
    for op in find_all(module.operation, ("memref.copy",)):
        source, target = op.operands
        with upstream.ir.InsertionPoint(op), op.location:
            upstream.linalg.copy(source, outs=[target])
        op.erase()


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
