"""Describes a kernel's contraction for tensor cores: a GEMM with batch, rows, columns and inner axes."""

from __future__ import annotations

from dataclasses import replace

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
from ...ir.lazy_dataclass import dataclass
from ...ir.types import DType
from .accesses import access, axis_names
from .types import SHORT_FLOATS

LOW = "_low"
"""The name of a buffer of divided weights that has their lower halves ends with it; see `halves.py`."""


class NoTensorCores(NotImplementedError):
    """Tensor cores cannot compute the contraction; the message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contraction:
    """`lhs` varies along batch, rows and inner, `rhs` along batch, inner and columns. `dtypes` are those of the factors
    of a product; they are equal, except that bytes can differ in signedness.
    """

    node: Contract
    lhs: Expr
    rhs: Expr
    dtypes: tuple[DType, DType]
    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    inner: tuple[str, ...]

    def swapped(self) -> Contraction:
        """The same sums with the operands exchanged, and so rows and columns."""
        dtypes = self.dtypes[1], self.dtypes[0]
        return replace(self, lhs=self.rhs, rhs=self.lhs, dtypes=dtypes, rows=self.columns, columns=self.rows)


def is_contiguous(kernel: Kernel, expr: Expr, axes: tuple[str, ...]) -> bool:
    """True if neighbours in memory are neighbours along the last of these axes, in all that `expr` reads."""
    last = [axis for axis in axes if kernel.axis(axis).extent != 1][-1:]
    loads = [e for e in walk(expr) if isinstance(e, Load)]
    return bool(last and loads) and all(_is_unit(kernel, load, last[0]) for load in loads)


def _is_unit(kernel: Kernel, load: Load, axis: str) -> bool:
    return access(kernel, load.buffer, load.index).stride(axis).constant == 1


def find_contraction(kernel: Kernel) -> Contraction:
    """The contraction of a kernel without convolutions; NoTensorCores if it has several, or if tensor cores do not
    support its dtypes.

    Axes get their role from the operands that vary along them: if only the left operand varies along a batch axis, the
    axis is one of the rows.
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
        inner=tuple(a for a in axis_names(kernel, AxisKind.REDUCE) if a in node.inner),
    )


def low_half(kernel: Kernel, weights: Expr) -> Load | None:
    """The load of the rest of each weight that `weights` loads; None if the weights are not divided."""
    if not isinstance(weights, Load):
        return None
    low = f"{weights.buffer}{LOW}"
    return replace(weights, buffer=low) if any(b.name == low for b in kernel.buffers) else None


def axes_of(kernel: Kernel, expr: Expr) -> set[str]:
    """The axes along which `expr` varies."""
    axes: set[str] = set()
    for e in walk(expr):
        if isinstance(e, Load):
            axes.update(a for i in e.index if isinstance(i, Affine) for a, _ in i.terms)
        elif isinstance(e, AxisValue):
            axes.add(e.axis)
        elif isinstance(e, Ref):
            axes |= axes_of(kernel, local(kernel, e.local).value)
    return axes


def _products(kernel: Kernel, node: Contract) -> tuple[Expr, Expr]:
    """The operands for tensor cores: without casts of 16-bit floats to float32, which tensor cores do themselves."""
    lhs, rhs = _narrow(kernel, node.lhs), _narrow(kernel, node.rhs)
    dtypes = dtype_of(kernel, lhs), dtype_of(kernel, rhs)
    if node.accumulator is DType.F32:
        if dtypes[0] is dtypes[1]:
            return lhs, rhs
        return _wide(kernel, node.lhs), _wide(kernel, node.rhs)
    if node.accumulator is DType.I32 and set(dtypes) <= {DType.I8, DType.U8}:
        return lhs, rhs
    names = " and ".join(sorted({d.value for d in dtypes}))
    raise NoTensorCores(
        f"kernel {kernel.name}: tensor cores cannot sum products of {names} in {node.accumulator.value}"
    )


def _wide(kernel: Kernel, expr: Expr) -> Expr:
    return expr if dtype_of(kernel, expr) is DType.F32 else Cast(DType.F32, expr)


def _narrow(kernel: Kernel, expr: Expr) -> Expr:
    if isinstance(expr, Cast) and expr.dtype is DType.F32 and dtype_of(kernel, expr.operand) in SHORT_FLOATS:
        return expr.operand
    return expr
