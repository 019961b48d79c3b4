"""Calls of operators through all stages of training: their gradients, and what MXNet recorded of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from compiled import compiled, run_program
from differences import other_result, refused_here
from goldens import Gradient
from mxforge.codegen.llvm.target import AVX2
from mxforge.ir.dialects.core import interpret
from mxforge.ir.dialects.core.split import Split
from mxforge.ir.dialects.mx.operator import Operator, lookup
from mxforge.ir.graph import Graph, GraphBuilder, Value
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Context, Options, run_passes
from mxforge.passes.pipeline import OPTIMISE
from mxforge.passes.training import training_graphs
from sweeps import is_refused

Array = np.ndarray[Any, Any]
Arrays = Sequence[Array]
CONTEXT = Context(AVX2, Options(training=True))


@dataclass(frozen=True)
class Call:
    """Calls of operators as one mx graph, the positions of its inputs that can have a gradient, and its arrays."""

    graph: Graph
    wrt: tuple[int, ...]
    arrays: tuple[Array, ...]

    @property
    def results(self) -> int:
        return len(self.graph.outputs)


def called(*calls: tuple[Operator, Arrays]) -> Call:
    """The graph of operators, each on arrays of its own."""
    b = GraphBuilder(calls[0][0].mx_name())
    outputs: list[Value] = []
    wrt: list[int] = []
    for op, arrays in calls:
        first = len(b.inputs)
        inputs = [b.input(TensorType(x.shape, DType.from_numpy(x.dtype))) for x in arrays]
        outputs += b.node(op, *inputs, name="call").outputs[: op.visible_outputs]
        states = set(op.auxiliary.values())
        wrt += [first + i for i, v in enumerate(inputs) if v.type.dtype.is_float and i not in states]
    return Call(b.build(outputs), tuple(wrt), tuple(x for _, arrays in calls for x in arrays))


def on_reference(graph: Graph, arrays: Arrays) -> list[Array]:
    with np.errstate(all="ignore"):
        return interpret(run_passes(OPTIMISE, graph, CONTEXT), arrays)


def on_cpu(graph: Graph, arrays: Arrays) -> list[Array]:
    return run_program(compiled(graph, CONTEXT.options), arrays)


def keys_of(graph: Graph, arrays: Arrays) -> list[Array]:
    """The key, if the graph draws random numbers."""
    return [np.arange(4, dtype=np.uint32)] * (len(graph.inputs) - len(arrays))


def backward(call: Call, parts: Split, cotangents: Arrays, run: Any = on_reference) -> tuple[list[Array], list[Array]]:
    """The results and the gradients."""
    arrays = [*call.arrays, *keys_of(parts.forward, call.arrays)]
    results = run(parts.forward, arrays)
    kept = [(arrays if s.is_input else results)[s.position] for s in parts.residuals]
    seeds = list(_seeds(call, cotangents))
    gradients = run(parts.backward, [*kept, *seeds])
    return results[: call.results], gradients[: len(parts.backward.outputs) - len(parts.backward.updates)]


def _seeds(call: Call, cotangents: Arrays) -> Iterator[Array]:
    """A cotangent for each result that can have one: zeros for integers."""
    given = iter(cotangents)
    for v in call.graph.outputs:
        if v.type.dtype.is_float:
            yield np.asarray(next(given), v.type.dtype.numpy).reshape(v.type.shape)
        elif v.type.dtype.has_cotangent:
            yield np.zeros(v.type.shape, v.type.dtype.numpy)


def seeded(call: Call) -> list[Any]:
    return [v for v in call.graph.outputs if v.type.dtype.is_float]


DIFFERENT: tuple[tuple[str, str], ...] = (
    (r"(broadcast_power|_power)\(.*", "MXNet's gradient by the exponent of 0 is infinite or not a number"),
    (r"_rpower_scalar\(.*scalar=0", "the same, of the number 0"),
    (r"_rdiv_scalar\(11:.*scalar=0", "0 divided by 0"),
    (r"_linalg_trsm\(.*alpha=0", "MXNet multiplies 0 by what is infinite"),
    (r"Cast\(.*dtype=bool", "MXNet passes gradients through whole numbers"),
    (r"_contrib_BatchNormWithReLU\(.*eps=-2", "the root of a negative number"),
    (r"SequenceLast\(2x4x3x2:float32\)", "MXNet reads lengths that do not exist"),
    (r"(Dropout|.*rrelu)\(.*", "random numbers"),
)


def is_different(gradient: Gradient) -> bool:
    return any(re.match(pattern, str(gradient)) for pattern, _ in DIFFERENT)


def tolerance(gradient: Gradient) -> float:
    half = any(x.dtype == np.float16 for x in (*gradient.inputs, *gradient.cotangents))
    return 2e-2 if half else 2e-3


def is_compared(gradient: Gradient) -> bool:
    """False for a call whose results differ from MXNet's too, which may be refused."""
    return not (is_different(gradient) or other_result(gradient) or (refused_here(gradient) and is_refused(gradient)))


def differences(gradients: Sequence[Gradient], run: Any = on_reference) -> list[str]:
    """What differs from the records of calls, which are one forward and one backward program."""
    ops = [lookup(g.op).parse(g.attributes) for g in gradients]
    call = called(*[(op, g.inputs) for op, g in zip(ops, gradients, strict=True)])
    wanted = list(_recorded(ops, gradients))
    wrt = [i for i in call.wrt if i in {position for position, *_ in wanted}]
    parts = training_graphs(call.graph, wrt, CONTEXT)
    computed = backward(call, parts, [c for g in gradients for c in g.cotangents], run)[1]
    return [
        f"{gradient}: {name}: {found.ravel()[:8]}, MXNet gives {expected.ravel()[:8]}"
        for (_, gradient, name, expected), found in zip(wanted, computed, strict=True)
        if not np.allclose(found, expected, limit := tolerance(gradient), limit / 10, equal_nan=True)
    ]


def _recorded(ops: Sequence[Operator], gradients: Sequence[Gradient]) -> Iterator[tuple[int, Gradient, str, Array]]:
    """The recorded gradients with the positions of their inputs among those of all calls, and names."""
    first = 0
    for op, gradient in zip(ops, gradients, strict=True):
        names, states = op.input_names(len(gradient.inputs)), set(op.auxiliary.values())
        for i in sorted(gradient.gradients):
            if gradient.inputs[i].dtype.kind == "f" and i not in states:
                yield first + i, gradient, names[i], gradient.gradients[i]
        first += len(gradient.inputs)
