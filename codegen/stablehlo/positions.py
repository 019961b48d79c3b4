"""Gathers, scatters and sorts in StableHLO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.dialects.core import ArgSort, Gather, Scatter, Sort
from ...ir.scalar import ReduceOp
from ...ir.symbolic import is_symbolic
from ...ir.types import DType, TensorType
from .reductions import combine, wide
from .text import Text
from .writer import Val, integers


def gather(t: Text, op: Gather, types: Sequence[TensorType], x: Val, indices: Val) -> Sequence[Val]:
    batch, last = range(op.batch), indices.type.rank - 1
    sizes = [1 if k in op.axes or k in batch else n for k, n in enumerate(x.type.shape)]
    numbers = {
        "offset_dims": range(last, types[0].rank),
        "collapsed_slice_dims": sorted(op.axes),
        "operand_batching_dims": batch,
        "start_indices_batching_dims": batch,
        "start_index_map": op.axes,
    }
    attributes = {"dimension_numbers": _numbers("gather", numbers, last)}
    if any(map(is_symbolic, sizes)):
        return [t.one("stablehlo.dynamic_gather", (x, indices, t.numbers(sizes)), types[0], attributes)]
    return [t.one("stablehlo.gather", (x, indices), types[0], {**attributes, "slice_sizes": integers(sizes)})]


def scatter(t: Text, op: Scatter, types: Sequence[TensorType], x: Val, indices: Val, updates: Val) -> Sequence[Val]:
    batch, last = range(op.batch), indices.type.rank - 1
    numbers = {
        "update_window_dims": range(last, updates.type.rank),
        "inserted_window_dims": sorted(op.axes),
        "input_batching_dims": batch,
        "scatter_indices_batching_dims": batch,
        "scatter_dims_to_operand_dims": op.axes,
    }
    is_set = op.op == "set"
    dtype = x.type.dtype if is_set else wide(ReduceOp(op.op), x.type.dtype)
    element = TensorType((), dtype)
    body = _latest if is_set else combine(t, ReduceOp(op.op))
    operands = t.convert(x, dtype), indices, t.convert(updates, dtype)
    attributes = {"scatter_dimension_numbers": _numbers("scatter", numbers, last)}
    result = TensorType(types[0].shape, dtype)
    (scattered,) = t.op("stablehlo.scatter", operands, (result,), attributes, [((element, element), body)])
    return [t.convert(scattered, types[0].dtype)]


def _latest(before: Val, update: Val) -> Sequence[Val]:
    return [update]


def _numbers(name: str, axes: Mapping[str, Sequence[int]], last: int) -> str:
    listed = "".join(f"{key} = [{', '.join(map(str, of))}], " for key, of in axes.items() if len(of))
    return f"#stablehlo.{name}<{listed}index_vector_dim = {last}>"


def sort(t: Text, op: Sort, types: Sequence[TensorType], *xs: Val) -> Sequence[Val]:
    """NaN is last in both orders."""

    def precedes(x: Val, y: Val, *others: Val) -> Sequence[Val]:
        before = t.compare("GT" if op.descending else "LT", x, y)
        if not x.type.dtype.is_float:
            return [before]
        number, missing = t.compare("EQ", x, x), t.compare("NE", y, y)
        last = t.one("stablehlo.and", (number, missing), before.type)
        return [t.one("stablehlo.or", (before, last), before.type)]

    elements = [TensorType((), x.type.dtype) for x in xs for _ in range(2)]
    attributes = {"dimension": f"{op.axis} : i64", "is_stable": "true" if op.stable else "false"}
    return t.op("stablehlo.sort", xs, types, attributes, [(elements, precedes)])


def argsort(t: Text, op: ArgSort, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    """The positions are sorted with the elements."""
    places = t.iota(TensorType(x.type.shape, DType.I32), op.axis)
    order = sort(t, Sort(op.axis, op.descending), (x.type, places.type), x, places)[1]
    return [order if op.count is None else t.slice(order, types[0], [0] * x.type.rank, types[0].shape)]
