"""Inference of shapes and dtypes in both directions, and its errors."""

from __future__ import annotations

from typing import Any

import pytest
from mxforge.ir.dialects.mx.infer_types import InferenceError, Use, infer_types
from mxforge.ir.dialects.mx.operator import Operator, lookup
from mxforge.ir.dialects.mx.shapes import UNKNOWN, Extents, PartialShape
from mxforge.ir.types import DType


def op(name: str, **attrs: Any) -> Operator:
    return lookup(name).parse(attrs)


def test_weights_follow_from_data() -> None:
    uses = [
        Use(op("Convolution", kernel=(3, 3), num_filter=8), (0, 1, 2), (3,)),
        Use(op("BatchNorm"), (3, 4, 5, 6, 7), (8, 9, 10)),
        Use(op("FullyConnected", num_hidden=5), (8, 11, 12), (13,)),
    ]
    known = infer_types(uses, {0: (2, 3, 8, 8)}, {0: DType.F16})
    assert [known.shapes[i] for i in (1, 2, 4, 7)] == [(8, 3, 3, 3), (8,), (8,), (8,)]
    assert [known.shapes[i] for i in (11, 12, 13)] == [(5, 288), (5,), (2, 5)]
    assert known.dtypes[1] is DType.F16
    assert known.dtypes[4] is DType.F32
    assert known.dtypes[13] is DType.F16


def test_data_follows_from_output() -> None:
    uses = [Use(op("elemwise_add"), (0, 1), (2,)), Use(op("Activation", act_type="relu"), (2,), (3,))]
    known = infer_types(uses, {3: (4, 5)}, {3: DType.F64})
    assert known.shapes[0] == known.shapes[1] == (4, 5)
    assert known.dtypes[1] is DType.F64


def test_unknown_extents_come_from_the_consumer() -> None:
    uses = [
        Use(op("_zeros", shape=(2, -1, 4)), (), (0,)),
        Use(op("RNN", mode="gru", state_size=4, num_layers=2), (1, 2, 0), (3,)),
    ]
    known = infer_types(uses, {1: (7, 3, 5)})
    assert known.shapes[0] == (2, 3, 4)
    assert known.shapes[2] == (3 * 4 * (5 + 4 + 4 + 4) + 4 * 12,)
    assert known.uses[0].op.attrs() == {"shape": "(2, 3, 4)"}


def test_what_does_not_follow_stays_unknown() -> None:
    known = infer_types([Use(op("FullyConnected", num_hidden=3), (0, 1, 2), (3,))], {0: (UNKNOWN, 6)})
    assert known.shapes[3] == (UNKNOWN, 3)
    assert known.unknown((0, 1, 3)) == [0, 3]


def test_contradiction_names_node_operator_and_shapes() -> None:
    uses = [Use(op("FullyConnected", num_hidden=3), (0, 1, 2), (3,), "fc1")]
    with pytest.raises(InferenceError, match=r"fc1 \(FullyConnected\)(?s:.*)weight: \(4, 6\)"):
        infer_types(uses, {0: (2, 5), 1: (4, 6)})


@pytest.mark.parametrize(
    ("name", "attrs", "shape", "expected"),
    [
        ("Reshape", {"shape": (-1, 6)}, (UNKNOWN, 3, 2), (UNKNOWN, 6)),
        ("Flatten", {}, (UNKNOWN, 3, 2), (UNKNOWN, 6)),
        ("Flatten", {}, (0, 3, UNKNOWN), (0, UNKNOWN)),
        ("FullyConnected", {"num_hidden": 4, "no_bias": True}, (UNKNOWN, 0), (UNKNOWN, 4)),
        ("transpose", {}, (UNKNOWN, 3, 0), (0, 3, UNKNOWN)),
        ("Pooling", {"kernel": (2, 2)}, (UNKNOWN, 3, 8, 8), (UNKNOWN, 3, 7, 7)),
        ("mean", {"axis": 1}, (UNKNOWN, 3, 8, 0), (UNKNOWN, 8, 0)),
        ("SliceChannel", {"num_outputs": 7, "axis": 0}, (UNKNOWN, 3), None),
    ],
)
def test_unknown_extents_stay_unknown_and_the_others_follow(
    name: str, attrs: dict[str, Any], shape: Extents, expected: PartialShape
) -> None:
    operator = op(name, **attrs)
    inputs = tuple(range(-len(operator.input_names()) + 1, 1))[::-1]
    known = infer_types([Use(operator, inputs, tuple(range(1, 1 + operator.num_outputs)))], {0: shape})
    assert known.shapes[1] == expected


@pytest.mark.parametrize(
    ("squeeze", "piece", "data"),
    [(True, (5, 2), (5, 3, 2)), (False, (5, 4, 2), (5, 12, 2)), (False, (5, UNKNOWN, 2), (5, UNKNOWN, 2))],
)
def test_the_parts_of_a_split_say_what_the_whole_is(squeeze: bool, piece: Any, data: tuple[int, ...]) -> None:
    use = Use(op("SliceChannel", num_outputs=3, squeeze_axis=squeeze), (0,), (1, 2, 3))
    known = infer_types([use], {0: (UNKNOWN,) * 3, 2: piece})
    assert known.shapes[0] == data
    assert known.shapes[1] == piece


def test_a_convolution_of_stride_1_says_what_its_data_are() -> None:
    attributes = dict(kernel=(3, 5), dilate=(2, 1), pad=(1, 0), num_filter=8)
    use = Use(op("Convolution", **attributes), (0, 1, 2), (3,))
    assert infer_types([use], {0: (UNKNOWN, 3, UNKNOWN, UNKNOWN), 3: (2, 8, 10, 7)}).shapes[0] == (2, 3, 12, 11)
    strided = Use(op("Convolution", stride=(2, 1), **attributes), (0, 1, 2), (3,))
    assert infer_types([strided], {0: (UNKNOWN, 3, UNKNOWN, UNKNOWN), 3: (2, 8, 10, 7)}).shapes[0] == (
        2,
        3,
        UNKNOWN,
        11,
    )
    last = Use(op("Convolution", layout="NHWC", **attributes), (0, 1, 2), (3,))
    assert infer_types([last], {0: (UNKNOWN, UNKNOWN, UNKNOWN, 3), 3: (2, 10, 7, 8)}).shapes[0] == (2, 12, 11, 3)
