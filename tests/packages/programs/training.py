"""Steps of training: their losses, and the parameters at the end."""

import re

import mxnet as mx
import numpy as np

MOST = 12  # parameters of a network that are printed


def fit(net, loss, optimizer="sgd", steps=4, size=1, change=None, kvstore="device", skip="$^", **options):
    """The losses of some steps with a trainer, and what they made of the parameters.

    `loss` takes the number of the step and returns an array or several. `change` takes the trainer and the step; it is
    called before the update, when the gradients of all devices are added up.
    """
    parameters = net if isinstance(net, dict) or not hasattr(net, "collect_params") else net.collect_params()
    options = {"learning_rate": 0.1, **options}
    managed = {} if change is None else {"update_on_kvstore": False}
    trainer = mx.gluon.Trainer(parameters, optimizer, options, kvstore=kvstore, **managed)
    losses = []
    for step in range(steps):
        with mx.autograd.record():
            found = loss(step)
        arrays = found if isinstance(found, (list, tuple)) else [found]
        mx.autograd.backward(list(arrays))
        if change is None:
            trainer.step(size)
        else:
            trainer.allreduce_grads()
            change(trainer, step)
            trainer.update(size)
        losses.append([float(array.asnumpy().mean()) for array in arrays])
    mx.nd.waitall()  # MXNet's static backward passes may still write moving statistics
    return {"outputs": [np.array(losses), *values(parameters, skip)]}


def values(parameters, skip="$^"):
    """The values of parameters whose names do not match; of many every second, third, ... one."""
    # BatchNorm without a scale has one that nothing reads; MXNet sometimes sets it to 1
    every = [p for p in parameters.values() if p.grad_req != "null" or p.name.endswith(("mean", "var"))]
    every = [p for p in every if not re.search(skip, p.name)]
    chosen = every[:: -(-len(every) // MOST)]
    return [p.list_data()[0] if p._stype == "default" else p.list_row_sparse_data(_rows(p))[0] for p in chosen]


def _rows(parameter):
    return mx.nd.arange(parameter.shape[0], dtype="int64")
