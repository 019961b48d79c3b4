"""Subclasses as users write them: which methods training calls, in which order, with which arguments."""

import warnings

import numpy as np
from program import gather, numbers

PROGRAMS, program = gather()

HOOKS = (
    "update update_multi_precision _update_impl _update_count _get_lr _get_lrs _get_wd _get_wds _get_lars create_state "
    "create_state_multi_precision"
).split()
OPTIMIZERS = {
    "SGD": {"momentum": 0.9},
    "NAG": {"momentum": 0.9},
    "Adam": {},
    "LAMB": {},
    "LARS": {"momentum": 0.9, "eta": 0.1},
    "Signum": {},
    "LBSGD": {"warmup_strategy": "lars"},
    "RMSProp": {},
}


def described(value):
    """The text of an argument; "a" for an array."""
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({','.join(map(described, value))})"
    return "a" if hasattr(value, "asnumpy") else repr(value)


def logging_subclass(base, log):
    """A subclass that overrides all hooks of an optimizer, and logs their calls."""

    def hook(name):
        def method(self, *args, **kwargs):
            log.append(" ".join([name, *map(described, args), *(f"{k}={described(v)}" for k, v in kwargs.items())]))
            return getattr(base, name)(self, *args, **kwargs)

        return method

    return type("Logging", (base,), {name: hook(name) for name in HOOKS if hasattr(base, name)})


def trained_by_trainer(mx, optimizer, contexts, **options):
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(*(mx.gluon.nn.Dense(2, in_units=2) for _ in range(3)))
    net.initialize(mx.init.One(), ctx=contexts)
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, **options)
    for _ in range(2):
        with mx.autograd.record():
            outputs = [net(mx.nd.ones((2, 2), ctx=context)) for context in contexts]
        mx.autograd.backward(outputs)
        trainer.step(2)
    return [numbers(p.data(contexts[0])) for p in net.collect_params().values()]


def trained_by_module(mx, optimizer, contexts, kvstore):
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc1")
    net = mx.sym.FullyConnected(net, num_hidden=2, name="fc2")
    net = mx.sym.LinearRegressionOutput(net, mx.sym.var("out_label"), name="out")
    module = mx.mod.Module(net, label_names=["out_label"], context=contexts)
    module.bind([("data", (2, 2))], [("out_label", (2, 2))])
    module.init_params(mx.init.One())
    module.init_optimizer(kvstore=kvstore, optimizer=optimizer)
    for _ in range(2):
        module.forward_backward(mx.io.DataBatch([mx.nd.ones((2, 2))], [mx.nd.zeros((2, 2))]))
        module.update()
    return [numbers(array) for _, array in sorted(module.get_params()[0].items())]


def calls(mx, run, *args, **options):
    """The calls of the hooks of each optimizer, and the weights."""
    found = {}
    for name, parameters in OPTIMIZERS.items():
        log = []
        made = logging_subclass(getattr(mx.optimizer, name), log)(learning_rate=0.1, **parameters)
        found[name] = [run(mx, made, *args, **options), log]
    return found


@program
def optimizers_of_a_trainer(mx):
    return calls(mx, trained_by_trainer, [mx.cpu()])


@program
def optimizers_on_a_store(mx):
    return calls(mx, trained_by_trainer, [mx.cpu(0), mx.cpu(1)], kvstore="device")


@program
def optimizers_beside_a_store(mx):
    return calls(mx, trained_by_trainer, [mx.cpu(0), mx.cpu(1)], kvstore="device", update_on_kvstore=False)


@program
def optimizers_of_a_module(mx):
    return [
        calls(mx, trained_by_module, [mx.cpu()], "local"),
        calls(mx, trained_by_module, [mx.cpu(0), mx.cpu(1)], "local"),
    ]


@program
def optimizers_of_sparse_gradients_and_halves(mx):
    found = {}
    for name, parameters in OPTIMIZERS.items():
        for half in (False, True):
            log = []
            cls = logging_subclass(getattr(mx.optimizer, name), log)
            updater = mx.optimizer.get_updater(cls(learning_rate=0.1, multi_precision=half, **parameters))
            dtype = "float16" if half else "float32"
            weights = [mx.nd.array(np.arange(6).reshape(3, 2) + i, dtype=dtype) for i in range(2)]
            grads = [mx.nd.array([[1, 2], [0, 0], [3, i]], dtype=dtype) for i in range(2)]
            if not half:
                grads = [grad.tostype("row_sparse") for grad in grads]
            if half and name in ("LBSGD", "RMSProp"):
                continue  # MXNet computes the norms of LBSGD in float16, and RMSProp fails
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                updater([0, 1], grads, weights)
                updater(0, grads[0], weights[0])
            found[f"{name} {dtype}"] = [[numbers(w) for w in weights], log]
    return found


@program
def sgd_with_an_own_update(mx):
    class Own(mx.optimizer.SGD):  # training calls `update_multi_precision`, which never calls `update`
        def update(self, index, weight, grad, state):
            weight[:] = 7

    class OwnImplementation(mx.optimizer.SGD):
        def _update_impl(self, indices, weights, grads, states, multi_precision=False):
            for i, weight in enumerate(weights):
                weight[:] = weight - grads[i].sign()

    class OwnRate(mx.optimizer.LBSGD):
        def _get_lars(self, weight, g, wd):
            return 2.0

    class OwnRateOfRows(mx.optimizer.LARS):
        def _get_lars(self, i, weight, g, lr, wd):
            return 2.0 * lr

    made = [Own(learning_rate=0.1), OwnImplementation(), OwnRate(warmup_strategy="lars"), OwnRateOfRows()]
    return [[trained_by_trainer(mx, one, [mx.cpu()]), trained_by_module(mx, one, [mx.cpu()], "local")] for one in made]
