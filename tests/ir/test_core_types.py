"""The type rules of core: what they reject and with which errors, and the builder's combinations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from mxforge.ir.dialects.core import ConvWeightGradient, CoreBuilder, Fused, Relayout
from mxforge.ir.graph import Graph, GraphError, Value
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.types import DType, Layout, TensorType

F32, I8, U8 = DType.F32, DType.I8, DType.U8


def value(b: CoreBuilder, *shape: int, dtype: DType = DType.F32) -> Value:
    return b.input(TensorType(shape, dtype))


REFUSED: list[tuple[str, Callable[[CoreBuilder], object]]] = [
    (r"operands of one shape, got \(2,\), \(3,\)", lambda b: b.add(value(b, 2), value(b, 3))),
    ("operands of one dtype", lambda b: b.add(value(b, 2), value(b, 2, dtype=DType.F64))),
    ("exp is defined on floats", lambda b: b.exp(value(b, 2, dtype=DType.I32))),
    (r"\(3,\) does not broadcast to \(2, 4\)", lambda b: b.broadcast(value(b, 3), (2, 4), (1,))),
    ("must increase", lambda b: b.broadcast(value(b, 3, 2), (2, 3), (1, 0))),
    (r"cannot reshape \(2, 3\) with 6 elements to \(4,\)", lambda b: b.reshape(value(b, 2, 3), (4,))),
    ("contain an axis twice", lambda b: b.transpose(value(b, 2, 3), (1, 1))),
    ("is out of range", lambda b: b.slice_axis(value(b, 2, 3), 1, 1, 4)),
    ("differ outside axis 0", lambda b: b.concat([value(b, 2, 3), value(b, 2, 4)], 0)),
    ("crops more elements than", lambda b: b.pad(value(b, 2), b.constant(0.0), [-2], [-1])),
    ("rank 1, not 0", lambda b: b.pad(value(b, 2), value(b, 1), [1], [1])),
    ("must be integers", lambda b: b.gather(value(b, 2), value(b, 3, 1), (0,))),
    ("must end in an axis of 1 coordinates", lambda b: b.gather(value(b, 2), value(b, 3, dtype=DType.I32), (0,))),
    (
        r"the indices require \(3,\)",
        lambda b: b.scatter(value(b, 2), value(b, 3, 1, dtype=DType.I32), value(b, 2), "add", (0,)),
    ),
    (
        "not a valid ReduceOp",
        lambda b: b.scatter(value(b, 2), value(b, 3, 1, dtype=DType.I32), value(b, 3), "sub", (0,)),
    ),
    ("are out of range for rank 1", lambda b: b.sum(value(b, 2), (1,))),
    ("and is not defined on float32", lambda b: b.reduce(ReduceOp.AND, value(b, 2))),
    ("axis 0 of \\(0,\\) is empty", lambda b: b.arg_reduce("max", value(b, 0), 0)),
    (
        "strides has 1 entries for 2 axes",
        lambda b: b.reduce_window(ReduceOp.ADD, value(b, 2, 2), (1, 1), (1,), ((0, 0),) * 2),
    ),
    ("contracted axes", lambda b: b.dot(value(b, 2, 3), value(b, 2, 3), (), (), (1,), (0,))),
    ("operands differ in dtype: i8, ui8", lambda b: b.matmul(value(b, 2, 2, dtype=I8), value(b, 2, 2, dtype=U8))),
    ("sums of i32 cannot hold products of f32 and f32", lambda b: b.matmul(value(b, 2, 2), value(b, 2, 2), DType.I32)),
    ("sums of i8 cannot hold", lambda b: b.matmul(value(b, 2, 2, dtype=I8), value(b, 2, 2, dtype=I8), I8)),
    ("sums of bf16 cannot hold", lambda b: b.matmul(value(b, 2, 2), value(b, 2, 2), DType.BF16)),
    (
        "sums of f32 cannot hold products of i8 and i8",
        lambda b: b.conv(value(b, 1, 3, 4, dtype=I8), value(b, 1, 3, 1, dtype=I8), (1,), ((0, 0),), accumulator=F32),
    ),
    ("reads 2 channels in 1 groups", lambda b: b.conv(value(b, 1, 3, 4), value(b, 1, 2, 1), (1,), ((0, 0),))),
    (
        r"the cotangent has shape \(1, 2, 4\), the convolution \(1, 2, 3\)",
        lambda b: b.add_node(ConvWeightGradient((2,), (1,), ((0, 0),), (1,)), value(b, 1, 3, 4), value(b, 1, 2, 4)),
    ),
    (
        "2 groups do not divide",
        lambda b: b.add_node(ConvWeightGradient((2,), (1,), ((0, 0),), (1,), 2), value(b, 1, 3, 4), value(b, 1, 2, 3)),
    ),
    (
        "data, columns, pointers",
        lambda b: b.csr_dot(value(b, 2), b.iota((3,), DType.I64, 0), b.iota((2,), DType.I64, 0), value(b, 2, 2)),
    ),
    ("columns and pointers are integers", lambda b: b.csr_dot(value(b, 2), value(b, 2), value(b, 2), value(b, 2, 2))),
    ("differ in shape", lambda b: b.sort([value(b, 2), value(b, 3)], 0)),
    ("the key must be", lambda b: b.random_bits(value(b, 4), (2,))),
    ("spatial axes does not fit", lambda b: b.relayout(value(b, 1, 2, 3), Layout(8, ()))),
]


def _pair() -> Graph:
    b = CoreBuilder("pair")
    return b.build([b.add(value(b, 2), value(b, 2))])


PAIR = _pair()


@pytest.mark.parametrize(("message", "build"), REFUSED)
def test_refused(message: str, build: Callable[[CoreBuilder], object]) -> None:
    with pytest.raises(GraphError, match=message):
        build(CoreBuilder())


@pytest.mark.parametrize(
    ("lhs", "rhs", "accumulator"),
    [
        (I8, I8, DType.I32),
        (U8, I8, DType.I32),
        (DType.BF16, DType.BF16, F32),
        (DType.F16, F32, F32),
        (F32, F32, DType.F64),
    ],
)
def test_sums_have_the_dtype_of_the_accumulator(lhs: DType, rhs: DType, accumulator: DType) -> None:
    b = CoreBuilder()
    product = b.matmul(value(b, 2, 3, dtype=lhs), value(b, 3, 4, dtype=rhs), accumulator)
    x, w = value(b, 1, 2, 5, dtype=lhs), value(b, 3, 2, 3, dtype=rhs)
    convolved = b.conv(x, w, (1,), ((1, 1),), accumulator=accumulator)
    assert (product.type, convolved.type) == (TensorType((2, 4), accumulator), TensorType((1, 3, 5), accumulator))


def test_bodies_must_fit() -> None:
    b = CoreBuilder()
    with pytest.raises(GraphError, match=r"the body takes \(tensor<2xf32>, tensor<2xf32>\), got \(tensor<2xf32>\)"):
        b.call(PAIR, value(b, 2))
    with pytest.raises(GraphError, match="a leading axis of 3"):
        b.scan(PAIR, [value(b, 2)], [value(b, 2, 2)], [], 3)
    with pytest.raises(GraphError, match=r"must be a tensor<i1>"):
        b.cond(value(b, 2), PAIR, PAIR, value(b, 2), value(b, 2))
    (result,) = b.node(Fused(PAIR, "pointwise"), value(b, 2), value(b, 2)).outputs
    assert result.type == TensorType((2,), DType.F32)


def test_results_are_row_major_until_a_layout_is_assigned() -> None:
    b = CoreBuilder()
    x = value(b, 1, 8, 4)
    blocked = b.relayout(x, Layout(8, ((1, 1),)))
    assert blocked.type.layout is not None
    assert b.exp(blocked).type == x.type
    assert b.node(Relayout(None), blocked).outputs[0].type == x.type


def test_builder_combinations() -> None:
    b = CoreBuilder()
    x = value(b, 2, 3, 1)
    assert b.expand_dims(x, -1).type.shape == (2, 3, 1, 1)
    assert b.squeeze(x).type.shape == (2, 3)
    assert b.reshape(x, (-1, 2)).type.shape == (3, 2)
    assert b.mean(x, -2, keepdims=True).type.shape == (2, 1, 1)
    assert b.take(x, b.constant([[0, 1]]), 1).type.shape == (2, 1, 2, 1)
    assert [v.type.shape for v in b.broadcast_pair(x, value(b, 4))] == [(2, 3, 4), (2, 3, 4)]
    assert b.cast(x, DType.F32) is x and b.transpose(x, (0, 1, 2)) is x
    assert b.sub(1, x).type == x.type
    assert b.any(x).type == TensorType((), DType.BOOL)
    assert [b.constant(v).type.dtype for v in (1.5, 2, True, np.float64(1))] == [
        DType.F32,
        DType.I64,
        DType.BOOL,
        DType.F64,
    ]
