"""States where bufferization stores the tensors of a function: operands are never written."""

from __future__ import annotations

from typing import Any

from ..stablehlo.upstream import Upstream, find_all
from .memory import set_type


def choose_destinations(upstream: Upstream, function: Any) -> None:
    """Write results into memory that new last arguments are, and the tensors that a loop carries into the same memory
    in each iteration."""
    _pass_results(upstream, function)
    for loop in find_all(function, ("scf.while",)):
        _keep_carried(upstream, loop)


def _pass_results(upstream: Upstream, function: Any) -> None:
    """Write the results of a function of tensors into buffers that its last arguments are. Arguments without elements
    have one axis: some of higher rank cannot be pointers of LLVM."""
    ir, entry = upstream.ir, function.regions[0].blocks[0]
    *_, end = entry.operations
    operands = len(entry.arguments)
    flags = {"restrict": ir.UnitAttr.get(), "writable": ir.UnitAttr.get()}
    with ir.InsertionPoint.at_block_begin(entry), end.location:
        for argument in entry.arguments:
            if 0 in argument.type.shape:
                argument.replace_all_uses_with(new_buffer(ir, argument.type))
                argument.set_type(ir.RankedTensorType.get([0], argument.type.element_type))
    with ir.InsertionPoint(end), end.location:
        for value in end.operands:
            shape = [0] if 0 in value.type.shape else value.type.shape
            target = entry.add_argument(ir.MemRefType.get(shape, value.type.element_type), end.location)
            if 0 not in shape:
                ir.Operation.create("bufferization.materialize_in_destination", [], [value, target], flags)
        ir.Operation.create("func.return")
    end.erase()
    set_type(ir, function)
    fixed = {"bufferization.writable": ir.BoolAttr.get(False)}
    named = [
        ir.DictAttr.get({**known, **fixed}) for known in _attributes(ir, function, "arg_attrs", operands)[:operands]
    ]
    results = len(entry.arguments) - operands
    named += [ir.DictAttr.get(known) for known in _attributes(ir, function, "res_attrs", results)]
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(named)
    if "res_attrs" in function.attributes:
        del function.attributes["res_attrs"]


def _attributes(ir: Any, function: Any, name: str, count: int) -> list[dict[str, Any]]:
    """The attributes of each argument or result."""
    if name not in function.attributes:
        return [{} for _ in range(count)]
    return [{a.name: a.attr for a in ir.DictAttr(known)} for known in ir.ArrayAttr(function.attributes[name])]


def _keep_carried(upstream: Upstream, loop: Any) -> None:
    """Copy what a loop carries into the buffer of the value before. A copy from the same buffer vanishes; without
    copies, buffers that differ in one tensor make bufferisation copy all."""
    ir, block = upstream.ir, loop.regions[1].blocks[0]
    *_, end = block.operations
    arguments = list(block.arguments)
    following = list(end.operands)
    with ir.InsertionPoint(end), end.location:
        for i, value in enumerate(following):
            if value in arguments and value != arguments[i] and isinstance(value.type, ir.RankedTensorType):
                following[i] = _copied(upstream, value, new_buffer(ir, value.type))  # read before it is written
        for i, (value, argument) in enumerate(zip(following, arguments, strict=True)):
            if value != argument and isinstance(value.type, ir.RankedTensorType):
                following[i] = _copied(upstream, value, argument)
    for i, value in enumerate(following):
        end.operands[i] = value


def _copied(upstream: Upstream, value: Any, target: Any) -> Any:
    return upstream.linalg.copy(value, outs=[target])


def new_buffer(ir: Any, type: Any) -> Any:
    """A tensor with a buffer of its own. Equal `tensor.empty` would become one value, and so one buffer."""
    segments = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0, 0])}
    return ir.Operation.create("bufferization.alloc_tensor", [type], attributes=segments).result
