"""Sparse arrays beyond the recorded programs: cases in which MXNet is wrong, sizes, coordinates, isolation."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest
import scipy.sparse
from mxforge import MXNetError, nd

sp = nd.sparse


def random_matrix(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """A matrix of mostly zeros, with some empty rows and columns."""
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


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_dot(dtype: str) -> None:
    """The second product with the transpose reads kept columns; a write to the matrix replaces them."""
    x, right, left = nd.array(X, dtype=dtype).tostype("csr"), random_matrix(11, 5, 2), random_matrix(17, 3, 3)
    rtol, atol = (1e-2, 1e-2) if dtype == "float16" else (1e-5, 1e-6)
    found = nd.dot(x, nd.array(right, dtype=dtype))
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_allclose(found.asnumpy(), X @ right, rtol, atol)
    for content in (X, X, Y):
        x[:] = nd.array(content, dtype=dtype).tostype("csr")
        transposed: Any = nd.dot(x, nd.array(left, dtype=dtype), transpose_a=True)
        assert transposed.stype == "row_sparse"
        transposed.check_format()
        np.testing.assert_allclose(transposed.asnumpy(), content.T @ left, rtol, atol)
        before = nd.dot(nd.array(left.T, dtype=dtype), x)
        assert before.stype == "csr"
        np.testing.assert_allclose(before.asnumpy(), left.T @ content, rtol, atol)


def test_dot_with_repeated_and_unsorted_columns() -> None:
    """Elements in one place are added."""
    parts = nd.array([1, 2, 3, 4]), nd.array([2, 0, 2, 2]), nd.array([0, 3, 3, 4])
    x = sp.csr_matrix(parts, shape=(3, 3))
    dense = np.array([[2, 0, 4], [0, 0, 0], [0, 0, 4]], np.float32)
    for width in (1, 20):
        y = random_matrix(3, width)
        np.testing.assert_allclose(nd.dot(x, nd.array(y)).asnumpy(), dense @ y)
        np.testing.assert_allclose(nd.dot(x, nd.array(y), transpose_a=True).asnumpy(), dense.T @ y)


def test_errors_of_dot_name_the_operands() -> None:
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


def test_slices_agree_with_the_dense_matrix() -> None:
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


class Halved(mx.gluon.HybridBlock):
    """A dense layer after an operator that keeps zeros zero."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = mx.gluon.nn.Dense(2, in_units=11, weight_initializer="ones")

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.square(x) / 2, self.dense(x)


def test_blocks_accept_sparse_data() -> None:
    net = Halved()
    net.initialize()
    x = nd.array(X).tostype("csr")
    for _ in range(2):
        halves, made = net(x)
        assert halves.stype == "csr" and made.stype == "default"
        np.testing.assert_allclose(halves.asnumpy(), X**2 / 2, rtol=1e-6)
        np.testing.assert_allclose(made.asnumpy(), np.repeat(X.sum(axis=1, keepdims=True), 2, axis=1), rtol=1e-5)
        net.hybridize()
    np.testing.assert_allclose(net(nd.array(X))[0].asnumpy(), X**2 / 2, rtol=1e-6)


def test_executors_on_sparse_arrays() -> None:
    symbol = mx.sym.dot(mx.sym.var("data", stype="csr"), mx.sym.var("w", stype="row_sparse"))
    x, weight = nd.array(X).tostype("csr"), random_matrix(11, 3, 9)
    bound = symbol.bind(mx.cpu(), {"data": x, "w": nd.array(weight).tostype("row_sparse")})
    made = symbol.simple_bind(mx.cpu(), grad_req="null", data=X.shape, w=(11, 3))
    assert (made.arg_dict["data"].stype, made.arg_dict["w"].stype) == ("csr", "row_sparse")
    made.arg_dict["w"][:] = nd.array(weight)
    for result in (bound.forward()[0], made.forward(data=x)[0], symbol.eval(data=x, w=nd.array(weight))[0]):
        np.testing.assert_allclose(result.asnumpy(), X @ weight, rtol=1e-5, atol=1e-6)
    dense = symbol.simple_bind(mx.cpu(), grad_req="null", stype_dict={"data": "default"}, data=X.shape, w=(11, 3))
    assert dense.arg_dict["data"].stype == "default"


