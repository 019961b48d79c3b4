"""Training steps of many shapes: the second signature of a family compiles once for all, later ones compile nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge import autograd, gluon, nd
from mxforge.codegen import driver
from mxforge.frontend.gluon import nn
from mxforge.frontend.symbol import network
from mxforge.ir.caches import clear_caches
from mxforge.runtime import compile
from mxforge.runtime.cache import DiskCache

Gradients = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Caches are empty, that on disk too."""
    disk = DiskCache(tmp_path / "cache")
    monkeypatch.setattr(compile, "default_cache", lambda: disk)
    clear_caches()
    yield
    clear_caches()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the graphs that are compiled during the test."""
    names: list[str] = []
    original = driver.compile_steps

    def counted(graph: Any, *rest: Any, **options: Any) -> Any:
        names.append(graph.name)
        return original(graph, *rest, **options)

    monkeypatch.setattr(driver, "compile_steps", counted)
    return names


def dense(**flags: Any) -> Any:
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(24, activation="relu", in_units=12), nn.Dense(5, in_units=24))
    return ready(net, **flags)


def ready(net: Any, **flags: Any) -> Any:
    """A network with the same parameters in each call."""
    mx.random.seed(3)
    np.random.seed(3)
    net.initialize(mx.init.Uniform(0.5), force_reinit=True)
    net.hybridize(**flags)
    return net


def step(net: Any, *data: Any) -> Gradients:
    """The results and the gradients of a step, by name; the arrays `data` have gradients too."""
    arrays = [nd.array(x) for x in data]
    for array in arrays:
        array.attach_grad()
    with autograd.record():
        result = net(*arrays)
        loss = (result * result).sum()
    loss.backward()
    parameters = {n: p for n, p in net.collect_params().items() if p.grad_req != "null"}
    found: Gradients = {f"data{i}": gradient(a) for i, a in enumerate(arrays)}
    return {"result": result.asnumpy(), **found, **{n: p.grad().asnumpy() for n, p in parameters.items()}}


def gradient(array: Any) -> np.ndarray[Any, Any]:
    return array.grad.asnumpy()


def assert_close(a: Gradients, b: Gradients, tolerance: float = 1e-5) -> None:
    assert a.keys() == b.keys()
    for name, value in a.items():
        scale = max(float(np.abs(value).max(initial=0)), 1e-3)
        assert float(np.abs(value - b[name]).max(initial=0)) <= tolerance * scale, name


def check(make: Callable[..., Any], data: Callable[[int], Any], sizes: tuple[int, ...], compiled: list[str]) -> None:
    """Steps of sizes of which from the third on none compiles the network, against programs of constant shapes."""
    dynamic, specialised = make(), make(static_shape=True, static_alloc=True)
    for number, size in enumerate(sizes):
        x = data(size)
        compiled.clear()
        found = step(dynamic, x)
        assert number < 2 or not [n for n in compiled if n.startswith(dynamic.name)], size
        assert_close(found, step(specialised, x))


def rows(size: int) -> Any:
    return np.random.default_rng(size).standard_normal((size, 12), np.float32)


def test_dense_layers_of_any_batch_size(compiled: list[str]) -> None:
    check(dense, rows, (3, 5, 7, 11, 6), compiled)


def test_products_that_are_packed_and_not(compiled: list[str]) -> None:
    """They share code, whose functions one program emits once."""

    def make(**flags: Any) -> Any:
        net = nn.HybridSequential(prefix="wide_")
        with net.name_scope():
            net.add(
                nn.Dense(128, activation="relu", in_units=784), nn.Dense(64, in_units=128), nn.Dense(10, in_units=64)
            )
        return ready(net, **flags)

    def images(size: int) -> Any:
        return np.random.default_rng(size).standard_normal((size, 784), np.float32)

    check(make, images, (32, 64, 50), compiled)


def test_another_process_compiles_nothing(compiled: list[str]) -> None:
    net = dense()
    first = [step(net, rows(n)) for n in (3, 5, 7)]
    clear_caches()
    compiled.clear()
    net = dense()
    again = [step(net, rows(n)) for n in (3, 5, 7)]
    assert not [n for n in compiled if n.startswith("net_")]
    for a, b in zip(first, again, strict=True):
        assert all(np.array_equal(a[n], b[n]) for n in a)


def test_bits_do_not_depend_on_earlier_signatures() -> None:
    one, other = dense(), dense()
    for n in (3, 5, 6, 7):
        a = step(one, rows(n))
    for n in (3, 9, 1, 7):
        b = step(other, rows(n))
    assert all(np.array_equal(a[n], b[n]) for n in a)


def test_blocks_of_other_names_share_programs_and_keep_their_names(compiled: list[str]) -> None:
    one = dense()
    for n in (3, 5):
        step(one, rows(n))
    compiled.clear()
    net = nn.HybridSequential(prefix="other_")
    with net.name_scope():
        net.add(nn.Dense(24, activation="relu", in_units=12), nn.Dense(5, in_units=24))
    ready(net)
    for n in (3, 7):
        step(net, rows(n))
    assert not [n for n in compiled if n.startswith("other_")]


@pytest.mark.parametrize("req", ["add", "null"])
def test_gradient_requests(req: str) -> None:
    nets = dense(), dense(static_shape=True, static_alloc=True)
    for net in nets:
        for name, parameter in net.collect_params().items():
            if name.endswith("weight"):
                parameter.grad_req = req
    for n in (3, 5, 7):
        one, other = [step(net, rows(n)) for net in nets]
        assert_close(one, other)


def test_trainer_and_loss(compiled: list[str]) -> None:
    losses: list[list[float]] = []
    for flags in ({}, {"static_shape": True, "static_alloc": True}):
        net, loss = dense(**flags), ready(gluon.loss.SoftmaxCrossEntropyLoss(), **flags)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
        values: list[float] = []
        for n in (3, 5, 7, 3, 9):
            x, y = nd.array(rows(n)), nd.array(np.arange(n) % 5)
            with autograd.record():
                value = loss(net(x), y)
            value.backward()
            trainer.step(n)
            values.append(float(value.mean().asscalar()))
        losses.append(values)
    np.testing.assert_allclose(*losses, rtol=1e-5)


def softmax_network() -> Any:
    hidden = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=16, name="first"), act_type="relu")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=5, name="second"), name="softmax")


def test_a_module_with_new_batch_sizes(compiled: list[str]) -> None:
    mx.random.seed(3)
    module = mx.mod.Module(softmax_network())
    module.bind([("data", (4, 12))], [("softmax_label", (4,))])
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.1})
    for number, n in enumerate((4, 6, 3, 9)):
        parameters, _ = module.get_params()
        x, y = nd.array(rows(n)), nd.array(np.arange(n) % 5)
        one = softmax_network().bind(mx.cpu(), {**parameters, "data": x, "softmax_label": y}, args_grad=None)
        expected = one.forward()[0].asnumpy()
        compiled.clear()
        module.forward_backward(mx.io.DataBatch([x], [y]))
        module.update()
        assert number < 2 or not [name for name in compiled if "softmax" in name], n
        np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_buckets_of_one_structure_share_programs(compiled: list[str]) -> None:
    def network(length: int) -> Any:
        embedded = mx.sym.Embedding(mx.sym.var("data"), input_dim=9, output_dim=4, name="embedding")
        out, _ = mx.rnn.FusedRNNCell(6, mode="gru", prefix="gru_").unroll(length, embedded, layout="TNC")
        scores = mx.sym.FullyConnected(mx.sym.reshape(out, shape=(-1, 6)), num_hidden=9, name="scores")
        label = mx.sym.reshape(mx.sym.var("softmax_label"), shape=(-1,))
        return mx.sym.SoftmaxOutput(scores, label, name="softmax"), ("data",), ("softmax_label",)

    module = mx.mod.BucketingModule(network, default_bucket_key=8)
    shapes: Any = lambda n: {"provide_data": [("data", (n, 2))], "provide_label": [("softmax_label", (n, 2))]}  # noqa: E731
    module.bind([("data", (8, 2))], [("softmax_label", (8, 2))])
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.1})
    for number, n in enumerate((8, 3, 5, 6, 4)):
        x = nd.array(np.arange(2 * n).reshape(n, 2) % 9)
        compiled.clear()
        module.forward_backward(mx.io.DataBatch([x], [x], bucket_key=n, **shapes(n)))
        module.update()
        assert number < 2 or not [name for name in compiled if "softmax" in name], n
        assert module.get_outputs()[0].shape == (2 * n, 9)


CALLS: dict[str, tuple[Callable[[Any], Any], Callable[[int], tuple[int, ...]]]] = {
    "chain": (lambda x: (nd.tanh(x * 2 + 1) * x).sum(), lambda n: (n, n + 2)),
    "convolution": (
        lambda x: nd.Convolution(x, nd.ones((4, 2, 3, 3)), nd.zeros((4,)), kernel=(3, 3), num_filter=4, pad=(1, 1)),
        lambda n: (2, 2, n + 5, n + 4),
    ),
    "pooling": (
        lambda x: nd.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max"),
        lambda n: (2, 3, n + 20, 2 * n + 41),
    ),
    "sort": (lambda x: nd.sort(x) * x, lambda n: (n, n + 5)),
    "two coordinates": (
        lambda x: nd.BilinearSampler(x, nd.tanh(nd.slice_axis(x, axis=1, begin=0, end=2) * 2)),
        lambda n: (2, 3, n + 1, n + 3),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_eager_calls_of_any_extents(name: str, compiled: list[str]) -> None:
    call, shape = CALLS[name]
    sizes, found = (4, 6, 5, 9), list[Gradients]()
    for number, n in enumerate(sizes):
        compiled.clear()
        found.append(_recorded(call, shape(n)))
        assert number < 2 or not compiled, compiled
    for n, dynamic in zip(sizes[2:], found[2:], strict=True):
        clear_caches()  # then the next call is the first of its family
        assert_close(dynamic, _recorded(call, shape(n)))


def _recorded(call: Callable[[Any], Any], shape: tuple[int, ...]) -> Gradients:
    x = nd.array(np.random.default_rng(shape[-1]).standard_normal(shape))
    x.attach_grad()
    with autograd.record():
        y = call(x)
    y.backward()
    return {"result": y.asnumpy(), "gradient": gradient(x)}


def test_sizes_that_strides_divide_with_any_rest_are_one_class(compiled: list[str]) -> None:
    """A program for each rest of each strided convolution and axis would be 2^6."""

    def strided(**flags: Any) -> Any:
        net = nn.HybridSequential(prefix="strided_")
        with net.name_scope():
            for before, after in ((3, 16), (16, 16), (16, 32)):
                net.add(nn.Conv2D(after, 3, strides=2, padding=1, in_channels=before, activation="relu"))
        return ready(net, **flags)

    net, own = strided(), strided(static_shape=True, static_alloc=True)
    for number, (h, w) in enumerate(((40, 44), (43, 46), (41, 45), (44, 43), (47, 40), (42, 41), (46, 47))):
        x = np.random.default_rng(h).standard_normal((2, 3, h, w), np.float32)
        compiled.clear()
        found = step(net, x)
        assert number < 2 or not [name for name in compiled if name.startswith("strided")], (h, w)
        if number % 2:
            assert_close(found, step(own, x))


def test_threads_that_meet_a_new_family_compile_it_once(compiled: list[str]) -> None:
    net = dense()
    step(net, rows(3))
    compiled.clear()
    start = threading.Barrier(2)

    def work(n: int) -> None:
        start.wait()
        step(net, rows(n))

    threads = [threading.Thread(target=work, args=(n,)) for n in (6, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [n for n in compiled if n.startswith("net")] == ["net", "net_backward"]


def test_an_interrupted_compilation_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    net, other = dense(), dense(static_shape=True, static_alloc=True)
    step(net, rows(3))
    original = driver.compile_steps

    def interrupted(graph: Any, *rest: Any, **options: Any) -> Any:
        if graph.name.endswith("_backward"):
            raise KeyboardInterrupt
        return original(graph, *rest, **options)

    monkeypatch.setattr(driver, "compile_steps", interrupted)
    with pytest.raises(KeyboardInterrupt):
        step(net, rows(6))
    monkeypatch.setattr(driver, "compile_steps", original)
    for n in (6, 7):
        assert_close(step(net, rows(n)), step(other, rows(n)))


def test_reshapes_of_an_executor_infer_shapes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = softmax_network().simple_bind(mx.cpu(), data=(9, 12), softmax_label=(9,))
    for n in (4, 5):
        executor.reshape(data=(n, 12), softmax_label=(n,))

    def refuse(*_: Any) -> Any:
        raise AssertionError("infers shapes")

    monkeypatch.setattr(network.Network, "infer", refuse)
    reshaped = executor.reshape(data=(6, 12), softmax_label=(6,))
    assert {n: a.shape for n, a in reshaped.arg_dict.items()} == {
        **{n: a.shape for n, a in executor.arg_dict.items()},
        "data": (6, 12),
        "softmax_label": (6,),
    }
    with pytest.raises(mx.MXNetError, match="Shape of unspecified arg first_weight changed"):
        executor.reshape(data=(6, 11), softmax_label=(6,))


class _Halves(gluon.HybridBlock):
    """A batch norm whose extents are equal only by a condition on the extents of the input."""

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any, mean: Any, var: Any) -> Any:
        y = F.Convolution(x, x, kernel=(3,), num_filter=4, stride=(2,), no_bias=True, pad=(1,), dilate=(2,))
        normal = F.BatchNorm(y, gamma, beta, mean, var, axis=0, fix_gamma=True, eps=0.1)
        first, second = F.split(normal, num_outputs=2, axis=0)
        return F.concat(second * second, first, dim=0)


def test_rows_whose_extents_are_equal_by_a_condition() -> None:
    hybridized, eager = _Halves(), _Halves()
    hybridized.hybridize()
    for n in (1, 2, 3, 5):
        data = nd.random.uniform(shape=(4, n, 3))
        found: list[list[np.ndarray[Any, Any]]] = []
        for net in (hybridized, eager):
            x = data.copy()
            statistics = [nd.array([1.0, 2, 3, 4]) + k for k in range(4)]
            for array in (x, *statistics[:2]):
                array.attach_grad()
            with autograd.record():
                y = net(x, *statistics)
            y.backward()
            gradients: list[Any] = [array.grad for array in (x, *statistics[:2])]
            found.append([y.asnumpy(), *[gradient.asnumpy() for gradient in gradients]])
        for first, second in zip(*found, strict=True):
            np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-4)
