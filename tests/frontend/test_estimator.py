"""The estimator where it differs from MXNet's; programs/estimator.py has what both do."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.gluon.contrib import estimator as parts


class Log(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def loader(batch: int = 2) -> mx.gluon.data.DataLoader:
    points = np.random.RandomState(0).randn(8, 3).astype("float32")
    return mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(points, (points[:, 0] > 0).astype("float32")), batch)


def made(rate: float = 0.1) -> tuple[parts.Estimator, list[str]]:
    net = mx.gluon.nn.Dense(2, in_units=3)
    net.initialize(mx.init.One())
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": rate, "momentum": 0.9})
    found = parts.Estimator(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer)
    log = Log()
    found.logger.handlers = [log]
    return found, log.lines


def weights(estimator: parts.Estimator) -> Any:
    return estimator.net.weight.data().asnumpy()


def test_a_list_of_handlers_can_be_used_again() -> None:
    estimator, _ = made()
    handlers = [parts.MetricHandler(estimator.train_metrics)]
    for _ in range(2):
        estimator.fit(loader(), epochs=2, event_handlers=handlers)
    assert len(handlers) == 1 and estimator.trainer.optimizer.num_update == 16


def test_a_handler_may_have_methods_of_metrics() -> None:
    class Handler(parts.EpochEnd):
        def print_metrics(self) -> None: ...

    estimator, _ = made()
    estimator.fit(loader(), batches=1, event_handlers=[Handler()])


def test_the_log_of_a_better_checkpoint_has_both_values(tmp_path: Path) -> None:
    estimator, log = made()
    saved = parts.CheckpointHandler(str(tmp_path), "m", estimator.train_metrics[1], 1, save_best=True, mode="min")
    estimator.fit(loader(), epochs=2, event_handlers=[saved])
    first, second = (line for line in log if "improved" in line)
    assert " improved from inf to " in first
    value = first.split(" to ")[1].split(",")[0]
    assert f" improved from {value} to " in second


def test_an_old_checkpoint_is_removed_and_no_other(tmp_path: Path) -> None:
    estimator, _ = made()
    (tmp_path / "model-epoch0batch10.params").touch()
    saved = parts.CheckpointHandler(str(tmp_path), epoch_period=None, batch_period=2, max_checkpoints=1)
    estimator.fit(loader(), batches=4, event_handlers=saved)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model-epoch0batch10.params",
        "model-epoch0batch3.params",
        "model-epoch0batch3.states",
    ]


def test_a_training_that_was_interrupted_ends_with_the_same_bits(tmp_path: Path) -> None:
    whole, _ = made()
    whole.fit(loader(), epochs=4)
    for epochs in (2, 4):
        resumed, _ = made(rate=0.1 if epochs == 2 else 5.0)
        saved = parts.CheckpointHandler(str(tmp_path), "epoch-batch", resume_from_checkpoint=True)
        resumed.fit(loader(), epochs=epochs, event_handlers=saved)
    assert (weights(resumed) == weights(whole)).all()


def test_an_interrupted_checkpoint_leaves_the_one_before(tmp_path: Path) -> None:
    def fail(path: str) -> None:
        raise OSError("disk full")

    def train(estimator: parts.Estimator, epochs: int) -> None:
        saved = parts.CheckpointHandler(str(tmp_path), resume_from_checkpoint=True)
        estimator.fit(loader(), epochs=epochs, event_handlers=saved)

    train(made()[0], 1)
    interrupted, _ = made()
    interrupted.net.save_parameters = fail
    with pytest.raises(OSError, match="disk full"):
        train(interrupted, 2)
    resumed, log = made()
    train(resumed, 2)
    assert "CheckpointHandler: Checkpoint resumed from epoch 0 batch 3, continue to train for 1 epochs " in log


def test_a_metric_without_a_value_warns(tmp_path: Path) -> None:
    estimator, _ = made()
    unused = estimator.val_metrics[0]
    best = parts.CheckpointHandler(str(tmp_path), monitor=unused, save_best=True, mode="max")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        estimator.fit(loader(), epochs=1, event_handlers=[best, parts.EarlyStoppingHandler(unused, mode="max")])
    texts = [str(w.message) for w in found if w.category is RuntimeWarning]
    assert texts[0].startswith("Skipping save best because validation accuracy is not updated")
    assert texts[1].startswith("validation accuracy is not updated")
