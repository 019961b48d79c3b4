"""Operators on bfloat16, which NumPy lacks and MXNet mostly refuses, against float32 on rounded inputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from bfloats import rounded
from compiled import compiled, run_program
from goldens import Golden, operator_goldens
from mxforge.ir.dialects.core import evaluate_graph
from mxforge.ir.dialects.mx.builder import MxBuilder
from mxforge.ir.graph import Graph
from mxforge.ir.types import DType
from sweeps import parsed, types_of

ROUNDINGS = 4 * 2**-8  # relative to the largest result; intermediate results are rounded to 8 bits
# Operators that sum many rounded products.
LOOSE = {"BilinearSampler", "SpatialTransformer", "_contrib_ROIAlign", "RNN"}
# Operators of training and linear algebra have their own tests. Proposals are ranked, and rounding changes ranks.
ELSEWHERE = ("_linalg", "_image", "_contrib_Deformable", "_contrib_Modulated", "_contrib_RROI", "multi_", "_multi")
ELSEWHERE += ("_random_pdf", "_contrib_Proposal", "_contrib_MultiProposal")
MOST_CALLS = 3


def takes_floats(golden: Golden) -> bool:
    kinds = {x.dtype for x in golden.inputs}
    plain = "dtype" not in golden.attributes and not golden.train and not golden.op.startswith(ELSEWHERE)
    return plain and np.dtype(np.float32) in kinds and all(k == np.float32 or k.kind == "i" for k in kinds)


def chosen() -> dict[str, list[Golden]]:
    found: dict[str, list[Golden]] = defaultdict(list)
    for golden in filter(takes_floats, operator_goldens()):
        if len(found[golden.op]) < MOST_CALLS:
            found[golden.op].append(golden)
    return found


def graph_of(calls: Sequence[Golden], dtype: DType) -> Graph:
    """A graph of the calls with float32 inputs converted to `dtype`; inputs and results of the graph are float32."""
    b = MxBuilder("calls")
    outputs = []
    for golden in calls:
        inputs = [b.input(t) for t in types_of(golden)]
        given = [b.cast(v, dtype) if v.type.dtype is DType.F32 else v for v in inputs]
        b.begin_operator()
        op = parsed(golden)
        outputs += [b.cast(v, DType.F32) for v in op.results(b, *given)[: op.visible_outputs]]
    b.updated.clear()
    return b.build(outputs)


CHOSEN = chosen()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("op", CHOSEN)
def test_bfloat16_is_rounded_float32(op: str) -> None:
    calls = CHOSEN[op]
    graph, exact = (graph_of(calls, dtype) for dtype in (DType.BF16, DType.F32))
    inputs = [rounded(x) for golden in calls for x in golden.inputs]
    inputs += [np.zeros(4, np.uint32)] * (len(graph.inputs) - len(inputs))
    limit = ROUNDINGS * (4 if op in LOOSE else 1)
    with np.errstate(all="ignore"):
        expected, meant = evaluate_graph(exact, inputs), evaluate_graph(graph, inputs)
    for x, y, z in zip(run_program(compiled(graph), inputs), meant, expected, strict=True):
        finite = np.isfinite(z)
        scale = max(1e-30, float(np.abs(z[finite]).max(initial=0)))
        for found in (x, y):
            assert np.abs(found[finite] - z[finite]).max(initial=0) <= limit * scale
