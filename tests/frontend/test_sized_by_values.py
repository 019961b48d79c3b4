"""Symbols and hybridized blocks with results whose extents depend on values run operator by operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest

nd, autograd = mx.nd, mx.autograd
MASKS = ([1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 0, 0])


class Masked(mx.gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.dense = mx.gluon.nn.Dense(3, in_units=2)
            self.norm: Any = mx.gluon.nn.BatchNorm(in_channels=3)

    def hybrid_forward(self, F: Any, x: Any, mask: Any) -> Any:
        chosen = F.contrib.boolean_mask(x * 2, mask)
        return self.norm(self.dense(chosen)), chosen, x + 1


def trained(net: Masked, mask: list[int]) -> list[Any]:
    """The results and gradients of one recorded call."""
    x = nd.array([[1, 2], [3, 5], [7, 11]])
    x.attach_grad()
    with autograd.record():
        results = net(x, nd.array(mask))
    autograd.backward(list(results), [nd.arange(r.size).reshape(r.shape) if r.size else r for r in results])
    state = net.norm.running_mean.data()
    return [a.asnumpy() for a in (*results, x.grad, net.dense.weight.grad(), state)]


@pytest.mark.parametrize("flags", [{}, {"static_alloc": True, "static_shape": True}], ids=str)
def test_hybridized_blocks(flags: Any) -> None:
    nets = [Masked(), Masked()]
    for net in nets:
        net.initialize(mx.init.One())
    nets[1].hybridize(**flags)
    for mask in MASKS[:3]:
        eager, hybridized = (trained(net, mask) for net in nets)
        for a, b in zip(eager, hybridized, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
        assert hybridized[1].shape == (sum(mask), 2)
    x, nothing = nd.ones((3, 2)), nd.zeros((3,))
    assert [r.shape for r in nets[1](x, nothing)] == [(0, 3), (0, 2), (3, 2)]


def masked_sum() -> Any:
    x: Any = mx.sym.var("x")
    chosen = mx.sym.contrib.boolean_mask(x * 2, mx.sym.var("mask"))
    return mx.sym.sum(chosen, axis=0)


def test_executors() -> None:
    """Numbers recorded from MXNet 1.9.1."""
    given = {"x": nd.array([[1, 2], [3, 5], [7, 11]]), "mask": nd.array([1, 0, 1])}
    assert masked_sum().eval(**given)[0].asnumpy().tolist() == [16, 26]
    executor = masked_sum().bind(mx.cpu(), given, args_grad={"x": nd.zeros((3, 2))}, grad_req={"x": "write"})
    for mask, results, gradient in (
        ([1, 0, 1], [16, 26], [[2, 4], [0, 0], [2, 4]]),
        ([0, 1, 0], [6, 10], [[0, 0], [2, 4], [0, 0]]),
    ):
        assert executor.forward(is_train=True, mask=nd.array(mask))[0].asnumpy().tolist() == results
        executor.backward(nd.array([1, 2]))
        assert executor.grad_dict["x"].asnumpy().tolist() == gradient
        assert executor.forward(is_train=False)[0].asnumpy().tolist() == results


def test_inference_leaves_the_extent_open() -> None:
    chosen = mx.sym.contrib.boolean_mask(mx.sym.var("x"), mx.sym.var("mask"))
    dense = mx.sym.FullyConnected(chosen, num_hidden=4, name="fc")
    assert chosen.infer_shape_partial(x=(3, 2)) == ([(3, 2), (3,)], [(0, 2)], [])
    assert dense.infer_shape_partial(x=(3, 2))[1] == [(0, 4)]
    assert chosen.infer_type(x="float16", mask="int32")[1] == [np.float16]
    with pytest.raises(mx.MXNetError, match="Shape inconsistent"):
        chosen.infer_shape_partial(x=(3, 2), mask=(4,))


def test_exported_blocks(tmp_path: Path) -> None:
    net = Masked()
    net.initialize()
    net.hybridize()
    x, mask = nd.array([[1, 2], [3, 5], [7, 11]]), nd.array([1, 0, 1])
    expected = [r.asnumpy() for r in net(x, mask)]
    net.export(str(tmp_path / "net"))
    loaded = mx.gluon.SymbolBlock.imports(
        str(tmp_path / "net-symbol.json"), ["data0", "data1"], str(tmp_path / "net-0000.params")
    )
    for a, b in zip(loaded(x, mask), expected, strict=True):
        assert np.array_equal(a.asnumpy(), b)
