"""Operators that update weights: in place, eagerly and in graphs, with scalar parameters that change between calls."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest
from goldens import Golden, operator_goldens, symbol_function
from mxforge.frontend.ndarray import operator_function

nd: Any = mx.nd  # numbers are also passed as strings and arrays
sym: Any = mx.sym
UPDATES = [g for g in operator_goldens() if g.op.endswith(("_update", "_phase1", "_phase2"))]


def close(found: Any, expected: np.ndarray, golden: Golden) -> None:
    half = any(x.dtype == np.float16 for x in golden.inputs)
    limit = 5e-3 if half else 2e-5
    np.testing.assert_allclose(found.asnumpy(), expected, limit, limit)


def arrays(golden: Golden) -> list[Any]:
    return [nd.array(x, dtype=x.dtype) for x in golden.inputs]


def function(golden: Golden) -> Any:
    return getattr(nd, golden.op, None) or getattr(nd._internal, golden.op)


@pytest.mark.parametrize("golden", UPDATES, ids=str)
def test_an_eager_update_writes_states_in_place(golden: Golden) -> None:
    operands = arrays(golden)
    found = function(golden)(*operands, **golden.attributes)
    for result, expected in zip(found if isinstance(found, list) else [found], golden.outputs, strict=True):
        close(result, expected, golden)
    for i, expected in golden.states.items():
        close(operands[i], expected, golden)


@pytest.mark.parametrize("golden", UPDATES, ids=str)
def test_an_eager_update_overwrites_the_weight(golden: Golden) -> None:
    width = len(golden.inputs) // len(golden.outputs)
    like = [i * width for i in range(len(golden.outputs))]
    if any(golden.inputs[i].dtype != y.dtype for i, y in zip(like, golden.outputs, strict=True)):
        pytest.skip("the result has another type than the weight")
    for _ in range(3):  # the first call compiles, the others use the fast path
        operands = arrays(golden)
        weights = [operands[i] for i in like]
        numbers = {k: _number(v) for k, v in golden.attributes.items()}
        result = function(golden)(*operands, **numbers, out=weights[0] if len(weights) == 1 else weights)
        assert result is weights[0] or all(a is b for a, b in zip(result, weights, strict=True))
        for weight, expected in zip(weights, golden.outputs, strict=True):
            close(weight, expected, golden)
        for i, expected in golden.states.items():
            close(operands[i], expected, golden)


def _number(text: str) -> Any:
    if text.startswith("("):
        return [_number(t) for t in text.strip("()").split(",") if t.strip()]
    if text in ("True", "False"):
        return text == "True"
    return float(text) if "." in text or "e" in text else int(text)


@pytest.mark.parametrize("golden", UPDATES, ids=str)
def test_an_update_in_a_graph(golden: Golden) -> None:
    symbol = symbol_function(golden.op)(*[mx.sym.var(f"x{i}") for i in range(len(golden.inputs))], **golden.attributes)
    named = {f"x{i}": x for i, x in enumerate(arrays(golden))}
    states = symbol.list_auxiliary_states()
    executor = symbol.bind(
        mx.cpu(), {n: x for n, x in named.items() if n not in states}, aux_states={n: named[n] for n in states}
    )
    for result, expected in zip(executor.forward(), golden.outputs, strict=True):
        close(result, expected, golden)
    for i, expected in golden.states.items():
        close(named[f"x{i}"], expected, golden)


def test_other_scalar_parameters_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, grad, mean, var = (nd.ones((2, 3)) for _ in range(4))
    nd.adam_update(weight, grad, mean, var, out=weight, lr=0.1, wd=0.01)
    made: list[Any] = []
    original = operator_function.OperatorSpecialization.__init__

    def watched(self: Any, *args: Any) -> None:
        made.append(args)
        original(self, *args)

    monkeypatch.setattr(operator_function.OperatorSpecialization, "__init__", watched)
    for step in range(1, 20):
        nd.adam_update(weight, grad, mean, var, out=weight, lr=0.1 / step, wd=0.01 * step)
        nd.adam_update(weight, grad, mean, var, out=weight, lr=str(0.1 / step), wd=np.float32(step))
    assert made == []


def test_a_changed_scalar_parameter_has_effect() -> None:
    weight, grad = nd.ones((2,)), nd.ones((2,))
    for lr in (1, 0.5, 0.25):
        nd.sgd_update(weight, grad, lr=lr, out=weight)
    assert weight.asnumpy().tolist() == [-0.75, -0.75]


def test_operands_that_share_memory_are_read_before_they_are_written() -> None:
    for _ in range(3):
        both = nd.array([1.0, 2.0, 3.0])
        weight, grad = both[0:2], both[1:3]
        nd.sgd_update(weight, grad, lr=1, out=weight)
        assert both.asnumpy().tolist() == [-1, -1, 3]


def test_steps_are_counted_at_run_time() -> None:
    weight, grad, mean, var = (nd.ones((2,)) for _ in range(4))
    found = [
        nd.lamb_update_phase1(weight, grad, mean.copy(), var.copy(), t=t, wd=0.1).asnumpy()[0] for t in (1, 2, "2")
    ]
    assert found[0] != found[1] == found[2]
    with pytest.raises(mx.base.MXNetError, match=r"t=2.0: 2.0 is not an integer"):
        nd.lamb_update_phase1(weight, grad, mean, var, t=2.0, wd=0.1)


def test_invalid_operands_are_named() -> None:
    weight, grad = nd.ones((2,)), nd.ones((2,))
    with pytest.raises(mx.base.MXNetError, match=r"sgd_update.*lr"):
        nd.sgd_update(weight, grad)
    with pytest.raises(mx.base.MXNetError, match="lrs has 1 numbers for 2 weights"):
        nd.multi_sgd_update(weight, grad, weight, grad, lrs=(1,), wds=(0, 0), num_weights=2)
    with pytest.raises(mx.base.MXNetError, match="takes 4 arrays"):
        nd.multi_sgd_update(weight, grad, lrs=(1, 1), wds=(0, 0), num_weights=2)
    with pytest.raises(mx.base.MXNetError, match="sgd_update"):
        nd.sgd_update(weight, nd.ones((3,)), lr=1)


def test_wrappers_of_contrib() -> None:
    def fresh() -> list[Any]:
        return [nd.array([1.0, 2.0]), nd.array([0.5, 0.25]), nd.zeros(2), nd.ones(2)]

    weight, grad, mean, var = fresh()
    nd.contrib.adamw_update(weight, grad, mean, var, 2.0, lr=0.1, eta=1, wd=0.01, out=weight)
    one, two = fresh(), fresh()
    lists = [[a, b] for a, b in zip(one, two, strict=True)]
    nd.contrib.multi_adamw_update(*lists, nd.array([2.0]), lrs=[0.1, 0.1], wds=[0.01, 0.01], etas=[1, 1], out=lists[0])
    for found in lists[0]:
        np.testing.assert_allclose(found.asnumpy(), weight.asnumpy(), 1e-6)
    kept = fresh()
    nd.contrib.adamw_update(*kept, float("nan"), lr=0.1, eta=1, out=kept[0])
    assert [a.asnumpy().tolist() for a in kept] == [a.asnumpy().tolist() for a in fresh()]
    nd.contrib.multi_lamb_update(*lists, step_count=[1, 2], lrs=[0.1, 0.1], wds=[0, 0], out=lists[0])
    halves = [nd.ones(2, dtype="float16")], [nd.ones(2, dtype="float16")], [nd.zeros(2)], [nd.zeros(2)], [nd.ones(2)]
    nd.contrib.multi_mp_lamb_update(*halves, step_count=[1], lrs=[0.1], wds=[0], out=halves[0])
    assert halves[0][0].asnumpy()[0] == np.float16(halves[4][0].asnumpy()[0]) < 1
    names = sym.contrib.adamw_update(*map(mx.sym.var, "wgmv"), 0.5, lr=1, eta=1).list_arguments()
    assert names == ["w", "g"]


def test_rows_share_the_history_of_group_adagrad() -> None:
    weight, history, grad = nd.ones((3, 4)), nd.array([[1.0], [2.0], [4.0]]), np.arange(12).reshape(3, 4) * 0.1
    nd.contrib.group_adagrad_update(weight, nd.array(grad), history, out=weight, lr=0.1, epsilon=0.01)
    reference = np.array([[1.0], [2.0], [4.0]]) + (grad**2).mean(1, keepdims=True)
    np.testing.assert_allclose(history.asnumpy(), reference, 1e-6)
    np.testing.assert_allclose(weight.asnumpy(), 1 - 0.1 * grad / np.sqrt(reference + 0.01), 1e-6)


def test_resetting_and_testing_arrays() -> None:
    x, y = nd.ones(3), nd.ones((2, 2))
    assert nd.reset_arrays(x, y, num_arrays=2) == []
    assert x.asnumpy().sum() == y.asnumpy().sum() == 0
    out = nd.zeros(1)
    nd.multi_all_finite(x, y, num_arrays=2, init_output=False, out=out)
    assert out.asscalar() == 0
    nd.all_finite(x, out=out)
    assert out.asscalar() == 1
    nd.all_finite(nd.array([np.inf]), init_output=False, out=out)
    assert out.asscalar() == 0


ROWS = np.array([[1, 1], [0, 0], [2, 2]], np.float32)
# MXNet's results of successive updates of a weight, a momentum and a variance of ones by a gradient of two rows.
LAZY = [
    (nd.sgd_update, 0, {}, [0.89, 1, 0.79], None),
    (nd.sgd_mom_update, 1, {"momentum": 0.5}, [1.2811, 1, 1.0821], [0.3911, 1, 0.2921]),
    (nd.adam_update, 2, {}, [1.2346263, 1, 1.0348103], [0.46480104, 1, 0.47371107]),
]
EAGER = [
    (nd.sgd_update, 0, {}, [0.89, 0.99, 0.79], None),
    (nd.sgd_mom_update, 1, {"momentum": 0.5}, [1.2811, 1.4801, 1.0821], [0.3911, 0.4901, 0.2921]),
    (nd.adam_update, 2, {}, [1.2346263, 1.4344887, 1.0348103], [0.46480104, 0.45589098, 0.4737111]),
]


@pytest.mark.parametrize(("lazy", "steps"), [(True, LAZY), (False, EAGER)])
@pytest.mark.parametrize("stype", ["default", "row_sparse"])
def test_rows_without_a_gradient_are_unchanged(lazy: bool, steps: Any, stype: str) -> None:
    weight, mean, var = (nd.ones((3, 2)).tostype(stype) for _ in range(3))
    grad = nd.array(ROWS).tostype("row_sparse")
    for update, count, numbers, reference, moved in steps:
        states = (mean, var)[:count]
        found = update(weight, grad, *states, out=weight, lr=0.1, wd=0.1, lazy_update=lazy, **numbers)
        assert found is weight
        np.testing.assert_allclose(weight.asnumpy()[:, 0], reference, 1e-5)
        if moved is not None:
            np.testing.assert_allclose(mean.asnumpy()[:, 0], moved, 1e-5)


def test_an_update_by_no_rows_changes_nothing() -> None:
    weight = nd.ones((3, 2))
    found = nd.sgd_update(weight, nd.sparse.zeros("row_sparse", (3, 2)), lr=1, wd=1)
    assert found is not weight
    assert (found.asnumpy() == 1).all()
    with pytest.raises(mx.base.MXNetError, match="sgd_update"):
        nd.sgd_update(weight, nd.sparse.zeros("row_sparse", (4, 2)), lr=1)


def test_omitted_scalar_parameters_have_their_defaults() -> None:
    """They do not depend on the numbers of the operator's first call, whose program all calls share."""
    grad = nd.ones((7,))
    for rate in (0.5, 0.25):
        nd.signsgd_update(nd.ones((7,)), grad, lr=rate, wd=0.5, rescale_grad=0.125, out=nd.ones((7,)))
    for _ in range(3):
        weight = nd.ones((7,))
        nd.signsgd_update(weight, grad, lr=0.5, out=weight)
        assert weight.asnumpy().tolist() == [0.5] * 7
