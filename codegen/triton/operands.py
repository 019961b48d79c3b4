"""Reads a kernel's expressions: their dtypes, and a contraction as a GEMM with batch, rows, columns and inner axes."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.kernel import (
    Affine,
    AxisKind,
    AxisValue,
    Cast,
    Const,
    Contract,
    Expr,
    Given,
    Kernel,
    Load,
    Local,
    Reduce,
    Ref,
    Scalar,
    contracts,
    walk,
)
from ...ir.scalar import result_dtype
from ...ir.types import DType
from .accesses import axis_names
from .types import SHORT_FLOATS


class NoTensorCores(NotImplementedError):
    """A contraction that tensor cores do not compute; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contraction:
    """`lhs` varies along batch, rows and inner, `rhs` along batch, inner and columns. `dtype`: of the factors."""

    node: Contract
    lhs: Expr
    rhs: Expr
    dtype: DType
    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    inner: tuple[str, ...]


def find_contraction(kernel: Kernel) -> Contraction:
    """The one contraction of a kernel without convolutions; NoTensorCores if it has several, or one of other dtypes.

    An operand may be equal along an axis of its role: a product whose right operand has no batch has more rows.
    """
    nodes = contracts(kernel)
    if len(nodes) != 1:
        raise NoTensorCores(f"kernel {kernel.name} has {len(nodes)} contractions")
    (node,) = nodes
    lhs, rhs, dtype = _products(kernel, node)
    used = axes_of(kernel, lhs), axes_of(kernel, rhs)
    parallel = axis_names(kernel, AxisKind.PARALLEL)
    return Contraction(
        node=node,
        lhs=lhs,
        rhs=rhs,
        dtype=dtype,
        batch=tuple(a for a in parallel if (a in used[0]) == (a in used[1])),
        rows=tuple(a for a in parallel if a in used[0] and a not in used[1]),
        columns=tuple(a for a in parallel if a in used[1] and a not in used[0]),
        inner=node.inner,
    )


def axes_of(kernel: Kernel, expr: Expr) -> set[str]:
    """The axes along which `expr` varies."""
    found: set[str] = set()
    for e in walk(expr):
        if isinstance(e, Load):
            found.update(a for i in e.index if isinstance(i, Affine) for a, _ in i.terms)
        elif isinstance(e, AxisValue):
            found.add(e.axis)
        elif isinstance(e, Ref):
            found |= axes_of(kernel, local(kernel, e.local).value)
    return found


def local(kernel: Kernel, name: str) -> Local:
    return next(s for s in kernel.stages if isinstance(s, Local) and s.name == name)


def dtype_of(kernel: Kernel, expr: Expr) -> DType:
    """The element type of an expression's values."""
    match expr:
        case Const(dtype=dtype) | Given(dtype=dtype) | Cast(dtype=dtype) | Contract(dtype=dtype):
            return dtype
        case AxisValue():
            return DType.I64
        case Load(buffer=buffer):
            return kernel.buffer(buffer).dtype
        case Ref(local=name):
            return dtype_of(kernel, local(kernel, name).value)
        case Scalar(op=op, operands=operands):
            return result_dtype(op, *(dtype_of(kernel, e) for e in operands))
        case Reduce(operand=operand):
            return dtype_of(kernel, operand)


def _products(kernel: Kernel, node: Contract) -> tuple[Expr, Expr, DType]:
    """The operands as tensor cores take them: 16-bit floats that are only widened for the product stay narrow."""
    lhs, rhs = _narrow(kernel, node.lhs), _narrow(kernel, node.rhs)
    dtype = dtype_of(kernel, lhs)
    if dtype is not dtype_of(kernel, rhs):
        lhs, rhs, dtype = node.lhs, node.rhs, dtype_of(kernel, node.lhs)
    if dtype not in (*SHORT_FLOATS, DType.F32):
        raise NoTensorCores(f"kernel {kernel.name}: tensor cores have no products of {dtype.value}")
    return lhs, rhs, dtype


def _narrow(kernel: Kernel, expr: Expr) -> Expr:
    if isinstance(expr, Cast) and expr.dtype is DType.F32 and dtype_of(kernel, expr.operand) in SHORT_FLOATS:
        return expr.operand
    return expr
