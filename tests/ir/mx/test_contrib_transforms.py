"""Transforms that real MXNet computes only on GPUs, so there are no records: tested against their definitions."""

from __future__ import annotations

import mxforge as mx
import numpy as np
import pytest
from mxforge import nd

RANDOM = np.random.default_rng(1)


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("count", [1, 6, 33])
def test_fourier_transforms(target: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXFORGE_TARGET", target)
    x = RANDOM.normal(size=(2, 3, count)).astype("float32")
    pairs = nd.contrib.fft(nd.array(x))
    wanted = np.fft.fft(x)
    assert pairs.shape == (2, 3, 2 * count)
    np.testing.assert_allclose(pairs.asnumpy()[..., ::2], wanted.real, atol=1e-5)
    np.testing.assert_allclose(pairs.asnumpy()[..., 1::2], wanted.imag, atol=1e-5)
    np.testing.assert_allclose(nd.contrib.ifft(pairs).asnumpy() / count, x, atol=1e-5)
    mixed = RANDOM.normal(size=(4, count, 2)).astype("float32")
    back = nd.contrib.ifft(nd.array(mixed.reshape(4, 2 * count))).asnumpy()
    np.testing.assert_allclose(back, np.fft.ifft(mixed[..., 0] + 1j * mixed[..., 1]).real * count, atol=1e-5)


def test_the_inverse_requires_an_even_extent() -> None:
    with pytest.raises(mx.MXNetError, match="the last axis of data should have an even extent"):
        nd.contrib.ifft(nd.ones((2, 3)))


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_a_count_sketch_adds_signed_elements(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXFORGE_TARGET", target)
    x, places, signs = RANDOM.normal(size=(2, 3, 9)), RANDOM.integers(0, 4, (1, 9)), RANDOM.choice([-1, 1], (1, 9))
    wanted = np.zeros((2, 3, 4))
    for i in range(9):
        wanted[..., places[0, i]] += signs[0, i] * x[..., i]
    found = nd.contrib.count_sketch(nd.array(x), nd.array(places), nd.array(signs), out_dim=4)
    np.testing.assert_allclose(found.asnumpy(), wanted, atol=1e-5)
    with pytest.raises(mx.MXNetError, match="h and s should have 9 numbers"):
        nd.contrib.count_sketch(nd.array(x), nd.array(places[:, :5]), nd.array(signs), out_dim=4)
