"""The rows of the hardware table on mxforge: `python -m gpu_rows.ours PARTS SECONDS hardware|fake|cpu`.

PARTS is a JSON list of rows: {"spec": as in `rows.py`, "folder": where results are saved}. The process prints a line
for each measurement, and one at the end of each row. The last argument selects the device: a GPU, one of the fake
driver, or the host, to compare networks without a GPU.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .timing import adam_shapes, attempt, end_row, initial_values, microseconds, random, save

Call = Callable[[], Any]
_LOSSES = 3


def main(text: str, seconds: str, gpus: str, *_: str) -> None:
    if gpus == "fake":
        _use_fake_driver()
    elif gpus == "cpu":
        _context.append(_mx().cpu())
    for part in json.loads(text):
        spec, folder = part["spec"], part["folder"]
        attempt("mxforge", lambda spec=spec, folder=folder: KINDS[spec["kind"]](spec, folder, float(seconds)))
        end_row()


def _use_fake_driver() -> None:
    import pytest
    from support.fake_cuda import FakeCuda
    from support.fake_gpu import install

    install(pytest.MonkeyPatch(), FakeCuda())


_context: list[Any] = []


def _mx() -> Any:
    import mxforge

    return mxforge


def _device() -> Any:
    """The context of all arrays."""
    return _context[0] if _context else _mx().gpu(0)


def _timed(call: Call, seconds: float, convert: Callable[[Any], Any], folder: str) -> dict[str, Any]:
    """The times of a call, and of the first one in seconds; its result is saved."""
    begin = time.perf_counter()
    result = call()
    _mx().nd.waitall()
    first = time.perf_counter() - begin
    save(folder, "mxforge", convert(result))
    return {**microseconds(call, _mx().nd.waitall, seconds), "first": round(first, 2)}


def _numpy(array: Any) -> Any:
    return array.astype("float32").asnumpy()


def _array(values: np.ndarray[Any, Any], dtype: str = "float32") -> Any:
    """An array on the GPU. "tf32" are float32 values, which `require_tf32` lets products round."""
    mx = _mx()
    if dtype == "tf32":
        _require_tf32()
    return mx.nd.array(values, ctx=_device()).astype("float32" if dtype == "tf32" else dtype)


def _require_tf32() -> None:
    """RuntimeError if this version has no setting for products in TF32: it would measure float32."""
    from mxforge.ir.settings import VARIABLES

    if "MXFORGE_MATMUL" not in VARIABLES:
        raise RuntimeError("this version has no MXFORGE_MATMUL: its products are float32")


# --- kinds of rows ----------------------------------------------------------------------------------------------------


def sum_of_two(spec: dict[str, Any], folder: str, seconds: float) -> dict[str, Any]:
    a, b = (_array(random(spec["shape"], seed)) for seed in (1, 2))
    return _timed(lambda: a + b, seconds, _numpy, folder)


def operator(spec: dict[str, Any], folder: str, seconds: float) -> dict[str, Any]:
    nd, name, dtype = _mx().nd, spec["operator"], spec["dtype"]
    x = _array(random(spec["shape"]), dtype)
    y = _array(random(spec["shape"], 1), dtype) if name == "product" else nd.zeros_like(x)
    gamma, beta = (_array(np.full(spec["shape"][1:], value, np.float32), dtype) for value in (1, 0))
    calls: dict[str, Call] = {
        "copy": lambda: x.copyto(y),
        "softmax": lambda: nd.softmax(x),
        "layer_norm": lambda: nd.LayerNorm(x, gamma, beta),
        "sum": lambda: nd.sum(x),
        "column_sum": lambda: nd.sum(x, axis=0),
        "product": lambda: nd.dot(x, y),
    }
    return _timed(calls[name], seconds, lambda result: _numpy(result)[:4096], folder)


def network_of(name: str) -> Any:
    """The network of a row, not initialized."""
    from mxforge.tools.bench.training_mxnet import network

    gluon = _mx().gluon
    vision = gluon.model_zoo.vision
    if name == "small":
        net = gluon.nn.HybridSequential()
        net.add(*(gluon.nn.Dense(128, activation="relu") for _ in range(6)))
        return net
    if name == "resnet18_thumbnail":
        return vision.get_resnet(1, 18, thumbnail=True, classes=10)
    return network(gluon, {"resnet50": "train-resnet50", "mobilenet_v2": "train-mobilenet"}.get(name, name))


def _initialized(spec: dict[str, Any], dtype: str) -> tuple[Any, Any]:
    """(network with the values that PyTorch's has, input)"""
    mx, net, x = _mx(), network_of(spec["network"]), random(spec["shape"])
    parameters = list(net.collect_params().values())
    if not all(all(p.shape or (0,)) for p in parameters):
        net.infer_shape(mx.nd.array(x))
    described = [(p.shape, p.name.endswith(("gamma", "running_var"))) for p in parameters]
    net.initialize(ctx=_device())
    for parameter, value in zip(parameters, initial_values(described), strict=True):
        parameter.set_data(mx.nd.array(value))
    data = _array(x, dtype)
    if dtype != "tf32" and dtype != "float32":
        net.cast(dtype)
    net.hybridize(static_alloc=True, static_shape=True)
    return net, data


def network(spec: dict[str, Any], folder: str, seconds: float) -> dict[str, Any]:
    net, x = _initialized(spec, spec["dtype"])
    return _timed(lambda: net(x), seconds, _numpy, folder)


def first(spec: dict[str, Any], folder: str, seconds: float) -> dict[str, Any]:
    """From the initialized network to its result on the host."""
    net, x = _initialized(spec, "float32")
    _mx().nd.waitall()
    begin = time.perf_counter()
    result = net(x).asnumpy()
    took = time.perf_counter() - begin
    save(folder, "mxforge", result)
    return {"us": round(1e6 * took)}


def training(spec: dict[str, Any], folder: str, seconds: float) -> dict[str, Any]:
    """A step: forward, backward, SGD with momentum. Mixed precision casts the operands of a network in 16 bits."""
    mx = _mx()
    if spec["dtype"] != "float32":
        mx.contrib.amp.init(target_dtype=spec["dtype"])
    net, x = _initialized(spec, "float32")
    classes, batch = spec["classes"], spec["shape"][0]
    if classes:
        loss, y = mx.gluon.loss.SoftmaxCrossEntropyLoss(), _array(np.arange(batch, dtype=np.float32) % classes)
    else:
        loss, y = mx.gluon.loss.L2Loss(), mx.nd.zeros_like(net(x))
    loss.hybridize(static_alloc=True, static_shape=True)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-3, "momentum": 0.9})

    def step() -> Any:
        with mx.autograd.record():
            error = loss(net(x), y)
        error.backward()
        trainer.step(batch)
        return error

    begin = time.perf_counter()
    losses = [float(step().astype("float32").mean().asscalar()) for _ in range(_LOSSES)]
    took = time.perf_counter() - begin
    save(folder, "mxforge", np.array(losses))
    return {**microseconds(step, mx.nd.waitall, seconds), "first": round(took, 2), "losses": losses}


def adam(spec: dict[str, Any], folder: str, seconds: float) -> dict[str, Any]:
    mx = _mx()
    shapes = adam_shapes(spec["layers"], spec.get("divisor", 1))
    weights, gradients = ([mx.nd.ones(shape, ctx=_device()) for shape in shapes] for _ in range(2))
    update = mx.optimizer.get_updater(mx.optimizer.create("adam", learning_rate=1e-3))
    indices = list(range(len(shapes)))
    return _timed(lambda: update(indices, gradients, weights), seconds, lambda _: _numpy(weights[3]), folder)


KINDS: dict[str, Callable[[dict[str, Any], str, float], dict[str, Any]]] = {
    function.__name__: function for function in (sum_of_two, operator, network, first, training, adam)
}

if __name__ == "__main__":
    main(*sys.argv[1:])
