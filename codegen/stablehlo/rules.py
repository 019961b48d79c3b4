"""The primitives of `core` in StableHLO, one rule for each. A test proves the table total."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from ...ir.dialects.core import (
    LQ,
    LU,
    Broadcast,
    Cast,
    Cholesky,
    Concat,
    Constant,
    Conv,
    ConvWeightGradient,
    Cumulative,
    Dot,
    Gather,
    Iota,
    Pad,
    Pointwise,
    Primitive,
    RandomBits,
    Reduce,
    ReduceWindow,
    Relayout,
    Reshape,
    Reverse,
    Scatter,
    SelectAndScatter,
    Size,
    Slice,
    Sort,
    SymmetricEigen,
    Transpose,
    TriangularSolve,
)
from ...ir.scalar import ReduceOp
from ...ir.types import DType, TensorType
from .scalars import SCALARS, cast
from .text import Text, Val, integers, pairs

Rule = Callable[..., Sequence[Val]]
"""A function of the text, the primitive, its result types and its operands, which returns the results."""

_NARROW = (DType.F16, DType.BF16)


# -- moves


def _broadcast(t: Text, op: Broadcast, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    return [t.broadcast(x, types[0], op.axes)]


def _reshape(t: Text, op: Reshape, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    return [t.one("stablehlo.reshape", (x,), types[0])]


def _transpose(t: Text, op: Transpose, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    return [t.one("stablehlo.transpose", (x,), types[0], {"permutation": integers(op.permutation)})]


def _slice(t: Text, op: Slice, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    bounds = {"start_indices": op.start, "limit_indices": op.stop, "strides": op.step}
    return [t.one("stablehlo.slice", (x,), types[0], {name: integers(v) for name, v in bounds.items()})]


def _reverse(t: Text, op: Reverse, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    return [t.one("stablehlo.reverse", (x,), types[0], {"dimensions": integers(op.axes)})]


def _concat(t: Text, op: Concat, types: Sequence[TensorType], *xs: Val) -> Sequence[Val]:
    return [t.one("stablehlo.concatenate", xs, types[0], {"dimension": f"{op.axis} : i64"})]


def _pad(t: Text, op: Pad, types: Sequence[TensorType], x: Val, value: Val) -> Sequence[Val]:
    edges = {"edge_padding_low": op.low, "edge_padding_high": op.high, "interior_padding": op.interior}
    return [t.one("stablehlo.pad", (x, value), types[0], {name: integers(v) for name, v in edges.items()})]


def _relayout(t: Text, op: Relayout, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    """Layouts are no part of StableHLO."""
    return [x]


# -- creation


def _constant(t: Text, op: Constant, types: Sequence[TensorType]) -> Sequence[Val]:
    return [t.constant(op.value, types[0].dtype)]


def _size(t: Text, op: Size, types: Sequence[TensorType]) -> Sequence[Val]:
    return [t.fill(int(op.value), types[0])]


def _iota(t: Text, op: Iota, types: Sequence[TensorType]) -> Sequence[Val]:
    return [t.one("stablehlo.iota", (), types[0], {"iota_dimension": f"{op.axis} : i64"})]


def _random_bits(t: Text, op: RandomBits, types: Sequence[TensorType], key: Val) -> Sequence[Val]:
    """Philox4x32-10 on 64-bit integers; see `core.random_bits`."""
    blocks, word = -(-prod(op.shape) // 4), TensorType((), DType.U32)
    row = TensorType((blocks,), DType.U64)

    def binary(name: str, x: Val, y: Val) -> Val:
        return t.one(f"stablehlo.{name}", (x, y), x.type)

    def word_of_key(i: int) -> Val:
        attributes = {"start_indices": integers([i]), "limit_indices": integers([i + 1]), "strides": integers([1])}
        part = t.one("stablehlo.slice", (key,), TensorType((1,), DType.U32), attributes)
        return t.broadcast(t.convert(t.one("stablehlo.reshape", (part,), word), DType.U64), row, ())

    low, half = t.fill(0xFFFFFFFF, row), t.fill(32, row)
    number = t.one("stablehlo.iota", (), row, {"iota_dimension": "0 : i64"})
    k0, k1, c2, c3 = (word_of_key(i) for i in range(4))
    c0, c1 = binary("and", number, low), binary("shift_right_logical", number, half)
    for _ in range(10):
        p0, p1 = (binary("multiply", c, t.fill(factor, row)) for c, factor in ((c0, 0xD2511F53), (c2, 0xCD9E8D57)))
        upper0, upper1 = (binary("shift_right_logical", p, half) for p in (p0, p1))
        c0, c2 = binary("xor", binary("xor", upper1, c1), k0), binary("xor", binary("xor", upper0, c3), k1)
        c1, c3 = binary("and", p1, low), binary("and", p0, low)
        k0, k1 = (
            binary("and", binary("add", k, t.fill(step, row)), low) for k, step in ((k0, 0x9E3779B9), (k1, 0xBB67AE85))
        )
    column = TensorType((blocks, 1), DType.U32)
    words = [t.one("stablehlo.reshape", (t.convert(c, DType.U32),), column) for c in (c0, c1, c2, c3)]
    joined = t.one("stablehlo.concatenate", words, TensorType((blocks, 4), DType.U32), {"dimension": "1 : i64"})
    flat = t.one("stablehlo.reshape", (joined,), TensorType((4 * blocks,), DType.U32))
    size = prod(op.shape)
    attributes = {"start_indices": integers([0]), "limit_indices": integers([size]), "strides": integers([1])}
    cut = t.one("stablehlo.slice", (flat,), TensorType((size,), DType.U32), attributes)
    return [t.one("stablehlo.reshape", (cut,), types[0])]


# -- elementwise


def _pointwise(t: Text, op: Pointwise, types: Sequence[TensorType], *xs: Val) -> Sequence[Val]:
    return [SCALARS[op.op](t, *xs)]


def _cast(t: Text, op: Cast, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    return [cast(t, x, op.dtype)]


# -- reductions


def _combine(t: Text, op: ReduceOp) -> Callable[[Val, Val], Sequence[Val]]:
    def body(x: Val, y: Val) -> Sequence[Val]:
        return [SCALARS[op.scalar](t, x, y)]

    return body


def _latest(before: Val, update: Val) -> Sequence[Val]:
    return [update]


def _wide(op: ReduceOp, dtype: DType) -> DType:
    """The dtype in which elements are combined: sums and products of 16-bit floats in float32."""
    return DType.F32 if dtype in _NARROW and op in (ReduceOp.ADD, ReduceOp.MUL) else dtype


def _reduce(t: Text, op: Reduce, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    dtype = _wide(op.op, x.type.dtype)
    element = TensorType((), dtype)
    operands = t.convert(x, dtype), t.fill(op.op.neutral(dtype), element)
    region = (element, element), _combine(t, op.op)
    (result,) = t.op(
        "stablehlo.reduce",
        operands,
        (TensorType(types[0].shape, dtype),),
        {"dimensions": integers(op.axes)},
        [region],
    )
    return [t.convert(result, types[0].dtype)]


def _windows(
    t: Text,
    op: ReduceOp,
    x: Val,
    shape: tuple[int, ...],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
) -> Val:
    dtype = _wide(op, x.type.dtype)
    element = TensorType((), dtype)
    attributes = {
        "window_dimensions": integers(window),
        "window_strides": integers(strides),
        "base_dilations": integers([1] * len(window)),
        "window_dilations": integers(dilation),
        "padding": pairs(padding),
    }
    operands = t.convert(x, dtype), t.fill(op.neutral(dtype), element)
    region = (element, element), _combine(t, op)
    (result,) = t.op("stablehlo.reduce_window", operands, (TensorType(shape, dtype),), attributes, [region])
    return t.convert(result, x.type.dtype)


def _reduce_window(t: Text, op: ReduceWindow, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    return [_windows(t, op.op, x, types[0].shape, op.window, op.strides, op.padding, op.dilation)]


def _cumulative(t: Text, op: Cumulative, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    """A window that ends, or begins, at each element."""
    rank, n = x.type.rank, x.type.shape[op.axis]
    if not n:
        return [x]
    window, padding = [1] * rank, [(0, 0)] * rank
    window[op.axis], padding[op.axis] = n, (0, n - 1) if op.reverse else (n - 1, 0)
    return [_windows(t, op.op, x, types[0].shape, window, [1] * rank, padding, [1] * rank)]


def _select_and_scatter(
    t: Text, op: SelectAndScatter, types: Sequence[TensorType], x: Val, cotangent: Val
) -> Sequence[Val]:
    """The first maximum of a window is kept, and a NaN above all."""
    element = TensorType((), x.type.dtype)

    def keeps(kept: Val, candidate: Val) -> Sequence[Val]:
        larger, missing = t.compare("GE", kept, candidate), t.compare("NE", kept, kept)
        return [t.one("stablehlo.or", (larger, missing), larger.type)]

    attributes = {
        "window_dimensions": integers(op.window),
        "window_strides": integers(op.strides),
        "padding": pairs(op.padding),
    }
    operands = x, cotangent, t.fill(0, element)
    regions = [((element, element), keeps), ((element, element), _combine(t, ReduceOp.ADD))]
    return t.op("stablehlo.select_and_scatter", operands, types, attributes, regions)


# -- contractions


def _accumulated(op: Dot | Conv | ConvWeightGradient, x: Val) -> DType:
    accumulator = None if isinstance(op, ConvWeightGradient) else op.accumulator
    return accumulator or (DType.F32 if x.type.dtype in _NARROW else x.type.dtype)


def _same_dtype(x: Val, y: Val, dtype: DType, t: Text) -> tuple[Val, Val]:
    """Operands of one dtype: StableHLO multiplies no u8 by i8."""
    return (x, y) if x.type.dtype is y.type.dtype else (t.convert(x, dtype), t.convert(y, dtype))


def _dot(t: Text, op: Dot, types: Sequence[TensorType], x: Val, y: Val) -> Sequence[Val]:
    numbers = {
        "lhs_batching_dimensions": op.lhs_batch,
        "rhs_batching_dimensions": op.rhs_batch,
        "lhs_contracting_dimensions": op.lhs_contract,
        "rhs_contracting_dimensions": op.rhs_contract,
    }
    listed = ", ".join(f"{name} = [{', '.join(map(str, axes))}]" for name, axes in numbers.items())
    result = TensorType(types[0].shape, _accumulated(op, x))
    x, y = _same_dtype(x, y, result.dtype, t)
    product = t.one("stablehlo.dot_general", (x, y), result, {"dot_dimension_numbers": f"#stablehlo.dot<{listed}>"})
    return [t.convert(product, types[0].dtype)]


def _convolution(
    t: Text,
    x: Val,
    w: Val,
    result: TensorType,
    padding: Sequence[tuple[int, int]],
    counts: tuple[int, int],
    **steps: Sequence[int],
) -> Val:
    """A convolution of images (N, C, *s) with filters (O, C / groups, *k); `counts` are its groups and batch groups."""
    spatial = "".join(f", {k}" for k in range(x.type.rank - 2))
    attributes = {
        "dimension_numbers": f"#stablehlo.conv<[b, f{spatial}]x[o, i{spatial}]->[b, f{spatial}]>",
        "padding": pairs(padding),
        **{name: integers(values) for name, values in steps.items()},
        "feature_group_count": f"{counts[0]} : i64",
        "batch_group_count": f"{counts[1]} : i64",
    }
    x, w = _same_dtype(x, w, result.dtype, t)
    return t.one("stablehlo.convolution", (x, w), result, attributes)


def _conv(t: Text, op: Conv, types: Sequence[TensorType], x: Val, w: Val) -> Sequence[Val]:
    result = TensorType(types[0].shape, _accumulated(op, x))
    steps = {"window_strides": op.strides, "lhs_dilation": op.lhs_dilation, "rhs_dilation": op.rhs_dilation}
    convolved = _convolution(t, x, w, result, op.padding, (op.groups, op.batch_groups), **steps)
    return [t.convert(convolved, types[0].dtype)]


def _conv_weight_gradient(
    t: Text, op: ConvWeightGradient, types: Sequence[TensorType], x: Val, g: Val
) -> Sequence[Val]:
    """A convolution of x with the cotangent as filters: images are summed, and channels are the images."""
    extents = zip(x.type.shape[2:], g.type.shape[2:], op.window, op.strides, op.padding, op.rhs_dilation, strict=True)
    padding = [
        (low, (k - 1) * dilation + (out - 1) * stride + 1 - n - low)
        for n, out, k, stride, (low, _), dilation in extents
    ]
    out, channels, *window = types[0].shape
    result = TensorType((channels, out, *window), _accumulated(op, x))
    steps = {"window_strides": op.rhs_dilation, "lhs_dilation": [1] * len(window), "rhs_dilation": op.strides}
    gradient = _convolution(t, _exchanged(t, x), _exchanged(t, g), result, padding, (1, op.groups), **steps)
    return [t.convert(_exchanged(t, gradient), types[0].dtype)]


def _exchanged(t: Text, x: Val) -> Val:
    """The first two axes exchanged."""
    first, second, *rest = x.type.shape
    type = TensorType((second, first, *rest), x.type.dtype)
    return t.one("stablehlo.transpose", (x,), type, {"permutation": integers([1, 0, *range(2, x.type.rank)])})


# -- positions


def _gather(t: Text, op: Gather, types: Sequence[TensorType], x: Val, indices: Val) -> Sequence[Val]:
    batch, last = range(op.batch), indices.type.rank - 1
    sizes = [1 if k in op.axes or k in batch else n for k, n in enumerate(x.type.shape)]
    numbers = {
        "offset_dims": range(last, types[0].rank),
        "collapsed_slice_dims": sorted(op.axes),
        "operand_batching_dims": batch,
        "start_indices_batching_dims": batch,
        "start_index_map": op.axes,
    }
    attributes = {"dimension_numbers": _numbers("gather", numbers, last), "slice_sizes": integers(sizes)}
    return [t.one("stablehlo.gather", (x, indices), types[0], attributes)]


def _scatter(t: Text, op: Scatter, types: Sequence[TensorType], x: Val, indices: Val, updates: Val) -> Sequence[Val]:
    batch, last = range(op.batch), indices.type.rank - 1
    numbers = {
        "update_window_dims": range(last, updates.type.rank),
        "inserted_window_dims": sorted(op.axes),
        "input_batching_dims": batch,
        "scatter_indices_batching_dims": batch,
        "scatter_dims_to_operand_dims": op.axes,
    }
    is_set = op.op == "set"
    dtype = x.type.dtype if is_set else _wide(ReduceOp(op.op), x.type.dtype)
    element = TensorType((), dtype)
    body = _latest if is_set else _combine(t, ReduceOp(op.op))
    operands = t.convert(x, dtype), indices, t.convert(updates, dtype)
    attributes = {"scatter_dimension_numbers": _numbers("scatter", numbers, last)}
    result = TensorType(types[0].shape, dtype)
    (scattered,) = t.op("stablehlo.scatter", operands, (result,), attributes, [((element, element), body)])
    return [t.convert(scattered, types[0].dtype)]


def _numbers(name: str, axes: Mapping[str, Sequence[int]], last: int) -> str:
    listed = "".join(f"{key} = [{', '.join(map(str, of))}], " for key, of in axes.items() if len(of))
    return f"#stablehlo.{name}<{listed}index_vector_dim = {last}>"


def _sort(t: Text, op: Sort, types: Sequence[TensorType], *xs: Val) -> Sequence[Val]:
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


# -- factorizations


def _cholesky(t: Text, op: Cholesky, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    return [t.one("stablehlo.cholesky", (x,), types[0], {"lower": "true"})]


def _triangular_solve(t: Text, op: TriangularSolve, types: Sequence[TensorType], a: Val, y: Val) -> Sequence[Val]:
    attributes = {
        "left_side": "true",
        "lower": "true" if op.lower else "false",
        "unit_diagonal": "false",
        "transpose_a": f"#stablehlo<transpose {'TRANSPOSE' if op.transpose else 'NO_TRANSPOSE'}>",
    }
    return [t.one("stablehlo.triangular_solve", (a, y), types[0], attributes)]


def _custom_call(t: Text, op: Primitive, types: Sequence[TensorType], *xs: Val) -> Sequence[Val]:
    """A factorization that StableHLO does not have: a call of the function of this name."""
    target = f'"mxforge.{op.name.partition(".")[2]}"'
    return t.op("stablehlo.custom_call", xs, types, {"call_target_name": target, "api_version": "4 : i32"})


RULES: dict[type[Primitive], Rule] = {
    Broadcast: _broadcast,
    Reshape: _reshape,
    Transpose: _transpose,
    Slice: _slice,
    Reverse: _reverse,
    Concat: _concat,
    Pad: _pad,
    Relayout: _relayout,
    Constant: _constant,
    Size: _size,
    Iota: _iota,
    RandomBits: _random_bits,
    Pointwise: _pointwise,
    Cast: _cast,
    Reduce: _reduce,
    ReduceWindow: _reduce_window,
    Cumulative: _cumulative,
    SelectAndScatter: _select_and_scatter,
    Dot: _dot,
    Conv: _conv,
    ConvWeightGradient: _conv_weight_gradient,
    Gather: _gather,
    Scatter: _scatter,
    Sort: _sort,
    Cholesky: _cholesky,
    TriangularSolve: _triangular_solve,
    LU: _custom_call,
    LQ: _custom_call,
    SymmetricEigen: _custom_call,
}
