"""The epilogue of micro-kernels: an expression of the sum on vectors of channels, and the accesses of its operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ....ir.kernel import AxisValue, Cast, Const, Contract, Expr, Load, Ref, Scalar
from ....ir.lazy_dataclass import dataclass
from ....ir.scalar import result_dtype
from ....ir.types import DType
from ..arithmetic import Value
from ..emitter import FunctionBuilder
from ..scalars import emit_cast, emit_scalar
from ..schedule.describe import ContractionError
from ..schedule.strides import View
from ..types import type_of

SUM = "sum"


def sum_name(part: int) -> str:
    """The Ref of the sum of one part of a contraction."""
    return f"{SUM}{part}" if part else SUM


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How the micro-kernel addresses one operand. The fields determine the instructions; the address and the stride
    between blocks are run-time values.

    `table` is the table of point offsets, -1 for an operand that does not depend on the point. `block` 0: one element
    for all channels; 1 with `gathered`: channels have a stride; else channels are contiguous, in blocks of `block`
    (1: without blocks).
    """

    table: int
    block: int
    gathered: bool = False
    padded: bool = False
    dtype: DType = DType.F32


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorEpilogue:
    """The stored expression of `Ref("sum")` and `Ref("l0")`, ...; `loads` are the accesses of l0, ..., `out` is the
    access of the result. `dtype` is the dtype of the sum.

    `steps` are named values that are computed first, in order; `further` are more results, each with its access.
    """

    expr: Expr
    loads: tuple[Access, ...]
    out: Access
    dtype: DType
    steps: tuple[tuple[str, Expr], ...] = ()
    further: tuple[tuple[Expr, Access], ...] = ()

    @property
    def accesses(self) -> tuple[Access, ...]:
        """Those of the result, of the loads and of further results: the order of addresses in a context."""
        return (self.out, *self.loads, *(access for _, access in self.further))

    @property
    def results(self) -> tuple[tuple[int, Expr, Access], ...]:
        """Each result: its position in `accesses`, its expression and its access."""
        start = 1 + len(self.loads)
        return (0, self.expr, self.out), *((start + k, expr, out) for k, (expr, out) in enumerate(self.further))


def access_of(view: View, table: int, dtype: DType) -> Access:
    if view.block == 1 and view.stride == 0:
        return Access(table=table, block=0, dtype=dtype)
    gathered = view.block == 1 and view.stride != 1
    return Access(table=table, block=view.block, gathered=gathered, padded=view.padded, dtype=dtype)


def name_operands(expr: Expr) -> tuple[Expr, tuple[Load, ...]]:
    """`expr` with Refs in place of its Contract and Loads, and the distinct Loads in order."""
    names = OperandNames()
    return names.rename(expr), tuple(names.loads)


class OperandNames:
    """Names the operands of several expressions: the Contracts `parts`, in order, and the distinct Loads."""

    def __init__(self, parts: Sequence[Contract] = ()) -> None:
        self.parts = parts
        self.loads: dict[Load, Ref] = {}

    def rename(self, expr: Expr) -> Expr:
        """`expr` with Refs in place of its Contracts and Loads."""
        match expr:
            case Contract():
                return Ref(sum_name(self.parts.index(expr) if self.parts else 0))
            case Load():
                return self.loads.setdefault(expr, Ref(f"l{len(self.loads)}"))
            case Scalar(op, operands):
                return Scalar(op, tuple(self.rename(x) for x in operands))
            case Cast(dtype, operand):
                return Cast(dtype, self.rename(operand))
            case _:
                return expr


Operand = Callable[[], Value]


def constantly(value: Value) -> Operand:
    """The operand that is `value`, wherever it is read."""
    return lambda: value


def evaluate(
    f: FunctionBuilder,
    expr: Expr,
    lanes: int,
    operands: Mapping[str, tuple[Operand, DType]],
    axes: Mapping[str, Value] | None = None,
) -> tuple[Value, DType]:
    """The value of `expr` and its dtype. `operands` maps Refs to values, `axes` maps axes to indices (scalars only)."""
    match expr:
        case Ref(local):
            operand, dtype = operands[local]
            return operand(), dtype
        case Const(value, dtype):
            return f.const(type_of(dtype, lanes), value), dtype
        case Scalar(op, inner):
            evaluated = [evaluate(f, x, lanes, operands, axes) for x in inner]
            dtypes = [d for _, d in evaluated]
            return emit_scalar(f, op, [v for v, _ in evaluated], dtypes[-1]), result_dtype(op, *dtypes)
        case Cast(dtype, inner):
            value, source = evaluate(f, inner, lanes, operands, axes)
            return emit_cast(f, value, source, dtype), dtype
        case _:
            return _evaluate_axis(expr, axes)


def _evaluate_axis(expr: Expr, axes: Mapping[str, Value] | None) -> tuple[Value, DType]:
    if isinstance(expr, AxisValue) and axes is not None:
        return axes[expr.axis], DType.I64
    raise ContractionError(f"the epilogue of a contraction cannot contain {expr}")


def is_vectorizable(expr: Expr) -> bool:
    """True if `evaluate` supports the expression on vectors of channels."""
    match expr:
        case Ref() | Const():
            return True
        case Scalar(_, operands):
            return all(is_vectorizable(x) for x in operands)
        case Cast(_, operand):
            return is_vectorizable(operand)
        case _:
            return False
