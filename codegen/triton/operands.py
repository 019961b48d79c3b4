"""A kernel's contraction as tensor cores take it: a GEMM with batch, rows, columns and inner axes."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.kernel import (
    Affine,
    AxisKind,
    AxisValue,
    Cast,
    Contract,
    Expr,
    Kernel,
    Load,
    Ref,
    contracts,
    dtype_of,
    local,
    walk,
)
from ...ir.types import DType
from .accesses import axis_names
from .types import SHORT_FLOATS


class NoTensorCores(NotImplementedError):
    """A contraction that tensor cores do not compute; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contraction:
    """`lhs` varies along batch, rows and inner, `rhs` along batch, inner and columns. `dtypes`: of the factors as they
    are multiplied, equal but for the signs of bytes.
    """

    node: Contract
    lhs: Expr
    rhs: Expr
    dtypes: tuple[DType, DType]
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
    lhs, rhs = _products(kernel, node)
    used = axes_of(kernel, lhs), axes_of(kernel, rhs)
    parallel = axis_names(kernel, AxisKind.PARALLEL)
    return Contraction(
        node=node,
        lhs=lhs,
        rhs=rhs,
        dtypes=(dtype_of(kernel, lhs), dtype_of(kernel, rhs)),
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


def _products(kernel: Kernel, node: Contract) -> tuple[Expr, Expr]:
    """The operands as tensor cores take them: 16-bit floats that are only widened for the product stay narrow."""
    lhs, rhs = _narrow(kernel, node.lhs), _narrow(kernel, node.rhs)
    dtypes = dtype_of(kernel, lhs), dtype_of(kernel, rhs)
    if node.accumulator is DType.F32:
        if dtypes[0] is dtypes[1]:
            return lhs, rhs
        return _wide(kernel, node.lhs), _wide(kernel, node.rhs)
    if node.accumulator is DType.I32 and set(dtypes) <= {DType.I8, DType.U8}:
        return lhs, rhs
    names = " and ".join(sorted({d.value for d in dtypes}))
    raise NoTensorCores(f"kernel {kernel.name}: tensor cores have no products of {names} in {node.accumulator.value}")


def _wide(kernel: Kernel, expr: Expr) -> Expr:
    return expr if dtype_of(kernel, expr) is DType.F32 else Cast(DType.F32, expr)


def _narrow(kernel: Kernel, expr: Expr) -> Expr:
    if isinstance(expr, Cast) and expr.dtype is DType.F32 and dtype_of(kernel, expr.operand) in SHORT_FLOATS:
        return expr.operand
    return expr
