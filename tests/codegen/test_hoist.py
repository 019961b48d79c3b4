"""Values of rows are computed once for each row, and what is as fast for each element stays there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from compiled import check
from mxforge.codegen.hoist import hoist_reductions, hoist_stages
from mxforge.codegen.lower import lower_region
from mxforge.ir.dialects.core import CoreBuilder, Fused
from mxforge.ir.graph import Graph, Value
from mxforge.ir.kernel import Kernel, Local, Scalar, walk
from mxforge.ir.scalar import ScalarOp
from rewriting import tensor

Rows = Callable[[CoreBuilder, Value], Value]


def log_softmax(b: CoreBuilder, x: Value) -> Value:
    shifted = b.sub(x, b.broadcast_to(b.max(x, 1, keepdims=True), x.type.shape))
    return b.sub(shifted, b.broadcast_to(b.log(b.sum(b.exp(shifted), 1, keepdims=True)), x.type.shape))


def normalized(b: CoreBuilder, x: Value) -> Value:
    """Divided by a root, which two results read."""
    root = b.broadcast_to(b.sqrt(b.add(b.sum(b.mul(x, x), 1, keepdims=True), 1e-5)), x.type.shape)
    return b.add(b.div(x, root), b.mul(b.exp(x), root))


def centred(b: CoreBuilder, x: Value) -> Value:
    return b.sub(x, b.mul(b.broadcast_to(b.sum(x, 1, keepdims=True), x.type.shape), 0.5))


def graph(rows: Rows, *shape: int) -> Graph:
    b = CoreBuilder()
    return b.build([rows(b, b.input(tensor(*shape)))])


def kernel(rows: Rows) -> Kernel:
    return lower_region(Fused(graph(rows, 4, 50), "row"))


@pytest.mark.parametrize(("rows", "op"), [(log_softmax, ScalarOp.LOG), (normalized, ScalarOp.SQRT)])
def test_a_value_of_a_row_is_computed_once(rows: Rows, op: ScalarOp) -> None:
    stages = hoist_stages(kernel(rows)).stages
    (local,) = [s for s in stages if any(isinstance(e, Scalar) and e.op is op for e in walk(s.value))]
    assert isinstance(local, Local) and len(local.axes) == 1


def test_a_cheap_value_stays_in_the_loop() -> None:
    assert hoist_stages(kernel(centred)) == hoist_reductions(kernel(centred))


@pytest.mark.parametrize("rows", [log_softmax, normalized, centred])
@pytest.mark.parametrize("shape", [(3, 37), (1, 5), (40, 3), (20, 64)])
def test_results_are_those_of_the_reference(rows: Rows, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    check(graph(rows, *shape), x)
