"""Inference from partly known shapes and dtypes infers at least as much as MXNet, and finds the same contradictions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from make_partial_shapes import answer, as_text  # pyright: ignore[reportMissingImports]

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "partial_shapes.json").read_text())

# MXNet reports a contradiction for an unknown extent, rank or dtype.
REFUSED_THERE = (
    "transpose(x) +",
    "slice_like(x, y) {'x': (2, 0)",
    "broadcast_like(x, y) {'x': (2, 0)",
    "split_v2",
    "linalg.trsm",
    "SoftmaxOutput",
    "LinearRegressionOutput",
    "random.normal(x, y, shape",
    "diag",
    "batch_take",
    "CTCLoss",
    "Embedding",
    "norm(x, out_dtype",
)
# Matrices that are not square, which MXNet accepts.
REFUSED_HERE = ("linalg.potrf", "linalg.sumlogdiag")


def known_as_well(ours: Any, theirs: Any) -> bool:
    """True if every shape, extent and dtype that MXNet infers is inferred."""
    if isinstance(theirs, list):
        return not theirs or (
            len(ours) == len(theirs) and all(known_as_well(a, b) for a, b in zip(ours, theirs, strict=True))
        )
    return theirs in (0, None) or ours == theirs


@pytest.mark.parametrize("row", RECORDED["shapes"] + RECORDED["dtypes"], ids=lambda row: f"{row[0]} {row[1]}")
def test_inference_knows_at_least_what_mxnet_knows(row: Any) -> None:
    text, known, theirs = row
    method = "infer_type_partial" if isinstance(next(iter(known.values())), str) else "infer_shape_partial"
    given = {name: value if isinstance(value, str) else tuple(value) for name, value in known.items()}
    ours = json.loads(json.dumps(answer(mx, text, given, method), default=as_text))[2]
    where = f"{text} {given}"
    if theirs == "refused":
        assert ours == theirs or where.startswith(REFUSED_THERE)
    elif ours == "refused":
        assert where.startswith(REFUSED_HERE)
    else:
        assert known_as_well(ours, theirs), (ours, theirs)


@pytest.mark.parametrize(
    ("text", "shape"),
    [("slice(x, begin=(0, 1), end=(2, 3))", (0, 3)), ("squeeze(x)", (0, 3)), ("diag(x)", (0, 3))],
)
def test_small_extents_remain_possible(text: str, shape: tuple[int, ...]) -> None:
    """Slices stop at the extent, `squeeze` removes extents of 1, the shorter axis determines a diagonal's length."""
    (found,) = answer(mx, text, {"x": shape}, "infer_shape_partial")[2][1]
    assert found in ((), (0,), (0, 2))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("slice(x, begin=(0, 1), end=(1, 3))", (0, 2)),
        ("slice_axis(x, axis=0, begin=0, end=1)", (0, 4)),
        ("slice_axis(x, axis=0, begin=-2, end=None)", (0, 4)),
    ],
)
def test_a_part_of_an_unknown_extent_is_unknown(text: str, expected: tuple[int, ...]) -> None:
    """MXNet 1.9.1 infers the same: an array with the extent 0 can be given."""
    (found,) = answer(mx, text, {"x": (0, 4)}, "infer_shape_partial")[2][1]
    assert found == expected


# --- contradictions, all of which MXNet 1.9.1 refuses -----------------------------------------------------------------

CONTRADICTIONS: list[tuple[str, dict[str, tuple[int, ...]]]] = [
    ("elemwise_add(x, y)", {"x": (2, 3), "y": (3, 2)}),
    ("broadcast_add(x, y)", {"x": (2, 3), "y": (4,)}),
    ("FullyConnected(x, y, num_hidden=4, no_bias=True)", {"x": (2, 5), "y": (4, 6)}),
    ("SoftmaxOutput(x, y)", {"x": (2, 3), "y": (3,)}),
    ("SoftmaxOutput(x, y)", {"x": (2, 3, 4), "y": (2,)}),
    ("SoftmaxOutput(x, y, preserve_shape=True)", {"x": (2, 3, 4), "y": (2,)}),
    ("SoftmaxOutput(x, y, multi_output=True)", {"x": (2, 3, 4), "y": (2, 3)}),
    ("LinearRegressionOutput(x, y)", {"x": (2, 3), "y": (3, 2)}),
    ("MAERegressionOutput(x, y)", {"x": (2, 3), "y": (6,)}),
    ("LogisticRegressionOutput(x, y)", {"x": (1, 4), "y": (4,)}),
    ("where(x, y, z)", {"x": (3,), "y": (2, 3), "z": (2, 3)}),
    ("where(x, y, z)", {"x": (1,), "y": (2, 3), "z": (2, 3)}),
    ("L2Normalization(x, mode='channel')", {"x": (2, 3)}),
    ("L2Normalization(x, mode='spatial')", {"x": (2, 3)}),
    ("SequenceMask(x, y, use_sequence_length=True)", {"x": (5, 2, 3), "y": (3,)}),
    ("pick(x, y, axis=1)", {"x": (2, 3), "y": (3,)}),
    ("Concat(x, y, dim=1)", {"x": (2, 3), "y": (3, 3)}),
]


@pytest.mark.parametrize(("text", "shapes"), CONTRADICTIONS, ids=str)
def test_contradictions_are_refused_before_a_run(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    names = {name: mx.sym.var(name) for name in "xyz"}
    symbol = eval(text, {name: getattr(mx.sym, name) for name in (text.partition("(")[0],)} | names)
    with pytest.raises(mx.MXNetError, match="Error in operator"):
        symbol.infer_shape(**shapes)
    with pytest.raises(mx.MXNetError, match="Error in operator"):
        symbol.bind(mx.cpu(), {name: mx.nd.ones(shape) for name, shape in shapes.items()})
    with pytest.raises(RuntimeError, match=r"simple_bind error\. Arguments:\n.*(?s:.*)Error in operator") as caught:
        symbol.simple_bind(mx.cpu(), **shapes)
    assert not isinstance(caught.value, mx.MXNetError)


def test_labels_that_mxnet_accepts() -> None:
    for label in ((2, 12), (2, 3, 4), (2, 1, 3, 4), (2, 5, 3, 4)):
        out = mx.sym.SoftmaxOutput(mx.sym.var("x"), mx.sym.var("y"), multi_output=True)
        assert out.infer_shape(x=(2, 5, 3, 4), y=label)[1] == [(2, 5, 3, 4)]
    assert out.infer_shape(x=(2, 5, 3, 4))[0] == [(2, 5, 3, 4), (2, 12)]


def test_draws_with_parameters_of_any_dtype_are_float32() -> None:
    for dtype in ("float16", "float64", "int32"):
        low = mx.nd.array([1, 2], dtype=dtype)
        assert mx.nd.sample_uniform(low, low + 1).dtype == np.float32
    assert mx.nd.sample_uniform(low, low + 1, dtype="float64").dtype == np.float64


def test_shapes_of_data_whose_dtype_is_unknown() -> None:
    """As in a block that was cast before its first call: the dtypes of its parameters are known."""
    vectors: list[Any] = [mx.sym.var(name, dtype="float64") for name in ("gamma", "beta", "mean", "var")]
    normalized = mx.sym.BatchNorm(mx.sym.var("data"), *vectors)
    assert normalized.infer_shape(data=(2, 3, 4, 4)) == ([(2, 3, 4, 4), (3,), (3,)], [(2, 3, 4, 4)], [(3,), (3,)])
