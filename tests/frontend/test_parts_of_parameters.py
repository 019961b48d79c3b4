"""Convolutions of a part of a parameter by itself, which is read where the parameter is."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest

VALUES = np.random.default_rng(0).standard_normal((2, 3, 16, 16)).astype(np.float32)


class Block(mx.gluon.HybridBlock):
    def __init__(self, kernel: tuple[int, int], stride: tuple[int, int]) -> None:
        super().__init__()
        self.settings = {"kernel": kernel, "stride": stride, "pad": (2, 1), "num_filter": 1, "no_bias": True}
        self.values = self.params.get("values", shape=VALUES.shape, init=mx.init.Zero())

    def hybrid_forward(self, F: Any, x: Any, values: Any) -> Any:
        part = F.slice_axis(values, axis=0, begin=1, end=2)
        return F.broadcast_add(F.Convolution(part, part, **self.settings), x)


@pytest.mark.parametrize("stride", [(1, 1), (1, 2), (2, 2)])
def test_a_part_is_convolved_with_itself(stride: tuple[int, int]) -> None:
    found = []
    for hybrid in (False, True):
        block = Block((16, 16), stride)
        block.initialize()
        block.values.set_data(mx.nd.array(VALUES))
        if hybrid:
            block.hybridize()
        found.append(block(mx.nd.zeros((1,))).asnumpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-3)
