"""States that share memory with other operands."""

from __future__ import annotations

import random

from mxforge.ir.types import DType, TensorType
from mxforge.runtime.devices import HOST
from mxforge.runtime.shared_state import copy_shared_state


def test_each_state_that_overlaps_an_operand_is_copied() -> None:
    draw = random.Random(0)
    memory = HOST.allocate(4096)
    for _ in range(200):
        sizes = [draw.randrange(1, 9) for _ in range(12)]
        before = [memory.address + 4 * draw.randrange(100) for _ in sizes]
        after = list(before)
        state = sorted(draw.sample(range(12), 5))
        copy_shared_state(after, [TensorType((n,), DType.F32) for n in sizes], state, HOST)
        spans = [(a, a + 4 * n) for a, n in zip(before, sizes, strict=True)]
        for i, (begin, end) in enumerate(spans):
            overlaps = any(k != i and begin < e and b < end for k, (b, e) in enumerate(spans))
            assert (after[i] != before[i]) == (i in state and overlaps)
