"""Steps of random programs that are layers, losses, loops and writes: several calls, or operands made of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxforge as mx


def labels(F: Any, x: Any, classes: int) -> Any:
    """Classes of the elements of x, in its dtype. They have no gradient."""
    return F.BlockGrad(F.clip(F.floor(F.abs(x) * 2), a_min=0, a_max=classes - 1))


def _softmax_output(F: Any, x: Any, y: Any, classes: int, **parameters: Any) -> Any:
    return F.SoftmaxOutput(x, labels(F, y, classes), **parameters)


def _svm_output(F: Any, x: Any, y: Any, classes: int, **parameters: Any) -> Any:
    return F.SVMOutput(x, labels(F, y, classes), **parameters)


def _cross_entropy(F: Any, x: Any, y: Any, classes: int) -> Any:
    return F.softmax_cross_entropy(x, labels(F, y, classes))


def _one_more(F: Any, x: Any) -> Any:
    """1 + x x, which is at least 1."""
    return F.square(x) + 1


def _ratio(F: Any, x: Any, y: Any) -> Any:
    return F.broadcast_div(x, _one_more(F, y))


def _power(F: Any, x: Any, y: Any) -> Any:
    return F.broadcast_power(_one_more(F, F.tanh(x)), F.tanh(y))


def _of_positive(F: Any, x: Any, name: str) -> Any:
    return getattr(F, name)(_one_more(F, x))


def _of_moderate(F: Any, x: Any, name: str) -> Any:
    """A function of numbers between -0.8 and 0.8."""
    return getattr(F, name)(F.tanh(x) * 0.8)


def _rnn(F: Any, x: Any, weights: Any, state: Any, sizes: tuple[int, int, int, int], mode: str) -> list[Any]:
    """A recurrent layer; `sizes` are those of its parameters, how often `weights` is repeated, and of its states."""
    count, times, batch, hidden = sizes
    repeated = F.tile(F.reshape(weights, shape=(-1,)), reps=(times,))
    parameters = F.slice_axis(repeated, axis=0, begin=0, end=count) * 0.3
    initial = F.broadcast_to(F.reshape(F.mean(state), shape=(1, 1, 1)), shape=(1, batch, hidden))
    states = {"state": initial, **({"state_cell": initial * 0.5} if mode == "lstm" else {})}
    made = F.RNN(x, parameters, **states, state_size=hidden, num_layers=1, mode=mode, state_outputs=True)
    return [made[i] for i in range(3 if mode == "lstm" else 2)]


def _recurrent(F: Any, x: Any, w: Any) -> list[Any]:
    """A loop over rows whose step is a product with a weight from outside of the loop."""

    def step(row: Any, state: Any) -> tuple[Any, Any]:
        made = F.tanh(F.dot(row, w) * 0.3 + state)
        return made, made

    first = F.zeros_like(F.dot(F.squeeze(F.slice_axis(x, axis=0, begin=0, end=1), axis=0), w))
    rows, last = F.contrib.foreach(step, x, first)
    return [rows, last]


def _repeated(F: Any, x: Any, y: Any, times: int) -> list[Any]:
    """x and y mixed `times` times by a loop whose length the data decides."""
    count = F.sum(F.zeros_like(y))
    rows, (_, x, y) = F.contrib.while_loop(
        cond=lambda i, x, y: i < times,
        func=lambda i, x, y: (x * y, [i + 1, F.sin(x) + y, y * 0.5]),
        loop_vars=[count, x, F.identity(y)],  # loop variables must be different symbols
        max_iterations=times + 2,
    )
    made = rows[0] if isinstance(rows, list) else rows
    return [F.slice_axis(made, axis=0, begin=0, end=times), x, y]


def _written(F: Any, x: Any) -> Any:
    """x, written over another array."""
    if F is not mx.nd:
        return F.identity(x)
    made = F.zeros(x.shape, dtype=x.dtype)
    made[:] = x
    return made


def _written_rows(F: Any, x: Any) -> Any:
    """x, written over some rows of an array: the rows are on the tape, the array is not."""
    if F is not mx.nd:
        return F.identity(x)
    made = F.zeros((x.shape[0] + 2, *x.shape[1:]), dtype=x.dtype)[1:-1]
    made[:] = x
    return made


def _written_out(F: Any, x: Any) -> Any:
    """The square of x, written with `out`."""
    if F is not mx.nd:
        return F.square(x)
    made = F.zeros(x.shape, dtype=x.dtype)
    F.square(x, out=made)
    return made


def _element(F: Any, x: Any, number: int) -> Any:
    """One row of x, without its axis: in an array, a view."""
    return x[number] if F is mx.nd else F.squeeze(F.slice_axis(x, axis=0, begin=number, end=number + 1), axis=0)


def _columns(F: Any, x: Any, begin: int, end: int) -> Any:
    """Columns of x by an index: in an array not contiguous."""
    return x[:, begin:end] if F is mx.nd else F.slice_axis(x, axis=1, begin=begin, end=end)


LAYERS: dict[str, Callable[..., Any]] = {
    "softmax_output": _softmax_output,
    "svm_output": _svm_output,
    "cross_entropy": _cross_entropy,
    "ratio": _ratio,
    "power": _power,
    "of_positive": _of_positive,
    "of_moderate": _of_moderate,
    "rnn": _rnn,
    "recurrent": _recurrent,
    "repeated": _repeated,
    "written": _written,
    "written_rows": _written_rows,
    "written_out": _written_out,
    "element": _element,
    "columns": _columns,
    "to_bfloat": lambda F, x: F.cast(x, dtype="bfloat16"),
}
"""By the names that steps use."""
