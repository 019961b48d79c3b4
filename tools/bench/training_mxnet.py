"""Networks and their training steps in MXNet's API: MXNet and mxforge run the same programs.

This file must run on Python 3.7, which old frameworks require.
"""

# ruff: noqa: B905, UP

from __future__ import annotations


def load(engine, spec, arrays):
    """The program of a network or a training suite."""
    if "network" in spec:
        net = _initialized(engine, network(engine.mx.gluon, spec["network"]), arrays[1:], engine.options)
        return engine.program(net, [_array(engine, arrays[0])])
    return engine.training_program(*(_update if "update" in spec else _network)(engine, spec, arrays))


def _array(engine, array):
    return engine.array(array, dtype=array.dtype)


def network(gluon, name):
    """The network of a suite, not initialized."""
    return NETWORKS[name](gluon)


def _network(engine, spec, arrays):
    """(step, weights)"""
    mx = engine.mx
    x, y = (_array(engine, a) for a in arrays[:2])
    options = engine.options if spec["hybridize"] else None
    net = _initialized(engine, network(mx.gluon, spec["training"]), arrays[2:], options)
    loss = _losses(mx.gluon.loss)[spec["loss"]]
    if options:
        loss.hybridize(**options)
    trainer = mx.gluon.Trainer(net.collect_params(), *spec["optimizer"])
    record, batch = mx.autograd.record, spec["batch"]

    def step():
        with record():
            error = loss(net(x), y)
        error.backward()
        trainer.step(batch)
        return error.mean().asscalar()

    return step, [p.data() for p in net.collect_params().values()]


def _initialized(engine, net, arrays, options):
    """The network with these parameters, hybridized with `options` unless they are None. Parameters are converted one
    by one: another copy of all of them would be the peak of the memory that the suite reports."""
    parameters = list(net.collect_params().values())
    for parameter, array in zip(parameters, arrays):
        parameter.shape = array.shape
    net.initialize(ctx=engine.context)
    for parameter, array in zip(parameters, arrays):
        parameter.set_data(_array(engine, array))
    if options is not None:
        net.hybridize(**options)
    return net


def _update(engine, spec, arrays):
    """The update of all weights by constant gradients, which is what `Trainer.step` does after a backward pass."""
    mx, half = engine.mx, len(arrays) // 2
    arrays = [_array(engine, a) for a in arrays]
    weights, gradients = arrays[:half], arrays[half:]
    name, parameters = spec["update"]
    update = mx.optimizer.get_updater(mx.optimizer.create(name, **parameters))
    indices = list(range(half))

    def step():
        update(indices, gradients, weights)

    return step, weights


def _losses(loss):
    return {
        "classes": loss.SoftmaxCrossEntropyLoss(),
        "squares": loss.L2Loss(),
        "squares of sequences": loss.L2Loss(batch_axis=1),
    }


# --- networks ---------------------------------------------------------------------------------------------------------


def _chain(nn, *layers):
    net = nn.HybridSequential()
    net.add(*layers)
    return net


def _mlp(gluon):
    nn = gluon.nn
    return _chain(nn, nn.Dense(128, activation="relu"), nn.Dense(64, activation="relu"), nn.Dense(10))


def _lenet(gluon):
    nn = gluon.nn
    first = nn.Conv2D(20, kernel_size=5, activation="tanh"), nn.MaxPool2D(2, 2)
    second = nn.Conv2D(50, kernel_size=5, activation="tanh"), nn.MaxPool2D(2, 2)
    return _chain(nn, *first + second + (nn.Dense(500, activation="tanh"), nn.Dense(10)))


def _lstm(gluon):
    return gluon.rnn.LSTM(650, 2, input_size=650)


def _bert(gluon, layers):
    return _chain(gluon.nn, *[_encoder_layer(gluon, 768, 12, 3072) for _ in range(layers)])


def _encoder_layer(gluon, units, heads, hidden):
    """A layer of BERT's encoder, without dropout and mask."""
    nn = gluon.nn

    class EncoderLayer(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.project = nn.Dense(3 * units, flatten=False)
                self.join = nn.Dense(units, flatten=False)
                self.norm1 = nn.LayerNorm()
                self.wide = nn.Dense(hidden, flatten=False)
                self.narrow = nn.Dense(units, flatten=False)
                self.norm2 = nn.LayerNorm()

        def hybrid_forward(self, F, x):
            parts = F.transpose(F.reshape(self.project(x), shape=(0, 0, 3, heads, -1)), axes=(2, 0, 3, 1, 4))
            q, k, v = F.split(F.reshape(parts, shape=(0, -3, 0, 0)), num_outputs=3, axis=0, squeeze_axis=True)
            weights = F.softmax(F.batch_dot(q, k, transpose_b=True) / (units / heads) ** 0.5)
            mixed = F.reshape(F.batch_dot(weights, v), shape=(-4, -1, heads, 0, 0))
            joined = F.reshape(F.transpose(mixed, axes=(0, 2, 1, 3)), shape=(0, 0, -3))
            x = self.norm1(x + self.join(joined))
            return self.norm2(x + self.narrow(F.LeakyReLU(self.wide(x), act_type="gelu")))

    return EncoderLayer()


NETWORKS = {
    "train-mlp": _mlp,
    "train-mlp-eager": _mlp,
    "train-lenet": _lenet,
    "train-resnet18": lambda gluon: gluon.model_zoo.vision.resnet18_v1(classes=10),
    "train-resnet50": lambda gluon: gluon.model_zoo.vision.resnet50_v1(),
    "train-mobilenet": lambda gluon: gluon.model_zoo.vision.mobilenet_v2_1_0(),
    "train-lstm": _lstm,
    "train-bert": lambda gluon: _bert(gluon, 4),
    "lstm": _lstm,
    "gru": lambda gluon: gluon.rnn.GRU(650, 2, input_size=650),
    "bert": lambda gluon: _bert(gluon, 12),
}
