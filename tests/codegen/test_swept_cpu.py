"""Every operator in every dtype, with every value of each parameter and in other shapes, compiled for this machine."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pytest
from compiled import compiled
from differences import other_result
from goldens import swept_goldens
from mxforge.runtime.host.executable import Executable
from sweeps import is_refused, together

BY_OPERATOR = {
    op: list(calls) for op, calls in groupby(sorted(swept_goldens(), key=lambda g: g.op), key=lambda g: g.op)
}


def run(executable: Executable, inputs: Sequence[npt.NDArray[np.generic]]) -> list[npt.NDArray[np.generic]]:
    arrays = [np.ascontiguousarray(x) for x in inputs]
    outputs = [np.empty(t.shape, t.dtype.numpy) for t in executable.outputs]
    executable.run([x.ctypes.data for x in arrays], [y.ctypes.data for y in outputs])
    return outputs


@pytest.mark.sampled(3)
@pytest.mark.parametrize("op", BY_OPERATOR)
def test_results_agree_with_mxnet(op: str) -> None:
    """All calls of an operator are one program; two runs must be bit-identical."""
    calls = together(op, [g for g in BY_OPERATOR[op] if not is_refused(g) and not other_result(g)])
    executable = Executable(compiled(calls.graph))
    first, second = run(executable, calls.inputs), run(executable, calls.inputs)
    assert [x.tobytes() for x in first] == [x.tobytes() for x in second]
    assert calls.differences(first) == []


def test_the_sweep_has_one_mode() -> None:
    assert not any(golden.train for golden in swept_goldens())
