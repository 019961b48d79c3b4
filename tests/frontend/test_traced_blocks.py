"""Blocks whose `forward` is written with functions of arrays: what is traced when, and what is refused.

tests/data/programs_of_mxnet2 contains programs that MXNet 2 runs too.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as onp
import pytest
from mxforge import MXNetError, autograd, gluon, np, npx
from mxforge.ir.caches import Cache


@pytest.fixture(autouse=True)
def numpy_mode() -> Iterator[None]:
    npx.set_np()
    yield
    npx.reset_np()


class Written(gluon.HybridBlock):
    """A block that calls a function of itself and of arrays, and counts its calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function, self.calls = function, 0
        self.weight = gluon.Parameter("weight", shape=(3,), init=mx.init.Constant(2))

    def forward(self, *arrays: Any) -> Any:  # type: ignore[override]
        self.calls += 1
        return self.function(self, *arrays)


def block(function: Callable[..., Any], hybrid: bool = True) -> Written:
    net = Written(function)
    net.initialize()
    if hybrid:
        net.hybridize()
    return net


def ones(*shape: int) -> Any:
    return np.ones(shape)


def test_equal_graphs_of_several_shapes_share_a_function() -> None:
    net = block(lambda net, x: np.exp(x) * net.weight.data())
    results = [net(ones(n, 3)).shape for n in (2, 3, 4, 2, 3)]
    assert results == [(2, 3), (3, 3), (4, 3), (2, 3), (3, 3)]
    assert net._traces is not None and net.calls == 3 and len(net._traces._by_graph) == 1


def test_threads_that_call_with_several_shapes_get_their_own_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    net = block(lambda net, x: x + 1 if x.ndim == 1 else [x * 2, x.sum()])
    for shape in ((3,), (2, 3)):
        net(ones(*shape))

    def interrupted(self: Any, *args: Any) -> Any:
        function = gluon.HybridBlock._function_for(self, *args)
        if args[0].ndim == 1:
            gluon.HybridBlock._function_for(self, ones(2, 3))  # what another thread does meanwhile
        return function

    monkeypatch.setattr(Written, "_function_for", interrupted, raising=False)
    assert net(ones(3)).tolist() == [2, 2, 2]


def test_graphs_that_are_not_used_are_dropped() -> None:
    net = block(lambda net, x: x.reshape(len(x), 1) * len(x))
    for n in range(1, 5):
        net(ones(n))
    assert net._traces is not None
    assert isinstance(net._traces._by_graph, Cache) and len(net._traces._by_graph) == 4


def test_python_code_sees_shapes_and_the_mode() -> None:
    net = block(lambda net, x: x * len(x) + (1 if autograd.is_training() else 0))
    assert [float(net(ones(n)).sum()) for n in (2, 3, 2)] == [4, 9, 4]
    with autograd.record():
        assert float(net(ones(2)).sum()) == 6
    with autograd.train_mode():
        assert float(net(ones(2)).sum()) == 6
    assert (float(net(ones(2)).sum()), net.calls) == (4, 3)


def test_elements_are_those_of_the_first_call() -> None:
    net = block(lambda net, x: x * float(x.sum()) if x.max() > 0 else -x)
    assert net(ones(3)).tolist() == [3, 3, 3]
    assert net(ones(3) * 2).tolist() == [6, 6, 6]


def test_modes_in_forward_do_not_change_the_graph() -> None:
    """As in MXNet 2."""

    def paused(net: Any, x: Any) -> Any:
        with autograd.pause():
            total = x.sum()
        return x * total

    def predicting(net: Any, x: Any) -> Any:
        with autograd.predict_mode():
            return npx.dropout(x, 1 - 1e-6)

    gradients: list[Any] = []
    for hybrid in (False, True):
        x = ones(3)
        x.attach_grad()
        with autograd.record():
            y = block(paused, hybrid)(x)
        y.backward()
        gradients.append(x.grad.tolist())
        with autograd.record():
            assert block(predicting, hybrid)(x).tolist() == ([0] * 3 if hybrid else [1] * 3)
    assert gradients == [[3] * 3, [6] * 3]


