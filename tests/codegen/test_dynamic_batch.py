"""Modules of StableHLO for any batch size: refined to a batch size, they compute what mxforge computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.codegen.dynamic_batch import dynamic_batch_text
from mxforge.ir.graph import Graph, GraphError
from mxforge.ir.symbolic import Trace
from mxforge.ir.target import REFERENCE
from mxforge.passes.manager import Context, run_passes
from mxforge.passes.pipeline import FOR_REFERENCE

pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is not installed")
from stablehlo_judge import evaluated, refined

nn, sym = mx.gluon.nn, mx.sym

FORMS: dict[str, Callable[[Any], Any]] = {
    "products": lambda x: sym.batch_dot(sym.softmax(sym.batch_dot(x, x, transpose_b=True)), x),
    "rows": lambda x: sym.dot(sym.reshape(x, shape=(-1, 6)), sym.ones((6, 2))),
    "mean": lambda x: sym.broadcast_add(x, sym.mean(x, axis=0, keepdims=True)),
    "mean of all": sym.mean,
    "pieces": lambda x: sym.concat(x, sym.slice_axis(x, axis=1, begin=1, end=3), dim=1),
    "copies": lambda x: sym.repeat(sym.tile(x, reps=(2, 1, 1)), repeats=2, axis=0),
    "reversed": lambda x: sym.flip(x, axis=0),
    "last": lambda x: sym.slice(x, begin=(-1, 0, 0), end=(None, None, None)),
    "every second": lambda x: sym.slice(x, begin=(0, 0, 0), end=(None, None, None), step=(2, 1, 1)),
    "largest": lambda x: sym.topk(x, k=2),
    "sorted": lambda x: sym.sort(x, axis=0),
    "picked": lambda x: sym.pick(x, sym.argmax(x, axis=2), axis=2),
    "constants": lambda x: x * (sym.ones_like(x) * 2 + 1),
    "at positions": lambda x: sym.gather_nd(x, sym.cast(sym.zeros((2, 3)) - 1, "int32")),
    "one hot": lambda x: sym.one_hot(sym.argmax(x, axis=1), 5),
    "taken": lambda x: sym.take(x, sym.slice_axis(sym.argsort(sym.sum(x, axis=(1, 2))), axis=0, begin=0, end=1)),
    "padded": lambda x: sym.pad(sym.expand_dims(x, 1), mode="edge", pad_width=(0, 0, 0, 0, 1, 1, 2, 2)),
    "numbers": sym.contrib.arange_like,
    "sums": lambda x: sym.cumsum(x, axis=1),
    "functions": lambda x: sym.erf(x) + sym.gammaln(sym.abs(x) + 1) + sym.erfinv(sym.tanh(x) / 2) + sym.arcsinh(x),
    "shape": sym.shape_array,
    "size": lambda x: sym.broadcast_div(x, sym.cast(sym.size_array(x), "float32")),
    "loop": lambda x: sym.contrib.foreach(
        lambda row, s: (row * s[0], [s[0] + row]), sym.transpose(x, axes=(1, 0, 2)), [sym.sum(x, axis=1)]
    )[0],
}


def lowered(graph: Graph) -> Graph:
    return run_passes(FOR_REFERENCE, graph, Context(REFERENCE))


def text_of(network: Any, shape: tuple[int, ...], dtype: str = "float32") -> str:
    """The module for any batch size; the one of `shape` is ignored."""
    block = mx.gluon.SymbolBlock(network, [sym.var("data")]) if isinstance(network, mx.sym.Symbol) else network
    data = mx.nd.zeros(shape, dtype=dtype)
    function = block._function_for(data)
    arrays = function.inputs([data])
    graph = function.function.graph([a._type() for a in arrays])
    names = function.function.names
    constants = {i: a._memory() for i, a in enumerate(arrays) if names[i] != "data"}
    return dynamic_batch_text(graph, [names.index("data")], lowered, constants)


@pytest.mark.parametrize("form", FORMS)
def test_one_module_serves_all_batch_sizes(form: str) -> None:
    symbol = FORMS[form](sym.var("data"))
    text = text_of(symbol, (3, 4, 6))
    assert "tensor<?x4x6xf32>" in text
    for batch in (1, 2, 3, 7):
        data = np.random.default_rng(batch).standard_normal((batch, 4, 6)).astype(np.float32)
        executor = symbol.bind(mx.cpu(), {"data": mx.nd.array(data)})
        for ours, theirs in zip(executor.forward(), evaluated(refined(text, data), data), strict=True):
            np.testing.assert_allclose(theirs, ours.asnumpy().reshape(theirs.shape), 1e-5, 1e-5)


def convolutional() -> tuple[Any, Any]:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(), nn.AvgPool2D())
    net.add(nn.Flatten(), nn.Dense(5), nn.LayerNorm())
    return net, lambda batch: mx.nd.random.normal(shape=(batch, 3, 8, 8))


def recurrent() -> tuple[Any, Any]:
    net = nn.HybridSequential()
    net.add(nn.Embedding(10, 4), mx.gluon.rnn.LSTM(6, layout="NTC"), nn.Dense(3, flatten=False))
    return net, lambda batch: mx.nd.array(np.arange(batch * 5).reshape(batch, 5) % 10)


@pytest.mark.parametrize("make", (convolutional, recurrent), ids=lambda make: make.__name__)
def test_networks(make: Any) -> None:
    net, data = make()
    net.initialize(mx.init.Xavier())
    text = text_of(net, data(2).shape)
    for batch in (1, 2, 9):
        x = data(batch)
        (theirs,) = evaluated(refined(text, x.asnumpy()), x.asnumpy())
        np.testing.assert_allclose(theirs, net(x).asnumpy(), 1e-5, 1e-6)


def test_a_node_without_a_dynamic_form_is_named() -> None:
    x = sym.var("data")
    with pytest.raises(GraphError, match=r"core\.cumulative 'sums'.*is not a constant"):
        text_of(sym.cumsum(x, axis=0, name="sums") * 2, (2, 3))
    with pytest.raises(Exception, match=r"'parts'.*9973 is the unknown batch size"):
        text_of(sym.split(x, num_outputs=2, axis=0, name="parts")[0], (2, 3))
    required = sym.slice_axis(sym.relu(x), axis=0, begin=0, end=4, name="first")
    with pytest.raises(GraphError, match=r"'first'.*requires certain batch sizes .*batch"):
        text_of(sym.exp(required), (5, 3))


def test_the_guards_of_a_trace() -> None:
    trace = Trace()
    n = trace.unknown(10)
    half = n // 3
    assert half * 2 < n + 1 and half != 7
    assert trace.broken_guards(9) == []
    assert len(trace.broken_guards(21)) == 1
    assert trace.definition(half) == ("//", (n, 3))  # pyright: ignore[reportArgumentType]
