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


FRAMES = np.random.RandomState(0).randn(5, 2, 4).astype("float32")


class CTC(mx.gluon.HybridBlock):
    def hybrid_forward(self, F: Any, data: Any, label: Any, lengths: Any) -> Any:
        return F.ctc_loss(data, label, lengths, use_data_lengths=True)


@pytest.mark.parametrize("hybridize", [False, True])
def test_ctc_ignores_padding_of_nan(hybridize: bool) -> None:
    frames = FRAMES.copy()
    frames[3:, 0] = np.nan
    x = nd.array(frames)
    x.attach_grad()
    block = CTC()
    if hybridize:
        block.hybridize()
    with mx.autograd.record():
        loss = block(x, nd.array([[1, 2], [2, 1]]), nd.array([3, 5]))
    loss.backward()
    np.testing.assert_allclose(loss.asnumpy(), [3.6843984, 1.7215499], rtol=1e-5)
    gradient: Any = x.grad
    gradient = gradient.asnumpy()
    np.testing.assert_allclose(gradient[0, 0], [-0.144977, -0.477109, 0.137234, 0.484852], atol=1e-5)
    assert not gradient[3:, 0].any() and np.isfinite(gradient).all()


def test_ctc_refuses_more_labels_than_steps() -> None:
    message = "the axis of labels, 5, is longer than the sequences of data, 3"
    data, label = nd.ones((3, 2, 4)), nd.array([[1, 0, 0, 0, 0], [2, 1, 0, 0, 0]])
    with pytest.raises(mx.MXNetError, match=message):
        nd.ctc_loss(data, label)
    with pytest.raises(mx.MXNetError, match=message):
        mx.gluon.loss.CTCLoss(layout="TNC")(data, label)
    with pytest.raises(mx.MXNetError, match=message):
        mx.sym.ctc_loss(mx.sym.var("data"), mx.sym.var("label")).infer_shape(data=(3, 2, 4), label=(2, 5))
    block = mx.gluon.loss.CTCLoss(layout="TNC")
    block.hybridize()
    block(nd.ones((6, 2, 4)), label)
    block(nd.ones((7, 2, 4)), label)  # this program serves later extents
    with pytest.raises(mx.MXNetError, match=message):
        block(data, label)


@pytest.mark.parametrize(
    ("label", "parameters", "wrong"),
    [
        ([[4, 1], [2, 1]], {}, 4),
        ([[1, -1], [2, 1]], {}, -1),
        ([[1, 0], [0, 9]], {}, None),
        ([[1, -1], [-1, 9]], {"blank_label": "last"}, None),
        ([[0, 7], [-1, 9]], {"blank_label": "last"}, 7),
        ([[0, -2], [1, 1]], {"blank_label": "last"}, -2),
        ([[1, 9], [2, 1]], {"use_label_lengths": True}, None),
        ([[9, 1], [2, 1]], {"use_label_lengths": True}, 9),
    ],
    ids=str,
)
def test_ctc_refuses_classes_that_data_lacks(label: Any, parameters: dict[str, Any], wrong: int | None) -> None:
    """MXNet reads beyond its memory."""
    operands: list[Any] = [nd.array(FRAMES), nd.array(label)]
    if parameters.get("use_label_lengths"):
        parameters = {**parameters, "label_lengths": nd.array([1, 2])}
    if wrong is None:
        assert np.isfinite(nd.ctc_loss(*operands, **parameters).asnumpy()).all()
        return
    operands[0].attach_grad()
    for mode in (mx.autograd.pause(), mx.autograd.record()):
        with mode, pytest.raises(mx.MXNetError, match=f"label has the class {wrong}, data has the classes 0 to 3"):
            nd.ctc_loss(*operands, **parameters)


@pytest.mark.parametrize(
    ("name", "lengths", "message"),
    [
        ("data_lengths", [7, 5], "data_lengths has the length 7, the longest is 5"),
        ("data_lengths", [-1, 5], "data_lengths has the length -1, the longest is 5"),
        ("label_lengths", [3, 2], "label_lengths has the length 3, the longest is 2"),
    ],
)
def test_ctc_refuses_lengths_beyond_the_axis(name: str, lengths: list[int], message: str) -> None:
    """MXNet writes beyond its memory."""

    class Loss(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, data: Any, label: Any, lengths: Any) -> Any:
            return F.ctc_loss(data, label, **{name: lengths, f"use_{name}": True})

    operands = nd.array(FRAMES), nd.array([[1, 2], [2, 1]])
    loss = Loss()
    with pytest.raises(mx.MXNetError, match=message):
        loss(*operands, nd.array(lengths))
    loss.hybridize()
    assert np.isfinite(loss(*operands, nd.array([1, 2])).asnumpy()).all()
    with pytest.raises(mx.MXNetError, match=f"{name} has a length below 0 or beyond the axis"):
        loss(*operands, nd.array(lengths))
