"""The schedules of learning rates that MXNet had before `mx.lr_scheduler`."""

from __future__ import annotations

import logging
import math


class LearningRateScheduler:
    """A function from the number of an iteration to its learning rate."""

    def __init__(self) -> None:
        self.base_lr = 0.01

    def __call__(self, iteration: int) -> float:
        raise NotImplementedError(f"{type(self).__name__} has no __call__")


class FactorScheduler(LearningRateScheduler):
    """Multiplies `base_lr` by `factor` every `step` iterations."""

    def __init__(self, step: int, factor: float = 0.1) -> None:
        super().__init__()
        if step < 1:
            raise ValueError("Schedule step must be greater or equal than 1 round")
        if factor >= 1.0:
            raise ValueError("Factor must be less than 1 to make lr reduce")
        self.step = step
        self.factor = factor
        self.old_lr = self.base_lr
        self.init = False

    def __call__(self, iteration: int) -> float:
        if not self.init:
            self.init = True
            self.old_lr = self.base_lr
        rate = self.base_lr * math.pow(self.factor, int(iteration / self.step))
        if rate != self.old_lr:
            self.old_lr = rate
            logging.info("At Iteration [%d]: Swith to new learning rate %.5f", iteration, rate)  # MXNet's spelling
        return rate
