"""Linear algebra: errors for matrices without a result, and hybridized blocks."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge import nd


@pytest.mark.parametrize(
    ("name", "matrix", "reason"),
    [
        ("potrf", [[1.0, 2.0], [2.0, 1.0]], "not positive definite"),
        ("potri", [[0.0, 0.0], [1.0, 1.0]], "diagonal has a zero"),
        ("inverse", [[1.0, 1.0], [1.0, 1.0]], "singular"),
    ],
)
def test_matrices_without_a_result_raise(name: str, matrix: list[list[float]], reason: str) -> None:
    x = nd.array(matrix)
    with pytest.raises(mx.MXNetError, match=rf"_linalg_{name}: .*{reason}\n  A: \(2, 2\) float32"):
        getattr(nd.linalg, name)(x)
    with pytest.raises(mx.MXNetError, match=reason):
        getattr(nd.linalg, name)(x, out=x)
    nan = getattr(nd.linalg, name)(nd.array(matrix) * float("nan"))  # NaN is not an error
    assert np.isnan(nan.asnumpy()).any()


def test_wrong_operands_are_refused_by_the_call() -> None:
    for call in (
        lambda: nd.linalg.potrf(nd.ones((2, 2), dtype="float16")),
        lambda: nd.linalg.det(nd.ones((2, 3))),
        lambda: nd.linalg.gelqf(nd.ones((3, 2))),
        lambda: nd.linalg.gemm2(nd.ones((2, 3)), nd.ones((2, 3))),
        lambda: nd.linalg.gemm2(nd.ones((2, 2, 3)), nd.ones((1, 3, 3))),
        lambda: nd.linalg.trsm(nd.ones((2, 2)), nd.ones((3, 2))),
        lambda: nd.linalg.maketrian(nd.ones((4,))),
        lambda: nd.linalg.extractdiag(nd.ones((3, 3)), offset=3),
    ):
        with pytest.raises(mx.MXNetError, match=r"_linalg_\w+: "):
            call()


class Whiten(mx.gluon.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        factor = F.linalg.potrf(F.linalg.syrk(x))
        vectors, values = F.linalg.syevd(F.linalg.syrk(x))
        return F.linalg.trsm(factor, x), F.linalg.sumlogdiag(factor), vectors, values, F.linalg_det(factor)


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_a_hybridized_block_of_factorizations_agrees(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXFORGE_TARGET", target)
    x = nd.array(np.random.default_rng(0).normal(size=(2, 3, 5)))
    block = Whiten()
    eager = block(x)
    block.hybridize()
    for result, expected in zip(block(x), eager, strict=True):
        np.testing.assert_allclose(result.asnumpy(), expected.asnumpy(), 2e-5, 2e-5)
    whitened = eager[0].asnumpy()
    np.testing.assert_allclose(whitened @ np.swapaxes(whitened, 1, 2), np.broadcast_to(np.eye(3), (2, 3, 3)), atol=1e-5)
