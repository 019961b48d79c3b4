"""Random graphs, compiled and interpreted: combinations of fusion, layouts and shared memory."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import compiled, run_program
from mxforge.ir.dialects.core import evaluate_graph
from random_graphs import random_graph

# The first graphs, and graphs that once failed.
SEEDS = [*range(60), 103, 201, 265, 340, 614, 627, 683, 757]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_graph_agrees_with_the_interpreter(seed: int) -> None:
    graph, arrays = random_graph(seed)
    expected = evaluate_graph(graph, arrays)
    for found, reference in zip(run_program(compiled(graph), arrays), expected, strict=True):
        np.testing.assert_allclose(found, reference, 2e-4, 2e-4)  # values are about 1, and sums cancel
