"""The handler that saves checkpoints and resumes from the last one."""

from __future__ import annotations

import math
import os
import re
import warnings
from typing import Any

from ....metric import EvalMetric
from .early_stopping import comparison, worst
from .events import BatchEnd, EpochEnd, TrainBegin

_PERIODS = (
    "To use resume from checkpoint, you must only specify the same type of period you used for training. For example, "
    "if you are training based on number of epochs, you must save only based on epochs, and set batch_period to None."
)
_FORMAT = (
    "Error parsing checkpoint file, please check your checkpoints have the format: "
    "{model_name}-epoch{epoch_number}batch{batch_number}.params, there should also be a .states file for each .params "
    "file "
)


class CheckpointHandler(TrainBegin, BatchEnd, EpochEnd):
    """Saves parameters and the trainer's states, and after the first batch the symbol of a hybridized network.

    The files are `PREFIX-symbol.json`, `PREFIX-epochEbatchB.params` and `.states`, and `PREFIX-best.params` and
    `.states`. Files of states are complete before those of parameters, so a checkpoint that has parameters is complete.

    Args:
        model_dir: The folder of the files; created if missing.
        model_prefix: The prefix of the files' names.
        monitor: The metric that `save_best` compares.
        verbose: 1 to log each checkpoint.
        save_best: True to also keep the checkpoint with the best value of `monitor`.
        mode: "min" if smaller values are better, "max" or "auto" if greater ones are.
        epoch_period: A checkpoint is saved after so many epochs; None for no checkpoint after epochs.
        batch_period: A checkpoint is saved after so many batches; None for no checkpoint after batches.
        max_checkpoints: The number of checkpoints of this training that are kept.
        resume_from_checkpoint: True to load the last checkpoint of the folder, if there is one, and to train the
            epochs or batches that are left.
    """

    def __init__(
        self,
        model_dir: str,
        model_prefix: str = "model",
        monitor: EvalMetric | None = None,
        verbose: int = 0,
        save_best: bool = False,
        mode: str = "auto",
        epoch_period: int | None = 1,
        batch_period: int | None = None,
        max_checkpoints: int = 5,
        resume_from_checkpoint: bool = False,
    ) -> None:
        os.makedirs(model_dir, exist_ok=True)
        self.monitor = monitor
        self.verbose = verbose
        self.model_dir = model_dir
        self.model_prefix = model_prefix
        self.save_best = save_best
        self.epoch_period = epoch_period
        self.batch_period = batch_period
        self.current_batch = 0
        self.current_epoch = 0
        self.trained_epoch = -1
        self.trained_batch = -1
        self.max_checkpoints = max_checkpoints
        self.resume_from_checkpoint = resume_from_checkpoint
        self.saved_checkpoints: list[str] = []
        if save_best:
            if not isinstance(monitor, EvalMetric):
                raise ValueError(
                    "To save best model only, please provide one of the metric objects from estimator.train_metrics "
                    "and estimator.val_metrics as monitor."
                )
            self.monitor_op = comparison(monitor, mode, "ModelCheckpoint")
            self.best = worst(self.monitor_op)

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        self.current_epoch = 0
        self.current_batch = 0
        if self.save_best:
            self.best = worst(self.monitor_op)
        if self.resume_from_checkpoint:
            if estimator.max_batch:
                assert self.batch_period and not self.epoch_period, _PERIODS
            if estimator.max_epoch:
                assert self.epoch_period and not self.batch_period, _PERIODS
            self._resume_from_checkpoint(estimator)

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        if self.current_batch == 0:
            self._save_symbol(estimator)
        if self.batch_period and (self.current_batch + 1) % self.batch_period == 0:
            self._save_checkpoint(estimator)
        self.current_batch += 1

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        if self.epoch_period and (self.current_epoch + 1) % self.epoch_period == 0:
            self._save_checkpoint(estimator)
        self.current_epoch += 1

    def _save_checkpoint(self, estimator: Any) -> None:
        epoch, batch = self.current_epoch, self.current_batch
        if self.resume_from_checkpoint:  # an epoch's last batch is counted already
            epoch += self.trained_epoch + 1
            batch += self.trained_batch + (0 if estimator.max_epoch else 1)
        prefix = self._checkpoint(epoch, batch)
        self._save_params_and_trainer(estimator, prefix)
        self._log(
            estimator,
            "[Epoch %d] CheckpointHandler: trained total %d batches, saving model at %s with prefix: %s",
            *(self.current_epoch, self.current_batch + 1, self.model_dir, prefix),
        )
        if self.save_best:
            self._save_best(estimator)

    def _save_best(self, estimator: Any) -> None:
        """Save the parameters and states again if the metric is better than before."""
        assert self.monitor is not None
        name, value = self.monitor.get()
        if math.isnan(value):
            warnings.warn(
                f"Skipping save best because {name} is not updated, make sure you pass one of the metric objects "
                "estimator.train_metrics and estimator.val_metrics as monitor",
                RuntimeWarning,
                stacklevel=2,
            )
        elif self.monitor_op(value, self.best):
            prefix = f"{self.model_prefix}-best"
            self._save_params_and_trainer(estimator, prefix)
            self._log(
                estimator,
                "[Epoch %d] CheckpointHandler: %s improved from %0.5f to %0.5f, updating best model at %s with prefix: "
                "%s",
                *(self.current_epoch, name, self.best, value, self.model_dir, prefix),
            )
            self.best = value
        else:
            self._log(
                estimator,
                "[Epoch %d] CheckpointHandler: %s did not improve from %0.5f, skipping updating best model",
                *(self.current_batch, name, self.best),
            )

    def _log(self, estimator: Any, text: str, *values: Any) -> None:
        if self.verbose > 0:
            estimator.logger.info(text, *values)

    def _save_symbol(self, estimator: Any) -> None:
        path = os.path.join(self.model_dir, f"{self.model_prefix}-symbol.json")
        graph = getattr(estimator.net, "_cached_graph", None)
        if graph:
            graph[1].save(path)
        else:
            estimator.logger.info(
                "Model architecture(symbol file) is not saved, please use HybridBlock to construct your model, and "
                "call net.hybridize() before passing to Estimator in order to save model architecture as %s.",
                path,
            )

    def _save_params_and_trainer(self, estimator: Any, file_prefix: str) -> None:
        path = os.path.join(self.model_dir, file_prefix)
        estimator.trainer.save_states(f"{path}.states")
        estimator.net.save_parameters(f"{path}.params")
        if "best" not in file_prefix:
            self.saved_checkpoints.append(file_prefix)
        if len(self.saved_checkpoints) > self.max_checkpoints:
            oldest = os.path.join(self.model_dir, self.saved_checkpoints.pop(0))
            for suffix in (".params", ".states"):
                if os.path.exists(oldest + suffix):
                    os.remove(oldest + suffix)

    def _checkpoint(self, epoch: int, batch: int) -> str:
        return f"{self.model_prefix}-epoch{epoch}batch{batch}"

    def _resume_from_checkpoint(self, estimator: Any) -> None:
        """Load the last checkpoint and reduce the estimator's epochs or batches to those that are left."""
        self.trained_epoch, self.trained_batch = self._last_checkpoint()
        epochs, batches = estimator.max_epoch, estimator.max_batch
        if self.trained_epoch == -1:
            left = f"{batches} batches" if batches else f"{epochs} epochs"
            estimator.logger.info("CheckpointHandler: No checkpoint found, training from scratch for %s", left)
            return
        text = f"Checkpoint resumed from epoch {self.trained_epoch} batch {self.trained_batch}, continue to train for "
        if epochs:
            estimator.max_epoch = _left("epoch", epochs, self.trained_epoch, epochs)
            text += f"{estimator.max_epoch} epochs "
        if batches:
            estimator.max_batch = _left("batch", batches, self.trained_batch, self.trained_batch)
            text += f"{estimator.max_batch} batches "
        path = os.path.join(self.model_dir, self._checkpoint(self.trained_epoch, self.trained_batch))
        for file in (f"{path}.params", f"{path}.states"):
            assert os.path.exists(file), f"Failed to load checkpoint, {file} does not exist"
        estimator.net.load_parameters(f"{path}.params", ctx=estimator.context)
        estimator.trainer.load_states(f"{path}.states")
        estimator.logger.warning("CheckpointHandler: %s", text)

    def _last_checkpoint(self) -> tuple[int, int]:
        """Epoch and batch of the last checkpoint in the folder; -1 and -1 if there is none."""
        start = f"{self.model_prefix}-epoch"
        checkpoints = [(-1, -1)]
        for name in os.listdir(self.model_dir):
            if name.startswith(start) and ".params" in name:
                numbers = re.match(r"(-?\d+)batch(-?\d+)\.params", name[len(start) :])
                if numbers is None:
                    raise ValueError(_FORMAT)
                checkpoints.append((int(numbers[1]), int(numbers[2])))
        return max(checkpoints)


def _left(what: str, wanted: int, trained: int, reached: int) -> int:
    """The number of epochs or batches after `trained`, counted from 0. ValueError if none is left."""
    if trained >= wanted - 1:
        raise ValueError(
            f"Found checkpoint with maximum number of {what} {reached} reached, please specify "
            "resume_from_checkpoint=False (default value) if you wan to train from scratch."
        )
    return wanted - trained - 1
