"""Runs of optimizers over several steps: schedules, factors of rates and decays, clipping, counts that do not start at
0, weights in float16 with copies in float32. All weights are updated in one call of the updater."""

import warnings

import numpy as np
from program import gather, numbers

PROGRAMS, program = gather()
STEPS = 10
SHAPES = {0: (2, 3), 1: (4,), 2: (3, 1, 2), 3: (5,), 4: (2, 2), 5: (1,)}
NAMES = {0: "a_weight", 1: "a_bias", 2: "b_weight", 3: "b_gamma", 4: "c_weight", 5: "c_beta"}

OPTIMIZERS = {
    "sgd": ("sgd", {}),
    "sgd_momentum": ("sgd", {"momentum": 0.9}),
    "nag": ("nag", {"momentum": 0.9, "wd": 0.0}),  # MXNet's operator with a decay reads the weight that it has written
    "nag_plain": ("nag", {}),
    "signum": ("signum", {"momentum": 0.9, "wd_lh": 0.1}),
    "signsgd": ("signum", {"momentum": 0.0}),
    "dcasgd": ("dcasgd", {"lamda": 0.2}),
    "lbsgd": ("lbsgd", {"momentum": 0.9, "warmup_epochs": 2, "updates_per_epoch": 3, "batch_scale": 1}),
    "lbsgd_batches": ("lbsgd", {"warmup_strategy": "power2", "batch_scale": 3, "updates_per_epoch": 2}),
    "lbsgd_lars": ("lbsgd", {"warmup_strategy": "lars", "momentum": 0.5}),
    "lars": ("lars", {"momentum": 0.9, "eta": 0.1, "eps": 1e-3}),
    "lars_plain": ("lars", {"eta": 0.1, "momentum_correction": False}),
    "adam": ("adam", {}),
    "adamax": ("adamax", {}),
    "nadam": ("nadam", {"schedule_decay": 0.1}),
    "adagrad": ("adagrad", {}),
    "adadelta": ("adadelta", {"rho": 0.8}),
    "rmsprop": ("rmsprop", {"clip_weights": 1.5}),
    "rmsprop_centered": ("rmsprop", {"centered": True}),
    "ftml": ("ftml", {}),
    "ftrl": ("ftrl", {"lamda1": 0.1, "beta": 0.5}),
    "lamb": ("lamb", {"lower_bound": 0.5, "upper_bound": 2.0}),
    "lamb_biased": ("lamb", {"bias_correction": False}),
}
HALVES = [name for name in OPTIMIZERS if not name.startswith("lamb")]  # MXNet leaves halves as they are in LAMB


def shown(array):
    """An array's shape and its elements with 7 digits."""
    found = numbers(array)
    return {**found, "values": [float(f"{x:.7g}") for x in found["values"]]}


def flat(state):
    if isinstance(state, (list, tuple)):
        return [flat(part) for part in state]
    return None if state is None else shown(state)


def run(mx, name, dtype, **options):
    """The weights and the states at the end, and the counts."""
    kind, own = OPTIMIZERS[name]
    every = {"wd": 0.1, "rescale_grad": 0.5, "param_idx2name": NAMES, "multi_precision": True, **options, **own}
    made = mx.optimizer.create(kind, **every)
    made.set_lr_mult({"b_weight": 0.5, 4: 2.0})
    made.set_wd_mult({"a_bias": 0.25})
    updater = mx.optimizer.get_updater(made)
    random = np.random.RandomState(3)
    weights = [mx.nd.array(random.randn(*shape), dtype=dtype) for shape in SHAPES.values()]
    for _ in range(STEPS):
        grads = [mx.nd.array(random.randn(*shape), dtype=dtype) for shape in SHAPES.values()]
        updater(list(SHAPES), grads, weights)
    counts = sorted(made._index_update_count.items())
    return [[shown(w) for w in weights], [flat(updater.states[i]) for i in SHAPES], counts, made.num_update]


@program
def plain(mx):
    return {name: run(mx, name, "float32", learning_rate=0.05) for name in OPTIMIZERS}


@program
def clipped(mx):
    return {name: run(mx, name, "float32", learning_rate=0.05, clip_gradient=0.2) for name in OPTIMIZERS}


@program
def scheduled(mx):
    """The rate changes on the way, and updates are counted from 7."""
    kinds = mx.lr_scheduler
    found = {}
    for name in OPTIMIZERS:
        schedule = kinds.MultiFactorScheduler([9, 12, 14], 0.5, base_lr=0.05, warmup_steps=8, warmup_begin_lr=0.01)
        found[name] = run(mx, name, "float32", lr_scheduler=schedule, begin_num_update=7)
    return found


@program
def halves(mx):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: run(mx, name, "float16", learning_rate=0.05) for name in HALVES}


@program
def one_by_one(mx):
    """Calls of the updater with one weight each, as a KVStore makes them."""
    found = {}
    for name, (kind, own) in OPTIMIZERS.items():
        updater = mx.optimizer.get_updater(mx.optimizer.create(kind, learning_rate=0.05, param_idx2name=NAMES, **own))
        random = np.random.RandomState(4)
        weights = [mx.nd.array(random.randn(*SHAPES[i])) for i in range(2)]
        for _ in range(4):
            for i, weight in enumerate(weights):
                updater(i, mx.nd.array(random.randn(*SHAPES[i])), weight)
        found[name] = [shown(w) for w in weights]
    return found
