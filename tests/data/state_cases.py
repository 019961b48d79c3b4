"""Updates of two weights by each optimizer, in three steps before its states are saved and three after.

Runs in mxforge and MXNet. `make_states.py` records MXNet's states and weights.
"""

import numpy as np

OPTIMIZERS = {
    "sgd": ("sgd", {"momentum": 0.9, "wd": 0.01}),
    "sgd_halves": ("sgd", {"momentum": 0.9, "multi_precision": True}),
    "sgd_plain_halves": ("sgd", {"multi_precision": True}),
    "sgd_schedule": ("sgd", {"momentum": 0.9, "lr_scheduler": None}),
    "nag": ("nag", {"momentum": 0.9}),
    "adam": ("adam", {}),
    "adam_halves": ("adam", {"multi_precision": True}),
    "adagrad": ("adagrad", {}),
    "rmsprop": ("rmsprop", {}),
    "rmsprop_centered": ("rmsprop", {"centered": True}),
    "adadelta": ("adadelta", {}),
    "ftrl": ("ftrl", {}),
    "ftml": ("ftml", {}),
    "adamax": ("adamax", {}),
    "nadam": ("nadam", {}),
    "signum": ("signum", {}),
    "dcasgd": ("dcasgd", {}),
    "lamb": ("lamb", {}),
    "lars": ("lars", {"momentum": 0.9}),
    "lbsgd": ("lbsgd", {"momentum": 0.9}),
    "groupadagrad": ("groupadagrad", {}),
}
SHAPES = [(4, 3), (5, 1)]


class Run:
    """The weights and the updater of an optimizer."""

    def __init__(self, mx, name):
        kind, options = OPTIMIZERS[name]
        options = {"learning_rate": 0.1, **options}
        if "lr_scheduler" in options:
            options["lr_scheduler"] = mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.1)
        self.mx, self.dtype = mx, "float16" if options.get("multi_precision") else "float32"
        self.updater = mx.optimizer.get_updater(mx.optimizer.create(kind, **options))
        random = np.random.RandomState(0)
        self.weights = [self.array(random.randn(*shape)) for shape in SHAPES]

    def array(self, values):
        return self.mx.nd.array(values, dtype=self.dtype)

    def steps(self, first, last):
        for step in range(first, last):
            random = np.random.RandomState(100 + step)
            for index, weight in enumerate(self.weights):
                self.updater(index, self.array(random.randn(*weight.shape)), weight)
        return [weight.asnumpy().astype("float64").round(6).tolist() for weight in self.weights]

    def resume(self, weights, states):
        for index, values in enumerate(weights):
            self.weights[index][:] = self.array(values)
        self.updater.set_states(states)
        return self.steps(3, 6)
