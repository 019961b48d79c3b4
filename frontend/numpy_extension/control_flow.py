"""Loops and conditions on arrays of `mx.np`: `npx.foreach`, `while_loop` and `cond`.

They run step by step in Python. While a block is traced they are operators of its graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...runtime.modes import modes
from ..ndarray.array_classes import is_numpy
from ..ndarray.ndarray import NDArray

__all__ = ["cond", "foreach", "while_loop"]


def foreach(body: Callable[..., Any], data: Any, init_states: Any) -> tuple[Any, Any]:
    """Runs `outputs, states = body(slice, states)` for each slice of `data` along axis 0.

    Args:
        body: The function of one step.
        data: An array or a list of arrays.
        init_states: The first states: an array, or a nested list of arrays.
    Returns:
        The outputs of all steps, stacked along a new axis 0, and the last states.
    """
    return _loop("foreach", [body], [data, init_states])


def while_loop(
    cond: Callable[..., Any], func: Callable[..., Any], loop_vars: Any, max_iterations: int | None = None
) -> tuple[Any, Any]:
    """Runs `outputs, loop_vars = func(*loop_vars)` while `cond(*loop_vars)` is true.

    Args:
        cond: The condition: an array of one element.
        func: The function of one step.
        loop_vars: The variables of the loop: an array or a list of arrays.
        max_iterations: The most steps; the outputs have this extent.
    Returns:
        The outputs of all steps, stacked along a new axis 0, and the last variables.
    """
    return _loop("while_loop", [cond, func], [loop_vars], max_iterations=max_iterations)


def cond(pred: Any, then_func: Callable[..., Any], else_func: Callable[..., Any], inputs: Any = None) -> Any:
    """The results of `then_func` if `pred` is true, of `else_func` otherwise.

    Args:
        pred: An array of one element, or as in MXNet 2 a function of `inputs` that returns one.
        then_func, else_func: Functions without arguments, or of `inputs`.
        inputs: The arguments of the functions.
    """
    arguments = [] if inputs is None else list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    if callable(pred):
        pred = pred(*arguments)
    return _loop("cond", [lambda: then_func(*arguments), lambda: else_func(*arguments)], [pred])


def _loop(name: str, functions: list[Callable[..., Any]], arrays: list[Any], **options: Any) -> Any:
    """A loop or condition of `mx.nd` whose functions take and return arrays of `mx.np`."""
    if modes.tracer is not None:
        return modes.tracer.control_flow(name, functions, arrays, options)
    from ..ndarray import contrib

    listed = [_on_arrays(f) for f in functions]
    apply = getattr(contrib, name)
    converted = list(map(_as_nd, arrays))
    if name == "cond":
        return _as_np(apply(*converted, *listed))
    return _as_np(apply(*listed, *converted, **options))


def _on_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: _as_nd(function(*map(_as_np, args)))


def _as_nd(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_as_nd, value))
    return value.as_nd_ndarray() if is_numpy(value) else value


def _as_np(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_as_np, value))
    return value.as_np_ndarray() if isinstance(value, NDArray) else value
