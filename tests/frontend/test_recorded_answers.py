"""Answers of MXNet 1.9.1 to calls whose operands random values do not reach."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest

nd = mx.nd

BOXES = [
    [-1, 0.9, 0, 0, 1, 1],
    [0, 0.8, 0, 0, 1, 1],
    [1, 0.7, 0, 0, 1, 1],
    [2, 0.6, 5, 5, 6, 6],
    [-2, 0.5, 7, 7, 8, 8],
    [-1, 0.4, 9, 9, 10, 10],
]


@pytest.mark.parametrize(
    ("parameters", "classes"),
    [
        ({}, [-1, 2, -2, -1]),
        ({"id_index": 0}, [0, 1, 2, -2]),
        ({"id_index": 0, "background_id": 0}, [-1, 1, 2, -2, -1]),
        ({"id_index": 0, "background_id": -2}, [-1, 0, 1, 2, -1]),
        ({"id_index": 0, "force_suppress": True}, [0, 2, -2]),
        ({"id_index": 0, "topk": 2}, [0, 1]),
        ({"id_index": 0, "topk": 2, "background_id": -5}, [-1, 0]),
    ],
    ids=str,
)
def test_box_nms_removes_the_class_of_the_background(parameters: dict[str, Any], classes: list[int]) -> None:
    kept = nd.contrib.box_nms(nd.array(BOXES), coord_start=2, score_index=1, **parameters).asnumpy()
    assert kept[: len(classes), 0].tolist() == classes
    assert (kept[len(classes) :] == -1).all()


def test_sync_batch_norm_returns_the_variance() -> None:
    x = nd.array(np.random.RandomState(0).randn(4, 3, 2))
    one, zero = nd.ones((3,)), nd.zeros((3,))
    with mx.autograd.train_mode():
        _, mean, var = nd.contrib.SyncBatchNorm(x, one, zero, zero, one, output_mean_var=True, key="a")
    np.testing.assert_allclose(mean.asnumpy().ravel(), [0.4130782, 0.30064714, 0.48747367], rtol=1e-5)
    np.testing.assert_allclose(var.asnumpy().ravel(), [0.53174865, 1.5861242, 1.0312351], rtol=1e-5)


def test_no_copies_require_numpy_shapes() -> None:
    """The fast path of a call does not serve a call with other shape semantics."""
    x = nd.ones((2, 3))
    for _ in range(2):
        with mx.util.np_shape():
            assert nd.tile(x, reps=(2, 0)).shape == (4, 0)
            assert nd.tile(x, reps=(2, 0)).shape == (4, 0)
        with pytest.raises(mx.MXNetError, match="reps"):
            nd.tile(x, reps=(2, 0))
        with pytest.raises(mx.MXNetError, match="reps"):
            x.tile((0,))
    with pytest.raises(mx.MXNetError, match="reps"):
        mx.sym.tile(mx.sym.var("x"), reps=(2, 0)).infer_shape(x=(2, 3))
