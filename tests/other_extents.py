"""Runs recorded calls by programs that were compiled for other extents, and compares them with programs of their own.

    python tests/other_extents.py                        # all hand-written records
    python tests/other_extents.py Pooling BatchNorm

An operator is first called on operands of twice the extents. The recorded operands then run that program, if its guards
allow that. Each call is eager, without a tape and with one, and a backward pass.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parent / "data"))

import mxforge as mx
import numpy as np
from goldens import Golden, operator_goldens
from mxforge import autograd, nd
from mxforge.frontend.ndarray.eager import apply_bound, bind, operator_named
from mxforge.frontend.ndarray.operator_function import OperatorFunction, OperatorSpecialization
from mxforge.ir.caches import clear_caches
from mxforge.runtime.devices import HOST
from sweeps import is_refused

Array = np.ndarray[Any, Any]

RANDOM = "random"
"""What the names of operators contain whose draws depend on the extents."""


def calls(names: Sequence[str] = (), every: int = 1) -> list[Golden]:
    """The recorded calls of these operators, or of all; one of so many."""
    usual = [g for g in operator_goldens() if not is_refused(g) and RANDOM not in g.op]
    return [g for g in usual if not names or g.op in names][::every]


def differences(golden: Golden) -> list[str]:
    """What differs between programs for any extents and for those of the call."""
    return [text for recorded in (False, True) for text in _differences(golden, recorded)]


def _differences(golden: Golden, recorded: bool) -> Iterator[str]:
    try:
        expected = _alone(golden, golden.inputs, recorded)
    except mx.MXNetError:  # its gradient does not exist
        return
    clear_caches()
    with _any_extents():
        doubled = tuple(np.resize(x, tuple(2 * n if n > 1 else n for n in x.shape)) for x in golden.inputs)
        with suppress(mx.MXNetError):  # the operator can refuse these extents
            _results(golden, doubled, recorded)
        found = _results(golden, golden.inputs, recorded)
    for i, (x, y) in enumerate(zip(expected, found, strict=True)):
        if not _agree(x, y):
            yield f"{golden}{' recorded' * recorded}: result {i}"


def _alone(golden: Golden, inputs: Sequence[Array], recorded: bool) -> list[Array]:
    clear_caches()
    return _results(golden, inputs, recorded)


def _results(golden: Golden, inputs: Sequence[Array], recorded: bool) -> list[Array]:
    """The outputs of a call, and if it is recorded the gradients of its operands."""
    mx.random.seed(7)
    operands = [nd.array(x, dtype=x.dtype) for x in inputs]
    floats = [x for x in operands if np.dtype(x.dtype).kind == "f"] if recorded else []
    for x in floats:
        x.attach_grad()
    bound = bind(operator_named(golden.op), golden.attributes)
    with autograd.record(golden.train) if recorded else _mode(golden.train):
        made = apply_bound(bound, operands)
    outputs = made if isinstance(made, list) else [made]
    heads = [y for y in outputs if np.dtype(y.dtype).kind == "f"]
    if recorded and heads:
        autograd.backward(heads)
    gradients: list[Any] = [x.grad for x in floats]
    return [y.asnumpy() for y in (*outputs, *gradients)]


def _mode(training: bool) -> Any:
    return autograd.train_mode() if training else autograd.predict_mode()


def _agree(x: Array, y: Array) -> bool:
    if (x.shape, x.dtype) != (y.shape, y.dtype) or x.dtype.kind != "f":
        return x.tobytes() == y.tobytes()
    tolerance = 1e-2 if x.dtype == np.float16 else 1e-4
    finite = np.isfinite(x)
    a, b = x.astype(np.float64), y.astype(np.float64)
    scale = float(np.abs(a[finite]).max(initial=0)) + 1e-6
    worst = float(np.abs(a[finite] - b[finite]).max(initial=0))
    return bool((finite == np.isfinite(y)).all()) and worst <= tolerance * scale


@contextmanager
def _any_extents() -> Iterator[None]:
    """Let the first signature of an operator run its program for any extents too."""
    usual: Callable[..., Any] = OperatorFunction.specialise
    first: dict[Any, OperatorSpecialization] = {}

    def specialise(self: OperatorFunction, types: Any, training: bool, device: Any = HOST) -> OperatorSpecialization:
        key = (self, training, *((t.rank, t.dtype) for t in types))
        own = first.get(key) or first.setdefault(key, OperatorSpecialization(self, types, training, device))
        return OperatorSpecialization(self, types, training, device, own if own.family else None)

    OperatorFunction.specialise = specialise
    try:
        yield
    finally:
        OperatorFunction.specialise = usual


def main() -> int:
    warnings.simplefilter("ignore")
    listed = calls(sys.argv[1:])
    found = [text for golden in listed for text in differences(golden)]
    print(*found, f"{len(listed)} calls, {len(found)} differences", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
