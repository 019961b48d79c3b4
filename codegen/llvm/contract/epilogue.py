"""The epilogue of a contraction: computed from registers if vectors of channels fit the result, else from sums in the
workspace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ....ir.kernel import Buffer, Expr, Kernel, Load, Ref, Store, contracts
from ....ir.symbolic import known_equal
from ....ir.types import DType
from ..schedule.strides import View, Walk, view_of
from .vector_epilogue import SUM, VectorEpilogue, access_of, is_vectorizable, name_operands


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A tensor that the epilogue reads or writes: its addresses in the nest, its dtype, and the argument slot of its
    address.
    """

    view: View
    dtype: DType
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    """Stores in `out` the expression `expr` of `Ref("sum")` and of `Ref("l0")`, ..., the elements of `loads`.

    `separate`: the nest stores plain sums [group][point][channel] in the workspace, from which a second launch computes
    the epilogue.
    """

    expr: Expr
    out: Operand
    loads: tuple[Operand, ...]
    sum_dtype: DType
    separate: bool

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The result, then the operands that the epilogue reads."""
        return (self.out, *self.loads)

    @property
    def views(self) -> list[View]:
        return [operand.view for operand in self.operands]

    def with_views(self, views: Sequence[View]) -> Epilogue:
        """The same epilogue with other views of its operands."""
        out, *loads = (replace(o, view=v) for o, v in zip(self.operands, views, strict=True))
        return replace(self, out=out, loads=tuple(loads))

    def with_base(self, base: int) -> Epilogue:
        """The same epilogue with its result `base` elements after the argument's address."""
        return replace(self, out=replace(self.out, view=replace(self.out.view, base=base)))

    def vectorized(self, tables: Tables) -> VectorEpilogue:
        """The form that micro-kernels evaluate."""
        out, *loads = (access_of(o.view, tables.index(o.view), o.dtype) for o in self.operands)
        return VectorEpilogue(expr=self.expr, loads=tuple(loads), out=out, dtype=self.sum_dtype)


@dataclass(frozen=True, slots=True)
class Tables:
    """The distinct strides of points. Each has a table of offsets, which is filled for one block of points at a time.

    The first is used only for the input, even if another one is equal, so that micro-kernels of different shapes have
    equal code.
    """

    strides: tuple[tuple[int, ...], ...]

    def index(self, view: View) -> int:
        """The number of the table of the result or of an operand of the epilogue; -1 if it does not depend on the
        point."""
        if not any(view.points):
            return -1
        return next(k for k, s in enumerate(self.strides) if k and all(map(known_equal, s, view.points)))


def point_tables(x: View, others: Sequence[View]) -> Tables:
    found: list[tuple[int, ...]] = []
    for points in (v.points for v in others if any(v.points)):
        if not any(all(map(known_equal, points, known)) for known in found):
            found.append(points)
    return Tables((x.points, *found))


def make_epilogue(
    kernel: Kernel, store: Store, walk: Walk, *, groups: tuple[int, ...], points: tuple[int, ...], channels: int
) -> Epilogue:
    """The epilogue of the nest over `groups`, `points` and `channels` for this kernel's Store."""
    direct = _direct(kernel, store, walk)
    if direct is not None:
        return direct
    (contract,) = contracts(kernel)
    area = prod(points) * channels
    out = View(
        base=0,
        groups=tuple(prod(groups[k + 1 :]) * area for k in range(len(groups))),
        points=tuple(prod(points[k + 1 :]) * channels for k in range(len(points))),
        block=1,
        stride=1,
    )
    workspace = len(kernel.buffers) + len(kernel.extents)
    sums = Operand(view=out, dtype=contract.accumulator, slot=workspace)
    return Epilogue(expr=Ref(SUM), out=sums, loads=(), sum_dtype=contract.accumulator, separate=True)


def _direct(kernel: Kernel, store: Store, walk: Walk) -> Epilogue | None:
    """The epilogue that is computed from registers; None if an operand does not fit vectors of channels."""
    expr, loads = name_operands(store.value)
    buffer = kernel.buffer(store.buffer)
    out = view_of(buffer, store.index, walk)
    if out is None or not is_vectorizable(expr) or not _fits_vectors(out):
        return None
    found = [_read_operand(kernel, load, walk, out) for load in loads]
    operands = tuple(operand for operand in found if operand is not None)
    if len(operands) < len(found):
        return None
    (contract,) = contracts(kernel)
    result = _operand(kernel, buffer, out)
    return Epilogue(expr=expr, out=result, loads=operands, sum_dtype=contract.accumulator, separate=False)


def _read_operand(kernel: Kernel, load: Load, walk: Walk, out: View) -> Operand | None:
    buffer = kernel.buffer(load.buffer)
    view = None if load.other is not None else view_of(buffer, load.index, walk)
    if view is None or (view.block > 1 and out.block > 1 and view.block != out.block):
        return None
    return _operand(kernel, buffer, view)


def _operand(kernel: Kernel, buffer: Buffer, view: View) -> Operand:
    return Operand(view=view, dtype=buffer.dtype, slot=kernel.buffers.index(buffer))


def _fits_vectors(out: View) -> bool:
    """True if channels are contiguous: in blocks, or in row-major memory (channels last, or a single position)."""
    return out.block > 1 or out.stride == 1
