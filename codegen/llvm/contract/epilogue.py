"""The epilogue of a contraction: the pointwise part of its kernel, which is applied to the sums.

It is computed on the sums in registers if vectors of channels fit the result. Otherwise the sums are stored in the
workspace, and `elementwise.py` computes the epilogue from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ....ir.kernel import Buffer, Expr, Kernel, Load, Local, Ref, Store
from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import known_equal
from ....ir.types import DType
from ..schedule.describe import ContractionError, parts_of
from ..schedule.strides import View, Walk, view_of
from .vector_epilogue import SUM, OperandNames, VectorEpilogue, access_of, is_vectorizable


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
    """Stores in `out` the expression `expr` of `Ref("sum")` and of `Ref("l0")`, ..., the elements of `loads`. `steps`
    and `further`: see `VectorEpilogue`.

    `separate`: the nest stores plain sums [group][point][channel] in the workspace, from which a second launch computes
    the epilogue.
    """

    expr: Expr
    out: Operand
    loads: tuple[Operand, ...]
    sum_dtype: DType
    separate: bool
    steps: tuple[tuple[str, Expr], ...] = ()
    further: tuple[tuple[Expr, Operand], ...] = ()

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The result, the operands that the epilogue reads, then further results."""
        return (self.out, *self.loads, *(operand for _, operand in self.further))

    @property
    def views(self) -> list[View]:
        return [operand.view for operand in self.operands]

    def with_views(self, views: Sequence[View]) -> Epilogue:
        """The same epilogue with other views of its operands."""
        out, *others = (replace(o, view=v) for o, v in zip(self.operands, views, strict=True))
        loads, further = others[: len(self.loads)], others[len(self.loads) :]
        exprs = (expr for expr, _ in self.further)
        return replace(self, out=out, loads=tuple(loads), further=tuple(zip(exprs, further, strict=True)))

    def with_base(self, base: int) -> Epilogue:
        """The same epilogue with its result `base` elements after the argument's address."""
        return replace(self, out=replace(self.out, view=replace(self.out.view, base=base)))

    def vectorized(self, tables: Tables) -> VectorEpilogue:
        """The form that micro-kernels evaluate."""
        out, *others = (access_of(o.view, tables.index(o.view), o.dtype) for o in self.operands)
        loads, further = others[: len(self.loads)], others[len(self.loads) :]
        exprs = (expr for expr, _ in self.further)
        return VectorEpilogue(
            expr=self.expr,
            loads=tuple(loads),
            out=out,
            dtype=self.sum_dtype,
            steps=self.steps,
            further=tuple(zip(exprs, further, strict=True)),
        )


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
    tables: list[tuple[int, ...]] = []
    for points in (v.points for v in others if any(v.points)):
        if not any(all(map(known_equal, points, known)) for known in tables):
            tables.append(points)
    return Tables((x.points, *tables))


def make_epilogue(
    kernel: Kernel, walk: Walk, *, groups: tuple[int, ...], points: tuple[int, ...], channels: int
) -> Epilogue:
    """The epilogue of the nest over `groups`, `points` and `channels` for this kernel's stages. ContractionError if it
    needs registers, because it has several sums or results, and cannot be computed from them."""
    direct = _direct(kernel, walk)
    if direct is not None:
        return direct
    contract, *more = parts_of(kernel)
    if more or len(kernel.stages) > 1:
        raise ContractionError(f"{kernel.name}: the epilogue of several sums or results does not fit vectors")
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


def _direct(kernel: Kernel, walk: Walk) -> Epilogue | None:
    """The epilogue that is computed from registers; None if an operand does not fit vectors of channels."""
    parts = parts_of(kernel)
    names = OperandNames(parts)
    steps = tuple((s.name, names.rename(s.value)) for s in kernel.stages if isinstance(s, Local))
    stores = [s for s in kernel.stages if isinstance(s, Store)]
    exprs = [names.rename(s.value) for s in stores]
    outs = [_result(kernel, s, walk) for s in stores]
    results = [(e, out) for e, out in zip(exprs, outs, strict=True) if out is not None]
    if len(results) < len(outs) or not all(map(is_vectorizable, (*exprs, *(e for _, e in steps)))):
        return None
    (expr, out), *further = results
    operands = [_read_operand(kernel, load, walk, out.view) for load in names.loads]
    loads = tuple(operand for operand in operands if operand is not None)
    if len(loads) < len(operands):
        return None
    return Epilogue(
        expr=expr,
        out=out,
        loads=loads,
        sum_dtype=parts[0].accumulator,
        separate=False,
        steps=steps,
        further=tuple(further),
    )


def _result(kernel: Kernel, store: Store, walk: Walk) -> Operand | None:
    """The place of a result; None if it does not fit vectors of channels."""
    buffer = kernel.buffer(store.buffer)
    view = view_of(buffer, store.index, walk)
    return None if view is None or not _fits_vectors(view) else _operand(kernel, buffer, view)


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