def test_statistics_are_updated_once() -> None:
    class Normalised(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.norm = gluon.nn.BatchNorm(in_channels=3)

        def forward(self, x: Any) -> Any:  # type: ignore[override]
            y = self.norm(x)
            return y * float(y.sum() > -1e9)  # reads an element, so part of the graph runs while it is traced

    means = []
    for hybrid in (False, True):
        net = Normalised()
        net.initialize()
        if hybrid:
            net.hybridize()
        with autograd.record():
            net(np.arange(6).reshape(2, 3))
        means.append(net.collect_params()["norm.running_mean"].data().asnumpy())
    onp.testing.assert_allclose(means[0], means[1])


def test_random_numbers_are_drawn_in_each_call() -> None:
    net = block(lambda net, x: x + np.random.uniform(size=x.shape))
    assert net(ones(4)).tolist() != net(ones(4)).tolist()


def test_a_block_of_gluon_with_a_written_one_inside() -> None:
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(3), Written(lambda net, x: npx.relu(x) * net.weight.data()), gluon.nn.Dense(1))
    net.initialize()
    x = np.random.uniform(size=(2, 4))
    eager = net(x)
    net.hybridize()
    onp.testing.assert_allclose(net(x).asnumpy(), eager.asnumpy(), 1e-6)
    assert list(net.collect_params())[2] == f"{net[1].prefix}weight"
    assert net.collect_params()["1.weight"] is net[1].weight


def test_arrays_of_nd_run_forward_in_each_call() -> None:
    npx.reset_np()
    net = block(lambda net, x: x * 2)
    for _ in range(2):
        assert net(mx.nd.ones((2,))).asnumpy().tolist() == [2, 2]
    assert net.calls == 2


def test_functions_of_nd_in_forward() -> None:
    net = block(lambda net, x: mx.nd.softmax(x.as_nd_ndarray()).as_np_ndarray()[0])
    assert net(ones(1, 4)).tolist() == [0.25] * 4
    assert net.calls == 1


def test_gradients_by_data_and_parameters() -> None:
    slopes = []
    for hybrid in (False, True):
        net = block(lambda net, x: (x[1:, ::2] * net.weight.data()[:2]).sum() + x[x > 2].sum(), hybrid)
        x = np.arange(6).reshape(2, 3)
        x.attach_grad()
        with autograd.record():
            y = net(x)
        y.backward()
        slopes.append((x.grad.tolist(), net.weight.grad().asnumpy().tolist(), float(y)))
    assert slopes[0] == slopes[1]


def test_a_loop_reads_parameters() -> None:
    def forward(net: Any, x: Any) -> Any:
        bias = np.arange(3) + 1

        def step(row: Any, state: Any) -> Any:
            state = np.tanh(row * net.weight.data() + state + bias)
            return state * 2, state

        outputs, last = npx.foreach(step, x, np.zeros((3,)))
        return outputs, npx.cond(last.sum() > 0, lambda: last + bias, lambda: last - bias)

    x = np.random.uniform(size=(4, 3))
    eager, compiled = (block(forward, hybrid)(x) for hybrid in (False, True))
    for one, other in zip(eager, compiled, strict=True):
        onp.testing.assert_allclose(one.asnumpy(), other.asnumpy(), 1e-5)


def test_copies_pickles_and_exports(tmp_path: Path) -> None:
    net = gluon.nn.HybridSequential()
    net.add(Scaled())
    net.initialize()
    net.hybridize()
    x = ones(2, 3)
    expected = net(x).tolist()
    assert copy.deepcopy(net)(x).tolist() == expected
    assert pickle.loads(pickle.dumps(net))(x).tolist() == expected
    net.export(str(tmp_path / "net"))
    files = str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params")
    assert gluon.SymbolBlock.imports(*files)(x).tolist() == expected


