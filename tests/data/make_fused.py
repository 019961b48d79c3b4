"""Writes, with real MXNet 1.9.1, models that its oneDNN backend fused, with their inputs and outputs.

usage: python make_fused.py [OUT_DIR]      in an environment with mxnet==1.9.1 and numpy<1.24

NAME-symbol.json is as MXNet saves it. NAME.npz has a value for each argument and auxiliary state, and MXNet's outputs
`output0`, `output1`, ... of the fused graph. `exported` also has the parameters that Gluon writes. The models
`quantized_*` compute in int8 and have no values.
"""

from __future__ import annotations

import sys
from pathlib import Path

import mxnet as mx
import numpy as np
from mxnet.contrib import quantization
from mxnet.gluon import nn

out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "fused"
S = mx.sym
IMAGE = (2, 4, 5, 5)


def conv(data, name, **options):
    return S.Convolution(data, num_filter=4, kernel=(3, 3), pad=(1, 1), name=name, **options)


def norm(data, name, **options):
    return S.BatchNorm(data, name=name, **options)


def relu(data):
    return S.Activation(data, act_type="relu")


def convolutions():
    data = S.var("data")
    results = [S.Activation(conv(data, act), act_type=act) for act in ("relu", "sigmoid", "tanh", "softrelu")]
    results += [S.LeakyReLU(conv(data, act), act_type=act) for act in ("leaky", "gelu")]
    results.append(S.clip(conv(data, "clip"), a_min=0, a_max=6))
    results.append(relu(norm(conv(data, "grouped", num_group=2, no_bias=True), "norm1", fix_gamma=False, eps=1e-5)))
    results.append(norm(conv(data, "plain"), "norm2"))
    results.append(S.Convolution(S.expand_dims(data, 1), num_filter=2, kernel=(2, 2, 2), name="three_axes"))
    return S.Group(results), {"data": IMAGE}


def sums():
    x, y = S.var("x"), S.var("y")
    left, right = S.tanh(x), S.tanh(y)
    results = [conv(left, "a") + right, left + conv(right, "b"), conv(left, "c1") + conv(right, "c2")]
    results.append(relu(left + norm(conv(right, "d"), "norm", fix_gamma=False)))
    results.append(S.clip(conv(left, "e") + right, a_min=0, a_max=2))
    results.append(S.LeakyReLU(y + conv(x, "f"), act_type="leaky"))
    results.append(relu(relu(norm(conv(left, "g"), "norm2")) + y))
    return S.Group(results), {"x": IMAGE, "y": IMAGE}


def dense():
    data = S.var("data")

    def layer(name, **options):
        return S.FullyConnected(data, num_hidden=3, name=name, **options)

    results = [S.Activation(layer(act), act_type=act) for act in ("relu", "sigmoid", "tanh", "softrelu")]
    results += [S.LeakyReLU(layer(act), act_type=act) for act in ("leaky", "elu", "gelu")]
    results += [getattr(S, name)(layer(name)) for name in ("exp", "square", "abs")]
    results.append(S.sqrt(S.FullyConnected(S.abs(data), S.abs(S.var("w")), num_hidden=3, no_bias=True, name="sqrt")))
    results.append(S.clip(layer("clip"), a_min=-1, a_max=1))
    results.append(layer("each_row", flatten=False, no_bias=True))
    return S.Group(results), {"data": IMAGE}


def attention():
    states = S.FullyConnected(S.var("data"), num_hidden=48, flatten=False, name="states")
    scores = S.contrib.interleaved_matmul_selfatt_qk(states, heads=2, name="scores")
    weights = S.softmax(scores, axis=-1, name="weights")
    return S.contrib.interleaved_matmul_selfatt_valatt(states, weights, heads=2, name="values"), {"data": (5, 2, 8)}


def draw(rng, name, shape):
    low = 0.5 if "var" in name or "gamma" in name else -1
    return rng.uniform(low, 1, shape).astype("float32")


def save(name, built):
    symbol, shapes = built
    fused = symbol.optimize_for("MKLDNN")
    text = fused.tojson()
    (out / f"{name}-symbol.json").write_bytes(text.encode())
    rng = np.random.RandomState(0)
    arguments, _, states = symbol.infer_shape(**shapes)
    values = {n: draw(rng, n, shape) for n, shape in zip(symbol.list_arguments(), arguments)}
    values.update({n: draw(rng, n, shape) for n, shape in zip(symbol.list_auxiliary_states(), states)})
    results = run(mx.sym.load_json(text), values)
    for fused_result, result in zip(results, run(symbol, values)):
        np.testing.assert_allclose(fused_result, result, rtol=1e-4, atol=1e-5)
    np.savez_compressed(out / f"{name}.npz", **values, **{f"output{i}": r for i, r in enumerate(results)})


def run(symbol, values):
    arrays = {n: mx.nd.array(v) for n, v in values.items()}
    states = {n: arrays[n] for n in symbol.list_auxiliary_states()}
    bound = symbol.bind(mx.cpu(), {n: arrays[n] for n in symbol.list_arguments()}, aux_states=states, grad_req="null")
    return [result.asnumpy() for result in bound.forward()]


def network():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3, in_channels=3), nn.BatchNorm(in_channels=4), nn.Activation("relu"), nn.MaxPool2D())
        net.add(nn.Conv2D(4, 3, in_channels=4), nn.Flatten(), nn.Dense(5, activation="relu"), nn.Dense(3))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def exported():
    net, data = network(), mx.nd.random.uniform(-1, 1, shape=(2, 3, 8, 8))
    net(data)
    net.optimize_for(data, backend="MKLDNN")
    net.export(str(out / "exported"))
    np.savez_compressed(out / "exported.npz", data=data.asnumpy(), output0=net(data).asnumpy())


def quantized():
    net, data = network(), mx.nd.random.uniform(-1, 1, shape=(4, 3, 8, 8))
    net(data)
    loader = mx.gluon.data.DataLoader(data, batch_size=2, batchify_fn=lambda rows: [mx.nd.stack(*rows)])
    shapes = [mx.io.DataDesc("data", (2, 3, 8, 8))]
    options = dict(calib_data=loader, data_shapes=shapes, calib_mode="naive", num_calib_examples=4, ctx=mx.cpu())
    quantization.quantize_net_v2(net, **options).export(str(out / "quantized_fused"))
    (out / "quantized_fused-0000.params").unlink()
    symbol = relu(conv(S.var("data"), "conv"))
    values = {n: mx.nd.ones(shape) for n, shape in zip(symbol.list_arguments(), symbol.infer_shape(data=IMAGE)[0])}
    made, _, _ = quantization.quantize_model(symbol, values, {}, calib_mode="none", quantized_dtype="int8")
    (out / "quantized_operators-symbol.json").write_bytes(made.tojson().encode())


mx.random.seed(0)
np.random.seed(0)
out.mkdir(exist_ok=True)
for build in (convolutions, sums, dense, attention):
    save(build.__name__, build())
exported()
quantized()
