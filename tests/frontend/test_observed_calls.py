"""Observers receive every call of an operator or a compiled graph, also if a fast path exists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge import gluon, nd
from mxforge.frontend.ndarray.operator_function import OperatorFunction
from mxforge.frontend.symbol.function import SymbolFunction
from mxforge.runtime.function import Call
from mxforge.runtime.modes import hooks
from mxforge.runtime.tensor import Tensor


class Recorder:
    """An observer that stores the calls."""

    def __init__(self) -> None:
        self.begun: list[Call] = []
        self.ended: list[tuple[Call, list[Tensor]]] = []

    def before_call(self, call: Call) -> None:
        self.begun.append(call)

    def after_call(self, call: Call, results: Sequence[Tensor]) -> None:
        self.ended.append((call, list(results)))

    def names(self) -> list[str]:
        return [name_of(call) for call, _ in self.ended]


def name_of(call: Call) -> str:
    if isinstance(call.function, OperatorFunction):
        return call.function.operator.mx_name()
    assert isinstance(call.function, SymbolFunction)
    return "symbol"


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    yield made
    hooks.remove(made)


X, Y = nd.array([[1, 2], [3, 4]]), nd.array([[5, 6], [7, 8]])


def dense() -> Callable[[], Any]:
    net = gluon.nn.Dense(3, in_units=2)
    net.initialize()
    net.hybridize()
    return lambda: net(X)


def executor() -> Callable[[], Any]:
    symbol = mx.sym.exp(mx.sym.Variable("x"))
    bound = symbol.bind(mx.cpu(), {"x": X})
    return lambda: bound.forward()[0]


def cached_op() -> Callable[[], Any]:
    made = nd.CachedOp(mx.sym.exp(mx.sym.Variable("x")))
    return lambda: made(X)


def in_place() -> Any:
    x = X.copy()
    x += Y
    return x


def update() -> Any:
    weight, grad, state = (nd.ones((3,)) for _ in range(3))
    return nd.sgd_mom_update(weight, grad, state, lr=0.1, momentum=0.9, out=weight)


CALLS: list[tuple[str, Callable[[], Any]]] = [
    ("broadcast_add", lambda: X + Y),
    ("broadcast_mul", lambda: X * 3),
    ("broadcast_sub", lambda: 3 - X),
    ("broadcast_add", in_place),
    ("negative", lambda: -X),
    ("broadcast_maximum", lambda: nd.maximum(X, 2)),
    ("exp", lambda: nd.exp(X)),
    ("sum", lambda: nd.sum(X, axis=1)),
    ("dot", lambda: nd.dot(X, Y)),
    ("sgd_mom_update", update),
    ("_random_uniform", lambda: nd.random.uniform(shape=(2,))),
    ("symbol", dense()),
    ("symbol", executor()),
    ("symbol", cached_op()),
]


@pytest.mark.parametrize(("name", "call"), CALLS, ids=[f"{i}-{name}" for i, (name, _) in enumerate(CALLS)])
def test_observers_receive_calls_with_a_fast_path(recorder: Recorder, name: str, call: Callable[[], Any]) -> None:
    for _ in range(3):
        call()
    hooks.add(recorder)
    result = call()
    hooks.remove(recorder)
    call()
    assert recorder.names().count(name) == 1 and len(recorder.begun) == len(recorder.ended)
    _, results = next((c, r) for c, r in recorder.ended if name_of(c) == name)
    assert results[0] is result


def test_an_observed_call_compiles_nothing_new(recorder: Recorder) -> None:
    hooks.add(recorder)
    first, second = ((X * Y).asnumpy() for _ in range(2))
    np.testing.assert_array_equal(first, second)
    calls = [c for c, _ in recorder.ended]
    assert calls[0].specialization is calls[1].specialization


def test_recording_disables_fast_paths() -> None:
    assert not hooks.watched
    with mx.autograd.record():
        assert hooks.watched
        with mx.autograd.pause():
            assert not hooks.watched
        assert hooks.watched
    assert not hooks.watched
