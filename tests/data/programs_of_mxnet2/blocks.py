"""Blocks of MXNet 2: `forward` is written with functions of arrays, and hybridized by tracing."""

import os
import tempfile

import numpy as onp
from program import failure, gather, numbers, sketch

PROGRAMS, program = gather()


def fill(net):
    """Give all parameters values that depend on their order alone; variances stay positive."""
    for number, (name, param) in enumerate(net._collect_params_with_prefix().items()):
        values = onp.sin(onp.arange(onp.prod(param.shape)) * 0.7 + number).reshape(param.shape) * 0.5
        data = param.data().copy()
        data[:] = (onp.abs(values) + 0.5 if name.endswith("running_var") else values).astype("float32")
        param.set_data(data)


def ramp(mx, *shape):
    """An array of fixed values between -1 and 1."""
    return mx.np.array(onp.cos(onp.arange(onp.prod(shape)) * 0.37).reshape(shape).astype("float32"))


def gradients(net):
    return {n: sketch(p.grad()) for n, p in net._collect_params_with_prefix().items() if p.grad_req != "null"}


def trained(mx, net, steps, *data, **options):
    """The losses of some steps, eager or hybridized as the net is, and the parameters at the end."""
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", options)
    losses = []
    for _ in range(steps):
        with mx.autograd.record():
            loss = (net(*data) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(float(loss))
    return {"losses": [float(f"{v:.6g}") for v in losses], "parameters": [sketch(p.data()) for p in parameters(net)]}


def parameters(net):
    return net._collect_params_with_prefix().values()


def dense_class(mx):
    gluon, np, npx = mx.gluon, mx.np, mx.npx

    class Dense(gluon.nn.HybridBlock):
        def __init__(self, units, in_units=-1):
            super().__init__()
            self.units = units
            self.weight = gluon.Parameter("weight", shape=(units, in_units), allow_deferred_init=True)
            self.bias = gluon.Parameter("bias", shape=(units,), init="zeros")

        def infer_shape(self, x, *args):
            self.weight.shape = (self.units, x.shape[-1])

        def forward(self, x):
            return npx.relu(np.dot(x, self.weight.data().T) + self.bias.data())

    return Dense


@program
def own_parameters(mx):
    """A layer with parameters whose shape `infer_shape` finds, eager and hybridized, with batches of several sizes."""
    results = []
    for hybrid in (False, True):
        net = dense_class(mx)(3)
        net.initialize(device=mx.cpu())
        if hybrid:
            net.hybridize()
        net(ramp(mx, 2, 4))
        fill(net)
        outputs = [numbers(net(ramp(mx, n, 4))) for n in (2, 5, 1, 3)]
        x = ramp(mx, 2, 4)
        x.attach_grad()
        with mx.autograd.record():
            y = net(x).sum()
        y.backward()
        results.append([outputs, gradients(net), numbers(x.grad), [list(p.shape) for p in parameters(net)]])
    return results


@program
def names_of_parameters(mx):
    """Structural names, and parameters that a regular expression of their ends selects."""
    net = mx.gluon.nn.HybridSequential()
    net.add(dense_class(mx)(3), mx.gluon.nn.Dense(2, in_units=3), dense_class(mx)(1, 2))
    net.initialize()
    net.hybridize()
    net(ramp(mx, 2, 4))
    chosen = net.collect_params(".*bias")
    return list(net._collect_params_with_prefix()), len(net.collect_params()), len(chosen)


@program
def without_infer_shape(mx):
    """A parameter of unknown shape without `infer_shape` is an error."""

    class Scale(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.weight = mx.gluon.Parameter("weight", shape=(-1,), allow_deferred_init=True)

        def forward(self, x):
            return x * self.weight.data()

    net = Scale()
    net.initialize()
    return failure(net, ramp(mx, 2, 3))


@program
def chain(mx):
    """Written layers beside Gluon's in a HybridSequential: prediction, training, moving statistics."""
    nn = mx.gluon.nn
    results = []
    for hybrid in (False, True):
        net = nn.HybridSequential()
        net.add(dense_class(mx)(6), nn.BatchNorm(), nn.Dense(5, activation="tanh"), dense_class(mx)(4), nn.LayerNorm())
        net.initialize()
        net(ramp(mx, 3, 4))
        fill(net)
        if hybrid:
            net.hybridize()
        before = numbers(net(ramp(mx, 3, 4)))
        after = trained(mx, net, 3, ramp(mx, 6, 4), learning_rate=0.1, momentum=0.9)
        results.append([before, after, numbers(net(ramp(mx, 3, 4)))])
    return results


@program
def residual_network(mx):
    """A small residual network: convolutions, batch norms, additions; steps of training."""
    nn, npx = mx.gluon.nn, mx.npx

    class Residual(nn.HybridBlock):
        def __init__(self, channels, change=False, strides=1):
            super().__init__()
            self.conv1 = nn.Conv2D(channels, 3, strides=strides, padding=1)
            self.conv2 = nn.Conv2D(channels, 3, padding=1)
            self.conv3 = nn.Conv2D(channels, 1, strides=strides) if change else None
            self.bn1, self.bn2 = nn.BatchNorm(), nn.BatchNorm()

        def forward(self, x):
            y = npx.relu(self.bn1(self.conv1(x)))
            y = self.bn2(self.conv2(y))
            if self.conv3 is not None:
                x = self.conv3(x)
            return npx.relu(y + x)

    results = []
    for hybrid in (False, True):
        net = nn.HybridSequential()
        net.add(nn.Conv2D(4, 3, padding=1), Residual(4), Residual(6, True, 2), nn.GlobalAvgPool2D(), nn.Dense(3))
        net.initialize()
        net(ramp(mx, 2, 3, 8, 8))
        fill(net)
        if hybrid:
            net.hybridize()
        first = sketch(net(ramp(mx, 2, 3, 8, 8)))
        results.append([first, trained(mx, net, 2, ramp(mx, 4, 3, 8, 8), learning_rate=0.01)])
    return results


def attention_class(mx):
    nn, np, npx = mx.gluon.nn, mx.np, mx.npx

    class Attention(nn.HybridBlock):
        def __init__(self, units, heads):
            super().__init__()
            self.heads = heads
            self.queries, self.keys, self.values, self.out = (nn.Dense(units, flatten=False) for _ in range(4))
            self.norm = nn.LayerNorm()

        def split(self, x):
            return npx.reshape(x, (-2, -2, self.heads, -1)).transpose(0, 2, 1, 3)

        def forward(self, x, mask):
            q, k, v = self.split(self.queries(x)), self.split(self.keys(x)), self.split(self.values(x))
            scores = np.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
            weights = npx.masked_softmax(scores, np.expand_dims(mask, axis=1), axis=-1)
            mixed = np.einsum("bhij,bhjd->bhid", weights, v).transpose(0, 2, 1, 3)
            return self.norm(x + self.out(npx.reshape(mixed, (-2, -2, -1))))

    return Attention


@program
def attention(mx):
    """Masked attention of several heads with reshapes by codes, for sequences of several lengths."""
    results = []
    for hybrid in (False, True):
        net = attention_class(mx)(8, 2)
        net.initialize()
        masks = {n: mx.np.array(onp.tril(onp.ones((2, n, n))), dtype="bool") for n in (5, 3, 7)}
        net(ramp(mx, 2, 5, 8), masks[5])
        fill(net)
        if hybrid:
            net.hybridize()
        outputs = [sketch(net(ramp(mx, 2, n, 8), mask)) for n, mask in masks.items()]
        after = trained(mx, net, 2, ramp(mx, 2, 5, 8), masks[5], learning_rate=0.05)
        results.append([outputs, after])
    return results


@program
def shapes_in_python(mx):
    """Python code in `forward` that depends on the arguments' shapes, on attributes and on lists."""
    np = mx.np

    class Pyramid(mx.gluon.HybridBlock):
        def __init__(self, levels):
            super().__init__()
            self.levels = levels

        def forward(self, x):
            parts = [x.reshape(x.shape[0], -1, 2).max(axis=2)]
            for level in range(self.levels):
                parts.append(np.expand_dims(sum(x[:, i] for i in range(level + 1)), axis=1))
            return np.concatenate(parts, axis=1), [x[:, -1], x[1:, :2]]

    net = Pyramid(2)
    net.initialize()
    eager = net(ramp(mx, 2, 4))
    net.hybridize()
    compiled = net(ramp(mx, 2, 4))
    return [[numbers(y), [numbers(v) for v in rest]] for y, rest in (eager, compiled)]


@program
def creation_and_constants(mx):
    """Arrays that `forward` creates, and a Constant."""
    gluon, np = mx.gluon, mx.np

    class Positions(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.scale = gluon.Constant(np.array([1.0, 2.0, 3.0]))

        def forward(self, x):
            places = np.arange(3) + np.zeros((3,)) + np.ones((3,)) * 2 + np.full((3,), 0.5)
            return x * self.scale.data() + places + np.eye(3)[0] + np.zeros_like(x)

    net = Positions()
    net.initialize()
    eager = numbers(net(ramp(mx, 2, 3)))
    net.hybridize()
    return eager, numbers(net(ramp(mx, 2, 3)))


@program
def recurrent(mx):
    """A language model of Gluon's recurrent layers in a written block, with states."""
    gluon, nn = mx.gluon, mx.gluon.nn

    class Model(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(11, 4)
            self.rnn = gluon.rnn.LSTM(6)
            self.head = nn.Dense(3, flatten=False)

        def forward(self, tokens, states):
            outputs, states = self.rnn(self.embedding(tokens.T), states)
            return self.head(outputs).swapaxes(0, 1), states

    results = []
    for hybrid in (False, True):
        net = Model()
        net.initialize()
        tokens = mx.np.array([[1, 2, 3, 4], [5, 6, 7, 8]])
        states = net.rnn.begin_state(batch_size=2)
        net(tokens, states)
        fill(net.embedding)
        fill(net.head)
        for param in parameters(net.rnn):  # MXNet 2 has one vector of all parameters
            param.set_data(mx.np.full(param.shape, 0.2))
        if hybrid:
            net.hybridize()
        outputs, states = net(tokens, states)
        again, _ = net(tokens, states)
        results.append([sketch(outputs), [sketch(s) for s in states], sketch(again)])
    return results


@program
def loops(mx):
    """`npx.foreach`, `while_loop` and `cond` in a written block."""
    np, npx = mx.np, mx.npx

    class Loops(mx.gluon.HybridBlock):
        def forward(self, x, state):
            def step(item, state):
                state = np.tanh(item * 2 + state)
                return state * 2, state

            outputs, state = npx.foreach(step, x, state)
            halves, (count, last) = npx.while_loop(
                lambda i, v: i < 3, lambda i, v: (v / 2, [i + 1, v / 2]), [np.zeros((1,)), state], max_iterations=5
            )
            chosen = npx.cond(lambda v: v.sum() > 0, lambda v: v + 1, lambda v: v - 1, [last])
            return outputs, state, halves[:3], count, chosen

    net = Loops()
    net.initialize()
    arguments = ramp(mx, 4, 3), ramp(mx, 3)
    net.hybridize()
    return [numbers(v) for v in net(*arguments)]


@program
def export_and_import(mx):
    """An exported block gives the same numbers as a SymbolBlock."""
    net = mx.gluon.nn.HybridSequential()
    net.add(dense_class(mx)(6), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dense(2))
    net.initialize()
    net.hybridize()
    net(ramp(mx, 3, 4))
    fill(net)
    before = net(ramp(mx, 3, 4))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net")
        net.export(path)
        files = f"{path}-symbol.json", ["data"], f"{path}-0000.params"
        loaded = mx.gluon.SymbolBlock.imports(*files, device=mx.cpu())
        return numbers(before), numbers(loaded(ramp(mx, 3, 4)))


@program
def sharing_and_files(mx):
    """`share_parameters`, `save_parameters`, `load_parameters`, `load_dict`, `zero_grad` and `setattr`."""
    first, second, third = (dense_class(mx)(3, 4) for _ in range(3))
    first.initialize()
    third.initialize()
    fill(first)
    second.share_parameters(first.collect_params())
    x = ramp(mx, 2, 4)
    with mx.autograd.record():
        y = second(x).sum()
    y.backward()
    shared = [numbers(second(x)), numbers(first.weight.grad())]
    first.zero_grad()
    zero = numbers(first.weight.grad())
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "net.params")
        first.save_parameters(file)
        third.load_parameters(file, device=mx.cpu())
    fourth = dense_class(mx)(3, 4)
    fourth.load_dict({name: p.data() for name, p in first._collect_params_with_prefix().items()}, device=mx.cpu())
    first.setattr("grad_req", "null")
    return [shared, zero, numbers(third(x)), numbers(fourth(x)), [p.grad_req for p in parameters(first)]]


@program
def refused(mx):
    """What the forward of a hybridized block cannot contain: writes, arrays from elsewhere, values of other types."""
    np = mx.np
    outside = ramp(mx, 3)

    def write(x):
        x = x * 2
        x[0] = 1
        return x

    def in_place(x):
        x = x * 2
        x += 1
        return x

    def kind(function, *args):
        class Block(mx.gluon.HybridBlock):
            def forward(self, *args):
                return function(*args)

        net = Block()
        net.initialize()
        net.hybridize()
        return failure(net, *args)

    x = ramp(mx, 3)
    return [
        kind(write, x),
        kind(in_place, x),
        kind(lambda x: x + outside, x),
        kind(lambda x: {"a": x}, x),
        kind(lambda x: np.cov(np.stack([x, x])), x),
    ]