class Scaled(gluon.HybridBlock):
    """Multiplies by a parameter and by numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = gluon.Parameter("weight", shape=(3,), init=mx.init.Constant(2))

    def forward(self, x: Any) -> Any:  # type: ignore[override]
        return x * self.weight.data() * np.array([1, 2, 3])


def test_hooks_and_hybridize_off() -> None:
    net, seen = block(lambda net, x: x * 2), []
    net.register_forward_hook(lambda net, inputs, output: seen.append(output.tolist()))
    for _ in range(2):
        net(ones(2))
    assert (seen, net.calls) == ([[2, 2], [2, 2]], 1)
    net.hybridize(False)
    net(ones(2))
    assert net.calls == 2


def test_shared_and_constant_parameters() -> None:
    first, second = block(lambda net, x: x * net.weight.data()), block(lambda net, x: x + net.weight.data())
    second.share_parameters(first.collect_params())
    first.weight.set_data(ones(3) * 5)
    assert (first(ones(3)).tolist(), second(ones(3)).tolist()) == ([5] * 3, [6] * 3)
    assert list(second.collect_params()) == [first.weight.name]
    constant = gluon.Constant(np.array([1, 2]))
    assert constant.value.asnumpy().tolist() == [1, 2] and constant.name == "const"


OUTSIDE = ones(3)
REFUSED: list[tuple[str, Callable[..., Any], type[Exception], str]] = [
    ("write", lambda net, x: (x * 1).__setitem__(0, 1), MXNetError, "Inplace operations"),
    ("in place", lambda net, x: (x * 1).__iadd__(1), MXNetError, "Inplace operations"),
    ("out", lambda net, x: np.exp(x, out=x), MXNetError, "Inplace operations"),
    ("outside", lambda net, x: x + OUTSIDE, MXNetError, "Make it a gluon.Constant"),
    ("numpy", lambda net, x: np.cov(x), MXNetError, "np.cov is NumPy's own"),
    ("read", lambda net, x: np.array([float(x.sum())]), MXNetError, "after it had read elements"),
    ("histogram", lambda net, x: np.histogram(x), MXNetError, "after it had read elements"),
    ("index", lambda net, x: x[5], IndexError, "index 5 is out of bounds for axis 0 with size 3"),
    ("indices", lambda net, x: x[0, 0], IndexError, "too many indices"),
    ("list of indices", lambda net, x: x[[0, 3]], IndexError, "index 3 is out of bounds for axis 0 with size 3"),
    ("negative", lambda net, x: x[[-4]], IndexError, "index -4 is out of bounds for axis 0 with size 3"),
    ("new axis", lambda net, x: x[None, [0]], IndexError, "both arrays and None"),
    ("truth", lambda net, x: x[True], IndexError, "must be an array, and the whole key"),
    ("mask", lambda net, x: x[ones(2).astype("bool")], IndexError, "did not match indexed array"),
    ("shapes", lambda net, x: x + np.ones((2,)), MXNetError, r"\(3,\) and \(2,\)"),
    ("number", lambda net, x: 3, ValueError, "must be .nested. list of Symbol or NDArray"),
    ("none", lambda net, x: [x, None], MXNetError, "cannot return None"),
    ("attach", lambda net, x: x.attach_grad(), MXNetError, "are no variables"),
]


@pytest.mark.parametrize(("function", "kind", "text"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_refused(function: Callable[..., Any], kind: type[Exception], text: str) -> None:
    net = block(function)
    with pytest.raises(kind, match=text):
        net(ones(3))
    assert float((ones(3) + 1).sum()) == 6  # nothing is traced after an error


def test_symbols_and_unknown_shapes_are_refused() -> None:
    net = block(lambda net, x: x)
    with pytest.raises(ValueError, match=r"Written\.forward is written with functions of arrays"):
        net(mx.sym.var("x").as_np_ndarray())
    net.unknown = gluon.Parameter("unknown", shape=(-1,), allow_deferred_init=True)
    net.initialize(force_reinit=True)
    with pytest.raises(RuntimeError, match=r"Written has parameters with unknown shape.* Written\.infer_shape"):
        net(ones(3))


@pytest.mark.usefixtures("simulated_gpus")
def test_a_traced_block_on_a_gpu() -> None:
    def forward(net: Any, x: Any) -> Any:
        scaled = x * net.weight.data(x.device) + np.arange(3, device=x.device)
        return scaled - 1 if x.shape[0] > 1 else scaled

    slopes = []
    for context in (mx.cpu(), mx.gpu(0)):
        net = block(forward)
        net.reset_device(context)
        x = np.arange(6, device=context).reshape(2, 3)
        with autograd.record():
            y = net(x).sum()
        y.backward()
        assert y.device == context
        slopes.append((float(y), net.weight.grad().asnumpy().tolist()))
    assert slopes[0] == slopes[1]
