"""mx.rnn beyond the recorded programs: nested cells."""

from __future__ import annotations

import mxforge as mx
import numpy as np
import pytest


def unrolled(cell: mx.rnn.BaseRNNCell) -> list[np.ndarray]:
    outputs, _ = cell.unroll(2, mx.sym.var("data"), merge_outputs=True)
    shapes, _, _ = outputs.infer_shape(data=(1, 2, 3))
    given = {n: mx.nd.ones(s) * 0.1 for n, s in zip(outputs.list_arguments(), shapes, strict=True)}
    return [out.asnumpy() for out in outputs.bind(mx.cpu(), given).forward()]


def stacked() -> mx.rnn.SequentialRNNCell:
    stack = mx.rnn.SequentialRNNCell()
    stack.add(mx.rnn.RNNCell(3, prefix="a_"))
    stack.add(mx.rnn.ResidualCell(mx.rnn.RNNCell(3, prefix="b_")))
    return stack


def test_modified_cells_in_and_around_others() -> None:
    (inner,) = unrolled(stacked())
    (outer,) = unrolled(mx.rnn.ResidualCell(stacked()))
    assert np.allclose(outer, inner + 0.1, atol=1e-6)
    (twice,) = unrolled(mx.rnn.ResidualCell(mx.rnn.ResidualCell(stacked())))
    assert np.allclose(twice, inner + 0.2, atol=1e-6)


def test_states_are_created_by_the_passed_function() -> None:
    for cell in (stacked(), mx.rnn.ResidualCell(stacked()), mx.rnn.BidirectionalCell(stacked(), mx.rnn.GRUCell(2))):
        states = cell.begin_state(func=mx.sym.Variable)
        assert all(state.list_arguments() == [state.name] for state in states)
        assert [s.name for s in states][:2] == ["a_begin_state_0", "b_begin_state_0"]


def test_cells_that_are_modified_are_not_called() -> None:
    inner = mx.rnn.RNNCell(3)
    mx.rnn.ZoneoutCell(inner, 0.1)
    with pytest.raises(AssertionError, match="Call the modifier cell instead"):
        inner.begin_state()
    both = mx.rnn.BidirectionalCell(mx.rnn.RNNCell(2, prefix="l_"), mx.rnn.RNNCell(2, prefix="r_"))
    stack = mx.rnn.SequentialRNNCell()
    stack.add(both)
    with pytest.raises(AssertionError, match="cannot be stepped"):
        stack(mx.sym.var("x"), stack.begin_state())
    with pytest.raises(ValueError, match="mode must be one of"):
        mx.rnn.FusedRNNCell(3, mode="transformer")
