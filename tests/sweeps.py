"""Combines many recorded calls of one operator into one graph, which is compiled once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from goldens import Golden, Gradient
from mxforge.ir.dialects.mx.builder import MxBuilder
from mxforge.ir.dialects.mx.operator import Operator, lookup
from mxforge.ir.graph import Graph, GraphError
from mxforge.ir.types import DType, TensorType

Array = npt.NDArray[np.generic]

# Functions with larger errors: MXNet computes them in float32 by series.
TOLERANCES = {"gamma": 1e-4, "gammaln": 1e-4, "erfinv": 1e-4}


def tolerance(golden: Golden, single: float = 3e-5) -> float:
    """The relative and absolute tolerance: a few roundings for calls with 16-bit floats, else `single`, for sums in
    another order."""
    half = any(x.dtype == np.float16 for x in (*golden.inputs, *golden.outputs))
    bfloat = golden.attributes.get("dtype") == "bfloat16"
    return 5e-3 if half or bfloat else TOLERANCES.get(golden.op, single)


def parsed(golden: Golden | Gradient) -> Operator:
    return lookup(golden.op).parse(golden.attributes)


def types_of(golden: Golden | Gradient) -> list[TensorType]:
    return [TensorType(x.shape, DType.from_numpy(x.dtype)) for x in golden.inputs]


def is_refused(golden: Golden | Gradient) -> bool:
    """True if the declaration refuses the call."""
    try:
        parsed(golden).infer(*types_of(golden))
    except (ValueError, TypeError, IndexError, GraphError):
        return True
    return False


@dataclass(frozen=True)
class Together:
    """The graph of several calls. Its outputs are theirs, in order; bfloat16 outputs are converted to float32. If it
    updates states, their new values follow."""

    graph: Graph
    inputs: tuple[Array, ...]
    calls: tuple[Golden, ...]

    def split(self, results: list[Array]) -> list[tuple[Golden, list[Array]]]:
        """The results of the graph by call."""
        rest = list(results)
        return [(golden, [rest.pop(0) for _ in golden.outputs]) for golden in self.calls]

    def differences(self, results: list[Array], single: float = 3e-5) -> list[str]:
        """The differences of the results of the graph, and of the new values of states, from the records."""
        count = sum(len(golden.outputs) for golden in self.calls)
        wrong = [difference(golden, found, single) for golden, found in self.split(results[:count])]
        for golden, states in self.states(results):
            written = [(states[i], expected) for i, expected in golden.states.items() if i in states]
            wrong.append(difference_of(golden, written, tolerance(golden, single)))
        return [text for text in wrong if text]

    def states(self, results: list[Array]) -> list[tuple[Golden, dict[int, Array]]]:
        """The new values of states by call and by the position of the input, of all results of the graph."""
        count = sum(len(golden.outputs) for golden in self.calls)
        written, found, first = dict(zip(self.graph.updates, results[count:], strict=True)), [], 0
        for golden in self.calls:
            found.append((golden, {i: written[first + i] for i in range(len(golden.inputs)) if first + i in written}))
            first += len(golden.inputs)
        return found


def together(name: str, calls: Iterable[Golden], training: bool = False, updates: bool = False) -> Together:
    """One graph of all calls, which the declarations accept. It updates their states if `updates`."""
    b = MxBuilder(name, training=training)
    kept, outputs = tuple(calls), []
    operands = [[b.input(t) for t in types_of(golden)] for golden in kept]  # before the random key
    for golden, values in zip(kept, operands, strict=True):
        op = parsed(golden)
        b.begin_operator()
        found = op.results(b, *values)[: op.visible_outputs]
        outputs += [b.cast(v, DType.F32) if v.type.dtype is DType.BF16 else v for v in found]
    if not updates:
        b.updated.clear()
    graph = b.build(outputs)
    inputs = [x for golden in kept for x in golden.inputs]
    keys = [np.zeros(4, np.uint32)] * (len(graph.inputs) - len(inputs))
    return Together(graph, (*inputs, *keys), kept)


def difference(golden: Golden, results: list[Array], single: float = 3e-5) -> str:
    """The difference from the record as text; "" without a difference. `single` is the tolerance of float32."""
    return difference_of(golden, zip(results, golden.outputs, strict=True), tolerance(golden, single))


def difference_of(golden: Golden, pairs: Iterable[tuple[Array, Array]], limit: float) -> str:
    """The first difference between results of a call and what MXNet recorded, as text; "" without one."""
    for found, expected in pairs:
        if (found.shape, found.dtype) != (expected.shape, expected.dtype):
            return f"{golden}: {found.dtype}{found.shape}, MXNet gives {expected.dtype}{expected.shape}"
        with np.errstate(all="ignore"):
            x, y = (v.astype(np.float64) if v.dtype.kind == "f" else v.astype(object) for v in (found, expected))
            close = np.allclose(x, y, limit, limit, equal_nan=True) if found.dtype.kind == "f" else (x == y).all()
        if not close:
            return f"{golden}: {found.ravel()[:12]}, MXNet gives {expected.ravel()[:12]}"
    return ""
