"""Fast paths of recorded calls: the forward program of a derivative, and an entry on the tape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...ir.graph import GraphError
from ...ir.types import TensorType
from ...runtime.modes import hooks, modes
from .fast_paths import Form, arguments, direct_call, fast_path, new_results, with_key

if TYPE_CHECKING:
    from ...runtime.derivative import Differentiable
    from ...runtime.function import Specialization
    from .tape import Entry

Path = Callable[..., Any]


def while_watched(call: Any) -> Any:
    """What to call while `hooks.watched` instead of a fast path, which is the same in all modes; None for the slow
    path."""
    if call is None or hooks.intercepted:
        return None
    return call.recorded if modes.recording else call


def recorded_path(
    function: Callable[[], Differentiable],
    types: Sequence[TensorType],
    count: int,
    slow: Callable[..., Any],
    numpy: bool = False,
) -> Path:
    """The fast path of recorded calls of a function of operands of these types, which return its first `count` results.
    `function` is called when a call is recorded for the first time, `slow` for a call without a fast path."""
    candidates = [i for i, t in enumerate(types) if t.dtype.has_cotangent]
    names = arguments(len(types))
    paths: dict[tuple[int, ...], Path] = {(): lambda entries, *arrays: slow(*arrays)}

    def call(*arrays: Any) -> Any:
        wrt: tuple[int, ...] = ()
        entries: tuple[Entry, ...] = ()
        for i in candidates:
            entry = getattr(arrays[i], "_entry", None)
            if entry is not None and entry[0].pull is not None:
                if entry[0].rows:  # its gradient is row-sparse
                    return slow(*arrays)
                wrt += (i,)
                entries += (entry,)
        path = paths.get(wrt)
        if path is None:
            path = paths[wrt] = path_by(function(), wrt, names, len(names), count, numpy=numpy) or paths[()]
        return path(entries, *arrays)

    return call


def path_by(
    function: Differentiable,
    wrt: tuple[int, ...],
    operands: Sequence[str],
    argument_count: int,
    count: int,
    bound: Callable[[Specialization], dict[str, Any]] | None = None,
    numpy: bool = False,
) -> Path | None:
    """The fast path of calls with gradients by the operands `wrt`: a function of their entries and of the arguments.

    `operands` are those of its form, without the random key. `bound` returns the constants of a program with
    parameters. None for calls that need the slow path: those without a gradient, with states or with functions in
    Python.
    """
    try:
        derivative = function.derivative(wrt)
    except GraphError:  # the slow path raises the error that users see
        return None
    forward = derivative.forward.specialization
    if forward.state or derivative.calls_python:
        return None
    form = Form(
        arguments=argument_count,
        operands=with_key(operands, forward),
        results=new_results(forward.types),
        returned=count,
        bound=bound is not None,
        kept=tuple((source.is_input, source.position) for source in derivative.residuals),
        numpy=numpy,
    )
    constants: dict[str, Any] = {"derivative": derivative, "function": function, "types": forward.types[:count]}
    constants |= bound(forward) if bound else {"run": direct_call(forward)}
    return fast_path(form, forward, **constants)