def test_a_module_on_sparse_data() -> None:
    weight = mx.sym.var("fc_weight", stype="row_sparse", shape=(11, 2), init=mx.init.One())
    out = mx.sym.LinearRegressionOutput(mx.sym.dot(mx.sym.var("data", stype="csr"), weight), name="lro")
    module = mx.mod.Module(out, label_names=["lro_label"])
    module.bind([("data", X.shape)], [("lro_label", (17, 2))], for_training=False)
    module.init_params()
    module.forward(mx.io.DataBatch([nd.array(X).tostype("csr")], None), is_train=False)
    expected = np.repeat(X.sum(axis=1, keepdims=True), 2, axis=1)
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), expected, rtol=1e-4, atol=1e-5)


def test_writes_reach_no_other_array() -> None:
    x = nd.array(X).tostype("csr")
    copies = [x.copy(), x[:].copy(), x.detach(), x.astype("float32"), nd.array(x), x.as_in_context(mx.cpu(1))]
    x[:] = nd.zeros(X.shape)
    assert all((c.asnumpy() == X).all() for c in copies) and not x.asnumpy().any()


def test_shapes_are_inferred_from_indices() -> None:
    assert sp.csr_matrix(([1, 2, 3], [1, 0, 2], [0, 1, 2, 3])).shape == (3, 3)


def test_names_of_the_module() -> None:
    assert sp.gs_retain is sp.retain and sp.CSRNDArray is nd.sparse.CSRNDArray
    with pytest.raises(AttributeError, match="asscipy"):
        nd.ones((2, 2)).tostype("row_sparse").asscipy()
    with pytest.raises(MXNetError, match="getnnz takes a csr matrix"):
        nd.contrib.getnnz(nd.ones((2, 2)))


def test_bad_indices_are_refused_when_they_are_used() -> None:
    for indptr, indices in (([0, 3], [0]), ([0, 1], [9]), ([0, 1], [-1]), ([0, 1, 1], [0])):
        made = sp.csr_matrix(([1.0] * len(indices), indices, indptr), shape=(1, 3))
        for use in (made.asnumpy, made.copy().asnumpy, lambda: nd.dot(made, nd.ones((3, 2))), lambda: made + made):  # noqa: B023
            with pytest.raises(MXNetError, match="CSRNDArray"):
                use()
    rows = sp.row_sparse_array(([[1, 2]], [9]), shape=(3, 2))
    with pytest.raises(MXNetError, match="RowSparseNDArray: indices range from 9 to 9"):
        nd.sgd_update(nd.ones((3, 2)), rows, lr=0.1)


def test_scipy() -> None:
    x = nd.array(X).tostype("csr")
    there = x.asscipy()
    assert there.shape == X.shape and (there.toarray() == X).all()
    for back in (nd.array(there), sp.array(there), sp.csr_matrix(there), sp.csr_matrix(scipy.sparse.csr_matrix(X))):
        assert back.stype == "csr" and (back.asnumpy() == X).all()


def rows_like(values: Any) -> Any:
    return mx.nd.array(values).tostype("row_sparse")


def test_row_sparse_gradients_are_added() -> None:
    """MXNet overwrites them."""
    table, ids = mx.nd.ones((5, 2)), mx.nd.array([3, 1, 3])
    table.attach_grad("add", stype="row_sparse")
    for _ in range(2):
        with mx.autograd.record():
            loss = mx.nd.Embedding(ids, table, input_dim=5, output_dim=2, sparse_grad=True).sum()
        loss.backward()
    grad: Any = table.grad
    assert grad.indices.asnumpy().tolist() == [1, 3]
    assert grad.data.asnumpy().tolist() == [[2, 2], [4, 4]]


