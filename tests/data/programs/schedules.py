"""Schedules of learning rates, alone and in optimizers, with what they log, and samplers."""

import logging
from importlib import import_module

from program import failure, gather

PROGRAMS, program = gather()
UPDATES = (0, 1, 2, 3, 5, 6, 7, 10, 11, 25, 26, 40, 41, 100)


def all_of(mx):
    kinds, warm = mx.lr_scheduler, {"warmup_steps": 5, "warmup_begin_lr": 0.1}
    return {
        "factor": lambda: kinds.FactorScheduler(3, 0.5, base_lr=1.0),
        "factor with a stop": lambda: kinds.FactorScheduler(2, 0.1, stop_factor_lr=1e-3, base_lr=0.5, **warm),
        "factors": lambda: kinds.MultiFactorScheduler([2, 6, 25], 0.3, base_lr=2.0),
        "factors after constants": lambda: kinds.MultiFactorScheduler(
            [2, 26], 0.3, 2.0, warmup_mode="constant", **warm
        ),
        "polynomial": lambda: kinds.PolyScheduler(25, base_lr=1.5),
        "polynomial with an end": lambda: kinds.PolyScheduler(40, 1.5, pwr=3, final_lr=0.2, **warm),
        "cosine": lambda: kinds.CosineScheduler(25, base_lr=1.5, final_lr=0.1),
        "cosine after constants": lambda: kinds.CosineScheduler(40, 1.5, warmup_mode="constant", **warm),
    }


class Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.found = []

    def emit(self, record):
        self.found.append(record.getMessage())


def logged(run):
    """What a function returns, and what it logs."""
    handler, root = Lines(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        return [run(), handler.found]
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def rounded(numbers):
    return [float(f"{number:.9g}") for number in numbers]


@program
def rates(mx):
    def run(make):
        schedule = make()
        return [*rounded(schedule(update) for update in UPDATES), sorted(vars(schedule))]

    return {name: logged(lambda make=make: run(make)) for name, make in all_of(mx).items()}


@program
def rates_of_optimizers(mx):
    """An optimizer's rate replaces that of its schedule; later updates of one weight advance both."""

    def run(make, given):
        made = mx.optimizer.create("sgd", lr_scheduler=make(), **given)
        weight, found = mx.nd.ones(1), []
        for _ in range(8):
            found.append(made.learning_rate)
            made.update(0, weight, mx.nd.ones(1), None)
        found += [made._get_lr(0), made._get_lr(1), weight.asscalar()]
        return rounded(found)

    rates = ({}, {"learning_rate": 0.25})
    return {
        name: [logged(lambda make=make, given=given: run(make, given)) for given in rates]
        for name, make in all_of(mx).items()
    }


@program
def rates_of_trainers(mx):
    weight = mx.gluon.Parameter("weight", shape=(1,))
    weight.initialize(mx.init.One())
    schedule = mx.lr_scheduler.FactorScheduler(2, 0.5)
    trainer = mx.gluon.Trainer([weight], "sgd", {"learning_rate": 0.5, "lr_scheduler": schedule})
    found = []
    for _ in range(6):
        with mx.autograd.record():
            loss = weight.data() * 2
        loss.backward()
        trainer.step(1)
        found += [trainer.learning_rate, weight.data().asscalar()]
    return [rounded(found), failure(trainer.set_learning_rate, 0.1)]


@program
def mistakes(mx):
    kinds = mx.lr_scheduler
    return [
        failure(kinds.FactorScheduler, 0),
        failure(kinds.FactorScheduler, 1, 1.5),
        failure(kinds.FactorScheduler, 1, warmup_steps=-1),
        failure(kinds.FactorScheduler, 1, warmup_steps=1.5),
        failure(kinds.FactorScheduler, 1, warmup_begin_lr=3),
        failure(kinds.FactorScheduler, 1, warmup_mode="cosine"),
        failure(kinds.MultiFactorScheduler, []),
        failure(kinds.MultiFactorScheduler, (1, 2)),
        failure(kinds.MultiFactorScheduler, [3, 2]),
        failure(kinds.MultiFactorScheduler, [0, 2]),
        failure(kinds.MultiFactorScheduler, [1], 2),
        failure(kinds.PolyScheduler, 0),
        failure(kinds.PolyScheduler, 1.5),
        failure(kinds.CosineScheduler, 0),
        failure(kinds.CosineScheduler, "1"),
        failure(kinds.LRScheduler(), 1),
        failure(kinds.LRScheduler(warmup_steps=2).get_warmup_lr, 3),
    ]


@program
def old_schedules(mx):
    misc = import_module(f"{mx.__name__}.misc")

    def run():
        schedule, other = misc.FactorScheduler(3), misc.FactorScheduler(2, 0.5)
        other.base_lr = 1.0
        return rounded([*map(schedule, UPDATES), *map(other, UPDATES)])

    return [
        logged(run),
        failure(misc.FactorScheduler, 0),
        failure(misc.FactorScheduler, 1, 1.0),
        failure(misc.LearningRateScheduler(), 1),
    ]


@program
def intervals(mx):
    sampler = mx.gluon.contrib.data.IntervalSampler
    found = [[list(made), len(made)] for made in (sampler(7, 3), sampler(7, 3, False), sampler(2, 2))]
    return [*found, failure(sampler, 2, 3)]
