"""Checks that results agree: on several contexts, hybridized and not hybridized, of two optimizers."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import autograd, random
from .. import ndarray as nd
from ..executor import Executor
from ..initializer import Initializer
from ..ndarray import NDArray
from ..symbol import Symbol
from .arrays import rand_ndarray
from .checks import _sorted_items
from .comparison import assert_almost_equal, compare_ndarray_tuple, get_tols


def _smaller(one: Any, other: Any) -> Any:
    return one if other is None or np.dtype(one).itemsize < np.dtype(other).itemsize else other


def _compare(actual: Any, expected: Any, what: str, rtol: Any, atol: Any, equal_nan: bool, fail: bool) -> None:
    try:
        assert_almost_equal(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)
    except AssertionError as error:
        print(what)
        traceback.print_exc()
        if fail:
            raise
        print(error)


def check_consistency(
    sym: Symbol | list[Symbol],
    ctx_list: list[dict[str, Any]],
    scale: float = 1.0,
    grad_req: str = "write",
    arg_params: dict[str, Any] | None = None,
    aux_params: dict[str, Any] | None = None,
    rtol: Any = None,
    atol: Any = None,
    raise_on_err: bool = True,
    ground_truth: dict[str, Any] | None = None,
    equal_nan: bool = False,
    use_uniform: bool = False,
    rand_type: Any = np.float64,
) -> dict[str, Any]:
    """AssertionError unless a symbol returns equal results for different arguments of `simple_bind`.

    Args:
        sym: A symbol, or one symbol for each entry of `ctx_list`.
        ctx_list: Keyword arguments of `simple_bind` for each executor.
        scale: Standard deviation of the random arguments, or about half the width of their interval if `use_uniform`.
        grad_req: The gradient request. Gradients are compared too unless it is "null".
        arg_params: Arguments by name; missing ones are random.
        aux_params: Auxiliary states by name; missing ones are 0.
        rtol, atol, equal_nan: As in `assert_almost_equal`.
        raise_on_err: False to print differences instead of raising.
        ground_truth: The expected results by name; by default those of the executor with the widest dtype.
        use_uniform: Draw arguments uniformly rather than normally.
        rand_type: The dtype of the random arguments.
    Returns:
        The expected results by name.
    """
    if len(ctx_list) < 2:
        raise AssertionError("check_consistency compares at least two contexts")
    symbols = [sym] * len(ctx_list) if isinstance(sym, Symbol) else sym
    names = _common_names(symbols, len(ctx_list))
    executors = [s.simple_bind(grad_req=grad_req, **options) for s, options in zip(symbols, ctx_list, strict=True)]
    draw = _drawing(use_uniform, scale, rand_type)
    _fill_executors(executors, {} if arg_params is None else arg_params, {} if aux_params is None else aux_params, draw)
    dtypes = [np.dtype(e.outputs[0].dtype) for e in executors]
    best = max(range(len(dtypes)), key=lambda i: (dtypes[i].itemsize, -i))
    for executor in executors:
        executor.forward(is_train=False)
    own: dict[str, Any] = {**executors[best].output_dict, **(executors[best].grad_dict if grad_req != "null" else {})}
    truth = own if ground_truth is None else ground_truth
    for i, executor in enumerate(executors):
        if i == best:
            continue
        for name, array in zip(names[1], executor.outputs, strict=True):
            what = f"Predict Err: ctx {i} vs ctx {best} at {name}"
            _compare(array, truth[name], what, rtol, atol, equal_nan, raise_on_err)
    if grad_req != "null":
        _check_gradients_agree(executors, names, truth, best, dtypes, (rtol, atol, equal_nan, raise_on_err))
    return truth


def _common_names(symbols: Sequence[Symbol], count: int) -> tuple[list[str], list[str]]:
    """The names of arguments and outputs. AssertionError unless they are equal for all symbols."""
    if len(symbols) != count:
        raise AssertionError(f"{len(symbols)} symbols for {count} contexts")
    names = (symbols[0].list_arguments(), symbols[0].list_outputs())
    if any((s.list_arguments(), s.list_outputs()) != names for s in symbols):
        raise AssertionError("the symbols differ in their arguments or outputs")
    return names


def _drawing(uniform: bool, scale: float, dtype: Any) -> Callable[[tuple[int, ...]], np.ndarray]:
    if uniform:
        return lambda shape: np.random.uniform(-0.92 * scale, 0.92 * scale, size=shape).astype(dtype)
    return lambda shape: np.random.normal(size=shape, scale=scale).astype(dtype)


def _fill_executors(
    executors: Sequence[Executor], arguments: dict[str, Any], states: dict[str, Any], draw: Any
) -> None:
    """Set equal values in all executors. Missing arguments are random, missing states are 0."""
    for name, array in _sorted_items(executors[0].arg_dict):
        if name not in arguments:
            arguments[name] = draw(array.shape)
    for executor in executors:
        for name, array in executor.arg_dict.items():
            array[:] = arguments[name]
        for name, array in executor.aux_dict.items():
            array[:] = states.setdefault(name, 0)
        for array in executor.grad_arrays:
            if array is not None:
                array[:] = 0


def _check_gradients_agree(
    executors: Sequence[Executor], names: Any, truth: dict[str, Any], best: int, dtypes: Any, how: Any
) -> None:
    rtol, atol, equal_nan, fail = how
    for executor in executors:
        executor.forward(is_train=True)
    least = [out.dtype for out in executors[0].outputs]
    for executor in executors:
        least = [_smaller(out.dtype, dtype) for out, dtype in zip(executor.outputs, least, strict=True)]
    heads = [out.astype(dtype).asnumpy() for out, dtype in zip(executors[0].outputs, least, strict=True)]
    for executor in executors:
        outs = zip(heads, executor.outputs, strict=True)
        executor.backward([nd.array(h, ctx=executor._ctx, dtype=o.dtype).tostype(o.stype) for h, o in outs])
    for i, executor in enumerate(executors):
        arrays_by_name = dict(zip([*names[1], *names[0]], [*executor.outputs, *executor.grad_arrays], strict=True))
        for name, array in arrays_by_name.items() if i != best else ():
            if array is None or truth[name] is None:
                continue
            own = array.astype(_smaller(array.dtype, dtypes[i]))
            expected = truth[name].astype(_smaller(truth[name].dtype, dtypes[best]))
            tolerances = get_tols(own, expected, rtol, atol)
            what = f"Train Err: {np.dtype(array.dtype).name} {array.ctx} {i} vs {best} at {name}"
            _compare(array, truth[name], what, *tolerances, equal_nan, fail)


class _Known(Initializer):
    """Initializes parameters with the values of another block."""

    def __init__(self, values: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        self._values = values

    def __call__(self, desc: str, arr: NDArray) -> None:
        arr[:] = self._values[str(desc)]


def check_gluon_hybridize_consistency(
    net_builder: Callable[..., Any],
    data_l: Sequence[Any],
    numpy_func: Callable[..., Any] | None = None,
    test_grad: bool = True,
    rtol: float = 1e-4,
    atol: float = 1e-4,
) -> None:
    """AssertionError unless a block returns equal results hybridized and not hybridized.

    Args:
        net_builder: Creates the block: `net_builder(prefix=...)`.
        data_l: The inputs.
        numpy_func: Computes the expected result from NumPy arrays.
        test_grad: Compare gradients too.
        rtol, atol: As in `assert_almost_equal`.
    """
    known: _Known | None = None
    outputs: list[Any] = []
    gradients: list[list[Any]] = []
    for hybridize in (False, True):
        for record in (False, True) if test_grad else (False,):
            net = net_builder(prefix="net_")
            net.initialize(*([] if known is None else [known]))
            if hybridize:
                net.hybridize()
            inputs = [array.copy() for array in data_l]
            out, grads = _recorded(net, inputs) if record else (net(*inputs), [])
            outputs.append(out)
            gradients += [grads] if record else []
            if known is None:
                known = _Known({n: p.data().asnumpy() for n, p in net.collect_params().items()})
    for same in (outputs, *zip(*gradients, strict=True)):
        for other in same[1:]:
            assert_almost_equal(other.asnumpy(), same[0].asnumpy(), rtol=rtol, atol=atol)
    if numpy_func is not None:
        expected = numpy_func(*[array.asnumpy() for array in data_l])
        assert_almost_equal(outputs[0].asnumpy(), expected, rtol=rtol, atol=atol)


def _recorded(net: Any, inputs: list[Any]) -> tuple[Any, list[Any]]:
    """The output and the gradients of the inputs."""
    for array in inputs:
        array.attach_grad()
    with autograd.record():
        out = net(*inputs)
    out.backward(out)
    return out, [array.grad for array in inputs]


def compare_optimizer(
    opt1: Any,
    opt2: Any,
    shape: Any,
    dtype: Any,
    w_stype: str = "default",
    g_stype: str = "default",
    rtol: float = 1e-4,
    atol: float = 1e-5,
    compare_states: bool = True,
    ntensors: int = 1,
) -> None:
    """AssertionError unless two optimizers make the same step. With a list of shapes, `opt2` updates `ntensors` arrays
    in one step."""
    if isinstance(shape, list):
        first = [[random.uniform(shape=s, dtype=dtype) for s in shape] for _ in range(2)]
        weights, grads = ([tuple(a.copy() for a in part) for part in first] for _ in range(2))
        (w1, g1), (w2, g2) = weights, grads
        states = [opt2.create_state_multi_precision(i, w2[i]) for i in range(ntensors)]
        opt2.update_multi_precision(list(range(ntensors)), w2, g2, states)
        for i in range(ntensors):
            state = opt1.create_state_multi_precision(i, w1[i])
            opt1.update_multi_precision(i, w1[i], g1[i], state)
            if compare_states:
                compare_ndarray_tuple(state, states[i], rtol, atol)
            compare_ndarray_tuple(w1[i], w2[i], rtol, atol)
        return
    if ntensors != 1:
        raise AssertionError("several tensors need a list of shapes")

    def drawn(stype: str, density: float | None) -> tuple[Any, Any]:
        if stype == "default":
            other = random.uniform(shape=shape, dtype=dtype)
            return other.copy(), other
        other = rand_ndarray(shape, stype, density=density, dtype=dtype)
        return other.tostype("default"), other

    w1, w2 = drawn(w_stype, 1)
    g1, g2 = drawn(g_stype, None)
    state1, state2 = opt1.create_state_multi_precision(0, w1), opt2.create_state_multi_precision(0, w2)
    if compare_states:
        compare_ndarray_tuple(state1, state2)
    opt1.update_multi_precision(0, w1, g1, state1)
    opt2.update_multi_precision(0, w2, g2, state2)
    if compare_states:
        compare_ndarray_tuple(state1, state2, rtol=rtol, atol=atol)
    assert_almost_equal(w1, w2, rtol=rtol, atol=atol)
