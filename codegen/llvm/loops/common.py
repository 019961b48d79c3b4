"""Computes before the loops of a kernel what all points of its nest have in common.

These are elements that all points read, such as the numbers of an operator, and expressions of these. LLVM cannot move
them out of a loop itself, because it cannot exclude that a store changes them.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from ....ir.kernel import Cast, Const, Expr, Extent, Index, Load, Local, Reduce, Ref, Scalar, ScalarParameter, Store
from ....ir.lazy_dataclass import dataclass
from ....ir.types import DType
from ..arithmetic import Operand, Value
from ..types import memory_type_of

if TYPE_CHECKING:
    from .expressions import Evaluator


@dataclass
class Common:
    """Values that are computed before the loops: `loads` of elements, `values` of expressions by the identity of the
    expression, and those of `locals` by name. `splats` are the vectors of scalar values. `products` of indices and
    strides are computed before an inner loop."""

    loads: dict[tuple[str, Index], Value] = field(default_factory=dict[tuple[str, Index], Value])
    values: dict[int, tuple[Value, DType]] = field(default_factory=dict[int, tuple[Value, DType]])
    locals: dict[str, tuple[Value, DType]] = field(default_factory=dict[str, tuple[Value, DType]])
    splats: dict[Value, Value] = field(default_factory=dict[Value, Value])
    products: dict[tuple[Operand, Extent], Value] = field(default_factory=dict[tuple[Operand, Extent], Value])

    def contains(self, expr: Expr) -> bool:
        """True if an expression reads only elements in `loads`, and at least one."""
        match expr:
            case Load(buffer=buffer, index=index):
                return (buffer, index) in self.loads
            case Ref(local=local):
                return local in self.locals
            case Scalar(operands=operands):
                read = [e for e in operands if not isinstance(e, Const | ScalarParameter)]
                return bool(read) and all(map(self.contains, read))
            case Cast(operand=operand):
                return self.contains(operand)
            case _:
                return False


def hoist(evaluator: Evaluator) -> None:
    """Emit what all points have in common, and let the evaluator use it."""
    nest, f, common = evaluator.nest, evaluator.f, evaluator.common
    stored = {stage.buffer for stage in nest.stages if isinstance(stage, Store)}
    for key, access in nest.accesses.items():
        moves = access.strides or access.gathers or access.bounds
        if not moves and access.buffer not in stored:
            element = memory_type_of(evaluator.buffers[access.buffer].dtype)
            at = evaluator.sum_terms((), access.offset, {})
            common.loads[key] = f.load(f.gep(evaluator.pointers[access.buffer], at, element), element)
    for stage in nest.stages if common.loads else ():
        _hoist_parts(evaluator, stage.value)
        if isinstance(stage, Local) and id(stage.value) in common.values:
            common.locals[stage.name] = common.values[id(stage.value)]


def _hoist_parts(evaluator: Evaluator, expr: Expr) -> None:
    """Emit the largest parts of an expression that are common."""
    common, schedule = evaluator.common, evaluator.s
    if common.contains(expr):
        value, _ = common.values[id(expr)] = evaluator.value(expr, {}, None, common.locals)
        if schedule.vector and value.type.lanes == 1:
            common.splats[value] = evaluator.f.splat(value, value.type.with_lanes(schedule.lanes))
        return
    match expr:
        case Scalar(operands=operands):
            for operand in operands:
                _hoist_parts(evaluator, operand)
        case Cast(operand=operand) | Reduce(operand=operand):
            _hoist_parts(evaluator, operand)
        case _:
            pass
