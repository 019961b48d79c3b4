"""Gradients of tables as rows: the sum of the rows by number is the gradient, and other gradients stay whole."""

from __future__ import annotations

from typing import Any

import numpy as np
from mxforge.ir.dialects.core import CoreBuilder, interpret
from mxforge.ir.graph import Graph
from mxforge.ir.target import REFERENCE
from mxforge.ir.types import DType, TensorType
from mxforge.ir.verifier import verify_graph
from mxforge.passes.differentiate import differentiate
from mxforge.passes.manager import Context
from mxforge.passes.row_gradients import with_row_gradients
from mxforge.passes.training import training_graphs

TABLE, IDS = TensorType((6, 2), DType.F32), TensorType((3, 2), DType.I32)


def lookups(times: int, dense: bool = False) -> Graph:
    """The sum of several lookups, and of the table itself if `dense`."""
    b = CoreBuilder("lookups")
    table = b.input(TABLE, "table")
    total = b.sum(table) if dense else None
    for i in range(times):
        rows = b.take(table, b.input(IDS, f"ids{i}"), 0)
        part = b.sum(b.mul(rows, float(i + 1)))
        total = part if total is None else b.add(total, part)
    assert total is not None
    return b.build([total])


def inputs(times: int) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    ids = [rng.integers(0, 6, (3, 2), np.int32) for _ in range(times)]
    return [rng.standard_normal((6, 2), np.float32), *ids, np.ones((), np.float32)]


def test_rows_add_up_to_the_gradient() -> None:
    for times in (1, 3):
        joint = differentiate(lookups(times), [0])
        made, found = with_row_gradients(joint, 1, [0])
        verify_graph(made)
        assert found == (0,)
        given = inputs(times)
        _, whole = interpret(joint, given)
        _, numbers, rows = interpret(made, given)
        assert numbers.shape == (6 * times,) and numbers.dtype == np.int64 and rows.shape == (6 * times, 2)
        total = np.zeros_like(whole)
        np.add.at(total, numbers, rows)
        np.testing.assert_allclose(total, whole, 1e-6)
        assert all(
            v.type.shape != TABLE.shape for node in made.nodes for v in node.outputs if "core.scatter" in node.op.name
        )


def test_other_gradients_stay_whole() -> None:
    joint = differentiate(lookups(1, dense=True), [0])
    assert with_row_gradients(joint, 1, [0]) == (joint, ())
    plain = differentiate(lookups(1), [0])
    assert with_row_gradients(plain, 1, []) == (plain, ())


def test_the_backward_graph_returns_numbers_and_rows() -> None:
    split = training_graphs(lookups(2), [0], Context(REFERENCE), rows=[0])
    assert split.rows == (0,)
    assert [v.type.shape for v in split.backward.outputs] == [(12,), (12, 2)]
    assert training_graphs(lookups(2), [0], Context(REFERENCE)).rows == ()
