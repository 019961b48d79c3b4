"""Windows, of which a thread reads its points one after the other, and products with vectors."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.codegen.triton import program_emitter
from mxforge.codegen.triton.schedule import TritonSchedule

pytestmark = pytest.mark.usefixtures("simulated_gpus")


@pytest.fixture
def schedules(monkeypatch: pytest.MonkeyPatch) -> list[TritonSchedule]:
    """The schedules of the kernels that are emitted."""
    seen: list[TritonSchedule] = []
    emit = program_emitter.emit_launches

    def emit_and_remember(kernel: object, schedule: TritonSchedule) -> object:
        seen.append(schedule)
        return emit(kernel, schedule)  # type: ignore[arg-type]

    monkeypatch.setattr(program_emitter, "emit_launches", emit_and_remember)
    return seen


@pytest.mark.parametrize(("kind", "size"), [("max", 3), ("avg", 2), ("sum", 3)])
def test_pooling(kind: str, size: int, schedules: list[TritonSchedule]) -> None:
    x = mx.nd.array(np.random.default_rng(0).normal(size=(2, 3, 21, 20)))
    x[0, 0, 0, 0] = float("nan")
    options = {"kernel": (size, size), "stride": (1, 1), "pad": (1, 1), "pool_type": kind}
    result, expected = mx.nd.Pooling(x.as_in_context(mx.gpu(0)), **options), mx.nd.Pooling(x, **options)
    np.testing.assert_allclose(result.asnumpy(), expected.asnumpy(), rtol=1e-6, atol=1e-6)
    assert [s.dims[-1].block for s in schedules if s.dims[-1].name == "r"] == [1]


def test_depthwise_convolution_with_gradients(schedules: list[TritonSchedule]) -> None:
    """No tensor cores; programs share the sum of a gradient of weights."""
    results = []
    for context in (mx.cpu(), mx.gpu(0)):
        layer: Any = mx.gluon.nn.Conv2D(32, 3, strides=2, padding=1, groups=32, in_channels=32)
        layer.initialize(mx.init.Constant(0.25), ctx=context)
        layer.hybridize(static_alloc=True, static_shape=True)
        x = mx.nd.array(np.random.default_rng(0).normal(size=(3, 32, 41, 40)), ctx=context)
        x.attach_grad()
        with mx.autograd.record():
            y: Any = layer(x)
            loss = (y * y).sum()
        loss.backward()
        arrays: list[Any] = [y, x.grad, layer.weight.grad(context), layer.bias.grad(context)]
        results.append([a.asnumpy() for a in arrays])
    for expected, result in zip(*results, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    plain = [s for s in schedules if s.plain]
    assert len(plain) > 2
    assert not any(d.name == "k" for s in schedules for d in s.dims)
    assert any(s.split > 1 for s in plain)
