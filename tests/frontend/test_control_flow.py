"""Loops and conditions: hybridized against eager, random draws, long loops, errors.

tests/data/programs/control_flow.py contains the tests that MXNet passes too.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge import nd

sym: Any = mx.sym
ARTIFACTS = Path(__file__).resolve().parents[1] / "data" / "artifacts"


def ramp(*shape: int) -> Any:
    return nd.array(np.cos(np.arange(np.prod(shape)) * 0.37).reshape(shape))


class Loops(mx.gluon.HybridBlock):
    """All kinds of control flow nested in each other, with a layer of deferred shape and random draws of no effect."""

    def __init__(self) -> None:
        super().__init__(prefix="loops_")
        with self.name_scope():
            self.cell = mx.gluon.nn.Dense(3, activation="tanh")

    def hybrid_forward(self, F: Any, data: Any, state: Any) -> Any:
        def search(x: Any) -> Any:
            outs, (_, last) = F.contrib.while_loop(
                lambda i, h: F.sum(i) < 3,
                lambda i, h: (h, (i + 1, h * 0.5)),
                (F.zeros((1,)), x),
                max_iterations=6,
            )
            return F.sum(outs, axis=0) + last

        def inner(x: Any, states: Any) -> Any:
            return F.broadcast_mul(x, states[0]), [states[0] + 1]

        def step(x: Any, states: Any) -> Any:
            h = self.cell(x + states[0])
            chosen = F.contrib.cond(F.sum(h) > 0, lambda: search(h), lambda: h - 1)
            rows, _ = F.contrib.foreach(inner, chosen, [F.sum(x)])
            return [rows, F.Dropout(h, p=0.5)], [h]

        (rows, hidden), (last,) = F.contrib.foreach(step, data, [state])
        return rows, hidden, last


def test_hybridized_equals_eager() -> None:
    net = Loops()
    net.initialize(mx.init.Uniform(1))
    data, state = ramp(5, 2, 3), ramp(2, 3)
    eager = [o.asnumpy() for o in net(data, state)]
    net.hybridize()
    for found, reference in zip(net(data, state), eager, strict=True):
        np.testing.assert_allclose(found.asnumpy(), reference, rtol=1e-5, atol=1e-6)


def test_exported_loops_are_loaded(tmp_path: Path) -> None:
    net = Loops()
    net.initialize(mx.init.Uniform(1))
    net.hybridize()
    data, state = ramp(5, 2, 3), ramp(2, 3)
    reference = [o.asnumpy() for o in net(data, state)]
    net.export(str(tmp_path / "net"))
    names = ["data0", "data1"]
    again = mx.gluon.SymbolBlock.imports(f"{tmp_path}/net-symbol.json", names, f"{tmp_path}/net-0000.params")
    for found, expected in zip(again(data, state), reference, strict=True):
        np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["foreach", "nested_control_flow"])
def test_graphs_that_mxnet_wrote_run(name: str) -> None:
    """The graphs are written by MXNet; mxforge writes them back unchanged."""
    text = (ARTIFACTS / f"{name}-symbol.json").read_text()
    graph = sym.load_json(text)
    assert graph.tojson() == text
    shapes = {"data": (4, 3)} if name == "foreach" else dict.fromkeys(graph.list_inputs(), (1,))
    executor = graph.simple_bind(mx.cpu(), **shapes)
    assert all(np.isfinite(o.asnumpy()).all() for o in executor.forward())


def drawn(graph: Any, **arrays: Any) -> list[np.ndarray]:
    executor = graph.bind(mx.cpu(), arrays)
    mx.random.seed(7)
    first = [o.asnumpy() for o in executor.forward()]
    mx.random.seed(7)
    again = [o.asnumpy() for o in executor.forward()]
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert any((a != o.asnumpy()).any() for a, o in zip(first, executor.forward(), strict=True))
    return first


@pytest.mark.parametrize("length", [8, 2000])
def test_draws_inside_foreach_differ_between_steps(length: int) -> None:
    def body(x: Any, states: Any) -> Any:
        numbers = sym.random.uniform(shape=(4,)) + sym.Dropout(sym.ones_like(x), p=0.5, mode="always")
        return numbers, [states[0] + sym.random.normal(shape=(4,)) + x]

    outs, states = sym.contrib.foreach(body, sym.var("data"), [sym.var("state")])
    graph = sym.Group([outs, states[0], sym.random.uniform(shape=(4,))])
    numbers = drawn(graph, data=nd.zeros((length, 4)), state=nd.zeros((4,)))[0]
    assert len(np.unique(numbers % 1)) > 0.99 * numbers.size
    assert 0.3 < np.mean(numbers < 1) < 0.7


def test_draws_inside_loops_and_branches() -> None:
    def body(i: Any, total: Any) -> Any:
        added = sym.contrib.cond(
            sym.sum(i) > 1, lambda: sym.random.uniform(shape=(4,)), lambda: sym.random.uniform(5, 6, shape=(4,))
        )
        return added, (i + 1, total + added)

    outs, states = sym.contrib.while_loop(
        lambda i, total: i < 4, body, (sym.var("i"), sym.var("total")), max_iterations=5
    )
    rows, _, total = drawn(sym.Group([outs, *states]), i=nd.zeros((1,)), total=nd.zeros((4,)))
    assert (rows[:2] >= 5).all() and (rows[2:4] < 1).all() and (rows[4] == 0).all()
    assert len(np.unique(rows[:4])) == 16
    np.testing.assert_allclose(rows.sum(axis=0), total, rtol=1e-6)


def test_draws_in_a_loop_without_outputs() -> None:
    _, states = sym.contrib.while_loop(
        lambda i, x: i < 3,
        lambda i, x: ([], (i + 1, x * 10 + sym.floor(sym.random.uniform(0, 10, shape=(64,))))),
        (sym.var("i"), sym.var("x")),
        max_iterations=2**40,
    )
    (_, x) = drawn(sym.Group(states), i=nd.zeros((1,)), x=nd.zeros((64,)))
    digits = np.stack([x // 100, x // 10 % 10, x % 10])
    assert not (digits[0] == digits[1]).all() and not (digits[1] == digits[2]).all()
    assert len(np.unique(digits)) == 10


def test_thousands_of_steps_compile_quickly() -> None:
    def body(x: Any, states: Any) -> Any:
        h = sym.tanh(sym.FullyConnected(x, num_hidden=16, name="i") + sym.FullyConnected(states[0], num_hidden=16))
        return h, [h]

    outs, states = sym.contrib.foreach(body, sym.var("data"), [sym.var("state")])
    executor = sym.Group([outs, *states]).simple_bind(mx.cpu(), data=(5000, 2, 16), state=(2, 16))
    for array in executor.arg_arrays:
        array[:] = ramp(*array.shape) / 4
    begin = time.perf_counter()
    found, last = (o.asnumpy() for o in executor.forward())
    assert time.perf_counter() - begin < 20
    arrays = [a.asnumpy() for a in executor.arg_arrays]
    named = dict(zip(executor._symbol.list_arguments(), arrays, strict=True))
    w, r = (named[n] for n in named if n.endswith("weight"))
    wb, rb = (named[n] for n in named if n.endswith("bias"))
    h = named["state"]
    for x in named["data"]:
        h = np.tanh(x @ w.T + wb + h @ r.T + rb)
    np.testing.assert_allclose(last, h, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found[-1], last)


def test_invalid_arguments_are_named() -> None:
    outs, _ = sym.contrib.foreach(lambda x, s: (x, [sym.concat(s[0], x, dim=0)]), sym.var("data"), [sym.var("state")])
    with pytest.raises(RuntimeError, match="_foreach"):
        outs.simple_bind(mx.cpu(), data=(3, 2), state=(2,))
    graph = sym.contrib.cond(sym.var("p"), lambda: sym.var("a"), lambda: sym.var("a") * 2)
    with pytest.raises(mx.MXNetError, match="must have one element"):
        graph.bind(mx.cpu(), {"p": nd.ones((2,)), "a": nd.ones((2,))}).forward()
    outs, _ = sym.contrib.foreach(lambda x, s: (x, []), [sym.var("a"), sym.var("b")][0], [])
    with pytest.raises(mx.MXNetError):
        outs.infer_shape(data=(3, 2))


def test_a_damaged_subgraph_is_refused() -> None:
    outs, _ = sym.contrib.foreach(lambda x, s: (x * 2, []), sym.var("data"), [])
    text = outs.tojson()
    for old, new in (
        ('"in_data_locs": "[0]"', '"in_data_locs": "[3]"'),
        ('"num_outputs": "1"', '"num_outputs": "2"'),
        ('"op": "_mul_scalar"', '"op": "_no_such_operator"'),
    ):
        assert old in text
        with pytest.raises(mx.MXNetError):
            sym.load_json(text.replace(old, new)).infer_shape(data=(3, 2))


def nested(depth: int, x: Any, state: Any) -> Any:
    if not depth:
        return x + state, state + 1

    def body(item: Any, states: Any) -> Any:
        out, after = nested(depth - 1, item, states[0])
        return out, [after]

    outs, states = sym.contrib.foreach(body, x, [state])
    return outs, states[0]


def test_deep_loops_take_linear_time() -> None:
    graph = sym.Group(list(nested(7, sym.var("data"), sym.var("state"))))
    begin = time.perf_counter()
    again = sym.load_json(graph.tojson())
    outs, last = again.bind(mx.cpu(), {"data": nd.ones((2,) * 7 + (3,)), "state": nd.ones((3,))}).forward()
    assert time.perf_counter() - begin < 20
    np.testing.assert_array_equal(outs.asnumpy().reshape(-1, 3)[:, 0], np.arange(2, 130))
    np.testing.assert_array_equal(last.asnumpy(), np.full(3, 129))


class Triple(mx.operator.CustomOp):
    """Three times its operand. ValueError for negative elements."""

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        if (in_data[0].asnumpy() < 0).any():
            raise ValueError("a negative element")
        self.assign(out_data[0], req[0], in_data[0] * 3)


@mx.operator.register("triple_in_a_loop")
class TripleProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Any:
        return Triple()


def triple(x: Any) -> Any:
    return sym.Custom(x, op_type="triple_in_a_loop")


@pytest.mark.parametrize("length", [3, 700])
def test_python_functions_run_inside_loops(length: int) -> None:
    def step(x: Any, states: Any) -> Any:
        return sym.contrib.cond(sym.sum(x) > 4, lambda: triple(x), lambda: x), [states[0] + triple(x)]

    outs, states = sym.contrib.foreach(step, sym.var("data"), [sym.var("state")])
    data = np.arange(length, dtype=np.float32).repeat(2).reshape(length, 2) % 7
    graph = sym.Group([outs, states[0]])
    arrays = {"data": nd.array(data), "state": nd.zeros((2,))}
    found, total = (o.asnumpy() for o in graph.bind(mx.cpu(), arrays).forward())
    np.testing.assert_array_equal(found, np.where(data > 2, data * 3, data))
    np.testing.assert_array_equal(total, data.sum(axis=0) * 3)
    arrays["data"][length // 2] = -1
    with pytest.raises(mx.MXNetError, match="ValueError: a negative element"):
        graph.bind(mx.cpu(), arrays).forward()


def test_a_data_dependent_loop_calls_no_python() -> None:
    """If a call failed, the loop might not terminate."""
    _, (last,) = sym.contrib.while_loop(lambda i: i < 30, lambda i: ([], [triple(i)]), [sym.var("i")], max_iterations=9)
    with pytest.raises(mx.MXNetError, match="inside a loop whose length depends on data"):
        last.bind(mx.cpu(), {"i": nd.ones((1,))}).forward()
