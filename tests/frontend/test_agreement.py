"""Every operator returns the same numbers eagerly, as a symbol and in a hybridized block, and in repeated calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from differences import other_result
from forms import Calls, applied
from goldens import Golden, operator_goldens, swept_goldens
from sweeps import is_refused

MOST_CALLS = 5
# Random operators draw other numbers in each form; control flow takes functions.
OTHER_FORMS = ("_foreach", "_while_loop", "_cond")


def chosen() -> dict[tuple[str, bool], list[Golden]]:
    """Calls of each operator in both modes: the hand-written ones, then one for each set of dtypes."""
    found: dict[tuple[str, bool], list[Golden]] = defaultdict(list)
    for golden in operator_goldens():
        if golden.op not in OTHER_FORMS:
            found[golden.op, golden.train].append(golden)
    by_dtypes = groupby(swept_goldens(), key=lambda g: (g.op, tuple(x.dtype for x in g.inputs)))
    firsts = [next(calls) for _, calls in by_dtypes]
    for golden in firsts:
        known = found[golden.op, False]
        if len(known) < MOST_CALLS and not other_result(golden) and not is_refused(golden):
            known.append(golden)
    return {key: calls[:MOST_CALLS] for key, calls in found.items() if calls}


CHOSEN = chosen()


def as_list(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, list | tuple) else [outputs]


def arrays_of(golden: Golden) -> list[mx.nd.NDArray]:
    """New arrays for each call: some operators write to their operands."""
    return [mx.nd.array(x, dtype=x.dtype) for x in golden.inputs]


def eager(calls: Sequence[Golden]) -> list[np.ndarray]:
    results = [as_list(applied(mx.nd, g.op, arrays_of(g), g.attributes)) for g in calls]
    return [y.asnumpy() for outputs in results for y in outputs]


def hybridized(calls: Sequence[Golden]) -> Callable[[], list[np.ndarray]]:
    block = Calls([(g.op, g.attributes, len(g.inputs)) for g in calls])
    block.hybridize()

    def run() -> list[np.ndarray]:
        return [y.asnumpy() for y in block(mx.nd.ones((1,)), *[x for g in calls for x in arrays_of(g)])[1:]]

    return run


def symbolic(calls: Sequence[Golden]) -> Callable[[bool], list[np.ndarray]]:
    variables = [[mx.sym.var(f"x{i}_{k}") for k in range(len(g.inputs))] for i, g in enumerate(calls)]
    outputs = [applied(mx.sym, g.op, given, g.attributes) for g, given in zip(calls, variables, strict=True)]
    # The graph of the hybridized block, so that one compilation serves both.
    group = mx.sym.Group([mx.sym.identity(mx.sym.var("first")), *outputs])
    names = ["first", *[v.name for given in variables for v in given]]

    def run(train: bool) -> list[np.ndarray]:
        given = dict(zip(names, [mx.nd.ones((1,)), *[x for g in calls for x in arrays_of(g)]], strict=True))
        states = {name: given[name] for name in group.list_auxiliary_states()}
        arguments = {name: given[name] for name in group.list_arguments()}
        executor = group.bind(mx.cpu(), arguments, aux_states=states)
        return [y.asnumpy() for y in executor.forward(is_train=train)][1:]

    return run


def close(x: np.ndarray, y: np.ndarray) -> bool:
    if (x.shape, x.dtype) != (y.shape, y.dtype):
        return False
    if x.dtype.kind != "f":
        return bool((x == y).all())
    limit = {2: 4e-3, 4: 1e-5, 8: 1e-5}[x.dtype.itemsize]
    return np.allclose(x, y, limit, limit, equal_nan=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("op", "train"), CHOSEN)
def test_three_ways_to_call_agree(op: str, train: bool) -> None:
    calls = CHOSEN[op, train]
    hybrid, symbol = hybridized(calls), symbolic(calls)
    with mx.autograd.pause(train_mode=train):
        forms = {"eager": [eager(calls), eager(calls)], "hybrid": [hybrid(), hybrid()]}
    forms["symbol"] = [symbol(train), symbol(train)]
    for form, (first, second) in forms.items():
        assert [x.tobytes() for x in first] == [x.tobytes() for x in second], f"{form}: other bits in the second call"
    for form in ("hybrid", "symbol"):
        pairs = zip(forms["eager"][0], forms[form][0], strict=True)
        assert all(close(x, y) for x, y in pairs), f"{form} differs from eager in {[str(g) for g in calls]}"
