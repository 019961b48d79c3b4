"""Recorded calls, recorded gradients and random graphs through upstream MLIR, many of them in one program.

`tests/run_recorded_calls.py --target mlir` runs all calls and gradients, and `tests/run_random_programs.py --target
mlir` any number of random programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from compiled import TARGETS, compiled, run_program
from goldens import Golden, Gradient
from mxforge.ir.dialects.core import evaluate_graph
from mxforge.ir.graph import Graph
from mxforge.passes.manager import Options
from random_graphs import joined_graphs
from recorded_gradients import differences
from recorded_samples import CALLS, GRADIENTS, TRAINED, parts
from sweeps import together

pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is not installed")

Array = np.ndarray[Any, Any]

LARGE = (
    *(
        "CTCLoss",
        "_contrib_MultiBoxDetection",
        "_contrib_MultiBoxTarget",
        "_contrib_MultiProposal",
        "_contrib_Proposal",
    ),
    *("_contrib_bipartite_matching", "_contrib_box_decode", "_contrib_box_nms", "_contrib_hawkesll", "argsort", "topk"),
)
"""Operators whose programs take LLVM seconds to compile."""


SMALL_CALLS = [g for g in CALLS if g.op not in LARGE][::3]
SMALL_GRADIENTS = [g for g in GRADIENTS if g.op not in LARGE][::3]


def run(graph: Graph, arrays: Sequence[Array], options: Options | None = None) -> list[Array]:
    return run_program(compiled(graph, options, TARGETS["mlir"]()), arrays)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("calls", parts(SMALL_CALLS, 70), ids=lambda calls: calls[0].op)
def test_recorded_calls(calls: list[Golden]) -> None:
    joined = together("calls", calls)
    assert joined.differences(run(joined.graph, joined.inputs)) == []


def test_recorded_calls_in_training_mode() -> None:
    joined = together("calls", TRAINED, training=True, updates=True)
    assert joined.differences(run(joined.graph, joined.inputs, Options(training=True))) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gradients", parts(SMALL_GRADIENTS, 40), ids=lambda gradients: gradients[0].op)
def test_recorded_gradients(gradients: list[Gradient]) -> None:
    assert differences(gradients, run) == []


@pytest.mark.parametrize("seed", [0, 10])
def test_random_graphs(seed: int) -> None:
    """Ten graphs in one program."""
    graph, arrays = joined_graphs(range(seed, seed + 10))
    for found, expected in zip(run(graph, arrays), evaluate_graph(graph, arrays), strict=True):
        np.testing.assert_allclose(found, expected, 2e-4, 2e-4)
