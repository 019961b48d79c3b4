"""Keeps contractions as they are while elementwise operations are fused.

Fusion would add the work of each element of an operand to the loops that read it many times, and reshapes would add
loops. A barrier is a call of a function that is declared only, through which nothing is fused.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..stablehlo.upstream import Upstream, find_all

_PREFIX = "mxforge.barrier"


def add_barriers(upstream: Upstream, module: Any, names: Collection[str]) -> None:
    """Put barriers before the inputs and behind the results of the operations of these names."""
    ir = upstream.ir
    symbols: dict[str, str] = {}
    operations = find_all(module.operation, names)

    def barrier(value: Any) -> Any:
        symbol = symbols.get(str(value.type))
        if symbol is None:
            symbol = symbols[str(value.type)] = f"{_PREFIX}{len(symbols)}"
            type = ir.FunctionType.get([value.type], [value.type])
            with ir.InsertionPoint.at_block_begin(module.body):
                ir.Operation.create("func.func", attributes=_attributes(ir, symbol, type), regions=1)
        callee = {"callee": ir.FlatSymbolRefAttr.get(symbol)}
        return ir.Operation.create("func.call", [value.type], [value], callee)

    for op in operations:
        with op.location:
            with ir.InsertionPoint(op):
                for i in range(len(op.operands) - len(op.results)):
                    op.operands[i] = barrier(op.operands[i]).result
            with ir.InsertionPoint.after(op):
                for result in op.results:
                    call = barrier(result)
                    result.replace_all_uses_except(call.result, call)


def remove_barriers(module: Any) -> None:
    """Remove all barriers."""
    for call in find_all(module.operation, ("func.call",)):
        if call.attributes["callee"].value.startswith(_PREFIX):
            call.results[0].replace_all_uses_with(call.operands[0])
            call.erase()
    for function in find_all(module.operation, ("func.func",)):
        if function.attributes["sym_name"].value.startswith(_PREFIX):
            function.erase()


def _attributes(ir: Any, symbol: str, type: Any) -> dict[str, Any]:
    """Those of a private function."""
    names = {"sym_name": ir.StringAttr.get(symbol), "sym_visibility": ir.StringAttr.get("private")}
    return {**names, "function_type": ir.TypeAttr.get(type)}
