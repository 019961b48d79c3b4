"""Loops and conditions on arrays that run step by step in Python: `nd.contrib.foreach`, `while_loop` and `cond`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import op
from .creation import zeros
from .ndarray import NDArray


def _flatten(nested: Any, what: str) -> tuple[list[NDArray], Any]:
    """The arrays of a nested list, and its structure: 0 for an array, a list of structures for a list."""
    if isinstance(nested, NDArray):
        return [nested], 0
    if not isinstance(nested, list | tuple):
        cls = type(nested)
        raise AssertionError(f"{what} must be (nested) list of NDArray, but got {nested} of type {cls}")
    parts = [_flatten(item, what) for item in nested]
    return [a for arrays, _ in parts for a in arrays], [form for _, form in parts]


def _regroup(arrays: Sequence[NDArray], form: Any) -> Any:
    """The arrays in a nested list of this structure; see `_flatten`."""
    source = iter(arrays)

    def take(form: Any) -> Any:
        return next(source) if form == 0 else [take(part) for part in form]

    return take(form)


def _scalar(value: Any, cls: type, what: str) -> Any:
    """A Python value of type `cls` from an array of one element, or from any value that `cls` accepts."""
    value = value.asscalar() if hasattr(value, "asscalar") else value
    try:
        return cls(value)
    except (TypeError, ValueError):
        raise ValueError(f"Cannot convert {what} to python {cls.__name__}") from None


def foreach(body: Callable[..., Any], data: Any, init_states: Any) -> tuple[Any, Any]:
    """Runs `outputs, states = body(slice, states)` for each slice of `data` along axis 0.

    Args:
        body: The function of one step.
        data: An array or a list of arrays.
        init_states: The first states: an array, or a nested list of arrays.
    Returns:
        The outputs of all steps, stacked along a new axis 0, and the last states.
    """
    arrays, _ = _flatten(data, "foreach input")
    _flatten(init_states, "foreach states")
    if not arrays:
        raise IndexError("foreach needs data: the list is empty")
    alone = isinstance(data, NDArray)
    count = (data if alone else data[0]).shape[0]
    states, steps = init_states, []
    form: Any = []
    for i in range(count):
        outs, states = body(data[i] if alone else [d[i] for d in data], states)
        outputs, form = _flatten(outs, "foreach output")
        steps.append(outputs)
    return _regroup([op.stack(*column, axis=0) for column in zip(*steps, strict=False)], form), states


def while_loop(
    cond: Callable[..., Any], func: Callable[..., Any], loop_vars: Any, max_iterations: Any = None
) -> tuple[Any, Any]:
    """Runs `outputs, loop_vars = func(*loop_vars)` while `cond(*loop_vars)` is not 0.

    Args:
        cond: The condition: a function of the variables.
        func: The function of one step. Its outputs are an array, or a nested list of arrays.
        loop_vars: The first variables: an array, or a list of arrays.
        max_iterations: The largest number of steps.
    Returns:
        The outputs, stacked along a new axis 0 of extent `max_iterations` (zeros for steps that did not run), and the
        last variables. If no step ran, the outputs are an empty list, since their shapes are unknown.
    """
    if max_iterations is None:
        raise ValueError("max_iterations should be specified")
    limit = _scalar(max_iterations, int, "max_iteration")
    if not len(loop_vars):
        raise ValueError("loop_vars should contain at least one element")
    alone = isinstance(loop_vars, NDArray)
    state = [loop_vars] if alone else list(loop_vars)
    steps: list[list[NDArray]] = []
    form: Any = []
    while len(steps) < limit and _scalar(cond(*state), bool, "Return value of cond"):
        outs, state = _step(func, state)
        outputs, form = _flatten(outs, "while output")
        steps.append(outputs)
        if len(outputs) != len(steps[0]):
            raise ValueError("Number of elements in step_output should be the same in each step")
    stacked = [_stack_padded(list(column), limit) for column in zip(*steps, strict=True)]
    return _regroup(stacked, form), state[0] if alone else state


def _step(func: Callable[..., Any], state: list[Any]) -> tuple[Any, list[Any]]:
    outs, after = func(*state)
    if isinstance(after, NDArray):
        after = [after]
    after = [] if after is None else list(after)
    if len(after) != len(state):
        raise ValueError("The length of loop_vars should be consistent during the loop")
    return [] if outs is None else outs, after


def _stack_padded(arrays: list[NDArray], length: int) -> NDArray:
    missing = length - len(arrays)
    rows = [a.expand_dims(axis=0) for a in arrays]  # type: ignore[attr-defined]
    shapes = [a.shape for a in arrays]
    if any(shape != shapes[0] for shape in shapes):
        listed = "\n".join(f"  Step {i}, shape is {shape}" for i, shape in enumerate(shapes))
        raise ValueError(f"Shapes of the elements in step_outputs are inconsistent, which are:\n{listed}")
    if missing:
        rows.append(zeros((missing, *arrays[0].shape), arrays[0].context, arrays[0].dtype))
    return op.concat(*rows, dim=0)


def cond(pred: Any, then_func: Callable[[], Any], else_func: Callable[[], Any]) -> Any:
    """`then_func()` if `pred`, an array of one element or a Python value, is not 0, else `else_func()`."""
    return then_func() if _scalar(pred, bool, "pred") else else_func()
