"""Sparse arrays beyond what the recorded programs show: where MXNet gives garbage, sizes, coordinates, isolation."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge import MXNetError, nd
from mxforge.frontend.ndarray import sparse_dot

sp = nd.sparse


def random_matrix(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Mostly zeros, with some empty rows and columns."""
    values = np.random.default_rng(seed).normal(size=(rows, columns))
    values[np.random.default_rng(seed + 1).random((rows, columns)) < 0.8] = 0
    return values.astype(np.float32)


X, Y = random_matrix(17, 11), random_matrix(17, 11, 5)


def test_products_of_two_csr_matrices() -> None:
    x, y = nd.array(X).tostype("csr"), nd.array(Y).tostype("csr")
    product: Any
    for product, expected in ((x * y, X * Y), (nd._internal._maximum(x, y), np.maximum(X, Y))):
        assert product.stype == "csr"
        product.check_format()
        np.testing.assert_array_equal(product.asnumpy(), expected)


@pytest.mark.parametrize("chunk", [1, 40, 1 << 22])
def test_dot_in_chunks(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_dot, "_CHUNK", chunk)
    x, right, left = nd.array(X).tostype("csr"), random_matrix(11, 5, 2), random_matrix(17, 3, 3)
    np.testing.assert_allclose(nd.dot(x, nd.array(right)).asnumpy(), X @ right, rtol=1e-5, atol=1e-6)
    turned = nd.dot(x, nd.array(left), transpose_a=True)
    assert turned.stype == "row_sparse"
    np.testing.assert_allclose(turned.asnumpy(), X.T @ left, rtol=1e-5, atol=1e-6)
    before = nd.dot(nd.array(left.T), x)
    assert before.stype == "csr"
    np.testing.assert_allclose(before.asnumpy(), left.T @ X, rtol=1e-5, atol=1e-6)


def test_dot_says_what_does_not_fit() -> None:
    with pytest.raises(MXNetError, match=r"dot: csr float32\[17, 11\] and default float32\[5, 2\] do not fit"):
        nd.dot(nd.array(X).tostype("csr"), nd.ones((5, 2)))


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums(axis: Any, keepdims: bool) -> None:
    x = nd.array(X).tostype("csr")
    for name in ("sum", "mean"):
        expected = getattr(nd, name)(nd.array(X), axis=axis, keepdims=keepdims)
        found = getattr(nd, name)(x, axis=axis, keepdims=keepdims)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)


def test_pieces_are_those_of_the_dense_matrix() -> None:
    x = nd.array(X).tostype("csr")
    for rows in (slice(0, 5), slice(3, 3), slice(-4, None), slice(2, 100)):
        np.testing.assert_array_equal(x[rows].asnumpy(), X[rows])
    assert [row.shape for row in x] == [(1, 11)] * 17
    np.testing.assert_array_equal(nd.slice(x, begin=(2, 3), end=(9, 7)).asnumpy(), X[2:9, 3:7])
    np.testing.assert_array_equal(nd.concat(x, x[:3], dim=0).asnumpy(), np.concatenate([X, X[:3]]))


def test_coordinates() -> None:
    data, rows, columns = [1.0, 2, 3, 4], [2, 0, 2, 2], [1, 3, 0, 1]
    x = sp.csr_matrix((data, (rows, columns)))
    assert x.shape == (3, 4) and x.data.asnumpy().tolist() == [2, 3, 5] and x.dtype is np.float64
    x.check_format()
    assert sp.csr_matrix((nd.array(data), (nd.array(rows), nd.array(columns))), shape=(5, 5)).shape == (5, 5)
    with pytest.raises(ValueError, match="outside"):
        sp.csr_matrix((data, (rows, columns)), shape=(2, 2))


def test_lookups_in_row_sparse_tables() -> None:
    table = sp.row_sparse_array((np.array([[5.0, 6], [1, 2]]), [3, 1]), shape=(5, 2))
    dense, rows = table.tostype("default"), nd.array([[0, 1], [3, 4]])
    np.testing.assert_array_equal(nd.take(table, rows).asnumpy(), nd.take(dense, rows).asnumpy())
    looked_up = nd.Embedding(rows, table, input_dim=5, output_dim=2)
    np.testing.assert_array_equal(looked_up.asnumpy(), nd.Embedding(rows, dense, input_dim=5, output_dim=2).asnumpy())
    kept = table.retain(nd.array([1, 2]))
    assert kept.indices.asnumpy().tolist() == [1, 2] and kept.data.asnumpy().tolist() == [[1, 2], [0, 0]]
    np.testing.assert_array_equal(table.retain(data=table, indices=nd.array([3])).asnumpy()[3], [5, 6])


def test_retain_in_a_graph() -> None:
    out = mx.sym.sparse.retain(mx.sym.var("x"), mx.sym.var("i"))
    found = out.bind(mx.cpu(), {"x": nd.ones((3, 2)), "i": nd.array([2, 0])}).forward()[0]
    assert found.asnumpy().tolist() == [[1, 1], [0, 0], [1, 1]]
    same = mx.sym.cast_storage(mx.sym.var("x"), stype="csr").bind(mx.cpu(), {"x": nd.ones((3, 2))}).forward()[0]
    assert same.asnumpy().tolist() == [[1, 1]] * 3


def test_writes_reach_no_other_array() -> None:
    x = nd.array(X).tostype("csr")
    copies = [x.copy(), x[:].copy(), x.detach(), x.astype("float32"), nd.array(x), x.as_in_context(mx.cpu(1))]
    x[:] = nd.zeros(X.shape)
    assert all((c.asnumpy() == X).all() for c in copies) and not x.asnumpy().any()


def test_shapes_follow_from_indices() -> None:
    assert sp.csr_matrix(([1, 2, 3], [1, 0, 2], [0, 1, 2, 3])).shape == (3, 3)


def test_names_of_the_module() -> None:
    assert sp.gs_retain is sp.retain and sp.CSRNDArray is nd.sparse.CSRNDArray
    with pytest.raises(AttributeError, match="asscipy"):
        nd.ones((2, 2)).tostype("row_sparse").asscipy()
    with pytest.raises(MXNetError, match="getnnz takes a csr matrix"):
        nd.contrib.getnnz(nd.ones((2, 2)))


def test_bad_indices_are_refused_when_made() -> None:
    for indptr, indices in (([0, 3], [0]), ([0, 1], [9]), ([0, 1], [-1])):
        with pytest.raises(MXNetError, match="CSRNDArray"):
            sp.csr_matrix(([1.0] * len(indices), indices, indptr), shape=(1, 3))


def test_scipy() -> None:
    scipy_sparse = pytest.importorskip("scipy.sparse")
    x = nd.array(X).tostype("csr")
    there = x.asscipy()
    assert there.shape == X.shape and (there.toarray() == X).all()
    for back in (nd.array(there), sp.array(there), sp.csr_matrix(there), sp.csr_matrix(scipy_sparse.csr_matrix(X))):
        assert back.stype == "csr" and (back.asnumpy() == X).all()
