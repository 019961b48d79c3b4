"""mx.metric beyond the recorded programs: cases in which MXNet is wrong."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import mxforge as mx
import numpy as np
import pytest


def test_pcc_counts_every_label_whatever_its_shape() -> None:
    draws = np.random.RandomState(0)
    labels, preds = draws.randint(0, 3, (4, 5)), draws.rand(4, 3, 5)
    flat, shaped = mx.metric.PCC(), mx.metric.PCC()
    flat.update([mx.nd.array(labels.ravel())], [mx.nd.array(preds.transpose(0, 2, 1).reshape(-1, 3))])
    shaped.update([mx.nd.array(labels)], [mx.nd.array(preds)])
    column = mx.metric.PCC()
    column.update([mx.nd.array(labels.reshape(-1, 1))], [mx.nd.array(preds.transpose(0, 2, 1).reshape(-1, 3))])
    assert flat.lcm.sum() == 20
    assert flat.get() == shaped.get() == column.get()
    with pytest.raises(ValueError, match="does not match"):
        flat.update([mx.nd.ones((3,))], [mx.nd.ones((4, 2))])


def test_accuracy_names_a_missing_axis() -> None:
    with pytest.raises(mx.MXNetError, match=r"accuracy: predictions \(4,\) have no axis 1"):
        mx.metric.Accuracy().update([mx.nd.ones((3,))], [mx.nd.ones((4,))])


def test_subclasses_can_set_the_sums_of_a_metric() -> None:
    class Last(mx.metric.EvalMetric):
        def update(self, labels: list[mx.nd.NDArray], preds: list[mx.nd.NDArray]) -> None:
            self.sum_metric, self.num_inst = float(preds[0].asnumpy()[-1]), 1

    metric = Last("last", label_names=["y"], output_names=["out"])
    metric.update_dict({"y": mx.nd.ones((1,)), "z": mx.nd.ones((2,))}, {"out": mx.nd.array([1, 4])})
    assert metric.get_global() == metric.get() == ("last", 4.0)


def test_sums_are_exact_over_many_batches() -> None:
    class Own(mx.metric.EvalMetric):
        def update(self, labels: list[mx.nd.NDArray], preds: list[mx.nd.NDArray]) -> None:
            self.sum_metric += preds[0].asnumpy().sum()
            self.num_inst += 1

    loss, own = mx.metric.Loss(), Own("own")
    for amount in (2**24, 1, 1):  # float32 would lose both ones
        loss.update(None, [mx.nd.array([amount])])
        own.update([], [mx.nd.array([amount])])
    assert loss.sum_metric == own.sum_metric == 2**24 + 2
    assert str(loss) == f"EvalMetric: {{'loss': {(2**24 + 2) / 3}}}"
    assert type(own.get()[1]) is float


def _through_pickle(metric: Any) -> Any:
    return pickle.loads(pickle.dumps(metric))


@pytest.mark.parametrize("copied", [copy.deepcopy, _through_pickle])
@pytest.mark.parametrize("average", ["macro", "micro"])
@pytest.mark.parametrize("kind", ["f1", "mcc"])
def test_a_copy_of_a_binary_metric_counts_separately(kind: str, average: str, copied: Callable[[Any], Any]) -> None:
    label, right = [mx.nd.array([1, 0, 1])], [mx.nd.array([[0, 1], [1, 0], [0, 1]])]
    wrong = [mx.nd.array([[1, 0], [0, 1], [1, 0]])]
    metric = mx.metric.create(kind, average=average)
    metric.update(label, right)
    twin = copied(metric)
    assert twin.get() == metric.get() == (kind, 1.0)
    metric.reset()
    metric.update(label, wrong)
    twin.update(label, right)
    assert twin.get() == twin.get_global() == (kind, 1.0)
    assert metric.get()[1] == {"f1": 0.0, "mcc": -1.0}[kind]