@pytest.mark.parametrize("hybridize", [False, True])
def test_gradients_of_embeddings_make_no_dense_array(hybridize: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dense gradient would have 8 GB."""
    from mxforge.frontend.ndarray import tape

    seen: list[tuple[int, ...]] = []
    original = tape.empty_array

    def watched(shape: tuple[int, ...], *rest: Any) -> Any:
        seen.append(shape)
        return original(shape, *rest)

    monkeypatch.setattr(tape, "empty_array", watched)
    net = mx.gluon.nn.Embedding(1000, 4, sparse_grad=True)
    net.initialize()
    if hybridize:
        net.hybridize()
    with mx.autograd.record():
        loss = (net(mx.nd.array([[5, 7], [5, 999]])) * 2).sum()
    loss.backward()
    assert seen and all(shape[:1] != (1000,) for shape in seen)
    grad: Any = net.weight.grad()
    assert grad.indices.asnumpy().tolist() == [5, 7, 999]
    assert grad.data.asnumpy()[:, 0].tolist() == [4, 2, 2]


def test_updates_of_rows_reach_no_other_array() -> None:
    store = mx.kv.create()
    given = rows_like(np.ones((4, 2)))
    store.init("w", given)
    store.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
    seen = []
    for _ in range(3):
        store.push("w", rows_like([[0, 0], [1, 1], [0, 0], [0, 0]]))
        out = mx.nd.sparse.zeros("row_sparse", (4, 2))
        store.pull("w", out=out, ignore_sparse=False)
        seen.append(out)
    assert given.asnumpy().tolist() == [[1, 1]] * 4
    assert [out.asnumpy()[:, 0].tolist() for out in seen] == [[1, 0, 1, 1], [1, -1, 1, 1], [1, -2, 1, 1]]


def test_rows_out_of_range_are_named() -> None:
    store = mx.kv.create()
    store.init("w", rows_like(np.ones((4, 2))))
    out = mx.nd.sparse.zeros("row_sparse", (4, 2))
    with pytest.raises(mx.MXNetError, match=r"row_ids 1\.\.4 of 'w', which has 4 rows"):
        store.row_sparse_pull("w", out=out, row_ids=mx.nd.array([1, 4]))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_sums_of_rows(dtype: str) -> None:
    from mxforge.frontend.ndarray.row_sums import row_sum

    rng = np.random.RandomState(0)
    numbers, rows = rng.randint(0, 6, 40), rng.randn(40, 3).astype(dtype)
    found = row_sum(mx.nd.array(numbers, dtype="int64"), mx.nd.array(rows, dtype=dtype), (9, 3))
    expected = np.zeros((9, 3))
    np.add.at(expected, numbers, rows)
    assert found.dtype == np.dtype(dtype) and found.indices.asnumpy().tolist() == sorted({*numbers.tolist()})
    np.testing.assert_allclose(found.asnumpy(), expected, 1e-2 if dtype == "float16" else 1e-5, 1e-2)
    empty = row_sum(mx.nd.array([], dtype="int64"), mx.nd.zeros((1, 3))[0:0], (9, 3))
    assert empty.asnumpy().sum() == 0


class Triple(mx.autograd.Function):
    def forward(self, *inputs: Any) -> Any:
        return inputs[0] * 3

    def backward(self, *gradients: Any) -> Any:
        return gradients[0] * 3


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
@pytest.mark.parametrize(
    ("before", "factor"),
    [
        (lambda w: w.reshape((6, 2)), 1),
        (lambda w: w.reshape((6, 2)) * 2, 2),
        (lambda w: Triple()(w.reshape((6, 2))), 3),
        (lambda w: w.reshape((6, 2)).as_in_context(mx.cpu(1)).as_in_context(mx.cpu(0)), 1),
    ],
    ids=["reshape", "product", "function", "copy"],
)
def test_the_gradient_of_dot_goes_on_to_dense_calls(before: Any, factor: int, stype: str) -> None:
    random = np.random.RandomState(0)
    matrix = (random.rand(4, 6) > 0.6) * random.rand(4, 6)
    w: Any = mx.nd.array(random.rand(3, 4))
    w.attach_grad(stype=stype)
    with mx.autograd.record():
        y = mx.nd.sparse.dot(mx.nd.array(matrix).tostype("csr"), before(w))
    y.backward(mx.nd.array([[1, 2]] * 4))
    assert w.grad.stype == stype
    expected = factor * matrix.T @ np.array([[1, 2]] * 4)
    np.testing.assert_allclose(w.grad.asnumpy(), expected.reshape(3, 4), rtol=1e-5)
