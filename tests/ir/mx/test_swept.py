"""Every operator with every dtype, every value of each parameter and several shapes, against MXNet's records."""

from __future__ import annotations

import re
from itertools import groupby

import pytest
from differences import OTHER_RESULT, REFUSED_HERE, other_result, refused_here
from goldens import Golden, operator_goldens, swept_goldens
from mxforge.ir.dialects.core import interpret
from sweeps import difference, is_refused, parsed, together, types_of

BY_OPERATOR = {
    op: list(calls) for op, calls in groupby(sorted(swept_goldens(), key=lambda g: g.op), key=lambda g: g.op)
}


def differs(golden: Golden) -> str:
    """The differences of the decomposition's results on the interpreter from the record."""
    one = together(golden.op, [golden], golden.train)
    return difference(golden, interpret(one.graph, list(one.inputs)))


@pytest.mark.parametrize("op", BY_OPERATOR)
def test_results_agree_with_mxnet(op: str) -> None:
    accepted = [g for g in BY_OPERATOR[op] if not is_refused(g)]
    assert [d for g in accepted if not other_result(g) and (d := differs(g))] == []


@pytest.mark.parametrize("op", BY_OPERATOR)
def test_what_mxnet_answers_is_answered(op: str) -> None:
    assert [str(g) for g in BY_OPERATOR[op] if not refused_here(g) and is_refused(g)] == []


@pytest.mark.parametrize("pattern", [pattern for pattern, _ in REFUSED_HERE])
def test_each_refusal_of_ours_is_still_there(pattern: str) -> None:
    assert any(is_refused(g) for g in swept_goldens() if re.match(pattern, str(g)))


@pytest.mark.parametrize("pattern", [pattern for pattern, _ in OTHER_RESULT])
def test_each_difference_is_still_there(pattern: str) -> None:
    assert any(differs(g) for g in swept_goldens() if re.match(pattern, str(g)) and not is_refused(g))


def test_dtypes_are_predicted_as_they_come_out() -> None:
    """The dtypes of visible results that inference predicts before shapes are those of the graph."""

    def wrong(golden: Golden) -> bool:
        op, types = parsed(golden), types_of(golden)
        predicted = op.output_dtypes([t.dtype for t in types])[: op.visible_outputs]
        return any(d not in (None, t.dtype) for d, t in zip(predicted, op.infer(*types), strict=False))

    calls = [g for g in (*operator_goldens(), *swept_goldens()) if not (g.swept and is_refused(g))]
    assert [str(golden) for golden in calls if wrong(golden)] == []
