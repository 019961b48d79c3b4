"""Every recorded call of a MXNet operator, compiled for this machine; gradients against the interpreter."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from compiled import compiled, run_program
from differences import WRONG_IN_MXNET
from goldens import Golden, operator_goldens
from mxforge.ir.dialects.core import evaluate_graph
from mxforge.ir.dialects.mx.builder import MxBuilder
from mxforge.ir.dialects.mx.operator import lookup
from mxforge.ir.types import DType, TensorType
from mxforge.passes.decompose import Decompose
from mxforge.passes.differentiate import vjp_graph
from mxforge.passes.manager import Context, Options, run_passes
from mxforge.runtime.host.machine import host_target
from sweeps import together, tolerance


def by_operator() -> dict[tuple[str, bool], list[Golden]]:
    """The calls of each operator in each mode, without those that MXNet computes wrongly."""
    found: dict[tuple[str, bool], list[Golden]] = defaultdict(list)
    for golden in operator_goldens():
        if str(golden) not in WRONG_IN_MXNET:
            found[golden.op, golden.train].append(golden)
    return found


CALLS = by_operator()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("static", [True, False], ids=["static", "any-extents"])
@pytest.mark.parametrize(("op", "train"), CALLS)
def test_forward_agrees_with_mxnet(op: str, train: bool, static: bool) -> None:
    """All calls of an operator are one program."""
    calls = together(op, CALLS[op, train], train, updates=True)
    results = run_program(compiled(calls.graph, Options(train, static_shape=static)), calls.inputs)
    assert calls.differences(results, 2e-5) == []


def differentiable() -> list[Golden]:
    """The first call of each operator, and every call of operators whose gradients have their own kernels."""
    first: dict[str, Golden] = {}
    for golden in operator_goldens():
        if any(x.dtype.kind == "f" for x in golden.inputs):
            first.setdefault(golden.op, golden)
    windows = ("Convolution", "Deconvolution", "Pooling")
    return [g for g in operator_goldens() if g.op in windows or g is first.get(g.op)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("golden", differentiable(), ids=str)
def test_gradients_agree_with_the_interpreter(golden: Golden) -> None:
    op = lookup(golden.op).parse(golden.attributes)
    training = Options(training=True)
    b = MxBuilder(golden.op, training=True)
    inputs = [b.input(TensorType(x.shape, DType.from_numpy(x.dtype))) for x in golden.inputs]
    forward = b.build(op.results(b, *inputs)[: op.visible_outputs])
    graph = vjp_graph(run_passes((Decompose(),), forward, Context(host_target(1), training)))
    rng = np.random.default_rng(0)
    arrays = list(golden.inputs)
    for t in graph.input_types()[len(arrays) :]:
        is_key = t.dtype is DType.U32
        arrays.append(np.zeros(4, "u4") if is_key else (4 * rng.standard_normal(t.shape)).astype(t.dtype.numpy))
    with np.errstate(all="ignore"):
        reference = evaluate_graph(graph, arrays)
    limit = max(2e-4, 2 * tolerance(golden, 2e-5))
    for result, expected in zip(run_program(compiled(graph, training), arrays), reference, strict=True):
        np.testing.assert_allclose(result, expected, limit, limit, equal_nan=True)
