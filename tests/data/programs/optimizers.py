"""Programs on optimizers, updaters and schedules of rates: the weights after some updates by given gradients."""

import warnings

import numpy as np
from program import failure, gather, numbers

PROGRAMS, program = gather()

OPTIMIZERS = {
    "sgd": {},
    "sgd_momentum": {"momentum": 0.9, "wd": 0.1, "clip_gradient": 0.3},
    "ccsgd": {"momentum": 0.5},
    "nag": {"momentum": 0.9},
    "nag_plain": {},
    "signum": {"momentum": 0.9, "wd_lh": 0.1},
    "signum_plain": {"momentum": 0.0},
    "dcasgd_plain": {},
    "lbsgd": {"momentum": 0.9, "batch_scale": 2, "warmup_epochs": 1, "updates_per_epoch": 4},
    "lbsgd_lars": {"warmup_strategy": "lars"},
    "lbsgd_sqrt": {"warmup_strategy": "sqrt", "batch_scale": 1},
    "lars": {"momentum": 0.9, "wd": 0.1},
    "lars_plain": {"eta": 0.1},
    "adam": {"wd": 0.1, "clip_gradient": 0.5},
    "adamax": {"wd": 0.1},
    "nadam": {},
    "adagrad": {"wd": 0.1},
    "adadelta": {"wd": 0.1},
    "rmsprop": {"wd": 0.01, "clip_weights": 1.5},
    "rmsprop_centered": {"centered": True},
    "ftml": {"clip_gradient": 0.5},
    "ftrl": {"lamda1": 0.1},
    "lamb": {"wd": 0.1, "lower_bound": 0.1, "upper_bound": 10.0},
    "lamb_biased": {"bias_correction": False},
    "groupadagrad": {},
    "test": {},
}
HALF = ["sgd", "sgd_momentum", "nag", "adam", "lamb", "rmsprop", "signum"]


def array(mx, shift, dtype="float32"):
    return mx.nd.array(np.sin(np.arange(6) + shift).reshape(2, 3), dtype=dtype)


def flat(mx, state):
    if state is None:
        return None
    if isinstance(state, (list, tuple)):
        return [flat(mx, part) for part in state]
    return numbers(state)


def updated(mx, name, options, dtype="float32"):
    made = mx.optimizer.create(
        name.split("_")[0],
        param_idx2name={0: "one_weight", 1: "one_bias"},
        rescale_grad=0.5,
        multi_precision=dtype == "float16",
        **options,
    )
    updater = mx.optimizer.get_updater(made)
    weights = [array(mx, 1, dtype), array(mx, 2, dtype)]
    for step in range(3):
        grads = [array(mx, 3 + step, dtype), array(mx, 5 + step, dtype)]
        updater([0, 1], grads, weights)
    return [[numbers(w) for w in weights], [flat(mx, updater.states[i]) for i in (0, 1)], made.num_update]


@program
def optimizers(mx):
    return {name: updated(mx, name, options) for name, options in OPTIMIZERS.items()}


@program
def half_precision(mx):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: updated(mx, name, OPTIMIZERS[name], "float16") for name in HALF}


@program
def rates_and_decays(mx):
    schedule = mx.lr_scheduler.FactorScheduler(2, 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = mx.optimizer.SGD(
            learning_rate=0.2, lr_scheduler=schedule, wd=0.1, param_idx2name={0: "a_weight", 1: "a_bias", 2: "a_gamma"}
        )
    made.set_lr_mult({"a_bias": 2.0, 5: 3.0})
    found = [made._get_lrs([0, 1, 2, 5]), made._get_wds([0, 1, 2, 5]), made.learning_rate]
    made._update_count([0, 0, 0, 0, 0, 1])
    found += [made.learning_rate, made.num_update, made._get_lr(1), sorted(made._index_update_count.items())]
    data = mx.sym.FullyConnected(
        mx.sym.var("x"), mx.sym.var("w_weight", lr_mult=0.5, wd_mult=4), num_hidden=2, name="fc"
    )
    named = mx.optimizer.Adam(sym=data, param_idx2name={0: "w_weight", 1: "fc_bias"}, wd=1)
    found += [named._get_lrs([0, 1]), named._get_wds([0, 1]), named.lr_mult, named.wd_mult]
    param = mx.gluon.Parameter("p", shape=(2,), lr_mult=7, wd_mult=3)
    held = mx.optimizer.NAG(param_dict={0: param}, wd=0.5, learning_rate=1)
    public = sorted(name for name in mx.optimizer.Optimizer.opt_registry if not name.startswith("_"))
    found += [held._get_lr(0), held._get_wd(0), public]
    errors = [
        failure(lambda: made.set_learning_rate(1)),
        failure(lambda: mx.optimizer.create("nothing")),
        failure(lambda: mx.optimizer.Optimizer(param_idx2name=[1])),
        failure(lambda: made.set_lr_scale({})),
        failure(lambda: made.update(0, 1, 2, None)),
        failure(lambda: mx.optimizer.create("groupadagrad").create_state(0, mx.nd.ones((2,)))),
    ]
    return [found, errors]


@program
def schedules(mx):
    kinds = mx.lr_scheduler
    made = [
        kinds.FactorScheduler(3, 0.5, base_lr=1.0, stop_factor_lr=0.2),
        kinds.FactorScheduler(3, 0.5, 1e-8, 1.0, 4, 0.1),
        kinds.MultiFactorScheduler([2, 5, 6], 0.1, base_lr=1.0),
        kinds.MultiFactorScheduler([5, 9], 0.5, 0.3, 3, 0.1, "constant"),
        kinds.PolyScheduler(8, base_lr=0.5, pwr=3, final_lr=0.1, warmup_steps=2),
        kinds.CosineScheduler(10, base_lr=0.5, final_lr=0.1, warmup_steps=2, warmup_begin_lr=0.2),
    ]
    errors = [
        failure(lambda: kinds.LRScheduler(0.1, warmup_begin_lr=1)),
        failure(lambda: kinds.LRScheduler(0.1, -1)),
        failure(lambda: kinds.LRScheduler(0.1, 1.5)),
        failure(lambda: kinds.LRScheduler(0.1, warmup_mode="other")),
        failure(lambda: kinds.LRScheduler(0.1)(1)),
        failure(lambda: kinds.LRScheduler(0.1, 3).get_warmup_lr(3)),
        failure(lambda: kinds.FactorScheduler(0)),
        failure(lambda: kinds.FactorScheduler(1, 2)),
        failure(lambda: kinds.MultiFactorScheduler([3, 2])),
        failure(lambda: kinds.MultiFactorScheduler((3, 4))),
        failure(lambda: kinds.PolyScheduler(0)),
        failure(lambda: kinds.CosineScheduler(1.5)),
    ]
    return [[[round(one(i), 12) for i in range(14)] for one in made], errors]
