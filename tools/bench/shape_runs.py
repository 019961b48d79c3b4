"""Steps of training on batches of many shapes, and whole runs of them: MXNet and mxforge run the same programs.

    python shape_runs.py mxnet      # measure the whole runs in a framework with MXNet's API

This file imports no other of the package, and must run on Python 3.7, which old frameworks require.
"""

from __future__ import annotations

import importlib
import random
import sys
import time


def _block_step(mx, net, static):
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=static, static_shape=static)

    def step(x):
        with mx.autograd.record():
            y = net(x)
        y.backward()
        mx.nd.waitall()

    return step


def mlp(mx, static):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(64, activation="relu", in_units=32), mx.gluon.nn.Dense(10, in_units=64))
    return _block_step(mx, net, static)


def lstm(mx, static):
    return _block_step(mx, mx.gluon.rnn.LSTM(64, layout="NTC", input_size=32), static)


def fcn(mx, static):
    nn, net = mx.gluon.nn, mx.gluon.nn.HybridSequential()
    net.add(nn.Conv2D(16, 3, padding=1, activation="relu", in_channels=3))
    net.add(nn.Conv2D(16, 3, padding=1, activation="relu", in_channels=16), nn.Conv2D(4, 1, in_channels=16))
    return _block_step(mx, net, static)


def module(mx, static):
    hidden = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=64, name="a"), act_type="relu")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=10, name="b"), name="softmax")
    modules = {}

    def bound(shape):
        unit = mx.mod.Module(net)
        unit.bind([("data", shape)], [("softmax_label", shape[:1])])
        unit.init_params()
        unit.init_optimizer()
        return unit

    def step(x):
        key = x.shape if static else ()
        current = modules[key] = modules.get(key) or bound(x.shape)
        current.forward_backward(mx.io.DataBatch([x], [mx.nd.zeros(x.shape[:1])]))
        current.update()
        mx.nd.waitall()

    return step


def chain(mx, static):
    def step(x):
        x.attach_grad()
        with mx.autograd.record():
            y = (mx.nd.tanh(x * 2 + 1) * x).sum()
        y.backward()
        mx.nd.waitall()

    return step


def buckets(mx, static):
    """Steps of a language model in a BucketingModule: a bucket for each length of the sequences."""

    def network(length):
        embedded = mx.sym.Embedding(mx.sym.var("data"), input_dim=50, output_dim=16, name="embedding")
        cell = mx.rnn.FusedRNNCell(32, mode="lstm", prefix="lstm_")
        out, _ = cell.unroll(length, inputs=embedded, merge_outputs=True, layout="NTC")
        scores = mx.sym.FullyConnected(mx.sym.reshape(out, shape=(-1, 32)), num_hidden=50, name="scores")
        label = mx.sym.reshape(mx.sym.var("softmax_label"), shape=(-1,))
        return mx.sym.SoftmaxOutput(scores, label, name="softmax"), ("data",), ("softmax_label",)

    unit = mx.mod.BucketingModule(network, default_bucket_key=60)

    def step(x):
        shapes = {"provide_data": [("data", x.shape)], "provide_label": [("softmax_label", x.shape)]}
        if not unit.binded:
            unit.bind([("data", (x.shape[0], 60))], [("softmax_label", (x.shape[0], 60))])
            unit.init_params(mx.init.Xavier())
            unit.init_optimizer()
        x = mx.nd.floor(x * 50)
        unit.forward_backward(mx.io.DataBatch([x], [x], bucket_key=x.shape[1], **shapes))
        unit.update()
        mx.nd.waitall()

    return step


RUNS = {
    "60 LSTM steps of random length": (lstm, 60, lambda r: (4, r.randint(5, 60), 32)),
    "40 steps of convolutions of random size": (fcn, 40, lambda r: (2, 3, r.randint(24, 64), r.randint(24, 64))),
    "40 Module steps of random batch size": (module, 40, lambda r: (r.randint(2, 64), 32)),
    "18 steps of a BucketingModule of 6 buckets": (buckets, 18, lambda r: (8, 10 * r.randint(1, 6))),
}
"""Whole runs: the step, how many, and a random shape."""


def run_seconds(mx, name):
    """The seconds of a whole run, in which everything is new, and those of processor time."""
    make, count, shape = RUNS[name]
    source = random.Random(1)
    arrays = [mx.nd.random.uniform(shape=shape(source)) for _ in range(count)]
    mx.nd.waitall()
    start = time.perf_counter(), time.process_time()
    step = make(mx, False)
    for x in arrays:
        step(x)
    return time.perf_counter() - start[0], time.process_time() - start[1]


if __name__ == "__main__":
    framework = importlib.import_module(sys.argv[1])
    for run in RUNS:
        print("{}: {:.2f} s, {:.2f} of processor time".format(run, *run_seconds(framework, run)))
