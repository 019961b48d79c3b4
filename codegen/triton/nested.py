"""Describes a product of which one operand is computed from other products: gradients of attention."""

from __future__ import annotations

from ...ir.kernel import AxisKind, Contract, Expr, Kernel, Ref, Store, children, local
from ...ir.lazy_dataclass import dataclass
from .accesses import axis_names
from .operands import axes_of


@dataclass(frozen=True, slots=True)
class InnerProduct:
    """A product whose left operand varies along the rows of the result, and its right one along the summed axis."""

    node: Contract
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedProduct:
    """`last` sums `computed` times `other` over the axes `keys`; `computed` is a function of the products `inner`.

    Axes: `rows` are those of the computed operand alone, `columns` those of the other alone, and `batch` all others.
    """

    last: Contract
    computed: Expr
    other: Expr
    inner: tuple[InnerProduct, ...]
    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    keys: tuple[str, ...]

    @property
    def inner_dims(self) -> list[str]:
        """The dimensions of a schedule along which the inner products are summed, in their order."""
        return [f"k{i}" for i in range(len(self.inner))]


def find_nested(kernel: Kernel) -> NestedProduct | None:
    """The nested product that a kernel computes; None for any other kernel."""
    stage = kernel.stages[-1] if kernel.stages else None
    last = stage.value if isinstance(stage, Store) else None
    if not isinstance(last, Contract):
        return None
    for computed, other in ((last.lhs, last.rhs), (last.rhs, last.lhs)):
        nodes = _products(kernel, computed)
        if nodes:
            return _describe(kernel, last, computed, other, nodes)
    return None


def _describe(kernel: Kernel, last: Contract, computed: Expr, other: Expr, nodes: list[Contract]) -> NestedProduct:
    mine, its = axes_of(kernel, computed), axes_of(kernel, other)
    parallel = axis_names(kernel, AxisKind.PARALLEL)
    rows = tuple(a for a in parallel if a in mine and a not in its)
    columns = tuple(a for a in parallel if a in its and a not in mine)
    inner: list[InnerProduct] = []
    for node in nodes:
        left, right = (axes_of(kernel, e) for e in (node.lhs, node.rhs))
        swapped = bool(left & set(last.inner) or right & set(rows))
        inner.append(InnerProduct(node, *((node.rhs, node.lhs) if swapped else (node.lhs, node.rhs))))
    return NestedProduct(
        last=last,
        computed=computed,
        other=other,
        inner=tuple(inner),
        batch=tuple(a for a in parallel if a not in (*rows, *columns)),
        rows=rows,
        columns=columns,
        keys=last.inner,
    )


def _products(kernel: Kernel, expr: Expr) -> list[Contract]:
    """The products that an expression reads, in order."""
    products: dict[Contract, None] = {}
    stack = [expr]
    while stack:
        current = stack.pop()
        if isinstance(current, Contract):
            products[current] = None
        elif isinstance(current, Ref):
            stack.append(local(kernel, current.local).value)
        else:
            stack += children(current)
    return list(products)[::-1]
