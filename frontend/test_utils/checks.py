"""Checks of the outputs and gradients of symbols."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from .. import symbol
from ..context import Context, current_context
from ..executor import Executor
from ..ndarray import NDArray
from ..symbol import Symbol
from .arrays import create_sparse_array
from .comparison import assert_almost_equal, default_numeric_eps, get_tolerance

_FLOATS = (np.float16, np.float32, np.float64)
Arrays = Any  # a list in the order of the symbol's names, or a dictionary by name


def simple_forward(sym: Symbol, ctx: Context | None = None, is_train: bool = False, **inputs: Any) -> Any:
    """The outputs of a symbol as one NumPy array or a list, from NumPy arrays by argument name."""
    bound = sym.bind(ctx or current_context(), args={name: nd.array(value) for name, value in inputs.items()})
    outputs = [out.asnumpy() for out in bound.forward(is_train=is_train)]
    return outputs[0] if len(outputs) == 1 else outputs


def _check_dtype(dtype: Any) -> None:
    if dtype != "asnumpy" and dtype not in _FLOATS:
        raise AssertionError(f"dtype must be float16, float32, float64 or 'asnumpy', not {dtype!r}")


def _as_array(value: Any, ctx: Context, dtype: Any) -> NDArray:
    return nd.array(value, ctx=ctx, dtype=value.dtype if dtype == "asnumpy" else dtype)


def _sorted_items(d: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(d.items(), key=lambda pair: pair[0])


def _sorted_dict(d: Mapping[str, Any]) -> dict[str, Any]:
    return dict(_sorted_items(d))


def _by_name(what: str, values: Arrays, names: Sequence[str]) -> dict[str, Any]:
    """Arrays by name. ValueError if the names of a dictionary are not these."""
    if not isinstance(values, Mapping):
        return dict(zip(names, values, strict=False))
    if set(values) != set(names):
        raise ValueError(f"Symbol {what} and keys of the given {what} do not match: {set(names)} and {set(values)}")
    return dict(values)


def _parse_location(sym: Symbol, location: Arrays, ctx: Context, dtype: Any = np.float32) -> dict[str, NDArray]:
    """The arguments sorted by name. NumPy arrays become NDArrays of `dtype` ("asnumpy": of the same dtype)."""
    _check_dtype(dtype)
    if not isinstance(location, dict | list | tuple):
        raise AssertionError(f"location must be a list or a dictionary, not {type(location).__name__}")
    by_name = _by_name("arguments", location, sym.list_arguments())
    converted = {n: _as_array(v, ctx, dtype) if isinstance(v, np.ndarray) else v for n, v in by_name.items()}
    return _sorted_dict(converted)


def _parse_aux_states(sym: Symbol, aux_states: Arrays, ctx: Context, dtype: Any = np.float32) -> Any:
    """The auxiliary states by name, as NDArrays."""
    _check_dtype(dtype)
    if aux_states is None:
        return None
    by_name = _by_name("aux_states", aux_states, sym.list_auxiliary_states())
    return {name: _as_array(value, ctx, dtype) for name, value in by_name.items()}


def check_symbolic_forward(
    sym: Symbol,
    location: Arrays,
    expected: Arrays,
    rtol: Any = None,
    atol: Any = None,
    aux_states: Arrays = None,
    ctx: Context | None = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> list[NDArray]:
    """AssertionError unless the outputs are close to the expected ones.

    Args:
        sym: The symbol.
        location: The arguments, in order or by name.
        expected: The expected outputs, in order or by name.
        rtol, atol, equal_nan: As in `assert_almost_equal`.
        aux_states: The auxiliary states, in order or by name.
        ctx: The device; the current context by default.
        dtype: The dtype of the arguments; "asnumpy" keeps the dtype of each NumPy array.
    Returns:
        The outputs.
    """
    _check_dtype(dtype)
    ctx = ctx or current_context()
    arguments = _parse_location(sym, location, ctx, dtype)
    states = _parse_aux_states(sym, aux_states, ctx, dtype)
    names = sym.list_outputs()
    expected = [expected[name] for name in names] if isinstance(expected, Mapping) else expected
    outputs = sym.bind(ctx, args=arguments, aux_states=states).forward(is_train=False)
    for name, value, output in zip(names, expected, outputs, strict=False):
        assert_almost_equal(value, output, rtol, atol, (f"EXPECTED_{name}", f"FORWARD_{name}"), equal_nan=equal_nan)
    return outputs


def _check_gradient(
    request: str, name: str, kind: str, expected: Any, before: np.ndarray, actual: Any, rtol: Any, atol: Any, nan: bool
) -> None:
    """AssertionError unless a gradient was written, added or left unchanged, as requested."""
    names = (f"{kind}_{name}", f"BACKWARD_{name}")
    if request == "write":
        assert_almost_equal(expected, actual, rtol, atol, names, equal_nan=nan)
    elif request == "add":
        values = actual.asnumpy() if isinstance(actual, NDArray) else actual
        assert_almost_equal(expected, values - before, rtol, atol, names, equal_nan=nan)
    elif request == "null":
        assert_almost_equal(before, actual, rtol, atol, names, equal_nan=nan)
    else:
        raise ValueError(f"Invalid grad_req {request} for argument {name}")


def check_symbolic_backward(
    sym: Symbol,
    location: Arrays,
    out_grads: Any,
    expected: Arrays,
    rtol: Any = None,
    atol: Any = None,
    aux_states: Arrays = None,
    grad_req: Any = "write",
    ctx: Context | None = None,
    grad_stypes: Mapping[str, str] | None = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> dict[str, NDArray]:
    """AssertionError unless the gradients for `out_grads` are close to the expected ones; returns them."""
    _check_dtype(dtype)
    ctx = ctx or current_context()
    names = sym.list_arguments()
    arguments = _parse_location(sym, location, ctx, dtype)
    states = _parse_aux_states(sym, aux_states, ctx, dtype)
    gradients = dict(zip(names, expected, strict=False)) if isinstance(expected, list | tuple) else dict(expected)
    before = {n: np.random.normal(size=v.shape) for n, v in _sorted_items(gradients)}
    grads: dict[str, Any] = {}
    for name, values in before.items():
        stype = (grad_stypes or {}).get(name)
        if stype not in (None, "default"):
            grads[name] = create_sparse_array(values.shape, str(stype), density=0.0)
        else:
            grads[name] = nd.array(values, ctx=ctx, dtype=gradients[name].dtype if dtype == "asnumpy" else dtype)
    requests = dict.fromkeys(names, grad_req) if isinstance(grad_req, str) else grad_req
    requests = dict(zip(names, requests, strict=False)) if isinstance(requests, list | tuple) else requests
    executor = sym.bind(ctx, args=arguments, args_grad=grads, aux_states=states, grad_req=requests)
    executor.forward(is_train=True)
    executor.backward(_output_grads(out_grads, ctx, dtype))
    for name in gradients:
        _check_gradient(
            requests[name], name, "EXPECTED", gradients[name], before[name], grads[name], rtol, atol, equal_nan
        )
    return grads


def _output_grads(gradients: Any, ctx: Context, dtype: Any) -> Any:
    def convert(value: Any) -> Any:
        return _as_array(value, ctx, dtype) if isinstance(value, np.ndarray) else value

    if isinstance(gradients, Mapping):
        return {name: convert(value) for name, value in gradients.items()}
    if isinstance(gradients, list | tuple):
        return [convert(value) for value in gradients]
    if gradients is not None:
        raise AssertionError(f"out_grads must be a list or a dictionary, not {type(gradients).__name__}")
    return None


def numeric_grad(
    executor: Executor,
    location: dict[str, np.ndarray],
    aux_states: Mapping[str, Any] | None = None,
    eps: float = 1e-4,
    use_forward_train: bool = True,
    dtype: Any = np.float32,
) -> dict[str, np.ndarray]:
    """The gradient of the sum of the first output, by central differences of half width `eps` / 2."""
    if dtype not in _FLOATS:
        raise AssertionError(f"dtype must be float16, float32 or float64, not {dtype!r}")

    def store(name: str, values: np.ndarray) -> None:
        bound = executor.arg_dict[name]
        bound[:] = nd.array(values, dtype=dtype).tostype(bound.stype)

    def total() -> Any:
        for name, value in (aux_states or {}).items():
            executor.aux_dict[name][:] = value
        executor.forward(is_train=use_forward_train)
        return executor.outputs[0].asnumpy()

    gradients = {name: np.zeros(values.shape, dtype=dtype) for name, values in location.items()}
    for name, values in location.items():
        store(name, np.asarray(values, order="C"))
    for name, values in location.items():
        if values.dtype.kind != "f":
            continue
        moved = values.copy()
        flat, gradient = moved.reshape(-1), gradients[name].reshape(-1)
        for i in range(flat.size):
            flat[i] += eps / 2.0
            store(name, moved)
            above = total()
            flat[i] -= eps
            store(name, moved)
            gradient[i] = (above - total()).sum() / eps
            flat[i] = values.reshape(-1)[i]
        store(name, values)
    return gradients


def check_numeric_gradient(
    sym: Symbol,
    location: Arrays,
    aux_states: Arrays = None,
    numeric_eps: Any = None,
    rtol: Any = None,
    atol: Any = None,
    grad_nodes: Any = None,
    use_forward_train: bool = True,
    ctx: Context | None = None,
    grad_stype_dict: Mapping[str, str] | None = None,
    dtype: Any = np.float32,
) -> None:
    """AssertionError unless the gradients of a random projection of the output agree with finite differences."""
    if dtype not in _FLOATS:
        raise AssertionError(f"dtype must be float16, float32 or float64, not {dtype!r}")
    ctx = ctx or current_context()
    arguments = _parse_location(sym, location, ctx, dtype)
    states = _parse_aux_states(sym, aux_states, ctx, dtype)
    grad_nodes = sym.list_arguments() if grad_nodes is None else grad_nodes
    requests = dict(grad_nodes) if isinstance(grad_nodes, Mapping) else dict.fromkeys(grad_nodes, "write")
    shape = (sym.infer_shape(**{n: a.shape for n, a in arguments.items()})[1] or [()])[0]
    projection_of: Any = symbol.Variable("__random_proj")
    projected: Any = symbol.make_loss(sym * projection_of)
    projection = nd.array(np.random.rand(*shape) + 0.1, ctx=ctx, dtype=dtype)
    bound = {**arguments, "__random_proj": projection}
    before = {n: np.random.normal(0, 0.01, size=bound[n].shape) for n in (*requests, "__random_proj")}
    grads: dict[str, Any] = {n: nd.array(v, ctx=ctx, dtype=dtype) for n, v in before.items()}
    for name, stype in (grad_stype_dict or {}).items():
        if name in grads and stype != "default":
            grads[name] = nd.sparse.zeros(stype, grads[name].shape, ctx=ctx, dtype=grads[name].dtype)
    executor = projected.bind(ctx, args=bound, args_grad=grads, grad_req=requests, aux_states=states)
    executor.forward(is_train=True)
    step = get_tolerance(executor.outputs[0], numeric_eps, default_numeric_eps())
    executor.backward()
    values = {name: array.asnumpy() for name, array in arguments.items()}
    kept = None if states is None else {name: array.asnumpy() for name, array in states.items()}
    numeric = numeric_grad(executor, values, kept, eps=step, use_forward_train=use_forward_train, dtype=dtype)
    for name, request in requests.items():
        actual = executor.grad_dict[name]
        _check_gradient(request, name, "NUMERICAL", numeric[name], before[name], actual, rtol, atol, False)


def check_speed(
    sym: Symbol,
    location: Mapping[str, Any] | None = None,
    ctx: Context | None = None,
    N: int = 20,
    grad_req: Any = None,
    typ: str = "whole",
    **kwargs: Any,
) -> float:
    """The mean time of `N` runs in seconds. `typ` is "forward", or "whole" to include the backward pass, which is not
    supported yet."""
    if typ not in ("whole", "forward"):
        raise ValueError('typ can only be "whole" or "forward".')
    if location is not None and not isinstance(location, dict):
        raise AssertionError(f"Expect dict, get location={location}")
    shapes = kwargs if location is None else {name: value.shape for name, value in location.items()}
    executor = sym.simple_bind(ctx or current_context(), grad_req=grad_req or "write", **shapes)
    inputs = location or {name: np.random.normal(size=a.shape) for name, a in executor.arg_dict.items()}
    for name, values in inputs.items():
        executor.arg_dict[name][:] = values.astype(executor.arg_dict[name].dtype)

    def run() -> None:
        executor.forward(is_train=typ == "whole")
        if typ == "whole":
            executor.backward(out_grads=executor.outputs)

    run()
    start = time.time()
    for _ in range(N):
        run()
    return (time.time() - start) / N
