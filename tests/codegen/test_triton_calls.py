"""Recorded calls, recorded gradients and random graphs on a simulated GPU, many of them in one program.

`tests/run_recorded_calls.py --target gpu` runs all of them, and `tests/run_random_programs.py --target gpu` any number
of random programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed: pip install mxforge[cuda]")

from compiled import TARGETS, compiled, run_on_gpu
from goldens import Gradient
from mxforge.ir.dialects.core import CoreBuilder, evaluate_graph
from mxforge.ir.graph import Graph
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.settings import settings
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Options
from random_graphs import joined_graphs
from recorded_gradients import differences
from recorded_samples import CALLS, GRADIENTS, TRAINED, parts
from run_recorded_calls import use_target
from sweeps import together

Array = np.ndarray[Any, Any]
CALL_PARTS = parts(CALLS, -(-len(CALLS) // 4))


def run(graph: Graph, arrays: Sequence[Array], options: Options | None = None) -> list[Array]:
    return run_on_gpu(compiled(graph, options, TARGETS["gpu"]()), arrays)


@pytest.mark.parametrize("static", [True, False], ids=["static", "any-extents"])
@pytest.mark.parametrize("number", [0, 1])
def test_recorded_calls(number: int, static: bool) -> None:
    joined = together("calls", CALL_PARTS[2 * number + static])
    assert joined.differences(run(joined.graph, joined.inputs, Options(static_shape=static))) == []


def test_recorded_calls_in_training_mode() -> None:
    joined = together("calls", TRAINED, training=True, updates=True)
    assert joined.differences(run(joined.graph, joined.inputs, Options(training=True))) == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gradients", parts(GRADIENTS, 40)[::4], ids=lambda gradients: gradients[0].op)
def test_recorded_gradients(gradients: list[Gradient]) -> None:
    assert differences(gradients, run) == []


@pytest.mark.parametrize(("seed", "static"), [(0, True), (70, False)])
def test_random_graphs(seed: int, static: bool) -> None:
    """Ten graphs in one program."""
    graph, arrays = joined_graphs(range(seed, seed + 10))
    found = run(graph, arrays, Options(static_shape=static))
    for x, expected in zip(found, evaluate_graph(graph, arrays), strict=True):
        np.testing.assert_allclose(x, expected, 2e-4, 2e-4)


@pytest.mark.parametrize("op", [ReduceOp.ADD, ReduceOp.MUL])
@pytest.mark.parametrize("static", [True, False], ids=["static", "any-extents"])
def test_reductions_over_no_elements(op: ReduceOp, static: bool) -> None:
    b = CoreBuilder("empty")
    graph = b.build([b.mul(b.reduce(op, b.input(TensorType((3, 0), DType.F32)), (1,)), 3)])
    (found,) = run(graph, [np.empty((3, 0), np.float32)], Options(static_shape=static))
    np.testing.assert_array_equal(found, [0, 0, 0] if op is ReduceOp.ADD else [3, 3, 3])


def test_all_recorded_calls_run_on_the_chosen_target(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MXFORGE_TARGET", "MXFORGE_COMPILE_PROCESSES"):
        monkeypatch.setenv(name, "")
    settings.cache_clear()
    assert settings().target == "cpu"
    use_target("gpu")
    assert settings().target == "gpu"
    monkeypatch.undo()
    settings.cache_clear()
